"""Scores that a file tells where nobody would look for them: refused, or named as not compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.bundles.check.rescore import rescore, rescore_splits
from lrbench.bundles.check.stated import not_compared, refuse_twins, refuse_untrue, stated_scores
from lrbench.bundles.check.verify import (
    BAD,
    GOOD,
    OPEN,
    BundleFinding,
    Options,
    open_bundle,
    verify,
)
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.pack import tables
from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.protocols.fan2024.procedure import Fan2024Procedure
from lrbench.records import evaluation
from lrbench.runs.train.job import run_cell
from lrbench.schema import config_from
from lrbench.training.procedure import procedure_for
from tests.bundles.conftest import one
from tests.cli.conftest import lrbench

__all__ = ["lrbench"]  # a fixture
Rows = list[dict[str, Any]]
Change = Callable[[Rows, dict[str, Any]], object]  # of all rows, and that of the test by the rule

CHANGES: dict[str, tuple[Change, str, str]] = {
    "twice, the made-up one first": (
        lambda rows, row: rows.insert(0, row | {"value": 1.0}),
        *(BAD, "it has two scores at 9"),
    ),
    "as the training length": (
        lambda rows, row: rows.append(row | {"split": "train_length"}) or row.update(value=1.0),
        *(BAD, "it has two scores at 9"),
    ),
    "as another metric": (
        lambda rows, row: rows.append(row | {"metric": "nrmse"}) or row.update(value=1.0),
        *(BAD, "it has two scores at 9"),
    ),
    "as a range": (
        lambda rows, row: (
            rows.append(row | {"split": "by_length", "metric": "at_length"})
            or row.update(value=1.0)
        ),
        *(BAD, "it has scores over a range, which fan2024 does not test"),
    ),
    "of one string, which is right by luck": (
        lambda rows, row: row.update(n=1, value=1.0),
        *(BAD, "it tells 1 string at 9 (test), and its protocol tests 2,000 there"),
    ),
    "at a length that is easier": (
        lambda rows, row: row.update(length=5, value=1.0),
        *(BAD, "it tells 2,000 strings at 5 (test), where its protocol tests none"),
    ),
    "nowhere": (
        lambda rows, row: rows.remove(row),
        *(BAD, "it tells nothing at 9 (test), where its protocol tests 2,000 strings"),
    ),
    "nowhere, nor any other": (
        lambda rows, row: rows.clear(),
        *(BAD, "it tells nothing at 6 (train_length), where its protocol tests 2,000 strings"),
    ),
    "as a further length": (
        lambda rows, row: row.update(split="further"),
        *(BAD, "it tells 2,000 strings at 9 (further), where its protocol tests none"),
    ),
    "of more strings than are read": (
        lambda rows, row: row.update(n=10**8 + 1, value=1.0),
        *(OPEN, "its scores at 9, which nobody reads"),
    ),
    "at a length that is not read": (
        lambda rows, row: rows.append(row | {"length": 100_001, "value": 1.0}),
        *(OPEN, "its scores at 100,001, which nobody reads"),
    ),
    "of a split that nobody knows": (
        lambda rows, row: rows.append(row | {"split": "positions", "value": 1.0}),
        *(OPEN, "its scores at 9 (positions), which nobody reads"),
    ),
}


def edit(files: dict[str, bytes], run: str, how: Callable[[dict[str, Any]], object]) -> None:
    """Change the result of a run in the files of a bundle, and make its tables again."""
    name = one(files, f"{run}/result.json")
    result = json.loads(files[name])
    how(result)
    _alike(result)
    files[name] = json.dumps(result).encode()
    files |= tables(files, TableChoice())


def _alike(result: dict[str, Any]) -> None:
    """Let the rules that kept the update of `best` tell what it tells."""
    steps, rows = result["checkpoints"], result["evaluations"]
    twins = {rule for rule in steps if rule != "best" and steps[rule] == steps["best"]}
    mine = [row for row in rows if (row["which"], row["kind"]) == ("best", "test")]
    others = [row for row in rows if row["kind"] != "test" or row["which"] not in twins]
    result["evaluations"] = others + [row | {"which": rule} for rule in twins for row in mine]


def row_of(result: dict[str, Any], split: str) -> dict[str, Any]:
    """Return the accuracy of the checkpoint `best` on a split."""
    told = ("best", "test", split, "accuracy")
    keys = ("which", "kind", "split", "metric")
    (row,) = (row for row in result["evaluations"] if tuple(map(row.get, keys)) == told)
    return row


@pytest.mark.parametrize("name", CHANGES)
def test_a_made_up_score_is_never_confirmed(
    name: str, bundle: Callable[..., Path], lrbench: Callable[..., Any]
) -> None:
    how, status, text = CHANGES[name]

    def change(result: dict[str, Any]) -> None:
        how(result["evaluations"], row_of(result, "test"))

    path = bundle(lambda files: edit(files, "s0", change))
    findings, _ = verify(open_bundle(path), Options(strings=100, device="cpu"))
    (told,) = (finding for finding in findings if finding.what.endswith("/s0"))
    assert (told.status, told.text) == (status, f"not scored again: {text}")
    assert {finding.status for finding in findings if finding.what == "scores"} == {OPEN}
    assert lrbench("verify", str(path), "--strings", "100").code == 1


def test_a_score_at_a_further_length_is_held_against_fresh_strings(
    bundle: Callable[..., Path],
) -> None:
    def change(result: dict[str, Any]) -> None:
        row_of(result, "further")["value"] = 1.0

    path = bundle(lambda files: edit(files, "s0", change))
    findings, _ = verify(open_bundle(path), Options(strings=500, device="cpu"))
    (told,) = (finding for finding in findings if finding.what == "scores")
    assert told.status == BAD and told.text.endswith("s0 at 12")


@pytest.mark.parametrize("key", ["baselines", "guessing"])
def test_chance_is_measured_again(key: str, bundle: Callable[..., Path]) -> None:
    def told(change: Callable[[dict[str, Any]], object]) -> BundleFinding:
        path = bundle(lambda files: edit(files, "s1", change))
        findings, _ = verify(open_bundle(path), Options(strings=100, device="cpu"))
        return next(finding for finding in findings if finding.what == "chance")

    assert told(lambda result: None) == BundleFinding("chance", GOOD, "of 2 runs measured again")
    for change in (
        lambda result: result[key][-1].update(value=0.01),
        lambda result: result[key].pop(),
        lambda result: result.pop(key),
        lambda result: result[key].append(result[key][0]),
    ):
        found = told(change)
        assert found.status == BAD and found.text.endswith(
            "s1: chance is not what is measured here"
        )


def test_a_certificate_of_another_rule_is_refused(bundle: Callable[..., Path]) -> None:
    """Rules that kept one update share its answer, and of others no weights are in the bundle."""

    def change(files: dict[str, bytes]) -> None:
        result = json.loads(files[one(files, "s0/result.json")])
        name = one(files, "s0/result.json").replace("result.json", "certificates/last.json")
        told = {"format": "lrbench-certificate", "verdict": "certified", "which": "last"}
        told |= {"step": result["checkpoints"]["last"], "searched": {"complete_to": 0}}
        files[name] = json.dumps(told).encode()
        files |= tables(files, TableChoice())

    findings, _ = verify(open_bundle(bundle(change)), Options(strings=100, device="cpu"))
    (told,) = (finding for finding in findings if finding.what == "all strings")
    assert told.status == BAD
    assert told.text.endswith(
        "certificates/last.json is of another checkpoint than the bundle's, best"
    )


def ranged(score: str, number: float, *more: dict[str, Any]) -> tuple[Any, Any]:
    """A result of 3 right of 10 at 7, 8 of 10 at 9 and 24 of 30 at 11, and its configuration."""
    config = composed(
        [*("protocol=deletang2022_short", "task=nnch_parity_check"), f"protocol.score={score}"]
    )
    by_length = ((7, 0.3, 10), (9, 0.8, 10), (11, 0.8, 30))
    rows: list[Any] = [
        evaluation(length, "by_length", "at_length", value, n, kind="test", which="last")
        for length, value, n in by_length
    ]
    rows.append(evaluation(11, "test", "accuracy", number, 50, kind="test", which="last"))
    return {"protocol": "deletang2022_short", "evaluations": [*rows, *more]}, config


def test_the_number_of_a_range_is_what_its_lengths_give() -> None:
    scaled = {"length": 11, "split": "test", "metric": "scaled", "n": 50, "kind": "test"}
    scaled |= {"which": "last", "value": 0.9}
    for score, good in (("mean", 1.9 / 3), ("pooled", 0.7), ("sequence", 0.1)):
        assert [*stated_scores(*ranged(score, good), "last")] == [7, 9, 11]
        with pytest.raises(UserError, match=r"its number, 0\.9000, is not what its lengths give"):
            stated_scores(*ranged(score, 0.9), "last")
    with pytest.raises(UserError, match=r"its scaled number, 0\.9000, is not that of 0\.7000"):
        stated_scores(*ranged("scaled", 0.7, scaled), "last")
    with pytest.raises(UserError, match="its test over a range has 2 numbers"):
        result, config = ranged("pooled", 0.7)
        result["evaluations"].append(result["evaluations"][-1])
        stated_scores(result, config, "last")


def test_a_number_of_whole_strings_is_scored_as_such(tmp_path: Path) -> None:
    words = [
        *("protocol=merrill2024_short", "task=group", "model=lstm", "model.width=8"),
        *("protocol.train_lengths=[3,3]", "protocol.look.lengths=[4,4]", "protocol.band=[4,4]"),
        *("protocol.test.lengths=[4,4]", "protocol.test.strings=3000", "protocol.batch_size=8"),
        *("protocol.look_every=4", "protocol.look.strings=12", "protocol.validation_size=16"),
        *("protocol.max_steps=4", "optim.warmup=0", f"output_dir={tmp_path / 'runs'}"),
    ]
    (outcome,) = run_cell(composed(words))
    result: Any = outcome.result
    where = (outcome.folder, "a run", result, "last", 1000, 0, "cpu")
    whole, at_end = rescore(*where)
    assert whole.p > 0.01 and at_end.p > 0.01 and whole.now < at_end.now
    rows = [row for row in result["evaluations"] if row["kind"] == "test"]
    numbers = [row for row in rows if row["split"] == "test"]
    for number in numbers:  # of every rule: they kept one update
        number["value"] = at_end.recorded
    assert rescore(*where)[0].p < 1e-6


def test_a_split_with_two_scores_is_refused() -> None:
    row = evaluation(9, "near_iid", "accuracy", 0.5, 10, kind="test", which="best")
    result: Any = {"evaluations": [row | {"value": 1.0}, row]}
    with pytest.raises(UserError, match="it has two scores on near_iid"):
        rescore_splits(Path(), "r", result, "best", ["near_iid"], "cpu")


def test_what_a_protocol_tests_is_what_its_runs_tell(original: dict[str, bytes]) -> None:
    result = json.loads(original[one(original, "s0/result.json")])
    rows = [row for row in result["evaluations"] if (row["kind"], row["which"]) == ("test", "best")]
    told = {(row["length"], row["split"], row["n"]) for row in rows if row["split"] != "positions"}
    assert told == set(procedure_for(config_from(result["config"])).tested() or ())
    assert len(told) == 3


def test_a_range_is_tested_with_its_strings_at_each_length() -> None:
    words = ["protocol=deletang2022_short", "task=nnch_parity_check", "protocol.test.strings=9"]
    words += ["protocol.train_lengths=[1,6]", "protocol.test.lengths=[7,11]"]
    each = procedure_for(composed([*words, "protocol.test.stride=2"])).tested()
    assert each == [
        *((6, "train_length", 9), (7, "by_length", 9), (9, "by_length", 9)),
        *((11, "by_length", 9), (11, "test", 27)),
    ]
    drawn = procedure_for(composed([*words, "protocol.test.mix=row"])).tested()
    assert drawn == [(6, "train_length", 9), (11, "test", 9)]


def test_rules_that_kept_one_update_tell_one_test() -> None:
    row = evaluation(9, "near_iid", "accuracy", 0.5, 10, kind="test", which="best")
    other = row | {"which": "last", "value": 1.0}
    result: Any = {"checkpoints": {"best": 4, "last": 8}, "evaluations": [row, other]}
    refuse_twins(result, "best")
    result["checkpoints"]["last"] = 4
    with pytest.raises(UserError, match="rules best and last kept one update, 4, and tell other"):
        rescore_splits(Path(), "r", result, "best", ["near_iid"], "cpu")


class _Other(Fan2024Procedure):
    """A plug-in's: what it tests is its own, and what it builds on does not know it."""

    def examine(self, *_: Any) -> Any:
        raise NotImplementedError


