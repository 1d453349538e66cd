"""`lrbench certify`: a wrong string is found, kept and put to the weights again."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench.certificates.proof import ProofSearch, find_proof
from lrbench.certificates.reader import SymbolReader
from lrbench.certificates.witness import SearchBudget, WitnessSearch, search
from lrbench.cli.commands.look import certify as command
from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.runs.evaluate import certify
from lrbench.runs.evaluate.trained import trained
from lrbench.runs.train.job import run_cell
from lrbench.tasks import make_task
from lrbench.tasks.symbols.cyclic import SumConfig
from tests.certificates.certificate import Certificate

Run = Callable[..., Any]

TINY = [
    *("task=sum", "model=rnn", "model.width=4", "protocol.max_steps=2", "device=cpu"),
    *("protocol.look_every=1", "protocol.test_size=8", "protocol.further_lengths=[]"),
    *("protocol.look_size=4", "protocol.validation_size=4", "protocol.test_lengths=[41]"),
    *("protocol.stop=never", "protocol.batch_size=2", "protocol.certify=never", "output_dir=runs"),
]


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two updates, which errs early; to be read only."""
    folder = tmp_path_factory.mktemp("certified")
    [outcome] = run_cell(composed([*TINY, f"output_dir={folder}"]))
    assert outcome.status == "finished"
    return folder


@pytest.fixture
def run(trained_once: Path, tmp_path: Path) -> Path:
    """A copy of that run."""
    shutil.copytree(trained_once, tmp_path / "runs")
    return next(tmp_path.glob("runs/*/*/*/*/s0"))


def test_a_folder_above_runs_names_them(lrbench: Run, run: Path, tmp_path: Path) -> None:
    ended = lrbench("certify", "runs")
    assert ended.code == 1 and ended.err.count("no result.json and no checkpoints") == 1
    assert f"runs below it: {run.relative_to(tmp_path)}; name one of them" in ended.err
    for seed in (1, 2):
        (run.with_name(f"s{seed}") / "checkpoints").mkdir(parents=True)
    below = f"{run.relative_to(tmp_path)}, {run.relative_to(tmp_path).with_name('s1')}, and 1 more;"
    assert below in lrbench("certify", "runs").err
    assert "name the folder of a run" in lrbench("certify", "/").err  # not looked through


def test_a_wrong_string_is_found_kept_and_confirmed(lrbench: Run, run: Path) -> None:
    result = (run / "result.json").read_bytes()
    ended = lrbench("certify", str(run))
    assert ended.code == 3, ended.err
    assert "wrong on " in ended.out and "the shortest there is" in ended.out
    assert "on random strings: " in ended.out
    assert (run / "result.json").read_bytes() == result

    found = json.loads((run / "certificates" / "last.json").read_text())
    kept = json.loads((run / "counterexample.json").read_text())
    assert (found["format"], found["verdict"]) == ("lrbench-certificate", "wrong")
    assert kept["witness"] == found["witness"]
    assert kept["weights_sha256"] == found["weights_sha256"]
    witness = kept["witness"]
    task = make_task(SumConfig())
    assert [task.vocabulary.index(symbol) for symbol in witness["string"]] == witness["tokens"]
    assert task.class_names[task.oracle(witness["tokens"])[-1]] == witness["right"]
    assert witness["given"] != witness["right"]
    assert witness["one_in"] == 5.0 ** witness["length"]

    again = lrbench("certify", "--check", str(run / "counterexample.json"))
    assert (again.code, again.err) == (3, "")
    given, right = witness["given"], witness["right"]
    assert again.out.startswith(f"confirmed: {given} instead of {right} on its ")


