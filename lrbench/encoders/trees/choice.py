"""The choice of merges in a beam search: floored softmax, Gumbel noise, top k, tables after it.

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449) and their released code. A masked softmax there is

    s = softmax over everything, times the mask, + 1e-20, divided by its sum

Here numbers outside of the mask are -inf before the softmax and log s is at least log 1e-20: the
same but for what is smaller than that floor, and no padding has a share in a sum. The k largest of
values perturbed by Gumbel noise are k draws without replacement (Kool et al. 2019).

Tables of pairs are as wide as strings are long, and every step reads them: for long strings that
takes most time, and is compiled. In loops n strings have B beams of P pairs each before a step,
`beams` of P - 1 after it; tables are C-contiguous, and what is filled comes last.

Random numbers come from the run's generator in turn, or from a source for each step and purpose. In
the second case a search and every later pass over its steps (a backward, a reference) draw the same
numbers without keeping them. Those of a step are of the rows that are still merging, in their
order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.compiler import Loop, array, compiled, part

FLOOR = 1e-20
LOG_FLOOR = math.log(FLOOR)
PAIRS, BEAMS, CELLS = range(3)  # what for: choosing pairs, choosing beams, dropout
PURPOSES = 3
SEEDS = 1 << 48

Noise = tuple[Tensor | None, Tensor | None]  # of pairs and of proposals
Kept = slice | Tensor  # which strings go on
BeamState = tuple[Tensor, Tensor, Tensor]


def masked_log_softmax(logits: Tensor, valid: Tensor) -> Tensor:
    """Return log s over the last axis of logits (.., P), at least log 1e-20; valid is bool.

    Where nothing is valid, all are equal: -log P. What is at the floor has no gradient.
    """
    nothing = ~valid.any(-1, keepdim=True)
    masked = logits.masked_fill(~valid, -torch.inf).masked_fill(nothing, 0.0)
    return masked.log_softmax(-1).clamp(min=LOG_FLOOR)


def gumbel(shape: tuple[int, ...], generator: torch.Generator, like: Tensor) -> Tensor:
    """Draw standard Gumbel noise, of the type and on the device of `like`."""
    uniform = torch.empty(shape, dtype=like.dtype, device=like.device)
    uniform.uniform_(generator=generator)
    return uniform.add_(FLOOR).log_().neg_().add_(FLOOR).log_().neg_()


def top_k(values: Tensor, valid: Tensor, k: int, noise: Tensor | None = None) -> Tensor:
    """Return the indices (.., k) of the k largest values (.., P), largest first.

    Of equal ones, such as the pairs of equal symbols, the first comes first, and what is not valid
    comes after all that is. With Gumbel noise they are k draws without replacement from
    softmax(values), and largest by the perturbed value.
    """
    values = values.detach() if noise is None else values.detach() + noise
    masked = values.masked_fill(~valid, -torch.inf)
    return masked.sort(dim=-1, descending=True, stable=True).indices[..., :k]


def beam_shares(scores: Tensor, valid: Tensor) -> Tensor:
    """Return the weights (N, B) of beams in a string's result: softmax(scores) of the valid ones.

    Where none is valid, all weigh the same, as with the released -999999.
    """
    nothing = ~valid.any(-1, keepdim=True)
    return scores.masked_fill(~valid, -torch.inf).masked_fill(nothing, 0.0).softmax(-1)


@dataclass(frozen=True)
class Draws:
    """Sources of random numbers: the run's generator, or from `seed` on one for each purpose."""

    generator: torch.Generator
    seed: int | None = None

    @classmethod
    def by_step(cls, generator: torch.Generator | None, wanted: bool = True) -> Draws | None:
        """Return sources of their own, from one draw of a run's generator; None without one.

        Nothing is drawn from it unless something is `wanted`: noise or dropout.
        """
        if generator is None:
            return None
        if not wanted:
            return cls(generator, 0)
        drawn = torch.randint(SEEDS, (), generator=generator, device=generator.device)
        return cls(generator, int(drawn))

    def source(self, step: int, purpose: int) -> torch.Generator:
        """Return the generator of step t = 0, 1, .. for PAIRS, BEAMS or CELLS."""
        if self.seed is None:
            return self.generator
        source = torch.Generator(self.generator.device)
        return source.manual_seed(self.seed + PURPOSES * step + purpose)


