from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.grids.selection import chances, others_there, row_labels, select
from lrbench.report.output.render import render
from lrbench.report.paper.verdict import Guesser
from lrbench.report.runs.collect import collect
from lrbench.report.tables.request import Request
from lrbench.tables import SUITE, TableCell, TableSpec
from tests.report.conftest import evaluation

Write = Callable[..., Path]


def filled(runs: Path, *arguments: str, reference: str | None = None, **options: Any) -> FilledCell:
    cell = TableCell(("task=sum", "model=blockdiag", *arguments), reference)
    [found] = select(collect(runs), TableSpec("t", "T", (cell,)), **options)
    return found


def test_rows_are_models_and_what_sets_cells_apart() -> None:
    arguments = [
        ("task=sum", "model=a", "x=1"),
        ("task=sum", "model=a", "x=2"),
        ("task=sum", "model=b"),
    ]
    assert row_labels([TableCell(cell) for cell in arguments]) == ["a x=1", "a x=2", "b"]
    assert row_labels([TableCell(("task=sum", "model=foreign"))]) == ["foreign†"]
    common = [("task=sum", "model=a", "trials=5"), ("task=even_pair", "model=a", "trials=5")]
    assert row_labels([TableCell(cell) for cell in common]) == ["a", "a"]


@pytest.mark.parametrize(
    ("argument", "there"),
    [
        ("optim.lr=1e-4", True),
        ("optim.lr=0.0001", True),
        ("optim.lr=1e-3", False),
        ("+model.layers=1", True),
        ("model.layers=2", False),
        ("protocol.test_lengths=[500,997]", True),
        ("protocol.test_lengths=[500]", False),
        ("model.mixer.blocks=null", True),
        ("model.mixer={blocks: null}", True),  # a dictionary is its settings
        ("model.mixer={blocks: 2}", False),
        ("trials=7", True),  # how many runs is no part of what they are
        ("seed=3", True),
        ("tuning_runs=4", True),
        ("device=cuda", True),  # no sweep would train it anew for that
        ("+trials=7", True),
        ("data_seed=3", False),
        ("track=wandb", True),  # changes no number
        ("no.such.key=1", False),
    ],
)
def test_runs_are_those_the_overrides_say(
    runs: Path, write: Write, argument: str, there: bool
) -> None:
    write()
    assert len(filled(runs, argument).runs) == there


@pytest.mark.parametrize(
    ("argument", "there"),
    [
        ("model.mixer.init=random", True),
        ("model.mixer.init=exact", False),
        ("model.backbone.norm=rms", True),
        ("model.backbone.norm=layer", False),
        ("optim.saturate=0", True),
        ("task.view=product", False),  # of another task
        ("model.encoder.released=false", False),
    ],
)
def test_what_came_later_than_a_run_is_its_default_in_a_run(
    runs: Path, write: Write, argument: str, there: bool
) -> None:
    """No file of a run tells it, so a table that spells it out asks for what is not written."""
    model = {"name": "blockdiag", "backbone": {"name": "gpt_rms"}, "mixer": {"block_size": 8}}
    write(config={"task": {"name": "sum"}, "model": model})
    assert len(filled(runs, argument).runs) == there


def test_the_length_is_one_that_was_tested_not_one_of_looks(runs: Path, write: Write) -> None:
    """As under `suite_v1`, whose looks are at the training length, and whose test is at 500."""
    rows = [
        evaluation(40, "test", 0.7, kind="look"),
        evaluation(40, "train_length", 1.0),
        evaluation(500, "test", 0.9),
    ]
    write(evaluations=rows)
    found = filled(runs)
    assert (found.length, found.lengths(), found.values("best", "test")) == (500, [500], [0.9])
    write(evaluations=rows[:1])  # a run that only looked
    assert filled(runs).length == 40


def test_what_no_run_tells_is_asked_of_none(runs: Path, write: Write) -> None:
    write(config={"protocol": {"name": "fan2024", "batch_size": 8}})
    assert len(filled(runs, "protocol.certify=never", "protocol.batch_size=8").runs) == 1
    assert len(filled(runs, "protocol.certify=never", "protocol.batch_size=9").runs) == 0


def test_the_modulus_is_the_cells_the_runs_or_the_papers(runs: Path, write: Write) -> None:
    assert filled(runs).modulus == 5
    assert filled(runs, "task.modulus=3").modulus == 3
    write(config={"task": {"modulus": 7}})
    assert filled(runs).modulus == 7
    assert filled(runs).reference is None


def test_scores_are_one_a_run(runs: Path, write: Write) -> None:
    write(seed=0, accuracy=1.0)
    write(seed=1, accuracy=0.5)
    found = filled(runs)
    assert found.values("best", "test") == [1.0, 0.5]
    assert found.values("best", "test", "train_length") == [1.0, 1.0]
    assert found.values("best", "nothing") == []
    assert (found.strings("best", "test"), found.strings("best", "look")) == (10_000, 128)
    assert (found.length, found.lengths()) == (500, [500])


def test_a_guesser_has_the_looks_of_the_rule(runs: Path, write: Write) -> None:
    write(config={"protocol": {"max_steps": 10_500, "look_every": 1_000}})
    found = filled(runs)
    assert found.guesser("best", "look", 0.2) == Guesser(0.2, 128, 11)
    assert found.guesser("last", "look", 0.2) == Guesser(0.2, 128, 1)
    assert found.guesser("best", "test", 0.2) == Guesser(0.2, 10_000, 1)
    assert found.guesser("best", "look", None) is None


