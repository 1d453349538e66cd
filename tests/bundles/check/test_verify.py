from __future__ import annotations

import io
import json
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench.bundles import layout
from lrbench.bundles.check.rescore import ScoreComparison, differing
from lrbench.bundles.check.verify import (
    BAD,
    GOOD,
    OPEN,
    BundleFinding,
    Options,
    open_bundle,
    verify,
)
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.pack import pack, tables
from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.runs.evaluate.evaluation import evaluate_run
from lrbench.runs.train.job import run_cell
from tests.bundles.conftest import name_a_plugin, one
from tests.cli.conftest import lrbench

__all__ = ["lrbench"]  # a fixture
Run = Callable[..., Any]
Bundle = Callable[..., Path]
Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


def found(path: Path, **options: Any) -> dict[str, BundleFinding]:
    findings, _ = verify(open_bundle(path), Options(**{"strings": 500, "device": "cpu"} | options))
    return {finding.what: finding for finding in findings}


def statuses(findings: dict[str, BundleFinding]) -> dict[str, str]:
    return {what: finding.status for what, finding in findings.items()}


def test_all_as_recorded(bundle: Bundle) -> None:
    findings, scores = verify(open_bundle(bundle()), Options(strings=500, device="cpu"))
    assert {finding.status for finding in findings} == {GOOD}
    assert [(score.length, score.now_n, score.recorded_n) for score in scores] == [
        (6, 500, 2000),
        (9, 500, 2000),
        (12, 100, 200),
    ] * 2


def test_scores_of_later_are_not_scored_again(runs: Path, tmp_path: Path) -> None:
    evaluate_run(next(runs.rglob("s0")), "15,12", "best", 400, "cpu")
    path = tmp_path / "later.zip"
    path.write_bytes(pack(runs, TableChoice(), path.name).data)
    later = found(path)["later scores"]
    assert later.status == OPEN
    assert later.text == "what `lrbench evaluate` added to 1 run, lengths 12 to 15"


def test_later_scores_take_the_place_of_none_that_was_tested(
    runs: Path, edit: Edit, tmp_path: Path
) -> None:
    """A table has room for a score at the test length wherever result.json tells none."""
    run = next(runs.rglob("s0"))
    evaluate_run(run, "9", "best", 400, "cpu")
    (file,) = (run / "evaluations").iterdir()
    edit(file, lambda told: told["evaluations"][0].update(split="test", value=1.0))
    edit(
        run / "result.json",
        lambda told: told.update(
            evaluations=[row for row in told["evaluations"] if row["length"] != 9]
        ),
    )
    path = tmp_path / "later.zip"
    path.write_bytes(pack(runs, TableChoice(), path.name).data)
    findings, _ = verify(open_bundle(path), Options(strings=100, device="cpu"))
    first = next(finding for finding in findings if finding.what == "later scores")
    assert first.status == BAD and "has a score of the split test" in first.text


def test_other_strings_each_time(bundle: Bundle) -> None:
    path = bundle()
    scores = [
        [score.now for score in verify(open_bundle(path), Options(500, seed, "cpu"))[1]]
        for seed in (0, 0, 1)
    ]
    assert scores[0] == scores[1] != scores[2]


def test_a_file_that_was_changed(bundle: Bundle) -> None:
    def change(files: dict[str, bytes]) -> None:
        files["table.md"] = files["table.md"].replace(b"0.", b"1.")

    with pytest.raises(UserError, match=r"'table.md' is not what was packed"):
        open_bundle(bundle(change, honest=False))
    assert statuses(found(bundle(change)))["table.md"] == BAD


def test_files_that_are_missing_or_more(bundle: Bundle) -> None:
    def change(files: dict[str, bytes]) -> None:
        del files["runs.csv"]
        files["more.txt"] = b"?"

    with pytest.raises(UserError, match=r"'runs.csv' is missing\n'more.txt' is not in the man"):
        open_bundle(bundle(change, honest=False))
    with pytest.raises(UserError, match=r"has no runs.csv"):
        open_bundle(bundle(change))


