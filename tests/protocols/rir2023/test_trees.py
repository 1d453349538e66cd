"""Rows of trees: an encoder that does not look, one whose trees are the expression's, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.encoders.base import Tree
from lrbench.errors import UserError
from lrbench.protocols.rir2023 import trees
from lrbench.protocols.rir2023.trees import nested, tree_rows, trees_of
from lrbench.training.procedure import EvaluationRequest, make_trial, procedure_for
from lrbench.training.trial import unwatched
from tests import made_up_corpora


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LRBENCH_DATA", str(made_up_corpora.write(tmp_path)))

    def make(*words: str) -> Any:
        return make_trial(composed([*words, "model.width=8"]), 0)

    return make


def values(rows: list[Any]) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in rows}


def test_a_balanced_encoder_is_worth_the_balanced_tree(trial: Any) -> None:
    made = trial("task=listops", "model=bbt_grc", "protocol.test_splits=[near_iid]")
    rows = tree_rows(made, "near_iid", 20, "best", unwatched)
    told = [(row["split"], row["kind"], row["which"], row["n"]) for row in rows]
    assert told == [("near_iid", "trees", "best", len(nested(made.task, "near_iid", 20)))] * 4
    assert all(row["value"] <= row["chance"] for row in rows)
    request = EvaluationRequest(splits="near_iid", trees=20)
    procedure = procedure_for(made.config)
    procedure.refuse(request)
    again = procedure.evaluate(made, request, "best", unwatched, "evaluate")
    assert values(again) == values(rows)


def test_a_string_with_one_bracket_is_not_nested(trial: Any) -> None:
    """Every tree has the bracket around the whole string."""
    task = trial("task=listops", "model=bbt_grc").task
    strings = task.load("near_iid")
    every = [strings.row(row, 0).tolist() for row in range(len(strings))]
    several = [tokens for tokens in every if len(task.brackets(tokens)) > 1]
    assert {1} < {len(task.brackets(tokens)) for tokens in every}
    assert nested(task, "near_iid", len(every)) == several
    assert nested(task, "near_iid", 3) == several[:3]


def test_trees_are_those_of_each_string_alone_whatever_the_batch(trial: Any) -> None:
    made = trial("task=listops", "model=rir_ebt_grc", "protocol.test_splits=[near_iid]")
    strings = nested(made.task, "near_iid", 24)
    together = trees_of(made.model, strings, "cpu", unwatched)
    assert len({len(one) for one in strings}) > 3
    assert together == [trees_of(made.model, [one], "cpu", unwatched)[0] for one in strings]


@pytest.mark.parametrize("task", ["listops", "logic"])
def test_trees_of_the_expression_are_worth_one(
    trial: Any, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    made = trial(f"task={task}", "model=bbt_grc")
    split = made.config.protocol.test_splits[-1]
    monkeypatch.setattr(
        trees, "trees_of", lambda model, strings, *_: [of_brackets(made.task, s) for s in strings]
    )
    rows = tree_rows(made, split, 15, "best", unwatched)
    assert values(rows) == dict.fromkeys(values(rows), 1.0)
    assert rows[0]["interval"][1] == 1.0 > rows[0]["interval"][0]
    assert "interval" not in rows[1]


def of_brackets(task: Any, tokens: list[int]) -> Tree:
    """The tree of a string that joins each bracket from left to right."""
    stack: list[list[Tree]] = [[]]
    for position, token in enumerate(tokens):
        if token in task.opening:
            stack.append([])
        stack[-1].append(position)
        if token in task.closing:
            whole, *rest = stack.pop()
            for part in rest:
                whole = (whole, part)
            stack[-1].append(whole)
    [[tree]] = stack
    return tree


def test_refusals(trial: Any) -> None:
    made = trial("task=listops", "model=pooled", "protocol.test_splits=[near_iid]")
    with pytest.raises(UserError, match="--trees: pooled has no trees"):
        tree_rows(made, "near_iid", 20, "best", unwatched)
    with pytest.raises(UserError, match="--trees does not go with this run: sum draws"):
        procedure_for(composed(["task=sum"])).refuse(EvaluationRequest(trees=3))