def test_certificates_of_wrong_and_open_are_checked(
    lrbench: Run, run: Path, tmp_path: Path
) -> None:
    """A wrong one by its string, in its folder or with RUN; an open one says that it is empty."""
    lrbench("certify", str(run))
    file = run / "certificates" / "last.json"
    ended = lrbench("certify", "--check", str(file))
    assert (ended.code, ended.err) == (3, "") and ended.out.startswith("confirmed: ")
    elsewhere = tmp_path / "moved.json"
    reported = json.loads(file.read_text())
    elsewhere.write_text(json.dumps(reported))
    assert lrbench("certify", "--check", str(elsewhere)).code == 1
    assert lrbench("certify", "--check", str(elsewhere), str(run)).code == 3
    elsewhere.write_text(json.dumps({**reported, "verdict": "open", "witness": None}))
    ended = lrbench("certify", "--check", str(elsewhere), str(run))
    assert (ended.code, ended.err) == (1, "") and "nothing to check" in ended.out
    elsewhere.write_text(json.dumps({**reported, "verdict": "open", "weights_sha256": "0"}))
    ended = lrbench("certify", "--check", str(elsewhere), str(run))
    assert (ended.code, ended.out) == (1, "") and "is of other weights" in ended.err
    elsewhere.write_text(json.dumps({**reported, "verdict": "certified"}))
    ended = lrbench("certify", "--check", str(elsewhere), str(run))
    assert (ended.code, ended.out) == (1, "") and "is refused" in ended.err


@pytest.mark.parametrize(
    ("one_in", "digits", "told"),
    [
        (2.5, 0.4, ["2.5"]),
        (125.0, 2.1, ["125"]),
        (390625.0, 5.6, ["390,625"]),
        (5.0**12, 8.4, ["2.4e+08"]),
        (None, 309.0, ["10^309"]),
        (None, None, []),
    ],
)
def test_how_rare_a_string_is(one_in: float | None, digits: float | None, told: list[str]) -> None:
    witness: Any = {"one_in": one_in, "one_in_log10": digits}
    assert [line.rpartition(" ")[2] for line in command._one_in(witness)] == told


def test_a_right_string_is_not_confirmed(lrbench: Run, run: Path) -> None:
    """Nothing is believed of the file: neither the answer it tells, nor the right one."""
    lrbench("certify", str(run))
    file = run / "counterexample.json"
    kept = json.loads(file.read_text())
    task, model = certify.loaded(trained(run, "last"), run, "last", torch.device("cpu"))
    pairs = torch.cartesian_prod(torch.arange(5), torch.arange(5))
    answers = SymbolReader(model).at_end(pairs).argmax(-1)
    right = [tuple(pair) for pair in pairs[answers == pairs.sum(1) % 5].tolist()]
    kept["witness"] |= {"tokens": list(right[0]), "given": "1", "right": "2"}
    file.write_text(json.dumps(kept))
    ended = lrbench("certify", "--check", str(file))
    assert (ended.code, ended.err) == (1, "")
    name = task.class_names[sum(right[0]) % 5]
    assert ended.out.startswith(f"not confirmed: {name} on its 2 symbols")


DAMAGES: tuple[tuple[Callable[[dict[str, Any]], None], str], ...] = (
    (lambda kept: kept["witness"].update(tokens=[7]), "cannot be 7 in a valid string"),
    (lambda kept: kept["witness"].update(tokens=[True]), "must be a list of symbols"),
    (lambda kept: kept["witness"].update(tokens=[]), "must be a list of symbols"),
    (lambda kept: kept.update(witness=None), "holds no witness"),
    (lambda kept: kept.update(weights_sha256="0" * 64), "of other weights than the 'last'"),
    (lambda kept: kept.update(format="something"), "is no counterexample of version 1"),
    (lambda kept: kept.update(which="luck"), "rule 'luck' unknown"),
)


def test_damaged_files_are_refused_in_a_line(lrbench: Run, run: Path) -> None:
    lrbench("certify", str(run))
    file = run / "counterexample.json"
    whole = file.read_text()
    for damage, message in DAMAGES:
        kept = json.loads(whole)
        damage(kept)
        file.write_text(json.dumps(kept))
        ended = lrbench("certify", "--check", str(file))
        assert ended.code in (1, 2) and ended.out == "", message
        assert message in ended.err and "Traceback" not in ended.err
    for text in ("", whole[:200], "[]", '{"format": NaN}'):
        file.write_text(text)
        ended = lrbench("certify", "--check", str(file))
        assert ended.code == 1 and "Traceback" not in ended.err


