"""PD-SSM: a state that is scaled and then sent on, each number of it to one place.

Terzic, Menet, Hersche, Hofmann & Rahimi, "Structured Sparse Transition Matrices to Enable State
Tracking in State-Space Models", arXiv:2509.22284:

    x_k = P_k D_k x_{k-1} + B u_k,    y_k = W_y [Re x_k, Im x_k] + c_y + D * u_k
    P_k = hardmax of each column of M_k,   M_k = sum_s softmax(S u_k)_s M_s,   s = 1..K
    D_k = diag(r_k e^(i phi_k)),   r_k = sigmoid(f(u_k)),   phi_k = 2 pi sigmoid(g(u_k))

P_k has a single one in each column, so that it moves one-hot states as a finite automaton does:
every automaton of at most N states fits in one layer. Its gradient is taken for that of a softmax
over the columns of M_k (straight through).

Glossary
    S            select      (K, D), no bias               M_s  dictionary  (K, N, N), N(0, 1/N)
    f, g         magnitude, phase: Linear, GELU, Linear, with 2N hidden units
    B            input       (N, D, 2), both parts N(0, 1/(2N))
    W_y, c_y     out         reads real and imaginary parts in turn
    D            skip        (D), N(0, 1/D)
    x_0          start       e_1, real; learn_x0: learnt from there
    orientation  column: as printed; row: x_k = D_k P_k x_{k-1} + B u_k, the largest of each row

Differences: where paper and released code differ the paper is followed. The released PyTorch model
makes rows one-hot and scales rows, orientation=row, so that x'_j = d_j x_(i_j) is read and not
sent; both are exact for permutations, but of letters that merge states only columns send a one-hot
state to a one-hot state. The JAX model's f and g have no hidden layer. The PyTorch model has
dropout on what W_y reads, none behind the norm, and its D decays. x_0 can be learnt.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt, tau
from typing import ClassVar

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, one_of
from lrbench.mixers.base import STARTS, LinearMixer, ParameterRule
from lrbench.mixers.complex_linear import as_rows, to_complex
from lrbench.registry import register_mixer
from lrbench.scan import Transition
from lrbench.scan.structured.one_hot import ORIENTATIONS, OneHotProducts


@dataclass
class PDSSMConfig:
    """Settings of `pdssm`: N = `state_size` complex numbers, model.width unless set.

    dictionary: K, how many matrices there are to choose from. init: random, or exact, weights that
    are right by construction (lrbench/models/exact/).

    state_size: N, complex numbers of the state; unset the width. orientation: whether columns or
    rows of P are one-hot. learn_x0: whether the first state is learnt, not zero.
    """

    state_size: int | None = None
    dictionary: int = 8
    orientation: str = "column"
    learn_x0: bool = False
    init: str = "random"

    def __post_init__(self) -> None:
        at_least("model.mixer.state_size", self.state_size, 1)
        at_least("model.mixer.dictionary", self.dictionary, 1)
        one_of("model.mixer.orientation", self.orientation, ORIENTATIONS)
        one_of("model.mixer.init", self.init, STARTS)


@register_mixer("pdssm", PDSSMConfig, "PD-SSM, one-hot columns (Terzic et al. 2025)", "bare")
class PDSSM(LinearMixer):
    """Complex numbers, each scaled and sent to one place (Terzic et al. 2025)."""

    readout_needs_input: ClassVar[bool] = True
    exact_gradient: ClassVar[bool] = False

    def __init__(self, config: PDSSMConfig, width: int) -> None:
        super().__init__(config, width)
        size = self.size = config.state_size or width
        self.select = nn.Linear(width, config.dictionary, bias=False)
        self.dictionary = nn.Parameter(torch.randn(config.dictionary, size, size) / sqrt(size))
        self.magnitude, self.phase = (
            nn.Sequential(nn.Linear(width, 2 * size), nn.GELU(), nn.Linear(2 * size, size))
            for _ in range(2)
        )
        self.input = nn.Parameter(torch.randn(size, width, 2) / sqrt(2 * size))
        self.out = nn.Linear(2 * size, width)
        self.skip = nn.Parameter(torch.randn(width) / sqrt(width))
        self.start = nn.Parameter(torch.eye(size)[0], requires_grad=config.learn_x0)

    def parameter_rules(self) -> dict[str, ParameterRule]:
        return {"skip": ParameterRule(decay=False)}

    @property
    def state_size(self) -> int:
        return 2 * self.size

    def initial_state(self, batch: int) -> Tensor:
        """Return x_0, (B, 1, N), complex."""
        return torch.complex(self.start, torch.zeros_like(self.start)).expand(batch, 1, -1)

    def coefficients(self, u: Tensor) -> tuple[Transition, Tensor]:
        weights = self.select(u).softmax(-1)
        values = torch.polar(self.magnitude(u).sigmoid(), tau * self.phase(u).sigmoid())
        ones = OneHotProducts(weights, self.dictionary, values, self.config.orientation)
        return ones, to_complex(u, torch.view_as_complex(self.input))[:, :, None]

    def readout(self, states: Tensor, u: Tensor | None) -> Tensor:
        assert u is not None
        y: Tensor = self.out(as_rows(states[:, :, 0])).addcmul(self.skip, u)
        return y
