"""Mixers: causal sequence layers (B, T, D) -> (B, T, D), and the three-part form of linear ones.

A linear mixer is `coefficients(u) -> transition, inputs`; a scan; `readout(states, u)`. Where the
input depends on a symbol alone (a first layer), the coefficients are computed once per symbol and
the scan looks them up.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lrbench.kernels.rows import rows
from lrbench.scan import ALGORITHMS, Indexed, Transition, scan

STARTS = ("random", "exact")  # of `init`: weights of a seed, or of the task's automaton
RANGES = {"positive": 1.0, "signed": 2.0}  # eigenvalues in [0, 1] or [-1, 1]: their reach


@dataclass(frozen=True)
class ParameterRule:
    """How a parameter is trained: `lr` multiplies the rate, `decay` allows weight decay.

    `cap` is the largest rate that a parameter is to begin with; schedules then scale what is left.
    """

    lr: float = 1.0
    decay: bool = True
    cap: float = math.inf


class Mixer(nn.Module):
    """A causal sequence layer of a given width with a state whose size does not depend on T.

    What a mixer can do is declared by class attributes: `modes` (names of evaluation modes that
    compute the same function up to rounding), `default_mode`, `dtypes`, `tolerance` (relative,
    float64, between modes), `length_multiple`, `takes_symbols` (`forward` accepts `index`), `vmap`
    (copies with stacked parameters can be evaluated together), `exact_gradient` (False for
    straight-through estimators, whose gradient is not the derivative), `without_gradient`
    (parameters, by name, that have none), `unbounded` (why outputs may grow beyond any bound; ""
    where they may not), `trains_otherwise` (why outputs of the same weights are others in training
    mode; "" where they are not), `rounds` (False where it reads weights of its linear
    maps itself, so that what these return cannot be rounded: lrbench/training/precision.py) and
    `checked_with` (settings that a check of its contract uses where the user gave none: of a
    solver, tolerances of zero).

    A mixer that draws in training does so by a counter in a buffer, as `transformer` draws
    positions: a run's checkpoint has buffers, and not the state of torch's global generator.
    """

    version: ClassVar[int] = 1
    modes: ClassVar[tuple[str, ...]] = ("sequential",)
    default_mode: ClassVar[str] = "sequential"
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.float32, torch.float64)
    tolerance: ClassVar[float] = 1e-9
    length_multiple: ClassVar[int] = 1
    takes_symbols: ClassVar[bool] = False
    vmap: ClassVar[bool] = True
    exact_gradient: ClassVar[bool] = True
    without_gradient: frozenset[str] = frozenset()
    unbounded: str = ""
    trains_otherwise: str = ""
    rounds: bool = True
    checked_with: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, config: Any, width: int) -> None:
        super().__init__()
        self.config = config
        self.width = width

    @property
    def out_width(self) -> int:
        """Features of each output position; D unless a mixer says otherwise."""
        return self.width

    def place(self, layer: int, layers: int) -> None:
        """Initialise anew what depends on being layer 0, 1, .. of `layers`; nothing by default."""

    def parameter_rules(self) -> dict[str, ParameterRule]:
        """Return the rules of parameters (by name) that are not trained like all others."""
        return {}

    def channel_mixer(self) -> Mixer | None:
        """Return the sublayer that belongs between two of these in a `gpt` stack; None: an MLP."""
        return None

    def telemetry(self) -> dict[str, tuple[float, int]]:
        """Return {name: (sum, count)} of what is worth recording of training since the last call.

        Means of these stand in metrics.jsonl and result.json. `converged`, of 0s and 1s, is
        something that a user is warned about where it is not always 1.
        """
        return {}

    @property
    def longest_read(self) -> tuple[int, str] | None:
        """How many symbols of a string it reads at most, and by which setting; None: any number."""
        return None

    @property
    def saturates(self) -> bool:
        """Whether y is the state, in [-1, 1], and its units forget what is added near the ends."""
        return False

    @property
    @abstractmethod
    def state_size(self) -> int | None:
        """How many real numbers the state of one string holds; None if it grows with the string."""

    @abstractmethod
    def initial_state(self, batch: int) -> Any:
        """Return x_0 for `batch` strings: tensors, batch first (`states.py` says how they nest)."""

    @abstractmethod
    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        """Map u (B, T, D) to y (B, T, D) and the state after the last position."""

    def outputs(self, u: Tensor, mode: str | None = None) -> Tensor:
        """Map whole strings u (B, T, D) to y (B, T, D): what training asks for.

        A mixer whose state after a string costs something of its own has a way without it.
        """
        y: Tensor = self(u, None, mode)[0]
        return y

    def last(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        """Return y (B, D) at the last position of u (B, T, D) and the state after it.

        A mixer that need not compute the positions before it has a way of its own.
        """
        y, state = self(u, state, mode)
        return y[:, -1], state

    def step(self, u: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Map one position u (B, D) and the state before it to y (B, D) and the state after."""
        y, state = self(u[:, None], state)
        return y[:, 0], state


class LinearMixer(Mixer):
    """A mixer x_k = A_k x_{k-1} + b_k, y_k = readout(x_k, u_k) with A_k, b_k functions of u_k.

    Where nothing else is asked for and the default is the loop, a GPU takes the fused kernel, and
    the loop where none fits.
    """

    modes: ClassVar[tuple[str, ...]] = tuple(ALGORITHMS)
    takes_symbols: ClassVar[bool] = True
    readout_needs_input: ClassVar[bool] = False

    @abstractmethod
    def coefficients(self, u: Tensor) -> tuple[Transition, Tensor]:
        """Return the transitions and inputs (B, T, ...) at u (B, T, D)."""

    @abstractmethod
    def readout(self, states: Tensor, u: Tensor | None) -> Tensor:
        """Return y (B, T, D) from states (B, T, ...); u is given if `readout_needs_input`."""

    def forward(
        self,
        u: Tensor,
        state: Tensor | None = None,
        mode: str | None = None,
        index: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Map u (B, T, D), or a table u (S, D) looked up by `index` (B, T), to (y, state)."""
        batch = len(u) if index is None else len(index)
        initial = self.initial_state(batch) if state is None else state
        transition, inputs = self.coefficients(u if index is None else u[None])
        if index is not None:
            assert not isinstance(transition, Indexed)
            transition = Indexed(transition, index)
        how = mode or self.default_mode
        if not mode and how == "sequential" and initial.is_cuda:
            how = "fused"  # one kernel, where one fits; a loop launches some for each position
        states = scan(transition, inputs, initial, how)
        wanted = None
        if self.readout_needs_input:
            wanted = u if index is None else rows(u, index)
        return self.readout(states, wanted), states[:, -1]
