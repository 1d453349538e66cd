"""The continuous recursive neural network (`crvnn`): soft merges of neighbours, all at once.

Ray Chowdhury & Caragea 2021 (arXiv:2106.06038), as they use it in 2023 (arXiv:2311.04449), without
losses for halting. A string stands between learnt vectors START and END, h = LN(W_0 x + b_0) of all
of them, and exists: e = 1. A step is, with soft neighbours l_ij, r_ij (`neighbours`),

    s_i  = w . gelu(W (l l h, l h, h, r h, r r h)_i + c) + b,        c_i = exp(s_i)
    p_i  = c_i / (c_i + exp(0) + (l c)_i + (r c)_i)                  merges into its right neighbour
    a_i  = (l p)_i                                                   its left neighbour does
    h_i <- a_i R((l h)_i, h_i) + (1 - a_i) h_i,    e_i <- e_i (1 - p_i)

where c_i is 0 for START, END and the last token. A string has halted when at most one token has
e_i > 0.1, or after L_n steps: it stays what it is. Output: h of the last token.

Glossary
    p, a    composition probability; that of the left neighbour
    R       gated recursive cell (`grc/cell.py`)
    l, r    row i has the existence of the tokens left (right) of i as far as it adds up to 1

Differences: probabilities are divided by the largest of their string, of tokens that are not gone
(e > 1e-12), before they are added up (released: by the largest of the batch). A string takes at
most L_n steps (released: L_n + 1 beside longer strings), and the small number that keeps sums from
0 is added once (released: in four places). It is not small beside exp(-s) of the largest score s,
which came to 22 in a trained model: there it lets tokens of low scores stay. `released=true` does
all three as released; there a string's number depends on the others of its batch. `halt=false`
carries halted strings and tokens that are gone along to the end, as the paper's timings do: the
same numbers, without dropout.
`reference` is the step as written, on padded strings.

Kept of each string are its tokens and the two ends; a string that has halted leaves the batch, and
so does a token that is gone: the others see at most 1e-12 of it. Only tokens that may be composed
are scored (neither an end nor the last token), and only tokens with a left neighbour that may be
(not the first one) are composed: for the others probabilities are 0, and so are gradients. What
steps keep for the backward is limited: steps beyond that are run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad
from torch.utils.checkpoint import checkpoint

from lrbench.checks import at_least, fraction, only_with
from lrbench.encoders.base import Encoder, Tree, lengths_of
from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.kernels.normalisation import LayerNorm
from lrbench.records import added
from lrbench.registry import register_encoder

COMPANY = "as released, a string takes a step more beside longer ones"
CELLS = 4_000_000  # of the neighbour matrices of strings that are evaluated together


@dataclass
class CrvnnConfig:
    """Settings of `crvnn`.

    dropout: of the cell's hidden layer. halt: whether strings leave the batch once they have
    halted; as released none does. kept: gigabytes of steps kept for the backward; those beyond are
    computed twice. released: steps, small numbers and the largest score as in the released code.
    """

    dropout: float = 0.1
    halt: bool = True
    kept: float = 4.0
    released: bool = added(False)

    def __post_init__(self) -> None:
        fraction("model.encoder.dropout", self.dropout)
        at_least("model.encoder.kept", self.kept, 0)
        refuse_halt(self)


def refuse_halt(config: Any) -> None:
    """As released no string leaves the batch, whatever `halt` says."""
    own, other = type(config).halt, "model.encoder.released=false"
    only_with("model.encoder.halt", config.halt, own, not config.released, other)


@register_encoder("crvnn", CrvnnConfig, "continuous recursive neural network (2021)")
class Crvnn(Encoder):
    """The continuous recursive neural network (Ray Chowdhury & Caragea 2021)."""

    config: CrvnnConfig
    shows_trees = True

    def __init__(self, config: CrvnnConfig, width: int) -> None:
        super().__init__(config, width)
        if config.released:
            self.company = COMPANY
        self.ends = nn.Parameter(torch.randn(2, width))
        self.leaf = nn.Sequential(nn.Linear(width, width), LayerNorm(width))
        self.composition = Composition(width, config.dropout, config.released)

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        lengths = mask.sum(1)
        h = self.leaf(between(self.ends, x, lengths)) * reaches(lengths)
        return composed(self.composition, h, lengths, generator, self.config)

    @torch.no_grad()
    def trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        """Return the trees that the existence of tokens after each step comes nearest to."""
        pairs = zip(x, lengths_of(mask), strict=True)
        ends, leaf = self.leaf(self.ends), self.leaf
        return [tree_of(self.composition, ends, leaf(row[:length])) for row, length in pairs]

    def reference(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return what `forward` does without dropout: every position of padded strings."""
        lengths, padded = mask.sum(1), pad(x * mask[..., None], (0, 0, 1, 1))
        position = torch.arange(padded.shape[1], device=x.device)
        last = position == lengths[:, None]
        end, real = position == lengths[:, None] + 1, position < lengths[:, None] + 2
        padded = torch.where((position == 0)[:, None], self.ends[0], padded)
        padded = torch.where(end[..., None], self.ends[1], padded)
        h, e = self.leaf(padded) * real[..., None], real.to(x.dtype)
        allowed = (position > 0) & real & ~last & ~end
        alive = torch.ones_like(lengths, dtype=torch.bool)
        for step in range(1, mask.shape[1] + 1):
            after, existing = self._plain_step(h, e, allowed, real)
            h = torch.where(alive[:, None, None], after, h)
            e = torch.where(alive[:, None], existing, e)
            within = step < lengths + self.config.released
            alive = alive & ((e > EXISTS).sum(1) - 2 > 1) & within
            if not alive.any():
                break
        result: Tensor = h[torch.arange(len(h)), lengths]
        return result

    def _plain_step(
        self, h: Tensor, e: Tensor, allowed: Tensor, real: Tensor
    ) -> tuple[Tensor, Tensor]:
        left, right = plain_neighbours(e)
        parts, both = self.composition, torch.stack([left, right], 1)
        near = both @ h[:, None]
        far = both @ near
        window = torch.cat([far[:, 0], near[:, 0], h, near[:, 1], far[:, 1]], 2)
        every = parts.score(gelu(parts.window(window))).squeeze(2)
        scores = every.masked_fill(~allowed, -torch.inf)
        largest = scores.where(e > GONE, -torch.inf).amax(1, keepdim=True).clamp(min=0).detach()
        largest = every.max().clamp(min=0) if self.config.released else largest
        c, stay = (scores - largest).clamp(max=0).exp(), (-largest).exp()
        beside = (both @ c[:, None, :, None]).sum(1).squeeze(2)
        merges = c / (c + stay + beside + EPSILON * (4 if self.config.released else 1))
        share = left @ merges[..., None]
        pairs = torch.cat([near[:, 0], h], 2).flatten(0, 1)
        parents = parts.cell.reference(pairs).view_as(h)
        return (share * parents + (1 - share) * h) * real[..., None], e * (1 - merges)


