"""The wheel holds what the command needs away from a checkout, and nothing it does not.

`tests/wheel_install.sh` (`make wheel-test`) installs it in a clean environment and uses it.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel"]
    subprocess.run([*command, "-d", str(folder)], cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as archive:
        yield archive


def shipped(folder: str, pattern: str) -> set[str]:
    found = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob(pattern)}
    assert found, f"nothing in {folder}"
    return found


@pytest.mark.slow
def test_wheel_holds_configuration_reference_values_and_code(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    data = shipped("conf", "*.yaml") | shipped("data/reference", "*.csv")
    assert {f"lrbench/{path}" for path in data} - names == set()
    assert shipped("lrbench", "*.py") - names == set()


def test_wheel_holds_the_numbers_of_published_tables(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if name.startswith("lrbench/results/")}
    wanted = [shipped("results", f"*/{name}") for name in ("runs.csv", "settings.json")]
    assert {f"lrbench/{path}" for found in wanted for path in found} - names == set()
    assert {Path(name).suffix for name in names} == {".csv", ".json"}
    assert [name for name in names if "/records/" in name] == []


def test_page_of_an_index_has_no_link_that_leads_nowhere(wheel: zipfile.ZipFile) -> None:
    page = read(wheel, "METADATA").partition("\n\n")[2]
    assert page.startswith("# lrbench")
    targets = re.findall(r"\]\(([^)]+)\)", page)
    assert len(targets) > 1
    assert [target for target in targets if not target.startswith("https://")] == []


def test_links_of_the_page_lead_to_the_source_where_it_is_known() -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (
        "![how far](a/b.svg)\nSee [the [x] page](docs/x.md#y), [it](https://e.org) and [me](#me).\n"
    )
    assert module.index_page(page) == "See the [x] page, [it](https://e.org) and [me](#me).\n"
    assert module.index_page(page, "https://e.org/l/") == (
        "![how far](https://e.org/l/raw/main/a/b.svg)\n"
        "See [the [x] page](https://e.org/l/blob/main/docs/x.md#y), [it](https://e.org) "
        "and [me](#me).\n"
    )


def test_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"lrbench"}
    assert [name for name in wheel.namelist() if "__pycache__" in name] == []


def test_wheel_takes_no_name_of_somebody_elses(wheel: zipfile.ZipFile) -> None:
    metadata = read(wheel, "METADATA")
    assert "\nName: lrbench-extrapolation\n" in metadata
    assert "lrbench = lrbench.cli:main" in read(wheel, "entry_points.txt")
    assert "Apache License" in read(wheel, "licenses/LICENSE")


def test_sdist_can_build_the_wheel_again(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = (
        shipped("conf", "*.yaml") | shipped("data/reference", "*.csv") | shipped("lrbench", "*.py")
    ) | shipped("results", "*/runs.csv")
    roots = {"pyproject.toml", "README.md", "LICENSE", "hatch_build.py"}
    assert (needed | roots) - names == set()


def read(wheel: zipfile.ZipFile, name: str) -> str:
    path = next(entry for entry in wheel.namelist() if entry.endswith(f".dist-info/{name}"))
    return wheel.read(path).decode()


def test_constraints_are_exact_public_versions() -> None:
    lines = [line.partition("#")[0].strip() for line in constraint_lines()]
    pins = [line for line in lines if line]
    assert len(pins) > 10
    # A local suffix (`+cpu`) exists on one machine only.
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==\d[\w.]*", pin)] == []


def test_every_dependency_is_constrained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[<>=~! ]", requirement)[0].lower() for requirement in wanted}
    pinned = {line.partition("==")[0].lower() for line in constraint_lines()}
    assert names - pinned == set()


def constraint_lines() -> list[str]:
    return (ROOT / "constraints.txt").read_text().splitlines()
