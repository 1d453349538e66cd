"""Recursion in recursion with a recurrent network inside (`rir_grc`).

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), "RIR-GRC": the levels of `base.py`, where a chunk's
vector is the last state of the gated recursive cell along it (`rnn_grc.py`), from h_0 = 0. Chunks
are made in evaluation, too.

Difference: a batch is cut by its padded length (`base.py`), and strings of an evaluation are
batched by length over a whole split; in the released code over 640 in the order of the file, so
that more strings below 1.5 k are cut there.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor

from lrbench.encoders.base import Tree, lengths_of
from lrbench.encoders.grc.rnn_grc import RnnGrc, RnnGrcConfig
from lrbench.encoders.rir.base import RirConfig, RirEncoder
from lrbench.registry import register_encoder

ALONE = "one symbol by itself is a leaf, and beside longer strings a state of the network"


@dataclass
class RirGrcConfig(RirConfig):
    """Settings of `rir_grc`, those of all `rir_*` (`base.py`)."""


@register_encoder("rir_grc", RirGrcConfig, "recursion in recursion, recurrent inside (2023)")
class RirGrc(RirEncoder):
    """A recurrent network over chunks of chunks (Ray Chowdhury & Caragea 2023)."""

    config: RirGrcConfig
    shows_trees = True

    def __init__(self, config: RirGrcConfig, width: int) -> None:
        super().__init__(config, width)
        if config.inference == "full" and config.chunk_decision == "batch":
            self.padding, self.padding_reason = None, ALONE
        self.inner = RnnGrc(RnnGrcConfig(config.dropout), width)

    def forward(self, x: Tensor, mask: Tensor, generator: Generator | None = None) -> Tensor:
        return self.recurse(self.compose, x, mask, generator)

    def compose(self, x: Tensor, mask: Tensor, generator: Generator | None) -> Tensor:
        vectors: Tensor = self.inner(x, mask, generator)
        return vectors

    def chunk_trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        return [along(length) for length in lengths_of(mask)]


def along(length: int) -> Tree:
    """Return the tree of reading from left to right: ((0, 1), 2), ..."""
    tree: Tree = 0
    for place in range(1, length):
        tree = (tree, place)
    return tree
