"""Which files beside it the source of a plugin names: read off the text, nothing is run.

- imports, wherever they stand: `import helper`, `from .parts import inner`;
- a name that is computed, as far as it is written down: `import_module(f"parts.{kind}")` counts
  every module of parts/. Where nothing of it is, every text of that file that names a module;
- a text such as "helper.py", of a file that is there: `runpy.run_path`, or `exec`;
- what the plugin says that it reads: `lrbench_files = ["table.npy", "words/*.txt"]`.

In doubt a file counts: one too many costs a fingerprint, one too few a wrong comparison.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from lrbench.errors import UserError

DECLARED = "lrbench_files"  # of a plugin, at its top: what it reads, relative to the file
OURS = "lrbench"
NAME = re.compile(r"[\w-]{1,200}")  # of a module: what import_module takes
IMPORTERS = {"import_module", "__import__", "run_module", "resolve_name"}


def named_by(path: Path, root: Path) -> set[Path]:
    """Return the sources below `root` that a source imports or runs, with their packages'."""
    found: set[Path] = set()
    if (tree := _parsed(path)) is None:
        return found
    here = path.relative_to(root).parent.parts
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    texts = {value for value in constants if isinstance(value, str)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found |= _resolved(root, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else ()
            base = [*above, *(node.module.split(".") if node.module else ())]
            for alias in node.names:
                found |= _resolved(root, [*base, alias.name])
        elif isinstance(node, ast.Call) and _called(node.func) in IMPORTERS:
            found |= _computed(node, path, root, texts)
    for text in texts:
        if text.endswith(".py") and len(text) < 200:
            found |= {one for one in (path.parent / text, root / text) if _is_source(one, root)}
    return found


def declared_by(path: Path, root: Path) -> set[Path]:
    """Return the files that a source says it reads, by `lrbench_files`.

    Raises UserError where that is no list of texts, or one of them names no file below `root`.
    """
    found: set[Path] = set()
    tree = _parsed(path)
    for node in () if tree is None else tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not any(isinstance(one, ast.Name) and one.id == DECLARED for one in targets):
            continue
        for pattern in _texts_of(node, path):
            if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
                raise UserError(f"{path}: {DECLARED}: '{pattern}' does not lie below its folder")
            try:
                files = {one for one in path.parent.glob(pattern) if one.is_file()}
            except (ValueError, IndexError, NotImplementedError) as error:
                raise UserError(
                    f"{path}: {DECLARED}: '{pattern}' is no pattern of files: {error}"
                ) from error
            if not files:
                raise UserError(
                    f"{path}: {DECLARED} names '{pattern}', and there is no such file in"
                    f" {path.parent}\nfix: name files relative to {path.name}, or with a * for"
                    " several"
                )
            found |= files
    return found


def _texts_of(node: ast.stmt, path: Path) -> list[str]:
    try:
        value = ast.literal_eval(getattr(node, "value"))  # noqa: B009 (of both kinds of assignment)
    except (ValueError, TypeError):
        value = None
    if not isinstance(value, list | tuple) or not all(type(one) is str and one for one in value):
        raise UserError(
            f"{path}: {DECLARED} is no list of texts, written out\n"
            f'fix: {DECLARED} = ["table.npy"]: it is read without running the file'
        )
    return list(value)


def _parsed(path: Path) -> ast.Module | None:
    """Return the syntax tree of a source; None where it is none: nothing can import it."""
    try:
        return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return None


def _called(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


def _is_source(path: Path, root: Path) -> bool:
    return ".." not in path.parts and path.is_relative_to(root) and path.is_file()


def _computed(call: ast.Call, path: Path, root: Path, texts: set[str]) -> set[Path]:
    """Return the sources that a call may import, whose name is a text or is put together."""
    place = path.relative_to(root)
    here, name = list(place.parent.parts), ".".join(place.with_suffix("").parts)
    known = {"__package__": ".".join(here), "__name__": name.removesuffix(".__init__")}
    given = [*call.args, *(one.value for one in call.keywords if one.arg != "package")][:1]
    package = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "package")]
    if package and (text := _beginning(package[0], known)[0]):
        here = text.split(".")
    text, whole = _beginning(given[0] if given else None, known)
    *packages, start = _absolute(text, here)
    if whole:
        return _resolved(root, [*packages, start])
    if packages or start:
        names = (one.name for one in root.joinpath(*packages).glob("*") if _importable(one))
        ends = [[*packages, one.removesuffix(".py")] for one in names if one.startswith(start)]
    else:
        ends = [[*base, *_absolute(one, here)] for one in texts for base in ([], here)]
    return set().union(*(_resolved(root, end) for end in ends))


def _importable(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__init__.py").is_file()


def _absolute(name: str, here: list[str]) -> list[str]:
    """Return the parts of a module's name; dots in front count packages upwards, as in `from`."""
    level = len(name) - len(name.lstrip("."))
    base = here[: len(here) - level + 1] if level else []
    return [*base, *name[level:].split(".")]


def _beginning(node: ast.expr | None, known: dict[str, str]) -> tuple[str, bool]:
    """Return how the text that an expression makes begins, and whether that is all of it."""
    begun = ""
    for part in _parts(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            begun += part.value
        elif isinstance(part, ast.Name) and part.id in known:
            begun += known[part.id]
        else:
            return begun, False
    return begun, True


def _parts(node: ast.expr | None) -> Iterator[ast.expr | None]:
    """Yield what a text is put together from, in order."""
    if isinstance(node, ast.JoinedStr):
        for value in node.values:
            yield value.value if isinstance(value, ast.FormattedValue) else value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _parts(node.left)
        yield from _parts(node.right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        yield from _up_to(node.left, "%")
    elif isinstance(node, ast.Call) and _called(node.func) == "format":
        yield from _up_to(getattr(node.func, "value", None), "{")
    else:
        yield node


def _up_to(node: ast.expr | None, mark: str) -> Iterator[ast.expr | None]:
    """Yield the text before the first place that something is put into, then what is unknown."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield ast.Constant(node.value.partition(mark)[0])
    yield None


def _resolved(root: Path, name: list[str]) -> set[Path]:
    """Return the files that importing a dotted name runs, as far as they lie below `root`.

    This package is none of them, where a plugin lies in a checkout of it: it has versions.
    """
    found: set[Path] = set()
    if name[0] == OURS:
        return found
    for end, part in enumerate(name, 1):
        if not NAME.fullmatch(part):  # a star, or a text that names no module
            break
        whole = root.joinpath(*name[:end])
        for path in (whole / "__init__.py", whole.with_name(f"{part}.py")):
            if path.is_file():
                found.add(path)
                break
    return found
