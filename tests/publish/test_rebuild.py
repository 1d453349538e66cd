"""Made again, a page has the same bytes; whatever was changed by hand is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.publish.conftest import content

Run = Callable[..., Any]


def test_the_same_bytes(lrbench: Run, results: Path) -> None:
    before = content(results)
    assert lrbench("publish", "--rebuild", str(results / "toy"), "--check").code == 0
    assert lrbench("publish", "--rebuild", str(results)).code == 0
    assert content(results) == before
    for name in ("README.md", "runs.csv", "settings.json", "figures/figure_length_sum.svg"):
        (results / "toy" / name).unlink()
    (results / "README.md").unlink()
    assert lrbench("publish", "--rebuild", str(results)).code == 0
    assert content(results) == before


def test_a_page_needs_no_records(lrbench: Run, results: Path) -> None:
    shutil.rmtree(results / "toy" / "records")
    before = content(results)
    (results / "toy" / "README.md").unlink()
    assert lrbench("publish", "--rebuild", str(results / "toy")).code == 0
    assert content(results) == before


MADE = (
    ("toy/README.md", "0.6100 ± 0.0100 (3)", "0.9100 ± 0.0100 (3)"),
    ("toy/figures/figure_length_sum.svg", "<path d=", '<path id="" d='),
    ("README.md", "7 runs", "9 runs"),
)
NUMBERS = (
    ("toy/runs.csv", ",0.61,", ",0.91,"),
    ("toy/settings.json", "2.13.0+cpu", "2.14.0+cpu"),
)


@pytest.mark.parametrize("edits", [MADE, NUMBERS], ids=["made of numbers", "numbers"])
def test_a_change_is_found(
    lrbench: Run, results: Path, edits: tuple[tuple[str, str, str], ...]
) -> None:
    whole = content(results)
    for name, old, new in edits:
        text = (results / name).read_text()
        assert old in text
        (results / name).write_text(text.replace(old, new, 1))
    edited = content(results)
    ended = lrbench("publish", "--rebuild", str(results), "--check")
    assert ended.code == 1 and content(results) == edited
    for name, _, _ in edits:
        assert f"{results / name}: differs" in ended.err
    assert lrbench("publish", "--rebuild", str(results)).code == 0
    assert content(results) == whole


def test_files_that_belong_to_no_page(lrbench: Run, results: Path) -> None:
    old = results / "toy" / "figures" / "figure_length_gone.svg"
    old.write_text("<svg/>")
    run = results / "toy/records/sum/blockdiag/fan2024/37fe744ae363/s0"
    strangers = [results / "toy" / "table.tex", run / "best.pt"]
    for path in strangers:
        path.write_text("0.99")
    ended = lrbench("publish", "--rebuild", str(results), "--check")
    assert ended.code == 1 and "figure_length_gone.svg: is no figure of these runs" in ended.err
    for path in strangers:
        assert f"{path.name}: is no file of a published table" in ended.err
    ended = lrbench("publish", "--rebuild", str(results))
    assert ended.code == 0 and not old.exists() and all(path.exists() for path in strangers)


def test_a_damaged_record(lrbench: Run, results: Path) -> None:
    path = results / "toy/records/sum/s4/fan2024/e6142fbae79e/s2/result.json"
    path.write_text(path.read_text()[:-100])
    ended = lrbench("publish", "--rebuild", str(results))
    assert ended.code == 1 and "a published run cannot be used" in ended.err


@pytest.mark.parametrize("damage", ["cut short", "no JSON", "empty", "gone"])
def test_a_damaged_log_of_looks_loses_no_row(lrbench: Run, results: Path, damage: str) -> None:
    """Looks are rows of runs.csv: what result.json believed must be among them."""
    path = results / "toy/records/sum/s4/fan2024/e6142fbae79e/s2/metrics.jsonl"
    whole, before = path.read_bytes(), (results / "toy" / "runs.csv").read_bytes()
    left = {"cut short": whole[: len(whole) // 3], "no JSON": whole.replace(b"{", b"<")}
    if damage == "gone":
        path.unlink()
        ended = lrbench("publish", "--rebuild", str(results), "--check")
        assert ended.code == 1 and f"{path.parent} has no metrics.jsonl" in ended.err
        return
    path.write_bytes(left.get(damage, b""))
    for more in ((), ("--check",)):
        ended = lrbench("publish", "--rebuild", str(results), *more)
        assert ended.code == 1 and "metrics.jsonl" in ended.err and "Traceback" not in ended.err
        assert "a published run cannot be used: " in ended.err and "lacks the look" in ended.err
        assert (results / "toy" / "runs.csv").read_bytes() == before


def test_no_tables(lrbench: Run, tmp_path: Path, results: Path) -> None:
    assert "no folder of published tables" in lrbench("publish", "--rebuild", "nowhere").err
    (tmp_path / "empty").mkdir()
    assert "no published table below" in lrbench("publish", "--rebuild", "empty").err
    (results / "toy").rename(results / "toys")
    ended = lrbench("publish", "--rebuild", str(results))
    assert ended.code == 1 and "table 'toys' unknown" in ended.err


def test_pages_load_no_torch() -> None:
    code = """
import pkgutil, sys
import lrbench.publish as publish
for module in pkgutil.walk_packages(publish.__path__, "lrbench.publish."):
    __import__(module.name)
print("torch" in sys.modules)
"""
    reported = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert reported.stdout.strip() == "False"
