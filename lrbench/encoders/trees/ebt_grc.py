"""The gated recursive cell over trees built easiest merge first, by beam search (`ebt_grc`).

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), "EBT-GRC", efficient beam tree recursion:

    leaves    h_i = LN(W_0 x_i + b_0)
    a step    of each beam, one pair of neighbours becomes R(h_j, h_{j+1}) (`grc/cell.py`)
    result    sum_b softmax(score)_b h_b,  of the B vectors that are left

Which pair, by a scorer of the first 64 features of both (`pair_scorer.py`); how the beams of a
string are chosen, at random in training, says `easy_first_search.py`. Training is two passes: the
search without a graph, then the trees it ends with (`easy_first_rebuild.py`). That is exact.
`easy_first_reference.py` is the released form: all vectors are moved and all pairs scored at every
step, and autograd goes back through all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, fraction
from lrbench.encoders.base import Encoder, Tree, lengths_of
from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.encoders.rir.base import levels_of
from lrbench.encoders.trees.choice import beam_shares
from lrbench.encoders.trees.easy_first import EasyFirst
from lrbench.encoders.trees.easy_first_reference import Reference
from lrbench.encoders.trees.pair_scorer import PairScorer
from lrbench.mixers.normalisation import LayerNorm
from lrbench.registry import register_encoder


@dataclass
class EbtGrcConfig:
    """Settings of `ebt_grc`.

    dropout: of the cell's hidden layer. beam: trees that are kept. score_features: d_s, of each
    child, at most d.
    """

    dropout: float = 0.1
    beam: int = 5
    score_features: int = 64

    def __post_init__(self) -> None:
        fraction("model.encoder.dropout", self.dropout)
        at_least("model.encoder.beam", self.beam, 1)
        at_least("model.encoder.score_features", self.score_features, 1)


@register_encoder("ebt_grc", EbtGrcConfig, "gated recursive cell, easy-first beam trees (2023)")
class EbtGrc(Encoder):
    """The gated recursive cell over easy-first beam trees (Ray Chowdhury & Caragea 2023)."""

    config: EbtGrcConfig
    padding = 1e-10
    padding_reason = (
        "where a string has fewer pairs than the beam, padding is a merge of share 1e-20"
    )
    shows_trees = True

    def __init__(self, config: EbtGrcConfig, width: int) -> None:
        super().__init__(config, width)
        self.leaf = nn.Sequential(nn.Linear(width, width), LayerNorm(width))
        self.cell = GatedRecursiveCell(width, config.dropout)
        self.scorer = PairScorer(min(config.score_features, width))
        self.without_gradient = self.scorer.without_gradient(config.beam)

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self._search(x, mask, generator).vectors()

    def reference(
        self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return what `forward` does, in the released form."""
        leaves, lengths = self.leaf(x[mask]), mask.sum(1)
        plain = Reference(self.cell, self.scorer, len(leaves), self.config.beam, generator)
        longest = mask[:, : int(lengths.max())]
        ids = torch.zeros_like(longest, dtype=torch.int64)
        ids[longest] = torch.arange(1, len(leaves) + 1)
        h = torch.cat([torch.zeros_like(leaves[:1]), leaves])[ids]
        scores, valid = h.new_zeros(len(h), 1), mask[:, :1]
        h, _, scores, valid = plain.search(lengths, h[:, None], ids[:, None], scores, valid)
        return torch.einsum("nb,nbd->nd", beam_shares(scores, valid), h)

    @torch.no_grad()
    def trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        """Return the tree of each string's best beam, of its positions."""
        return self._search(x, mask, None).trees(lengths_of(mask))

    def _search(self, x: Tensor, mask: Tensor, generator: torch.Generator | None) -> EasyFirst:
        lengths = lengths_of(mask)
        leaves = self.leaf(x[mask])
        search = EasyFirst(self.cell, self.scorer, leaves, self.config.beam, generator)
        for level in levels_of(lengths, max(lengths), max(2, *lengths)):
            search.climb(level)
        return search
