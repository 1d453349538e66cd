"""Shell completion of KEY=VALUE words, without importing torch.

Bash takes `task=s` for the three words `task`, `=` and `s` and replaces only the last, so there
the answer is the tail alone; other shells get the whole word.

What a module registers is read from its source. Only what is written out plainly is seen:
`@register_mixer("mine", MineConfig)` on a class, and the annotated fields of a configuration in the
same file or, for a base of it, in one that it names in `from MODULE import BASE`. The values of a
setting are those of `one_of("task.kind", self.kind, KINDS)`, where KINDS is a tuple, list or
dictionary of plain strings in either file. Nothing is imported or executed.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from lrbench.locations import conf_dir
from lrbench.registry import DEFAULT_PROTOCOL, ENCODERS, MIXERS, PROTOCOLS, TASKS

REGISTRIES = {"task": TASKS, "model": MIXERS, "encoder": ENCODERS, "protocol": PROTOCOLS}

Vocabulary = dict[str, list[str]]  # key -> the values worth offering; the default where any will do


def complete(args: list[str], incomplete: str, ctx: typer.Context | None = None) -> list[str]:
    """Return how the settings of `lrbench train` may go on: `args` are the words before."""
    words = list(args) or _words(ctx)
    return _answer(train_vocabulary(_settled(words)), words, incomplete)


def complete_table() -> list[str]:
    """Return the names of tables."""
    from lrbench.tables import table_names

    return table_names()


def complete_show(args: list[str], incomplete: str, ctx: typer.Context | None = None) -> list[str]:
    """Return how the settings of `lrbench show` may go on."""
    words = list(args) or _words(ctx)
    return _answer(show_vocabulary(_settled(words)), words, incomplete)


def train_vocabulary(chosen: dict[str, str]) -> Vocabulary:
    """Return every setting of a run; `chosen` are those already typed."""
    from lrbench.config import SCHEDULES, Config, StackConfig
    from lrbench.protocols.base import declared

    run = Config()
    plugins = _plugins()
    protocol = chosen.get("protocol") or DEFAULT_PROTOCOL
    known = declared(protocol if protocol in PROTOCOLS else DEFAULT_PROTOCOL)
    limited = {f"protocol.{key}": list(values) for key, values in known.choices.items()}
    choices = {
        "task": _names("task", plugins),
        "model": sorted([*_names("model", plugins), *_names("encoder", plugins)]),
        "protocol": sorted({*_names("protocol", plugins), *_files("protocol")}),
        "optim": _files("optim"),
        "device": ["auto", "cpu", "cuda"],
        "force": ["true", "false"],
        **limited,
        "optim.schedule": list(SCHEDULES),
    }
    return {
        **_fields("", vars(run)),
        **_own("task.", "task", chosen.get("task", "sum"), plugins),
        **_fields("model.", vars(StackConfig())),
        **_own("model.mixer.", "model", chosen.get("model", "blockdiag"), plugins),
        **_encoder_fields(chosen.get("model", ""), plugins),
        **_fields("protocol.", _protocol_settings(protocol, plugins)),
        **_fields("optim.", vars(run.optim)),
        **choices,
    }


def _protocol_settings(name: str, plugins: list[Declaration]) -> Mapping[str, object]:
    """Return the settings of a protocol; of a file of the user's, those of the default one."""
    own = one.settings if (one := _declared("protocol", name, plugins)) else {}
    known = name if name in PROTOCOLS else DEFAULT_PROTOCOL
    return own or vars(PROTOCOLS.get(known).config())


def _encoder_fields(name: str, plugins: list[Declaration]) -> Vocabulary:
    """Return the settings of an encoder and what stands around it; none of what is not one."""
    from lrbench.config import FrameworkConfig

    if name not in _names("encoder", plugins):
        return {}
    own = _own("model.encoder.", "encoder", name, plugins)
    return {**own, **_fields("model.framework.", vars(FrameworkConfig()))}


def show_vocabulary(chosen: dict[str, str]) -> Vocabulary:
    """Return every setting of `lrbench show`."""
    plugins = _plugins()
    return {
        "task": _names("task", plugins),
        **{"length": ["12"], "count": ["3"], "seed": ["0"]},
        **_own("task.", "task", chosen.get("task", "sum"), plugins),
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
    given = (ctx.params.get(name) for name in ("overrides", "arguments")) if ctx else ()
    return next((list(words) for words in given if words), [])


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
    from importlib.metadata import entry_points

    installed = [point.module for point in entry_points(group=GROUP)]
    return [one for module in (*named, *installed) for one in declarations(module)]


def _names(registry: str, plugins: list[Declaration]) -> list[str]:
    own = {one.name for one in plugins if one.registry == registry}
    return sorted(own.union(REGISTRIES[registry].names()))


def _files(group: str) -> list[str]:
    return sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))


def _declared(registry: str, name: str, plugins: list[Declaration]) -> Declaration | None:
    """Return what registers a task, mixer, encoder or protocol; None if nothing does."""
    module = REGISTRIES[registry].builtin_modules().get(name)
    builtin = declarations(module) if module else []
    known = (one for one in (*plugins, *builtin) if (one.registry, one.name) == (registry, name))
    return next(known, None)


def _own(prefix: str, registry: str, name: str, plugins: list[Declaration]) -> Vocabulary:
    """Return the settings of a task, mixer or encoder, with their values where these are few."""
    one = _declared(registry, name, plugins)
    if one is None:
        return {}
    listed = {f"{prefix}{key}": values for key, values in one.choices.items()}
    return {**_fields(prefix, one.settings), **listed}


