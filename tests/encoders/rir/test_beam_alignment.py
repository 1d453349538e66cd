"""Beam alignment: what stays, what is drawn and how often."""

from __future__ import annotations

import torch

from lrbench.encoders.rir.base import levels_of
from lrbench.encoders.rir.rir_ebt_grc import aligned, hashed

ROWS = 40_000
SCORES = torch.tensor([0.3, -1.0, 2.0, 5.0], dtype=torch.float64).expand(ROWS, 4)
VALID = torch.tensor([True, True, True, False]).expand(ROWS, 4)
SEVERAL = torch.arange(ROWS) % 2 == 0


def drawn(way: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    uniform = torch.rand(ROWS, 4, generator=generator, dtype=torch.float64)
    return aligned(SCORES, VALID, SEVERAL, uniform, way)


def test_beam_zero_and_strings_of_one_chunk_stay() -> None:
    for way in ("beam", "random", "none"):
        chosen = drawn(way)
        assert not chosen[:, 0].any()
        assert bool((chosen[~SEVERAL] == torch.arange(4)).all())
    assert bool((drawn("none") == torch.arange(4)).all())


def test_others_are_drawn_by_their_scores_or_alike() -> None:
    for way, expected in (("beam", SCORES[0, :3].softmax(0)), ("random", torch.full((3,), 1 / 3))):
        chosen = drawn(way)[SEVERAL][:, 1:].flatten()
        shares = torch.bincount(chosen, minlength=4) / len(chosen)
        torch.testing.assert_close(shares[:3], expected.float(), atol=0.01, rtol=0)
        assert shares[3] == 0, "beams that are none are not drawn"


def test_draws_of_evaluation_belong_to_a_string() -> None:
    lengths = [50, 64, 47, 50]
    level = levels_of(lengths, 70, 5)[0]
    uniform = hashed(level, 0, lengths, 7)
    assert uniform.shape == (len(level.strings), 7)
    assert torch.equal(uniform[level.strings == 0], uniform[level.strings == 3])
    assert not torch.equal(uniform[level.strings == 0][:9], uniform[level.strings == 1][:9])
    alone = hashed(levels_of([47], 47, 5)[0], 0, [47], 7)
    assert torch.equal(uniform[level.strings == 2], alone)
    many = hashed(levels_of([4000], 4000, 2)[0], 1, [4000], 7)
    assert float(many.min()) >= 0 and float(many.max()) < 1
    assert abs(float(many.mean()) - 0.5) < 0.01
    assert abs(float(many.var()) - 1 / 12) < 0.003
