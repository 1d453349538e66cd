"""Bundles of runs over a corpus: their data, and their checkpoints scored again on whole splits."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lrbench.bundles.archive import unpacked
from lrbench.bundles.check.rescore import ScoreComparison
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
from lrbench.bundles.pack import pack
from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.plugins import name_plugin
from lrbench.registry import ENCODERS
from lrbench.runs.train import display
from lrbench.runs.train.job import run_cell
from lrbench.tables import load_table
from lrbench.tasks.corpus.storage import describe, identity, read, write
from lrbench.tasks.listops import load
from tests import made_up_corpora
from tests.pages import write as write_page

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
TINY = [
    *("model=bbt_grc", "model.width=8", "protocol.max_steps=2", "device=cpu"),
    *("protocol.batch_size=8",),
]
LISTOPS = ["task=listops", "protocol.test_splits=[near_iid,mix_test]"]
LOGIC = ["task=logic", "protocol.test_splits=[test_7]"]
SPLITS = ["train", "dev", "near_iid", "mix_test"]


@pytest.fixture(scope="session")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_corpora.write(tmp_path_factory.mktemp("corpora"))


@pytest.fixture(scope="session")
def trained(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over each corpus; to be read only."""
    folder = tmp_path_factory.mktemp("over_corpora")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LRBENCH_DATA", str(corpora))
        for arguments in (LISTOPS, LOGIC):
            run_cell(composed([*arguments, *TINY, f"output_dir={folder}"]))
    return folder


