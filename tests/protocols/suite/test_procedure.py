"""`suite_v1`: one set of test strings for every run, and the lock that names them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.suite_lock import lock_of
from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.protocols.suite.procedure import SuiteProcedure, SuiteTrial
from lrbench.protocols.suite.strings import grid_lengths
from lrbench.report.suite.entries import SCORED
from lrbench.report.suite.lock import lock_path
from lrbench.runs.train.validate import validated
from lrbench.tables import load_table
from lrbench.training.examination import Kept
from lrbench.training.trial import unwatched

SMALL = [
    *("protocol=suite_v1", "model=lstm", "model.width=8", "protocol.max_steps=4"),
    *("protocol.look_every=2", "protocol.look.strings=8", "protocol.validation_size=8"),
    *("protocol.test.lengths=[6,12,1003]", "protocol.test.strings=5", "protocol.test.fewer=2"),
]


def trial(seed: int, *more: str) -> SuiteTrial:
    return SuiteTrial(composed([*SMALL, "task=parity", *more]), seed)


def test_test_strings_are_the_same_for_every_seed_and_training_strings_are_not() -> None:
    first, second = trial(0), trial(1, "data_seed=7")
    assert first.stream("test", 12) == second.stream("test", 12)
    assert first.stream("baseline", 12) == second.stream("baseline", 12)
    for purpose in ("train", "look", "validation"):
        assert first.stream(purpose) != second.stream(purpose)
    assert first.stream("train") != trial(424242).stream("test", 12)


def test_no_look_and_no_update_sees_more_than_forty_symbols() -> None:
    made = SuiteTrial(composed(["protocol=suite_v1", "task=parity", "model=lstm"]), 0)
    longest: list[int] = []

    def forward(tokens: torch.Tensor, *_: Any, **__: Any) -> Any:
        longest.append(tokens.shape[1])
        return real(tokens, *_, **__)

    real, made.model.forward = made.model.forward, forward  # type: ignore[method-assign]
    made.update()
    look = made.look(unwatched)
    assert max(longest) <= 40
    assert "band_accuracy" not in look
    assert (look["test_length"], look["test_n"], look["validation_n"]) == (40, 1024, 1024)


def test_each_length_of_the_grid_is_a_row_and_its_strings_are_told() -> None:
    procedure = SuiteProcedure(composed([*SMALL, "task=mod_arith", "model.layers=1"]))
    made = procedure.trial(3)
    made.rules.consider({"step": 1, "validation_loss": 1.0} | made.look(unwatched))
    rows, horizons = procedure.examine(made, Kept(lambda _: made.model.state_dict()), unwatched)
    tests = {r["length"]: r for r in rows if r["which"] == "id" and r["metric"] == "accuracy"}
    assert {n: row["n"] for n, row in tests.items() if row["kind"] == "test"} == {
        5: 5,
        11: 5,
        1003: 2,
    }
    assert set(horizons) == {"last", "id"}
    baselines, guessing = procedure.levels(made, unwatched)
    assert {row["length"] for row in baselines} == {5, 11, 1003}
    assert guessing == []
    assert {length: one["n"] for length, one in procedure.data().items()} == {
        "5": 5,
        "11": 5,
        "1003": 2,
    }


def test_forty_and_five_hundred_have_splits_of_their_own() -> None:
    lengths = "protocol.test.lengths=[40,499,500]"
    procedure = SuiteProcedure(composed([*SMALL, "task=parity", "model.layers=1", lengths]))
    made = procedure.trial(0)
    made.rules.consider({"step": 1, "validation_loss": 1.0} | made.look(unwatched))
    rows, _ = procedure.examine(made, Kept(lambda _: made.model.state_dict()), unwatched)
    splits = {row["length"]: row["split"] for row in rows if row["kind"] == "test"}
    assert splits == {40: "train_length", 499: "further", 500: "test"}


def test_a_hash_is_of_the_strings_that_are_scored_and_of_the_oracles_answers() -> None:
    procedure = SuiteProcedure(composed([*SMALL, "task=flip_flop"]))
    made = procedure.trial(0)
    for length, told in procedure.data().items():
        batch = made.task.sample(made.stream("test", int(length)), 0, told["n"], int(length), "cpu")
        answers = [made.task.oracle(row) for row in batch.tokens.tolist()]
        targets = [[-1 if answer < 0 else answer for answer in row] for row in answers]
        content = batch.tokens.numpy().astype("<u2").tobytes()
        content += np.array(targets, "<i2").tobytes()
        assert told["sha256"] == {"strings": hashlib.sha256(content).hexdigest()}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["task=nnch_parity_check"], "suite_v1"),
        (["task=parity", "protocol.score=scaled"], "protocol.score=scaled is for"),
        (["task=parity", "protocol.test.lengths=[0]"], "protocol.test.lengths"),
        (["task=flip_flop", "protocol.test.lengths=[3]"], "no strings of length"),
        (["task=flip_flop", "protocol.test.lengths=[3,40]"], "test.lengths .* as short as 3"),
    ],
)
def test_tasks_and_lengths_that_it_does_not_have_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        validated(composed([*SMALL, *words]))


def test_every_cell_of_the_suite_and_its_search_can_be_trained() -> None:
    """The search tests at 40 alone, where `mod_arith` has no string: it has the nearest below."""
    table = load_table("suite_v1")
    assert table.search is not None
    for task in table.tasks:
        for settings in ([], table.search.settings):
            words = [*table.common, *task.overrides, "model=lstm", *settings, "device=cpu"]
            validated(composed(words))


def test_the_lock_is_what_the_suite_is() -> None:
    """Every setting, automaton and test string, drawn again."""
    assert lock_of("suite_v1") == json.loads(lock_path("suite_v1").read_text())


def test_every_task_of_the_suite_has_the_scored_lengths() -> None:
    table = load_table("suite_v1")
    assert len(table.cells) == len((*table.rows, "lrnn_diag")) * len(table.tasks)
    for task in table.tasks:
        procedure = SuiteProcedure(composed([*table.common, *task.overrides, "model=lstm"]))
        lengths = grid_lengths(procedure.task, procedure.protocol.test)
        for wanted in SCORED:
            assert max(length for length in lengths if length <= wanted) >= wanted - 3
