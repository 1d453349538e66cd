"""Subjects of the contract checks: models of one configuration, and the inputs they read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, get_origin, get_type_hints

import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor
from yaml import YAMLError  # type: ignore[import-untyped]

from lrbench.encoders.base import Encoder
from lrbench.errors import UserError, unknown
from lrbench.mixers.base import Mixer
from lrbench.mixers.foreign.libraries import layer_of, library_of
from lrbench.mixers.foreign.target import with_named_target
from lrbench.registry import ENCODERS, FOREIGN, MIXERS
from lrbench.schema import model_node

WIDTH = 16  # small, so that every check of every mode takes seconds
TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
# For dtypes other than float64, for which a model declares its own.
TOLERANCES = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
# Of one computation beside itself with other numbers around it. Not zero, because products of
# other sizes, and a transform over the whole length, round differently.
SAME = {torch.float64: 1e-12, torch.float32: 1e-5}

MixerFactory = Callable[..., Mixer]
EncoderFactory = Callable[..., Encoder]


def model_settings(name: str, overrides: Iterable[str]) -> Any:
    """Return the `model` node of `name` with `model.width=..` and `model.mixer.KEY=..` set.

    Of an encoder `model.encoder.KEY=..`.

    Raises UserError for an unknown name or setting, a value of a wrong type or out of range.
    """
    schema = model_node(name)
    try:
        node = OmegaConf.create({"model": OmegaConf.structured(schema(width=WIDTH))})
    except (OmegaConfBaseException, TypeError) as error:  # a type it does not know; no default
        first = str(error).partition("\n")[0]
        raise UserError(
            f"the configuration of model '{name}' cannot be used: {first}\n"
            "each field needs a default, and a type such as int, float, bool, str or list[int]"
        ) from error
    for override in overrides:
        _override(node, schema, override)
    try:
        model = OmegaConf.to_object(node)["model"]  # type: ignore[call-overload, index]
    except OmegaConfBaseException as error:
        raise UserError(f"model '{name}': {str(error).partition(chr(10))[0]}") from error
    except ValueError as error:
        raise UserError(str(error)) from error
    return with_named_target(model)


def _override(node: Any, schema: type, override: str) -> None:
    """Set one KEY=VALUE in a composed node, with our words for what OmegaConf refuses."""
    key, _, value = override.partition("=")
    wanted = _type_of(schema, key)
    try:
        node.merge_with(OmegaConf.from_dotlist([override]))
    except (OmegaConfBaseException, YAMLError) as error:
        name = TYPES.get(wanted, f"of type {getattr(wanted, '__name__', wanted)}")
        raise UserError(f"{key} must be {name}, not '{value}'") from error


def _type_of(schema: type, key: str) -> Any:
    """Return the type of the setting `key` (model.width, model.mixer.p); UserError if unknown."""
    parts = key.split(".")[1:]
    for depth, part in enumerate(parts):
        if get_origin(schema) is dict:
            return Any  # settings of something else, which knows them
        hints = get_type_hints(schema) if dataclasses.is_dataclass(schema) else {}
        if part not in hints:
            prefix = ".".join(["model", *parts[:depth]])
            raise unknown("setting", key, [f"{prefix}.{name}" for name in hints])
        schema = hints[part]
    return schema


def mixer_factory(model: Any) -> MixerFactory:
    """Return make(seed=0, dtype=float64): the mixer a `model` node describes, in eval mode."""
    cls = MIXERS.get(model.name).cls
    settings = _checked(cls, model.mixer)

    def make(seed: int = 0, dtype: torch.dtype = torch.float64) -> Mixer:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            mixer: Mixer = cls(settings, model.width)
        _refuse_complex(model.name, mixer)
        return mixer.to(device_for(model), dtype).eval()

    return make


def device_for(model: Any) -> str:
    """Return where a mixer is checked: on the CPU, unless its kernels run on a GPU only."""
    target = getattr(model.mixer, "target", "") if model.name == FOREIGN else ""
    library = library_of(layer_of(target).target)
    return "cuda" if library is not None and library.cuda else "cpu"


def _checked(cls: type, settings: Any) -> Any:
    """Return a mixer's settings with those it is to be checked with, unless the user set them."""
    wanted = getattr(cls, "checked_with", {})
    unset = {name: value for name, value in wanted.items() if getattr(settings, name) is None}
    return replace(settings, **unset) if unset else settings


