"""`lrbench diagnose`: sentences, tables, a page and numbers of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lrbench.cli.commands.look import diagnose as command
from lrbench.runs.evaluate import diagnose

Run = Callable[..., Any]

TINY = [
    *("model.width=4", "protocol.max_steps=2", "device=cpu", "output_dir=runs"),
    *("protocol.look_every=1", "protocol.test_size=8", "protocol.further_lengths=[]"),
    *("protocol.look_size=4", "protocol.validation_size=4", "protocol.test_lengths=[41]"),
    *("protocol.stop=never", "protocol.batch_size=2", "protocol.certify=never"),
]


@pytest.fixture(autouse=True)
def few_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that has learnt nothing is a large automaton: 400 states of it take long."""
    monkeypatch.setattr(diagnose, "extract", partial(diagnose.extract, most_states=40))


@pytest.fixture
def trained(lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Runs of two updates."""
    monkeypatch.chdir(tmp_path)

    def train(*arguments: str) -> Path:
        assert lrbench("train", *arguments, *TINY).code == 0
        task, model = (argument.partition("=")[2] for argument in arguments[:2])
        return next(tmp_path.glob(f"runs/{task}/{model}/*/*/s0"))

    return train


def files_of(run: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}


def test_a_page_and_numbers(lrbench: Run, trained: Callable[..., Path], tmp_path: Path) -> None:
    run = trained("task=sum", "model=lstm")
    before = files_of(run)
    ended = lrbench(
        "diagnose", str(run), "--lengths", "9,30", "--html", "p.html", "--json", "n.json"
    )
    assert ended.code == 0, ended.err
    assert files_of(run) == before
    assert ended.err == "written: p.html\nwritten: n.json\n"  # what is looked at: on terminals
    assert f"not searched for wrong strings yet: lrbench certify {run}" in ended.out
    for title in ("By length", "States by layer", "Saturation", "Products of Jacobians"):
        assert re.search(f"^{title}", ended.out, re.M), title
    assert "Eigenvalues" not in ended.out and "foretold" not in ended.out

    text = (tmp_path / "p.html").read_text()
    page = ElementTree.fromstring(text.replace("<!DOCTYPE html>\n", ""))
    assert len(page.findall(".//svg")) == len(page.findall(".//figure")) == 6
    assert "default-src 'none'" in text.replace("&#x27;", "'")
    assert not re.search(r"https?://|src=|<script", text)
    ids = [one.get("id") for one in page.iter() if one.get("id")]
    assert len(ids) == len(set(ids))
    sentences = [one.text or "" for one in page.findall(".//ul[1]/li")]
    assert ended.out.splitlines()[1:4] == sentences[:3]

    reported = json.loads((tmp_path / "n.json").read_text())
    assert [one["length"] for one in reported["survey"]["lengths"]] == [9, 30]
    assert reported["survey"]["parts"] == ["layer 1, 1 of 2", "layer 1, 2 of 2"]
    assert isinstance(reported["linear"], str) and len(reported["growth"]) == 6
    asked = sum(one["asked"] for one in reported["survey"]["bins"])
    assert asked == reported["survey"]["strings"] * 30
    # the same strings whenever it is asked
    assert lrbench("diagnose", str(run), "--lengths", "9,30", "--json", "again.json").code == 0
    again = json.loads((tmp_path / "again.json").read_text())
    assert {**again, "about": None} == {**reported, "about": None}


def test_what_certify_found_stands_first(lrbench: Run, trained: Callable[..., Path]) -> None:
    run = trained("task=parity", "model=blockdiag", "model.mixer.block_size=4")
    assert lrbench("certify", str(run), "--foretell", "30").code == 3
    kept = json.loads((run / "counterexample.json").read_text())
    ended = lrbench("diagnose", str(run), "--lengths", "12", "--json", "n.json", "--html", "p.html")
    assert "along the wrong string that certify found" in Path("p.html").read_text()
    first = ended.out.splitlines()[1]
    walked = json.loads(Path("n.json").read_text())["wrong"]
    assert [symbol for symbol, _ in walked] == list(kept["witness"]["string"])
    assert all(margin > 0 for _, margin in walked[:-1]) and walked[-1][1] < 0
    length = kept["witness"]["length"]
    number = f"{length} symbol" + ("s" if length > 1 else "")
    assert first.startswith(f"wrong on {kept['witness']['string']} ({number}, ")
    assert first.endswith(f"instead of {kept['witness']['right']}, says last.json")
    assert "predicted on random strings, if states are Gaussian: " in ended.out
    assert "Eigenvalues of each symbol's matrix" in ended.out
    assert "of unity of the task's order, 2" in ended.out

    file = run / "certificates" / "last.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({**whole, "weights_sha256": "0" * 64}))
    ended = lrbench("diagnose", str(run), "--lengths", "12")
    assert ended.out.splitlines()[1].endswith("says counterexample.json")
    none = {**whole, "verdict": "open", "witness": None, "searched": {"complete_to": 1}}
    file.write_text(json.dumps(none))
    first = lrbench("diagnose", str(run), "--lengths", "12").out.splitlines()[1]
    assert first.startswith("open: no wrong string was found (every string to 1 symbol is right)")
    for verdict, why in (("certified", "refused: "), ("perfect", "verdict 'perfect'")):
        file.write_text(json.dumps({**none, "verdict": verdict}))
        first = lrbench("diagnose", str(run), "--lengths", "12").out.splitlines()[1]
        assert first.startswith(f"wrong on {kept['witness']['string']} "), first
        assert f", says counterexample.json; '{file}' cannot be used ({why}" in first
    (run / "counterexample.json").unlink()
    for damaged in ("", "[1]", json.dumps({**whole, "witness": {"tokens": [9]}})):
        file.write_text(damaged)
        ended = lrbench("diagnose", str(run), "--lengths", "12")
        assert ended.code == 0 and "Traceback" not in ended.err
        assert "cannot be used" in ended.out.splitlines()[1], damaged


def test_eigenvalues_that_all_fade_are_near_no_root(
    lrbench: Run, trained: Callable[..., Path]
) -> None:
    ended = lrbench("diagnose", str(trained("task=sum", "model=lrnn_diag")), "--lengths", "12")
    [steps] = [line for line in ended.out.splitlines() if line.startswith("steps: ")]
    assert steps.endswith("; none is above 0.97, so none lasts")


def test_parts_are_named_as_they_begin(trained: Callable[..., Path]) -> None:
    parts: list[str] = []
    diagnose.diagnose_run(trained("task=sum", "model=lstm"), lengths="12,9", begins=parts.append)
    assert [part.split()[0] for part in parts] == ["random", "the", "its"], parts
    assert parts[0] == "random strings of up to 12 symbols"


def test_what_is_not_said(lrbench: Run, trained: Callable[..., Path]) -> None:
    growing = trained("task=sum", "model=transformer", "model.mixer.heads=2")
    ended = lrbench("diagnose", str(growing), "--lengths", "12,501")
    assert ended.code == 0, ended.err
    assert "not said: states and their saturation: the state grows with the string" in ended.out
    assert "not said: anything at 501: for the same reason" in ended.out
    assert "Saturation" not in ended.out
    two = ("model.layers=2", "model.mixer.block_size=4")
    several = trained("task=sum", "model=blockdiag", *two)
    ended = lrbench("diagnose", str(several), "--lengths", "12")
    assert "not said: eigenvalues of other layers than the first" in ended.out
    assert "Eigenvalues of each symbol's matrix of layer 1 of 2" in ended.out
    assert "layer 2: nearest mean is right" in ended.out


def test_mistakes_are_reported_in_a_line(
    lrbench: Run, trained: Callable[..., Path], tmp_path: Path
) -> None:
    run = trained("task=mod_arith", "model=rnn")
    for arguments, message in (
        ([str(tmp_path / "nowhere")], "is not a run with a 'last' checkpoint"),
        ([str(run), "--which", "luck"], "rule 'luck' unknown"),
        ([str(run), "--lengths", "40"], "no strings of length 40"),
        ([str(run), "--lengths", "x"], "is not a length"),
        ([str(run), "--lengths", "1000001"], "must be at most 1,000,000"),
        ([str(run), "--html", "no/where.html"], "there is no folder 'no'"),
        ([str(run), "--html", str(tmp_path)], "it is a folder"),
        ([str(run), "--device", "tpu"], "tpu"),
    ):
        ended = lrbench("diagnose", *arguments)
        assert ended.code in (1, 2) and ended.out == "", arguments
        assert message in ended.err and "Traceback" not in ended.err, arguments
    (run / "checkpoints" / "last.pt").write_bytes(b"damaged")
    ended = lrbench("diagnose", str(run))
    assert ended.code == 1 and "Traceback" not in ended.err


def test_a_file_that_may_not_be_written_is_refused_before_the_work(
    lrbench: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's refusal is made up: root may write everywhere."""
    monkeypatch.setattr("lrbench.cli.written.os.access", lambda *_: False)
    ended = lrbench("diagnose", "no/run", "--html", "page.html")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("lrbench: cannot write 'page.html': permission denied\nname a ")


def test_files_do_not_wait_for_what_is_printed(
    lrbench: Run, trained: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `lrbench diagnose RUN --html FILE | head`: the reader leaves, the page stays."""

    def left(*_: Any) -> None:
        raise BrokenPipeError

    run = trained("task=parity", "model=rnn")
    monkeypatch.setattr(command, "_show", left)
    ended = lrbench("diagnose", str(run), "--lengths", "9", "--html", "p.html", "--json", "n.json")
    assert ended.code == 141
    assert Path("p.html").exists() and Path("n.json").exists()


def test_a_task_without_a_machine(lrbench: Run, trained: Callable[..., Path]) -> None:
    run = trained("task=mackey_glass", "model=rnn")
    ended = lrbench("diagnose", str(run))
    assert (ended.code, ended.out) == (2, "")
    assert "task mackey_glass is no finite automaton" in ended.err


@pytest.mark.parametrize(("kind", "predicted"), [("permutation", True), ("reset", False)])
def test_random_strings_that_are_predicted_are_the_tasks(
    lrbench: Run, trained: Callable[..., Path], kind: str, predicted: bool
) -> None:
    """Moments of even symbols say nothing of strings of a task that resets now and then."""
    run = trained("task=dfa", "model=lrnn_diag", f"task.kind={kind}", "task.states=2")
    ended = lrbench("diagnose", str(run), "--lengths", "20")
    assert ended.code == 0, ended.err
    assert ("\npredicted on random strings" in ended.out) == predicted
