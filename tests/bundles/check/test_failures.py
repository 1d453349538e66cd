"""A proof in a bundle: it travels with its boxes, goes through the checker again, or is refused."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench.bundles import layout
from lrbench.bundles.archive import packed, sha256, unpacked
from lrbench.bundles.check import failures
from lrbench.bundles.check.verify import BAD, GOOD, OPEN, Options, open_bundle, verify
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.contents import certificate_files
from lrbench.bundles.pack import pack
from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.runs.evaluate.certify import certify_run, recheck
from lrbench.runs.folder import checkpoints
from lrbench.runs.train.job import run_cell
from tests.bundles.conftest import TINY, name_a_plugin

Files = dict[str, bytes]
EXACT = [
    *(word for word in TINY if not word.startswith(("task=", "model", "protocol.max_steps"))),
    *("task=parity", "model=rnn", "model.mixer.init=exact", "model.width=8"),
    *("model.backbone.name=bare", "protocol.max_steps=1", "optim.lr=1e-9"),
]


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Files]:
    """A run that is right by construction, certified, and its bundle."""
    folder = tmp_path_factory.mktemp("proved")
    (outcome,) = run_cell(composed([*EXACT, "trials=1", f"output_dir={folder}"]))
    assert certify_run(outcome.folder, "last").verdict == "certified"
    path = folder / "a.zip"
    path.write_bytes(pack(folder, TableChoice(rule="last"), path.name).data)
    return outcome.folder, unpacked(path)


def told(files: Files, path: Path, trust: bool = False) -> tuple[str, str]:
    manifest = json.loads(files.pop(layout.MANIFEST))
    manifest["files"] = {name: {"sha256": sha256(data)} for name, data in files.items()}
    files[layout.MANIFEST] = json.dumps(manifest).encode()
    path.write_bytes(packed(files, path.name))
    findings, _ = verify(open_bundle(path), Options(100, device="cpu", trust_plugins=trust))
    return next((one.status, one.text) for one in findings if one.what == "all strings")


def test_a_proof_is_checked_again_and_its_boxes_cannot_be_changed(
    proved: tuple[Path, Files], tmp_path: Path
) -> None:
    files = dict(proved[1])
    assert told(files, tmp_path / "a.zip") == (
        GOOD,
        "1 answer of lrbench certify held against the weights",
    )
    (boxes,) = (name for name in files if name.endswith("certificates/last.npz"))
    damaged = bytearray(files[boxes])
    damaged[len(damaged) // 2] ^= 1
    status, text = told(dict(proved[1]) | {boxes: bytes(damaged)}, tmp_path / "b.zip")
    assert status == BAD and "its proof is refused" in text
    without = dict(proved[1])
    del without[boxes]
    status, text = told(without, tmp_path / "c.zip")
    assert status == BAD and "its proof is refused" in text


@pytest.mark.usefixtures("forgotten")
def test_weights_of_a_plugin_are_put_to_the_proof_only_where_it_is_trusted(
    proved: tuple[Path, Files], tmp_path: Path
) -> None:
    files = dict(proved[1])
    name_a_plugin(files, b'from pathlib import Path\nPath("ran").write_text("!")\n')
    assert told(dict(files), tmp_path / "a.zip") == (
        OPEN,
        "told_plugin was not run; read it, then add --trust-plugins",
    )
    assert not (tmp_path / "ran").exists()
    status, text = told(dict(files), tmp_path / "b.zip", trust=True)
    assert (tmp_path / "ran").exists()
    # These weights were made without it, which is seen as soon as they are looked at.
    assert status == BAD and "the source of plugin 'told_plugin' was changed" in text


def test_what_is_no_certificate_is_not_packed(proved: tuple[Path, Files], tmp_path: Path) -> None:
    file = tmp_path / "certificates" / "last.json"
    assert certificate_files(tmp_path, "last") == []
    file.parent.mkdir()
    content: dict[str, Any] = json.loads((proved[0] / "certificates" / "last.json").read_text())
    names = ["certificates/last.json", "certificates/last.npz"]
    assert certificate_files(proved[0], "last") == names
    for damaged in ("{", "[]", json.dumps(content | {"verdict": "maybe"})):
        file.write_text(damaged)
        with pytest.raises(UserError, match=r"last\.json (cannot be read|holds|is no)"):
            certificate_files(tmp_path, "last")


def test_an_answer_of_the_same_weights_is_packed_for_their_rule(
    proved: tuple[Path, Files], tmp_path: Path
) -> None:
    """A training answers for its last weights; a report shows that for every rule of them."""
    folder = Path(shutil.copytree(proved[0].parents[4], tmp_path / "runs"))
    made = pack(folder, TableChoice(rule="best"), "best.zip")
    (tmp_path / "best.zip").write_bytes(made.data)
    files = unpacked(tmp_path / "best.zip")
    answers = sorted(Path(name).name for name in files if "/certificates/" in name)
    assert (answers, made.answers_left) == (["best.json", "last.npz"], [])
    status, text = told(files, tmp_path / "a.zip")
    assert (status, text) == (GOOD, "1 answer of lrbench certify held against the weights")
    # of other weights after as many updates it says nothing
    (path,) = folder.rglob("best.pt")
    state = checkpoints.load(path)
    for value in state["model"].values():
        value += 1
    torch.save(state, path)
    made = pack(folder, TableChoice(rule="best"), "best.zip")
    (tmp_path / "best.zip").write_bytes(made.data)
    assert not [name for name in unpacked(tmp_path / "best.zip") if "/certificates/" in name]
    assert made.answers_left == [proved[0].relative_to(proved[0].parents[4]).as_posix()]


@pytest.fixture
def wrong(runs: Path, tmp_path: Path) -> tuple[Files, str]:
    """A bundle of a run with a short wrong string, and its certificate's name."""
    folder = next(runs.rglob("s0"))
    assert certify_run(folder, "best").verdict == "wrong"
    path = tmp_path / "wrong.zip"
    path.write_bytes(pack(runs, TableChoice(), path.name).data)
    files = unpacked(path)
    (name,) = (name for name in files if name.endswith("certificates/best.json"))
    return files, name


