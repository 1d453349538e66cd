"""Small mixers that keep the contract, and others that each break it in one way."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import dropout, pad

from lrbench.mixers.base import LinearMixer, Mixer
from lrbench.scan import Diagonal


@dataclass
class LeakyConfig:
    """How much of the state is kept."""

    keep: float = 0.5


class Leaky(Mixer):
    """x_k = keep x_{k-1} + tanh(W u_k), y = x: nothing wrong with it."""

    modes: ClassVar[tuple[str, ...]] = ("loop", "other")

    def __init__(self, config: LeakyConfig, width: int) -> None:
        super().__init__(config, width)
        self.map = nn.Linear(width, width)

    @property
    def state_size(self) -> int:
        return self.width

    def initial_state(self, batch: int) -> Any:
        return self.map.bias.new_zeros(batch, self.width)

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        x = self.initial_state(len(u)) if state is None else state
        states = []
        for value in self.values(u, mode).unbind(1):
            x = self.config.keep * x + value
            states.append(x)
        return self.read(torch.stack(states, 1), u), x

    def values(self, u: Tensor, mode: str | None) -> Tensor:
        return self.map(u).tanh()

    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return states


class DiagonalLeaky(LinearMixer):
    """The same with a complex diagonal transition, as a linear mixer that takes symbols."""

    def __init__(self, config: LeakyConfig, width: int) -> None:
        super().__init__(config, width)
        self.map = nn.Linear(width, 2 * width)
        self.angle = nn.Parameter(torch.rand(width))

    @property
    def state_size(self) -> int:
        return 2 * self.width

    def initial_state(self, batch: int) -> Tensor:
        return torch.complex(self.angle, self.angle).expand(batch, -1)

    def coefficients(self, u: Tensor) -> tuple[Diagonal, Tensor]:
        inputs = torch.view_as_complex(self.map(u).unflatten(-1, (-1, 2)))
        turn = torch.polar(torch.full_like(self.angle, self.config.keep), self.angle)
        return Diagonal(turn.expand_as(inputs)), inputs

    def readout(self, states: Tensor, u: Tensor | None) -> Tensor:
        return states.real + states.imag


class Gated(Leaky):
    """torch's GRU cell: a recurrence that is no linear one."""

    modes: ClassVar[tuple[str, ...]] = ("loop",)

    def __init__(self, config: LeakyConfig, width: int) -> None:
        Mixer.__init__(self, config, width)
        self.cell = nn.GRUCell(width, width)

    def initial_state(self, batch: int) -> Any:
        return self.cell.bias_hh.new_zeros(batch, self.width)

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        x, states = self.initial_state(len(u)) if state is None else state, []
        for value in u.unbind(1):
            x = self.cell(value, x)
            states.append(x)
        return torch.stack(states, 1), x


class PeeksAhead(Leaky):
    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return states + pad(u[:, 1:], (0, 0, 0, 1))


class MixesStrings(Leaky):
    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return states - states.mean(0)


class Remembers(Leaky):
    """Keeps every input: the state grows with the string."""

    def initial_state(self, batch: int) -> Any:
        return super().initial_state(batch)[:, None, :]

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        before = self.initial_state(len(u)) if state is None else state
        history = torch.cat([before, u], 1)
        return history.cumsum(1)[:, before.shape[1] :], history


class WrongStateSize(Leaky):
    @property
    def state_size(self) -> int:
        return 2 * self.width


class IgnoresState(Leaky):
    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        return super().forward(u, None, mode)


class ModesDisagree(Leaky):
    def values(self, u: Tensor, mode: str | None) -> Tensor:
        return super().values(u, mode) * (1 + 1e-6 * (mode == "other"))


class CoarseInSingle(Leaky):
    """One mode rounds as half precision does, but in float32 only."""

    def values(self, u: Tensor, mode: str | None) -> Tensor:
        values = super().values(u, mode)
        if mode == "other" and u.dtype == torch.float32:
            return values + (values.half().float() - values).detach()
        return values


class DoubledGradient(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return 2 * grads[0]

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor) -> Any:
        return DoubledGradient.apply(x), in_dims[0]


class WrongGradientInOneMode(Leaky):
    def values(self, u: Tensor, mode: str | None) -> Tensor:
        values = super().values(u, mode)
        return DoubledGradient.apply(values) if mode == "other" else values


class WrongGradientInEveryMode(Leaky):
    def values(self, u: Tensor, mode: str | None) -> Tensor:
        return DoubledGradient.apply(super().values(u, mode))


class StraightThrough(WrongGradientInEveryMode):
    exact_gradient: ClassVar[bool] = False


class NotANumber(Leaky):
    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return states / torch.zeros_like(states) * 0


class GradientNotANumber(Leaky):
    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return states + 0 * (states - states).sqrt()


class WrongDtype(Leaky):
    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return states.float()


class Unseeded(Leaky):
    def __init__(self, config: LeakyConfig, width: int) -> None:
        super().__init__(config, width)
        with torch.no_grad():
            self.map.bias.fill_(random.random())


class HidesATensor(Leaky):
    """A matrix that is neither a parameter nor a buffer."""

    def __init__(self, config: LeakyConfig, width: int) -> None:
        super().__init__(config, width)
        self.hidden = torch.randn(width)

    def values(self, u: Tensor, mode: str | None) -> Tensor:
        return super().values(u, mode) + self.hidden.to(u)


