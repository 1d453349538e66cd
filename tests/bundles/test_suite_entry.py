"""An entry of a small suite through the whole path, and four that were tampered with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suite_lock import lock_of
from lrbench.bundles import layout
from lrbench.bundles.archive import packed, sha256, unpacked
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.pack import pack
from lrbench.bundles.verify import BAD, GOOD, Options, open_bundle, verify
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
  "protocol.test.lengths=[40,500]", protocol.test.strings=400]
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
    findings, _ = verify(open_bundle(path), Options(strings=400, device="cpu"))
    return {one.what: (one.status, one.text) for one in findings}


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
        content["witness"].update(tokens=tokens, length=len(tokens))

    def of_others(content: dict[str, Any]) -> None:
        content["weights_sha256"] = "0" * 64

    ways = {
        hidden: f"wrong on a string of {len(shortest['tokens'])} symbol",
        longer: "symbol",
        of_others: "another weights",
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
        "parity: 1 run not searched for wrong strings as far as the suite says",
    )
    assert found["all strings"] == (GOOD, "5 answers of lrbench certify held against the weights")


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
