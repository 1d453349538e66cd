"""A campaign of faults over run folders: every one of them is accounted for, none is a crash."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lrbench.errors import UserError
from lrbench.report.output.render import render
from lrbench.report.runs.collect import collect
from lrbench.report.runs.collection import Collection

Write = Callable[..., Path]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([10**400, -(2**63), 2**63, 1e308, "\ud800", "accuracy", "best", "test"]),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside),
    max_leaves=6,
)


def accounted(found: Collection, root: Path, folders: list[Path]) -> None:
    """Every run folder is used, not used or unfinished: exactly one of these."""
    used = [root / folder for folder in found.runs["folder"]]
    not_used = [
        path.parent if path.name in ("result.json", "failure.json") else path
        for path, _ in found.problems
        if path.name != "config.json"
    ]
    assert sorted([*used, *not_used, *found.unfinished]) == sorted(folders)
    assert all(reason for _, reason in found.problems)
    assert set(found.settings) == set(found.runs["folder"])
    assert set(found.frame["folder"]) == set(found.runs["folder"])


def nested(depth: int, inside: object = 0) -> Any:
    for number in range(depth):
        inside = {"a": inside} if number % 2 else [inside]
    return {"a": inside}


def replaced(content: Any, rng: random.Random, value: Any) -> Any:
    """Return json content with one place in it, at random, replaced by `value`."""
    places: list[tuple[Any, Any]] = []
    waiting = [content]
    while waiting:
        part = waiting.pop()
        keys = list(part) if isinstance(part, dict) else range(len(part))
        places += [(part, key) for key in keys]
        waiting += [part[key] for key in keys if isinstance(part[key], dict | list)]
    part, key = rng.choice(places)
    part[key] = value
    return content


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


@pytest.fixture(scope="module")
def three(place: Path, result: Callable[..., dict[str, Any]]) -> list[Path]:
    """A finished run, a failed one and another finished one beside them, of one cell."""
    folders = [place / "sum/blockdiag/fan2024/aaaaaaaaaaaa" / f"s{seed}" for seed in range(3)]
    for seed, folder in enumerate(folders):
        folder.mkdir(parents=True)
        name = "failure.json" if seed == 1 else "result.json"
        failure = {"schema": 1, "error": "x", "type": "ValueError", "step": 3}
        (folder / name).write_text(json.dumps(failure if seed == 1 else result(seed=seed)))
    (folders[0].parent / "config.json").write_text(json.dumps(result()["config"]))
    return folders


def damaged_file(three: list[Path], which: int) -> Path:
    return [three[0] / "result.json", three[1] / "failure.json", three[0].parent / "config.json"][
        which
    ]


def with_damage(place: Path, three: list[Path], which: int, data: bytes) -> Collection:
    """Collect with one of the json files replaced by `data`, and put it back."""
    path = damaged_file(three, which)
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        found = collect(place)
        assert render(found, "csv").encode()
        accounted(found, place, three)
        return found
    finally:
        path.write_bytes(before)


@given(st.integers(0, 2), st.integers(0, 2**32), JSON)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_anywhere(
    place: Path, three: list[Path], which: int, seed: int, value: object
) -> None:
    content = json.loads(damaged_file(three, which).read_text())
    changed = replaced(content, random.Random(seed), value)
    with_damage(place, three, which, json.dumps(changed).encode())


@given(st.integers(0, 2), st.floats(0, 1), st.binary(max_size=4), st.booleans())
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cut_or_changed_anywhere(
    place: Path, three: list[Path], which: int, where: float, data: bytes, cut: bool
) -> None:
    whole = damaged_file(three, which).read_bytes()
    at = int(where * (len(whole) - 1))
    rest = b"" if cut else whole[at + len(data) :]
    with_damage(place, three, which, whole[:at] + data + rest)


WHOLE = {
    "nothing": b"",
    "blanks and zeros": b" \n" + b"\0" * 100,
    "list": b"[null]",
    "object": b"{}",
    "schema 0": b'{"schema": 0}',
    "schema 99": b'{"schema": 99}',
    "schema true": b'{"schema": true}',
    "schema 1.0": b'{"schema": 1.0}',
    "NaN": b"NaN",
    "deep": b"[" * 10**5,
    "deep object": json.dumps(nested(900)).encode(),
    "many digits": b"1" * 10**4,
    "latin-1": '{"task": "für"}'.encode("latin-1"),
    "utf-16": '{"schema": 1}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "pickle": b"\x80\x04\x95\x0c\x00\x00\x00",
}


@pytest.mark.parametrize("which", range(2))
@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE)
def test_another_content(place: Path, three: list[Path], which: int, data: bytes) -> None:
    found = with_damage(place, three, which, data)
    assert len(found.problems) == 1
    assert len(found.runs) == 2


@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE)
def test_a_configuration_of_a_failed_run(place: Path, three: list[Path], data: bytes) -> None:
    found = with_damage(place, three, 2, data)
    assert len(found.runs) == 3


@pytest.mark.parametrize("depth", [20, 33, 300, 900])
@pytest.mark.parametrize("key", ["config", "versions"])
def test_deep_settings(place: Path, three: list[Path], depth: int, key: str) -> None:
    content = json.loads(damaged_file(three, 0).read_text()) | {key: nested(depth)}
    found = with_damage(place, three, 0, json.dumps(content).encode())
    assert len(found.runs) == (3 if depth == 20 else 2)


def test_one_broken_configuration_is_named_once(runs: Path, fail: Write) -> None:
    for seed in range(3):
        folder = fail(seed=seed)
    (folder.parent / "config.json").write_text("{")
    found = collect(runs)
    assert (len(found.runs), len(found.problems)) == (3, 1)


def of_folder(path: Path) -> None:
    path.mkdir()


def of_pipe(path: Path) -> None:
    os.mkfifo(path)


def of_endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def of_link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def of_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def of_too_large(path: Path) -> None:
    with open(path, "wb") as out:
        out.truncate(2**40)


@pytest.mark.parametrize("name", ["result.json", "failure.json"])
@pytest.mark.parametrize(
    "make",
    [
        of_folder,
        of_pipe,
        of_endless_device,
        of_link_to_nothing,
        of_link_to_itself,
        of_too_large,
    ],
)
def test_no_plain_file(
    runs: Path, write: Write, fail: Write, make: Callable[[Path], None], name: str
) -> None:
    good = write(seed=0)
    folder = write(seed=1) if name == "result.json" else fail(seed=1)
    (folder / name).unlink()
    make(folder / name)
    found = collect(runs)
    accounted(found, runs, [good, folder])
    assert [path for path, _ in found.problems] == [folder / name]


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
def test_what_may_not_be_read(runs: Path, write: Write, mode: int) -> None:
    folder = write()
    os.chmod(folder, mode)
    try:
        found = collect(runs)
    finally:
        os.chmod(folder, 0o755)
    assert len(found.problems) == 1


def test_a_file_that_may_not_be_read(
    runs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [write(seed=0), write(seed=1)]
    really_open = os.open

    def forbidden(path: Path, flags: int) -> int:
        if path == folders[1] / "result.json":
            raise PermissionError(13, "Permission denied")
        return really_open(path, flags)

    monkeypatch.setattr(os, "open", forbidden)
    found = collect(runs)
    accounted(found, runs, folders)
    assert found.problems[0][1] == "cannot be read: Permission denied"


def test_links_to_folders_are_named(runs: Path, write: Write, tmp_path: Path) -> None:
    folder = write()
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder, elsewhere)
    (folder.parent / "s1").symlink_to(elsewhere)
    (runs / "more").symlink_to(runs)  # a loop
    found = collect(runs)
    accounted(found, runs, [folder, folder.parent / "s1", runs / "more"])
    assert {reason for _, reason in found.problems} == {
        "a link, not followed; name where it leads with --runs"
    }


def test_links_that_lead_nowhere_are_named(runs: Path, write: Write) -> None:
    folder = write()
    (folder.parent / "s1").symlink_to(runs / "gone")
    (runs / "more").symlink_to("more")  # to itself
    (folder / "certificates").symlink_to(runs / "gone")
    found = collect(runs)
    links = {folder.parent / "s1", runs / "more"}
    assert {
        path for path, reason in found.problems if reason == "a link that leads nowhere"
    } == links
    cut = (folder / "certificates", "cannot be listed: No such file or directory")
    assert len(found.runs) == 1 and cut in found.problems


def test_a_run_inside_a_run(runs: Path, write: Write) -> None:
    outer = write(seed=0)
    inner = outer / "copied" / "s7"
    inner.mkdir(parents=True)
    (inner / "result.json").write_text("{")
    found = collect(runs)
    accounted(found, runs, [outer, inner])


def test_folders_nested_deeper_than_a_stack(
    runs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write()
    monkeypatch.chdir(runs)
    try:
        for _ in range(3):  # a piece at a time: os.makedirs goes by recursion
            os.makedirs("/".join("d" * 400))
            os.chdir("/".join("d" * 400))
        accounted(collect(runs), runs, [folder])
    finally:  # so does shutil.rmtree, and with it pytest
        subprocess.run(["rm", "-r", str(runs / "d")], check=True)


def test_names_that_are_no_text(runs: Path, write: Write, fail: Write) -> None:
    folders = [write(seed=0), fail(seed=1)]
    odd = runs / os.fsdecode(b"caf\xe9")
    (runs / "sum").rename(odd)
    (odd / "s3").mkdir()
    (odd / "s3" / "result.json").write_text("{")
    found = collect(runs)
    assert (len(found.runs), len(found.problems)) == (2, 1)
    assert "caf\\xe9" in render(found, "csv").encode().decode()
    assert str(found.problems[0][0]).encode()
    assert [Path(folder).name for folder in found.settings] == [f.name for f in folders[::-1]]


@pytest.mark.parametrize("name", ["s" + "9" * 19, "s" + "9" * 200, "s٣", "s-1", "s1.5"])
def test_odd_seeds_of_failed_runs(runs: Path, fail: Write, name: str) -> None:
    folder = fail()
    folder.rename(folder.with_name(name))
    found = collect(runs)
    accounted(
        found, runs, [folder.with_name(name)] if name[1:].isascii() and name[1:].isdigit() else []
    )


def test_a_failure_does_not_hide_a_result(runs: Path, write: Write, fail: Write) -> None:
    finished = write(seed=0)
    later = runs / "zz"
    shutil.copytree(runs / "sum", later / "sum")
    shutil.rmtree(runs / "sum")
    failed = fail(seed=0)
    found = collect(runs)
    assert list(found.runs["status"]) == ["finished"]
    [(path, reason)] = found.problems
    assert (path, finished.name) == (failed, failed.name)
    assert reason.startswith(f"the same run as {later}")


def test_a_copy_with_other_numbers_says_so(runs: Path, write: Write) -> None:
    first = write(seed=0, accuracy=1.0)
    copies = [runs / "copy" / name / "s0" for name in ("equal", "other")]
    for copy, accuracy in zip(copies, (1.0, 0.5), strict=True):
        copy.mkdir(parents=True)
        content = json.loads((first / "result.json").read_text())
        for row in content["evaluations"][:1]:
            row["value"] = accuracy
        (copy / "result.json").write_text(json.dumps(content))
    found = collect(runs)
    accounted(found, runs, [first, *copies])
    reported = dict(found.problems)
    used = next(folder for folder in [first, *copies] if folder not in reported)
    assert used == copies[0]
    assert reported[first] == f"the same run as {used}, which is used"
    assert (
        reported[copies[1]]
        == f"the same run as {used}, which is used, with other or further scores"
    )


@pytest.mark.parametrize("name", ["a" * 5000, "nul\0"])
def test_no_such_folder_however_it_is_called(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError):
        collect(tmp_path / name)
