"""S5: one state space of many inputs and outputs, diagonalised.

Smith, Warrington & Linderman, "Simplified State Space Layers for Sequence Modeling",
arXiv:2208.04933, Section 3 and Appendix B:

    x_k = Abar x_{k-1} + Bbar u_k,    y_k = 2 Re(C x_k) + D u_k            (elementwise in x)

    zoh       Abar = exp(Delta A),                           Bbar = (Abar - 1) / A B
    bilinear  Abar = (1 + Delta A / 2) / (1 - Delta A / 2),  Bbar = Delta B / (1 - Delta A / 2)

with a step Delta for each state. At first A holds the eigenvalues of J normal HiPPO-LegS matrices
of N / J states each (`hippo.py`), and with V their eigenvectors, B = V^* B', C = C' V.

Glossary: N = `state_size`, of which one of each conjugate pair is kept (P = N / 2), or all (P = N,
and y = Re(C x) + D u) without `conjugate_symmetry`. decay, frequency = Re A, Im A (P); log_step =
log Delta (P); input = B (P, D, 2), output = C (D, P, 2), real and imaginary parts; skip = D (D).

Re A is learnt without constraint, as published; `clip_eigs` keeps it at or below -1e-4, without
which a system may grow without bound on strings longer than those of training. Differences: the
normal distributions are not truncated.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, one_of
from lrbench.mixers.base import ParameterRule
from lrbench.mixers.complex_linear import pairs, real_part, to_complex
from lrbench.mixers.state_space.hippo import legs
from lrbench.mixers.time_invariant import TimeInvariantMixer
from lrbench.registry import register_mixer
from lrbench.scan import ConstantDiagonal

DISCRETISATIONS = ("zoh", "bilinear")
OUTPUT_INITS = ("lecun", "complex_normal")
DYNAMICS = ("decay", "frequency", "log_step", "input")
LARGEST_REAL_PART = -1e-4


@dataclass
class S5Config:
    """Settings of `s5`.

    state_size: N. blocks: J. output_init: C' normal with variance 1/N and C = C' V, or C itself
    complex normal. dynamics_lr: learning rate of A, B and Delta over that of all other parameters.

    discretisation: how steps are made of A and B, zoh or bilinear. conjugate_symmetry: whether one
    of each conjugate pair of states is kept. clip_eigs: whether Re A is kept at or below -1e-4.
    dt_min: the smallest step Delta at first. dt_max: the largest step Delta at first.
    """

    state_size: int = 64
    blocks: int = 1
    discretisation: str = "zoh"
    conjugate_symmetry: bool = True
    clip_eigs: bool = True
    output_init: str = "lecun"
    dt_min: float = 1e-3
    dt_max: float = 1e-1
    dynamics_lr: float = 0.25

    def __post_init__(self) -> None:
        at_least("model.mixer.state_size", self.state_size, 1)
        at_least("model.mixer.blocks", self.blocks, 1)
        at_least("model.mixer.dt_min", self.dt_min, 1e-8)
        at_least("model.mixer.dt_max", self.dt_max, self.dt_min)
        at_least("model.mixer.dynamics_lr", self.dynamics_lr, 0)
        one_of("model.mixer.discretisation", self.discretisation, DISCRETISATIONS)
        one_of("model.mixer.output_init", self.output_init, OUTPUT_INITS)
        each = self.blocks * (2 if self.conjugate_symmetry else 1)
        if isinstance(self.state_size, int) and self.state_size % each:
            raise ValueError(
                f"model.mixer.state_size must be a multiple of {each}, not {self.state_size}:"
                f" {self.blocks} blocks of equal size, in conjugate pairs if conjugate_symmetry"
            )


@register_mixer("s5", S5Config, "one diagonal system for all features (Smith et al. 2023)", "s4")
class S5(TimeInvariantMixer):
    """One diagonal state space of D inputs and D outputs (Smith et al. 2023)."""

    readout_needs_input = True

    def __init__(self, config: S5Config, width: int) -> None:
        super().__init__(config, width)
        size = config.state_size
        a, vectors = first_modes(size, config.blocks, config.conjugate_symmetry)
        kept = self.kept = len(a)
        b, c = torch.randn(size, width) / sqrt(width), torch.randn(width, size, 2) / sqrt(size)
        self.decay = nn.Parameter(pairs(a)[:, 0].clone())
        self.frequency = nn.Parameter(pairs(a)[:, 1].clone())
        low, high = log(config.dt_min), log(config.dt_max)
        self.log_step = nn.Parameter(torch.empty(kept).uniform_(low, high))
        v = vectors.to(b.device, torch.complex64)
        self.input = nn.Parameter(pairs(v.mH @ b.to(v.dtype)))
        if config.output_init == "lecun":
            self.output = nn.Parameter(pairs(torch.view_as_complex(c) @ v))
        else:
            self.output = nn.Parameter(torch.randn(width, kept, 2) * sqrt(0.5))
        self.skip = nn.Parameter(torch.randn(width))

    @property
    def state_size(self) -> int:
        return 2 * self.kept

    def initial_state(self, batch: int) -> Tensor:
        return torch.view_as_complex(self.decay.new_zeros(batch, self.kept, 2))

    def parameter_rules(self) -> dict[str, ParameterRule]:
        slow = ParameterRule(self.config.dynamics_lr, decay=False)
        return dict.fromkeys(DYNAMICS, slow) | {"skip": ParameterRule(decay=False)}

    def system(self) -> tuple[Tensor, Tensor]:
        """Return Abar (P) and Bbar (P, D), complex."""
        real = self.decay.clamp(max=LARGEST_REAL_PART) if self.config.clip_eigs else self.decay
        a, b = torch.complex(real, self.frequency), torch.view_as_complex(self.input)
        abar, gain = discretise(a, self.log_step.exp(), self.config.discretisation)
        return abar, gain[:, None] * b

    def coefficients(self, u: Tensor) -> tuple[ConstantDiagonal, Tensor]:
        abar, bbar = self.system()
        return ConstantDiagonal(abar), to_complex(u, bbar)

    def readout(self, states: Tensor, u: Tensor | None) -> Tensor:
        assert u is not None
        twice = 2 if self.config.conjugate_symmetry else 1
        c = twice * torch.view_as_complex(self.output)
        return real_part(states, c).addcmul(self.skip, u)


def discretise(a: Tensor, step: Tensor, how: str) -> tuple[Tensor, Tensor]:
    """Return Abar and what B is multiplied by, for eigenvalues a and steps, both (P)."""
    scaled = step * a
    if how == "bilinear":
        inverse = (1 - scaled / 2).reciprocal()
        return (1 + scaled / 2) * inverse, step * inverse
    x, y = scaled.real, scaled.imag
    # exp(z) - 1 without cancellation near zero, which torch has for real z only
    grown = torch.complex(x.expm1() * y.cos() - 2 * (y / 2).sin().square(), x.exp() * y.sin())
    # where A = 0 (learnt, without clip_eigs) the limit of grown / a is the step
    zero = a == 0
    return grown + 1, torch.where(zero, step.to(a), grown / torch.where(zero, 1, a))


def first_modes(size: int, blocks: int, half: bool) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (P) and eigenvectors (N, P) of J normal HiPPO matrices side by side.

    `half` keeps one of each conjugate pair. Phases of eigenvectors are arbitrary: the first
    component is made positive, so that an initialisation does not depend on the machine.
    """
    each = size // blocks
    a, _, p = legs(each)
    eye = torch.eye(each, dtype=a.dtype, device=a.device)
    omega, v = torch.linalg.eigh(-1j * (a + torch.outer(p, p) + eye / 2))
    first = each // 2 if half else 0
    omega, v = omega[first:], v[:, first:]
    v = v * (v[0].abs() / v[0])
    values = torch.complex(torch.full_like(omega, -0.5), omega).repeat(blocks)
    return values, torch.block_diag(*[v] * blocks)
