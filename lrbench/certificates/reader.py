"""A trained model as a machine that reads one symbol at a time, many strings side by side."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lrbench.errors import UserError
from lrbench.mixers.states import changed, leaves
from lrbench.tasks.machine import Machine

SYMBOLS = 1 << 14  # rows x positions of a piece, where whole strings are read
ALONE = 8  # symbols that are read one by one as well
APART = 5e-2  # relative: answers that differ by more are others, and not the same rounded otherwise


class SymbolReader:
    """Steps a model through strings from carried states. Nothing of it is changed.

    The model runs as it is: its own dtype, its own mode. Raises UserError for a model that carries
    no state from piece to piece, and for one that takes several symbols at a time.
    """

    def __init__(self, model: nn.Module, device: torch.device | str = "cpu") -> None:
        self.model = model.eval()
        self.device = torch.device(device)
        self.classes = 0  # of an answer; known once `numbers` has read a symbol
        for layer in getattr(model, "stateful", ()):
            if (multiple := getattr(layer, "length_multiple", 1)) > 1:
                raise UserError(
                    f"mixer {type(layer).__name__} reads {multiple} symbols at a time"
                    " (length_multiple), and here strings are read symbol by symbol"
                )

    @torch.no_grad()
    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read one symbol a string, tokens (B,) int64; return logits (B, C) and states after it.

        `state` is None before the first symbol.
        """
        logits, after = self.model(tokens[:, None].to(self.device), state, read="last")
        return logits, after

    @torch.no_grad()
    def at_end(self, tokens: Tensor) -> Tensor:
        """Return the logits (B, C) after whole strings (B, T), read as an evaluation reads them."""
        state, logits = None, torch.empty(0)
        for piece in tokens.to(self.device).split(max(1, SYMBOLS // len(tokens)), dim=1):
            logits, state = self.model(piece, state, read="last")
        return logits

    def check_that_strings_stand_alone(self, machine: Machine) -> None:
        """Raise UserError if some first symbols are answered otherwise alone, or when read again.

        What is said of all strings would be said of those that were read side by side, and of that
        one time.
        """
        following = machine.delta[machine.start]
        symbols = torch.tensor([s for s, to in enumerate(following) if to is not None])
        together, _ = self.step(symbols, None)
        again, _ = self.step(symbols, None)
        alone = torch.cat([self.step(one, None)[0] for one in symbols[:ALONE].split(1)])
        size = float(together.abs().nan_to_num(0, 0, 0).max())
        for other in (again[: len(alone)], alone):
            if not torch.allclose(
                other, together[: len(alone)], rtol=APART, atol=APART * size, equal_nan=True
            ):
                raise UserError(
                    "this model's answer to a string changes when the string is read again, or"
                    " beside other strings; so nothing can be said of all strings\n"
                    "`lrbench check` says what the answer depends on"
                )

    def numbers(self, symbols: int) -> int:
        """Return how many numbers a string's carried state holds, after one of `symbols`."""
        logits, state = self.step(torch.zeros(1, dtype=torch.int64), None)
        self.classes = logits.shape[-1]
        counted = [leaf.numel() * (1 + leaf.is_complex()) for leaf in leaves(state)]
        if not counted:
            raise UserError("this model carries no state from one symbol to the next")
        return sum(counted)


def chosen(state: Any, rows: Tensor) -> Any:
    """Return the states of some strings, `rows` (R,) of those there are, each as often as named.

    Everything with a first dimension is taken to have the strings there, as mixers promise.
    """
    return changed(lambda leaf: leaf[rows.to(leaf.device)] if leaf.dim() else leaf, state)


def why_no_derivative(state: Any) -> str:
    """Return why steps from a carried state have none: it counts positions, say. Or nothing."""
    whole = any(not leaf.is_floating_point() and not leaf.is_complex() for leaf in leaves(state))
    return "its state holds whole numbers, which do not move by small steps" if whole else ""


def flat(state: Any) -> Tensor:
    """Return carried states as real numbers (B, D), without gradients."""
    parts = []
    for leaf in leaves(state):
        real = torch.view_as_real(leaf) if leaf.is_complex() else leaf
        parts.append(real.detach().flatten(1))
    return torch.cat(parts, 1)


def unflat(numbers: Tensor, like: Any) -> Any:
    """Return carried states of real numbers (B, D), laid out as those of one string."""
    at = 0

    def taken(leaf: Tensor) -> Tensor:
        nonlocal at
        real = torch.view_as_real(leaf) if leaf.is_complex() else leaf
        size = real[0].numel()
        mine = numbers[:, at : at + size].to(real.dtype).unflatten(1, real.shape[1:])
        at += size
        return torch.view_as_complex(mine.contiguous()) if leaf.is_complex() else mine

    return changed(taken, like)
