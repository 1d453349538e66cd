"""Recursion in recursion with CRvNN inside (`rir_crvnn`).

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), "RIR-CRvNN": the levels of `base.py`, with the
steps of `crvnn` on each chunk. START and END stand around every chunk; they and the vectors of
chunks go in as they are, since leaves are made once, before all levels. The S4D layer has batch
normalisation and no dropout. The paper does not say whether chunks are made in evaluation; here
they are.

In version 1 the batch normalisation counted outputs of the S4D layer's backward half at padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import at_least
from lrbench.encoders.base import Tree, lengths_of
from lrbench.encoders.rir.base import RirConfig, RirEncoder
from lrbench.encoders.soft.crvnn import (
    COMPANY,
    Composition,
    between,
    composed,
    refuse_halt,
    tree_of,
)
from lrbench.records import added
from lrbench.registry import register_encoder


@dataclass
class RirCrvnnConfig(RirConfig):
    """Settings of `rir_crvnn`: those of all `rir_*` (`base.py`), and of `crvnn`.

    halt: whether strings leave the batch once they have halted; as released none does. kept:
    gigabytes of steps kept for the backward; those beyond are computed twice. released: the steps
    of `crvnn` as released.
    """

    s4d_dropout: float = 0.0
    halt: bool = True
    kept: float = 4.0
    released: bool = added(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model.encoder.kept", self.kept, 0)
        refuse_halt(self)


@register_encoder("rir_crvnn", RirCrvnnConfig, "recursion in recursion, CRvNN inside (2023)")
class RirCrvnn(RirEncoder):
    """Soft merges over chunks of chunks (Ray Chowdhury & Caragea 2023)."""

    config: RirCrvnnConfig
    version = 2
    shows_trees = True

    def __init__(self, config: RirCrvnnConfig, width: int) -> None:
        super().__init__(config, width, norm=True)
        if config.released:
            self.company = COMPANY
        self.ends = nn.Parameter(torch.randn(2, width))
        self.composition = Composition(width, config.dropout, config.released)

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.recurse(self.compose, x, mask, generator)

    def compose(self, x: Tensor, mask: Tensor, generator: torch.Generator | None) -> Tensor:
        lengths = mask.sum(1)
        framed = between(self.ends, x, lengths)
        return composed(self.composition, framed, lengths, generator, self.config)

    def chunk_trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        pairs = zip(x, lengths_of(mask), strict=True)
        return [tree_of(self.composition, self.ends, chunk[:length]) for chunk, length in pairs]
