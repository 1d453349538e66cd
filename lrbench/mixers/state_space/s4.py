"""S4: diagonal-plus-low-rank state space models initialised to HiPPO-LegS, one per channel.

Gu, Goel & Ré, "Efficiently Modeling Long Sequences with Structured State Spaces", ICLR 2022
(arXiv:2111.00396); A = Lambda - P P^* as in Goel et al. 2022:

    A = Lambda - P P^*
    Abar = (I - Delta/2 A)^-1 (I + Delta/2 A),    Bbar = (I - Delta/2 A)^-1 Delta B
    x_k = Abar x_{k-1} + Bbar u_k,    y_k = 2 Re(C x_k) + D u_k,    K_n = 2 Re(C Abar^n Bbar)

With E = (2/Delta - Lambda)^-1 and Woodbury's identity, Abar = -I + (4/Delta) (2/Delta - A)^-1 is
diagonal plus low rank as well,

    Abar x = a x - q s(x),    s(x) = 2 Re(r x),    a = (2/Delta + Lambda) E,    r = P^* E,
    q = (4/Delta) E P / (1 + 2 Re(P^* E P)),    Bbar = 2 E (B - P s_B),
    s_B = 2 Re(P^* E B) / (1 + 2 Re(P^* E P))

where products with rows stand for sums over conjugate pairs.

Modes, all for any length: `series`, `krylov` and `cauchy` (the paper's) find the response in the
ways told in `s4_kernels.py`; `sequential` is the recurrence. Beyond `PIECE` positions `series`
reads a string in pieces that share one set of tables, since its work grows with T^2.

Differences from the released code: C itself is the parameter, not C (I - Abar^L), so that no length
is built in; Lambda, P and B are trained at `dynamics_lr` times the learning rate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lrbench.checks import at_least
from lrbench.mixers.state_space.hippo import clipped, legs_modes
from lrbench.mixers.state_space.s4_kernels import (
    LowRankSystem,
    cauchy_kernel,
    krylov_response,
    series_response,
)
from lrbench.mixers.state_space.ssm import (
    Response,
    StateSpaceConfig,
    StateSpaceMixer,
    as_complex,
    as_pairs,
    complex_normal,
    covector,
    first_steps,
    paired,
    with_skip,
)
from lrbench.registry import register_mixer

PIECE = 64


@dataclass
class S4Config(StateSpaceConfig):
    """Settings of `s4`; see `StateSpaceConfig` for the others.

    n_ssm: how many different A, B, P there are, shared by equal runs of channels; None: one each.
    clip: bound of Im B at first, 0 for none; with it the first system is HiPPO only nearly.
    """

    n_ssm: int | None = None
    clip: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model.mixer.n_ssm", self.n_ssm, 1)
        at_least("model.mixer.clip", self.clip, 0)


@register_mixer(
    "s4", S4Config, "diagonal plus low rank, HiPPO-LegS (Gu et al. 2022)", backbone="s4"
)
class S4Mixer(StateSpaceMixer):
    """Diagonal-plus-low-rank state space models, one per channel (Gu, Goel & Ré 2022)."""

    modes: ClassVar[tuple[str, ...]] = ("sequential", "series", "krylov", "cauchy")
    default_mode: ClassVar[str] = "series"
    tolerance: ClassVar[float] = 1e-8  # transforms
    config: S4Config

    def __init__(self, config: S4Config, width: int) -> None:
        super().__init__(config, width)
        systems = config.n_ssm or width
        if width % systems:
            raise ValueError(
                f"a mixer of width {width} is not a multiple of model.mixer.n_ssm {systems}"
            )
        omega, p, b = legs_modes(config.state_size)
        b = clipped(b, config.clip) if config.clip else b
        self.log_step = nn.Parameter(first_steps(width, config.dt_min, config.dt_max))
        self.log_decay = nn.Parameter(torch.full((systems, len(omega)), 0.5).log())
        self.frequency = nn.Parameter(omega.float().repeat(systems, 1))
        self.low_rank = nn.Parameter(as_pairs(p).repeat(systems, 1, 1))
        self.input = nn.Parameter(as_pairs(b).repeat(systems, 1, 1))
        self.output = nn.Parameter(complex_normal(width, len(omega)))
        self.skip = nn.Parameter(torch.randn(width))

    def continuous(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return Lambda, P, B, complex (D, M), and Delta (D, 1)."""
        copies = self.width // len(self.log_decay)
        modes = torch.complex(-self.log_decay.exp(), self.frequency)
        p, b = torch.view_as_complex(self.low_rank), torch.view_as_complex(self.input)
        shared = (v.repeat_interleave(copies, 0) if copies > 1 else v for v in (modes, p, b))
        return *shared, self.log_step.exp()[:, None]  # type: ignore[return-value]

    def system(self) -> LowRankSystem:
        modes, p, b, step = self.continuous()
        e = (2 / step - modes).reciprocal()
        r, ep = p.conj() * e, e * p
        share = ep / (1 + paired(r * p)[:, None])
        a = (2 / step + modes) * e
        bar = 2 * (e * b - share * paired(r * b)[:, None])
        c = torch.view_as_complex(self.output)
        return LowRankSystem(a, bar, c, self.skip, 4 / step * share, r)

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        if (mode or self.default_mode) != "series" or u.shape[1] <= PIECE:
            return super().forward(u, state, mode)
        x = self.initial_state(len(u)) if state is None else state
        system, outputs = self.system(), []
        whole = series_response(system, PIECE, True)
        for piece in u.split(PIECE, 1):
            length = piece.shape[1]
            y, x = (whole if length == PIECE else series_response(system, length, True))(piece, x)
            outputs.append(y)
        return torch.cat(outputs, 1), x

    def outputs(self, u: Tensor, mode: str | None = None) -> Tensor:
        if (mode or self.default_mode) != "series" or u.shape[1] > PIECE:
            return super().outputs(u, mode)
        return series_response(self.system(), u.shape[1], False).outputs(u)

    def response(self, length: int, carried: bool, mode: str) -> Response:
        system = self.system()
        if mode == "series":
            return series_response(system, length, carried)
        response = krylov_response(system, length)
        if mode == "krylov":
            return response
        c = covector(system.c)
        assert response.rows is not None
        tilde = as_complex(c - response.rows[:, -1]).conj() / 2
        kernel = cauchy_kernel(*self.continuous(), tilde, length)
        return replace(response, kernel=with_skip(kernel, system.skip))
