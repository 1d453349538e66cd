"""What of a plugin is hashed and packed: its own files, and those beside it that it imports."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from lrbench.errors import UserError
from lrbench.plugins.sources import source_files, source_hash


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that modules are imported from, and forgotten after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def load(here: Path, name: str, **files: str) -> ModuleType:
    """Write files (`__` for `/`) below `here` and import one of them."""
    for path, text in files.items():
        file = here / f"{path.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return import_module(name)


def test_a_single_file_is_hashed_as_it_is(here: Path) -> None:
    module = load(here, "mine_alone", mine_alone="import math\n")
    assert source_hash(module) == hashlib.sha256(b"import math\n").hexdigest()
    (here / "mine_alone.py").write_text("import cmath\n")
    assert source_hash(module) == hashlib.sha256(b"import cmath\n").hexdigest()


def test_what_is_imported_from_beside_counts(here: Path) -> None:
    module = load(
        here,
        "mine_first",
        mine_first="def make():\n    import mine_second\n    return mine_second\n",
        mine_second="from mine_parts.inner import width\n",
        mine_parts__init="",
        mine_parts__inner="from .deeper import width\n",
        mine_parts__deeper="width = 1\n",
        mine_parts__never="asked = 1\n",
        bystander="width = 1\n",
    )
    (here / "mine_parts" / "init.py").rename(here / "mine_parts" / "__init__.py")
    names = [
        "mine_first.py", "mine_parts/__init__.py", "mine_parts/deeper.py",
        "mine_parts/inner.py", "mine_second.py",
    ]  # fmt: skip
    assert sorted(source_files(module)) == names
    first = source_hash(module)
    for name in names:
        path = here / name
        text = path.read_text()
        path.write_text(text + "# changed\n")
        assert source_hash(module) != first, name
        path.write_text(text)
    for name in ("bystander.py", "mine_parts/never.py"):
        (here / name).write_text("asked = 2\n")
        assert source_hash(module) == first, name
    (here / "mine_second.py").write_text("def broken(:\n")  # imports nothing any more
    assert sorted(source_files(module)) == ["mine_first.py", "mine_second.py"]


def test_a_package_is_hashed_whole_with_what_lies_beside_it(here: Path) -> None:
    module = load(
        here,
        "mine_package",
        mine_package__init="",
        mine_package__sub__model="import mine_helper\n",
        mine_helper="width = 1\n",
    )
    (here / "mine_package" / "init.py").rename(here / "mine_package" / "__init__.py")
    del sys.modules["mine_package"]
    module = import_module("mine_package")
    first = source_hash(module)
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert "mine_helper.py" in source_files(module)
    (here / "mine_helper.py").write_text("width = 2\n")
    second = source_hash(module)
    (here / "mine_package" / "sub" / "model.py").rename(here / "mine_package" / "model.py")
    assert len({first, second, source_hash(module)}) == 3


def test_this_package_and_installed_ones_are_none_of_it(here: Path) -> None:
    own = "import lrbench\nfrom lrbench.scan import Diagonal\n"
    module = load(here, "mine_checkout", mine_checkout=own, lrbench__scan="")
    assert list(source_files(module)) == ["mine_checkout.py"]
    site = here / "site-packages"
    sys.path.insert(0, str(site))
    try:
        module = load(site, "mine_installed", mine_installed="import beside\n", beside="")
    finally:
        sys.path.remove(str(site))
    assert list(source_files(module)) == ["mine_installed.py"]


def test_a_module_without_a_file_is_refused() -> None:
    with pytest.raises(UserError, match="plugin 'typed_in' has no source file"):
        source_hash(ModuleType("typed_in"))
