"""An entry of a small suite through the whole path, and four that were tampered with."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.suite_lock import lock_of
from lrbench.bundles import layout
from lrbench.bundles.archive import packed, sha256, unpacked
from lrbench.bundles.check import entry
from lrbench.bundles.check.entry import built_otherwise
from lrbench.bundles.check.verify import BAD, GOOD, OPEN, Options, open_bundle, verify
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.pack import pack
from lrbench.cli.hydra.searching import run_searched
from lrbench.cli.hydra.sweeping import SweepRequest
from lrbench.errors import UserError
from lrbench.report.suite import lock as locks
from lrbench.tables import load_table

TABLE = """\
title: a small suite
kind: suite
protocol: suite_v1
rule: last
common: [protocol=suite_v1, trials=3, protocol.max_steps=12, protocol.look_every=6,
  protocol.batch_size=16, protocol.look.strings=16, protocol.validation_size=16,
  "protocol.test.lengths=[40,90,500]", protocol.test.strings=120]
search: {grid: ["optim.lr=1e-3,1e-2"], settings: [seed=1000, trials=1, protocol.max_steps=6,
  protocol.certify=never]}
tasks:
  - {overrides: [task=parity], label: parity}
  - {overrides: [task=even_pair, task.modulus=2], label: even_pair}
models:
  - {overrides: [model=lstm, model.width=8]}
"""
Files = dict[str, bytes]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Files]]:
    """The table of a small suite, locked, and the files of a whole entry of it."""
    folder = tmp_path_factory.mktemp("suite")
    table = folder / "small.yaml"
    table.write_text(TABLE)
    lock = folder / "small.lock"
    lock.write_text(json.dumps(lock_of(str(table))))
    kept, where = locks.lock_path, Path.cwd()
    locks.lock_path = lambda _: lock
    locks.read_lock.cache_clear()
    os.chdir(folder)
    try:
        assert run_searched(SweepRequest.read([], str(table), None), False, False) == 0
        choice = TableChoice(load_table(str(table)), ("lstm",), (), "last")
        path = folder / "entry.zip"
        path.write_bytes(pack(folder / "outputs", choice, path.name).data)
        yield folder, unpacked(path)
    finally:
        locks.lock_path = kept
        locks.read_lock.cache_clear()
        os.chdir(where)


def told(files: Files, path: Path) -> dict[str, tuple[str, str]]:
    """Verify files whose manifest was made to agree; return each finding's status and text."""
    manifest = json.loads(files.pop(layout.MANIFEST))
    manifest["files"] = {name: {"sha256": sha256(data)} for name, data in files.items()}
    files[layout.MANIFEST] = json.dumps(manifest).encode()
    path.write_bytes(packed(files, path.name))
    findings, _ = verify(open_bundle(path), Options(strings=120, device="cpu"))
    return {one.what: (one.status, one.text) for one in findings}


def unpacked_of(data: bytes, folder: Path) -> Files:
    path = folder / "packed.zip"
    path.write_bytes(data)
    return unpacked(path)


