"""The gated recursive cell over a balanced binary tree (`bbt_grc`).

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), "BBT-GRC":

    leaves    h_i = LN(W_0 x_i + b_0)
    a level   h_i <- R(h_{2i}, h_{2i+1});   a last one without a partner goes up as it is

until one is left: ceil(log2 L_n) levels, one cell for all of them (`cell.py`). The tree of a string
depends on its length alone, so padding is never looked at: the nodes of all strings lie one after
the other, each level gathers its pairs, and nothing is computed for what is not there. `reference`
is the paper's way, padded and masked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from lrbench.checks import fraction
from lrbench.encoders.base import Encoder, Tree, lengths_of
from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.kernels.normalisation import LayerNorm
from lrbench.registry import register_encoder


@dataclass
class BbtGrcConfig:
    """Settings of `bbt_grc`.

    dropout: of the cell's hidden layer.
    """

    dropout: float = 0.1

    def __post_init__(self) -> None:
        fraction("model.encoder.dropout", self.dropout)


@register_encoder("bbt_grc", BbtGrcConfig, "gated recursive cell, balanced tree (2023)")
class BbtGrc(Encoder):
    """The gated recursive cell over a balanced binary tree (Ray Chowdhury & Caragea 2023)."""

    config: BbtGrcConfig
    shows_trees = True

    def __init__(self, config: BbtGrcConfig, width: int) -> None:
        super().__init__(config, width)
        self.leaf = nn.Sequential(nn.Linear(width, width), LayerNorm(width))
        self.cell = GatedRecursiveCell(width, config.dropout)

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        lengths = lengths_of(mask)
        real = torch.from_numpy(_real_slots(lengths, x.shape[1])).to(x.device)
        nodes: Tensor = self.leaf(x.flatten(0, 1).index_select(0, real))
        levels, roots = balanced(lengths)
        for pairs, alone in levels:
            both = nodes.index_select(0, torch.from_numpy(pairs).to(x.device))
            parents = self.cell(both.view(-1, 2 * self.width), generator)
            if len(alone):
                left = nodes.index_select(0, torch.from_numpy(alone).to(x.device))
                parents = torch.cat([parents, left])
            nodes = parents
        return nodes.index_select(0, torch.from_numpy(roots).to(x.device))

    def trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        """Return the balanced tree of each string, of its positions."""
        lengths = lengths_of(mask)
        nodes: list[Tree] = [place for length in lengths for place in range(length)]
        levels, roots = balanced(lengths)
        for pairs, alone in levels:
            parents = [(nodes[a], nodes[b]) for a, b in pairs.reshape(-1, 2).tolist()]
            nodes = [*parents, *(nodes[node] for node in alone.tolist())]
        return [nodes[root] for root in roots.tolist()]

    def reference(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return what `forward` does without dropout, level by level on padded strings."""
        h: Tensor = self.leaf(x)
        while h.shape[1] > 1:
            if h.shape[1] % 2:
                h, mask = pad(h, (0, 0, 0, 1)), pad(mask, (0, 1))
            left, right = h[:, 0::2], h[:, 1::2]
            pairs = torch.cat([left, right], 2)
            parents = self.cell.reference(pairs.flatten(0, 1)).view_as(left)
            h = torch.where(mask[:, 1::2, None], parents, left)
            mask = mask[:, 0::2]
        return h[:, 0]


def balanced(lengths: list[int]) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Return the levels of balanced trees over strings that lie one after the other, and the roots.

    A level is (pairs, alone): which of the nodes before it are its left and right children, in
    turn, and which go up as they are. The nodes after it are the parents and then those. roots (N,)
    says where among the last nodes each string's root is.
    """
    counts = np.asarray(lengths)
    nodes = np.arange(counts.sum())  # where each node of each string is, string by string
    levels = []
    while counts.max(initial=1) > 1:
        place = np.arange(len(nodes)) - np.repeat(counts.cumsum() - counts, counts)
        single = (place + 1 == np.repeat(counts, counts)) & (place % 2 == 0)
        lefts = np.flatnonzero((place % 2 == 0) & ~single)
        pairs = nodes[np.stack([lefts, lefts + 1], 1)].reshape(-1)
        levels.append((pairs, nodes[single]))
        going_up = single[place % 2 == 0]
        nodes = np.empty(len(going_up), dtype=np.int64)
        nodes[~going_up] = np.arange(len(lefts))
        nodes[going_up] = len(lefts) + np.arange(going_up.sum())
        counts = (counts + 1) // 2
    return levels, nodes


def _real_slots(lengths: list[int], padded: int) -> np.ndarray:
    """Return where the positions of strings are among N S padded ones."""
    return np.concatenate([n * padded + np.arange(length) for n, length in enumerate(lengths)])
