"""Any mixer as a reader of whole strings: a stack of it, and one vector from its positions.

    y_1 .. y_S = stack(x_1 .. x_S),    pool = mean   the mean of y_1 .. y_L
                                              last   y_L
                                              final  the last mixer's state after position L

The stack is a backbone that reads the embedded string as a signal of d features. `bare` is mixers
alone, without norm or head, so that `mixer=lstm` is torch's LSTM and nothing else; the others keep
their input layer, their norms and their head, as a linear map to d features.

Mixers are causal, so padding on the right changes neither y_1 .. y_L nor, for `final`, anything at
all: strings are read together up to the end of the shortest, then the others go on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, named_as_typed, of_kind, one_of, only_with
from lrbench.encoders.base import Encoder, lengths_of
from lrbench.errors import UserError, unknown
from lrbench.mixers.base import Mixer
from lrbench.mixers.states import changed, leaves
from lrbench.models.bare import Bare, BareConfig
from lrbench.models.base import Backbone, Carry
from lrbench.registry import (
    BACKBONES,
    DEFAULT_BACKBONE,
    FOREIGN,
    MIXERS,
    Entry,
    register_encoder,
)

POOLS = ("mean", "last", "final")
BARE = {"embed": "none", "norm": False}  # what `bare` is here unless told otherwise
TYPED = {  # what parts of a model call their settings, and what those are called here
    "model.backbone.name=": "model.encoder.backbone=",
    "model.backbone.": "model.encoder.stack.",
    "model.mixer.": "model.encoder.settings.",
    "model.layers": "model.encoder.layers",
}


@dataclass
class PooledConfig:
    """Settings of `pooled`.

    mixer: a registered one. settings: the mixer's own, where they are not its defaults. layers: how
    many mixers stand one above another. backbone: a registered stack, or nothing for the mixer's
    usual one. stack: that stack's settings. pool: mean, last or final.
    """

    mixer: str = "lstm"
    settings: dict[str, Any] = field(default_factory=dict)
    layers: int = 1
    backbone: str = ""
    stack: dict[str, Any] = field(default_factory=dict)
    pool: str = "last"

    def __post_init__(self) -> None:
        at_least("model.encoder.layers", self.layers, 1)
        one_of("model.encoder.pool", self.pool, POOLS)


@register_encoder("pooled", PooledConfig, "any mixer, pooled over the positions of a string")
class Pooled(Encoder):
    """A stack of mixers, and the mean, the last output or the last state of a string."""

    config: PooledConfig
    padding = 1e-8
    padding_reason = "a mixer may go another way through another length, and round differently"

    def __init__(self, config: PooledConfig, width: int) -> None:
        super().__init__(config, width)
        with named_as_typed(TYPED):
            self.stack = _stack(config, width)
        mixers = self.stack.stateful
        self.tolerance = max(mixer.tolerance for mixer in mixers)  # type: ignore[misc]
        self.exact_gradient = all(mixer.exact_gradient for mixer in mixers)
        self.dtypes = tuple(  # type: ignore[misc]
            dtype for dtype in mixers[0].dtypes if all(dtype in m.dtypes for m in mixers)
        )
        if config.pool == "final":
            _check_final(config, self.stack)

    @classmethod
    def made_of(cls, config: PooledConfig) -> Mapping[str, Entry]:
        mixer = MIXERS.get(config.mixer)
        usual = mixer.backbone.get("name", DEFAULT_BACKBONE)
        return {"mixer": mixer, "backbone": BACKBONES.get(config.backbone or usual)}

    @property
    def out_width(self) -> int:
        if not isinstance(self.stack, Bare):
            return self.width
        last = self.stack.stateful[-1]
        size = last.state_size if self.config.pool == "final" else last.out_width
        assert size is not None
        return size

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        x = torch.where(mask[..., None], x, 0)
        if self.config.pool == "final":
            return self._final(x, lengths_of(mask), generator)
        y = self.stack.activations(x, Carry(None, None, whole=True), False, generator)
        if self.config.pool == "last":
            ends = mask.sum(1) - 1
            return self.stack.logits(y[torch.arange(len(y), device=y.device), ends], generator)
        y = self.stack.logits(y, generator)
        return torch.where(mask[..., None], y, 0).sum(1) / mask.sum(1, keepdim=True)

    def _final(self, x: Tensor, lengths: list[int], generator: torch.Generator | None) -> Tensor:
        """Return the last mixer's state after the last position of each string, as real rows."""
        states, going = None, list(range(len(lengths)))
        done, ended = 0, {}
        for length in sorted(set(lengths)):
            carry = Carry(states, None)
            self.stack.activations(x[:, done:length], carry, True, generator)
            for row, n in enumerate(going):
                if lengths[n] == length:
                    ended[n] = (carry.after[-1], row)
            left = [row for row, n in enumerate(going) if lengths[n] > length]
            rows = torch.tensor(left, dtype=torch.int64, device=x.device)
            x, states = x[rows], [_picked(state, rows) for state in carry.after]
            going, done = [going[row] for row in left], length
        return torch.stack([_real(*ended[n]) for n in range(len(lengths))])