MANIFESTS = {
    "no manifest": (lambda m: None, "has no manifest.json"),
    "of something else": (lambda m: {"kind": "cake"}, "not that of a bundle"),
    "a list": (lambda m: [1], "holds no object"),
    "newer": (lambda m: m | {"schema": 2}, "schema 2, this lrbench reads schema 1"),
    "no files": (lambda m: m | {"files": 3}, "does not name the files"),
    "no hash": (lambda m: m | {"files": {"a": {"sha256": "x"}}}, "does not name the files"),
    "no choice": (lambda m: m | {"choice": None}, "'choice' is missing"),
    "odd choice": (lambda m: m | {"choice": {"table": 3}}, "damaged"),
    "odd rule": (
        lambda m: m | {"choice": {"table": None, "rows": [], "columns": [], "rule": "../x"}},
        "is none of",
    ),
}


@pytest.mark.parametrize(("make", "message"), MANIFESTS.values(), ids=MANIFESTS)
def test_a_damaged_manifest(bundle: Bundle, make: Callable[[Any], Any], message: str) -> None:
    def change(files: dict[str, bytes]) -> None:
        manifest = json.loads(files.pop(layout.MANIFEST))
        made = make(manifest)
        if made is not None:
            files[layout.MANIFEST] = json.dumps(made).encode()

    with pytest.raises(UserError, match=message):
        open_bundle(bundle(change, honest=False))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run["config"].update(task=None), "has no task with a name"),
        (lambda run: run["config"].update(model={}), "has no model with a name"),
        (lambda run: run["config"]["model"].update(backbone=None), "model.backbone holds no"),
        (
            lambda run: run["config"]["model"]["backbone"].update(name=7),
            "model.backbone.name is 7, no text",
        ),
        (lambda run: run["config"]["model"].update(layers="2"), "layers is '2', none of 1 to"),
        (lambda run: run["config"]["model"].update(width=10**9), "width is 1000000000, none of"),
        (lambda run: run["config"].update(threads=1024), "threads is 1024, none of 1 to 256"),
        (lambda run: run["versions"].update(plugins=5), "versions' plugins are no names"),
        (lambda run: run["versions"].update(libraries=["x"]), "versions' libraries are no names"),
        (lambda run: run.update(train_seconds=float("inf")), "'train_seconds' is inf"),
    ],
)
def test_a_result_of_another_shape(bundle: Bundle, change: Any, message: str) -> None:
    def changed(files: dict[str, bytes]) -> None:
        name = one(files, "result.json")
        content = json.loads(files[name])
        change(content)
        files[name] = json.dumps(content).encode()

    with pytest.raises(UserError, match=re.escape(message)):
        open_bundle(bundle(changed))


def test_compiled_code_and_files_beside_a_plugins_source_are_refused(bundle: Bundle) -> None:
    """What runs is what the receiver read: no byte code of another source, and nothing more."""
    for name in ("plugins/__pycache__/told_plugin.cpython-311.pyc", "plugins/fast.so"):

        def change(files: dict[str, bytes], name: str = name) -> None:
            name_a_plugin(files, b"")
            files[name] = b"compiled"

        finding = found(bundle(change), trust_plugins=True)["plugins"]
        assert finding == BundleFinding("plugins", BAD, f"{name} is compiled: nobody can read it")


@pytest.mark.usefixtures("forgotten")
def test_a_file_that_no_hash_is_of_is_refused(bundle: Bundle) -> None:
    def change(files: dict[str, bytes]) -> None:
        name_a_plugin(files, b"A = 1\n")
        files["plugins/more.py"] = b"B = 1\n"

    finding = found(bundle(change), trust_plugins=True)["plugins"]
    assert (finding.status, finding.text) == (
        BAD,
        "plugins/more.py is no part of the plugins' source",
    )


