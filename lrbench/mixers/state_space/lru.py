"""The Linear Recurrent Unit.

Orvieto, Smith, Gu, Fernando, Gulcehre, Pascanu & De, "Resurrecting Recurrent Neural Networks for
Long Sequences", arXiv:2303.06349, Eq. 5-7 and Appendix A:

    x_k = lambda x_{k-1} + exp(gamma_log) (B u_k),    y_k = Re(C x_k) + D u_k     (elementwise in x)
    lambda = exp(-exp(nu_log) + i exp(theta_log)),    |lambda| < 1 whatever is learnt

Initialisation on a ring, u_1, u_2 uniform in (0, 1), and normalisation of the state's variance:

    nu_log = log(-1/2 log(u_1 (r_max^2 - r_min^2) + r_min^2)),   theta_log = log(max_phase u_2)
    gamma_log = log sqrt(1 - |lambda|^2), learnt from there on
    B ~ N(0, 1/2D), C ~ N(0, 1/N) in both parts, D ~ N(0, 1)

Glossary: nu_log, theta_log, gamma_log (N); input = B (N, D, 2), output = C (D, N, 2), real and
imaginary parts; skip = D (D). N = `state_size` complex numbers, without conjugate partners.

Differences: u_1 stays 1e-6 away from 0 and 1, where nu_log is infinite or gamma zero. The paper
trains lambda, gamma and B more slowly than the rest; here that is `dynamics_lr`, 1 by default.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, radii
from lrbench.mixers.base import ParameterRule
from lrbench.mixers.complex_linear import real_part, to_complex
from lrbench.mixers.time_invariant import TimeInvariantMixer
from lrbench.registry import register_mixer
from lrbench.scan import ConstantDiagonal

EDGE = 1e-6
DYNAMICS = ("nu_log", "theta_log", "gamma_log", "input")


@dataclass
class LRUConfig:
    """Settings of `lru`.

    state_size: N, complex numbers of the state. r_min: the smallest |lambda| at first. r_max: the
    largest |lambda| at first. max_phase: the largest phase of lambda at first, in radians.
    dynamics_lr: learning rate of lambda, gamma and B over that of all other parameters.
    """

    state_size: int = 64
    r_min: float = 0.0
    r_max: float = 1.0
    max_phase: float = 6.28
    dynamics_lr: float = 1.0

    def __post_init__(self) -> None:
        at_least("model.mixer.state_size", self.state_size, 1)
        at_least("model.mixer.r_min", self.r_min, 0)
        at_least("model.mixer.max_phase", self.max_phase, 1e-6)
        at_least("model.mixer.dynamics_lr", self.dynamics_lr, 0)
        radii(self.r_min, self.r_max)


@register_mixer("lru", LRUConfig, "linear recurrent unit (Orvieto et al. 2023)", "s4")
class LRU(TimeInvariantMixer):
    """Complex diagonal recurrence shared by all features (Orvieto et al. 2023)."""

    readout_needs_input = True

    def __init__(self, config: LRUConfig, width: int) -> None:
        super().__init__(config, width)
        size = self.size = config.state_size
        nu_log, theta_log = ring(size, config.r_min, config.r_max, config.max_phase)
        self.nu_log, self.theta_log = nn.Parameter(nu_log), nn.Parameter(theta_log)
        self.gamma_log = nn.Parameter(normaliser(nu_log))
        self.input = nn.Parameter(torch.randn(size, width, 2) / sqrt(2 * width))
        self.output = nn.Parameter(torch.randn(width, size, 2) / sqrt(size))
        self.skip = nn.Parameter(torch.randn(width))

    @property
    def state_size(self) -> int:
        return 2 * self.size

    def initial_state(self, batch: int) -> Tensor:
        return torch.view_as_complex(self.nu_log.new_zeros(batch, self.size, 2))

    def parameter_rules(self) -> dict[str, ParameterRule]:
        slow = ParameterRule(self.config.dynamics_lr, decay=False)
        return dict.fromkeys(DYNAMICS, slow) | {"skip": ParameterRule(decay=False)}

    def eigenvalues(self) -> Tensor:
        """Return lambda (N)."""
        return torch.polar(torch.exp(-self.nu_log.exp()), self.theta_log.exp())

    def coefficients(self, u: Tensor) -> tuple[ConstantDiagonal, Tensor]:
        scaled = self.gamma_log.exp()[:, None, None] * self.input
        return ConstantDiagonal(self.eigenvalues()), to_complex(u, torch.view_as_complex(scaled))

    def readout(self, states: Tensor, u: Tensor | None) -> Tensor:
        assert u is not None
        return real_part(states, torch.view_as_complex(self.output)).addcmul(self.skip, u)


def ring(size: int, r_min: float, r_max: float, max_phase: float) -> tuple[Tensor, Tensor]:
    """Draw nu_log and theta_log (N): uniform on the ring [r_min, r_max], up to max_phase."""
    u1, u2 = torch.rand(2, size, dtype=torch.float64).clamp(EDGE, 1 - EDGE)
    squared = u1 * (r_max**2 - r_min**2) + r_min**2
    return (-0.5 * squared.log()).log().float(), (max_phase * u2).log().float()


def normaliser(nu_log: Tensor) -> Tensor:
    """Return gamma_log = log sqrt(1 - |lambda|^2), precise where |lambda| is near one."""
    return 0.5 * torch.log(-torch.expm1(-2 * nu_log.double().exp())).float()