def test_chance_is_the_runs_own_else_the_kept_one(runs: Path, write: Write) -> None:
    assert chances([filled(runs)])["sum"] == pytest.approx(0.2, abs=0.005)
    write(seed=0)
    write(seed=1, baselines=[{"baseline": "uniform", "length": 500, "value": 0.3}])
    assert chances([filled(runs)]) == {"sum": pytest.approx((0.204 + 0.3) / 2)}


def test_what_was_left_out_is_known(runs: Path, write: Write) -> None:
    write()
    write(fingerprint="b" * 12)
    found = filled(runs)
    assert found.contested
    assert not len(found.runs)
    chosen = filled(runs, choose=["bbbbbb"])
    assert (chosen.rivals, chosen.not_shown) == (("b" * 12,), ("a" * 12,))


def test_a_run_stands_in_the_cell_that_asks_for_most_of_it(runs: Path, write: Write) -> None:
    write(fingerprint="a" * 12)
    write(fingerprint="b" * 12, config={"model": {"layers": 2}})
    plain = TableCell(("task=sum", "model=blockdiag"))
    deep = TableCell(("task=sum", "model=blockdiag", "model.layers=2"), label="deep")
    found = select(collect(runs), TableSpec("t", "T", (plain, deep)))
    assert [(one.label, one.rivals) for one in found] == [
        ("blockdiag", ("a" * 12,)),
        ("deep", ("b" * 12,)),
    ]


def test_a_table_says_of_how_many_runs_or_its_own_do(runs: Path, write: Write) -> None:
    """What a run tells is a preset's: of a rate that the table sets itself it may be untrue."""
    write()
    assert filled(runs).settings.get("tuning_runs") is None
    assert filled(runs, "tuning_runs=4").settings["tuning_runs"] == 4
    write(config={"tuning_runs": 9})
    assert filled(runs).settings["tuning_runs"] == 9
    assert filled(runs, "tuning_runs=4").settings["tuning_runs"] == 4
    assert filled(runs, "tuning_runs=null").settings["tuning_runs"] is None


def test_a_second_stage_is_not_held_against_a_paper(runs: Path, write: Write) -> None:
    write(config={"protocol": {"start_from": "first/s0"}})
    assert "start_from is set" in str(filled(runs).unlike_paper())
    write(config={"model": {"mixer": {"init": "exact"}}})
    assert "built by hand" in str(filled(runs).unlike_paper())
    assert not filled(runs).comparable("best")


def of_table(runs: Path, fingerprint: str = "a" * 12, **known: Any) -> FilledCell:
    """The one cell of a table that knows the fingerprint of its runs."""
    cell = TableCell(("task=sum", "model=blockdiag", "trials=3"), fingerprint=fingerprint, **known)
    [found] = select(collect(runs), TableSpec("t", "T", (cell,)))
    return found


def test_a_cells_own_runs_are_shown_and_no_others(runs: Path, write: Write) -> None:
    write(fingerprint="b" * 12)
    write()
    found = of_table(runs)
    assert (found.rivals, found.not_shown, found.unlike) == (("a" * 12,), ("b" * 12,), None)
    write(status="failed", evaluations=[])  # a sweep would train it again: then the other is shown
    found = of_table(runs)
    assert (found.rivals, found.unlike) == (("b" * 12,), ())


def test_runs_of_other_settings_than_the_tables_say_so(runs: Path, write: Write) -> None:
    for seed in range(3):
        write(seed=seed, fingerprint="b" * 12)
    theirs = collect(runs).settings_of(str(collect(runs).runs["folder"][0]))
    asked = {**theirs, "seed": 7, "output_dir": "elsewhere", "model.width": 128}
    found = of_table(runs, settings=asked)
    assert found.unlike == ("model.width=64 (the table's: 128)",)
    assert found.evidence("best", "look", 0.2).own_recipe
    assert found.values("best", "test") == [1.0, 1.0, 1.0]
    [told] = of_table(runs, settings=theirs).unlike or ("",)
    assert told.startswith("another version")
    assert of_table(runs, "b" * 12, settings=asked).unlike is None
    assert of_table(runs, "").unlike is None  # nothing is known of it


def test_the_hash_of_test_strings_is_no_setting_that_sets_runs_apart(
    runs: Path, write: Write
) -> None:
    """No fingerprint has it, and no table can ask for it."""
    strings = {"500": {"n": 10, "sha256": {"strings": "ab"}}}
    write(fingerprint="b" * 12, data=strings)
    theirs = collect(runs).settings_of(str(collect(runs).runs["folder"][0]))
    assert "data.sha256" in theirs
    asked = {key: value for key, value in theirs.items() if key != "data.sha256"}
    found = of_table(runs, settings={**asked, "model.width": 128})
    assert found.unlike == ("model.width=64 (the table's: 128)",)


def test_runs_of_other_settings_are_none_of_the_tables(runs: Path, write: Write) -> None:
    write(fingerprint="b" * 12)
    cell = TableCell(("task=sum", "model=blockdiag", "trials=3"), fingerprint="a" * 12)
    found = collect(runs)
    printed = render(found, request=Request(TableSpec("t", "T", (cell,))))
    assert "sum x blockdiag: 0 of 3 runs have ended" in printed


def test_cells_with_runs_of_others_are_found(runs: Path, write: Write) -> None:
    write()
    own, other = (
        TableCell(("task=sum", "model=blockdiag"), fingerprint=name * 12) for name in "ab"
    )
    empty = TableCell(("task=sum", "model=lstm"), fingerprint="a" * 12)
    there = collect(runs)
    assert others_there(there, TableSpec("t", "T", (own, empty))) == []
    assert others_there(there, TableSpec("t", "T", (other, empty))) == [other]
    assert others_there(there, TableSpec("t", "T", (other,), kind=SUITE)) == []
