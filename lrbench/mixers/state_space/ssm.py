"""State space models of one channel each: what S4, S4D and Liquid-S4 share.

Each of D channels has a system of its own with N states, kept as N/2 numbers of conjugate pairs,

    x_k = Abar x_{k-1} + Bbar u_k,    y_k = 2 Re(C x_k) + D u_k,

made from continuous x' = A x + B u with a learnt step Delta per channel. Re A = -exp(.) < 0: the
system is stable whatever is learnt. Over T positions it is linear in (x_0, u_1..T), which is what
`Response` holds.

Glossary
    A         -exp(log_decay) + i frequency, or that minus a low-rank term (S4)
    B, C      input, output: (.., N/2, 2), real and imaginary parts
    D         skip
    Delta     exp(log_step), per channel
    rows      complex (.., M) as real (.., 2M), so that a batched product does the work
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from lrbench.checks import at_least
from lrbench.mixers.base import Mixer, ParameterRule
from lrbench.scan.time_invariant.convolution import channels_first, channels_last, convolve

DYNAMICS = ("log_decay", "frequency", "low_rank", "input", "log_step")


@dataclass
class StateSpaceConfig:
    """Settings shared by `s4`, `s4d` and `liquid_s4`.

    state_size: N, real numbers of state per channel. dt_min, dt_max: range of the first steps
    Delta. dynamics_lr: learning rate of A, B, P and Delta over that of all other parameters; the
    reference settings are 1e-3 against 4e-3.
    """

    state_size: int = 64
    dt_min: float = 1e-3
    dt_max: float = 1e-1
    dynamics_lr: float = 0.25

    def __post_init__(self) -> None:
        at_least("model.mixer.state_size", self.state_size, 2)
        at_least("model.mixer.dynamics_lr", self.dynamics_lr, 0)
        at_least("model.mixer.dt_min", self.dt_min, 1e-8)
        at_least("model.mixer.dt_max", self.dt_max, self.dt_min)
        if self.state_size % 2:
            raise ValueError(
                f"model.mixer.state_size must be even, not {self.state_size}:"
                " states are kept as halves of conjugate pairs"
            )


@dataclass(frozen=True)
class System:
    """D discrete systems: Abar = a and Bbar = b, C = c, complex (D, M), and D = skip (D)."""

    a: Tensor
    b: Tensor
    c: Tensor
    skip: Tensor

    def advance(self, x: Tensor, u: Tensor) -> Tensor:
        """Return the states (B, D, M) after inputs u (B, D)."""
        return self.a * x + self.b * u[..., None]

    def read(self, x: Tensor, u: Tensor) -> Tensor:
        """Return outputs (B, D) at states x (B, D, M) and inputs u (B, D)."""
        return paired(self.c * x) + self.skip * u


@dataclass(frozen=True)
class Response:
    """What T positions of D systems make of their inputs and of x_0, in tables of reals.

    kernel (D, T): C Abar^n Bbar, with D added to the first. columns() (D, T, N): Abar^n Bbar, the
    last n first; only the states after the last position need them. Where a state is carried in,
    rows (D, T, N): 2 Re(C Abar^(n+1) x) = rows . x; through (D, N, N): Abar^T x = x through, for x
    as rows.
    """

    kernel: Tensor
    columns: Callable[[], Tensor]
    rows: Tensor | None = None
    through: Tensor | None = None

    def __call__(self, u: Tensor, x: Tensor | None) -> tuple[Tensor, Tensor]:
        """Map u (B, T, D) and complex states x (B, D, M) or None to (y, the states after)."""
        y, last = self.outputs(u), channels_first(u) @ self.columns()
        if self.rows is not None and self.through is not None and x is not None:
            before = as_rows(x.transpose(0, 1))
            y = y + channels_last(before @ self.rows.mT)
            last = torch.baddbmm(last, before, self.through)
        return y, as_complex(last).transpose(0, 1)

    def outputs(self, u: Tensor) -> Tensor:
        """Map u (B, T, D) to y (B, T, D) from x_0 = 0, without the states after."""
        return convolve(u, self.kernel)


class StateSpaceMixer(Mixer):
    """Time-invariant systems, one per channel: position by position, or by their response."""

    config: StateSpaceConfig

    @property
    def state_size(self) -> int:
        return self.width * self.config.state_size

    def initial_state(self, batch: int) -> Any:
        like = next(self.parameters())
        shape = batch, self.width, self.config.state_size // 2
        return torch.zeros(shape, dtype=like.dtype.to_complex(), device=like.device)

    def parameter_rules(self) -> dict[str, ParameterRule]:
        slow = ParameterRule(self.config.dynamics_lr, decay=False)
        rules = {name: slow for name, _ in self.named_parameters() if name in DYNAMICS}
        return rules | {"skip": ParameterRule(decay=False)}

    @abstractmethod
    def system(self) -> System:
        """Return the discrete system."""

    @abstractmethod
    def response(self, length: int, carried: bool, mode: str) -> Response:
        """Return the response over `length` positions, to x_0 as well if a state is `carried`."""

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        mode = mode or self.default_mode
        if mode == "sequential":
            return self.loop(u, self.initial_state(len(u)) if state is None else state)
        return self.response(u.shape[1], state is not None, mode)(u, state)

    def step(self, u: Tensor, state: Any) -> tuple[Tensor, Any]:
        y, after = self(u[:, None], state, "sequential")
        return y[:, 0], after

    def loop(self, u: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate the recurrence as it is written, one position at a time."""
        system, outputs = self.system(), []
        for now in u.unbind(1):
            x = system.advance(x, now)
            outputs.append(system.read(x, now))
        return torch.stack(outputs, 1), x


