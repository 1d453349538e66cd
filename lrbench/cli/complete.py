"""Shell completion of KEY=VALUE words, without importing torch.

Bash takes `task=s` for the three words `task`, `=` and `s` and replaces only the last, so there
the answer is the tail alone; other shells get the whole word.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points

import typer

from lrbench.cli.declarations import Declaration, declarations, typed
from lrbench.locations import conf_dir
from lrbench.registry import ENCODERS, MIXERS, TASKS

REGISTRIES = {"task": TASKS, "model": MIXERS, "encoder": ENCODERS}

Vocabulary = dict[str, list[str]]  # key -> the values worth offering; the default where any will do


def complete(args: list[str], incomplete: str, ctx: typer.Context | None = None) -> list[str]:
    """Return how the settings of `lrbench train` may go on: `args` are the words before."""
    words = list(args) or _words(ctx)
    return _answer(train_vocabulary(_settled(words)), words, incomplete)


def complete_show(args: list[str], incomplete: str, ctx: typer.Context | None = None) -> list[str]:
    """Return how the settings of `lrbench show` may go on."""
    words = list(args) or _words(ctx)
    return _answer(show_vocabulary(_settled(words)), words, incomplete)


def train_vocabulary(chosen: dict[str, str]) -> Vocabulary:
    """Return every setting of a run; `chosen` are those already typed."""
    from lrbench.config import SCHEDULES, Config, StackConfig
    from lrbench.protocols.fan2024.declaration import STOPS
    from lrbench.protocols.rir2023.declaration import SELECTIONS
    from lrbench.registry import PROTOCOLS

    run = Config()
    plugins = _plugins()
    name = chosen.get("protocol", "")
    protocol = PROTOCOLS.get(name if name in PROTOCOLS else run.protocol.name).config
    choices = {
        "task": _names("task", plugins),
        "model": sorted([*_names("model", plugins), *_names("encoder", plugins)]),
        "protocol": _files("protocol"),
        "optim": _files("optim"),
        "device": ["auto", "cpu", "cuda"],
        "force": ["true", "false"],
        "protocol.stop": list(STOPS),
        "protocol.supervision": ["all", "last"],
        "protocol.select_by": list(SELECTIONS),
        "optim.schedule": list(SCHEDULES),
    }
    return {
        **_fields("", vars(run)),
        **_fields("task.", _settings("task", chosen.get("task", "sum"), plugins)),
        **_fields("model.", vars(StackConfig())),
        **_fields("model.mixer.", _settings("model", chosen.get("model", "blockdiag"), plugins)),
        **_encoder_fields(chosen.get("model", ""), plugins),
        **_fields("protocol.", vars(protocol())),
        **_fields("optim.", vars(run.optim)),
        **choices,
    }


def _encoder_fields(name: str, plugins: list[Declaration]) -> Vocabulary:
    """Return the settings of an encoder and what stands around it; none of what is not one."""
    from lrbench.config import FrameworkConfig

    if name not in _names("encoder", plugins):
        return {}
    own = _fields("model.encoder.", _settings("encoder", name, plugins))
    return {**own, **_fields("model.framework.", vars(FrameworkConfig()))}


def show_vocabulary(chosen: dict[str, str]) -> Vocabulary:
    """Return every setting of `lrbench show`."""
    plugins = _plugins()
    return {
        "task": _names("task", plugins),
        **{"length": ["12"], "count": ["3"], "seed": ["0"]},
        **_fields("task.", _settings("task", chosen.get("task", "sum"), plugins)),
    }


def matches(vocabulary: Vocabulary, taken: Iterable[str], incomplete: str) -> list[str]:
    """Return the whole words that `incomplete` may become; keys in `taken` are not offered again.

    A lone key comes with its values: bash then adds no blank after the `=`.
    """
    key, equals, value = incomplete.partition("=")
    if equals:
        head, comma, last = value.rpartition(",")
        values = [v for v in vocabulary.get(key, []) if v.startswith(last)]
        return [f"{key}={head}{comma}{v}" for v in values if v not in head.split(",")]
    keys = [name for name in vocabulary if name.startswith(key) and name not in set(taken)]
    lone = [f"{keys[0]}={value}" for value in vocabulary[keys[0]]] if len(keys) == 1 else []
    return [f"{name}=" for name in keys] + lone


def _answer(vocabulary: Vocabulary, words: list[str], incomplete: str) -> list[str]:
    if not incomplete and _cursor_after_equals():
        words = [*words, "="]  # Typer has dropped it
    split = len(words) >= 2 and words[-1] == "="
    if split:
        start = f"{words[-2]}="
        found = matches(vocabulary, (), start + incomplete)
        return [word.removeprefix(start) for word in found]
    return matches(vocabulary, _settled(words), incomplete)


def _words(ctx: typer.Context | None) -> list[str]:
    """Return the words before the cursor, which Typer keeps in the context."""
    return list(ctx.params.get("words") or []) if ctx else []


def _cursor_after_equals() -> bool:
    """Tell whether bash completes right after `=`, where Typer reports an empty word."""
    words = os.environ.get("COMP_WORDS", "").split("\n")
    position = os.environ.get("COMP_CWORD", "")
    return position.isdigit() and words[int(position) : int(position) + 1] == ["="]


def _settled(words: list[str]) -> dict[str, str]:
    """Return the settings already typed, key -> value, put together again if bash split them."""
    whole = " ".join(words).replace(" = ", "=").split()
    return dict(word.split("=", 1) for word in whole if "=" in word)


def _plugins() -> list[Declaration]:
    """Return what the user's plugins register, without running them."""
    from lrbench.plugins import GROUP, VARIABLE

    named = os.environ.get(VARIABLE, "").replace(",", " ").split()
    installed = [point.module for point in entry_points(group=GROUP)]
    return [one for module in (*named, *installed) for one in declarations(module)]


def _names(kind: str, plugins: list[Declaration]) -> list[str]:
    own = {one.name for one in plugins if one.kind == kind}
    return sorted(own.union(REGISTRIES[kind].names()))


def _files(group: str) -> list[str]:
    return sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))


def _settings(kind: str, name: str, plugins: list[Declaration]) -> dict[str, str]:
    """Return the settings of a task, mixer or encoder with their defaults; none if unknown."""
    module = REGISTRIES[kind].builtin_modules().get(name)
    builtin = declarations(module) if module else []
    wanted = [one.settings for one in (*plugins, *builtin) if (one.kind, one.name) == (kind, name)]
    return wanted[0] if wanted else {}


def _fields(prefix: str, values: Mapping[str, object]) -> Vocabulary:
    """Return settings with their defaults; `name` is what the group itself chooses."""
    return {
        f"{prefix}{key}": [typed(value)] if value != "" else []
        for key, value in values.items()
        if key != "name"
    }