@pytest.mark.usefixtures("forgotten")
def test_a_file_with_a_librarys_name_is_refused_and_never_run(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library that holds a layer is the installed one."""
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed/some_library.py").write_text("A = 1\n")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    used = {"x": "some_library"}
    monkeypatch.setattr("lrbench.bundles.check.verify.libraries_of", lambda _: used)

    def change(files: dict[str, bytes]) -> None:
        name_a_plugin(files, b"A = 1\n")
        files["plugins/some_library.py"] = b"A = 2\n"

    finding = found(bundle(change), strings=1, trust_plugins=True)["plugins"]
    text = "plugins/some_library.py is no part of the plugins' source"
    assert sys.modules.pop("some_library").A == 1
    assert finding == BundleFinding("plugins", BAD, text)


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 10**5, b"\xff\xfe", b"[]", b"{}"])
@pytest.mark.parametrize("name", ["result.json", "config.json", "strings.json", "manifest.json"])
def test_json_that_is_none(bundle: Bundle, data: bytes, name: str) -> None:
    def change(files: dict[str, bytes]) -> None:
        files[one(files, name)] = data

    path = bundle(change, honest=name != "manifest.json")
    if (data, name) == (b"{}", "strings.json"):
        assert found(path, strings=1)["data"].status == BAD
    elif (data, name) == (b"{}", "config.json"):
        assert found(path, strings=1)["fingerprints"].status == BAD
    else:
        with pytest.raises(UserError, match=re.escape(name)):
            found(path, strings=1)


def test_numbers_that_were_made_up(runs: Path, edit: Edit, tmp_path: Path) -> None:
    """Results edited before packing: hashes and table agree, only the fresh scores do not."""

    def flatter(result: dict[str, Any]) -> None:
        for row in result["evaluations"]:
            if row["metric"] == "accuracy":
                row["value"] = 1.0

    edit(next(runs.rglob("s0/result.json")), flatter)
    path = tmp_path / "a.zip"
    path.write_bytes(pack(runs, TableChoice(), path.name).data)
    findings = found(path)
    assert [what for what, finding in findings.items() if finding.status == BAD] == ["scores"]
    assert "s0 at 6 (and 2 more)" in findings["scores"].text


def test_a_bundle_without_a_run_that_ended_confirms_nothing(bundle: Bundle) -> None:
    def change(files: dict[str, bytes]) -> None:
        for name in [name for name in files if name.endswith("/result.json")]:
            del files[name]

    with pytest.raises(UserError, match="has no run that ended"):
        open_bundle(bundle(change))


def test_a_configuration_that_was_changed(bundle: Bundle) -> None:
    def change(files: dict[str, bytes]) -> None:
        name = one(files, "config.json")
        files[name] = files[name].replace(b'"lr": ', b'"lr": 1')

    findings = found(bundle(change))
    assert findings["fingerprints"].status == BAD
    assert "(and 1 more)" in findings["fingerprints"].text


def test_other_weights(bundle: Bundle) -> None:
    def shuffled(files: dict[str, bytes]) -> None:
        first, second = sorted(name for name in files if name.endswith(".pt"))
        state = torch.load(io.BytesIO(files[first]), weights_only=True)
        state["model"] = {name: value[:1] for name, value in state["model"].items()}
        buffer = io.BytesIO()
        torch.save(state, buffer)
        files[first], files[second] = buffer.getvalue(), b"none"

    findings = found(bundle(shuffled))
    scored = {what: finding for what, finding in findings.items() if "not scored" in finding.text}
    assert [what[-2:] for what in scored] == ["s0", "s1"]
    assert {finding.status for finding in scored.values()} == {BAD}
    assert findings["scores"].status == OPEN


class Payload:
    """What runs code where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path("ran").write_text, ("!",))


