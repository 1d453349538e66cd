"""The tables of a suite, of made-up runs whose scores can be worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import trim_mean

from lrbench.errors import UserError
from lrbench.report.output.cells import Table
from lrbench.report.runs.collect import collect
from lrbench.report.suite.entries import suite_of
from lrbench.report.suite.lock import Lock, read_lock
from lrbench.report.suite.tables import compact_suite, suite_tables
from lrbench.report.tables.request import Request, tables_of
from lrbench.tables import load_table

Enter = Callable[..., Path]
LSTM: dict[str, Any] = {"name": "lstm", "width": 64}
SEEDS, TASKS = range(3), range(12)


@pytest.fixture
def lock() -> Lock:
    return read_lock("suite_v1")


def tables(runs: Path) -> dict[str, Table]:
    found = suite_tables(collect(runs), load_table("suite_v1"))
    return {table.title.partition("tracking: ")[2]: table for table in found}


def row(table: Table, name: str) -> dict[str, str]:
    texts = {cells[0].text: cells for cells in table.rows}
    titles = (column.title for column in table.columns)
    return {title: cell.text for title, cell in zip(titles, texts[name], strict=True)}


def test_scores_are_the_middle_half_over_tasks_and_seeds(tmp_path: Path, enter: Enter) -> None:
    """Of twelve tasks three are one column, which counts once."""
    accuracy = {(at, seed): 0.2 + 0.02 * at + 0.1 * seed for at in TASKS for seed in SEEDS}
    for (at, seed), value in accuracy.items():
        enter(at, lambda length, value=value: value if length > 40 else 1.0, LSTM, seed=seed)
    scored = {key: (value - 0.2) / 0.8 for key, value in accuracy.items()}
    by_column = [scored[at, seed] for at in (0, 1, 2, 3, 4, 5, 6, 10, 11) for seed in SEEDS]
    by_column += [sum(scored[at, seed] for at in (7, 8, 9)) / 3 for seed in SEEDS]
    found = tables(tmp_path / "runs")
    lstm = row(found["scores"], "lstm")
    assert (lstm["tasks"], lstm["seeds"], lstm["rank"]) == ("10/10", "3", "1.0")
    assert lstm["at 40"] == "1.000 [1.000, 1.000]"
    assert lstm["at 5,000"].startswith(f"{trim_mean(by_column, 0.25):.3f} [")
    assert row(found["accuracy at 5,000"], "lstm")["dfa"] == "0.460 ± 0.100 (3)"
    assert row(found["accuracy at 500"], "chance")["parity"] == "0.200"
    horizons = row(found["how far each run holds on random strings"], "lstm")
    assert horizons["parity"] == "40; 40; 40"


def test_a_rule_that_the_suite_does_not_have_is_refused(tmp_path: Path, enter: Enter) -> None:
    """Nothing was scored by it, and a score of 0 would be read as a model that failed."""
    for at in TASKS:
        for seed in SEEDS:
            enter(at, lambda length: 1.0, LSTM, seed=seed)
    collection, spec = collect(tmp_path / "runs"), load_table("suite_v1")
    for made in (suite_tables, compact_suite):
        with pytest.raises(UserError, match=r"rule 'best' unknown.*\nknown: id, last"):
            made(collection, spec, "best")


@pytest.mark.parametrize("compact", [False, True])
def test_as_many_decimals_as_asked_for(tmp_path: Path, enter: Enter, *, compact: bool) -> None:
    for at in TASKS:
        for seed in SEEDS:
            enter(at, lambda length: 1.0, LSTM, seed=seed)
    collection, spec = collect(tmp_path / "runs"), load_table("suite_v1")
    for digits, score in ((None, "1.000 ["), (2, "1.00 ["), (5, "1.00000 [")):
        asked = Request(spec, digits=digits, compact=compact)
        first = tables_of(collection, asked)[0]
        assert score in "\n".join(cell.text for row in first.rows for cell in row)


def test_a_fingerprint_chooses_nothing_in_a_suite(tmp_path: Path, enter: Enter) -> None:
    enter(0, lambda length: 1.0, LSTM)
    asked = Request(load_table("suite_v1"), fingerprints=("0123456789ab",))
    with pytest.raises(UserError, match="--fingerprint chooses between runs"):
        tables_of(collect(tmp_path / "runs"), asked)


def test_only_names_stand_at_the_left(tmp_path: Path, enter: Enter) -> None:
    enter(0, lambda length: 1.0, LSTM)
    for title in ("scores", "accuracy at 500"):
        sides = [column.right for column in tables(tmp_path / "runs")[title].columns]
        assert sides == [False, *[True] * (len(sides) - 1)]


def test_the_small_table_has_complete_models_first(tmp_path: Path, enter: Enter) -> None:
    enter(0, lambda length: 1.0, {"name": "gru", "width": 64}, seed=0)
    for at in TASKS:
        for seed in SEEDS:
            enter(at, lambda length: 1.0 if length < 300 else 0.2, LSTM, seed=seed)
    found = compact_suite(collect(tmp_path / "runs"), load_table("suite_v1"))
    assert [cells[0].text for cells in found.rows] == ["lstm", "gru"]
    lstm, gru = row(found, "lstm"), row(found, "gru")
    assert lstm["score at 40"] == "1.000 [1.000, 1.000]"
    assert lstm["score at 5,000"] == "0.000 [0.000, 0.000]"
    assert (lstm["tasks"], lstm["held to 5,000"], lstm["runs wrong"]) == (
        ("10/10", "0 of 10", "0 of 36")
    )
    assert (gru["tasks"], gru["score at 40"], gru["held to 5,000"]) == ("1/10", "-", "1 of 1")


def test_an_entry_with_tasks_left_has_no_score(tmp_path: Path, enter: Enter) -> None:
    for at in range(7):
        enter(at, lambda _: 1.0, LSTM)
    enter(7, lambda _: 1.0, LSTM)  # one of the three automata that make a column
    lstm = row(tables(tmp_path / "runs")["scores"], "lstm")
    assert (lstm["tasks"], lstm["held to 5,000"]) == ("7/10", "7")
    assert lstm["at 500"] == lstm["rank"] == "-"


def test_two_models_are_compared_run_by_run(tmp_path: Path, enter: Enter) -> None:
    for at in TASKS:
        enter(at, lambda length: 0.6, LSTM)
    assert "pairs" not in tables(tmp_path / "runs")  # one model alone
    for at in TASKS:
        enter(at, lambda length: 0.4, {"name": "gru", "width": 64})
    found = tables(tmp_path / "runs")["pairs"]
    assert (row(found, "lstm")["gru"], row(found, "gru")["lstm"]) == ("1.000", "0.000")


def test_a_horizon_says_what_it_is_of(tmp_path: Path, enter: Enter, lock: Lock) -> None:
    """One wrong string of 400 ends it; tasks of one column are counted together."""
    first, *others = (at for at, task in enumerate(lock.tasks) if task.label == "dfa")
    enter(first, lambda length: 0.98 if length == 500 else 1.0, LSTM)
    for at in others:
        enter(at, lambda _: 1.0, LSTM)
    enter(0, lambda length: 1.0 - (length == 5000) / 400, LSTM)
    table = tables(tmp_path / "runs")["how far each run holds on random strings"]
    assert row(table, "lstm")["parity"] == "2,000\N{DAGGER}"
    assert row(table, "lstm")["dfa"] == ">= 5,000"
    one, wrong = table.notes[1:]
    assert one.startswith("dfa: the strings of 3 tasks counted together")
    assert wrong == "\N{DAGGER} a single wrong string at the next length ended it"


def test_a_run_on_other_strings_is_refused(tmp_path: Path, enter: Enter, lock: Lock) -> None:
    enter(0, lambda _: 1.0, LSTM)
    for seed, damage in ((1, {"40": {"n": 2000, "sha256": {"strings": "0" * 64}}}), (2, None)):
        path = enter(0, lambda _: 1.0, LSTM, seed=seed) / "result.json"
        content = json.loads(path.read_text())
        content["data"] = damage
        path.write_text(
            json.dumps({k: v for k, v in content.items() if v is not None or k != "data"})
        )
    suite = suite_of(collect(tmp_path / "runs"), load_table("suite_v1"), lock, "last")
    assert suite.entries[0].seeds("parity") == [0]
    assert sum(suite.refused.values()) == 2
    assert "2 runs do not count" in tables(tmp_path / "runs")["scores"].notes[-1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"protocol": {"max_steps": 9000}}, "max_steps=9000"),
        ({"lr": 0.02}, "lr=0.02"),
        ({"protocol": {"train_lengths": [3, 60]}}, "train_lengths=[3, 60]"),
    ],
)
def test_another_budget_rate_or_length_is_of_the_open_division(
    tmp_path: Path, enter: Enter, change: dict[str, Any], said: str
) -> None:
    enter(0, lambda _: 0.5, LSTM)
    enter(0, lambda _: 1.0, LSTM, **change)
    found = tables(tmp_path / "runs")
    assert [cells[0].text for cells in found["scores"].rows] == ["lstm"]
    apart = found["scores of the division open"]
    assert [cells[0].text for cells in apart.rows] == [f"lstm {said} (open)"]
    assert "not to be compared" in apart.notes[0]


def test_the_division_open_has_scores_and_no_rank(tmp_path: Path, enter: Enter) -> None:
    for at in TASKS:
        for seed in SEEDS:
            enter(at, lambda _: 0.6, LSTM, seed=seed)
            enter(at, lambda _: 1.0, LSTM, seed=seed, protocol={"max_steps": 9000})
    found = tables(tmp_path / "runs")
    assert row(found["scores"], "lstm")["rank"] == "1.0"
    apart = row(found["scores of the division open"], "lstm max_steps=9000 (open)")
    assert (apart["at 5,000"], apart["rank"]) == ("1.000 [1.000, 1.000]", "-")


def test_a_model_that_is_not_in_the_repository_is_marked(tmp_path: Path, enter: Enter) -> None:
    enter(0, lambda _: 1.0, LSTM)
    path = enter(0, lambda _: 1.0, {"name": "mine"}) / "result.json"
    content = json.loads(path.read_text())
    content["versions"]["plugins"] = {"my.models": "0" * 64}
    path.write_text(json.dumps(content))
    scores = tables(tmp_path / "runs")["scores"]
    mark = "\N{DOUBLE DAGGER}"
    assert [cells[0].text for cells in scores.rows] == ["lstm", f"mine {mark}"]
    assert any(note.startswith(mark) for note in scores.notes)


def test_kinds_of_a_model_have_rows_of_their_own(tmp_path: Path, enter: Enter) -> None:
    """Listed rows by what they ask for, others by what sets them apart."""
    tanh = {"name": "lrnn_diag", "mixer": {"range": "tanh"}}
    mine = [{"name": "mine", "width": width} for width in (64, 128)]
    for model in (tanh, *mine, {**mine[0], "layers": 3}):
        enter(0, lambda _: 1.0, model)
    names = [cells[0].text for cells in tables(tmp_path / "runs")["scores"].rows]
    assert names == [
        "lrnn_diag [-1,1]",
        "mine layers=+2 width=64",
        "mine width=128",
        "mine width=64",
    ]


def test_runs_of_the_search_are_no_entries(tmp_path: Path, enter: Enter) -> None:
    tested = {"lengths": [40], "strings": 2000, "fewer": 400, "data_seed": 424242}
    searched = {"max_steps": 2000, "test": tested}
    for rate, loss in ((0.001, 0.5), (0.003, 0.25)):
        enter(4, lambda _: 1.0, LSTM, seed=1000, lr=rate, protocol=searched, loss=loss)
    found = tables(tmp_path / "runs")
    assert not found["scores"].rows
    texts = [cell.text for cell in found["the search"].rows[0]]
    assert texts == ["lstm", "S3 all", "0.500, 0.5", "0.500, 0.25", "-"]


def test_a_lock_that_was_changed_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    from lrbench.errors import UserError
    from lrbench.report.suite import lock as module

    path = tmp_path / "suite_v1.lock"
    text = module.lock_path("suite_v1").read_text()
    path.write_text(text.replace('"n": 2000', '"n": 1999', 1))
    monkeypatch.setattr(module, "lock_path", lambda _: path)
    module.read_lock.cache_clear()
    with pytest.raises(UserError, match="was changed"):
        module.read_lock("suite_v1")
    module.read_lock.cache_clear()


def test_a_search_takes_the_first_rate_that_is_enough(tmp_path: Path, enter: Enter) -> None:
    """Else the one of lowest loss; a run with another rate is of the division open."""
    tested = {"lengths": [40], "strings": 2000, "fewer": 400, "data_seed": 424242}
    searched = {"max_steps": 2000, "test": tested}
    for at, accuracies in ((0, (0.5, 0.995, 1.0)), (4, (0.5, 0.6, 0.7))):
        for rate, accuracy, loss in zip(
            (0.001, 0.003, 0.01), accuracies, (0.5, 0.1, 0.01), strict=True
        ):
            told = {"protocol": searched, "loss": loss, "validation": accuracy}
            enter(at, lambda _: 1.0, LSTM, seed=1000, lr=rate, **told)
    for at, rate in ((0, 0.003), (0, 0.01), (4, 0.01)):
        enter(at, lambda _: 1.0, LSTM, lr=rate)
    found = tables(tmp_path / "runs")
    rows = {cells[1].text: [cell.text for cell in cells[2:]] for cells in found["the search"].rows}
    assert rows["parity"] == ["0.500, 0.5", "0.995, 0.1 #", "1.000, 0.01"]
    assert rows["S3 all"] == ["0.500, 0.5", "0.600, 0.1", "0.700, 0.01 #"]
    names = [cells[0].text for cells in found["scores of the division open"].rows]
    assert names == ["lstm lr=0.01 (open)"]
    assert row(found["scores"], "lstm")["tasks"] == "2/10"


def test_a_failure_says_how_it_was_found(tmp_path: Path, enter: Enter) -> None:
    """Cut off by a clock, in weights that were trained again, and with nothing shorter."""

    def keep(run: Path, **changes: Any) -> None:
        file = run / "certificates" / "last.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    def wrong(length: int, shortest: bool = False) -> dict[str, Any]:
        witness = {"string": "1", "length": length, "shortest": shortest}
        return {"verdict": "wrong", "witness": witness}

    first, second, third = (enter(0, lambda _: 1.0, LSTM, seed=seed) for seed in SEEDS)
    timed = {"complete_to": 9, "beam": 100, "longest": 1000, "seconds_allowed": 5.0}
    keep(first, **wrong(30), searched=timed | {"out_of_time": ["beam"]})
    keep(second, trained_again="other scores")
    keep(third, **wrong(1234), searched=timed | {"out_of_time": []})
    table = tables(tmp_path / "runs")["shortest failures"]
    assert row(table, "lstm")["parity"] == "30*; open\N{SECTION SIGN}; 1,234"
    assert table.notes[1].startswith("dfa: for each seed a run of each of its 3 tasks")
    assert [note[0] for note in table.notes[2:]] == ["*", "\N{SECTION SIGN}"]
    keep(first, **wrong(30, shortest=True))
    notes = tables(tmp_path / "runs")["shortest failures"].notes
    assert [note[0] for note in notes[2:]] == ["\N{SECTION SIGN}"]


def test_failures_of_several_tasks_stand_in_the_order_of_the_lock(
    tmp_path: Path, enter: Enter, lock: Lock
) -> None:
    """In every row alike, however the folders of the runs are called."""
    places = [at for at, task in enumerate(lock.tasks) if task.label == "dfa"]
    for seed in SEEDS:
        for turn, at in enumerate(reversed(places)):
            file = enter(at, lambda _: 1.0, LSTM, seed=seed) / "certificates" / "last.json"
            witness = {"string": "1", "length": 10 * (seed + 1) - turn, "shortest": True}
            found = json.loads(file.read_text()) | {"verdict": "wrong", "witness": witness}
            file.write_text(json.dumps(found))
    table = tables(tmp_path / "runs")["shortest failures"]
    assert row(table, "lstm")["dfa"] == "8; 9; 10; 18; 19; 20; 28; 29; 30"
