"""Publishing that is stopped, damaged runs, and what never takes the place of a published run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lrbench.certificates import check
from lrbench.publish import changes
from lrbench.publish.publication import publish
from tests.publish.conftest import TOY, content, keep_proof, write_run
from tests.report.runs.test_certificates import certificate, keep

Run = Callable[..., Any]
CELL = "sum/blockdiag/fan2024/37fe744ae363"


class Killed(BaseException):
    """As kill -9: nothing catches it."""


def further(accuracy: float) -> str:
    """A file of `lrbench evaluate`, of the rule last."""
    row = {"which": "last", "kind": "test", "split": "test", "length": 1000, "metric": "accuracy"}
    return json.dumps({"schema": 1, "evaluations": [row | {"value": accuracy, "n": 100}]})


@contextmanager
def killed_after(writes: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Raise Killed in place of the next write, after so many."""
    real, done = changes.write_bytes, []

    def write(path: Path, data: bytes) -> None:
        if len(done) == writes:
            raise Killed
        done.append(path.name)
        real(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(changes, "write_bytes", write)
        yield


@pytest.mark.parametrize("writes", range(4))
def test_a_run_that_replaces_another_is_never_half_of_each(
    results: Path, runs: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Killed at any write, it has no result, and the same command without --force goes on."""
    place = results / "toy" / "records" / CELL / "s0"
    (place / "evaluations").mkdir()
    (place / "evaluations" / "old.json").write_text(further(0.5))
    folder = write_run(runs, task="sum", seed=0, accuracy=0.25)
    (folder / "evaluations").mkdir()
    (folder / "evaluations" / "new.json").write_text(further(0.75))
    (folder / "metrics.jsonl").write_text((folder / "metrics.jsonl").read_text() + "\n")
    with killed_after(writes, monkeypatch):
        try:
            publish(TOY, runs, results, force=True)
        except Killed:
            assert not (place / "result.json").exists()
            assert not (place / "evaluations" / "old.json").exists()
    publish(TOY, runs, results)
    assert (place / "result.json").read_bytes() == (folder / "result.json").read_bytes()
    assert [path.name for path in (place / "evaluations").iterdir()] == ["new.json"]


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_run_under_way_replaces_none_that_has_ended(
    lrbench: Run, results: Path, runs: Path, force: tuple[str, ...]
) -> None:
    """It may be the same run on another machine, begun again."""
    for seed in range(3):
        folder = runs / CELL / f"s{seed}"
        (folder / "result.json").unlink()
        (folder / "metrics.jsonl").write_text('{"step": 10, "loss": 1.5}\n')
    before = content(results)
    ended = lrbench("publish", "toy", "--runs", str(runs), "--output", str(results), *force)
    assert ended.code == 0 and content(results) == before
    assert f"3 runs published with a result, and without one in {runs}: left" in ended.err


def test_a_run_that_cannot_be_used_is_named(lrbench: Run, tmp_path: Path, runs: Path) -> None:
    path = runs / CELL / "s1" / "result.json"
    path.write_text(path.read_text()[:300])
    output = ("--output", str(tmp_path / "new"))
    ended = lrbench("publish", "toy", "--runs", str(runs), *output)
    assert ended.code == 0 and f"warning: not used: {path}: " in ended.err


@pytest.mark.parametrize("writes", range(2))
def test_no_proof_is_published_without_its_boxes(
    results: Path, runs: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Killed at either write: the certificate comes last, and the same command goes on."""
    keep_proof(runs / CELL / "s0")
    below = results / "toy" / "records" / CELL / "s0" / "certificates"
    with killed_after(writes, monkeypatch), pytest.raises(Killed):
        publish(TOY, runs, results, certificates=True)
    assert not (below / "last.json").exists()
    publish(TOY, runs, results, certificates=True)
    assert check.check(below / "last.json")["nodes"]


@pytest.mark.parametrize("text", ["[1]", '{"a": 1}', '"certified"'])
@pytest.mark.parametrize("place", ["certificates/last.json", "evaluations/2026.json"])
def test_a_damaged_file_of_a_run_is_refused_before_anything_is_written(
    lrbench: Run, tmp_path: Path, runs: Path, place: str, text: str
) -> None:
    """It was copied, and no page could be made of the records from then on."""
    path = runs / CELL / "s0" / place
    path.parent.mkdir()
    path.write_text(text)
    output = tmp_path / "new"
    ended = lrbench("publish", "toy", "--runs", str(runs), "--output", str(output))
    assert ended.code == 1 and not output.exists(), ended.err
    assert f"a run cannot be published: {path}: " in ended.err
    others = ("task=even_pair", "--runs", str(runs), "--output", str(output))
    assert lrbench("publish", "toy", *others).code == 0


@pytest.mark.parametrize("name", ["config.json", "environment.json"])
def test_a_damaged_file_of_a_cell_is_refused_before_anything_is_written(
    lrbench: Run, tmp_path: Path, runs: Path, name: str
) -> None:
    path = runs / CELL / name
    path.write_text("[1]")
    output = tmp_path / "new"
    ended = lrbench("publish", "toy", "--runs", str(runs), "--output", str(output))
    assert ended.code == 1 and not output.exists(), ended.err
    assert f"{name} cannot be published: holds a JSON list" in ended.err


def test_damaged_certificates_that_are_published(lrbench: Run, results: Path, runs: Path) -> None:
    path = results / "toy" / "records" / CELL / "s0" / "certificates" / "last.json"
    path.parent.mkdir()
    path.write_text("[1]")
    ended = lrbench("publish", "toy", "--runs", str(runs), "--output", str(results))
    assert ended.code == 1 and f"{path} cannot be published: holds a JSON list" in ended.err


def test_boxes_go_with_their_proof(lrbench: Run, results: Path, runs: Path) -> None:
    folder = runs / CELL / "s0"
    keep_proof(folder)
    arguments = ("publish", "toy", "--runs", str(runs), "--output", str(results))
    assert lrbench(*arguments).code == 0
    below = results / "toy" / "records" / CELL / "s0" / "certificates"
    assert (below / "last.npz").exists()
    keep(folder, certificate())
    (folder / "certificates" / "last.npz").unlink()
    assert lrbench(*arguments).code == 0
    assert [path.name for path in below.iterdir()] == ["last.json"]


def test_certificates_of_a_run_that_was_replaced(lrbench: Run, results: Path, runs: Path) -> None:
    """The last certificate of a table goes, and with it the table of them."""
    arguments = ("publish", "toy", "--runs", str(runs), "--output", str(results))
    keep(runs / CELL / "s0", certificate())
    assert lrbench(*arguments).code == 0
    assert (results / "toy" / "certificates.csv").exists()
    write_run(runs, task="sum", seed=0, accuracy=0.25)
    (runs / CELL / "s0" / "certificates" / "last.json").unlink()
    assert lrbench(*arguments, "--force").code == 0
    assert not list((results / "toy").rglob("certificates*/*"))
    assert not (results / "toy" / "certificates.csv").exists()


def test_a_check_of_records_without_numbers(lrbench: Run, results: Path) -> None:
    """As a kill leaves them that came before the numbers."""
    for name in ("runs.csv", "settings.json"):
        (results / "toy" / name).unlink()
    before = content(results)
    ended = lrbench("publish", "--rebuild", str(results), "--check")
    assert ended.code == 1 and content(results) == before
    assert f"{results}/toy/runs.csv: is missing" in ended.err, ended.err
    assert f"lrbench publish --rebuild {results} makes them again" in ended.err