def test_nothing_is_unpickled(bundle: Bundle, tmp_path: Path) -> None:
    def change(files: dict[str, bytes]) -> None:
        first, second = sorted(name for name in files if name.endswith(".pt"))
        buffer = io.BytesIO()
        torch.save({"model": Payload()}, buffer)
        files[first], files[second] = buffer.getvalue(), pickle.dumps(Payload())

    findings = found(bundle(change))
    assert sum("not scored again" in finding.text for finding in findings.values()) == 2
    assert not (tmp_path / "ran").exists()


def test_a_checkpoint_less_is_reported(bundle: Bundle, lrbench: Run) -> None:
    def change(files: dict[str, bytes]) -> None:
        del files[one(files, ".pt")]

    path = bundle(change)
    findings = found(path)
    finding = findings["scores"]
    assert (finding.status, finding.text[:6]) == (OPEN, "1 of 2")
    assert finding.text.endswith("; why not on all of them is told below")
    (run,) = (one for one in findings.values() if "not scored again" in one.text)
    assert run.text == "not scored again: no checkpoints/best.pt of it in the bundle"
    assert lrbench("verify", str(path), "--strings", "100").code == 1


def test_a_run_that_came_to_nothing_has_nothing_to_score(bundle: Bundle) -> None:
    """It may lack a checkpoint, and that is no failure of the check."""

    def change(files: dict[str, bytes]) -> None:
        name = one(files, ".pt")
        del files[name]
        place = name.replace("checkpoints/best.pt", "result.json")
        result = json.loads(files[place])
        result["evaluations"] = [row | {"value": None} for row in result["evaluations"]]
        files[place] = json.dumps(result).encode()

    findings = found(bundle(change))
    assert findings["scores"].text.endswith("of the others there is nothing to score")
    assert not any("not scored again" in one.text for one in findings.values())


@pytest.fixture
def with_plugin(bundle: Bundle, tmp_path: Path) -> Path:
    """A bundle whose runs name a plugin that leaves a trace when it is imported."""
    source = b'from pathlib import Path\nPath("ran").write_text("!")\n'
    return bundle(lambda files: name_a_plugin(files, source))


@pytest.mark.usefixtures("forgotten")
def test_plugins_run_only_where_trusted(with_plugin: Path, tmp_path: Path) -> None:
    finding = found(with_plugin)["plugins"]
    assert finding.status == OPEN
    assert "--trust-plugins" in finding.text
    assert not (tmp_path / "ran").exists()
    before = list(sys.path)
    finding = found(with_plugin, trust_plugins=True)["plugins"]
    assert finding == BundleFinding("plugins", GOOD, "told_plugin: run, as you asked")
    assert (tmp_path / "ran").exists()
    assert sys.path == before


def test_sampling_error_is_none_of_ours() -> None:
    def score(recorded: float, now: float) -> ScoreComparison:
        return ScoreComparison("r", 500, recorded, 10_000, now, 1000, (0.0, 1.0))

    near, far = score(0.9138, 0.92), score(0.9138, 0.80)
    assert near.p > 0.4
    assert far.p < 1e-20
    assert differing([near, far, near]) == [far]
    assert score(1.0, 1.0).p == 1.0
    doubtful = score(0.9138, 0.935)  # p = 0.02: one of many may well be so
    assert 0.01 < doubtful.p < 0.05
    assert differing([doubtful] * 20) == []


