"""Beam trees over the gated recursive cell (`bt_grc`).

Ray Chowdhury & Caragea 2023, "Beam Tree Recursive Cells" (arXiv:2305.19999), as a baseline of
arXiv:2311.04449:

    leaves      h_i = LN(W_0 x_i + b_0)
    a step      p_j = R(h_j, h_{j+1}) for all neighbours j,   e_j = w p_j + b,   s = softmax(e)
                a beam with score a becomes K = min(P, B): pair j of the K best is merged, with
                score a + log s_j; of all B K the best B go on
    at the end  sum_b softmax(a)_b h_b

until one node is left. In training both choices are draws without replacement, by Gumbel noise
(`noise`); the released code of 2023 has none. Choices are hard and have no gradient: the scorer
learns by the scores a alone.

`composed.py` searches without a graph, keeps what it knows of a pair, and differentiates what is
left at the end. `reference` is the released way: all pairs of all beams at each step. The result
does not depend on padding: with K of the padded length, as released, a short string among longer
ones has beams of weight 1e-20; here it has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lrbench.checks import at_least, fraction, only_with
from lrbench.encoders.base import Encoder, Tree, lengths_of
from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.encoders.trees.choice import Draws, beam_shares
from lrbench.encoders.trees.composed import CellSearch, FreshCellSearch, differentiable
from lrbench.encoders.trees.reference import by_products
from lrbench.kernels.normalisation import LayerNorm
from lrbench.registry import register_encoder


@dataclass
class BeamTreeConfig:
    """Settings of beam trees.

    beam: B. With 1, nothing trains the scores that choose the tree. dropout: of the cell's hidden
    layer. noise: whether training chooses by Gumbel top k, as in the papers; the released code of
    2023 does not. reuse_dropout: whether a pair keeps its dropout mask as long as it stands, in
    training: two cells a step and beam instead of all pairs; published is a new mask for every pair
    at every step.
    """

    beam: int = 5
    dropout: float = 0.1
    noise: bool = True
    reuse_dropout: bool = False

    def __post_init__(self) -> None:
        at_least("model.encoder.beam", self.beam, 1)
        fraction("model.encoder.dropout", self.dropout)
        key, other = "model.encoder.reuse_dropout", "model.encoder.dropout above 0"
        only_with(key, self.reuse_dropout, False, self.dropout > 0, other)


class BeamTree(Encoder):
    """Leaves, a cell and a scorer of parents; vectors are those of beams, weighted by scores."""

    config: BeamTreeConfig
    shows_trees = True
    soft = False  # whether training mixes what a hard choice would drop

    def __init__(self, config: Any, width: int) -> None:
        super().__init__(config, width)
        self.leaf = nn.Sequential(nn.Linear(width, width), LayerNorm(width))
        self.cell = GatedRecursiveCell(width, config.dropout)
        self.scorer = nn.Linear(width, 1)
        # adding to all scores changes nothing, and one beam has a share of 1 whatever its score
        idle = ["scorer.bias", "scorer.weight"] if config.beam == 1 else ["scorer.bias"]
        self.without_gradient = frozenset(idle)

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        leaves, lengths = self._leaves(x, mask)
        how = self._search(leaves, lengths, self._draws(generator))
        found = how.strings()
        roots, scores = how.nodes.vectors[found.roots], found.scores
        if torch.is_grad_enabled():
            roots, scores = differentiable(how, found, leaves)
        return (beam_shares(scores, found.valid)[..., None] * roots).sum(1)

    def reference(
        self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return what `forward` does, as released; its dropout is drawn anew at each step."""
        parts, draws = (self.leaf, self.cell, self.scorer), self._draws(generator)
        config = self.config
        return by_products(parts, config.beam, (x, mask), draws, config.noise, self.soft)

    @torch.no_grad()
    def trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        how = self._search(*self._leaves(x, mask), None)
        return how.nodes.trees(how.strings().best(), how.lengths)

    def _leaves(self, x: Tensor, mask: Tensor) -> tuple[Tensor, list[int]]:
        """Return the leaves (n, d) of all strings, one after the other, and their lengths."""
        lengths = lengths_of(mask)
        rows = [row * x.shape[1] + np.arange(length) for row, length in enumerate(lengths)]
        indices = torch.from_numpy(np.concatenate(rows)).to(x.device)
        return self.leaf(x.flatten(0, 1).index_select(0, indices)), lengths

    def _draws(self, generator: torch.Generator | None) -> Draws | None:
        return Draws.by_step(generator, self.config.noise or self.config.dropout > 0)

    def _search(self, leaves: Tensor, lengths: list[int], draws: Draws | None) -> CellSearch:
        config = self.config
        fresh = draws is not None and config.dropout > 0 and not config.reuse_dropout
        form = FreshCellSearch if fresh else CellSearch
        return form(self.cell, self.scorer, leaves, lengths, config.beam, draws, config.noise)


@dataclass
class BtGrcConfig(BeamTreeConfig):
    """Settings of `bt_grc`: those of beam trees."""


@register_encoder("bt_grc", BtGrcConfig, "gated recursive cell, beam search over trees (2023)")
class BtGrc(BeamTree):
    """The gated recursive cell over trees found by beam search (Ray Chowdhury & Caragea 2023)."""
