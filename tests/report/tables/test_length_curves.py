"""Curves against length: which runs, whose checkpoint, how far; and what the figures draw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.errors import UserError
from lrbench.report.figures.data import panels
from lrbench.report.figures.draw import drawings
from lrbench.report.output.cells import Table
from lrbench.report.runs.collect import collect
from lrbench.report.tables.horizons import median_of, reached
from lrbench.report.tables.length_curves import length_tables, solving
from lrbench.report.tables.matrix import paper_tables
from lrbench.report.tables.request import Request, narrowed
from lrbench.statistics import FEWEST_STRINGS, passes
from lrbench.tables import TableCell, TableSpec, load_table
from tests.report.runs.test_certificates import certificate, keep

Write = Callable[..., Path]
SPEC = TableSpec(
    "curves",
    "Curves",
    tuple(
        TableCell((f"task={task}", f"model={model}", "trials=2"))
        for task in ("sum", "even_pair")
        for model in ("blockdiag", "s4")
    ),
    columns=("sum", "even_pair"),
    kind="lengths",
)
STEPS = {"best": 2000, "last": 3000}


def rows(scores: dict[int, float], which: str = "best", n: int = 1000) -> list[dict[str, Any]]:
    splits = {40: "train_length", 500: "test"}
    return [
        {
            **{"length": length, "split": splits.get(length, "further"), "metric": "accuracy"},
            **{"value": value, "n": n, "which": which, "kind": "test"},
        }
        for length, value in scores.items()
    ]


@pytest.fixture
def three(write: Write) -> None:
    """Two runs of a model that solves sum, one of a model that does not."""
    last = rows({40: 1.0, 500: 0.4}, "last")
    far = {40: 1.0, 500: 1.0, 997: 1.0, 4999: 1.0}
    write(seed=0, evaluations=[*rows(far), *last], checkpoints=STEPS)
    near = {40: 1.0, 500: 1.0, 997: 0.5, 4999: 0.1}
    write(seed=1, evaluations=[*rows(near), *last], checkpoints=STEPS)
    write(model="s4", fingerprint="b" * 12, evaluations=rows({40: 1.0, 500: 0.3, 997: 0.2}))


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def titles(table: Table) -> list[str]:
    return [column.title for column in table.columns]


def test_horizons_then_accuracies_of_each_task(runs: Path, three: None) -> None:
    summary, best, last = length_tables(collect(runs), SPEC, "best")
    assert titles(summary)[3:] == [
        *("horizons: best", "median: best", "horizons: last", "median: last")
    ]
    assert texts(summary) == [["sum", "blockdiag", "2", ">= 4,999; 500", "500", "40; 40", "40"]]
    assert best.title == "sum (mod 5) against length: best"
    assert titles(best) == ["model", "40", "500", "997", "4,999", "horizon"]
    assert texts(best) == [
        [
            *("blockdiag", "1.0000 ± 0.0000 (2)", "1.0000 ± 0.0000 (2)"),
            *("0.7500 ± 0.3536 (2)", "0.5500 ± 0.6364 (2)", "500"),
        ],
        ["chance", "-", "0.204", "-", "-", "-"],
    ]
    assert titles(last) == ["model", "40", "500", "horizon"]
    assert texts(last)[0][2] == "0.4000 ± 0.0000 (2)"


def test_what_is_far_below_chance_is_explained(runs: Path, write: Write) -> None:
    levels = [{"baseline": "uniform", "length": x, "value": 0.2, "n": 1000} for x in (500, 997)]
    write(evaluations=rows({40: 1.0, 500: 1.0, 997: 0.11}), baselines=levels)
    assert len(length_tables(collect(runs), SPEC, "best")[1].notes) == 1
    write(evaluations=rows({40: 1.0, 500: 1.0, 997: 0.0}), baselines=levels)
    assert any("far below chance" in n for n in length_tables(collect(runs), SPEC, "best")[1].notes)


def test_cells_that_do_not_solve_or_have_no_run_are_named(runs: Path, three: None) -> None:
    notes = length_tables(collect(runs), SPEC, "best")[0].notes
    assert "does not reach 0.99 at 500: sum x s4 (best of 1 0.3000)" in notes
    assert "no run has ended of even_pair x blockdiag, even_pair x s4" in notes
    assert "sum x s4: 1 of 2 runs have ended" in notes


def test_one_run_that_solves_is_enough(runs: Path, write: Write) -> None:
    write(seed=0, evaluations=rows({40: 1.0, 500: 0.99}))
    write(seed=1, evaluations=rows({40: 1.0, 500: 0.2}))
    found = length_tables(collect(runs), SPEC, "best")
    assert texts(found[0])[0][:3] == ["sum", "blockdiag", "2"]
    assert texts(found[1])[0][2] == "0.5950 ± 0.5586 (2)"


def test_rivals_are_shown_when_one_is_chosen(runs: Path, three: None, write: Write) -> None:
    write(fingerprint="c" * 12, lr=1e-3, evaluations=rows({40: 1.0, 500: 1.0}))
    contested = length_tables(collect(runs), SPEC, "best")
    assert len(contested) == 1 and not contested[0].rows
    assert any("2 configurations compete for sum x blockdiag" in n for n in contested[0].notes)
    assert not any("no run has ended of sum" in note for note in contested[0].notes)
    chosen = length_tables(collect(runs), SPEC, "best", choose=["cccc"])
    assert texts(chosen[0]) == [["sum", "blockdiag", "1", *(">= 500",) * 4]]


def test_of_two_scores_at_a_length_that_on_more_strings_counts(runs: Path, write: Write) -> None:
    few, many = rows({997: 0.0}, n=400), rows({997: 1.0}, n=2000)
    write(evaluations=[*rows({40: 1.0, 500: 1.0}), *few, *many])
    collection = collect(runs)
    assert texts(length_tables(collection, SPEC, "best")[1])[0] == [
        *("blockdiag", "1.0000", "1.0000", "1.0000", ">= 997")
    ]
    [panel] = panels(collection, "best")
    assert panel.curves[0].mean[-1] == (997.0, 1.0) and panel.curves[0].horizon == 997


def test_rules_that_kept_one_checkpoint_share_its_scores(runs: Path, write: Write) -> None:
    own = [*rows({40: 1.0, 500: 1.0}), *rows({40: 1.0, 500: 1.0}, "last")]
    both = {"best": 2000, "last": 2000}
    write(evaluations=[*own, *rows({10_007: 0.5})], checkpoints=both)
    last = length_tables(collect(runs), SPEC, "best")[2]
    assert titles(last)[1:-1] == ["40", "500", "10,007"]


def test_horizons() -> None:
    assert reached([(40, 1.0, 1000), (500, 0.98, 10_000)]).text == "40"
    assert reached([(500, 1.0, 1000), (40, 1.0, 1000)]).text == ">= 500"
    assert reached([(40, 0.9, 1000), (500, 1.0, 1000)]).text == "< 40"
    assert reached([(40, 1.0, 1000), (500, 1.0, 380)]).text == ">= 40", "too few strings"
    assert reached([(40, 1.0, 10)]).text == "?"
    assert reached([(40, 1.0, 1000), (500, 0.9975, 400)]).text == "40†", "one wrong string"
    assert reached([(40, 1.0, 1000), (500, 0.995, 400)]).text == "40"
    assert reached([(40, 0.9969, 1000)]).text == "< 40", "of averaged tasks: rounded down"
    assert reached([(40, 0.9975, 400), (500, 1.0, 1000)]).text == "< 40†"
    assert passes(FEWEST_STRINGS, FEWEST_STRINGS)
    assert not passes(FEWEST_STRINGS - 1, FEWEST_STRINGS - 1)
    runs = [reached([(length, 1.0, 1000), (5000, 0.0, 1000)]) for length in (997, 40, 500)]
    assert median_of(runs).length == 500 and median_of(runs[:2]).length == 40
    everywhere = reached([(500, 1.0, 1000)])
    assert median_of([everywhere, runs[2]]).text == "500", "seen to fail comes before"


def test_only_rows_are_drawn_and_horizons_marked(runs: Path, three: None) -> None:
    collection = collect(runs)
    assert set(solving(collection, SPEC, "best").runs["model"]) == {"blockdiag"}
    horizons, one = drawings(collection, Request(table=SPEC))
    assert horizons.name == "figure_horizons"
    assert one.name == "figure_length_sum" and "ring" in one.caption
    [every] = drawings(collection, Request())
    assert "ring" not in every.caption and every.files != one.files


def test_runs_of_other_settings_are_no_part_of_it(runs: Path, write: Write) -> None:
    write(evaluations=rows({40: 1.0, 500: 1.0}))
    write(fingerprint="c" * 12, lr=1e-3, evaluations=rows({40: 1.0, 500: 1.0}))
    cell = TableCell(("task=sum", "model=blockdiag", "optim.lr=0.001"))
    spec = TableSpec("one", "One", (cell,), kind="lengths")
    assert len(paper_tables(collect(runs), spec)[0].rows) == 1
    assert set(narrowed(collect(runs), Request(table=spec)).runs["fingerprint"]) == {"c" * 12}


def test_what_goes_with_no_such_table(runs: Path, three: None) -> None:
    with pytest.raises(UserError, match="goes with no corpus"):
        length_tables(collect(runs), TableSpec("x", "X", (), "", "rir2023"), "best")
    with pytest.raises(UserError, match="rule 'bst' unknown"):
        length_tables(collect(runs), SPEC, "bst")


def test_the_builtin_table(tmp_path: Path) -> None:
    spec = load_table("length_curves")
    assert (spec.kind, spec.rule, len(spec.cells)) == ("lengths", "best", 27)
    assert load_table("fan2024_table2").kind == "paper"
    wrong = tmp_path / "mine.yaml"
    wrong.write_text("kind: length\ncells: []\n")
    with pytest.raises(UserError, match="Did you mean 'lengths'"):
        load_table(str(wrong))


def test_a_certified_run_holds_everywhere(three: None, runs: Path) -> None:
    (folder,) = (path.parent for path in runs.glob("**/s1/result.json"))
    keep(folder, certificate(which="last", step=3000))
    others = certificate(which="best", verdict="certified", witness=None, weights_sha256="cd" * 32)
    keep(folder, others, "best.json")
    first = length_tables(collect(runs), SPEC, "best")[0]
    titles = [column.title for column in first.columns]
    (row,) = texts(first)
    reported = dict(zip(titles, row, strict=True))
    assert reported["horizons: best"] == ">= 4,999; ∞ certified"
    assert (
        reported["certified: best"] == "1 / 0 / 0" and reported["shortest failure: best"] == "-; ∞"
    )
    assert (
        reported["certified: last"] == "0 / 1 / 0" and reported["shortest failure: last"] == "-; 12"
    )

    keep(folder, others | {"trained_again": "other scores"}, "best.json")
    again = length_tables(collect(runs), SPEC, "best")[0]
    (row,) = texts(again)  # a proof about other weights than those that were scored
    assert "certified" not in row[titles.index("horizons: best")]
