"""Reports of runs that are scored by an error: lower is better, nothing is guessed or solved."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lrbench.metrics import NRMSE
from lrbench.report.output.cells import Table
from lrbench.report.output.evaluation import evaluation_table
from lrbench.report.output.summary import run_summary
from lrbench.report.paper.recipe import faithful
from lrbench.report.paper.reference import Reference, lookup, printed
from lrbench.report.paper.verdict import Evidence, Verdict, against, judge, mean_interval
from lrbench.report.runs.collect import collect
from lrbench.report.runs.record import best_baseline, best_baselines
from lrbench.report.tables import request
from lrbench.report.tables.matrix import paper_tables
from lrbench.report.tables.request import chosen_tables
from tests.made_up_results import open_table

LENGTH = 5000


def evaluation(value: float, which: str, kind: str, split: str, metric: str = "nrmse") -> Any:
    n = 8 if split == "train_length" else 64
    return {
        **{"length": LENGTH, "split": split, "metric": metric, "value": value, "n": n},
        **{"which": which, "kind": kind},
    }


def evaluations(value: float) -> list[Any]:
    rows = []
    for which in ("best", "id", "band", "last"):
        rows += [
            evaluation(value, which, "look", "test"),
            evaluation(value * 1.1, which, "look", "train_length"),
            evaluation(value**2, which, "look", "train_length", "loss"),
            evaluation(value, which, "test", "test"),
        ]
    return rows


def baselines() -> list[Any]:
    values = {"persistence": 1.62, "mean": 1.0}
    return [{"baseline": b, "length": LENGTH, "value": v, "n": 64} for b, v in values.items()]


@pytest.fixture
def made(result: Callable[..., Any]) -> Callable[..., Any]:
    """The content of a result.json of mackey_glass."""

    def make(value: float, model: str = "lmu_parallel", horizon: int = 15, **changes: Any) -> Any:
        content = result(model=model)
        content["config"]["task"] = {
            **{"name": "mackey_glass", "horizon": horizon, "tau": 17, "series": 128}
        }
        content["config"]["protocol"] = {
            **{"train_length": LENGTH, "test_lengths": [LENGTH]},
            **{"max_steps": 3500, "look_every": 70},
        }
        return content | {
            **{"task": "mackey_glass", "task_title": "mackey_glass", "horizon": {}},
            **{"guessing": [], "baselines": baselines(), "perfect_look": None},
            "evaluations": evaluations(value),
            **changes,
        }

    return make


@pytest.fixture
def three(runs: Path, made: Callable[..., Any]) -> Callable[..., None]:
    """Write three runs of a model with errors around a value."""

    def write(value: float, model: str = "lmu_parallel", **changes: Any) -> None:
        for seed in range(3):
            content = made(value + 0.0005 * (seed - 1), model, **changes) | {"seed": seed}
            folder = runs / "mackey_glass" / model / "fan2024" / ("a" * 12) / f"s{seed}"
            folder.mkdir(parents=True)
            (folder / "result.json").write_text(json.dumps(content))

    return write


def text(table: Table, row: str, number: str, column: str = "mackey_glass, NRMSE") -> str:
    titles = [title.title for title in table.columns]
    rows = [dict(zip(titles, [cell.text for cell in cells], strict=True)) for cells in table.rows]
    [found] = [r[column] for r in rows if (r["model"], r["number"]) == (row, number)]
    return found


def test_the_papers_numbers_are_read_with_their_metric_and_length() -> None:
    values = {found.model: found.text for found in printed("mackey_glass", None, "fan2024")}
    assert values == {"LSTM": "0.059", "LMU": "0.049", "Hybrid": "0.045", "Our Model": "0.044"}
    found = lookup("mackey_glass", None, "lmu_parallel", "fan2024")
    assert found is not None
    assert (found.metric, found.length, found.rule) == (NRMSE, LENGTH, "last")
    assert lookup("mackey_glass", None, "lmu_parallel", "rir2023") is None


def test_a_percentage_is_a_share_with_the_digits_printed() -> None:
    found = {row.model: (row.text, row.value) for row in printed("psmnist", None, "fan2024")}
    assert found["Our Model"] == ("0.9849", 0.9849)
    assert found["HiPPO-LegS"] == ("0.983", 0.983)
    assert {row.rule for row in printed("psmnist", None, "fan2024")} == {"id"}


def test_another_horizon_is_another_task() -> None:
    assert faithful("mackey_glass", {"task.horizon": 15, "protocol.train_length": 5000})
    assert not faithful("mackey_glass", {"task.horizon": 1, "protocol.train_length": 5000})
    assert not faithful("mackey_glass", {"task.horizon": 15, "protocol.train_length": 500})
    assert faithful("sum", {"task.horizon": 1})


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.041, 0.047, Verdict.REPRODUCED),
        (0.0396, 0.0484, Verdict.REPRODUCED),  # a tenth of 0.044 is 0.0044; as printed 0.040, 0.048
        (0.030, 0.039, Verdict.BELOW),
        (0.049, 0.060, Verdict.ABOVE),
        (0.030, 0.060, Verdict.INCONCLUSIVE),
    ],
)
def test_an_error_is_reproduced_within_a_tenth(low: float, high: float, expected: Verdict) -> None:
    assert against((low, high), "0.044", NRMSE) is expected


def test_verdicts_on_an_error() -> None:
    paper = Reference("0.044", 0.044, LENGTH, "paper", "", "Our Model", "last", None, NRMSE)

    def verdict(*values: float, comparable: bool = True, **changes: Any) -> Verdict | None:
        evidence = Evidence(values, [0.04] * 3, None, metric=NRMSE, chance=1.0, **changes)
        return judge(evidence, paper, comparable)

    assert verdict(0.044, 0.044, 0.045) is Verdict.REPRODUCED
    assert verdict(0.020, 0.021, 0.022) is Verdict.BELOW
    assert verdict(0.900, 0.901, 0.902) is Verdict.ABOVE
    assert verdict(1.000, 1.001, 1.002) is Verdict.AT_CHANCE
    assert verdict(0.044, 0.044, 0.045, comparable=False) is Verdict.NOT_COMPARABLE
    assert verdict(0.044, 0.044) is None
    assert verdict(diverged=3) is Verdict.NOT_LEARNED
    assert mean_interval([1.2, 1.3, 1.4], NRMSE)[1] > 1.3


def test_the_best_baseline_is_the_lowest(made: Callable[..., Any]) -> None:
    content = made(0.05)
    best = best_baseline(content, LENGTH)
    assert best is not None and best["baseline"] == "mean"
    assert best_baselines(content)[LENGTH]["baseline"] == "mean"


def test_the_papers_table(runs: Path, three: Callable[..., None]) -> None:
    three(0.0391)
    three(0.0590, "lstm")
    tables = paper_tables(collect(runs), open_table("lmu_table3"))
    main, verdicts, fresh, solved, _, pairs = tables
    assert text(main, "lmu_parallel", "last look") == "0.0391 ± 0.0005 (3), below"
    assert text(main, "lstm", "last look") == "0.0590 ± 0.0005 (3), reproduced"
    assert text(main, "lmu_parallel", "paper: Our Model") == "0.044"
    assert text(main, "Hybrid", "paper") == "0.045"
    assert text(main, "chance", "best baseline") == "1.000"
    assert not any(row[0].text == "guessing" for row in main.rows)
    assert any("lower is better" in note for note in main.notes)
    assert "our NRMSE by the rule last (end of training, the paper's rule)" in main.notes[0]
    [legend] = [note for note in main.notes if note.startswith("verdicts")]
    assert "within 0.1 times" in legend and "0.02" not in legend and "0.95" not in legend
    assert [row[8].text for row in verdicts.rows] == ["-", "-"]  # looks: nobody guesses
    assert "NRMSE at the test length" in fresh.notes[0]
    assert "best = best look at the test length; id" in fresh.notes[0]
    assert "choose nothing at the test series" in fresh.notes[1]
    assert [row[2].text for row in solved.rows] == ["-", "-"]
    assert pairs.columns[4].title == "P(A < B)"
    assert [cell.text for cell in pairs.rows[0]][1:5] == [
        "lmu_parallel",
        "lstm",
        "3, 3",
        "1.00 [1.00, 1.00]",
    ]


def test_no_verdict_by_a_rule_the_paper_does_not_have(
    runs: Path, three: Callable[..., None]
) -> None:
    three(0.0440)
    collection, table = collect(runs), open_table("lmu_table3")
    words = {
        rule: text(paper_tables(collection, table, rule)[0], "lmu_parallel", f"{rule} look")
        for rule in ("last", "best", "id")
    }
    assert words["last"].endswith("reproduced")
    assert words["best"].endswith("not comparable") and words["id"].endswith("not comparable")


def test_an_easier_task_is_not_the_papers(runs: Path, three: Callable[..., None]) -> None:
    three(0.0440, horizon=3)
    main = paper_tables(collect(runs), open_table("lmu_table3"))[0]
    assert text(main, "lmu_parallel", "last look").endswith("not comparable")
    [table] = request.tables_of(collect(runs), request.Request())
    assert table.rows[0][-1].text == "-"


def test_every_number_of_a_run_and_two_metrics_in_one_report(
    runs: Path, three: Callable[..., None], write: Callable[..., Path]
) -> None:
    three(0.0440)
    write(task="sum", model="blockdiag", seed=0)
    [table] = request.tables_of(collect(runs), request.Request())
    assert [row[0].text for row in table.rows] == ["mackey_glass, NRMSE", "sum (mod 5)"]
    assert table.rows[0][-1].text == "0.044"
    assert table.rows[0][12].text == "0.0440 ± 0.0005 (3)"
    assert any("lower is better" in note for note in table.notes)
    main = chosen_tables(collect(runs), [], [])[0]
    [legend] = [note for note in main.notes if note.startswith("verdicts")]
    [errors] = [note for note in main.notes if note.startswith("NRMSE")]
    assert "within 0.02" in legend and "within 0.1 times" in errors
    titles = [column.title for column in main.columns]
    assert titles == ["model", "number", "mackey_glass, NRMSE", "sum (mod 5)"]


def test_runs_csv_has_the_error_beside_its_chance(runs: Path, three: Callable[..., None]) -> None:
    three(0.0440)
    frame = collect(runs).frame
    errors = frame[frame["metric"] == "nrmse"]
    assert set(errors["chance"]) == {1.0} and set(errors["chance_baseline"]) == {"mean"}
    assert frame[frame["metric"] == "loss"]["chance"].isna().all()


def shown(say: Callable[[Console], None]) -> str:
    console = Console(file=StringIO(), width=80)
    say(console)
    out = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, out.splitlines())) <= 80
    return str(out)


def test_the_end_of_a_run(made: Callable[..., Any], tmp_path: Path) -> None:
    out = shown(lambda console: run_summary(made(0.0392), tmp_path, console))
    row = next(line.split() for line in out.splitlines() if line.strip().startswith("5,000"))
    assert row == ["5,000", "test", "0.0392", "0.0392", "0.0392", "1.000", "0.044"]
    assert "NRMSE at every position, lower is better" in out
    assert "best look     0.0392" in out
    for word in ("interval", "guessing", "horizon", "look further"):
        assert word not in out


def test_evaluate_prints_no_interval_of_an_error() -> None:
    rows = [{"length": 100, "n": 64, "metric": "nrmse", "value": 0.25, "chance": 1.0}]
    out = shown(lambda console: evaluation_table(rows, console))
    assert "NRMSE" in out and "0.2500" in out and "interval" not in out