@pytest.fixture
def data(corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the corpora, where they are looked for."""
    folder = Path(shutil.copytree(corpora, tmp_path / "data"))
    monkeypatch.setenv("LRBENCH_DATA", str(folder))
    return folder


@pytest.fixture
def packed(data: Path, trained: Path, tmp_path: Path) -> Path:
    """Their bundle."""
    path = tmp_path / "both.zip"
    path.write_bytes(pack(trained, TableChoice(), path.name).data)
    return path


def verified(path: Path) -> tuple[list[BundleFinding], list[ScoreComparison]]:
    return verify(open_bundle(path), Options(device="cpu"))


def by_name(path: Path) -> dict[str, BundleFinding]:
    return {finding.what: finding for finding in verified(path)[0]}


def elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let data be looked for in a folder that nothing was read from yet."""
    monkeypatch.setenv("LRBENCH_DATA", str(folder))


def test_what_is_packed(packed: Path, data: Path) -> None:
    files = unpacked(packed)
    kinds = {name.rpartition("/")[2] for name in files}
    assert {"result.json", "config.json", "metrics.jsonl", "best.pt", "table.md"} <= kinds
    kept = json.loads(files["strings.json"])
    listops, logic = (kept[name] for name in sorted(kept))
    assert list(listops) == SPLITS
    on_disk = describe(data / "listops/near_iid")
    assert listops["near_iid"] == {
        **{key: on_disk[key] for key in ("n", "sides", "made", "sha256")},
        "rows": listops["near_iid"]["rows"],
    }
    first = load("near_iid")
    assert listops["near_iid"]["rows"][0] == f"{first.text(0)} -> {first.labels[0]}"
    assert len(listops["near_iid"]["rows"]) == 3
    assert listops["mix_test"]["sha256"] == describe(data / "listops/lra_test")["sha256"]
    assert len(identity(load("mix_train"))["made"]["joined"]) == 4
    assert list(logic) == ["train", "dev", "test_7"]
    assert logic["dev"]["sha256"] == describe(data / "logic_released/dev")["sha256"]
    assert logic["dev"]["rows"][1] == "a | b -> #"


def test_the_same_bytes_again(packed: Path, trained: Path) -> None:
    assert pack(trained, TableChoice(), "a.zip").data == packed.read_bytes()


def test_all_as_recorded(packed: Path) -> None:
    findings, scores = verified(packed)
    assert {finding.status for finding in findings} == {GOOD}
    assert [score.place for score in scores] == ["on near_iid", "on mix_test", "on test_7"]
    assert all(score.recorded == score.now and score.recorded_n == score.now_n for score in scores)
    assert {score.p for score in scores} == {1.0}
    assert findings[-1].text == "2 of 2 runs scored again on their splits"


def test_how_far_it_is_is_said_run_by_run(
    packed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(display, "QUIET_SECONDS", -1.0)
    verified(packed)
    lines = capsys.readouterr().err.splitlines()
    first, second = (next(line for line in lines if f"({n} of 2)" in line) for n in (1, 2))
    assert first.startswith("listops/") and second.startswith("logic/")
    assert all("scoring again: " in line for line in lines)


def test_anonymous(data: Path, trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(pack(trained, TableChoice(), path.name, anonymous=True).data)
    assert {finding.status for finding in verified(path)[0]} == {GOOD}


def test_the_table_of_a_paper(data: Path, trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.zip"
    path.write_bytes(pack(trained, TableChoice(load_table("rir2023_table2")), path.name).data)
    findings, scores = verified(path)
    assert {finding.status for finding in findings} == {GOOD}
    assert {score.run.split("/")[0] for score in scores} == {"listops"}


def test_a_split_that_is_not_there(
    packed: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(data / "listops/near_iid")
    elsewhere(data.rename(tmp_path / "other"), monkeypatch)
    findings, scores = verified(packed)
    assert [score.split for score in scores] == ["mix_test", "test_7"]
    found = {finding.what: finding for finding in findings}
    assert found["data"] == BundleFinding("data", OPEN, "1 of 7 splits are not here as they were")
    assert found["scores"].status == OPEN
    assert found["listops"].status == OPEN
    assert found["listops"].text.startswith("near_iid not scored again: the data are not here")
    assert found["listops"].text.endswith("lrbench data make listops --splits near_iid")


def test_no_data_at_all(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(tmp_path / "nowhere", monkeypatch)
    findings, scores = verified(packed)
    assert scores == []
    found = {finding.what: finding for finding in findings}
    assert {name for name, one in found.items() if one.status == OPEN} == {
        *("data", "scores", "listops", "logic")
    }
    assert found["logic"].text.startswith("test_7 not scored again: the data are not here")
    assert "0 of 2 runs" in found["scores"].text
    assert BAD not in {finding.status for finding in findings}


def test_without_the_training_split_it_is_said_why(
    packed: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(data / "listops/train")
    elsewhere(data.rename(tmp_path / "other"), monkeypatch)
    finding = by_name(packed)["listops"]
    assert finding.status == OPEN
    assert finding.text.startswith("near_iid, mix_test not scored again: its training split is mis")


def change(folder: Path, **made: Any) -> None:
    """Turn the last label of a split into another, and say how it was made."""
    strings = read(folder)
    labels = np.array(strings.labels)
    labels[-1] = (labels[-1] + 1) % len(strings.class_names)
    write(folder, replace(strings, labels=labels, made={**strings.made, **made}))


def test_other_data_are_no_fault_but_nothing_is_scored_on_them(
    packed: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (data / "listops").iterdir():
        change(folder, seed=5)
    elsewhere(data.rename(tmp_path / "other"), monkeypatch)
    findings, scores = verified(packed)
    assert [score.split for score in scores] == ["test_7"]
    texts = [finding.text for finding in findings if finding.what == "listops"]
    assert {finding.status for finding in findings if finding.what == "listops"} == {OPEN}
    assert texts[0].startswith("near_iid not scored again: other data here: sha256 of its labels")
    assert texts[0].endswith("made version 1 seed 5 here, version 1 seed 0 there")
    assert texts[1].startswith("mix_test not scored again: other data here")


def test_other_data_that_are_said_to_be_made_alike_differ(
    packed: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(data / "listops/near_iid")
    elsewhere(data.rename(tmp_path / "other"), monkeypatch)
    findings = by_name(packed)
    assert findings["data"].status == findings["listops"].status == BAD
    assert "near_iid: other data here" in findings["data"].text
    assert findings["listops"].text.endswith("both said to be made alike")


def test_numbers_that_were_made_up(data: Path, trained: Path, edit: Edit, tmp_path: Path) -> None:
    def flatter(result: dict[str, Any]) -> None:
        for row in result["evaluations"]:
            if (row["split"], row["kind"]) == ("near_iid", "test"):
                row["value"] = 1.0

    runs = Path(shutil.copytree(trained, tmp_path / "runs"))
    edit(next(runs.glob("listops/**/result.json")), flatter)
    path = tmp_path / "a.zip"
    path.write_bytes(pack(runs, TableChoice(), path.name).data)
    findings = by_name(path)
    assert [what for what, finding in findings.items() if finding.status == BAD] == ["scores"]
    assert findings["scores"].text.endswith("s0 on near_iid")


def test_packing_asks_for_the_data_a_run_was_scored_on(
    trained: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(made_up_corpora.write(tmp_path / "more", strings=30), monkeypatch)
    with pytest.raises(UserError, match=r"is not what a run .* was scored on\nthen 24 strings"):
        pack(trained, TableChoice(), "a.zip")
    elsewhere(tmp_path / "nowhere", monkeypatch)
    with pytest.raises(UserError, match="lrbench data make listops"):
        pack(trained, TableChoice(), "a.zip")


@pytest.mark.parametrize("entry", [None, 3, {"near_iid": 3}, {"near_iid": {"sha256": {}}}])
def test_a_bundle_that_does_not_tell_its_data(packed: Path, entry: Any) -> None:
    opened = open_bundle(packed)
    kept = json.loads(opened.files["strings.json"])
    run = min(kept)
    kept[run] = entry if entry is None or entry == 3 else kept[run] | entry
    opened.files["strings.json"] = json.dumps(kept).encode()
    findings, scores = verify(opened, Options(device="cpu"))
    found = {finding.what: finding for finding in findings}
    assert found["data"].status == BAD
    assert "near_iid not scored again" in found["listops"].text.replace(", mix_test", "")
    assert "near_iid" not in {score.split for score in scores}


@pytest.fixture
def on_a_file(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the released format, lying where the test works."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "ours.tsv"
    path.write_text("9\t( ( ( [MAX 2 ) 9 ) ] )\n0\t( ( [MIN 0 ) ] )\n")
    return path


def test_a_file_is_distinguished_from_another_that_lies_there(
    on_a_file: Path, tmp_path: Path
) -> None:
    splits = "protocol.test_splits=[ours.tsv]"
    run_cell(composed([*LISTOPS, splits, *TINY, "output_dir=runs"]))
    path = tmp_path / "f.zip"
    path.write_bytes(pack(Path("runs"), TableChoice(), path.name, anonymous=True).data)
    findings, scores = verified(path)
    assert {finding.status for finding in findings} == {GOOD}
    assert [(score.split, score.recorded_n) for score in scores] == [("ours.tsv", 2)]
    opened = open_bundle(path)
    text = opened.files["strings.json"].decode()
    sums = json.loads(text)[min(opened.results)]["ours.tsv"]["sha256"]
    opened.files["strings.json"] = text.replace(sums["labels"], "0" * 64).encode()
    findings, scores = verify(opened, Options(device="cpu"))
    [finding] = [finding for finding in findings if finding.what == "listops"]
    assert (finding.status, scores) == (OPEN, [])
    assert finding.text.endswith("made nobody says how here, nobody says how there")


def test_an_absolute_path_cannot_be_anonymous(
    on_a_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = f"protocol.test_splits=[{on_a_file}]"
    run_cell(composed([*LISTOPS, splits, *TINY, "output_dir=runs"]))
    with pytest.raises(UserError, match=r"names a folder.* in protocol\.test_splits"):
        pack(Path("runs"), TableChoice(), "a.zip", anonymous=True)


def test_the_identity_is_of_content(data: Path) -> None:
    """Of a part of a split it is that of the files which the part would be written to."""
    part = load("dev").part(3, 9)
    write(data / "listops/part", replace(part, made={}))  # it is no split that a recipe names
    assert identity(part)["sha256"] == describe(data / "listops/part")["sha256"]
    assert identity(part)["n"] == 6


def test_a_few_answers_may_flip_by_rounding() -> None:
    def score(verified: float, now: float, n: int = 10_000) -> ScoreComparison:
        return ScoreComparison("r", 900, verified, n, now, n, None, split="near_iid")

    assert score(0.5, 0.5049).p == 1.0
    assert score(0.5, 0.5052).p == 0.0
    assert score(0.5, 0.5 + 1 / 24, 24).p == 1.0
    assert score(0.5, 0.5 + 2 / 24, 24).p == 0.0
    assert ScoreComparison("r", 9, 0.5, 10, 0.5, 20, None, split="dev").p == 0.0


def test_an_encoder_of_ones_own_is_run_only_where_trusted(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is not here, its run is named as one that was not scored."""
    known = dict(ENCODERS._entries)

    def stranger() -> None:
        monkeypatch.setattr(ENCODERS, "_entries", dict(known))
        monkeypatch.setattr("lrbench.plugins._loaded", {})
        os.environ.pop("LRBENCH_PLUGINS", None)  # not by monkeypatch, whose undoing restores it
        sys.modules.pop("averages", None)

    stranger()
    write_page("adding-an-encoder", "averages.py", tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name_plugin("averages", "a test")
    small = ["protocol.max_steps=2", "protocol.batch_size=8", "device=cpu"]
    run_cell(composed([*LISTOPS, "model=averages", *small, f"output_dir={tmp_path / 'runs'}"]))
    path = tmp_path / "own.zip"
    path.write_bytes(pack(tmp_path / "runs", TableChoice(), path.name).data)
    found = by_name(path)
    assert (found["scores"].status, found["chance"].status) == (GOOD, GOOD)

    stranger()
    found = by_name(path)
    assert found["scores"].text[:11] == "0 of 1 runs" and "chance" not in found
    (why,) = (one for one in found.values() if "add --trust-plugins" in one.text)
    assert (why.status, why.text[:45]) == (OPEN, "not scored again: averages was not run; read ")
