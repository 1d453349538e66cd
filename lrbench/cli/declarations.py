"""What a module registers, read from its source: shell completion must not import torch.

Only what is written out plainly is seen: `@register_mixer("mine", MineConfig)` on a class, and the
annotated fields of a configuration in the same file or, for a base of it, in one that it names in
`from MODULE import BASE`. Nothing is imported or executed.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KINDS = {
    "register_task": "task",
    "register_mixer": "model",
    "register_encoder": "encoder",
    "register_backbone": "backbone",
}
DEEPEST = 8  # bases of bases, and files they are in: a file may import itself


@dataclass(frozen=True)
class Declaration:
    """A registered name with its settings: field -> default as it is typed, '' if not plain."""

    kind: str
    name: str
    settings: dict[str, str]


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
            if not isinstance(call, ast.Call) or _name(call.func) not in KINDS:
                continue
            given = dict(zip(("name", "config"), call.args, strict=False))
            given |= {word.arg: word.value for word in call.keywords if word.arg}
            name, config = given.get("name"), given.get("config")
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and config:
                settings = _settings(tree, _name(config))
                yield Declaration(KINDS[_name(call.func)], name.value, settings)


def _settings(tree: ast.Module | None, name: str, depth: int = 0) -> dict[str, str]:
    """Return the fields of a dataclass, those of its bases first; none if it is not found."""
    if tree is None or depth > DEEPEST:
        return {}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if name not in classes:
        module = _imported(tree).get(name)
        return _settings(_tree(module), name, depth + 1) if module else {}
    settings: dict[str, str] = {}
    for base in classes[name].bases:
        settings |= _settings(tree, _name(base), depth + 1)
    for line in classes[name].body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            settings[line.target.id] = _default(line.value)
    return settings


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
    try:
        return "" if value is None else typed(ast.literal_eval(value))
    except ValueError:
        return ""


def _name(node: ast.expr) -> str:
    """Return the last name of `register_task` or `registry.register_task`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
