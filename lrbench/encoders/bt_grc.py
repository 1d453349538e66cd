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

`beam_tree_search.py` searches without a graph and keeps what it knows of a pair;
`beam_tree_gradient.py` differentiates what is left at the end. `reference` is the released way: all
pairs of all beams at each step. The result does not depend on padding: with K of the padded length,
as released, a short string among longer ones has beams of weight 1e-20; here it has none.
"""

from __future__ import annotations

from dataclasses import dataclass

from lrbench.encoders.beam_tree import BeamTree, BeamTreeConfig
from lrbench.registry import register_encoder


@dataclass
class BtGrcConfig(BeamTreeConfig):
    """Settings of `bt_grc`: those of beam trees."""


@register_encoder("bt_grc", BtGrcConfig, "gated recursive cell, beam search over trees (2023)")
class BtGrc(BeamTree):
    """The gated recursive cell over trees found by beam search (Ray Chowdhury & Caragea 2023)."""