def _fields(prefix: str, values: Mapping[str, object]) -> Vocabulary:
    """Return settings with their defaults; `name` is what the group itself chooses."""
    return {
        f"{prefix}{key}": [typed(value)] if value != "" else []
        for key, value in values.items()
        if key != "name"
    }


DECORATORS = {
    "register_task": "task",
    "register_mixer": "model",
    "register_encoder": "encoder",
    "register_backbone": "backbone",
    "register_protocol": "protocol",
}
LATER = ("added", "unrecorded")  # fields of lrbench/records.py: their argument is the default
DEEPEST = 8  # bases of bases, and files they are in: a file may import itself


@dataclass(frozen=True)
class Declaration:
    """A registered name with its settings: field -> default as it is typed, '' if not plain.

    choices: field -> its values, of those that take one of a few.
    """

    registry: str
    name: str
    settings: dict[str, str]
    choices: dict[str, list[str]]


def declarations(module: str) -> list[Declaration]:
    """Return what `module` registers; nothing if its source is not found or is no Python."""
    tree = _tree(module)
    return list(_registered(tree)) if tree else []


def typed(value: Any) -> str:
    """Return a value as a person types it in an override; '' for a dictionary: it is not plain."""
    if isinstance(value, dict):
        return ""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(typed, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _tree(module: str) -> ast.Module | None:
    path = _source_file(module)
    try:
        return ast.parse(path.read_bytes()) if path else None
    except (OSError, ValueError, SyntaxError):
        return None  # `lrbench train` will say what is wrong; a prompt is no place for it


def _source_file(module: str) -> Path | None:
    """Find a module as `import` would, the current folder first, without importing its parents."""
    inside = Path(*module.split("."))
    roots = [Path(__file__).parents[2], Path(os.getcwd()), *map(Path, sys.path)]
    files = (root / place for root in roots for place in (f"{inside}.py", inside / "__init__.py"))
    return next((file for file in files if file.is_file()), None)


def _registered(tree: ast.Module) -> Iterator[Declaration]:
    for node in tree.body:
        for call in node.decorator_list if isinstance(node, ast.ClassDef) else ():
            if not isinstance(call, ast.Call) or _name(call.func) not in DECORATORS:
                continue
            given = dict(zip(("name", "config"), call.args, strict=False))
            given |= {word.arg: word.value for word in call.keywords if word.arg}
            name, config = given.get("name"), given.get("config")
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and config:
                settings, choices = _annotated(tree, _name(config))
                yield Declaration(DECORATORS[_name(call.func)], name.value, settings, choices)


def _annotated(
    tree: ast.Module | None, name: str, depth: int = 0
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the fields and choices of a dataclass, its bases' first; none if it is not found."""
    if tree is None or depth > DEEPEST:
        return {}, {}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if name not in classes:
        module = _imported(tree).get(name)
        return _annotated(_tree(module), name, depth + 1) if module else ({}, {})
    settings: dict[str, str] = {}
    choices: dict[str, list[str]] = {}
    for base in classes[name].bases:
        of_base = _annotated(tree, _name(base), depth + 1)
        settings |= of_base[0]
        choices |= of_base[1]
    for line in classes[name].body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            settings[line.target.id] = _default(line.value)
    for call in ast.walk(classes[name]):
        if isinstance(call, ast.Call) and _name(call.func) == "one_of" and len(call.args) == 3:
            key, field, values = call.args
            named = isinstance(key, ast.Constant) and isinstance(field, ast.Attribute)
            if named and (found := _strings(tree, values)):
                choices[_name(field)] = found
    return settings, {key: values for key, values in choices.items() if key in settings}


def _strings(tree: ast.Module | None, values: ast.expr, depth: int = 0) -> list[str]:
    """Return plain strings: those written here, or of a constant here or in a file named here."""
    if tree is None or depth > DEEPEST:
        return []
    if isinstance(values, ast.Call) and _name(values.func) in ("tuple", "list") and values.args:
        return _strings(tree, values.args[0], depth + 1)
    if isinstance(values, ast.Name):
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            if values.id in map(_name, targets) and isinstance(node, ast.Assign | ast.AnnAssign):
                return _strings(tree, node.value, depth + 1) if node.value else []
        module = _imported(tree).get(values.id)
        return _strings(_tree(module), values, depth + 1) if module else []
    found: list[str] = []
    for part in values.keys if isinstance(values, ast.Dict) else getattr(values, "elts", []):
        if isinstance(part, ast.Starred):
            found += _strings(tree, part.value, depth + 1)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            found.append(part.value)
        else:
            return []
    return found


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return {name: module} of `from module import name`, absolute and under its own name."""
    return {
        alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
        if alias.asname is None
    }


def _default(value: ast.expr | None) -> str:
    if isinstance(value, ast.Call) and _name(value.func) in LATER and value.args:
        value = value.args[0]
    if isinstance(value, ast.Call) and _name(value.func) == "field":
        made = {keyword.arg: _name(keyword.value) for keyword in value.keywords}
        return typed([]) if made.get("default_factory") == "list" else ""
    try:
        return "" if value is None else typed(ast.literal_eval(value))
    except ValueError:
        return ""


def _name(node: ast.expr) -> str:
    """Return the last name of `register_task` or `registry.register_task`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