def test_a_protocol_that_does_not_say_what_it_tests_is_not_held_to_anothers(
    original: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = json.loads(original[one(original, "s0/result.json")])
    result["checkpoints"] = {"best": 4}
    row_of(result, "test")["n"] = 3
    config = config_from(result["config"])
    with pytest.raises(UserError, match=r"it tells 3 strings at 9 \(test\)"):
        refuse_untrue(result, config, "best")
    monkeypatch.setattr("lrbench.bundles.check.stated.procedure_for", _Other)
    refuse_untrue(result, config, "best")


def test_what_is_told_and_compared_with_nothing_is_named(
    bundle: Callable[..., Path], lrbench: Callable[..., Any]
) -> None:
    done = lrbench("verify", str(bundle()), "--strings", "20", "--seed", "0")
    (line,) = (line for line in done.out.splitlines() if "told besides" in line)
    assert line.startswith("not checked  told besides: ") and line.endswith(", times")
    assert "looks" in line and "horizons" in line
    row = evaluation(9, "test", "accuracy", 0.5, 10, kind="test", which="last")
    position = row | {"split": "positions", "which": "best"}
    result: Any = {"checkpoints": {"best": 4, "last": 4}, "evaluations": [row]}
    assert not_compared([result], "best") == ["times"]
    result["checkpoints"]["last"] = 8
    assert not_compared([result], "best") == ["scores of other rules", "times"]
    result["evaluations"] = [position]
    assert not_compared([result], "best") == ["scores at every position", "times"]
