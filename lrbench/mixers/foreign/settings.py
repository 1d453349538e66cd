"""Settings of `foreign`: the class, and the arguments of its constructor.

A signature is read once, where a user names the class. What it would leave to defaults is written
out there, so that a run's record is whole and a changed default is another configuration.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lrbench.errors import UserError, unknown

WIDTHS = (
    "hidden_size",
    "d_model",
    "dim",
    "width",
    "embedding_dim",
    "embed_dim",
    "hidden_dim",
    "n_embd",
    "dim_model",
    "features",
)
PLACE = "layer_idx"  # that a class may take: which of the layers it is, from 0
PLAIN = (bool, int, float, str, type(None))
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
EXAMPLE = "lrbench check model=foreign model.mixer.target=my_layers.MyLayer"


@dataclass
class ForeignConfig:
    """Settings of `foreign`.

    target: MODULE.CLASS, a torch.nn.Module that maps (B, T, D) to (B, T, D), or the short name of
    a library's layer. args: what its constructor is given beside the width. width_as: what it
    calls the width; nothing for the first it takes of the usual names.
    """

    target: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    width_as: list[str] = field(default_factory=list)


def completed(
    config: ForeignConfig, made_by: type, fixed: Mapping[str, Any], width: str = ""
) -> ForeignConfig:
    """Return the settings with every default of a signature written out, and the width's names.

    made_by: the class whose constructor takes the arguments. fixed: what it is given unless
    `config` says otherwise. width: the width's name, where it is known. Defaults that are no plain
    values, such as a type or a function, cannot be written down and are left to the class.
    Raises UserError for a name that the constructor does not take, for one that it needs and is
    not given, and where it is not clear which is the width.
    """
    parameters = _parameters(made_by)
    names = [name for name, one in parameters.items() if one.kind in NAMED]
    anything = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    widths = list(config.width_as) or ([width] if width else _usual_width(config, names))
    given = {**fixed, **config.args}
    for name in (*given, *widths):
        if name not in names and not anything:
            raise unknown(f"argument of {config.target}", name, set(names) - {PLACE})
    if twice := [name for name in widths if name in given]:
        raise UserError(
            f"model.mixer.args sets {twice[0]}, which is model.width for {config.target}\n"
            f"fix: leave it out and write model.width={given[twice[0]]}"
        )
    defaults = {
        name: one.default
        for name, one in parameters.items()
        if one.kind in NAMED and one.default is not one.empty and is_plain(one.default)
    }
    kept = {name: value for name, value in defaults.items() if name not in (*widths, PLACE)}
    missing = [
        name
        for name, one in parameters.items()
        if one.kind in NAMED and one.default is one.empty
        if name not in (*given, *widths, PLACE)
    ]
    if missing:
        values = ", ".join(f"{name}: VALUE" for name in (*config.args, *missing))
        raise UserError(
            f"{config.target} needs {', '.join(missing)}\n"
            f"fix: model.mixer.args='{{{values}}}'; if one of them is the width, write"
            f" 'model.mixer.width_as=[{missing[0]}]'"
        )
    return ForeignConfig(config.target, {**kept, **given}, widths)


def takes_place(made_by: type) -> bool:
    """Whether a class wants to know which of the layers it is."""
    return PLACE in _parameters(made_by)


def is_plain(value: Any) -> bool:
    """Whether a value can be written into a configuration and read back as it was."""
    if isinstance(value, list):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(inner) for key, inner in value.items())
    return type(value) in PLAIN


def _usual_width(config: ForeignConfig, names: Iterable[str]) -> list[str]:
    own = [name for name in names if name != PLACE and name not in config.args]
    found = [name for name in WIDTHS if name in own]
    if found:
        return found[:1]
    example = f"[{own[0]}]" if own else "[input_size,hidden_size]"
    raise UserError(
        f"which argument of {config.target} is the width? it takes {', '.join(own) or 'any'}\n"
        f"tried: {', '.join(WIDTHS)}\n"
        f"fix: name it, as in 'model.mixer.width_as={example}'; several get the same number"
    )


def _parameters(made_by: type) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(made_by).parameters
    except (TypeError, ValueError) as error:
        raise UserError(f"the signature of {made_by.__name__} cannot be read: {error}") from error
