"""The random numbers of a beam tree: a source for each step and purpose, from the run's generator.

A search and whatever goes over its steps again (a backward, a reference) draw the same numbers
without keeping them: each source is seeded by one draw from the run's generator and by what it is
for. Within a source numbers are those of the rows that are still merging, in the batch's order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

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