@dataclass
class Beams:
    """Beams between steps, of the R strings `rows` that still merge.

    left (R,): pairs that a string has, its first ones. pairs (R, B, P): their numbers. scores,
    valid (R, B). shares (R, B, P): what each pair has had of softmax so far; None where nobody
    asks.
    """

    rows: Tensor
    left: Tensor
    pairs: Tensor
    scores: Tensor
    valid: Tensor
    shares: Tensor | None = None

    def only(self, kept: Kept) -> Beams:
        """Return those of some strings."""
        return replace(self, **{k: v[kept] for k, v in vars(self).items() if v is not None})


@dataclass(frozen=True)
class ChosenMerges:
    """Beams (R, B') that go on: the beam each comes from, the pair it merges, score, validity."""

    parents: Tensor
    positions: Tensor
    scores: Tensor
    valid: Tensor

    def only(self, kept: Kept) -> ChosenMerges:
        """Return those of some strings."""
        return ChosenMerges(*(value[kept] for value in vars(self).values()))


def noise_of(draws: Draws | None, step: int, shape: torch.Size, beam: int, like: Tensor) -> Noise:
    """Draw what perturbs pairs (R, B, P) and, where there are too many, proposals (R, B K)."""
    if draws is None:
        return None, None
    rows, before, count = shape
    each = min(count, beam)
    of_pairs = gumbel(tuple(shape), draws.source(step, PAIRS), like)
    if before * each <= beam:
        return of_pairs, None
    return of_pairs, gumbel((rows, before * each), draws.source(step, BEAMS), like)


