"""What may be certified of a run, and what its kept answers are worth."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from lrbench.certificates import check
from lrbench.certificates.reader import SymbolReader
from lrbench.certificates.witness import SearchBudget
from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.runs.evaluate import certify
from lrbench.runs.evaluate.certify import (
    ROUNDED,
    UNEVEN,
    UNKNOWN,
    certify_run,
    of_these_weights,
    recheck,
)
from lrbench.runs.train.job import run_cell
from lrbench.training.precision import FLOAT32

EXACT = [
    *(
        "task=group",
        "task.group=Z3",
        "model=rnn",
        "model.mixer.init=exact",
        "model.backbone.name=bare",
    ),
    *("model.width=16", "model.layers=1", "optim.lr=1e-9", "optim.final_lr=0"),
    *("protocol=walker2025_short", "protocol.train_lengths=[3,8]", "protocol.batch_size=4"),
    *("protocol.max_steps=1", "protocol.validation_size=16", "protocol.certify=never"),
]
NOTHING = SearchBudget(complete=0, families=0, beam=0)


def trained(folder: Path, *more: str) -> Path:
    (outcome,) = run_cell(composed([*EXACT, *more, "trials=1", f"output_dir={folder}"]))
    return outcome.folder


def test_a_model_that_rounds_to_bfloat16_has_no_proof_of_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker knows float32: what holds there may be wrong in fewer bits."""
    run = trained(tmp_path / "plain")
    proved = certify_run(run, "last", NOTHING)
    assert proved.verdict == "certified"
    of_these_weights(proved.file, run, check.check(proved.file)["automaton"])
    low = trained(tmp_path / "low", "protocol.precision=bfloat16")
    found = certify_run(low, "last", NOTHING)
    assert found.verdict == "open" and found.record["proof"]["refusal"] == ROUNDED
    with monkeypatch.context() as patched:  # a proof of these very weights lies there
        patched.setattr(certify, "precision_of", lambda _: FLOAT32)
        assert certify_run(low, "last", NOTHING).verdict == "certified"
    assert certify_run(low, "last", NOTHING).verdict == "open"
    with pytest.raises(UserError, match="proves nothing of"):
        of_these_weights(found.file, low, check.check(proved.file)["automaton"])


def test_no_proof_is_sought_of_a_task_that_the_checker_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path)
    monkeypatch.setattr(check, "KNOWN", {})
    assert certify_run(run, "last", NOTHING).record["proof"]["refusal"] == UNKNOWN


def test_a_search_begins_from_the_shortest_string_known_of_the_weights(tmp_path: Path) -> None:
    """Also from one that was found of another rule's checkpoint, if its weights are the same."""
    run = trained(tmp_path, "model.mixer.init=random")
    found = certify_run(run, "last", SearchBudget(complete=100, families=0, beam=0))
    witness = found.record["witness"]
    assert witness is not None
    of_best = certify_run(run, "best", NOTHING)
    assert of_best.record["weights_sha256"] == found.record["weights_sha256"]
    assert of_best.record["witness"] == witness
    longer = dict(found.record, witness=dict(witness, tokens=[*witness["tokens"], 0, 0, 0]))
    of_best.file.write_text(json.dumps(longer))
    assert certify_run(run, "best", NOTHING).record["witness"] == witness
    (run / "certificates/last.json").write_text(json.dumps(longer | {"weights_sha256": "ab"}))
    of_best.file.unlink()
    (run / "counterexample-best.json").unlink()
    assert certify_run(run, "best", NOTHING).verdict == "open"


def test_a_wrong_string_that_lies_there_alone_is_tried_before_it_goes(tmp_path: Path) -> None:
    run = trained(tmp_path, "model.mixer.init=random")
    found = certify_run(run, "last", SearchBudget(complete=100, families=0, beam=0))
    found.file.unlink()
    again = certify_run(run, "last", NOTHING)
    first, second = found.record["witness"], again.record["witness"]
    assert first is not None and second is not None and second["tokens"] == first["tokens"]
    counterexample = run / "counterexample.json"
    told = json.loads(counterexample.read_text())
    found.file.unlink()
    counterexample.write_text(json.dumps(told | {"weights_sha256": "ab"}))
    assert certify_run(run, "last", NOTHING).verdict == "open"
    assert not counterexample.exists()


def test_logits_whose_sum_overflows_are_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path, "model.mixer.init=random")
    certify_run(run, "last", SearchBudget(complete=100, families=0, beam=0))
    file = run / "counterexample.json"
    first = recheck(file)
    assert first.confirmed and first.given is not None
    at_end = SymbolReader.at_end
    huge = 1e38 * torch.tensor([1.0, 1, 1])  # and one of them three times as much
    monkeypatch.setattr(
        SymbolReader,
        "at_end",
        lambda *args: huge * (1 + 2 * (at_end(*args).argmax() == torch.arange(3))[None]),
    )
    assert recheck(file) == first


def test_a_wrong_string_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    run = trained(tmp_path, "model.mixer.init=random")
    (run / "counterexample.json").mkdir()
    with pytest.raises(UserError) as refused:
        certify_run(run, "last", SearchBudget(complete=100, families=0, beam=0))
    written, found = str(refused.value).splitlines()
    assert "counterexample.json' cannot be written: is a directory" in written
    assert re.fullmatch(r"found: wrong on '\d+' \(length \d\)", found)


def test_a_folder_that_may_not_be_written_is_refused_before_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path)
    monkeypatch.setattr(certify, "may_write", lambda folder: folder.name != "certificates")
    monkeypatch.setattr(certify, "search", None)
    with pytest.raises(UserError, match=r"certificates' cannot be written to\nname .* --output"):
        certify_run(run, "last", NOTHING)


def test_accuracy_is_foretold_of_evenly_drawn_symbols_alone(tmp_path: Path) -> None:
    """A flip-flop ignores most of the time; moments of even symbols say nothing of its strings."""
    words = ["task=flip_flop", "model=blockdiag", "model.width=8", "model.mixer.block_size=4"]
    words += ["model.mixer.hidden=8", "protocol.max_steps=1", "protocol.batch_size=4"]
    words += ["protocol.test_size=20", "protocol.further_lengths=[]", "protocol.certify=never"]
    (outcome,) = run_cell(composed([*words, "trials=1", f"output_dir={tmp_path}"]))
    found = certify_run(outcome.folder, "last", NOTHING, most_nodes=0)
    assert found.record["foretold"]["refusal"] == UNEVEN
