"""Backbones: the layers around mixers, from symbols or a signal to logits.

A backbone is a stack of mixers with an input layer, normalisation and a head. It reads strings
whole or piece by piece, carrying the state of each of its mixers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lrbench.errors import UserError
from lrbench.kernels.rows import rows
from lrbench.mixers.base import Mixer

MakeMixer = Callable[..., Mixer]


class Carry:
    """Calls mixers in turn, each with its state of the piece before, and keeps the new states.

    Of strings that are `whole` nothing is kept, and mixers need not make it. Every output is held
    against what a mixer promises: compiled loops and losses believe shapes, and a plug-in's wrong
    one would be read beyond its end, or be broadcast and give numbers that look right.
    """

    def __init__(self, states: list[Any] | None, mode: str | None, whole: bool = False) -> None:
        self._before = iter(states) if states is not None else None
        self.after: list[Any] = []
        self.mode = mode
        self.whole = whole and states is None

    def __call__(self, mixer: nn.Module, u: Tensor, index: Tensor | None = None) -> Tensor:
        """Return what `mixer` makes of u (B, T, D), or of a table (S, D) looked up by `index`."""
        positions = u.shape[:2] if index is None else index.shape
        wanted = (*positions, mixer.out_width)
        if self.whole and index is None:
            return checked(mixer, mixer.outputs(u, self.mode), wanted, u)  # type: ignore[operator]
        kwargs = {} if index is None else {"index": index}
        y, new = _pair(mixer, mixer(u, self._state(), self.mode, **kwargs))
        self.after.append(new)
        return checked(mixer, y, wanted, u)

    def last(self, mixer: Mixer, u: Tensor) -> Tensor:
        """Return what `mixer` makes of u (B, T, D) at its last position: (B, D)."""
        y, new = _pair(mixer, mixer.last(u, self._state(), self.mode))
        self.after.append(new)
        return checked(mixer, y, (len(u), mixer.out_width), u)

    def _state(self) -> Any:
        return None if self._before is None else next(self._before)


def _pair(mixer: nn.Module, made: Any) -> tuple[Any, Any]:
    """Return what a mixer made as (output, state); UserError for anything else."""
    if not isinstance(made, tuple) or len(made) != 2:
        raise UserError(
            f"mixer {type(mixer).__name__} returned {_described(made)}, not (output, state)\n"
            "fix: return a tuple of the outputs (B, T, D) and the state after the last position;"
            " `lrbench check` tries it on small inputs"
        )
    return made


def checked(mixer: nn.Module, y: Any, wanted: Sequence[int], u: Tensor) -> Tensor:
    """Return a mixer's output; UserError unless it has the wanted shape and `u`'s type and device.

    A mixer may compute in another precision. It may not hand it on: what reads it was made for one.
    """
    as_promised = isinstance(y, Tensor) and y.shape == torch.Size(wanted)
    if as_promised and y.dtype == u.dtype and y.device == u.device:
        output: Tensor = y
        return output
    shape = ", ".join(map(str, wanted))
    raise UserError(
        f"mixer {type(mixer).__name__} returned {_described(y)} for an input of"
        f" {_described(u)}\n"
        f"it must return ({shape}), {str(u.dtype).removeprefix('torch.')}, on {u.device}:"
        " an output for every position of every string; `lrbench check` tries it on small inputs"
    )


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    dtype = str(value.dtype).removeprefix("torch.")
    return f"({', '.join(map(str, value.shape))}), {dtype}, on {value.device}"


class Backbone(nn.Module):
    """Maps tokens (B, T), or a signal (B, T, F), to logits (B, T, C).

    `symbols` is how many tokens there are, `features` the F of a signal; one of them is 0. A
    subclass sets `mixers` (and whatever else) and writes `activations` and `head`.
    """

    version: ClassVar[int] = 1
    mixers: nn.ModuleList

    @property
    def stateful(self) -> list[Mixer]:
        """Every layer that carries a state, in the order in which `activations` calls them."""
        return list(self.mixers)  # type: ignore[arg-type]

    @property
    def state_size(self) -> int | None:
        """Real numbers kept per string between positions; None if they grow with the string."""
        sizes = [mixer.state_size for mixer in self.stateful]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def mode(self) -> str:
        """How the recurrences are evaluated where nobody asks for another way."""
        return str(self.mixers[0].default_mode)

    def forward(
        self,
        tokens: Tensor,
        state: list[Any] | None = None,
        read: str = "all",
        mode: str | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor | None, list[Any]]:
        """Map tokens (B, T) or a signal (B, T, F) to (logits, state).

        Args:
            tokens: int64 symbols, or floats.
            state: what an earlier call returned for the strings so far; None at their start.
            read: "all" gives logits (B, T, C), "last" (B, C) at the last position, "none" None.
            mode: how mixers evaluate their recurrence; None leaves it to each of them.
            generator: where training takes noise and dropout from; without it there is none.
                Strings of training are whole: there may be no state after them.
        """
        if tokens.is_floating_point():
            tokens = tokens.to(next(self.parameters()).dtype)
        carry = Carry(state, mode, whole=generator is not None)
        activation = self.activations(tokens, carry, read == "last", generator)
        if read == "none":
            return None, carry.after
        return self.logits(activation, generator), carry.after

    @abstractmethod
    def activations(
        self, tokens: Tensor, carry: Carry, last: bool, generator: torch.Generator | None
    ) -> Tensor:
        """Return what the head reads: (B, T, D), or (B, D) at the last position if `last`."""

    @abstractmethod
    def logits(self, activation: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return the head's logits (..., C) of an activation (..., D)."""


def make_mixers(make: MakeMixer, layers: int) -> nn.ModuleList:
    """Return `layers` mixers of the model's width, each told its place in the stack.

    Raises ValueError for mixers whose outputs are not as wide as their inputs.
    """
    mixers = [make() for _ in range(layers)]
    for layer, mixer in enumerate(mixers):
        mixer.place(layer, layers)
        if mixer.out_width != mixer.width:
            raise ValueError(
                f"model.mixer makes {mixer.out_width} features of model.width {mixer.width}, which"
                " this backbone cannot add up; choose model.backbone.name=bare"
            )
    return nn.ModuleList(mixers)


def input_layer(symbols: int, features: int, width: int) -> nn.Module:
    """Return the map of a symbol to a learnt vector, or of a signal's F features to D."""
    return nn.Linear(features, width) if features else nn.Embedding(symbols, width)


def first_activation(embedding: nn.Module, norm: nn.Module, tokens: Tensor) -> Tensor:
    """Return norm(embedding(tokens)), (B, T, D); of symbols, the table is normalised, not each."""
    if isinstance(embedding, nn.Embedding):
        return rows(norm(embedding.weight), tokens)
    activation: Tensor = norm(embedding(tokens))
    return activation