def propose(
    logits: Tensor, beams: BeamState, beam: int, noise: Tensor | None, past_end: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return K = min(P, beam) proposals of each beam, and log s of all pairs (R, B, P).

    Proposals are positions (R, B, K), scores and validity (R, B K). logits (R, B, P): of pairs.
    beams: how many pairs each string has (R,), scores and validity (R, B). past_end: whether
    merges beyond the end of a string are valid, at log 1e-20.
    """
    (own, had, possible), count = beams, logits.shape[2]
    left = own[:, None, None]
    real = (torch.arange(count, device=logits.device) < left).expand_as(logits)
    positions = top_k(logits, real, min(count, beam), noise)
    logs = masked_log_softmax(logits, real)
    scores = (had[..., None] + logs.gather(2, positions)).flatten(1)
    valid = possible[..., None].expand_as(positions)
    if not past_end:
        valid = valid & (positions < left)
    return positions, scores, valid.flatten(1), logs


def choose(
    scores: Tensor, beams: Beams, beam: int, noise: Noise, past_end: bool = True
) -> ChosenMerges:
    """Choose merges; adds the softmax of this step to what pairs have had.

    scores: of all pairs, by number.
    """
    state = beams.left, beams.scores, beams.valid
    positions, proposed, valid, logs = propose(scores[beams.pairs], state, beam, noise[0], past_end)
    each, count = positions.shape[2], proposed.shape[1]
    if count > beam:
        kept = top_k(proposed, valid, beam, noise[1])
    else:
        kept = torch.arange(count, device=scores.device).expand(len(proposed), -1)
    if beams.shares is not None:
        beams.shares = beams.shares + logs.exp()
    where = positions.flatten(1).gather(1, kept)
    return ChosenMerges(kept // each, where, proposed.gather(1, kept), valid.gather(1, kept))


def choose_fast(scores: Tensor, beams: Beams, beam: int, noise: Noise) -> ChosenMerges:
    """Do what `choose` does, up to rounding: compiled, where that can be."""
    noisy, tracks = noise[0] is not None, beams.shares is not None
    if not usable(scores, "choose_merges", int(noisy), int(tracks)):
        return choose(scores, beams, beam, noise)
    rows, before, count = beams.pairs.shape
    each = min(count, beam)
    shape = rows, min(before * each, beam)
    parents, positions = beams.pairs.new_empty(2, *shape)
    chosen = ChosenMerges(parents, positions, scores.new_empty(shape), beams.valid.new_empty(shape))
    none = scores.new_empty(1, 0, 0)
    loop = choose_loop(noisy, tracks, DTYPES[scores.dtype])
    given = beams.pairs, scores, beams.left, beams.scores, beams.valid
    drawn = [none if noise[0] is None else noise[0], none[0] if noise[1] is None else noise[1]]
    filled = parents, positions, chosen.scores, chosen.valid
    shares = none if beams.shares is None else beams.shares
    loop(*map(array, given), each, LOG_FLOOR, *map(array, (*drawn, *filled)), array(shares))
    return chosen


def move(beams: Beams, chosen: ChosenMerges, made: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return numbers and shares (R, B', P - 1) of pairs after merges.

    made (R, B', 2): the new pairs left and right of each merge, where there is such a pair.
    """
    if usable(beams.scores, "move_merges", int(beams.shares is not None)):
        return _move_compiled(beams, chosen, made)
    rows, _, count = beams.pairs.shape
    source = (chosen.parents[..., None] * count + shifted(chosen.positions, count - 1)).flatten(1)
    # a pair's place before the merge is one less than in a table with edges
    around = chosen.positions[..., None] + torch.arange(2, device=made.device)

    def moved(old: Tensor, fresh: Tensor) -> Tensor:
        table = old.new_empty(*made.shape[:2], count + 1)
        table[..., 1:-1] = old.flatten(1).gather(1, source).view(rows, -1, count - 1)
        return table.scatter_(2, around, fresh)[..., 1:-1]

    if beams.shares is None:
        return moved(beams.pairs, made), None
    nothing = torch.zeros_like(made, dtype=beams.shares.dtype)
    return moved(beams.pairs, made), moved(beams.shares, nothing)


def _move_compiled(
    beams: Beams, chosen: ChosenMerges, made: Tensor
) -> tuple[Tensor, Tensor | None]:
    shape = *made.shape[:2], beams.pairs.shape[2] - 1
    numbers, tracks = beams.pairs.new_empty(shape), beams.shares is not None
    none = beams.scores.new_empty(0, 0, 0)
    had, shares = (none, none) if beams.shares is None else (beams.shares, none.new_empty(shape))
    loop = move_loop(tracks, DTYPES[beams.scores.dtype])
    given = beams.pairs, had, chosen.parents, chosen.positions, made
    loop(*map(array, (*given, numbers, shares)))
    return numbers, shares if tracks else None


def shifted(positions: Tensor, count: int) -> Tensor:
    """Return where `count` numbers come from without that after, or at, `positions`."""
    numbers = torch.arange(count, device=positions.device)
    return numbers + (numbers >= positions[..., None])


LOWEST = -np.inf


@part
def insert(value, slot, values, slots, count):  # type: ignore[no-untyped-def]
    """Put a value among the `count` largest, largest first; of equal ones the earlier is first."""
    at = count
    while at > 0 and values[at - 1] < value:
        at -= 1
    if at == count:
        return
    for i in range(count - 1, at, -1):
        values[i] = values[i - 1]
        slots[i] = slots[i - 1]
    values[at] = value
    slots[at] = slot


@cache
def choose_loop(noisy: bool, shares: bool, dtype: str) -> Loop:
    """Return the loop of one step's choice.

    (numbers (n, B, P), scores of all pairs, left (n,), scores and validity of beams (n, B),
    proposals of a beam, floor, noise of pairs (n, B, P) and of proposals (n, B K); parents,
    positions, scores, valid (n, beams); added to: shares of softmax (n, B, P))
    """

    @compiled(int(noisy), int(shares), dtype)
    def easy_first_choose(  # type: ignore[no-untyped-def]
        numbers, scores, left, before, possible, each, floor, pair_noise, beam_noise,
        parents, positions, after, valid, had,
    ):  # fmt: skip
        strings, width, count = numbers.shape
        beams = parents.shape[1]
        best, slots = np.empty(each), np.empty(width * each, np.int64)
        proposed = np.empty(width * each, before.dtype)
        logits, shared = np.empty(count, before.dtype), np.empty(count, before.dtype)
        kept, order = np.empty(beams), np.empty(beams, np.int64)
        for n in range(strings):
            real = left[n]
            for b in range(width):
                top = LOWEST
                for j in range(real):
                    logits[j] = scores[numbers[n, b, j]]
                    top = max(top, logits[j])
                total = 0.0
                found = slots[b * each : (b + 1) * each]
                best[:] = LOWEST
                for i in range(each):
                    found[i] = i  # what is not valid, by its place
                for j in range(real):
                    value = logits[j]
                    shared[j] = np.exp(value - top)
                    total += shared[j]
                    if noisy:
                        value += pair_noise[n, b, j]
                    if value > best[each - 1]:
                        insert(value, j, best, found, each)
                logs = top + np.log(total)
                if shares:
                    for j in range(real):
                        had[n, b, j] += shared[j] / total
                for i in range(each):
                    log = floor
                    if i < real:
                        log = max(floor, logits[found[i]] - logs)
                    else:
                        found[i] = i
                    proposed[b * each + i] = before[n, b] + log
            if width * each <= beams:
                for i in range(beams):
                    order[i] = i
            else:
                kept[:] = LOWEST
                for i in range(beams):
                    order[i] = i  # of numbers that are none, by their place
                for invalid in range(2):  # those that are not valid come last
                    for i in range(width * each):
                        if possible[n, i // each] == (invalid == 0):
                            value = proposed[i] - invalid * 1e30
                            if noisy and invalid == 0:
                                value += beam_noise[n, i]
                            if value > kept[beams - 1]:
                                insert(value, i, kept, order, beams)
            for i in range(beams):
                parents[n, i] = order[i] // each
                positions[n, i] = slots[order[i]]
                after[n, i] = proposed[order[i]]
                valid[n, i] = possible[n, order[i] // each]

    return easy_first_choose


@cache
def move_loop(shares: bool, dtype: str) -> Loop:
    """Return the loop that merges pairs in tables.

    (numbers (n, B, P), shares (n, B, P), parents, positions (n, beams), pairs that are new left and
    right of a merge (n, beams, 2); numbers and shares (n, beams, P - 1))
    """

    @compiled(int(shares), dtype)
    def easy_first_move(  # type: ignore[no-untyped-def]
        numbers, had, parents, positions, made, numbers_after, had_after
    ):
        strings, _, count = numbers.shape
        beams = parents.shape[1]
        for n in range(strings):
            for b in range(beams):
                parent, position = parents[n, b], positions[n, b]
                for j in range(position):
                    numbers_after[n, b, j] = numbers[n, parent, j]
                for j in range(position, count - 1):
                    numbers_after[n, b, j] = numbers[n, parent, j + 1]
                if position > 0:
                    numbers_after[n, b, position - 1] = made[n, b, 0]
                if position < count - 1:
                    numbers_after[n, b, position] = made[n, b, 1]
                if shares:
                    for j in range(position):
                        had_after[n, b, j] = had[n, parent, j]
                    for j in range(position, count - 1):
                        had_after[n, b, j] = had[n, parent, j + 1]
                    if position > 0:
                        had_after[n, b, position - 1] = 0
                    if position < count - 1:
                        had_after[n, b, position] = 0

    return easy_first_move
