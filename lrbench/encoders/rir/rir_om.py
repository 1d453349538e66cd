"""Recursion in recursion with Ordered Memory inside (`rir_om`).

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), "RIR-OM": the levels of `base.py`, with Ordered
Memory (`ordered_memory.py`) along each chunk. Leaves are made once, before all levels, so vectors
go into the memory as they are. The S4D layer has batch normalisation and no dropout. The paper does
not say whether chunks are made in evaluation; here they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lrbench.checks import at_least, fraction
from lrbench.encoders.base import Tree, lengths_of
from lrbench.encoders.grc.rnn_grc import Packing
from lrbench.encoders.rir.base import RirConfig, RirEncoder
from lrbench.encoders.soft.ordered_memory import Memory, OrderedMemoryConfig
from lrbench.registry import register_encoder


@dataclass
class RirOmConfig(RirConfig):
    """Settings of `rir_om`: those of all `rir_*` (`base.py`) and of `ordered_memory`."""

    s4d_dropout: float = 0.0
    slots: int = 21
    test_slot_factor: int = 1
    memory_dropout: float = 0.1
    recompute: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model.encoder.slots", self.slots, 1)
        at_least("model.encoder.test_slot_factor", self.test_slot_factor, 1)
        fraction("model.encoder.memory_dropout", self.memory_dropout)


@register_encoder("rir_om", RirOmConfig, "recursion in recursion, Ordered Memory inside (2023)")
class RirOm(RirEncoder):
    """Ordered Memory over chunks of chunks (Ray Chowdhury & Caragea 2023)."""

    config: RirOmConfig
    shows_trees = True
    without_gradient = frozenset(["memory.score.bias"])  # added to all beta

    def __init__(self, config: RirOmConfig, width: int) -> None:
        super().__init__(config, width, norm=True)
        names = ("slots", "test_slot_factor", "dropout", "memory_dropout", "recompute")
        settings = {name: getattr(config, name) for name in names}
        self.memory = Memory(OrderedMemoryConfig(**settings), width)

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.recurse(self.compose, x, mask, generator)

    def compose(self, x: Tensor, mask: Tensor, generator: torch.Generator | None) -> Tensor:
        plan = Packing.of(lengths_of(mask))
        indices = plan.rows * x.shape[1] + plan.positions
        packed = x.flatten(0, 1).index_select(0, indices.to(x.device))
        last: Tensor = self.memory(packed, plan, generator)
        return last

    def chunk_trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        pairs = zip(x, lengths_of(mask), strict=True)
        return [self.memory.tree(chunk[:length]) for chunk, length in pairs]
