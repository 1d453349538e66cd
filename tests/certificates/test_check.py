"""Nothing unsound is accepted: certificates that were damaged, and files that are none."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lrbench.certificates import check
from lrbench.certificates.check.reading import MOST_BYTES

from .certificate import Certificate


@pytest.fixture
def sum5(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path, "sum", 5)


def narrower(mine: Certificate, part: float, node: int | None = None) -> None:
    """Cut boxes by a part of their width: all of them, or the widest side of one."""
    width = mine.arrays["hi"] - mine.arrays["lo"]
    if node is None:
        mine.arrays["hi"] -= part * width
        return
    side = int(width[node].argmax())
    mine.arrays["hi"][node, side] -= part * width[node, side]


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Certificate], None]:
    """Change an array and sign the weights again."""

    def damage(mine: Certificate) -> None:
        mine.arrays[name] = change(mine.arrays[name].copy())
        mine.sign()

    return damage


def put(name: str, place: Any, value: Any) -> Callable[[Certificate], None]:
    def damage(mine: Certificate) -> None:
        mine.arrays[name][place] = value

    return damage


def claim(**news: Any) -> Callable[[Certificate], None]:
    return lambda mine: mine.claim.update(news)


def exchanged(array: Any) -> Any:
    array[[0, 1]] = array[[1, 0]]
    return array


def noisy(array: Any) -> Any:
    generator = np.random.default_rng(0)
    return (array * (1 + 0.03 * generator.standard_normal(array.shape))).astype(np.float32)


OWN, HEAD = "w/mixers.0.network.weight_hh_l0", "w/head.0.weight"
DAMAGES: dict[str, tuple[Callable[[Certificate], None], str]] = {
    "a side cut by a fifth": (lambda mine: narrower(mine, 0.2, 7), "an image leaves its box"),
    "all boxes narrower": (lambda mine: narrower(mine, 0.02), "an image leaves its box"),
    "boxes are the cube": (
        lambda mine: mine.arrays.update(
            lo=np.full_like(mine.arrays["lo"], -1.1), hi=np.full_like(mine.arrays["hi"], 1.1)
        ),
        "right answer does not lead|variance may be rounding",
    ),
    "an infinite side": (put("hi", (3, 3), np.inf), "not finite"),
    "NaN": (put("lo", (3, 3), np.nan), "not finite"),
    "lo above hi": (put("lo", (3, 3), 2.0), "lo above hi"),
    "a successor exchanged": (
        lambda mine: mine.arrays["next"].__setitem__((9, 0), mine.arrays["next"][9, 1]),
        "two states of the task at one node",
    ),
    "all successors one": (changed("next", np.zeros_like), "two states of the task|at one node"),
    "a successor out of range": (put("next", (2, 2), 31), "no node"),
    "a successor -1": (put("next", (2, 2), -1), "no node"),
    "another start box": (
        lambda mine: (put("lo", 0, 0.5)(mine), put("hi", 0, 0.6)(mine))[0],
        "the start lies outside",
    ),
    "another modulus": (
        claim(task={"name": "sum", "settings": {"modulus": 4}, "version": 1}),
        "successors of another shape",
    ),
    "another task": (
        claim(task={"name": "even_pair", "settings": {"modulus": 5}, "version": 1}),
        "an automaton of another task",
    ),
    "another task, without its automaton": (
        lambda mine: (
            claim(task={"name": "even_pair", "settings": {"modulus": 5}, "version": 1})(mine),
            [mine.arrays.pop(f"task/{part}") for part in ("start", "edges", "answers")],
        )[0],
        "another number of classes",
    ),
    "an unknown task": (
        lambda mine: (
            claim(task={"name": "listops", "settings": {"modulus": 5}, "version": 1})(mine),
            [mine.arrays.pop(f"task/{part}") for part in ("start", "edges", "answers")],
        )[0],
        "not know",
    ),
    "another model": (claim(model={"name": "gru"}), "a model that this checker does not know"),
    "another arithmetic": (claim(arithmetic={"unit": 2.0**-8}), "another arithmetic"),
    "no proof": (claim(verdict="open"), "it proves nothing"),
    "an old digest": (put(OWN, (0, 0), 1e-3), "not those of the digest"),
    "half the recurrence": (changed(OWN, lambda a: a * np.float32(0.5)), "an image leaves"),
    "noisy weights": (changed(OWN, noisy), "an image leaves"),
    "rows of the head exchanged": (changed(HEAD, exchanged), "does not lead"),
    "a bias": (changed("w/head.0.bias", lambda a: a + np.eye(5)[2] * 200), "float32|not lead"),
    "a large bias": (
        changed("w/head.0.bias", lambda a: (a + np.eye(5)[2] * 200).astype(np.float32)),
        "does not lead",
    ),
    "a NaN weight": (changed(OWN, lambda a: a * np.float32("nan")), "not finite"),
    "weights of another type": (changed(OWN, lambda a: a.astype(np.float64)), "must be float32"),
    "boxes of another type": (changed("lo", lambda a: a.astype(np.float32)), "must be float64"),
    "another array": (lambda mine: mine.arrays.update({"w/more": np.ones(1, np.float32)}), "dige"),
    "numbers that overflow": (
        lambda mine: mine.arrays.update(
            lo=np.full_like(mine.arrays["lo"], -1e308), hi=np.full_like(mine.arrays["hi"], 1e308)
        ),
        "float32 might overflow",
    ),
    "logits that overflow float32": (
        changed(HEAD, lambda a: a * np.float32(1e37)),
        "head.0.weight is too large",
    ),
    "a lead that flushed subnormals could take": (
        lambda mine: (
            changed(HEAD, lambda a: (a.astype(float) * 1e-37).astype(np.float32))(mine),
            changed("w/head.0.bias", lambda a: (a.astype(float) * 1e-37).astype(np.float32))(mine),
        )[0],
        "does not lead",
    ),
    "no layers": (
        lambda mine: mine.claim.update(model={**mine.claim["model"], "layers": 0}),
        "a number of layers that is none",
    ),
    "layers in words": (
        lambda mine: mine.claim.update(model={**mine.claim["model"], "layers": "one"}),
        "a number of layers that is none",
    ),
    "a width of nothing": (
        lambda mine: mine.claim.update(model={**mine.claim["model"], "width": 0}),
        "a width that is none",
    ),
    "half a unit": (
        lambda mine: mine.claim["model"]["mixer"].update(units=26.5),
        "mixer.units",
    ),
    "very many layers": (
        lambda mine: mine.claim.update(model={**mine.claim["model"], "layers": 10**12}),
        "a number of layers that is none",
    ),
    "a machine that takes all memory": (
        claim(task={"name": "mod_arith", "settings": {"modulus": 1000}, "version": 1}),
        "successors of another shape",
    ),
    "settings that are none": (
        claim(task={"name": "sum", "settings": 5, "version": 1}),
        "of another kind",
    ),
    "a task of more classes": (
        lambda mine: (
            changed(HEAD, lambda a: a[:3])(mine),
            changed("w/head.0.bias", lambda a: a[:3])(mine),
        )[0],
        "another number of classes",
    ),
    "a scalar for a matrix": (changed(OWN, lambda a: a[0, 0]), "of 0 axes"),
    "no boxes": (lambda mine: mine.arrays.__delitem__("lo"), "must be there"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_what_was_tampered_with_is_refused(sum5: Certificate, name: str) -> None:
    damage, why = DAMAGES[name]
    damage(sum5)
    with pytest.raises(check.Refused, match=why):
        sum5.checked()


def test_damaged_files_are_refused(sum5: Certificate) -> None:
    sum5.checked()
    arrays = sum5.file.with_name("last.npz")
    content, text = arrays.read_bytes(), sum5.file.read_text()
    for damaged in (b"", content[:1000], b"PK" + content[2:500]):
        arrays.write_bytes(damaged)
        sha = hashlib.sha256(damaged).hexdigest()
        signed = {**json.loads(text), "arrays": {"file": "last.npz", "sha256": sha}}
        sum5.file.write_text(json.dumps(signed))
        with pytest.raises(check.Refused):
            check.check(sum5.file)
    arrays.write_bytes(content)
    for bad in ("", "[]", text[:300], "[" * 100_000, '{"format": "lrbench-certificate"}'):
        sum5.file.write_text(bad)
        with pytest.raises(check.Refused):
            check.check(sum5.file)
    for name in ("../last.npz", "/etc/passwd", "last.json", "gone.npz"):
        sum5.file.write_text(
            json.dumps({**json.loads(text), "arrays": {"file": name, "sha256": ""}})
        )
        with pytest.raises(check.Refused):
            check.check(sum5.file)


def test_pickles_are_not_read(sum5: Certificate) -> None:
    sum5.arrays["lo"] = np.array([{"a": 1}], dtype=object)
    with pytest.raises(check.Refused, match="cannot be read"):
        sum5.checked()


def test_damaged_arrays_are_refused_whatever_a_parser_raises(sum5: Certificate) -> None:
    """An array's header of any shape or none, and every 97th byte changed: refused, or unharmed."""
    sum5.checked()
    arrays = sum5.file.with_name("last.npz")
    whole = arrays.read_bytes()
    for header in (b"{'descr': (", b"{'descr': '<f8', 'fortran_order': False, 'shape': (10**15,)}"):
        length = len(header).to_bytes(2, "little")
        rewritten(arrays, {"lo.npy": b"\x93NUMPY\x01\x00" + length + header})
        resign(sum5.file, arrays)
        with pytest.raises(check.Refused, match=r"cannot be read|of another kind"):
            check.check(sum5.file)
    arrays.write_bytes(whole)
    refused = 0
    for place in range(0, len(whole), 97):
        arrays.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        resign(sum5.file, arrays)
        try:
            check.check(sum5.file)
        except check.Refused:
            refused += 1
    assert refused > 100


