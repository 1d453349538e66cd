"""The block-diagonal input-dependent linear RNN, as its paper writes it.

Fan, Chi & Rudnicky, "Advancing Regular Language Reasoning in Linear Recurrent Neural Networks",
arXiv:2309.07412v2, Eq. 5-6:

    x_k = A_k x_{k-1} + B u_k,    A_k = diag(A_k^(1), ..., A_k^(h)),    A_k^(i) in R^{b x b}
    A_k^(i) = [v_1 ... v_b],      v_j = m_j / max(1, |m_j|_p),          (m_j) = g(u_k)^(i)

Glossary
    u_k   u           input, (B, T, D)
    g     transition  any function D -> h b b; here linear or Linear-ReLU-Linear (`g`)
    B     value       linear as printed, or Linear-ReLU-Linear (`values`)
    A_k   blocks      (B, T, h, b, b), [row, column]: the state is contracted over columns
    x_k   states      (B, T, h, b)
    x_0   start       learnt by default: from x_0 = 0 the first symbol must write the state by B
    h(x)  readout     the state itself, or a linear map where h b differs from D

Differences from the paper: g and h are left open there; x_0 only appears in its proofs. The paper's
p = 1.2 does not make A_k a contraction: |A_k|_1 <= b^(1 - 1/p), 1.41 for b = 8, is attained.
One-hot columns have norm one, so any automaton of at most b states fits in one block exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, one_of
from lrbench.mixers.base import STARTS, LinearMixer
from lrbench.mixers.input_maps import MAPS, apply_map, blocks_of, generated_blocks, input_map
from lrbench.records import added
from lrbench.registry import register_mixer
from lrbench.scan import Transition
from lrbench.scan.blocks.constraints import CONSTRAINTS, check_p


@dataclass
class BlockDiagConfig:
    """Settings of `blockdiag`.

    init: random, or exact, weights that are right by construction (lrbench/models/exact/).

    block_size: b, the rows of a block of A. blocks: h, how many blocks there are; unset width /
    block_size. p: which norm of a column is bounded. constraint: what bounds the transition. g: the
    map from an input to A, linear or Linear-ReLU-Linear. values: the map B from an input to what is
    added, likewise. hidden: units inside a Linear-ReLU-Linear. learn_x0: whether the first state is
    learnt, not zero.
    """

    block_size: int = 8
    blocks: int | None = None
    p: float = 1.2
    constraint: str = "column_clip"
    g: str = "mlp"
    values: str = "mlp"
    hidden: int = 64
    learn_x0: bool = True
    init: str = added("random")

    def __post_init__(self) -> None:
        at_least("model.mixer.block_size", self.block_size, 1)
        at_least("model.mixer.blocks", self.blocks, 1)
        at_least("model.mixer.hidden", self.hidden, 1)
        check_p(self.p)
        one_of("model.mixer.constraint", self.constraint, CONSTRAINTS)
        one_of("model.mixer.g", self.g, MAPS)
        one_of("model.mixer.values", self.values, MAPS)
        one_of("model.mixer.init", self.init, STARTS)


@register_mixer(
    "blockdiag",
    BlockDiagConfig,
    "block-diagonal, clipped columns (Fan et al. 2024, Eq. 5-6)",
)
class BlockDiagonalMixer(LinearMixer):
    """Block-diagonal transitions with clipped columns (Fan et al. 2024, Eq. 5-6)."""

    def __init__(self, config: BlockDiagConfig, width: int) -> None:
        super().__init__(config, width)
        size = config.block_size
        blocks = config.blocks or blocks_of(width, size)
        self.shape = (blocks, size)
        self.transition = input_map(config.g, width, config.hidden, blocks * size * size)
        self.value = input_map(config.values, width, config.hidden, blocks * size)
        start = torch.randn(blocks, size) if config.learn_x0 else torch.zeros(blocks, size)
        self.start = nn.Parameter(start, requires_grad=config.learn_x0)
        self.out = nn.Identity() if blocks * size == width else nn.Linear(blocks * size, width)

    @property
    def state_size(self) -> int:
        return self.shape[0] * self.shape[1]

    def initial_state(self, batch: int) -> Tensor:
        return self.start.expand(batch, *self.shape)

    def coefficients(self, u: Tensor) -> tuple[Transition, Tensor]:
        how = self.config.constraint, self.config.p
        blocks = generated_blocks(self.transition, u, self.shape, *how)
        return blocks, apply_map(self.value, u).unflatten(2, self.shape)

    def readout(self, states: Tensor, u: Tensor | None) -> Tensor:
        y: Tensor = self.out(states.flatten(2))
        return y