def _refuse_complex(name: str, mixer: Mixer) -> None:
    for key, tensor in mixer.state_dict().items():
        if tensor.is_complex():
            raise UserError(
                f"model '{name}': '{key}' is complex; .to(float64) would drop its imaginary part\n"
                "keep it as real numbers (..., 2) and use torch.view_as_complex in the forward"
            )


def encoder_factory(model: Any) -> EncoderFactory:
    """Return make(seed=0, dtype=float64): the encoder a `model` node describes."""
    cls = ENCODERS.get(model.name).cls

    def make(seed: int = 0, dtype: torch.dtype = torch.float64) -> Encoder:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            encoder: Encoder = cls(model.encoder, model.width)
        return encoder.to(dtype)

    return make


@dataclass(frozen=True)
class Context:
    """What the checks feed a mixer: `width` D, `batch` B strings, S `symbols`, on `device`."""

    width: int
    batch: int = 3
    symbols: int = 5
    device: str = "cpu"

    def inputs(self, length: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
        """Return u (B, T, D), standard normal: the same numbers in every dtype."""
        return self._draw((self.batch, length, self.width), dtype, seed)

    def table(self, dtype: torch.dtype) -> Tensor:
        """Return one input per symbol, (S, D)."""
        return self._draw((self.symbols, self.width), dtype, 0)

    def index(self, length: int, seed: int = 0) -> Tensor:
        """Return the symbol at each position, (B, T)."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randint(self.symbols, (self.batch, length), generator=generator)
        return drawn.to(self.device)

    def _draw(self, shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        return drawn.to(self.device, dtype)


def context_for(model: Any) -> Context:
    """Return what the mixer of a `model` node is fed."""
    return Context(model.width, device=device_for(model))


@dataclass(frozen=True)
class PaddedStrings:
    """What the checks feed an encoder: strings of `lengths` and d = `width` features."""

    width: int
    lengths: tuple[int, ...] = (7, 1, 12, 2, 5)
    more: int = 0  # padding beyond the longest

    def mask(self) -> Tensor:
        """Return the mask (N, S)."""
        return torch.arange(max(self.lengths) + self.more) < torch.tensor(self.lengths)[:, None]

    def inputs(self, dtype: torch.dtype, seed: int = 0) -> Tensor:
        """Return x (N, S, d), standard normal, zero at padded positions."""
        generator = torch.Generator().manual_seed(seed)
        shape = len(self.lengths), max(self.lengths), self.width
        x = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        x = torch.cat([x, x.new_zeros(len(x), self.more, self.width)], 1)
        return x * self.mask()[..., None]


def finest(make: MixerFactory | EncoderFactory) -> torch.dtype:
    """Return float64 if the model declares it, else the first dtype it does."""
    dtypes = make(dtype=torch.float32).dtypes
    return torch.float64 if torch.float64 in dtypes else dtypes[0]


def tolerance(model: Mixer | Encoder, dtype: torch.dtype) -> float:
    """Return how far two ways to compute the same may differ in `dtype`."""
    return model.tolerance if dtype == torch.float64 else TOLERANCES.get(dtype, 1e-2)


def whole(length: int, mixer: Mixer) -> int:
    """Return the smallest length >= `length` that the mixer accepts."""
    multiple = mixer.length_multiple
    return -(-length // multiple) * multiple


def ways(mixer: Mixer) -> tuple[str | None, ...]:
    """Return every mode, and None for the one used where none is asked for."""
    return (None, *mixer.modes)


def misshapen(y: Tensor, expected: tuple[int, ...], dtype: torch.dtype) -> str:
    """Say what `y` is and what was expected, whose last number is the layer's `out_width`."""
    due = f"{expected} {shown(dtype)}, as out_width={expected[-1]} says"
    return f"{tuple(y.shape)} {shown(y.dtype)}; expected {due}"


def shown(dtype: torch.dtype) -> str:
    """Return 'float64' for torch.float64."""
    return str(dtype).removeprefix("torch.")


def seeded(seed: int = 7, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator, as a run has one for its noise."""
    return torch.Generator(device).manual_seed(seed)
