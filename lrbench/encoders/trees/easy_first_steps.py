"""A step of the search over easy-first trees: which merges, and tables of pairs after them.

In torch, or compiled (`lrbench/scan/compiled/easy_first.py`): the same up to rounding. Tables are
as wide as strings are long, and every step reads them: for long strings that takes most time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lrbench.encoders.trees.choice import LOG_FLOOR, gumbel, masked_log_softmax, top_k
from lrbench.scan.compiled.compiler import DTYPES, array, usable


@dataclass
class Beams:
    """The beams of n strings: numbers of their pairs (n, B, P), scores and validity (n, B).

    shares (n, B, P): what each pair has had of softmax so far; None where no gradient is wanted.
    """

    pairs: Tensor
    shares: Tensor | None
    scores: Tensor
    valid: Tensor

    def first(self, rows: int) -> Beams:
        """Return those of the first `rows` strings."""
        shares = None if self.shares is None else self.shares[:rows]
        return Beams(self.pairs[:rows], shares, self.scores[:rows], self.valid[:rows])


@dataclass(frozen=True)
class Choice:
    """Beams (n, B) that stay: the beam each comes from, the pair it merges, score, validity."""

    parents: Tensor
    places: Tensor
    scores: Tensor
    valid: Tensor


def choose(
    scores: Tensor, beams: Beams, left: Tensor, beam: int, generator: torch.Generator | None
) -> Choice:
    """Choose merges; adds the softmax of this step to what pairs have had.

    scores: of all pairs. left (n,): the pairs that a string has, its first ones.
    """
    rows, before, count = beams.pairs.shape
    each = min(count, beam)
    noise: list[Tensor | None] = [None, None]
    if generator is not None:
        noise[0] = gumbel((rows, before, count), generator, scores)
        if before * each > beam:
            noise[1] = gumbel((rows, before * each), generator, scores)
    way = _choose_compiled if usable(scores) else _choose
    return way(scores, beams, left, beam, noise)


def _choose(
    scores: Tensor, beams: Beams, left: Tensor, beam: int, noise: list[Tensor | None]
) -> Choice:
    logits = scores[beams.pairs]
    rows, before, count = logits.shape
    each = min(count, beam)
    ok = (torch.arange(count, device=left.device) < left[:, None])[:, None].expand_as(logits)
    places = top_k(logits if noise[0] is None else logits + noise[0], ok, each)
    logs = masked_log_softmax(logits, ok)
    proposed = (beams.scores[..., None] + logs.gather(2, places)).flatten(1)
    valid = beams.valid[..., None].expand(rows, before, each).flatten(1)
    if before * each > beam:
        kept = top_k(proposed if noise[1] is None else proposed + noise[1], valid, beam)
    else:
        kept = torch.arange(before * each, device=left.device).expand(rows, -1)
    if beams.shares is not None:
        beams.shares = beams.shares + logs.exp()
    where = places.flatten(1).gather(1, kept)
    return Choice(kept // each, where, proposed.gather(1, kept), valid.gather(1, kept))


def _choose_compiled(
    scores: Tensor, beams: Beams, left: Tensor, beam: int, noise: list[Tensor | None]
) -> Choice:
    from lrbench.scan.compiled.easy_first import choose_loop

    rows, before, count = beams.pairs.shape
    each = min(count, beam)
    shape = rows, min(before * each, beam)
    parents, places = beams.pairs.new_empty(2, *shape)
    chosen = Choice(parents, places, scores.new_empty(shape), beams.valid.new_empty(shape))
    none, tracks = scores.new_empty(1, 0, 0), beams.shares is not None
    loop = choose_loop(noise[0] is not None, tracks, DTYPES[scores.dtype])
    given = beams.pairs, scores, left, beams.scores, beams.valid
    drawn = [none if noise[0] is None else noise[0], none[0] if noise[1] is None else noise[1]]
    filled = parents, places, chosen.scores, chosen.valid
    shares = none if beams.shares is None else beams.shares
    loop(*map(array, given), each, LOG_FLOOR, *map(array, (*drawn, *filled)), array(shares))
    return chosen


def move(beams: Beams, chosen: Choice, made: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return numbers and shares (n, B, P - 1) after merges.

    made (n, B, 2): the new pairs left and right of each merge, where there is such a pair.
    """
    if usable(beams.scores):
        return _move_compiled(beams, chosen, made)
    rows, _, count = beams.pairs.shape
    steps = torch.arange(count - 1, device=made.device)
    after = steps >= chosen.places[..., None]
    source = (chosen.parents[..., None] * count + steps + after).flatten(1)
    # a pair's place before the merge is one less than in a table with edges
    around = chosen.places[..., None] + torch.arange(2, device=made.device)

    def moved(old: Tensor, fresh: Tensor) -> Tensor:
        table = old.new_empty(*made.shape[:2], count + 1)
        table[..., 1:-1] = old.flatten(1).gather(1, source).view(rows, -1, count - 1)
        return table.scatter_(2, around, fresh)[..., 1:-1]

    if beams.shares is None:
        return moved(beams.pairs, made), None
    nothing = torch.zeros_like(made, dtype=beams.shares.dtype)
    return moved(beams.pairs, made), moved(beams.shares, nothing)


def _move_compiled(beams: Beams, chosen: Choice, made: Tensor) -> tuple[Tensor, Tensor | None]:
    from lrbench.scan.compiled.easy_first import move_loop

    shape = *made.shape[:2], beams.pairs.shape[2] - 1
    numbers, tracks = beams.pairs.new_empty(shape), beams.shares is not None
    none = beams.scores.new_empty(0, 0, 0)
    had, shares = (none, none) if beams.shares is None else (beams.shares, none.new_empty(shape))
    loop = move_loop(tracks, DTYPES[beams.scores.dtype])
    given = beams.pairs, had, chosen.parents, chosen.places, made
    loop(*map(array, (*given, numbers, shares)))
    return numbers, shares if tracks else None