def edited(files: Files, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(files[name])
    change(content)
    files[name] = json.dumps(content).encode()


def result_of(files: Files, task: str, seed: int) -> str:
    return next(n for n in files if f"/{task}/" in n and n.endswith(f"/s{seed}/result.json"))


def test_an_entry_is_confirmed(small: tuple[Path, Files], tmp_path: Path) -> None:
    found = told(dict(small[1]), tmp_path / "entry.zip")
    assert {status for status, _ in found.values()} == {GOOD}
    assert found["suite"][1] == "lstm: every rule of small is kept"
    assert found["scores"][1] == "10 of 10 runs scored again on fresh strings"
    assert found["all strings"][1] == "6 answers of lrbench certify held against the weights"


def test_what_is_said_of_all_strings_is_put_to_the_weights(
    small: tuple[Path, Files], tmp_path: Path
) -> None:
    """Untrained, they are wrong on a string of a few symbols, which nobody may hide."""
    name = result_of(small[1], "parity", 1).replace("result.json", "certificates/last.json")
    shortest = json.loads(small[1][name])["witness"]
    assert shortest["shortest"] and len(shortest["tokens"]) < 8

    def hidden(content: dict[str, Any]) -> None:
        content.update(verdict="open", witness=None)

    def longer(content: dict[str, Any]) -> None:
        tokens = [*shortest["tokens"], *shortest["tokens"], 0, 0, 0]
        string = "".join(map(str, tokens))
        content["witness"].update(tokens=tokens, length=len(tokens), string=string)

    def of_others(content: dict[str, Any]) -> None:
        content["weights_sha256"] = "0" * 64

    ways = {
        hidden: f"wrong on a string of {len(shortest['tokens'])} symbol",
        longer: "symbol",
        of_others: "other weights",
    }
    for change, told_of in ways.items():
        files = dict(small[1])
        edited(files, name, change)
        status, text = told(files, tmp_path / "x.zip")["all strings"]
        assert status == BAD and told_of in text, (change, text)
    files = dict(small[1])
    del files[name]
    found = told(files, tmp_path / "x.zip")
    assert found["suite"] == (
        BAD,
        "parity: 1 run not searched for wrong strings as far as the suite says (and 1 more)",
    )
    assert found["all strings"] == (GOOD, "5 answers of lrbench certify held against the weights")


Attack = Callable[[Files], None]


def parity(files: Files, seed: int = 0) -> str:
    return result_of(files, "parity", seed)


def beside(name: str, other: str) -> str:
    return name.replace("result.json", other)


def changed(**changes: Any) -> Attack:
    """Change what the result of a run tells."""
    return lambda files: edited(files, parity(files), lambda content: content.update(changes))


def rows(length: int, **changes: Any) -> Attack:
    """Change the score of a run at a length; of every rule, because they kept one update."""

    def change(content: dict[str, Any]) -> None:
        for row in content["evaluations"]:
            if (row["kind"], row["length"]) == ("test", length):
                row.update(changes)

    return lambda files: edited(files, parity(files), change)


def told_twice(files: Files) -> None:
    def change(content: dict[str, Any]) -> None:
        tests = [row for row in content["evaluations"] if row["kind"] == "test"]
        content["evaluations"] += [row | {"value": 1.0} for row in tests]

    edited(files, parity(files), change)


def chance(value: float) -> Attack:
    def change(content: dict[str, Any]) -> None:
        for row in content["baselines"]:
            row["value"] = value

    return lambda files: edited(files, parity(files), change)


def without(other: str) -> Attack:
    def change(files: Files) -> None:
        del files[beside(parity(files), other)]

    return change


def weights_twice(files: Files) -> None:
    mine, other = (beside(parity(files, seed), "checkpoints/last.pt") for seed in (0, 1))
    state = torch.load(io.BytesIO(files[other]), weights_only=True) | {"seed": 0}
    stream = io.BytesIO()
    torch.save(state, stream)
    files[mine] = stream.getvalue()


def another_configuration(files: Files) -> None:
    name = parity(files).rpartition("/s0/")[0] + "/config.json"
    edited(files, name, lambda content: content["protocol"].update(max_steps=50_000))


def a_second_answer(files: Files) -> None:
    name = beside(parity(files), "certificates/last.json")
    content = json.loads(files[name]) | {"verdict": "certified", "witness": None}
    files[name.replace("last", "zz")] = json.dumps(content).encode()


def witness(**changes: Any) -> Attack:
    return lambda files: edited(
        files,
        beside(parity(files), "certificates/last.json"),
        lambda content: content["witness"].update(changes),
    )


def a_longer_string(files: Files) -> None:
    """Wrong as well, and not said to be the shortest: an untrained model has many."""
    name = beside(parity(files, 1), "certificates/last.json")
    found = json.loads(files[name])["witness"]
    tokens = [*found["tokens"], *found["tokens"], 0, 0, 0]
    changes = {"tokens": tokens, "length": len(tokens), "string": "".join(map(str, tokens))}
    edited(files, name, lambda content: content["witness"].update(changes, shortest=False))


def choice(**changes: Any) -> Attack:
    return lambda files: edited(
        files, layout.MANIFEST, lambda content: content["choice"].update(changes)
    )


def table(**changes: Any) -> Attack:
    return lambda files: edited(
        files, layout.MANIFEST, lambda content: content["choice"]["table"].update(changes)
    )


# What was accepted once, the check that refuses it, and what that says.
ATTACKS: dict[str, tuple[Attack, str, str]] = {
    "a score at a further length": (rows(90, value=1.0), "scores", "s0 at 90"),
    "a score of one string": (rows(500, n=1), "suite", "one at each of the suite's lengths"),
    "scores told twice": (told_twice, "suite", "one at each of the suite's lengths"),
    "less than chance": (chance(-1e6), "suite", "chance is no accuracy below 1"),
    "all is chance": (chance(1.0), "suite", "chance is no accuracy below 1"),
    "a lower chance": (chance(0.25), "models", "chance is not what is measured here"),
    "more updates": (changed(steps=120), "suite", "120 updates; the suite has 12"),
    "fewer parameters": (changed(parameters=7), "models", "parameters 7 is told"),
    "no state": (changed(state_size=None), "models", "state_size None is told"),
    "no weights": (without("checkpoints/last.pt"), "suite", "no checkpoints/last.pt of it"),
    "weights of another seed": (weights_twice, "suite", "has the weights of"),
    "another model's name": (changed(model="gru"), "fingerprints", "told as gru and as lstm"),
    "strings of another seed": (changed(data_seed=7), "fingerprints", "data seed 7 is told"),
    "another configuration": (another_configuration, "fingerprints", "its configuration gives"),
    "a longer witness": (witness(length=4990), "all strings", "is not of the length"),
    "another string": (witness(string="01"), "all strings", "is not of the length"),
    "a witness that is not the shortest": (a_longer_string, "all strings", "wrong on a string of"),
    "another rule": (choice(rule="id"), "suite", "the bundle's rule is 'id'"),
    "no suite": (table(kind="paper"), "suite", "the bundle's kind of table is 'paper'"),
    "another protocol": (table(protocol="fan2024"), "suite", "protocol is 'fan2024'"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_was_changed_is_refused(name: str, small: tuple[Path, Files], tmp_path: Path) -> None:
    attack, what, text = ATTACKS[name]
    files = dict(small[1])
    attack(files)
    status, found = told(files, tmp_path / "x.zip")[what]
    assert status == BAD and text in found


def test_runs_of_a_suite_that_are_no_entry_say_so(
    small: tuple[Path, Files], tmp_path: Path
) -> None:
    files = dict(small[1])
    choice(table=None)(files)
    found = told(files, tmp_path / "x.zip")
    assert "suite" not in found
    assert found["suite_v1"] == (OPEN, "runs of it that are no entry: its rules were not looked at")


def test_a_second_answer_of_a_checkpoint_counts_for_nothing(
    small: tuple[Path, Files], tmp_path: Path
) -> None:
    files = dict(small[1])
    a_second_answer(files)
    with pytest.raises(UserError, match=r"zz\.json: is of the rule last"):
        told(files, tmp_path / "x.zip")


def test_the_lock_of_a_suite_is_this_lrbenchs(small: tuple[Path, Files], tmp_path: Path) -> None:
    files = dict(small[1])
    table(name="../small")(files)
    with pytest.raises(UserError, match=r"suite '\.\./small' has no lock"):
        told(files, tmp_path / "x.zip")


def test_a_model_that_answers_before_it_is_trained_is_refused(
    small: tuple[Path, Files], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = small[1]
    run = parity(files).removeprefix("runs/").removesuffix("/result.json")
    result = json.loads(files[parity(files)])
    assert built_otherwise({run: result}) == []
    monkeypatch.setattr(entry, "UNTRAINED", -1.0)  # as if it knew a little
    (line,) = built_otherwise({run: result})
    assert line.startswith(f"{run}: its model answers 0.") and "before it is trained" in line


def test_an_entry_of_the_division_open_is_held_against_its_own_settings(
    small: tuple[Path, Files], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its budget is its own; test strings, seeds and wrong strings are the suite's."""
    folder, label = small[0], "lstm max_steps=9"
    monkeypatch.chdir(folder)
    words = ["protocol.max_steps=9", "output_dir=further"]
    assert run_searched(SweepRequest.read(words, "small.yaml", None), False, False) == 0
    chosen = TableChoice(load_table("small.yaml"), (label,), (), "last")
    files = unpacked_of(pack(folder / "further", chosen, "x.zip").data, tmp_path)
    found = told(dict(files), tmp_path / "x.zip")
    assert {status for status, _ in found.values()} == {GOOD}, found
    assert found["suite"][1] == f"{label} (division open): every rule of small is kept"
    monkeypatch.setattr(entry, "UNTRAINED", -1.0)  # it may know the rule from its maker
    assert told(dict(files), tmp_path / "x.zip")["models"][0] == GOOD
    lost = {name: data for name, data in files.items() if "/s1/" not in name}
    assert told(lost, tmp_path / "x.zip")["suite"][1].startswith("parity: no run of seed 1")
    longer = dict(files)
    edited(longer, parity(longer), lambda content: content.update(steps=90))
    assert told(longer, tmp_path / "x.zip")["suite"] == (
        BAD,
        "parity, seed 0: 90 updates; its settings have 9",
    )


def test_a_missing_seed_is_refused(small: tuple[Path, Files], tmp_path: Path) -> None:
    files = dict(small[1])
    folder = result_of(files, "parity", 1).removesuffix("result.json")
    for name in [name for name in files if name.startswith(folder)]:
        del files[name]
    assert told(files, tmp_path / "x.zip")["suite"] == (BAD, "parity: no run of seed 1")


def test_another_string_hash_is_refused(small: tuple[Path, Files], tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["data"]["500"]["sha256"]["strings"] = "0" * 64

    files = dict(small[1])
    edited(files, result_of(files, "parity", 1), change)
    status, text = told(files, tmp_path / "x.zip")["suite"]
    assert (status, text.partition(" (and")[0]) == (
        BAD,
        "1 runs tested on other strings than the lock's, or without their hashes",
    )


def test_a_better_score_than_the_checkpoints_is_refused(
    small: tuple[Path, Files], tmp_path: Path
) -> None:
    def change(content: dict[str, Any]) -> None:
        for row in content["evaluations"]:
            if row["kind"] == "test" and row["length"] == 500:
                row["value"] = 1.0

    files = dict(small[1])
    edited(files, result_of(files, "parity", 2), change)
    found = told(files, tmp_path / "x.zip")
    assert found["scores"][0] == BAD
    assert "s2 at 500" in found["scores"][1]
    assert found["table.md"][0] == BAD


def test_a_checkpoint_of_another_run_is_refused(small: tuple[Path, Files], tmp_path: Path) -> None:
    files = dict(small[1])
    mine, other = (
        result_of(files, "parity", seed).replace("result.json", "checkpoints/last.pt")
        for seed in (0, 1)
    )
    files[mine] = files[other]
    found = told(files, tmp_path / "x.zip")
    assert BAD in {status for what, (status, _) in found.items() if what.endswith("s0")}


def test_a_file_that_was_changed_alone_is_refused(
    small: tuple[Path, Files], tmp_path: Path
) -> None:
    files = dict(small[1])
    edited(files, result_of(files, "parity", 0), lambda content: content.update(seed=7))
    path = tmp_path / "x.zip"
    path.write_bytes(packed(files, path.name))
    with pytest.raises(UserError, match="is not what was packed"):
        open_bundle(path)
