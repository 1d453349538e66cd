"""SLiCE: a linear differential equation that its input drives, in Euler steps.

Walker, Yang, Muca Cirone, Salvi & Lyons, "Structured Linear CDEs: Maximally Expressive and
Parallel-in-Time Sequence Models", arXiv:2505.17761, as its released code computes it:

    x_1 = W u_1 + c,    x_k = x_{k-1} + A(w_k) x_{k-1},    w_k = dt (1, u_k),    y_k = x_k
    A(w) = sum_i w_i A_i,   i = 0..D,   with matrices A_i of one structure, N = D:

    structure  A(w)                                     drawn from
    diagonal   diag(sum_i w_i a_i)                      N(0, s^2)
    block      blocks b x b on the diagonal             N(0, s^2 / b)
    dense      one block, b = N                         N(0, s^2 / N)
    dplr       diag(sum_i w_i a_i) + sum_i w_i U_i V_i^T, N x r   N(0, s^2), U, V N(0, s^2 / r)
    walsh      H diag(sum_i w_i tanh(a_i)), H the Walsh-Hadamard matrix over N^(1/2)     N(0, s^2)

Glossary: s = init_std; b = block_size; r = rank; dt = 1/40, fixed; first = W, c, N(0, s^2) both;
blocks (N / b, b, b, D + 1), values (N, D + 1), left and right (N, D + 1, r): the last of D + 1 goes
with the 1.

Nothing is added after the first symbol, and nothing bounds a state: as it begins the spectral
radius of 1 + A is more than one, so that a state grows with length, and only a norm behind the
layer keeps it usable. Not `blockdiag`, whose words are the same: its columns have norm one at most.

The state: x, and a 1 from the first symbol on. Differences: the released code puts 1e11
tanh(z / 1e11) for z = A(w_k) x_{k-1}, which is z to rounding up to 1e7 and no linear map beyond.
It adds 0.001 times the Euclidean norm of each layer's A to the loss, and lets a GPU multiply in
TF32. Its structures with a random mask (sparse) and with a block beside a diagonal are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from lrbench.checks import at_least, one_of, only_with
from lrbench.kernels.rows import rows
from lrbench.mixers.base import STARTS, LinearMixer
from lrbench.mixers.input_maps import blocks_of
from lrbench.registry import register_mixer
from lrbench.scan import Diagonal, GeneratedBlocks, Indexed, Transition, scan
from lrbench.scan.structured.low_rank import DiagonalPlusLowRank

STRUCTURES = ("diagonal", "block", "dplr", "dense", "walsh")
STEP = 1 / 40

State = tuple[Tensor, Tensor]


@dataclass
class SliceConfig:
    """Settings of `slice`.

    init: random, or exact, weights that are right by construction (lrbench/models/exact/).

    structure: of the matrices A_i. block_size: b, rows of a block of `block`. rank: r of `dplr`.
    init_std: s, which the first weights are drawn with.
    """

    structure: str = "block"
    block_size: int = 4
    rank: int = 1
    init_std: float = 0.5
    init: str = "random"

    def __post_init__(self) -> None:
        one_of("model.mixer.structure", self.structure, STRUCTURES)
        at_least("model.mixer.block_size", self.block_size, 1)
        at_least("model.mixer.rank", self.rank, 1)
        at_least("model.mixer.init_std", self.init_std, 0)
        one_of("model.mixer.init", self.init, STARTS)
        own, blocks, drawn = type(self), self.structure == "block", self.init != "exact"
        key, size, other = "model.mixer.block_size", self.block_size, "model.mixer.structure=block"
        only_with(key, size, own.block_size, blocks, other)
        low_rank, other = self.structure == "dplr", "model.mixer.structure=dplr"
        only_with("model.mixer.rank", self.rank, own.rank, low_rank, other)
        key, std, other = "model.mixer.init_std", self.init_std, "model.mixer.init=random"
        only_with(key, std, own.init_std, drawn, other)


@register_mixer("slice", SliceConfig, "structured linear CDE (Walker et al. 2025)", "slice")
class Slice(LinearMixer):
    """Euler steps of a linear equation whose matrix is linear in the input (Walker et al. 2025)."""

    unbounded = "nothing bounds 1 + A; a norm follows in its stack"

    hadamard: Tensor

    def __init__(self, config: SliceConfig, width: int) -> None:
        super().__init__(config, width)
        std, inputs = config.init_std, width + 1
        self.first = nn.Linear(width, width)
        nn.init.normal_(self.first.weight, std=std)
        nn.init.normal_(self.first.bias, std=std)
        if config.structure in ("block", "dense"):
            size = config.block_size if config.structure == "block" else width
            shape = blocks_of(width, size), size, size, inputs
            self.blocks = nn.Parameter(torch.randn(shape) * std / sqrt(size))
        else:
            self.values = nn.Parameter(torch.randn(width, inputs) * std)
        if config.structure == "dplr":
            drawn = torch.randn(2, width, inputs, config.rank) * std / sqrt(config.rank)
            self.left, self.right = (nn.Parameter(factor.clone()) for factor in drawn)
        if config.structure == "walsh":
            self.register_buffer("hadamard", hadamard(width), persistent=False)  # 1 and -1

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of x of one string."""
        structure = self.config.structure
        if structure == "diagonal":
            return (self.width,)
        return self.blocks.shape[:2] if structure in ("block", "dense") else (1, self.width)

    @property
    def state_size(self) -> int:
        return self.width + 1

    def initial_state(self, batch: int) -> State:
        """Return x_0 = 0, (B, N) or (B, h, b), and 0, (B, 1): nothing has been read."""
        like = self.first.weight
        return like.new_zeros(batch, *self.shape), like.new_zeros(batch, 1)

    def coefficients(self, u: Tensor) -> tuple[Transition, Tensor]:
        """Return 1 + A(w_k), and inputs of zero."""
        structure, none = self.config.structure, u.new_zeros(*u.shape[:2], *self.shape)
        along = pad(u, (0, 1), value=1.0)  # (B, T, D + 1)
        if structure in ("block", "dense"):
            size = self.blocks.shape[1]
            eye = torch.eye(size, dtype=u.dtype, device=u.device)[..., None]
            weight = STEP * self.blocks + pad(eye, (self.width, 0))
            return GeneratedBlocks(weight, along, "none", 2.0), none
        if structure == "walsh":
            moved = STEP / sqrt(self.width) * (along @ self.values.tanh().T)
            eye = torch.eye(self.width, dtype=u.dtype, device=u.device)
            return DiagonalPlusLowRank(torch.ones_like(u), moved, self.hadamard, eye), none
        values = 1 + STEP * (along @ self.values.T)
        if structure == "diagonal":
            return Diagonal(values), none
        scales = STEP * along.repeat_interleave(self.config.rank, -1)
        factors = self.left.flatten(1), self.right.flatten(1)
        return DiagonalPlusLowRank(values, scales, *factors), none

    def readout(self, states: Tensor, u: Tensor | None) -> Tensor:
        return states.flatten(2)

    def forward(  # type: ignore[override]
        self,
        u: Tensor,
        state: State | None = None,
        mode: str | None = None,
        index: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """Map u (B, T, D), or a table u (S, D) looked up by `index` (B, T), to (y, state)."""
        batch = len(u) if index is None else len(index)
        x, begun = self.initial_state(batch) if state is None else state
        how, length = mode or self.default_mode, (u if index is None else index).shape[1]
        u_1 = u[:, :1] if index is None else rows(u, index[:, :1])
        written = (1 - begun)[:, None] * self.first(u_1)
        transition, _ = self.coefficients(u_1)
        states = scan(transition, written.view(batch, 1, *self.shape), x, how)
        if length > 1:
            transition, none = self.coefficients(u[:, 1:] if index is None else u[None])
            if index is not None:
                transition = Indexed(transition, index[:, 1:])  # type: ignore[arg-type]
            states = torch.cat([states, scan(transition, none, states[:, -1], how)], 1)
        return self.readout(states, None), (states[:, -1], torch.ones_like(begun))


def hadamard(size: int) -> Tensor:
    """Return the Walsh-Hadamard matrix, of entries 1 and -1; ValueError but for powers of two."""
    if size & (size - 1):
        raise ValueError(
            f"model.mixer.structure=walsh needs a model.width that is a power of two, not {size}"
        )
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix
