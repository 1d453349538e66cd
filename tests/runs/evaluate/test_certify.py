"""What may be certified of a run, and what its kept answers are worth."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.certificates import check
from lrbench.certificates.witness import SearchBudget
from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.runs.evaluate.certify import ROUNDED, UNEVEN, certify_run, of_these_weights
from lrbench.runs.train.job import run_cell

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


def test_a_model_that_rounds_to_bfloat16_has_no_proof_of_float32(tmp_path: Path) -> None:
    """The checker knows float32: what holds there may be wrong in fewer bits."""
    run = trained(tmp_path / "plain")
    proved = certify_run(run, "last", NOTHING)
    assert proved.verdict == "certified"
    of_these_weights(proved.file, run, check.check(proved.file)["automaton"])
    low = trained(tmp_path / "low", "protocol.precision=bfloat16")
    found = certify_run(low, "last", NOTHING)
    assert found.verdict == "open" and found.record["proof"]["refusal"] == ROUNDED
    with pytest.raises(UserError, match="proves nothing of"):
        of_these_weights(found.file, low, check.check(proved.file)["automaton"])


def test_accuracy_is_foretold_of_evenly_drawn_symbols_alone(tmp_path: Path) -> None:
    """A flip-flop ignores most of the time; moments of even symbols say nothing of its strings."""
    words = ["task=flip_flop", "model=blockdiag", "model.width=8", "model.mixer.block_size=4"]
    words += ["model.mixer.hidden=8", "protocol.max_steps=1", "protocol.batch_size=4"]
    words += ["protocol.test_size=20", "protocol.further_lengths=[]", "protocol.certify=never"]
    (outcome,) = run_cell(composed([*words, "trials=1", f"output_dir={tmp_path}"]))
    found = certify_run(outcome.folder, "last", NOTHING, most_nodes=0)
    assert found.record["foretold"]["refusal"] == UNEVEN
