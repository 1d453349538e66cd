"""The block-diagonal linear RNN as its authors' released code computes it.

Fan, Chi & Rudnicky 2024, arXiv:2309.07412; code published 2023-10-26. Re-implemented from a
description of its behaviour. For a layer's (normalised) input u_k:

    M_k = W_2 relu(W_1 u_k),            W_1 in R^{D b x D}, W_2 in R^{D b x D b}, as h blocks b x b
    M_k <- M_k - (mean of each column)
    A_k^(i) = M_k^(i) / max_j |column j of M_k^(i)|_p,      p = 1.2
    x_k = A_k x_{k-1} + V_2 relu(V_1 u_k),                  x_0 learnt, N(0, 1) at first;  y_k = x_k

Glossary: transition = (W_1, W_2), value = (V_1, V_2), start = x_0; D = model.width, h = D / b.

Differences from the paper (`blockdiag`): columns are centred; a whole block is divided by its
largest column norm, scaled up as well as down; values come from an MLP. Since every column sums to
zero, states live in a (b-1)-dimensional space per block and A = 0 cannot be expressed.
Differences from the released code: a block whose columns are all constant gives A = 0, not 0/0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import at_least
from lrbench.mixers.base import LinearMixer
from lrbench.mixers.input_maps import apply_map, blocks_of, generated_blocks, input_map
from lrbench.registry import register_mixer
from lrbench.scan import Transition
from lrbench.scan.blocks.constraints import check_p

CONSTRAINT = "max_column_centred"


@dataclass
class BlockDiagReleaseConfig:
    """Settings of `blockdiag_release`.

    block_size: b, the rows of a block of A. p: which norm of a column a block is divided by.
    """

    block_size: int = 8
    p: float = 1.2

    def __post_init__(self) -> None:
        at_least("model.mixer.block_size", self.block_size, 1)
        check_p(self.p)


@register_mixer(
    "blockdiag_release",
    BlockDiagReleaseConfig,
    "block-diagonal, centred columns (code of Fan et al. 2024)",
)
class BlockDiagonalRelease(LinearMixer):
    """Centred blocks divided by their largest column norm (released code of Fan et al. 2024)."""

    def __init__(self, config: BlockDiagReleaseConfig, width: int) -> None:
        super().__init__(config, width)
        size = config.block_size
        self.shape = (blocks_of(width, size), size)
        self.transition = input_map("mlp", width, width * size, width * size)
        self.value = input_map("mlp", width, width, width)
        self.start = nn.Parameter(torch.randn(self.shape))

    @property
    def state_size(self) -> int:
        return self.width

    def initial_state(self, batch: int) -> Tensor:
        return self.start.expand(batch, *self.shape)

    def coefficients(self, u: Tensor) -> tuple[Transition, Tensor]:
        how = CONSTRAINT, self.config.p
        blocks = generated_blocks(self.transition, u, self.shape, *how)
        return blocks, apply_map(self.value, u).unflatten(2, self.shape)

    def readout(self, states: Tensor, u: Tensor | None) -> Tensor:
        return states.flatten(2)
