"""`lrbench data` on files that a user has: Text and Retrieval of Long Range Arena, then a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.tasks.lra import released

Run = Callable[..., Any]
FEW = 10  # reviews in a folder
TINY = [
    *("model.width=8", "protocol.max_steps=3", "protocol.batch_size=4", "device=cpu"),
    *("protocol.micro_batch=null", "output_dir=runs", "protocol.order=epoch"),
]
MODELS = (
    ("model=bbt_grc",),
    ("model=pooled", "model.encoder.mixer=blockdiag"),  # a linear recurrence
)


@pytest.fixture(autouse=True)
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and one with aclImdb/ and pairs of papers."""
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path / "data"))  # splits are kept by their folder
    monkeypatch.setattr(released, "REVIEWS", FEW)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "given"
    for half in ("train", "test"):
        for name, stars in (("neg", 1), ("pos", 10)):
            inside = folder / "aclImdb" / half / name
            inside.mkdir(parents=True)
            for number in range(FEW):
                text = f"{name} é\t{number} " * (number + 1)
                (inside / f"{number}_{stars}.txt").write_text(text, encoding="utf-8")
    for name in ("train", "eval", "test"):
        lines = [f"{n % 2}.0\ta{n}\tb{n}\tone {n}\t{'x' * n}\n" for n in range(12)]
        (folder / f"new_aan_pairs.{name}.tsv").write_text("".join(lines))
    return folder


def place(given: Path) -> None:
    """Put the files where they are looked for."""
    for name in ("lra_text", "lra_retrieval"):
        target = Path("data/released") / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(given)


@pytest.mark.parametrize("task", ["lra_text", "lra_retrieval"])
@pytest.mark.parametrize("model", MODELS, ids=lambda words: words[-1])
def test_from_files_to_a_score(
    lrbench: Run, given: Path, task: str, model: tuple[str, ...], tmp_path: Path
) -> None:
    place(given)
    fetched = lrbench("data", "fetch", task)
    assert (fetched.code, fetched.out) == (0, f"{Path('data').resolve()}/{task}: 3 splits, 3 new\n")
    assert lrbench("data", "fetch", task).out.endswith(f"data/{task}: 3 splits, 0 new\n")
    trained = lrbench("train", f"task={task}", *model, *TINY)
    assert trained.code == 0, trained.err
    [folder] = tmp_path.glob(f"runs/{task}/*/rir2023/*/s0")
    result = json.loads((folder / "result.json").read_text())
    tests = [row for row in result["evaluations"] if row["kind"] == "test"]
    n = 20 if task == "lra_text" else 12
    assert {(row["split"], row["n"]) for row in tests} == {("test", n)}
    assert {(one["split"], one["baseline"], one["value"]) for one in result["baselines"]} == {
        ("test", "uniform", 0.5),
        ("test", "majority", 0.5),
    }
    evaluated = lrbench("evaluate", str(folder), "--splits", "dev")
    assert evaluated.code == 0, evaluated.err
    assert "dev" in evaluated.out


def test_files_of_another_folder(lrbench: Run, given: Path) -> None:
    for task in ("lra_text", "lra_retrieval"):
        ended = lrbench("data", "fetch", task, "--folder", str(given))
        assert (ended.code, ended.out) == (0, f"{Path('data').resolve()}/{task}: 3 splits, 3 new\n")
    assert not Path("data/released").exists()


def test_strings_are_shown_and_written_out(lrbench: Run, given: Path) -> None:
    place(given)
    for task in ("lra_text", "lra_retrieval"):
        assert lrbench("data", "make", task, "--splits", "test").code == 0
    text = lrbench("show", "task=lra_text", "split=test", "count=1")
    assert text.code == 0, text.err
    assert "lra_text · split test, 20 rows" in text.out and "negative" in text.out
    assert r"n e g \s \xc3 \xa9 \t 0 \s" in text.out
    pairs = lrbench("show", "task=lra_retrieval", "split=test", "first=2", "count=1")
    assert pairs.code == 0 and "linked" in pairs.out and r"o n e \s 1" in pairs.out
    card = lrbench("show", "lra_text")
    assert card.code != 0 and "write KEY=VALUE" in card.err
    assert lrbench("tasks", "lra_text").code == 0
    exported = lrbench("data", "export", "lra_retrieval", "--output", "text")
    assert exported.code == 0, exported.err
    first = json.loads(Path("text/test.jsonl").read_text().splitlines()[0])
    assert first == {"left": r"o n e \s 0", "right": r"\s", "label": "unlinked"}


def test_what_is_missing_is_told(lrbench: Run) -> None:
    for task, part in (("lra_text", "aclImdb/train/neg"), ("lra_retrieval", "new_aan_pairs")):
        for words in (("fetch", task), ("make", task)):
            ended = lrbench("data", *words)
            assert ended.code == 1 and "Traceback" not in ended.err
            assert ended.err.startswith(f"lrbench: {task}: no data at hand: there is no {part}")
            assert f"data/released/{task}, then type: lrbench data fetch {task}\n" in ended.err
        trained = lrbench("train", f"task={task}", "model=bbt_grc", *TINY)
        assert trained.code == 1 and f"{task}: no data at hand" in trained.err
        assert not Path("runs").exists()
        shown = lrbench("show", f"task={task}")
        assert shown.code == 1 and f"lrbench data fetch {task}" in shown.err
    mirrored = lrbench("data", "fetch", "lra_text", "--mirror", "http://127.0.0.1:9")
    assert mirrored.code == 2 and "is not downloaded, so --mirror has no use" in mirrored.err
    unknown = lrbench("data", "fetch", "lra_txt")
    assert unknown.code == 2 and "Did you mean 'lra_text'" in unknown.err


def test_a_wrong_file_is_told(lrbench: Run, given: Path) -> None:
    place(given)
    (given / "aclImdb" / "test" / "pos" / "3_10.txt").unlink()
    short = lrbench("data", "fetch", "lra_text")
    assert short.code == 1 and "pos has 9 reviews, not the 10" in short.err
    with open(given / "new_aan_pairs.eval.tsv", "a") as file:
        file.write("linked\ta\tb\tc\td\n")
    wrong = lrbench("data", "fetch", "lra_retrieval")
    assert wrong.code == 1 and "new_aan_pairs.eval.tsv, line 13: label b'linked'" in wrong.err
