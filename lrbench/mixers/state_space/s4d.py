"""S4D: diagonal state space models, one per channel.

Gu, Gupta, Goel & Ré, "On the Parameterization and Initialization of Diagonal State Space Models",
arXiv:2206.11893:

    x_k = Abar x_{k-1} + Bbar u_k,    y_k = 2 Re(C x_k) + D u_k,    A = diag(A_0 .. A_{N/2-1})
    K_n = 2 Re sum_j C_j Abar_j^n Bbar_j,    y = K * u + D u

    zoh       Abar = exp(Delta A),                      Bbar = (Abar - 1) / A B
    bilinear  Abar = (1 + Delta A / 2) / (1 - Delta A / 2),  Bbar = Delta B / (1 - Delta A / 2)

    lin    A_n = -1/2 + i pi n                          B = 1
    inv    A_n = -1/2 + i (N / pi) (N / (2n + 1) - 1)   B = 1
    legs   the diagonal of HiPPO-LegS in normal form    B = V^* B, imaginary parts within +-2
    real   A_n = -(n + 1), kept real                    B = 1

Names are those of `ssm.py`. B is trained with A and Delta, as in the released code. The transition
does not depend on the input and lies inside the unit circle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lrbench.checks import one_of
from lrbench.mixers.state_space.hippo import clipped, legs_modes
from lrbench.mixers.state_space.ssm import (
    Response,
    StateSpaceConfig,
    StateSpaceMixer,
    System,
    as_pairs,
    as_rows,
    complex_normal,
    covector,
    dense,
    discretise,
    first_steps,
    with_skip,
)
from lrbench.registry import register_mixer
from lrbench.scan import ConstantDiagonal, scan
from lrbench.scan.time_invariant.power_series import power_series
from lrbench.scan.time_invariant.powers import powers

INITS = ("lin", "inv", "legs", "real")
DISCRETISATIONS = ("zoh", "bilinear")


@dataclass
class S4DConfig(StateSpaceConfig):
    """Settings of `s4d`; see `StateSpaceConfig` for the others.

    init: the diagonal that A begins with. discretisation: how steps are made of A and B, zoh or
    bilinear.
    """

    init: str = "lin"
    discretisation: str = "zoh"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("model.mixer.init", self.init, INITS)
        one_of("model.mixer.discretisation", self.discretisation, DISCRETISATIONS)


class DiagonalStateSpace(StateSpaceMixer):
    """The parameters of D diagonal systems."""

    config: S4DConfig

    def __init__(self, config: S4DConfig, width: int) -> None:
        super().__init__(config, width)
        a, b = first_modes(config.init, config.state_size)
        decay, frequency = (-a.real).log().float(), a.imag.float()
        self.log_step = nn.Parameter(first_steps(width, config.dt_min, config.dt_max))
        self.log_decay = nn.Parameter(decay.repeat(width, 1))
        self.frequency = nn.Parameter(frequency.repeat(width, 1), config.init != "real")
        self.input = nn.Parameter(as_pairs(b).repeat(width, 1, 1))
        self.output = nn.Parameter(complex_normal(width, len(a)))
        self.skip = nn.Parameter(torch.randn(width))

    def system(self) -> System:
        a = torch.complex(-self.log_decay.exp(), self.frequency)
        b, c = torch.view_as_complex(self.input), torch.view_as_complex(self.output)
        bars = discretise(a, b, self.log_step.exp(), self.config.discretisation)
        return System(*bars, c, self.skip)

    def response(self, length: int, carried: bool, mode: str) -> Response:
        return diagonal_response(self.system(), length, carried)


@register_mixer("s4d", S4DConfig, "diagonal state spaces (Gu et al. 2022, S4D)", backbone="s4")
class S4DMixer(DiagonalStateSpace):
    """Diagonal state space models, one per channel (Gu, Gupta, Goel & Ré 2022)."""

    modes: ClassVar[tuple[str, ...]] = ("sequential", "convolution", "scan")
    default_mode: ClassVar[str] = "convolution"
    tolerance: ClassVar[float] = 1e-8  # transforms, beyond some hundred positions

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        if mode == "scan":
            return self.scanned(u, self.initial_state(len(u)) if state is None else state)
        return super().forward(u, state, mode)

    def outputs(self, u: Tensor, mode: str | None = None) -> Tensor:
        if (mode or self.default_mode) != "convolution":
            return super().outputs(u, mode)
        return self.response(u.shape[1], False, "convolution").outputs(u)

    def scanned(self, u: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate the recurrence by a scan of trees over (B, T, D M) states."""
        system = self.system()
        inputs = (system.b * u[..., None]).flatten(2)
        states = scan(ConstantDiagonal(system.a.flatten()), inputs, x.flatten(1), "tree")
        states = states.unflatten(2, x.shape[1:])
        return system.read(states, u), states[:, -1]


def diagonal_response(system: System, length: int, carried: bool) -> Response:
    """Return the response of diagonal systems over `length` positions, from powers of Abar."""
    kernel = with_skip(power_series(system.a, system.c * system.b, length), system.skip)

    def columns() -> Tensor:
        return as_rows(powers(system.a, length).flip(1) * system.b[:, None])

    if not carried:
        return Response(kernel, columns)
    table = powers(system.a, length)
    rows = covector(table * (system.c * system.a)[:, None])
    return Response(kernel, columns, rows, dense(table[:, -1] * system.a))


def first_modes(init: str, size: int) -> tuple[Tensor, Tensor]:
    """Return A and B (N/2), complex and in float64, of an initialisation in `INITS`."""
    n = torch.arange(size // 2, dtype=torch.float64, device="cpu")
    if init == "legs":
        omega, _, b = legs_modes(size)
        return torch.complex(torch.full_like(omega, -0.5), omega), clipped(b)
    imaginary = {
        "lin": math.pi * n,
        "inv": size / math.pi * (size / (2 * n + 1) - 1),
        "real": torch.zeros_like(n),
    }[init]
    real = -(n + 1) if init == "real" else torch.full_like(n, -0.5)
    return torch.complex(real, imaginary), torch.complex(torch.ones_like(n), torch.zeros_like(n))
