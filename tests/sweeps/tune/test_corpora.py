"""Tuning and estimates where runs are over a corpus: budgets in epochs, the dev split decides."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.protocols.rir2023.trial import EpochTrial
from lrbench.runs.folder.cell import Cell
from lrbench.sweeps.plan.expansion import expand
from lrbench.sweeps.plan.expected import Estimate, Expected
from lrbench.sweeps.plan.plan import Plan, make_plan
from lrbench.sweeps.tune.choice import Point, attempt, score_of, winner
from lrbench.sweeps.tune.study import studies
from lrbench.sweeps.tune.table import note, validation
from lrbench.training.procedure import procedure_for
from tests import made_up_corpora
from tests.made_up_results import make_split_result

TINY = ["task=listops", "model=bbt_grc", "model.width=8", "protocol.batch_size=10", "device=cpu"]


@pytest.fixture(autouse=True)
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRBENCH_DATA", str(made_up_corpora.write(tmp_path / "data")))


@pytest.mark.parametrize(
    ("arguments", "allowed", "passes"),
    [
        (["protocol.epochs=7"], 21, 7),  # 24 strings in batches of 10
        (["protocol.epochs=7", "protocol.max_steps=5"], 5, None),
        (["protocol.epochs=7", "protocol.max_steps=50"], 21, None),
        (["task=logic", "protocol.epochs=2"], 8, 2),  # 36 pairs
        (["protocol.train_split=mix_train", "protocol.epochs=1"], 10, 1),  # 96
    ],
)
def test_updates_are_those_that_a_trial_is_trained_for(
    arguments: list[str], allowed: int, passes: int | None
) -> None:
    config = composed([*TINY, *arguments])
    procedure = procedure_for(config)
    assert procedure.updates == EpochTrial(config, 0).steps == allowed
    assert procedure.epochs == passes


def test_a_task_that_draws_has_its_setting() -> None:
    procedure = procedure_for(composed(["task=sum", "protocol.max_steps=123"]))
    assert (procedure.updates, procedure.epochs) == (123, None)


def plan_of(*arguments: str) -> Plan:
    return make_plan(expand([*TINY, *arguments]), composed)


def finish(*arguments: str, **changes: Any) -> None:
    """Put a result into the folder of the run that these words are for."""
    config = composed([*TINY, *arguments])
    cell = Cell.of(config)
    folder = cell.folder / f"s{config.seed}"
    folder.mkdir(parents=True)
    result = make_split_result({}, seed=config.seed, fingerprint=cell.fingerprint)
    (folder / "result.json").write_text(json.dumps(result | {"config": cell.settings} | changes))


def test_the_time_is_that_of_all_updates_that_epochs_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lrbench.sweeps.plan.expected.published_costs", lambda: ())
    out = f"output_dir={tmp_path / 'runs'}"
    plan = plan_of("protocol.epochs=4", "seed=1", out)
    assert Estimate(plan).of(plan.runs[0]) is None
    finish("protocol.max_steps=50", out, steps=50, train_seconds=100.0)
    assert Estimate(plan).of(plan.runs[0]) == Expected(4 * 3 * 2.0, published=False)
    longer = plan_of("protocol.epochs=4", "protocol.train_split=mix_train", out)
    assert Estimate(longer).of(longer.runs[0]) is None


PLACE = "rir2023"


def protocols(plan: Plan) -> dict[str, str]:
    return {str(run.cell.folder): PLACE for run in plan.runs}


def test_the_budget_is_reported_in_epochs() -> None:
    plan = plan_of("optim.lr=0.1,0.2", "protocol.epochs=20", "seed=0,1")
    [study] = studies(plan, ["optim.lr"], protocols(plan))
    assert study.name() == "rir2023_listops_bbt_grc"
    assert study.budget() == "2 settings x 2 seeds x 20 epochs of 3 updates = 4 runs, 240 updates"
    plan = plan_of("optim.lr=0.1", "protocol.max_steps=7")
    [study] = studies(plan, ["optim.lr"], protocols(plan))
    assert study.budget() == "1 setting x 1 seed x 7 updates = 1 run, 7 updates"


def test_the_note_tells_what_decided() -> None:
    by_loss = plan_of("optim.lr=0.1,0.2")
    [study] = studies(by_loss, ["optim.lr"], protocols(by_loss))
    assert "dev split (dev), at the look of lowest loss" in note(study)
    assert "then lowest loss, then highest accuracy" in note(study)
    by_accuracy = plan_of("protocol.select_by=accuracy", "protocol.dev_split=lra_dev")
    [study] = studies(by_accuracy, [], protocols(by_accuracy))
    assert "dev split (lra_dev), at the look of highest accuracy" in note(study)
    assert "then highest accuracy, then lowest loss" in note(study)
    assert "protocol.patience was set so" in note(study)


def test_models_get_the_same_budget() -> None:
    arguments = [*TINY, "optim.lr=0.1"]
    cells = [*expand([*arguments, "protocol.epochs=2"])]
    cells += expand([*arguments, "model=rnn_grc", "protocol.epochs=3"])
    plan = make_plan(cells, composed)
    with pytest.raises(UserError, match=r"6 updates of 10, rnn_grc 9 .*\nprotocol\.epochs=N"):
        studies(plan, ["optim.lr"], protocols(plan))


def result(accuracy: float, loss: float, select_by: str = "loss", **changes: Any) -> dict[str, Any]:
    """A result.json whose tests, and whose look of the rule last, are better; none may count."""
    made = make_split_result({"near_iid": 1.0, "dev": 1.0}, **changes)
    made["config"]["protocol"]["select_by"] = select_by
    for row in made["evaluations"]:
        if row["kind"] == "look":
            best = {"accuracy": accuracy, "loss": loss}
            last = {"accuracy": 1.0, "loss": 0.0}
            row["value"] = (best if row["which"] == "best" else last)[row["metric"]]
    return made


def point(*results: dict[str, Any] | None) -> Point:
    attempts = tuple(attempt(seed, content) for seed, content in enumerate(results))
    return Point((("optim.lr", 0.1),), attempts)


def test_only_the_look_of_the_rule_best_at_the_dev_split_is_read() -> None:
    score = score_of(result(0.25, 2.0))
    assert score is not None
    assert (score.accuracy, score.loss, score.step, score.select_by) == (0.25, 2.0, 800, "loss")
    assert validation(result(0.25, 2.0)) == "validation 0.250"
    assert score_of(result(0.25, 2.0, source="lra_train")) is not None  # its dev split is lra_dev
    assert score_of(result(0.25, 2.0, status="diverged")) is None


@pytest.mark.parametrize("decides", ["loss", "accuracy"])
def test_what_the_protocol_selects_by_decides(decides: str) -> None:
    low_loss = point(result(0.3, 1.0, decides))
    accurate = point(result(0.5, 1.5, decides))
    assert winner([low_loss, accurate]) == (0 if decides == "loss" else 1)
    assert winner([accurate, low_loss]) == (1 if decides == "loss" else 0)
    both = [point(result(0.3, 1.0, decides)), point(result(0.3, 0.9, decides))]
    assert winner(both) == 1
    lost = point(result(1.0, 0.0, decides), None)
    assert winner([lost, point(result(0.1, 9.0, decides), result(0.1, 9.0, decides))]) == 1


def test_no_test_score_matters() -> None:
    def tested(value: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def change(made: dict[str, Any]) -> dict[str, Any]:
            for row in made["evaluations"]:
                row["value"] = value if row["kind"] == "test" else row["value"]
            return made

        return change

    better = point(tested(0.0)(result(0.5, 1.0)))
    worse = point(tested(1.0)(result(0.5, 1.1)))
    assert winner([worse, better]) == 1
