"""Recursion in recursion with Ordered Memory inside (`rir_om`).

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), "RIR-OM": the levels of `base.py`, with Ordered
Memory (`ordered_memory.py`) along each chunk. As released, and other than the paper has it, leaves
are not the only map: Ordered Memory's own, x' = LN(W x + b) with the cell's LN, stands before the
memory at every level. The S4D layer has batch normalisation and no dropout. The paper does not say
whether chunks are made in evaluation; here they are.

Version 1 had no such map: 560,641 parameters of the encoder, for 577,153 at a width of 128. Up to
version 2 the batch normalisation counted outputs of the S4D layer's backward half at padding.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor

from lrbench.checks import at_least, fraction
from lrbench.encoders.base import Tree
from lrbench.encoders.rir.base import RirConfig, RirEncoder
from lrbench.encoders.soft.ordered_memory import (
    OrderedMemory,
    OrderedMemoryConfig,
    refuse_untrained_choice,
)
from lrbench.registry import register_encoder

ALONE = "one symbol by itself is a leaf, and beside longer strings an output of the memory"


@dataclass
class RirOmConfig(RirConfig):
    """Settings of `rir_om`: those of all `rir_*` (`base.py`) and of `ordered_memory`.

    slots: of the memory. test_slot_factor: slots outside of training over `slots`. memory_dropout:
    of what positions are computed from. recompute: keep none of the cell's numbers for the
    backward.
    """

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
        refuse_untrained_choice(self.slots, self.test_slot_factor)
        if self.chunk == 2 and self.inference == "full":
            raise ValueError(
                "model.encoder.chunk=2 leaves one slot to write to in training, so nothing trains "
                "what inference=full chooses slots by; add model.encoder.inference=rir"
            )


@register_encoder("rir_om", RirOmConfig, "recursion in recursion, Ordered Memory inside (2023)")
class RirOm(RirEncoder):
    """Ordered Memory over chunks of chunks (Ray Chowdhury & Caragea 2023)."""

    config: RirOmConfig
    version = 3
    shows_trees = True

    def __init__(self, config: RirOmConfig, width: int) -> None:
        super().__init__(config, width, norm=True)
        if config.inference == "full" and config.chunk_decision == "batch":
            self.padding, self.padding_reason = None, ALONE
        names = ("slots", "test_slot_factor", "dropout", "memory_dropout", "recompute")
        settings = {name: getattr(config, name) for name in names}
        self.inner = OrderedMemory(OrderedMemoryConfig(**settings), width)
        # in a chunk of two there is one position to write, and one slot for it
        idle = self.inner.of_position if config.chunk == 2 else self.inner.without_gradient
        self.without_gradient = frozenset(f"inner.{name}" for name in idle)

    def forward(self, x: Tensor, mask: Tensor, generator: Generator | None = None) -> Tensor:
        return self.recurse(self.compose, x, mask, generator)

    def compose(self, x: Tensor, mask: Tensor, generator: Generator | None) -> Tensor:
        vectors: Tensor = self.inner(x, mask, generator)
        return vectors

    def chunk_trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        return self.inner.trees(x, mask)