def composed(
    composition: Composition,
    h: Tensor,
    lengths: Tensor,
    generator: torch.Generator | None,
    config: Any,
) -> Tensor:
    """Return what strings h (N, S + 2, d), ends included, come to: (N, d).

    config: with `halt` and `kept`. Outside of training only so many strings go at once that their
    matrices of neighbours stay small; as released all do, since they depend on each other.
    """
    if torch.is_grad_enabled() or generator is not None or composition.released:
        together: Tensor = composition(h, lengths, generator, config.halt, config.kept)
        return together
    order = lengths.argsort(descending=True, stable=True)
    results, sizes = [], lengths[order].tolist()
    start = 0
    while start < len(order):
        some = order[start : start + max(1, CELLS // (sizes[start] + 2) ** 2)]
        longest = sizes[start] + 2
        results.append(composition(h[some, :longest], lengths[some], halt=config.halt))
        start += len(some)
    result = torch.cat(results)
    return torch.empty_like(result).index_copy(0, order, result)


def tree_of(composition: Composition, ends: Tensor, x: Tensor) -> Tree:
    """Return the tree that tokens x (L, d) between two `ends` (2, d) come nearest to."""
    lengths = torch.tensor([len(x)], device=x.device)
    history: list[Tensor] = []
    composition(between(ends, x[None], lengths), lengths, history=history)
    existences = [existence[0, 1 : len(x) + 1].tolist() for existence in history]
    return by_existence(existences, len(x))


def between(ends: Tensor, x: Tensor, lengths: Tensor) -> Tensor:
    """Return strings x (N, S, d) between the two `ends` (2, d): (N, longest + 2, d).

    The second one follows directly on the last token; what is beyond it is zero.
    """
    longest = int(lengths.max())
    position = torch.arange(longest, device=x.device)
    tokens = torch.where((position < lengths[:, None])[..., None], x[:, :longest], 0)
    start = ends[0].expand(len(x), 1, -1)
    framed = torch.cat([start, tokens, torch.zeros_like(start)], 1)
    indices = torch.arange(len(x), device=x.device) * framed.shape[1] + lengths + 1
    end = ends[1:].expand(len(x), -1)
    return framed.flatten(0, 1).index_copy(0, indices, end).view_as(framed)


def reaches(lengths: Tensor) -> Tensor:
    """Return 1 where a string with its ends stands and 0 beyond, (N, longest + 2, 1), bool."""
    position = torch.arange(int(lengths.max()) + 2, device=lengths.device)
    return (position < lengths[:, None] + 2)[..., None]


def plain_neighbours(e: Tensor) -> tuple[Tensor, Tensor]:
    """Return soft left and right neighbours (N, S, S) of e (N, S), side by side of the diagonal."""
    sums = e.cumsum(1)
    after = sums[:, None, :] - sums[:, :, None]  # of i+1 .. j
    right = after.clamp(max=1) - (after - e[:, None, :]).clamp(max=1)
    before = (sums - e)[:, :, None] - (sums - e)[:, None, :]  # of j .. i-1
    left = before.clamp(max=1) - (before - e[:, None, :]).clamp(max=1)
    return left.tril(-1), right.triu(1)


EXISTS = 0.1  # a token with less existence is not counted
EPSILON = 1e-8
MERGED = 0.5  # a token with no more existence has been merged
GONE = 1e-12  # a token with no more existence has no say
FEWER = 0.95  # strings are packed again when so few of their tokens are left
GIGABYTE = 1 << 30
KEPT = 26  # numbers that a step keeps for each token and feature, about
MATRICES = 32  # bytes, for each two tokens


@dataclass(frozen=True)
class FramedStrings:
    """Strings between their ends: tokens stand at positions 1 .. L_n of S + 2.

    lengths (n,). scored, composed: which of n (S + 2) positions may merge into their right
    neighbour (1 .. L_n - 1), and into which their left one may (2 .. L_n).
    """

    lengths: Tensor
    real: Tensor
    scored: Tensor
    composed: Tensor

    @classmethod
    def of(cls, lengths: Tensor) -> FramedStrings:
        """Return the strings of these lengths, at least 1 each."""
        position = torch.arange(int(lengths.max()) + 2, device=lengths.device)
        length = lengths[:, None]
        scored = (position >= 1) & (position < length)
        composed = (position >= 2) & (position <= length)
        indices = [mask.flatten().nonzero().squeeze(1) for mask in (scored, composed)]
        return cls(lengths, position < length + 2, *indices)


@dataclass
class ComposingStrings:
    """Strings that are being composed.

    h (n, S + 2, d), e (n, S + 2); rows (n,): which string of the whole batch each is; alive (n,):
    whether it has not halted; steps (n,): how many it may take; places (n, S + 2): where each of
    its tokens stood at first.
    """

    h: Tensor
    e: Tensor
    rows: Tensor
    strings: FramedStrings
    alive: Tensor
    steps: Tensor
    places: Tensor

    @classmethod
    def of(cls, h: Tensor, lengths: Tensor, more: int = 0) -> ComposingStrings:
        """Return the strings h of these lengths, all tokens of which exist.

        more: how many steps a string may take beyond its length.
        """
        strings, rows = FramedStrings.of(lengths), torch.arange(len(h), device=h.device)
        places = torch.arange(strings.real.shape[1], device=h.device).expand(len(h), -1)
        e = strings.real.to(h.dtype)
        return cls(h, e, rows, strings, lengths > 1, lengths + more, places)

    def take(self, h: Tensor, e: Tensor, step: int, halted: bool) -> None:
        """Go on to h and e after `step`, but for strings that had halted before, if there are."""
        self.h = torch.where(self.alive[:, None, None], h, self.h) if halted else h
        self.e = torch.where(self.alive[:, None], e, self.e) if halted else e
        several = (self.e > EXISTS).sum(1) > 3  # both ends and the last token
        self.alive = self.alive & several & (step < self.steps)

    def leave(self) -> tuple[Tensor, Tensor]:
        """Drop the strings that have halted; return which they are and what they have come to."""
        halted, alive = self.last(~self.alive), self.alive
        lengths = self.strings.lengths[alive]
        self.rows, self.alive, self.steps = self.rows[alive], alive[alive], self.steps[alive]
        if len(lengths):
            self.strings = FramedStrings.of(lengths)
        longest = self.strings.real.shape[1]
        self.h, self.e = self.h[alive][:, :longest], self.e[alive][:, :longest]
        self.places = self.places[alive][:, :longest]
        return halted

    def drop(self) -> None:
        """Drop the tokens that are gone, if they are many; the others move to the left."""
        stays = self.e.detach() > GONE
        left = stays.sum(1)
        if left.sum() > FEWER * self.strings.real.sum():
            return
        self.strings = FramedStrings.of(left - 2)
        real = self.strings.real
        taken = (~stays).to(torch.uint8).argsort(dim=1, stable=True)[:, : real.shape[1]]
        beyond = self.places.max()
        self.places = self.places.gather(1, taken).where(real, beyond)
        self.e = self.e.gather(1, taken) * real
        rows = torch.arange(len(taken), device=taken.device)[:, None]
        flat = (rows * self.h.shape[1] + taken).flatten()
        packed = self.h.flatten(0, 1).index_select(0, flat)
        self.h = packed.view(*taken.shape, -1)

    def last(self, some: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows of some strings and their last tokens (., d)."""
        if not len(self.rows):
            return self.rows, self.h[:, 0]
        indices = some.nonzero().squeeze(1)
        return self.rows[indices], self.h[indices, self.strings.lengths[indices]]

    def bytes(self) -> int:
        """Return about how much a step keeps for the backward."""
        strings, length, width = self.h.shape
        return strings * length * (KEPT * width * self.h.element_size() + MATRICES * length)


class Composition(nn.Module):
    """Soft merges of neighbours until one token is left."""

    def __init__(self, width: int, dropout: float, released: bool = False) -> None:
        super().__init__()
        self.released = released
        self.window = nn.Linear(5 * width, width)
        self.score = nn.Linear(width, 1)
        self.cell = GatedRecursiveCell(width, dropout)

    def forward(
        self,
        h: Tensor,
        lengths: Tensor,
        generator: torch.Generator | None = None,
        halt: bool = True,
        kept: float = 4.0,
        history: list[Tensor] | None = None,
    ) -> Tensor:
        """Map h (n, S + 2, d), ends included, of strings of `lengths` (n,) to (n, d).

        kept: gigabytes of steps kept for the backward. history: takes the existence (n, S + 2) of
        all tokens after each step, of halted strings as it was.
        """
        batch, results, spent = ComposingStrings.of(h, lengths, int(self.released)), [], 0.0
        existence = batch.e.clone()
        halt = halt and not self.released  # what has halted still has a say in the largest score
        for step in range(1, int(lengths.max()) + 1):
            if self.released and not bool(batch.alive.any()):
                break
            if halt and not bool(batch.alive.all()):
                results.append(batch.leave())
                if not len(batch.rows):
                    break
            if halt:
                batch.drop()
            spent += batch.bytes() / GIGABYTE
            after = self._step(batch, generator, spent > kept)
            batch.take(*after, step, halted=not halt)
            if history is not None:
                existence[batch.rows[:, None], batch.places] = batch.e.detach()
                history.append(existence.clone())
        results.append(batch.last(torch.ones_like(batch.alive)))
        rows, vectors = (torch.cat(parts) for parts in zip(*results, strict=True))
        return torch.empty_like(vectors).index_copy(0, rows, vectors)

    def _step(
        self, batch: ComposingStrings, generator: torch.Generator | None, again: bool
    ) -> tuple[Tensor, Tensor]:
        """Return h and e after a step, which the backward runs again if told so."""
        h, e, strings = batch.h, batch.e, batch.strings
        if not (again and torch.is_grad_enabled()):
            return self.step(h, e, strings, generator)
        stood = None if generator is None else generator.get_state()

        def run(h: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
            if generator is None or stood is None:
                return self.step(h, e, strings, None)
            copy = torch.Generator(generator.device)
            copy.set_state(stood)
            results = self.step(h, e, strings, copy)
            ended.append(copy.get_state())
            return results

        ended: list[Tensor] = []
        results = checkpoint(run, h, e, use_reentrant=False, preserve_rng_state=False)
        if generator is not None:
            generator.set_state(ended[0])
        return results[0], results[1]

    def step(
        self, h: Tensor, e: Tensor, strings: FramedStrings, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Return h (n, S + 2, d) and e (n, S + 2) after one step."""
        left, right = neighbours(e)
        before, after = left @ h, right @ h
        window = torch.cat([left @ before, before, h, after, right @ after], 2)
        c, stay = self._weights(window, e, strings)
        beside = (left + right) @ c[..., None]
        composes = c / (c + stay + beside.squeeze(2) + EPSILON * (4 if self.released else 1))
        chosen = strings.composed
        share = (left @ composes[..., None]).flatten(0, 1).index_select(0, chosen)
        pairs = torch.cat([before, h], 2).flatten(0, 1).index_select(0, chosen)
        parents = self.cell(pairs, generator)
        change = share * (parents - pairs[:, h.shape[2] :])
        composed = h.flatten(0, 1).index_add(0, chosen, change).view_as(h)
        return composed, e * (1 - composes)

    def _weights(self, window: Tensor, e: Tensor, strings: FramedStrings) -> tuple[Tensor, Tensor]:
        """Return exp of the scores (n, S + 2), 0 where there is none, and of 0 (n, 1).

        They are divided by their largest in each string; as released by the largest of all
        positions, those that may not merge and those beyond a string included.
        """
        if self.released:
            every = self.score(gelu(self.window(window))).squeeze(2)
            none, most = torch.full_like(every, -torch.inf), every.max().clamp(min=0)
            there = torch.zeros_like(every, dtype=torch.bool).flatten()
            scored = there.index_fill(0, strings.scored, True).view_as(every)
            largest = most.expand(len(every), 1)
            return (torch.where(scored, every, none) - largest).exp(), (-largest).exp()
        taken = window.flatten(0, 1).index_select(0, strings.scored)
        scores = self.score(gelu(self.window(taken))).squeeze(1)
        none = torch.full_like(e, -torch.inf).flatten()
        scores = none.index_copy(0, strings.scored, scores).view_as(e)
        standing = scores.detach().where(e > GONE, -torch.inf)
        largest = standing.amax(1, keepdim=True).clamp(min=0)
        return (scores - largest).clamp(max=0).exp(), (-largest).exp()


def neighbours(e: Tensor) -> tuple[Tensor, Tensor]:
    """Return the soft left and right neighbours (n, S, S) of tokens that exist to e (n, S).

    Row i has e of the positions next to i, as far as they add up to 1: with E_j the sum of e below
    j and D_ab = min(1, max(0, E_b - E_a)), right_ij = D_{i+1,j+1} - D_{i+1,j} and
    left_ij = D_{j,i} - D_{j+1,i}. Sums are made in double: of a long string they are not small.
    """
    sums = torch.nn.functional.pad(e.double().cumsum(1), (1, 0))
    d = (sums[:, None, :] - sums[:, :, None]).clamp(0, 1).to(e.dtype)
    left = (d[:, :-1, :-1] - d[:, 1:, :-1]).transpose(1, 2)
    right = d[:, 1:, 1:] - d[:, 1:, :-1]
    return left, right


def by_existence(history: list[list[float]], tokens: int) -> Tree:
    """Return the tree of existences after each step of a string of `tokens` (CRvNN).

    A token that falls to 0.5 or below merges into the next one that stands, the left one of two
    first. What stands at the end, but for the last token, merges then: those that exist least
    first.
    """
    trees: list[Tree] = list(range(tokens))
    standing = list(range(tokens))

    def merge(token: int) -> None:
        at = standing.index(token)
        right = standing[at + 1]
        trees[right] = (trees[token], trees[right])
        del standing[at]

    for existence in history:
        for token in standing[:-1]:
            if existence[token] <= MERGED:
                merge(token)
    last = history[-1] if history else [1.0] * tokens
    for token in sorted(standing[:-1], key=last.__getitem__):
        merge(token)
    return trees[standing[0]]