def test_other_weights_are_not_the_counterexamples(lrbench: Run, run: Path) -> None:
    lrbench("certify", str(run))
    path = run / "checkpoints" / "last.pt"
    state = torch.load(path, weights_only=True)
    name = next(iter(state["model"]))
    state["model"][name] += 1e-3
    torch.save(state, path)
    ended = lrbench("certify", "--check", str(run / "counterexample.json"))
    assert ended.code == 1 and "is of other weights" in ended.err


def test_files_tell_what_is_known_now_and_of_which_rule(
    lrbench: Run, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later search replaces what it contradicts, and keeps a string that is still wrong."""
    lrbench("certify", str(run), "--which", "best")
    assert not (run / "counterexample.json").exists()
    of_best = json.loads((run / "counterexample-best.json").read_text())
    assert of_best["which"] == "best"
    assert lrbench("certify", "--check", str(run / "counterexample-best.json")).code == 3

    assert lrbench("certify", str(run)).code == 3
    of_last = (run / "counterexample.json").read_text()
    file = run / "certificates" / "last.json"
    # a search that tries nothing finds what is known; one that has forgotten it does not
    nothing = ("--complete", "0", "--beam", "0", "--longest", "1", "--nodes", "0")
    monkeypatch.setattr(certify, "search", with_families(0))
    assert lrbench("certify", str(run), *nothing).code == 3
    known = json.loads(file.read_text())
    assert known["witness"] == json.loads(of_last)["witness"]
    file.write_text(json.dumps(known | {"weights_sha256": "0" * 64, "arrays": {}}))
    file.with_suffix(".npz").write_bytes(b"boxes of other weights")
    assert lrbench("certify", str(run), *nothing).code == 3, "the weights are those of `best`"
    of_others = dict(known, which="best", weights_sha256="0" * 64, arrays={})
    (run / "certificates" / "best.json").write_text(json.dumps(of_others))
    file.write_text(json.dumps(of_others | {"which": "last"}))
    file.with_suffix(".npz").write_bytes(b"boxes of other weights")
    assert lrbench("certify", str(run), *nothing).code == 3, "counterexample.json is of them"
    file.write_text(json.dumps(of_others | {"which": "last"}))
    (run / "counterexample.json").write_text(json.dumps(of_others | {"which": "last"}))
    file.with_suffix(".npz").write_bytes(b"boxes of other weights")
    assert lrbench("certify", str(run), *nothing).code == 1
    assert json.loads(file.read_text())["verdict"] == "open"
    assert sorted(path.name for path in run.glob("*count*")) == ["counterexample-best.json"]
    assert not file.with_suffix(".npz").exists()


def with_families(number: int) -> Callable[..., WitnessSearch]:
    """The search, with so many families: no option says how many."""

    def limited(model: Any, machine: Any, budget: SearchBudget, *rest: Any) -> WitnessSearch:
        return search(model, machine, dataclasses.replace(budget, families=number), *rest)

    return limited


def test_what_is_no_plain_file_is_not_waited_for(lrbench: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in (str(tmp_path / "pipe"), "/dev/zero"):
        ended = lrbench("certify", "--check", name)
        assert (ended.code, ended.out) == (1, "") and "no plain file" in ended.err


def test_nothing_found_is_open(lrbench: Run, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found_nothing(*unused: Any) -> WitnessSearch:
        budget = SearchBudget()
        return WitnessSearch(
            budget, None, 9, 1000, 1000, 12345, 1.9, (0, 1, 2), 7, unconfirmed_from=5
        )

    monkeypatch.setattr(certify, "search", found_nothing)
    ended = lrbench("certify", str(run), "--nodes", "0", "--output", "elsewhere/mine.json")
    assert ended.code == 1
    assert "open: no string was found" in ended.out and "proves nothing" in ended.out
    assert "leads by 1.9" in ended.out
    assert "7 strings, from 5 symbols on, are wrong symbol by symbol" in ended.out
    reported = json.loads(Path("elsewhere/mine.json").read_text())
    assert (reported["verdict"], reported["witness"]) == ("open", None)
    assert reported["searched"]["least_margin_at"] == "012"
    assert not (run / "certificates").exists() and not (run / "counterexample.json").exists()


def test_boxes_that_the_checker_refuses_are_no_proof(
    lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search for boxes may be wrong: the checker is asked, and its reason is printed."""
    words = ["task=group", "task.group=Z3", "model=rnn", "model.mixer.init=exact", "trials=1"]
    words += ["model.backbone.name=bare", "model.width=16", "model.layers=1", "optim.lr=1e-9"]
    words += ["optim.final_lr=0"]
    words += ["protocol=walker2025_short", "protocol.max_steps=1", "protocol.batch_size=4"]
    words += ["protocol.validation_size=16", "protocol.train_lengths=[3,8]", "device=cpu"]
    [outcome] = run_cell(composed([*words, "protocol.certify=never", f"output_dir={tmp_path}"]))

    def too_small(*given: Any) -> ProofSearch:
        found = find_proof(*given)
        assert found.boxes is not None
        middle = (found.boxes.lo + found.boxes.hi) / 2  # holds no image of its own
        found.boxes = dataclasses.replace(found.boxes, lo=middle, hi=middle)
        return found

    command = ["certify", str(outcome.folder), "--complete", "10", "--beam", "1", "--longest", "20"]
    with monkeypatch.context() as patched:
        patched.setattr(certify, "find_proof", too_small)
        ended = lrbench(*command)
    assert ended.code == 1, ended.out
    assert re.search(r"^ *no proof: the checker refuses the boxes: \w", ended.out, re.MULTILINE)
    folder = outcome.folder / "certificates"
    assert json.loads((folder / "last.json").read_text())["verdict"] == "open"
    assert not (folder / "last.npz").exists()
    assert lrbench(*command).code == 0  # the boxes themselves are accepted


@pytest.mark.parametrize(
    ("searched", "expected"),
    [
        ({"complete_to": 9}, "every string to 9 symbols is right"),
        (
            {"complete_to": 1, "families": 5, "families_kept": 5, "families_to": 30},
            "every string to 1 symbol is right; 5 prefixes with a repeated pattern to 30 symbols",
        ),
        (
            {
                "families": 3000,
                "families_kept": 2000,
                "families_to": 1000,
                "beam_to": 7,
                "beam": 100,
            },
            "3,000 prefixes with a repeated pattern to 1,000 symbols (the 2,000 narrowest beyond"
            " 64); the 100 most narrowly answered of each state to 7 symbols",
        ),
        ({}, "no string was tried"),
    ],
)
def test_only_what_was_tried_is_told(
    lrbench: Run,
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    searched: dict[str, int],
    expected: str,
) -> None:
    monkeypatch.setattr(
        certify, "search", lambda *unused: WitnessSearch(SearchBudget(), **searched)
    )
    ended = lrbench("certify", str(run), "--nodes", "0", "--output", "mine.json")
    assert f"\n  {expected}\n" in ended.out


def test_a_certificate_is_of_a_task_a_model_and_weights(run: Path, lrbench: Run) -> None:
    """relu and tanh have the same weights' names: the digest alone does not tell them apart."""
    lrbench("certify", str(run))
    file = run / "certificates" / "last.json"
    certify.of_these_weights(file, run)
    whole = json.loads(file.read_text())
    for part, value in (
        ("model", {**whole["model"], "mixer": {"units": None, "nonlinearity": "relu"}}),
        ("task", {**whole["task"], "settings": {"modulus": 4}}),
        ("weights_sha256", "0" * 64),
    ):
        file.write_text(json.dumps({**whole, part: value}))
        with pytest.raises(UserError, match=r"is of (another|other)"):
            certify.of_these_weights(file, run)


def test_an_output_replaces_nobodys_files(run: Path, lrbench: Run, tmp_path: Path) -> None:
    (tmp_path / "data.npz").write_text("mine")
    (tmp_path / "told.json").write_text("{}")
    result = (run / "result.json").read_bytes()
    taken = ("data.json", "told.json", "x.npz", "counterexample.json", str(run / "result.json"))
    for name in taken:
        ended = lrbench("certify", str(run), "--output", name)
        assert (ended.code, ended.out) == (2, "") and "--output" in ended.err
    assert (tmp_path / "data.npz").read_text() == "mine"
    assert (tmp_path / "told.json").read_text() == "{}"
    assert (run / "result.json").read_bytes() == result
    (tmp_path / "new").mkdir()
    for _ in range(2):  # one's own certificate may be made again
        assert lrbench("certify", str(run), "--output", "new/mine.json").code == 3


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        ((), "name a run's folder, or a file", 2),
        (("nowhere",), "nowhere is not a run with a 'last' checkpoint: the folder does not", 1),
        (("nowhere", "--which", "luck"), "rule 'luck' unknown", 2),
        (("nowhere", "--beam", "-1"), "--beam must be between", 2),
        (("nowhere", "--complete", "nan"), "--complete must be between", 2),
        (("nowhere", "--longest", "0"), "--longest must be between", 2),
        (("--check", "nowhere.json"), "nowhere.json", 1),
        (("--check", "x.json", "--which", "best"), "--which goes with a search, not with", 2),
        (("--check", "x.json", "--beam", "9", "--device", "cpu"), "--beam and --device go", 2),
    ],
)
def test_what_cannot_be_meant(
    lrbench: Run, arguments: tuple[str, ...], message: str, code: int
) -> None:
    ended = lrbench("certify", *arguments)
    assert (ended.code, ended.out) == (code, "") and message in ended.err


