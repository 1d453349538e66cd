"""The compiled loss equals torch's cross-entropy, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from lrbench.kernels.choice import installed
from lrbench.kernels.cross_entropy import WIDE, mean_cross_entropy
from lrbench.tasks.base import IGNORE


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("positions", [WIDE, 5 * WIDE, WIDE + 3])
@pytest.mark.parametrize(
    ("dtype", "classes"),  # 65 are not compiled
    [*((torch.float32, n) for n in (1, 5, 65)), *((torch.float64, n) for n in (2, 65))],
)
def test_equals_torch(smoothing: float, classes: int, positions: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(classes)
    logits = 5 * torch.randn(classes, positions, generator=generator, dtype=dtype)
    targets = torch.randint(classes, (positions,), generator=generator)
    targets[::3] = IGNORE
    logits.requires_grad_()
    ours = mean_cross_entropy(logits, targets, smoothing)
    theirs = cross_entropy(logits.T, targets, ignore_index=IGNORE, label_smoothing=smoothing)
    torch.testing.assert_close(ours, theirs)
    slopes = [torch.autograd.grad(3 * loss, logits)[0] for loss in (ours, theirs)]
    torch.testing.assert_close(*slopes)


def test_logits_of_any_size_are_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0, 80.0]]).repeat(5, WIDE // 4)
    logits[1] *= -1
    targets = torch.zeros(WIDE, dtype=torch.long)
    ours = mean_cross_entropy(logits, targets)
    torch.testing.assert_close(ours, cross_entropy(logits.T, targets))


def test_what_diverged_is_not_a_number() -> None:
    logits = torch.full((5, WIDE), torch.nan)
    assert mean_cross_entropy(logits, torch.zeros(WIDE, dtype=torch.long)).isnan()
    nothing = torch.full((WIDE,), IGNORE)
    assert mean_cross_entropy(torch.zeros(5, WIDE), nothing).isnan()


@pytest.mark.parametrize("logits", [(3, 5), (3, WIDE - 1), (WIDE, 3), (3,), (3, WIDE, 1)])
def test_logits_of_other_positions_are_refused(logits: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not belong together"):
        mean_cross_entropy(torch.zeros(logits), torch.zeros(WIDE, dtype=torch.long))


@pytest.mark.skipif(not installed(), reason="torch words it in its own way")
def test_a_target_that_is_no_class_is_refused() -> None:
    targets = torch.full((WIDE,), 5)
    with pytest.raises(IndexError, match="among the classes"):
        mean_cross_entropy(torch.zeros(5, WIDE), targets)


def test_a_class_that_is_ruled_out_counts_nothing() -> None:
    """A masked class has a logit of -inf; times a smoothing of 0 that was no number."""
    logits = torch.randn(5, WIDE, generator=torch.Generator().manual_seed(0))
    logits[3] = -torch.inf
    targets = torch.arange(WIDE) % 3
    torch.testing.assert_close(
        mean_cross_entropy(logits, targets), cross_entropy(logits.T, targets)
    )