def a_longer_one(certificate: dict[str, Any], folder: Path, length: int) -> dict[str, Any]:
    """Say that a longer string, which the weights get wrong as well, is the shortest."""
    file = folder / "longer.json"
    for tokens in itertools.product(range(2), repeat=length):
        string = "".join(map(str, tokens))
        witness = {"tokens": list(tokens), "length": length, "string": string, "shortest": True}
        told = certificate | {"witness": certificate["witness"] | witness}
        file.write_text(json.dumps(told))
        if recheck(file, folder).confirmed:
            return told
    raise AssertionError("the weights of a few updates are right on all of them")


def test_a_string_that_is_not_the_shortest_is_refused(
    wrong: tuple[Files, str], runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, name = wrong
    honest = json.loads(files[name])
    assert honest["witness"]["shortest"] and honest["witness"]["length"] < 5
    held = (GOOD, "1 answer of lrbench certify held against the weights")
    assert told(dict(files), tmp_path / "a.zip") == held
    longer = json.dumps(a_longer_one(honest, next(runs.rglob("s0")), 5)).encode()
    status, text = told(dict(files) | {name: longer}, tmp_path / "b.zip")
    assert status == BAD and "s0: wrong on a string of" in text
    # beyond so many strings nobody looks, and that is said
    monkeypatch.setattr(failures, "ASKED", 1)
    manifest = dict(files) | {name: longer}
    assert told(dict(manifest), tmp_path / "c.zip") == held
    findings, _ = verify(open_bundle(tmp_path / "c.zip"), Options(20, device="cpu"))
    assert (OPEN, "of 1 answer that no shorter string is wrong") in [
        (one.status, one.text) for one in findings if one.what == "all strings"
    ]


def test_an_answer_that_found_nothing_is_not_held_against_the_weights(
    wrong: tuple[Files, str], tmp_path: Path
) -> None:
    files, name = wrong
    hidden = json.loads(files[name]) | {"verdict": "open", "witness": None}
    changed = dict(files) | {name: json.dumps(hidden).encode()}
    assert told(changed, tmp_path / "a.zip") == (
        OPEN,
        "of 1 answer that no string was found wrong",
    )


def test_an_answer_that_is_no_json_is_no_traceback(
    wrong: tuple[Files, str], tmp_path: Path
) -> None:
    files, name = wrong
    odd = files[name].replace(b'"modulus": 5', b'"modulus": Infinity')
    assert odd != files[name]
    status, text = told(dict(files) | {name: odd}, tmp_path / "a.zip")
    assert status == BAD and "Infinity is not JSON" in text
