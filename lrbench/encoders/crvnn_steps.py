"""The steps of CRvNN on strings that stand between START and END (`crvnn.py` has the equations).

Kept of each string are its tokens and the two ends; a string that has halted leaves the batch. Only
tokens that may be composed are scored (neither an end nor the last token), and only tokens with a
left neighbour that may be (not the first one) are composed: for the others probabilities are 0, and
so are gradients. What steps keep for the backward is limited: steps beyond that are run again.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu
from torch.utils.checkpoint import checkpoint

from lrbench.encoders.grc import GatedRecursiveCell

EXISTS = 0.1  # a token with less existence is not counted
EPSILON = 1e-8
GIGABYTE = 1 << 30
KEPT = 26  # numbers that a step keeps for each token and feature, about
MATRICES = 32  # bytes, for each two tokens


@dataclass(frozen=True)
class Strings:
    """Strings between their ends: tokens stand at positions 1 .. L_n of S + 2.

    lengths (n,). scored, composed: which of n (S + 2) positions may merge into their right
    neighbour (1 .. L_n - 1), and into which their left one may (2 .. L_n).
    """

    lengths: Tensor
    real: Tensor
    scored: Tensor
    composed: Tensor

    @classmethod
    def of(cls, lengths: Tensor) -> Strings:
        """Return the strings of these lengths, at least 1 each."""
        position = torch.arange(int(lengths.max()) + 2, device=lengths.device)
        length = lengths[:, None]
        scored = (position >= 1) & (position < length)
        composed = (position >= 2) & (position <= length)
        places = [mask.flatten().nonzero().squeeze(1) for mask in (scored, composed)]
        return cls(lengths, position < length + 2, *places)


@dataclass
class Batch:
    """Strings that are being composed.

    h (n, S + 2, d), e (n, S + 2); rows (n,): which string of the whole batch each is; alive (n,):
    whether it has not halted.
    """

    h: Tensor
    e: Tensor
    rows: Tensor
    strings: Strings
    alive: Tensor

    @classmethod
    def of(cls, h: Tensor, lengths: Tensor) -> Batch:
        """Return the strings h of these lengths, all tokens of which exist."""
        strings, rows = Strings.of(lengths), torch.arange(len(h), device=h.device)
        return cls(h, strings.real.to(h.dtype), rows, strings, lengths > 1)

    def take(self, h: Tensor, e: Tensor, step: int, halted: bool) -> None:
        """Go on to h and e after `step`, but for strings that had halted before, if there are."""
        self.h = torch.where(self.alive[:, None, None], h, self.h) if halted else h
        self.e = torch.where(self.alive[:, None], e, self.e) if halted else e
        several = (self.e > EXISTS).sum(1) > 3  # both ends and the last token
        self.alive = self.alive & several & (step < self.strings.lengths)

    def leave(self) -> tuple[Tensor, Tensor]:
        """Drop the strings that have halted; return which they are and what they have come to."""
        halted, alive = self.last(~self.alive), self.alive
        lengths = self.strings.lengths[alive]
        self.rows, self.alive = self.rows[alive], alive[alive]
        if len(lengths):
            self.strings = Strings.of(lengths)
        longest = self.strings.real.shape[1]
        self.h, self.e = self.h[alive][:, :longest], self.e[alive][:, :longest]
        return halted

    def last(self, some: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows of some strings and their last tokens (., d)."""
        if not len(self.rows):
            return self.rows, self.h[:, 0]
        places = some.nonzero().squeeze(1)
        return self.rows[places], self.h[places, self.strings.lengths[places]]

    def bytes(self) -> int:
        """Return about how much a step keeps for the backward."""
        strings, length, width = self.h.shape
        return strings * length * (KEPT * width * self.h.element_size() + MATRICES * length)


class Composition(nn.Module):
    """Soft merges of neighbours until one token is left."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
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
        batch, results, spent = Batch.of(h, lengths), [], 0.0
        existence = batch.e.clone()
        for step in range(1, int(lengths.max()) + 1):
            if halt and not bool(batch.alive.all()):
                results.append(batch.leave())
                if not len(batch.rows):
                    break
            spent += batch.bytes() / GIGABYTE
            batch.take(*self._step(batch, generator, spent > kept), step, halted=not halt)
            if history is not None:
                existence[batch.rows, : batch.e.shape[1]] = batch.e.detach()
                history.append(existence.clone())
        results.append(batch.last(torch.ones_like(batch.alive)))
        rows, vectors = (torch.cat(parts) for parts in zip(*results, strict=True))
        return torch.empty_like(vectors).index_copy(0, rows, vectors)

    def _step(
        self, batch: Batch, generator: torch.Generator | None, again: bool
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
        self, h: Tensor, e: Tensor, strings: Strings, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Return h (n, S + 2, d) and e (n, S + 2) after one step."""
        left, right = neighbours(e)
        before, after = left @ h, right @ h
        window = torch.cat([left @ before, before, h, after, right @ after], 2)
        c, stay = self._weights(window, e, strings)
        beside = (left + right) @ c[..., None]
        composes = c / (c + stay + beside.squeeze(2) + EPSILON)
        chosen = strings.composed
        share = (left @ composes[..., None]).flatten(0, 1).index_select(0, chosen)
        pairs = torch.cat([before, h], 2).flatten(0, 1).index_select(0, chosen)
        parents = self.cell(pairs, generator)
        change = share * (parents - pairs[:, h.shape[2] :])
        composed = h.flatten(0, 1).index_add(0, chosen, change).view_as(h)
        return composed, e * (1 - composes)

    def _weights(self, window: Tensor, e: Tensor, strings: Strings) -> tuple[Tensor, Tensor]:
        """Return exp of the scores (n, S + 2), 0 where there is none, and of 0 (n, 1).

        They are divided by their largest in each string.
        """
        taken = window.flatten(0, 1).index_select(0, strings.scored)
        scores = self.score(gelu(self.window(taken))).squeeze(1)
        none = torch.full_like(e, -torch.inf).flatten()
        scores = none.index_copy(0, strings.scored, scores).view_as(e)
        largest = scores.detach().amax(1, keepdim=True).clamp(min=0)
        return (scores - largest).exp(), (-largest).exp()


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