@pytest.mark.slow
def test_two_arrays_of_one_name_and_bombs_are_refused(sum5: Certificate) -> None:
    sum5.checked()
    arrays = sum5.file.with_name("last.npz")
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(arrays, "a") as archive,
    ):
        archive.writestr("lo.npy", b"")
    resign(sum5.file, arrays)
    with pytest.raises(check.Refused, match="two arrays of one name"):
        check.check(sum5.file)
    with zipfile.ZipFile(arrays, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lo.npy", bytes(MOST_BYTES + 1))
    resign(sum5.file, arrays)
    with pytest.raises(check.Refused, match="too large"):
        check.check(sum5.file)


@pytest.mark.parametrize("name", ["lo", "w/norm.bias", "read_me.txt"])
def test_members_that_numpy_takes_for_others_are_refused(sum5: Certificate, name: str) -> None:
    """To numpy `lo` and `lo.npy` are both the array lo: one file would hold two proofs."""
    sum5.checked()
    arrays = sum5.file.with_name("last.npz")
    with zipfile.ZipFile(arrays) as archive:
        content = archive.read("lo.npy")
    with zipfile.ZipFile(arrays, "a") as archive:
        archive.writestr(name, content)
    resign(sum5.file, arrays)
    with pytest.raises(check.Refused, match=r"a member that is no .npy array"):
        check.check(sum5.file)


def rewritten(arrays: Path, news: dict[str, bytes]) -> None:
    """Write an archive again, some of its members being others."""
    with zipfile.ZipFile(arrays) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(arrays, "w") as archive:
        for name, value in (content | news).items():
            archive.writestr(name, value)


def resign(file: Path, arrays: Path) -> None:
    content = json.loads(file.read_text())
    content["arrays"]["sha256"] = hashlib.sha256(arrays.read_bytes()).hexdigest()
    file.write_text(json.dumps(content))


def test_the_checker_needs_numpy_alone(sum5: Certificate, root: Path) -> None:
    sum5.checked()
    folder = sum5.file.parent / "elsewhere"
    shutil.copytree(root / "lrbench" / "certificates" / "check", folder / "check")
    blocked = (
        "import runpy, sys\n"
        "for name in ('torch', 'lrbench', 'omegaconf', 'pandas', 'scipy', 'typer'):\n"
        "    sys.modules[name] = None\n"
        f"sys.path.insert(0, {str(folder)!r})\n"
        "sys.argv = ['check', sys.argv[1]]\n"
        "runpy.run_module('check', run_name='__main__')\n"
    )
    command = [sys.executable, "-I", "-c", blocked, str(sum5.file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    first, *others = ended.stdout.splitlines()
    assert first.startswith("holds: 31 nodes, least margin ")
    # and it says what was proved, of which weights
    assert others[0] == "task: sum, modulus=5, version 1"
    assert others[1].startswith("  by its rule, made anew: 5 states, 5 symbols, 25 edges, sha256 ")
    assert others[2].startswith("model: rnn, width=64, layers=1, backbone.name=bare, ")
    assert "mixer.units=26" in others[2]
    assert others[3] == f"weights: sha256 {sum5.claim['weights_sha256']}"
    sum5.file.write_text("{}")
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and ended.stderr.startswith("refused: ")


def test_a_head_of_classes_that_the_task_has_not_is_refused_at_once(tmp_path: Path) -> None:
    """Every answer is held against every class: a million of them would take for ever."""
    certificate = Certificate(tmp_path, "sum", 3)
    for part in ("w/head.0.weight", "w/head.0.bias"):
        whole = certificate.arrays[part]
        certificate.arrays[part] = np.concatenate([whole, whole - 1])
    certificate.sign()
    with pytest.raises(check.Refused, match="another number of classes"):
        certificate.checked()


@pytest.mark.parametrize("limit", ["MOST_NODES", "MOST_SYMBOLS"])
def test_a_limit_is_the_most_that_is_taken(
    sum5: Certificate, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = {"MOST_NODES": 31, "MOST_SYMBOLS": 5}[limit]
    monkeypatch.setattr(check, limit, size)
    assert sum5.checked()["nodes"] == 31
    monkeypatch.setattr(check, limit, size - 1)
    with pytest.raises(check.Refused, match=r"too many nodes|another shape"):
        sum5.checked()


def test_a_published_proof_of_a_run_trained_again_holds(tmp_path: Path) -> None:
    """`lrbench publish --certificates` adds that key."""
    mine = Certificate(tmp_path, "parity", 2)
    mine.claim["trained_again"] = "same scores"
    assert mine.checked()["margin"] > 0
    mine.claim["trained_again"] = 1
    with pytest.raises(check.Refused, match="trained_again of the certificate is of another kind"):
        mine.checked()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(check.Refused, match="there is no such file"):
        check.check(tmp_path / "last.json")


@pytest.mark.parametrize("name", ["a pipe", "/dev/zero"])
def test_what_is_no_plain_file_is_not_read(tmp_path: Path, name: str) -> None:
    file = tmp_path / name  # an absolute name stands for itself
    if not file.exists():
        os.mkfifo(file)
    with pytest.raises(check.Refused, match="no plain file"):
        check.check(file)


@pytest.mark.parametrize("p", [1e39, 2e6, 0.5, float("nan"), True, None, "2"])
def test_a_norm_that_float32_does_not_know_is_refused(tmp_path: Path, p: Any) -> None:
    """With p = 1e39 the model is not a number on every string."""
    mine = Certificate(tmp_path, "sum", 3, 2.0, "blockdiag")
    assert mine.checked()["margin"] > 0
    mine.claim["model"]["mixer"] |= {"p": p, "constraint": "column_clip"}
    with pytest.raises(check.Refused, match=r"norm of columns|mixer\.p|no number of JSON"):
        mine.checked()


@pytest.mark.parametrize("kind", ["rnn", "elman", "gru", "lstm", "blockdiag"])
def test_weights_of_other_axes_are_refused(tmp_path: Path, kind: str) -> None:
    """A bias of two axes would be one bias a symbol, which no model has."""
    mine = Certificate(tmp_path, "sum", 3, 4.0, kind)
    for name in sorted(mine.weights()):
        kept = mine.arrays[f"w/{name}"]
        for other in (kept[None], np.stack([kept] * 3)):
            mine.arrays[f"w/{name}"] = other
            mine.sign()
            with pytest.raises(check.Refused, match="axes"):
                mine.checked()
        mine.arrays[f"w/{name}"] = kept


def test_a_width_that_takes_all_memory_is_refused(tmp_path: Path) -> None:
    """The margin makes a matrix of the norm's width, squared: 80 GB of 100,000."""
    mine = Certificate(tmp_path, "sum", 3, 2.0, "blockdiag")
    mine.claim["model"]["mixer"]["blocks"] = 1
    wide = 100_000
    mine.arrays["w/mixers.0.out.weight"] = np.zeros((wide, 3), np.float32)
    mine.arrays["w/mixers.0.out.bias"] = np.zeros(wide, np.float32)
    mine.arrays["w/norm.weight"] = mine.arrays["w/norm.bias"] = np.zeros(wide, np.float32)
    mine.arrays["w/head.0.weight"] = np.zeros((3, wide), np.float32)
    mine.arrays["w/embedding.weight"] = np.zeros((3, wide), np.float32)
    mine.claim["model"] |= {"width": wide, "backbone": {**mine.config["backbone"]}}
    mine.claim["model"]["backbone"]["embed"] = "embedding"
    for name in ("transition", "value"):
        maps = [k for k in mine.arrays if k.startswith(f"w/mixers.0.{name}.") and "0.weight" in k]
        for k in maps:
            mine.arrays[k] = np.zeros((len(mine.arrays[k]), wide), np.float32)
    mine.sign()
    with pytest.raises(check.Refused, match="more than 4,096 outputs"):
        mine.checked()
