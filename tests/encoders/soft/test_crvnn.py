"""CRvNN: packed steps against plain ones, neighbours against their definition, halting."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu

from lrbench.checks import from_a_user
from lrbench.encoders.soft.crvnn import (
    ComposingStrings,
    Crvnn,
    CrvnnConfig,
    neighbours,
    plain_neighbours,
)
from lrbench.models.build import count_parameters
from lrbench.models.classifier import Classifier, ClassifierConfig

from ..agreement import assert_same_as_reference

LENGTHS = torch.tensor([5, 1, 13, 8, 2, 13, 9])


def encoder_of(width: int, peaked: float = 1.0, **settings: Any) -> Crvnn:
    torch.manual_seed(0)
    encoder = Crvnn(CrvnnConfig(**settings), width).double()
    with torch.no_grad():
        encoder.composition.score.weight.mul_(peaked)
        encoder.composition.score.bias.add_(1)
    return encoder


def strings(width: int, more: int = 0) -> tuple[Tensor, Tensor]:
    mask = torch.arange(int(LENGTHS.max()) + more) < LENGTHS[:, None]
    x = torch.randn(*mask.shape, width, dtype=torch.float64)
    return (x * mask[..., None]).requires_grad_(), mask


def by_definition(e: Tensor) -> tuple[Tensor, Tensor]:
    """Walk from each position to either side and take what exists until it adds up to 1."""
    matrices = torch.zeros(2, *e.shape, e.shape[1], dtype=e.dtype)
    for n, row in enumerate(e.unbind(0)):
        for i in range(len(row)):
            for side, walk in enumerate((range(i - 1, -1, -1), range(i + 1, len(row)))):
                left = torch.ones((), dtype=e.dtype)
                for j in walk:
                    taken = torch.minimum(row[j], left)
                    matrices[side, n, i, j] = taken
                    left = left - taken
    return matrices[0], matrices[1]


@pytest.mark.parametrize("hard", [False, True])
def test_neighbours_are_their_definition(hard: bool) -> None:
    e = torch.rand(4, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    e = e.round() if hard else e
    for way in (neighbours, plain_neighbours):
        for found, expected in zip(way(e), by_definition(e), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("way", [neighbours, plain_neighbours])
def test_neighbours_have_the_gradient_of_their_definition(way: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    e = torch.rand(4, 9, generator=generator, dtype=torch.float64).requires_grad_()
    weight = torch.randn(2, 4, 9, 9, generator=generator, dtype=torch.float64)
    found, expected = (
        torch.autograd.grad((torch.stack(sides) * weight).sum(), e)
        for sides in (way(e), by_definition(e))
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_hard_neighbours_are_the_next_that_exist() -> None:
    left, right = neighbours(torch.tensor([[1.0, 0, 0, 1, 1, 0, 1]]))
    assert right[0].argmax(1).tolist()[:6] == [3, 3, 3, 4, 6, 6]
    assert left[0].argmax(1).tolist()[1:] == [0, 0, 0, 3, 4, 4]
    assert right[0].sum(1).tolist() == [1, 1, 1, 1, 1, 1, 0]
    assert left[0].sum(1).tolist() == [0, 1, 1, 1, 1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", ["0", "1"])
@pytest.mark.parametrize("peaked", [1.0, 20.0])
@pytest.mark.parametrize("settings", [{}, {"halt": False}, {"kept": 0.0}, {"released": True}])
def test_packed_steps_equal_plain_ones(
    settings: dict[str, Any], peaked: float, compiled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LRBENCH_COMPILED", compiled)
    encoder = encoder_of(16, peaked, **settings)
    x, mask = strings(16, more=2)
    assert_same_as_reference(encoder, x, mask)


def test_a_step_without_tokens_that_are_gone_is_the_same_step() -> None:
    encoder = encoder_of(8, peaked=3.0, dropout=0.0)
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([9, 4, 30, 18])
    h = torch.randn(4, 32, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 32, 9, generator=generator, dtype=torch.float64)
    lasts = torch.arange(32) >= lengths[:, None]
    stays = (torch.rand(4, 32, generator=generator) < 0.5) | lasts
    stays[:, 0] = True
    found = []
    for drops in (False, True):
        batch = ComposingStrings.of(h, lengths)
        gone = 1e-16 * torch.rand(4, 32, generator=generator, dtype=torch.float64)
        batch.e = batch.e * torch.where(stays, 1.0, gone)
        if drops:
            batch.drop()
            assert batch.h.shape[1] < 24
        after, e = encoder.composition.step(batch.h, batch.e, batch.strings, None)
        after = torch.cat([after, e[..., None]], 2)
        whole = torch.zeros(4, 33, 9, dtype=torch.float64)
        places = batch.places.where(batch.strings.real, 32)[..., None].expand_as(after)
        whole = whole.scatter(1, places, after)[:, :32] * stays[..., None]
        wanted = [h, *encoder.composition.parameters()]
        found.append([whole, *torch.autograd.grad((whole * weight).sum(), wanted)])
    for without, beside in zip(*found, strict=True):
        torch.testing.assert_close(without, beside, rtol=1e-12, atol=1e-12)


def test_tokens_that_are_gone_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores in the tens merge tokens for good, and enlarge rounding: the tolerance is theirs."""
    encoder = encoder_of(8, peaked=60.0, dropout=0.0)
    with torch.no_grad():
        encoder.composition.score.bias.add_(3)
    lengths = torch.tensor([80, 3, 40, 1])
    mask = torch.arange(80) < lengths[:, None]
    torch.manual_seed(1)
    x = torch.randn(4, 80, 8, dtype=torch.float64)
    sizes: list[int] = []
    step = encoder.composition.step

    def counted(h: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        sizes.append(h.shape[1])
        return step(h, *rest)

    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(encoder.composition, "step", counted)
        found, reference = encoder(x, mask), encoder.reference(x, mask)
    torch.testing.assert_close(found, reference, rtol=0, atol=1e-6)
    assert min(sizes) < 50 < max(sizes)

    h = torch.randn(4, 82, 8, dtype=torch.float64)
    histories: list[list[Tensor]] = [[], []]
    for halt, history in zip((True, False), histories, strict=True):
        encoder.composition(h, lengths, halt=halt, history=history)
    for ours, whole in zip(*histories, strict=False):
        torch.testing.assert_close(ours[:, 1:81][mask], whole[:, 1:81][mask], rtol=0, atol=1e-6)


def test_strings_halt_before_their_length() -> None:
    """Eager merges leave one token of 13 after a few steps, and the same result either way."""
    encoder = encoder_of(8, peaked=5.0)
    with torch.no_grad():
        encoder.composition.score.bias.add_(8)
    x, mask = strings(8)
    history: list[Tensor] = []
    lengths = mask.sum(1)
    h = torch.randn(len(x), mask.shape[1] + 2, 8, dtype=torch.float64)
    halted = encoder.composition(h, lengths, history=history)
    assert len(history) < 13
    assert int(((history[-1] > 0.1).sum(1) - 2).max()) == 1
    timed = encoder.composition(h, lengths, halt=False)
    torch.testing.assert_close(halted, timed, rtol=1e-12, atol=1e-12)


def as_released(encoder: Crvnn, x: Tensor, mask: Tensor) -> Tensor:
    """Return what the released code returns, token by token and string by string.

    A string may take a step while fewer than its length have been taken before, or as many. All
    scores are divided by the largest of every position of the padded batch; each of four
    numbers that are added up has a small one beside it.
    """
    parts, lengths = encoder.composition, mask.sum(1).tolist()
    size = max(lengths) + 2
    h = torch.zeros(len(x), size, x.shape[2], dtype=x.dtype)
    for n, length in enumerate(lengths):
        h[n, : length + 2] = encoder.leaf(
            torch.cat([encoder.ends[:1], x[n, :length], encoder.ends[1:]])
        )
    e = (torch.arange(size) < mask.sum(1)[:, None] + 2).to(x.dtype)
    goes_on = [True] * len(x)
    for step in range(1, max(lengths) + 1):
        left, right = by_definition(e)
        near = left @ h, right @ h
        window = torch.cat([left @ near[0], near[0], h, near[1], right @ near[1]], 2)
        score = parts.score(gelu(parts.window(window)))[..., 0]
        most = max(float(score.max()), 0.0)
        after, existing = h.clone(), e.clone()
        for n, length in enumerate(lengths):
            c = torch.zeros(size, dtype=x.dtype)
            c[1:length] = (score[n, 1:length] - most).exp()
            four = torch.stack([c, torch.full_like(c, -most).exp(), left[n] @ c, right[n] @ c])
            p = c / (four + 1e-8).sum(0)
            if goes_on[n]:
                a = (left[n] @ p)[:, None]
                parents = parts.cell.reference(torch.cat([near[0][n], h[n]], 1))
                after[n, : length + 2] = (a * parents + (1 - a) * h[n])[: length + 2]
                existing[n] = e[n] * (1 - p)
            left_over = int((existing[n] > 0.1).sum()) - 2
            goes_on[n] = left_over > 1 and length >= step
        h, e = after, existing
    return h[torch.arange(len(x)), mask.sum(1)]


def test_as_released_a_string_depends_on_the_others_of_its_batch() -> None:
    encoder = encoder_of(8, peaked=3.0, released=True)
    with torch.no_grad():
        encoder.composition.score.bias.sub_(2)  # few merges, so that strings take all their steps
    x, mask = strings(8)
    with torch.no_grad():
        found = encoder(x, mask)
        torch.testing.assert_close(found, as_released(encoder, x, mask), rtol=0, atol=1e-12)
        torch.testing.assert_close(encoder.reference(x, mask), found, rtol=0, atol=1e-12)
        alone = torch.cat(
            [
                encoder(x[[n], :length], mask[[n], :length])
                for n, length in enumerate(LENGTHS.tolist())
            ]
        )
    differs = (found - alone).abs().amax(1) > 1e-4
    assert differs.any() and not differs[(LENGTHS == 1) | (LENGTHS == 13)].any()


def test_steps_that_are_run_again_drop_the_same() -> None:
    found = []
    for kept in (4.0, 0.0):
        encoder = encoder_of(8, kept=kept, dropout=0.4)
        torch.manual_seed(1)
        x, mask = strings(8)
        generator = torch.Generator().manual_seed(3)
        y = encoder(x, mask, generator)
        found.append([y, *torch.autograd.grad(y.sum(), [x, *encoder.parameters()])])
        found[-1].append(generator.get_state())
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_pieces_of_a_batch_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = encoder_of(8)
    x, mask = strings(8)
    expected = encoder(x, mask)
    monkeypatch.setattr("lrbench.encoders.soft.crvnn.CELLS", 200)
    with torch.no_grad():
        torch.testing.assert_close(encoder(x, mask), expected, rtol=1e-12, atol=1e-12)


def test_parameters_of_the_paper() -> None:
    model = Classifier(ClassifierConfig(), Crvnn(CrvnnConfig(), 128), 15, 10)
    assert count_parameters(model) == 513_803


def test_settings_out_of_range() -> None:
    words = r"halt=false is for model\.encoder\.released=false"
    with from_a_user(), pytest.raises(ValueError, match=words):
        CrvnnConfig(halt=False, released=True)
    with pytest.raises(ValueError, match="kept must be"):
        CrvnnConfig(kept=-1.0)
    with pytest.raises(ValueError, match="must be in"):
        CrvnnConfig(dropout=1.0)