def test_a_series_is_no_automaton(
    lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny = [
        argument for argument in TINY if not argument.startswith(("task=", "protocol.test_lengths"))
    ]
    series = ["task=mackey_glass", "protocol.train_length=16", "protocol.test_lengths=[16]"]
    ended = lrbench("train", *series, *tiny)
    if ended.code:
        pytest.fail(ended.err)
    ended = lrbench("certify", str(next(tmp_path.glob("runs/*/*/*/*/s0"))))
    assert ended.code == 2 and "no finite automaton" in ended.err
    assert ended.err.endswith("s0` scores it at any length\n")


@pytest.mark.parametrize("letters", ["swaps", "generators"])
def test_the_first_line_says_whose_automaton_was_checked(
    lrbench: Run, tmp_path: Path, letters: str
) -> None:
    """Of generators the file tells which they are: a network of other letters would pass."""
    mine = Certificate(tmp_path, "group", {"group": "S3", "letters": letters}, 2.5)
    mine.checked()
    ended = lrbench("certify", "--check", str(mine.file))
    assert ended.code == 0, ended.err
    first = ended.out.splitlines()[0]
    own = "every string of the automaton in the file (said to be that of group)"
    assert (own in first) == (letters == "generators")


def test_an_output_without_a_name_is_a_wrong_command(lrbench: Run, run: Path) -> None:
    ended = lrbench("certify", str(run), "--output", "")
    assert ended.code == 2 and "--output must name a .json file" in ended.err


@pytest.mark.parametrize(
    ("depth", "words"), [(0, ""), (1, " and the last symbol"), (3, " and the last 3 symbols")]
)
def test_what_strings_of_one_box_have_in_common(depth: int, words: str) -> None:
    said = command._nodes({"within": None, "depth": depth}, "rnn")  # type: ignore[typeddict-item]
    assert said == f"the task's state{words}"
