"""SD-SSM: dense transitions, each a mixture of a few matrices of a dictionary.

Terzic, Hersche, Camposampiero, Hofmann, Sebastian & Rahimi, "On the Expressiveness and Length
Generalization of Selective State-Space Models on Regular Languages", arXiv:2412.19350 (AAAI 2025):

    x_k = A_k x_{k-1} + B u_k,    y_k = x_k
    A_k = [v_1 ... v_N],   v_j = m_j / |m_j|_p,   (m_j) = sum_s softmax(S u_k + c)_s M_s,   s = 1..K

Glossary
    S, c   select      (K, D), (K)
    M_s    dictionary  (K, N, N), uniform in +-sqrt(6 / 2N)
    p      p           of the columns' norm; released runs have 1.1 to 1.4
    B      value       (N, D), no bias
    x_0    start       zero: the first symbol writes the state by B; learn_x0: learnt from zero
    y      out         the state itself, or a linear map where N differs from D

The blocks are those of `blockdiag` with a single block, whose features are the K weights and whose
columns are always of norm one, not at most one: `lrbench/scan/blocks/`. A permutation is such a
matrix. A mixture that is nearly a permutation is not: of 60 letters each with a leak of 5e-5 its
columns are of p-norm one, and sum to more, so that a state grows (|A|_1 <= N^(1 - 1/p)).

The stack is `bare`, with one-hot symbols in the paper (model.backbone.embed=one_hot).
Differences: x_0 can be learnt; released runs start from zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, one_of
from lrbench.mixers.base import STARTS, LinearMixer
from lrbench.registry import register_mixer
from lrbench.scan import GeneratedBlocks, Transition
from lrbench.scan.blocks.constraints import check_p


@dataclass
class SDSSMConfig:
    """Settings of `sdssm`: N = `state_size` numbers, model.width unless set.

    dictionary: K, how many matrices there are to mix. init: random, or exact, weights that are
    right by construction (lrbench/models/exact/).

    state_size: N, numbers of the state; unset the width. p: which norm of A's columns is one.
    learn_x0: whether the first state is learnt, not zero.
    """

    state_size: int | None = None
    dictionary: int = 8
    p: float = 1.2
    learn_x0: bool = False
    init: str = "random"

    def __post_init__(self) -> None:
        at_least("model.mixer.state_size", self.state_size, 1)
        at_least("model.mixer.dictionary", self.dictionary, 1)
        check_p(self.p)
        one_of("model.mixer.init", self.init, STARTS)


@register_mixer("sdssm", SDSSMConfig, "SD-SSM, mixed dense matrices (Terzic et al. 2025)", "bare")
class SDSSM(LinearMixer):
    """Dense transitions mixed from a dictionary, with columns of norm one (Terzic et al. 2025)."""

    def __init__(self, config: SDSSMConfig, width: int) -> None:
        super().__init__(config, width)
        size = config.state_size or width
        self.select = nn.Linear(width, config.dictionary)
        drawn = torch.empty(config.dictionary, size, size).uniform_(-1, 1)
        self.dictionary = nn.Parameter(sqrt(6 / (2 * size)) * drawn)
        self.value = nn.Linear(width, size, bias=False)
        self.start = nn.Parameter(torch.zeros(size), requires_grad=config.learn_x0)
        self.out = nn.Identity() if size == width else nn.Linear(size, width)

    @property
    def state_size(self) -> int:
        return len(self.start)

    def initial_state(self, batch: int) -> Tensor:
        """Return x_0, (B, 1, N)."""
        return self.start.expand(batch, 1, -1)

    def coefficients(self, u: Tensor) -> tuple[Transition, Tensor]:
        weight = self.dictionary.permute(1, 2, 0)[None]  # (1, N, N, K)
        mixed = GeneratedBlocks(weight, self.select(u).softmax(-1), "column_unit", self.config.p)
        return mixed, self.value(u)[:, :, None]

    def readout(self, states: Tensor, u: Tensor | None) -> Tensor:
        y: Tensor = self.out(states[:, :, 0])
        return y
