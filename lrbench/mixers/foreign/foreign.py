"""Any torch module that maps (B, T, D) to (B, T, D), as a mixer: one of the user's, or a library's.

    y = layer(u),   the first of what it returns, if that is a tuple

A module has no state that could be carried, and no step. So what is kept of a string is the string:
piece by piece, the layer reads all inputs so far and the outputs of the new ones are taken. This is
exact for a causal layer, it takes memory that grows with the string and time that grows with its
square, and `state_size` is None, as it is for `transformer`. Layers of mambapy and xlstm have a
step, and carry its cache (`reading.py`).

What a layer must be is tried on a small input before its first update: (B, T, D) of one type on
one device, the same output twice (nothing drawn, as by dropout, and nothing kept between calls),
and no output that changes with later inputs or with the other string. `lrbench check` asks more.

What is not promised: training in groups, float64 where the layer cannot, a horizon beyond what its
kernels were tested at. Parameters that say `_no_weight_decay` have none (mamba, S4 and others).
"""

from __future__ import annotations

import copy
import inspect
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lrbench.checks import shown
from lrbench.errors import UserError
from lrbench.mixers.base import Mixer, ParameterRule
from lrbench.mixers.foreign.libraries import layer_of, library_of
from lrbench.mixers.foreign.reading import reading_of
from lrbench.mixers.foreign.settings import PLACE, ForeignConfig, takes_place
from lrbench.mixers.foreign.target import settings_class, target_class
from lrbench.registry import register_mixer

STRINGS, LENGTH, SEEN = 2, 6, 4  # of what is tried: outputs of the first 4 of 6 positions
ALLOWED = 1e-3  # between two calls: kernels choose their sums by length
SHARED = "v_first"  # what the first layer of RWKV-7 hands to the others