class LooksAtValues(Leaky):
    """Branches in Python on what a tensor holds: fine in a loop, impossible under vmap."""

    def values(self, u: Tensor, mode: str | None) -> Tensor:
        return super().values(u, mode) if bool(u.abs().sum() > 0) else u


class SaysNoVmap(LooksAtValues):
    vmap: ClassVar[bool] = False


class WrongTable(DiagonalLeaky):
    """Looks the symbol before up."""

    def forward(
        self,
        u: Tensor,
        state: Tensor | None = None,
        mode: str | None = None,
        index: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        return super().forward(u, state, mode, None if index is None else (index - 1) % len(u))


class ReversedInTraining(Leaky):
    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return states.flip(1) if self.training else states


class NormOverTime(Leaky):
    vmap: ClassVar[bool] = False

    def __init__(self, config: LeakyConfig, width: int) -> None:
        super().__init__(config, width)
        self.norm = nn.BatchNorm1d(width)

    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return self.norm(states.transpose(1, 2)).transpose(1, 2)


class NormOverStrings(NormOverTime):
    """Each position with statistics of its own: no look ahead."""

    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return torch.stack([self.norm(x) for x in states.unbind(1)], 1)


class LeaksWhenLong(Leaky):
    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return states if u.shape[1] < 300 else states + states.mean(1, keepdim=True)


class CutsTheGradient(Leaky):
    """Every 200 symbols."""

    keeps: ClassVar[int] = 200

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        states = []
        for piece in u.split(self.keeps, 1):
            y, state = super().forward(piece, state, mode)
            states.append(y)
            state = state.detach() if u.shape[1] > self.keeps else state
        return torch.cat(states, 1), state


class CutsWithoutAState(Remembers):
    """The same of a layer that keeps all it has read: piece by piece, it cuts at the same place."""

    @property
    def state_size(self) -> None:
        return None

    def initial_state(self, batch: int) -> Any:
        return self.map.bias.new_zeros(batch, 0, self.width)

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        before = self.initial_state(len(u)) if state is None else state
        history = torch.cat([before, u], 1)
        x, outputs = 0.0, []
        for k, value in enumerate(self.map(history).tanh().unbind(1)):
            if torch.is_tensor(x) and k % 200 == 0:
                x = x.detach()
            x = self.config.keep * x + value
            outputs.append(x)
        return torch.stack(outputs, 1)[:, before.shape[1] :], history


class DropsByTheGlobalGenerator(Leaky):
    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return dropout(states, 0.1, self.training)


class DrawsByACounter(Leaky):
    """Noise in training by a counter in a buffer: nothing wrong with it."""

    count: Tensor

    def __init__(self, config: LeakyConfig, width: int) -> None:
        super().__init__(config, width)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def read(self, states: Tensor, u: Tensor) -> Tensor:
        if self.training:
            self.count.add_(1)
            return states * (1 + 0.1 * self.count.to(states).sin())
        return states


class ScaledInTraining(Leaky):
    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return 2 * states if self.training else states


class SaysItIsScaledInTraining(ScaledInTraining):
    trains_otherwise: str = "twice as large, as in its paper"


class HasASpareParameter(Leaky):
    def __init__(self, config: LeakyConfig, width: int) -> None:
        super().__init__(config, width)
        self.spare = nn.Linear(width, width)


class SaysItHasASpareParameter(HasASpareParameter):
    without_gradient: frozenset[str] = frozenset({"spare.weight", "spare.bias"})


class HiddenByAZero(Leaky):
    """A gain that begins at zero, so that nothing else has a gradient yet: nothing is wrong."""

    def __init__(self, config: LeakyConfig, width: int) -> None:
        super().__init__(config, width)
        self.gain = nn.Parameter(torch.zeros(width))

    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return self.gain * states


class CountsThreads(Leaky):
    def read(self, states: Tensor, u: Tensor) -> Tensor:
        return states * (1 + 0.5 * (torch.get_num_threads() - 1))


class SaysItGrows(Leaky):
    unbounded: str = "a sum of all that it has read"


class Raises(Leaky):
    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        raise RuntimeError("no such luck\nand more about it")


class CannotBeBuilt(Leaky):
    def __init__(self, config: LeakyConfig, width: int) -> None:
        raise ValueError("not enough values to unpack")


class InPairs(Leaky):
    """Takes even lengths only and knows float32 only, and says so."""

    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.float32,)
    length_multiple: ClassVar[int] = 2

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        if u.shape[1] % 2 or u.dtype != torch.float32:
            raise RuntimeError("an even length in float32, please")
        return super().forward(u, state, mode)


class ComplexParameter(Leaky):
    def __init__(self, config: LeakyConfig, width: int) -> None:
        super().__init__(config, width)
        self.angle = nn.Parameter(torch.ones(width, dtype=torch.complex64))


class StateOnCpu(Leaky):
    def initial_state(self, batch: int) -> Any:
        return torch.zeros(batch, self.width, dtype=self.map.bias.dtype)


class NoMixer(nn.Linear):
    """A layer that was registered without being a `Mixer`."""

    def __init__(self, config: LeakyConfig, width: int) -> None:
        super().__init__(width, width)