@pytest.mark.parametrize(
    ("protocol", "lengths"),
    [
        (["protocol=walker2025_short"], [7, 8, 9, 10, 11]),
        (["protocol=deletang2022_short"], [7, 9, 11]),
    ],
)
def test_runs_over_a_range_of_lengths_are_scored_at_its_ends_and_between_them(
    protocol: list[str], lengths: list[int], tmp_path: Path
) -> None:
    words = [
        *("task=nnch_parity_check", "model=lstm", "model.width=8", "protocol.train_lengths=[1,6]"),
        *("protocol.look.lengths=[7,9]", "protocol.look.strings=12", "protocol.band=[7,8]"),
        *("protocol.test.lengths=[7,11]", "protocol.test.strings=600"),
        *("protocol.test.stride=2", "protocol.batch_size=8"),
        *("protocol.look_every=4", "protocol.validation_size=16", "protocol.max_steps=8"),
    ]
    run_cell(composed([*protocol, *words, f"output_dir={tmp_path / 'runs'}", "optim.warmup=0"]))
    path = tmp_path / "ranges.zip"
    path.write_bytes(pack(tmp_path / "runs", TableChoice(rule="last"), path.name).data)
    findings, scores = verify(open_bundle(path), Options(strings=600, device="cpu"))
    assert {finding.status for finding in findings} == {GOOD}
    assert [score.length for score in scores] == lengths


@pytest.mark.parametrize(
    ("name", "value"),
    [("look_every", "1000"), ("max_steps", "60"), ("look_every", -4), ("max_steps", True)],
)
def test_a_number_of_looks_that_nobody_can_count_is_no_traceback(
    bundle: Bundle, name: str, value: Any
) -> None:
    """The table is made from the bundle's results before anything else is known of them."""

    def change(files: dict[str, bytes]) -> None:
        for file in [name for name in files if name.endswith(("/config.json", "/result.json"))]:
            content = json.loads(files[file])
            content.get("config", content)["protocol"][name] = value
            files[file] = json.dumps(content).encode()
        files |= tables(files, TableChoice())

    findings = found(bundle(change), strings=10)
    assert findings["table.md"].status == GOOD
    assert findings["fingerprints"].status == BAD


def test_a_range_is_scored_at_some_of_its_lengths_which_is_said(tmp_path: Path) -> None:
    words = [
        *("protocol=deletang2022_short", "task=nnch_parity_check", "model=lstm", "model.width=8"),
        *("protocol.train_lengths=[1,6]", "protocol.look.lengths=[7,9]", "protocol.band=[7,8]"),
        *("protocol.test.lengths=[7,26]", "protocol.test.strings=200", "protocol.look.strings=12"),
        *("protocol.test.stride=1", "protocol.batch_size=8", "protocol.look_every=4"),
        *("protocol.validation_size=16", "protocol.max_steps=8", "optim.warmup=0"),
    ]
    run_cell(composed([*words, f"output_dir={tmp_path / 'runs'}"]))
    path = tmp_path / "ranges.zip"
    path.write_bytes(pack(tmp_path / "runs", TableChoice(rule="last"), path.name).data)
    findings, scores = verify(open_bundle(path), Options(strings=60, device="cpu"))
    (told,) = (finding for finding in findings if finding.what == "scores")
    assert told.status == GOOD
    assert told.text == "1 of 1 runs scored again on fresh strings, at 8 of 20 lengths"
    lengths = [score.length for score in scores]
    assert (lengths[0], lengths[-1], len(set(lengths))) == (7, 26, 8)
    # what is drawn takes together as many strings as one end does
    assert [score.now_n for score in scores] == [60, *[10] * 6, 60]


def test_a_length_that_is_no_number_is_no_traceback(bundle: Bundle) -> None:
    """A list of settings may hold anything, and what draws strings meets it first."""

    def change(files: dict[str, bytes]) -> None:
        for file in [name for name in files if name.endswith(("/config.json", "/result.json"))]:
            content = json.loads(files[file])
            content.get("config", content)["protocol"]["test_lengths"] = [{"name": "sum"}]
            files[file] = json.dumps(content).encode()
        files |= tables(files, TableChoice())

    findings, _ = verify(open_bundle(bundle(change)), Options(strings=10, device="cpu"))
    told = {finding.what: finding for finding in findings}
    assert told["fingerprints"].status == told["chance"].status == BAD
    assert "not scored again" in next(one.text for what, one in told.items() if "/s0" in what)
