"""Publishing runs: which of their files are copied, what is cut out, what is never replaced."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.publish.conftest import content, keep_proof, write_run
from tests.report.runs.test_certificates import certificate, keep

Run = Callable[..., Any]
CELL = "sum/blockdiag/fan2024/37fe744ae363"


def test_small_files_of_the_runs_of_the_table(results: Path, runs: Path) -> None:
    there = {name for name in content(results / "toy" / "records") if name.startswith("sum/b")}
    of_runs = {f"{CELL}/s{n}/{name}" for n in range(3) for name in ("result.json", "metrics.jsonl")}
    assert there == {f"{CELL}/config.json", f"{CELL}/environment.json", *of_runs}
    assert not list((results / "toy" / "records").rglob("lstm"))
    result = Path("records", CELL, "s0", "result.json")
    assert (results / "toy" / result).read_bytes() == (runs / CELL / "s0/result.json").read_bytes()


def test_no_folder_of_the_machine_is_published(results: Path, runs: Path) -> None:
    read = (runs / CELL / "s0/metrics.jsonl").read_text()
    assert not [name for name, data in content(results).items() if b"/home" in data]
    record = results / "toy" / "records" / CELL
    assert json.loads((record / "config.json").read_text())["output_dir"] == "outputs"
    environment = json.loads((record / "environment.json").read_text())
    assert environment["command"] == ["lrbench", "train", "output_dir=runs"]
    published = (record / "s0/metrics.jsonl").read_text()
    assert published == "".join(read.splitlines(keepends=True)[:-1])  # without what was torn


def test_again_is_nothing_new(lrbench: Run, results: Path, runs: Path) -> None:
    before = content(results)
    ended = lrbench("publish", "toy", "--runs", str(runs), "--output", str(results))
    assert ended.code == 0 and content(results) == before
    assert "0 runs copied" in ended.err and "7 there already" in ended.err
    environment = runs / CELL / "environment.json"  # of a later run, which was not published
    environment.write_text(environment.read_text().replace("2026-03-04", "2026-05-06"))
    assert lrbench("publish", "toy", "--runs", str(runs), "--output", str(results)).code == 0
    assert content(results) == before


def test_more_runs_are_added(lrbench: Run, results: Path, runs: Path) -> None:
    other = runs.parent / "other"
    write_run(other, task="even_pair", seed=1, accuracy=0.95)
    ended = lrbench("publish", "toy", "--runs", str(other), "--output", str(results))
    assert ended.code == 0 and "1 run copied" in ended.err
    page = (results / "toy" / "README.md").read_text()
    assert "**even_pair x blockdiag**: 2 of 3 runs have ended" in page
    evaluated = runs / CELL / "s0" / "evaluations"
    evaluated.mkdir()
    row = {"length": 5003, "split": "further", "metric": "accuracy", "value": 0.5, "n": 100}
    row |= {"which": "best", "kind": "test"}
    (evaluated / "20260304T050607000000Z.json").write_text(
        json.dumps({"schema": 1, "which": "best", "evaluations": [row]})
    )
    ended = lrbench("publish", "toy", "--runs", str(runs), "--output", str(results))
    assert ended.code == 0 and "1 run copied" in ended.err
    assert (results / "toy/records" / CELL / "s0/evaluations").is_dir()


def test_a_run_with_other_numbers(lrbench: Run, results: Path, runs: Path) -> None:
    write_run(runs, task="sum", seed=0, accuracy=0.25)
    arguments = ("publish", "toy", "--runs", str(runs), "--output", str(results))
    before = content(results)
    ended = lrbench(*arguments)
    assert ended.code == 1 and content(results) == before
    assert "s0 is there already, with another result.json" in ended.err
    assert lrbench(*arguments, "--force").code == 0
    assert "0.7500 ± 0.4330 (3)" in (results / "toy" / "README.md").read_text()


def test_a_run_under_way_is_published_and_replaced(
    lrbench: Run, tmp_path: Path, toy_table: None
) -> None:
    runs, results = tmp_path / "runs", tmp_path / "results"
    write_run(runs, task="sum", seed=0)
    folder = write_run(runs, task="sum", seed=1)
    kept = (folder / "result.json").read_bytes()
    (folder / "result.json").unlink()
    arguments = ("publish", "toy", "--runs", str(runs), "--output", str(results))
    assert lrbench(*arguments).code == 0
    page = (results / "toy" / "README.md").read_text()
    assert "**sum x blockdiag**: 1 of 3 runs have ended, seed 1 is unfinished" in page
    assert "`lrbench sweep --table toy task=sum model=blockdiag`" in page
    (folder / "result.json").write_bytes(kept)
    with (folder / "metrics.jsonl").open("a") as log:
        log.write('\n{"step": 3000, "loss": 0.5}\n')
    assert lrbench(*arguments).code == 0
    page = (results / "toy" / "README.md").read_text()
    assert "**sum x blockdiag**: 2 of 3 runs have ended." in page


def test_no_run_has_ended(lrbench: Run, tmp_path: Path, toy_table: None) -> None:
    runs, results = tmp_path / "runs", tmp_path / "results"
    for seed in range(2):
        (write_run(runs, task="sum", seed=seed) / "result.json").unlink()
    arguments = ("publish", "toy", "--runs", str(runs), "--output", str(results))
    ended = lrbench(*arguments)
    assert ended.code == 1 and not results.exists()
    assert f"no run of the table toy in '{runs}' has ended: 2 runs under way" in ended.err
    assert (
        f"lrbench report --table toy --runs {runs}" in ended.err
        and len(ended.err.splitlines()) <= 5
    )
    other = tmp_path / "other"
    write_run(other, task="even_pair")
    published = ("publish", "toy", "--runs", str(other), "--output", str(results))
    assert lrbench(*published).code == 0
    assert lrbench(*arguments).code == 0  # its page has one that ended
    assert "2 of 3" not in (results / "toy" / "README.md").read_text()


def test_a_failed_run_is_reported_and_replaced(
    lrbench: Run, tmp_path: Path, toy_table: None
) -> None:
    runs, results = tmp_path / "runs", tmp_path / "results"
    folder = write_run(runs, task="sum")
    kept = (folder / "result.json").read_bytes()
    (folder / "result.json").unlink()
    failure = {"schema": 1, "error": "out of memory", "type": "MemoryError", "step": 17}
    failure["traceback"] = "File /home/someone/lrbench.py"
    (folder / "failure.json").write_text(json.dumps(failure))
    arguments = ("publish", "toy", "--runs", str(runs), "--output", str(results))
    assert lrbench(*arguments).code == 0
    page = (results / "toy" / "README.md").read_text()
    assert "**sum x blockdiag**: 0 of 3 runs have ended, 1 failed." in page
    assert "MemoryError: out of memory" in page
    assert not [name for name, data in content(results).items() if b"/home" in data]
    (folder / "result.json").write_bytes(kept)
    assert lrbench(*arguments).code == 0
    assert not list((results / "toy" / "records").rglob("failure.json"))
    page = (results / "toy" / "README.md").read_text()
    assert "**sum x blockdiag**: 1 of 3 runs have ended." in page


def test_configurations_that_compete(lrbench: Run, results: Path, runs: Path) -> None:
    write_run(runs, task="sum", fingerprint="b" * 12, lr=1e-3)
    arguments = ("publish", "toy", "--runs", str(runs), "--output", str(results))
    ended = lrbench(*arguments)
    assert ended.code == 1 and "2 configurations compete for sum x blockdiag" in ended.err
    assert lrbench(*arguments, "--fingerprint", CELL[-12:-6]).code == 0
    before = content(results)
    ended = lrbench(*arguments, "--fingerprint", "bbbb")
    assert ended.code == 1 and "another configuration of the same cell" in ended.err
    assert content(results) == before


def test_some_cells_beside_those_that_compete(lrbench: Run, results: Path, runs: Path) -> None:
    write_run(runs, task="sum", fingerprint="b" * 12, lr=1e-3)
    for seed in (1, 2):
        write_run(runs, task="even_pair", seed=seed, accuracy=0.95)
    arguments = ("publish", "toy", "--runs", str(runs), "--output", str(results))
    before = set(content(results))
    ended = lrbench(*arguments, "task=even_pair", "model=blockdiag,s4")
    assert ended.code == 0, ended.err
    new = {name for name in set(content(results)) - before if "/records/" in name}
    assert new and all("even_pair/blockdiag" in name for name in new)
    page = (results / "toy" / "README.md").read_text()
    assert "**even_pair x blockdiag**: ours 0.9500 ± 0.0000 (3)" in page
    ended = lrbench(*arguments, "model=lstm")
    assert ended.code == 1 and "has no cell with model=lstm" in ended.err
    ended = lrbench(*arguments, "model=s4,typo")
    assert ended.code == 1 and "has no cell with model=s4,typo" in ended.err
    ended = lrbench(*arguments, "seed=3")
    assert ended.code == 2 and "'seed=3' does not choose" in ended.err


def test_nothing_to_publish(lrbench: Run, tmp_path: Path, runs: Path) -> None:
    shutil.rmtree(runs / "sum")
    shutil.rmtree(runs / "even_pair" / "blockdiag")
    ended = lrbench("publish", "toy", "--runs", str(runs), "--output", str(tmp_path / "new"))
    assert ended.code == 1 and "belongs to the table toy" in ended.err
    assert not (tmp_path / "new").exists()
    ended = lrbench("publish", "fan2024_tabel2", "--runs", str(runs))
    assert ended.code == 1 and "fan2024_table2" in ended.err
    assert "is measured, not trained" in lrbench("publish", "fan2024_speed").err


def test_certificates_of_runs_trained_again(lrbench: Run, results: Path, runs: Path) -> None:
    again = runs.parent / "again"
    same = write_run(again, task="sum", seed=0, train_seconds=99.0)
    other = write_run(again, task="sum", seed=1, accuracy=0.9)
    write_run(again, task="sum", seed=2)  # was not searched
    for folder in (same, other):
        keep(folder, certificate())
    published = content(results)
    arguments = ("publish", "toy", "--runs", str(again), "--output", str(results))
    assert "--force replaces" in lrbench(*arguments).err
    new = write_run(again, task="sum", model="s4", seed=9)
    ended = lrbench(*arguments, "--certificates")
    assert ended.code == 0, ended.err
    assert "2 runs copied" in ended.err and "0 there already" in ended.err
    assert f"warning: 1 run without a certificate: {again / CELL / 's2'}; " in ended.err
    assert f"warning: not published, so no certificate either: {new}\n" in ended.err
    now = content(results)
    new = set(now) - set(published)
    assert new == {
        "toy/certificates.csv",
        *(f"toy/records/{CELL}/s{seed}/certificates/last.json" for seed in (0, 1)),
    }
    changed = {name for name in published if now[name] != published[name]}
    assert changed <= {"toy/README.md"}  # a table in the paper's layout may say nothing of it
    csv = now["toy/certificates.csv"].decode()
    assert csv.count("same scores") == 1 and csv.count("other scores") == 1
    assert lrbench("publish", "--rebuild", str(results), "--check").code == 0
    assert "0 runs copied" in lrbench(*arguments, "--certificates").err
    ended = lrbench("publish", "--rebuild", str(results), "--certificates")
    assert ended.code == 2 and "goes with a table" in ended.err


def test_the_published_weights_own_certificate_stays(
    lrbench: Run, results: Path, runs: Path
) -> None:
    keep(runs / CELL / "s0", certificate())
    arguments = ("publish", "toy", "--output", str(results), "--certificates", "--runs")
    assert lrbench(*arguments, str(runs)).code == 0
    published = content(results)
    folder = write_run(runs.parent / "again", task="sum", seed=0, train_seconds=99.0)
    keep(folder, certificate(verdict="open", witness=None))
    ended = lrbench(*arguments, str(runs.parent / "again"))
    assert ended.code == 0 and "0 runs copied" in ended.err, ended.err
    assert content(results) == published


def test_the_same_run_in_another_folder_was_not_trained_again(
    lrbench: Run, results: Path, runs: Path
) -> None:
    """Its result names the folder, which is not published; a later search of it replaces one."""
    keep(runs / CELL / "s0", certificate())
    arguments = ("publish", "toy", "--output", str(results), "--certificates", "--runs")
    assert lrbench(*arguments, str(runs)).code == 0
    moved = write_run(runs.parent / "moved", task="sum", seed=0)
    result = json.loads((moved / "result.json").read_text())
    result["config"]["output_dir"] = "/home/someone/moved"
    (moved / "result.json").write_text(json.dumps(result))
    keep(moved, certificate(verdict="open", witness=None))
    assert lrbench(*arguments, str(runs.parent / "moved")).code == 0
    rows = (results / "toy" / "certificates.csv").read_text().splitlines()[1:]
    assert rows and all(",open," in row and "scores" not in row for row in rows)


def test_an_older_certificate_of_the_same_weights_replaces_none(
    lrbench: Run, results: Path, runs: Path
) -> None:
    """A copy of the run was searched for longer elsewhere, and that was published."""
    folder, below = runs / CELL / "s0", results / "toy" / "records" / CELL / "s0"
    arguments = ("publish", "toy", "--runs", str(runs), "--output", str(results))
    keep(folder, certificate(date="2026-02-02T00:00:00+00:00"))
    assert lrbench(*arguments).code == 0
    published = content(results)
    older = certificate(verdict="open", witness=None, date="2026-01-01T00:00:00+00:00")
    keep(folder, older)
    for more in ((), ("--certificates",)):
        assert lrbench(*arguments, *more).code == 0
        assert content(results) == published
    keep(folder, older | {"weights_sha256": "cd" * 32})
    assert lrbench(*arguments).code == 0
    told = json.loads((below / "certificates" / "last.json").read_text())
    assert told["verdict"] == "open"


def test_a_proof_is_published_with_its_boxes(lrbench: Run, results: Path, runs: Path) -> None:
    """And they go when a later search found a wrong string: then nothing is proved."""
    again = runs.parent / "again"
    folder = write_run(again, task="sum", seed=0, train_seconds=99.0)
    boxes = keep_proof(folder).with_suffix(".npz").read_bytes()
    (folder / "certificates" / "best.npz").write_bytes(b"of nothing")
    arguments = ("publish", "toy", "--runs", str(again), "--output", str(results), "--certificates")
    assert lrbench(*arguments).code == 0
    below = results / "toy" / "records" / CELL / "s0" / "certificates"
    assert sorted(path.name for path in below.iterdir()) == ["last.json", "last.npz"]
    assert (below / "last.npz").read_bytes() == boxes
    published = json.loads((below / "last.json").read_text())
    assert published["trained_again"] == "same scores"
    assert lrbench("certify", "--check", str(below / "last.json")).code == 0
    assert lrbench("publish", "--rebuild", str(results), "--check").code == 0
    keep(folder, certificate())
    assert lrbench(*arguments).code == 0
    assert [path.name for path in below.iterdir()] == ["last.json"]


@pytest.mark.parametrize("more", [(), ("--certificates",)])
@pytest.mark.parametrize("boxes", [None, b"cut short"])
def test_a_proof_that_does_not_hold_is_not_published(
    lrbench: Run, results: Path, runs: Path, boxes: bytes | None, more: tuple[str, ...]
) -> None:
    file = keep_proof(runs / CELL / "s0")
    file.with_suffix(".npz").unlink()
    if boxes is not None:
        file.with_suffix(".npz").write_bytes(boxes)
    published = content(results)
    ended = lrbench("publish", "toy", "--runs", str(runs), "--output", str(results), *more)
    assert ended.code == 1 and content(results) == published
    assert f"a run cannot be published: the proof {file} is refused: " in ended.err
    assert f"\nlrbench certify {runs / CELL / 's0'} --which last seeks it again" in ended.err


def test_links_that_lead_nowhere_are_told(lrbench: Run, results: Path, runs: Path) -> None:
    (runs / CELL / "s1").rename(runs.parent / "s1")
    (runs / CELL / "s1").symlink_to("gone")
    arguments = ("publish", "toy", "--runs", str(runs), "--output", str(results), "--certificates")
    ended = lrbench(*arguments)
    assert ended.code == 0, ended.err
    assert f"warning: not used: {runs / CELL / 's1'}: a link that leads nowhere\n" in ended.err
    (runs / CELL / "s0" / "certificates").symlink_to("gone")
    ended = lrbench(*arguments)
    assert ended.code == 1
    assert f"certificates in {runs / CELL / 's0'} cannot be read: No such file" in ended.err


def test_a_published_run_that_has_no_result_here_is_told(
    lrbench: Run, results: Path, runs: Path
) -> None:
    keep(runs / CELL / "s0", certificate())
    (runs / CELL / "s1" / "result.json").unlink()
    arguments = ("publish", "toy", "--runs", str(runs), "--output", str(results))
    ended = lrbench(*arguments, "--certificates")
    assert ended.code == 0 and "1 run copied" in ended.err, ended.err
    assert f"1 run published with a result, and without one in {runs}: left" in ended.err