def _stack(config: PooledConfig, width: int) -> Backbone:
    """Return the stack of a configuration; UserError for an unknown name or setting."""
    mixer = MIXERS.get(config.mixer)
    if mixer.name == FOREIGN:
        raise UserError(
            "model=pooled takes no layer by its dotted path: its source would not be in the"
            " fingerprint\nfix: register it as a mixer or an encoder (docs/adding-a-model.md)"
        )
    usual = dict(mixer.backbone)
    usual_name = usual.pop("name", DEFAULT_BACKBONE)
    backbone = BACKBONES.get(config.backbone or usual_name)
    settings = usual if backbone.name == usual_name else {}
    settings = {**settings, **(BARE if backbone.cls is Bare else {}), **config.stack}
    own = _settings("settings", mixer.config, config.settings)
    if getattr(own, "init", "") == "exact":
        raise ValueError(
            "model.encoder.settings.init=exact: weights that are right by construction are an"
            " automaton's, and answer at each position; leave it out"
        )
    stack: Backbone = backbone.cls(
        _settings("stack", backbone.config, settings),
        symbols=0,
        classes=width,
        width=width,
        layers=config.layers,
        make_mixer=lambda wide=width: mixer.cls(own, wide),
        features=width,
    )
    if isinstance(stack, Bare):
        given, other = settings.get("hidden", 0), "the head of a stack, which is left out here"
        only_with("model.backbone.hidden", given, BareConfig.hidden, False, other)
        stack.head = nn.Sequential()  # the identity
    return stack


def _settings(key: str, schema: type, given: Mapping[str, Any]) -> Any:
    """Return the dataclass of settings given by name.

    To what composes a run they are a dictionary of anything, so their types are checked here. Which
    stack it is, its own setting `name`, is said by `backbone`.
    """
    known = [one.name for one in fields(schema) if one.name != "name"]
    hints = get_type_hints(schema)
    for name in given:
        if name not in known:
            raise unknown(
                "setting",
                f"model.encoder.{key}.{name}",
                [f"model.encoder.{key}.{one}" for one in known],
            )
        of_kind(f"model.encoder.{key}.{name}", given[name], hints[name])
    return schema(**given)


def _check_final(config: PooledConfig, stack: Backbone) -> None:
    if not isinstance(stack, Bare) or not isinstance(stack.norm, nn.Identity):
        raise ValueError(
            "model.encoder.pool=final reads a state: what a stack does after it would not train;"
            " choose model.encoder.backbone=bare without a norm"
        )
    last = stack.mixers[-1]
    assert isinstance(last, Mixer)
    if last.state_size is None:
        raise ValueError(
            f"model.encoder.pool=final needs a state of one size, which {config.mixer} has not;"
            " choose mean or last"
        )


def _picked(state: Any, rows: Tensor) -> Any:
    """Return some strings' states, of tensors with the batch first."""
    return changed(lambda leaf: leaf[rows], state)


def _real(state: Any, row: int) -> Tensor:
    """Return one string's state as real numbers in a row."""
    ones = [leaf[row] for leaf in leaves(state)]
    return torch.cat(
        [(torch.view_as_real(one) if one.is_complex() else one).flatten() for one in ones]
    )
