"""What a source names beside it: by import, by a computed name, by the name of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.errors import UserError
from lrbench.plugins.imports import declared_by, named_by

FILES = (
    *("mine.py", "helper.py", "mine_one.py", "mine_two.py", "my-layer.py", "script.py"),
    *("parts/__init__.py", "parts/red.py", "parts/blue.py", "parts/deep/__init__.py"),
    *("parts/deep/end.py", "bare/one.py", "table.npy", "lrbench/scan.py"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


PARTS = ["parts/__init__.py"]
COLOURS = [*PARTS, "parts/blue.py", "parts/deep/__init__.py", "parts/red.py"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("import helper", ["helper.py"]),
        ("from helper import *", ["helper.py"]),
        ("from parts import *", PARTS),
        ("import_module('helper')", ["helper.py"]),
        ("importlib.import_module(name='helper')", ["helper.py"]),
        ("__import__('parts.red')", [*PARTS, "parts/red.py"]),
        ("runpy.run_module('parts.' + 'red')", [*PARTS, "parts/red.py"]),
        ("pkgutil.resolve_name('helper')", ["helper.py"]),
        ("import_module('my-layer')", ["my-layer.py"]),
        ("import_module(f'mine_{kind}')", ["mine_one.py", "mine_two.py"]),
        ("import_module('mine_' + kind)", ["mine_one.py", "mine_two.py"]),
        ("import_module('mine_%s' % kind)", ["mine_one.py", "mine_two.py"]),
        ("import_module('mine_{}'.format(kind))", ["mine_one.py", "mine_two.py"]),
        ("import_module(f'parts.{kind}')", COLOURS),
        ("import_module(f'parts.{kind}.end')", COLOURS),
        ("import_module(f'bare.{kind}')", ["bare/one.py"]),
        ("import_module(f'.{kind}', 'parts')", COLOURS),
        ("import_module('.red', package='parts')", [*PARTS, "parts/red.py"]),
        ("import_module(f'nowhere.{kind}')", []),
        ("import_module(kind)", []),
        ("import_module()", []),
        ("[import_module(n) for n in ('helper', 'script')]", ["helper.py", "script.py"]),
        ("names = ['helper']", []),
        ("runpy.run_path(here / 'script.py')", ["script.py"]),
        ("exec(open('parts/red.py').read())", ["parts/red.py"]),
        ("print('nothing.py', '../script.py')", []),
        ("import_module('lrbench.scan')", []),
        ("import_module(f'lrbench.{kind}')", []),
        ("import_module(" + repr("x" * 5000) + ")", []),
        ("import_module(kind, " + repr("a text. " * 100) + ")", []),
        ("def broken(:", []),
    ],
)  # fmt: skip
def test_what_a_line_names(line: str, named: list[str], root: Path) -> None:
    (root / "mine.py").write_text(line)
    found = named_by(root / "mine.py", root)
    assert sorted(path.relative_to(root).as_posix() for path in found) == sorted(named)


@pytest.mark.parametrize(
    "line",
    [
        "from . import red",
        "import_module('.red', __package__)",
        "import_module(f'{__package__}.red')",
        "import_module(__package__ + '.red')",
        "import_module('parts.red')",
        "[import_module(n, __package__) for n in ('.red',)]",
        "import_module(kind); 'red'",
    ],
)
def test_from_within_a_package(line: str, root: Path) -> None:
    (root / "parts" / "blue.py").write_text(line)
    found = named_by(root / "parts" / "blue.py", root)
    assert root / "parts" / "red.py" in found
    assert root / "helper.py" not in found


@pytest.mark.parametrize(
    "line", ["import_module(f'.{kind}', __package__)", "import_module(f'{__package__}.{kind}')"]
)
def test_any_module_of_its_package(line: str, root: Path) -> None:
    (root / "parts" / "blue.py").write_text(line)
    found = named_by(root / "parts" / "blue.py", root)
    assert sorted(path.relative_to(root).as_posix() for path in found) == COLOURS
    (root / "parts" / "__init__.py").write_text("import_module(f'{__name__}.{kind}')")
    found = named_by(root / "parts" / "__init__.py", root)
    assert sorted(path.relative_to(root).as_posix() for path in found) == COLOURS


def test_declared_files(root: Path) -> None:
    (root / "mine.py").write_text(
        "lrbench_files: list[str] = ['table.npy']\nlrbench_files = ('parts/*.py', 'helper.py')\n"
    )
    found = declared_by(root / "mine.py", root)
    names = ["helper.py", "parts/__init__.py", "parts/blue.py", "parts/red.py", "table.npy"]
    assert sorted(path.relative_to(root).as_posix() for path in found) == names
    (root / "mine.py").write_text("def f():\n    lrbench_files = ['absent']\n")
    assert declared_by(root / "mine.py", root) == set()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("['tabel.npy']", "names 'tabel.npy', and there is no such file in"),
        ("['parts']", "names 'parts', and there is no such file"),
        ("['../secret']", "does not lie below its folder"),
        ("['/etc/passwd']", "does not lie below its folder"),
        ("'table.npy'", "no list of texts"),
        ("[f(x)]", "no list of texts"),
        ("[3]", "no list of texts"),
        ("['']", "no list of texts"),
        ("['.']", "'.' is no pattern of files"),
        ("['**x']", "is no pattern of files|there is no such file"),
    ],
)
def test_what_cannot_be_declared(value: str, why: str, root: Path) -> None:
    (root / "mine.py").write_text(f"lrbench_files = {value}\n")
    with pytest.raises(UserError, match=why) as raised:
        declared_by(root / "mine.py", root)
    assert str(root / "mine.py") in str(raised.value)
    assert len(str(raised.value).splitlines()) <= 2