@register_mixer("foreign", ForeignConfig, "a torch module of your own, or of a library")
class ForeignMixer(Mixer):
    """A torch module (B, T, D) -> (B, T, D) whose state is all that it has read."""

    modes: ClassVar[tuple[str, ...]] = ("whole",)
    default_mode: ClassVar[str] = "whole"
    vmap: ClassVar[bool] = False

    def __init__(self, config: ForeignConfig, width: int) -> None:
        super().__init__(config, width)
        made_by = settings_class(config) or target_class(config)
        self._placed = takes_place(made_by)
        self.layer = self._made(0)
        self.reading = reading_of(layer_of(config.target).target)
        self.modes = self.reading.modes  # type: ignore[misc]
        self.default_mode = self.modes[0]  # type: ignore[misc]
        self._tried = False

    @cached_property
    def dtypes(self) -> tuple[torch.dtype, ...]:  # type: ignore[override]
        """The types it computes in: float64 where the layer does, on a small input."""
        single, both = (torch.float32,), (torch.float32, torch.float64)
        device = next(self.parameters(), torch.empty(0)).device
        if not layer_of(self.config.target).double or device.type == "meta":
            return single
        u = torch.zeros(1, 2, self.width, dtype=torch.float64, device=device)
        try:
            with torch.no_grad(), torch.random.fork_rng():
                y = copy.deepcopy(self).double()._read(u)
        except Exception:  # such as for a tensor that it made in float32; checks tell of any other
            return single
        return both if y.dtype == torch.float64 else single

    def place(self, layer: int, layers: int) -> None:
        """Make the layer anew where its class wants to know which one it is.

        Raises UserError for several layers that hand something on to each other.
        """
        if layers > 1 and SHARED in inspect.signature(self.layer.forward).parameters:
            raise UserError(
                f"{self.config.target} hands {SHARED} from the first layer to the others, which"
                " these stacks do not do\nfix: model.layers=1, or model=rwkv7"
            )
        if self._placed and layer:
            self.layer = self._made(layer)

    def _made(self, place: int) -> nn.Module:
        """Return the layer; UserError for arguments that its constructor refuses."""
        config, own = self.config, target_class(self.config)
        arguments = {**config.args, **dict.fromkeys(config.width_as, self.width)}
        if self._placed:
            arguments[PLACE] = place
        settings = settings_class(config)
        try:
            return own(**arguments) if settings is None else own(settings(**arguments))
        except Exception as error:
            given = ", ".join(f"{name}={value}" for name, value in arguments.items())
            raise UserError(
                f"{config.target}({shown(given, 300)}) cannot be made:"
                f" {type(error).__name__}: {shown(error, 200)}\n"
                "fix: change it by model.mixer.args='{NAME: VALUE}', or model.width"
            ) from error

    def parameter_rules(self) -> dict[str, ParameterRule]:
        return {
            name: ParameterRule(decay=False)
            for name, one in self.named_parameters()
            if getattr(one, "_no_weight_decay", False)
        }

    @property
    def state_size(self) -> int | None:
        """Numbers in the cache of a library's step; None where all that was read is kept."""
        if self.default_mode == "whole":
            return None
        parts: tuple[Tensor, ...] = self.initial_state(1)
        return sum(part.numel() for part in parts)

    def initial_state(self, batch: int) -> Any:
        """Return the inputs before a string, (B, 0, D), or the cache of a library's step."""
        like = next(self.parameters(), torch.empty(0))
        return self.reading.start(self.layer, like.new_empty(batch, 0, self.width))

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        """Map u (B, T, D), after what is kept of inputs before, to y (B, T, D) and what is then."""
        how = mode or self.default_mode
        return self.reading.read(self.layer, self.outputs, u, state, how)

    def outputs(self, u: Tensor, mode: str | None = None) -> Tensor:
        """Map whole strings u (B, T, D) to y (B, T, D)."""
        if self.training and not self._tried and u.shape[1] > SEEN:
            self._try(u)
            self._tried = True
        return self._read(u)

    def _read(self, u: Tensor) -> Tensor:
        """Return the layer's output, held against what it has to be."""
        made = self.layer(u)
        y = made[0] if isinstance(made, tuple | list) and made else made
        if isinstance(y, Tensor) and (y.shape, y.dtype, y.device) == (u.shape, u.dtype, u.device):
            return y
        raise UserError(
            f"{self.config.target} made {_told(y)} of {_told(u)}\n"
            "fix: return a tensor, or a tuple that begins with one, of the shape, type and device"
            " of the input: an output for every position"
        )

    @torch.no_grad()
    def _try(self, u: Tensor) -> None:
        """Raise UserError for a layer that draws or remembers, looks ahead, or mixes strings."""
        library = library_of(layer_of(self.config.target).target)
        if library is not None and library.cuda and u.device.type != "cuda":
            raise UserError(f"{self.config.target} computes on a GPU only\nfix: device=cuda")
        u = u[:STRINGS, :LENGTH].detach()
        first, again = self._read(u), self._read(u)
        if not torch.allclose(first, again, ALLOWED, ALLOWED):
            raise UserError(
                f"{self.config.target} gives another output for the same input the second time\n"
                "it draws random numbers, or keeps something between calls; a run that is resumed"
                " would be another\nfix: dropout of 0 in model.mixer.args, no state in attributes"
            )
        if not torch.allclose(self._read(u[:, :SEEN]), first[:, :SEEN], ALLOWED, ALLOWED):
            raise UserError(
                f"{self.config.target} is not causal: outputs of the first {SEEN} of {u.shape[1]}"
                " inputs change with the inputs after them\n"
                "fix: a mask, or a recurrence in one direction; `lrbench check` tells where"
            )
        alone = torch.cat([self._read(string[None]) for string in u])
        if not torch.allclose(alone, first, ALLOWED, ALLOWED):
            raise UserError(
                f"{self.config.target} mixes the strings of a batch: read alone, a string has"
                " another output\n"
                "fix: read (B, T, D); of torch's recurrent layers"
                " model.mixer.args='{batch_first: true}'"
            )


def try_out(config: ForeignConfig, width: int, device: torch.device) -> None:
    """Make a layer and read a small input with it, as training does; UserError as `_try`."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        mixer = ForeignMixer(config, width).to(device)
        mixer.outputs(torch.randn(STRINGS, LENGTH, width).to(device))


def _told(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    dtype = str(value.dtype).removeprefix("torch.")
    return f"({', '.join(map(str, value.shape))}) {dtype} on {value.device}"