def first_steps(count: int, low: float, high: float) -> Tensor:
    """Draw log Delta (count), Delta log-uniform in [low, high]."""
    return torch.empty(count).uniform_(math.log(low), math.log(high))


def complex_normal(*shape: int) -> Tensor:
    """Draw complex numbers of unit variance as real pairs, (*shape, 2)."""
    return torch.randn(*shape, 2) * math.sqrt(0.5)


def as_pairs(values: Tensor) -> Tensor:
    """Return complex (..., M) as single-precision pairs (..., M, 2)."""
    return torch.view_as_real(values).float()


def discretise(a: Tensor, b: Tensor, step: Tensor, how: str) -> tuple[Tensor, Tensor]:
    """Return Abar, Bbar (D, M) of a diagonal system a, b (D, M) at steps Delta (D).

    zoh: exp(Delta a), (exp(Delta a) - 1) b / a. bilinear: (1 + Delta a / 2) / (1 - Delta a / 2),
    Delta b / (1 - Delta a / 2).
    """
    scaled = step[:, None] * a
    if how == "bilinear":
        below = (1 - scaled / 2).reciprocal()
        return (1 + scaled / 2) * below, step[:, None] * b * below
    grown = expm1(scaled)
    return grown + 1, grown / a * b


def expm1(z: Tensor) -> Tensor:
    """Return exp(z) - 1 for complex z without cancellation near zero, which torch lacks."""
    x, y = z.real, z.imag
    half = (y / 2).sin()
    return torch.complex(x.expm1() * y.cos() - 2 * half * half, x.exp() * y.sin())


def as_rows(table: Tensor) -> Tensor:
    """Return complex (..., M) as real (..., 2M), real and imaginary parts in turn."""
    return torch.view_as_real(table.resolve_conj()).flatten(-2)


def as_complex(rows: Tensor) -> Tensor:
    """Return real (..., 2M) as complex (..., M)."""
    return torch.view_as_complex(rows.unflatten(-1, (-1, 2)))


def covector(weights: Tensor) -> Tensor:
    """Return real r (..., 2M) with r . as_rows(x) = 2 Re(sum of weights x)."""
    return as_rows(2 * weights.conj())


def paired(terms: Tensor) -> Tensor:
    """Sum complex terms (..., M) with those of the other halves of their conjugate pairs: real."""
    return 2 * terms.sum(-1).real


def dense(diagonal: Tensor) -> Tensor:
    """Return G (D, N, N) with as_rows(a x) = as_rows(x) G, for complex a (D, M)."""
    size = 2 * diagonal.shape[-1]
    units = torch.eye(size, dtype=diagonal.real.dtype, device=diagonal.device)
    return as_rows(diagonal[:, None] * as_complex(units))


def with_skip(kernel: Tensor, skip: Tensor) -> Tensor:
    """Add D to the first entry of kernels (D, T), so that y = K * u + D u is one convolution."""
    return kernel + pad(skip[:, None], (0, kernel.shape[1] - 1))
