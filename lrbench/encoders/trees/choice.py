"""How beams choose: masked softmax with a floor, Gumbel noise, and top k with and without it.

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449) and their released code. A masked softmax there is

    s = softmax over everything, times the mask, + 1e-20, divided by its sum

Here numbers outside of the mask are -inf before the softmax and log s is at least log 1e-20: the
same but for what is smaller than that floor, and no padding has a share in a sum. The k largest of
values perturbed by Gumbel noise are k draws without replacement (Kool et al. 2019).

The random numbers of `bt_grc` have a source for each step and purpose, from the run's generator. A
search and whatever goes over its steps again (a backward, a reference) draw the same numbers
without keeping them: each source is seeded by one draw from the run's generator and by what it is
for. Within a source numbers are those of the rows that are still merging, in the batch's order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

FLOOR = 1e-20
LOG_FLOOR = math.log(FLOOR)


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


def top_k(values: Tensor, valid: Tensor, k: int) -> Tensor:
    """Return the indices (.., k) of the k largest values (.., P), largest first.

    Of equal ones, such as the pairs of equal symbols, the first comes first, and what is not valid
    comes after all that is.
    """
    masked = values.masked_fill(~valid, -torch.inf)
    return masked.sort(dim=-1, descending=True, stable=True).indices[..., :k]


def stochastic_top_k(
    values: Tensor, valid: Tensor, k: int, generator: torch.Generator | None
) -> Tensor:
    """Return k draws without replacement from softmax(values), by perturbed value, largest first.

    Without a generator the k largest values. Indices have no gradient; what is not valid is last.
    """
    values = values.detach()
    if generator is not None:
        values = values + gumbel(tuple(values.shape), generator, values)
    return top_k(values, valid, k)


def beam_shares(scores: Tensor, valid: Tensor) -> Tensor:
    """Return the weights (N, B) of beams in a string's result: softmax(scores) of the valid ones.

    Where none is valid, all weigh the same, as with the released -999999.
    """
    nothing = ~valid.any(-1, keepdim=True)
    return scores.masked_fill(~valid, -torch.inf).masked_fill(nothing, 0.0).softmax(-1)


PAIRS, BEAMS, CELLS = range(3)  # what for: choosing pairs, choosing beams, dropout
PURPOSES = 3
SEEDS = 1 << 48


@dataclass(frozen=True)
class Draws:
    """Generators on `device`, from `seed` on."""

    seed: int
    device: torch.device

    @classmethod
    def of(cls, generator: torch.Generator | None, wanted: bool = True) -> Draws | None:
        """Return what follows from one draw of a run's generator; None without one.

        Nothing is drawn from it unless something is `wanted`: noise or dropout.
        """
        if generator is None:
            return None
        device = generator.device
        if not wanted:
            return cls(0, device)
        drawn = torch.randint(SEEDS, (), generator=generator, device=device)
        return cls(int(drawn), device)

    def source(self, step: int, purpose: int) -> torch.Generator:
        """Return the generator of step t = 0, 1, .. for PAIRS, BEAMS or CELLS."""
        source = torch.Generator(self.device)
        return source.manual_seed(self.seed + PURPOSES * step + purpose)
