"""What a plugin opens and its hash lacks is named, and nothing that others open."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from lrbench.plugins import reads
from lrbench.plugins.reads import MOST, unhashed, watch
from lrbench.plugins.sources import source_files, source_hash
from lrbench.runs.folder.versions import not_hashed, told_of


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that plugins are imported from, and forgotten after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(reads, "_folders", ())
    monkeypatch.setattr(reads, "_opened", set())
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def plugin(here: Path, source: str, name: str = "read_mine") -> ModuleType:
    path = here / f"{name.replace('.', '/')}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    watch(name)
    module = import_module(name)
    source_hash(module)
    return module


READS = """
import os
from pathlib import Path
HERE = Path(__file__).parent
"""


@pytest.mark.parametrize(
    "line",
    [
        "open(HERE / 'x.txt').close()",
        "open(bytes(HERE / 'x.txt')).close()",
        "open(HERE / 'x.txt', 'r+').close()",
        "(HERE / 'x.txt').read_bytes()",
        "os.close(os.open(HERE / 'x.txt', os.O_RDONLY))",
        "os.chdir(HERE); open('x.txt').close()",
        "open(HERE / 'sub' / '..' / 'x.txt').close()",
        "import numpy; numpy.fromfile(HERE / 'x.txt', 'u1')",
        "import numpy; numpy.loadtxt(HERE / 'x.txt', str)",
        "exec('open(HERE / \"x.txt\").close()')",
        "from threading import Thread\n"
        "one = Thread(target=lambda: (HERE / 'x.txt').read_text()); one.start(); one.join()",
    ],
)
def test_a_file_that_it_reads(line: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    (here / "x.txt").write_text("word")
    (here / "sub").mkdir()
    assert unhashed(plugin(here, READS + line)) == ["x.txt"]


@pytest.mark.parametrize(
    "line",
    [
        "open(HERE / 'y.txt', 'w').close()",
        "open(HERE / 'x.txt', 'a').close()",
        "os.close(os.open(HERE / 'x.txt', os.O_WRONLY))",
        "(HERE / 'absent.txt').exists() or os.path.getsize(HERE / 'x.txt')",
        "try: open(HERE / 'absent.txt')\nexcept OSError: pass",
        "os.listdir(HERE)",
        "os.close(os.open(HERE, os.O_RDONLY))",
        "open('/etc/hostname').close()",
        "open(HERE / 'site-packages' / 'x.txt').close()",
        "open(HERE / '__pycache__' / 'x.nbi').close()",
        "open(__file__).close()",
        "import read_helper",
        "lrbench_files = ['x.txt']; open(HERE / 'x.txt').close()",
    ],
)
def test_what_is_none_of_it(line: str, here: Path) -> None:
    for name in ("x.txt", "site-packages/x.txt", "__pycache__/x.nbi", "read_helper.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text("")
    assert unhashed(plugin(here, READS + line)) == []


def test_a_module_of_a_name_that_nobody_can_read_off(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loaded later and by way of another, too; the second time as compiled code."""
    monkeypatch.setenv("READ_HELPER", "read_hidden")
    (here / "read_hidden.py").write_text("import read_deeper\n")
    (here / "read_deeper.py").write_text(READS + "open(HERE / 'x.txt').close()\n")
    (here / "x.txt").write_text("")
    source = "import os\nfrom importlib import import_module\n"
    source += "def later():\n    import_module(os.environ['READ_HELPER'])\n"
    for _ in range(2):
        module = plugin(here, source)
        assert unhashed(module) == []
        module.later()
        assert unhashed(module) == ["read_deeper.py", "read_hidden.py", "x.txt"]
        for name in ("read_mine", "read_hidden", "read_deeper"):
            del sys.modules[name]
        monkeypatch.setattr(reads, "_opened", set())
    (here / "read_mine.py").write_text("lrbench_files = ['read_hidden.py']\n" + source)
    module = import_module("read_mine")
    source_hash(module)
    module.later()
    assert unhashed(module) == ["x.txt"]  # what a declared source imports is hashed with it
    assert sorted(source_files(module)) == ["read_deeper.py", "read_hidden.py", "read_mine.py"]


def test_what_we_and_others_open_there_is_not_its(here: Path) -> None:
    (here / "x.txt").write_text("")
    module = plugin(
        here,
        "from lrbench.tasks.corpus.storage import _sha256\n"
        "def ours(path):\n    return _sha256(path)\n",
    )
    other = plugin(here, READS + "open(HERE / 'x.txt').close()", "read_other")
    module.ours(here / "x.txt")
    (here / "x.txt").read_text()
    assert unhashed(module) == []
    assert unhashed(other) == ["x.txt"]


def test_a_package_and_an_installed_one(here: Path) -> None:
    body = READS + "open(HERE / 'x.txt').close()"
    (here / "read_package").mkdir()
    (here / "read_package" / "x.txt").write_text("")
    (here / "read_package" / "__init__.py").write_text("")
    module = plugin(here, body, "read_package.model")
    assert unhashed(module) == ["read_package/x.txt"]
    site = here / "site-packages"
    for name in ("", "read_installed"):
        (site / name).mkdir(exist_ok=True)
        (site / name / "x.txt").write_text("")
    (site / "read_installed" / "__init__.py").write_text(body)
    (site / "read_alone.py").write_text(body)
    sys.path.insert(0, str(site))
    try:
        found = []
        for name in ("read_installed", "read_alone"):
            watch(name)
            module = import_module(name)
            source_hash(module)
            found.append(unhashed(module))
    finally:
        sys.path.remove(str(site))
    assert found == [["read_installed/x.txt"], []]  # beside a single one lies what others brought


def test_many_files_are_counted(here: Path) -> None:
    (here / "set").mkdir()
    for number in range(MOST + 5):
        (here / "set" / f"{number:02}").write_text("")
    names = unhashed(plugin(here, READS + "for one in (HERE / 'set').iterdir(): open(one).close()"))
    assert names == [*(f"set/{number:02}" for number in range(MOST)), "and 5 more"]


def test_the_hash_that_counts_is_the_one_that_was_made(here: Path) -> None:
    """Who writes the next version while a run is trained does not change what is told of it."""
    (here / "x.txt").write_text("")
    module = plugin(here, READS + "open(HERE / 'x.txt').close()")
    (here / "read_mine.py").unlink()
    assert unhashed(module) == ["x.txt"]


def test_a_folder_that_is_gone_stops_nobody(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = plugin(here, "def read(path):\n    return open(path).close()\n")
    (here / "gone").mkdir()
    monkeypatch.chdir(here / "gone")
    (here / "gone").rmdir()
    with pytest.raises(FileNotFoundError):
        module.read("x.txt")
    module.read(os.devnull)
    assert unhashed(module) == []


def test_no_plugin_is_not_found_by_watching() -> None:
    for name in ("no_such_plugin_anywhere", "sys", "json.nothing"):
        watch(name)


def test_what_is_told(here: Path) -> None:
    (here / "x.txt").write_text("")
    plugin(here, READS + "open(HERE / 'x.txt').close()")
    plugin(here, "", "read_nothing")
    opened = not_hashed({"task": 1, "plugins": {"read_mine": "..", "read_nothing": ".."}})
    assert opened == {"read_mine": ["x.txt"]}
    [text] = told_of(opened)
    assert text.startswith("plugin 'read_mine' read what is not in the run's fingerprint: x.txt\n")
    assert 'lrbench_files = ["..."]' in text and len(text.splitlines()) == 2
    assert told_of({}) == []
