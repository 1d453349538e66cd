"""The levels of recursion in recursion against the released loop; calls of the inner encoder."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from lrbench.encoders.rir.base import RirConfig, RirEncoder, levels_of

LENGTHS = torch.tensor([5, 1, 19, 8, 2, 17, 4])
MASK = torch.arange(19) < LENGTHS[:, None]


class Summed(RirEncoder):
    """An inner encoder that sums a chunk's vectors by the number of their position, and 0.5."""

    calls = 0

    def inner(self, x: Tensor, mask: Tensor, generator: torch.Generator | None) -> Tensor:
        self.calls += 1
        assert bool(mask[:, 0].all()), "chunks of padding alone are not there"
        assert not x[~mask].any()
        places = torch.arange(1.0, x.shape[1] + 1, dtype=x.dtype)
        return torch.einsum("ncd,c->nd", x, places) + 0.5

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.recurse(self.inner, x, mask, generator)


def released(encoder: Summed, x: Tensor, mask: Tensor, k: int) -> Tensor:
    """The loop of the paper's code over padded chunks."""
    h: Tensor = encoder.leaves.map(x) * mask[..., None]
    while (size := h.shape[1]) > 1:
        c = k if size >= k + k // 2 else size
        more = -size % c
        h, mask = pad(h, (0, 0, 0, more)), pad(mask, (0, more))
        chunks, inside = h.unflatten(1, (-1, c)), mask.unflatten(1, (-1, c))
        mask = inside[:, :, 0]
        places = torch.arange(1.0, c + 1, dtype=x.dtype)
        h = (torch.einsum("nscd,c->nsd", chunks, places) + 0.5) * mask[..., None]
    return h[:, 0]


@pytest.mark.parametrize("chunk", [2, 3, 4, 5, 8, 12, 13, 30])
def test_levels_are_those_of_the_released_loop(chunk: int) -> None:
    torch.manual_seed(0)
    encoder = Summed(RirConfig(chunk=chunk, s4d=False), 4).double()
    x = torch.randn(*MASK.shape, 4, dtype=torch.float64)
    for mask in (MASK, MASK[:5, :8], MASK[:2, :5]):
        of = x[: len(mask), : mask.shape[1]].clone().requires_grad_()
        leaves, found = [of, *encoder.parameters()], []
        for y in (encoder(of, mask), released(encoder, of, mask, chunk)):
            found.append([y, *torch.autograd.grad((y * y.detach()).sum(), leaves)])
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("chunk", "levels"), [(2, 5), (4, 2), (13, 2), (14, 1)])
def test_the_inner_encoder_is_called_once_a_level(chunk: int, levels: int) -> None:
    encoder = Summed(RirConfig(chunk=chunk, s4d=False), 4)
    encoder(torch.randn(*MASK.shape, 4), MASK)
    assert encoder.calls == levels


def test_padding_changes_nothing_below_one_and_a_half_chunks() -> None:
    torch.manual_seed(0)
    encoder = Summed(RirConfig(chunk=30, s4d=False), 4)
    x = torch.randn(*MASK.shape, 4)
    found = {}
    for size in (19, 44, 45):
        more = size - MASK.shape[1]
        found[size] = encoder(pad(x, (0, 0, 0, more)), pad(MASK, (0, more)))
    assert torch.equal(found[44], found[19])
    assert not torch.allclose(found[45], found[19])


def test_by_row_a_string_is_read_as_if_it_were_alone() -> None:
    torch.manual_seed(0)
    settings: dict[str, Any] = {"chunk": 4, "s4d": False}
    by_row = Summed(RirConfig(chunk_decision="row", **settings), 4).double()
    by_batch = Summed(RirConfig(**settings), 4).double()
    by_batch.load_state_dict(by_row.state_dict())
    x = torch.randn(*MASK.shape, 4, dtype=torch.float64)
    found = by_row(x, MASK)
    for n, length in enumerate(LENGTHS.tolist()):
        alone = x[n : n + 1, :length], MASK[n : n + 1, :length]
        torch.testing.assert_close(found[n : n + 1], by_batch(*alone))
    assert not torch.allclose(found, by_batch(x, MASK))


def test_full_inference_is_one_chunk_in_evaluation_only() -> None:
    encoder = Summed(RirConfig(chunk=4, s4d=False, inference="full"), 4)
    assert [len(encoder.levels(MASK, training)) for training in (False, True)] == [1, 2]


def test_levels_of_the_paper() -> None:
    """k = 30: 100 positions become 4 and 1; 1,000 34 and 1; 2,000 67, 3 and 1; 44 stay whole."""
    for length, counts in (
        (44, [1]),
        (45, [2, 1]),
        (100, [4, 1]),
        (1000, [34, 1]),
        (2000, [67, 3, 1]),
    ):
        assert [len(level.lengths) for level in levels_of([length], length, 30)] == counts
