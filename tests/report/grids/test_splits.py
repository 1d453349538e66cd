"""A paper's table over splits: ours, its numbers, baselines, verdicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.errors import UserError
from lrbench.report.output.cells import Table
from lrbench.report.runs.collect import collect
from lrbench.report.tables.matrix import paper_tables
from lrbench.report.tables.request import Request, narrowed
from lrbench.tables import TableCell, TableSpec, load_table

Write = Callable[..., Any]
A, B, C = "a" * 12, "b" * 12, "c" * 12
SCORES = {"near_iid": 0.592, "args_10": 0.122, "lra_test": 0.3}
LRA = ("protocol.train_split=lra_train", "protocol.test_splits=[lra_test]")
MIX = ("protocol.train_split=mix_train", "protocol.test_splits=[mix_test]")


def spec(
    *models: str, table: str = "2", arguments: tuple[str, ...] = (), **changes: Any
) -> TableSpec:
    common = ("task=listops", "trials=3", *(arguments or ("protocol.train_split=train",)))
    cells = tuple(TableCell((*common, f"model={model}")) for model in models)
    source = f"arXiv:2311.04449, Table {table}"
    given: dict[str, Any] = {"columns": tuple(SCORES), **changes}
    return TableSpec("mine", "Mine", cells, source, "rir2023", **given)


def shown(runs: Path, table: TableSpec, references: Path, **options: Any) -> list[Table]:
    return paper_tables(collect(runs), table, "", references, **options)


def texts(table: Table) -> list[dict[str, str]]:
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, [cell.text for cell in row], strict=True)) for row in table.rows]


def number(table: Table, model: str, name: str, split: str = "near_iid") -> str:
    [found] = [r[split] for r in texts(table) if (r["model"], r["number"]) == (model, name)]
    return found


def test_ours_the_papers_and_the_baselines(runs: Path, three: Write, printed: Path) -> None:
    three(SCORES)
    main = shown(runs, spec("bbt_grc", "rnn_grc"), printed)[0]
    assert main.title == "Mine: best"
    assert [column.title for column in main.columns] == ["model", "number", *SCORES]
    assert [(row["model"], row["number"]) for row in texts(main)] == [
        ("bbt_grc", "best"),
        ("bbt_grc", "best, median"),
        ("bbt_grc", "paper: BBT-GRC"),
        ("rnn_grc", "best"),
        ("MEGA", "paper"),
        ("S4D", "paper"),
        ("baseline", "uniform"),
        ("baseline", "majority"),
        ("baseline", "root_operator"),
        ("baseline", "root_digits"),
        ("baseline", "no nesting"),
    ]
    assert number(main, "bbt_grc", "best") == "0.5920 ± 0.0010 (3), reproduced"
    assert number(main, "bbt_grc", "best, median") == "0.5920 (3)"
    assert number(main, "bbt_grc", "best, median", "lra_test") == "-"
    assert number(main, "bbt_grc", "best", "lra_test") == "0.3000 ± 0.0010 (3)"
    assert number(main, "bbt_grc", "paper: BBT-GRC") == "0.59"
    assert number(main, "bbt_grc", "paper: BBT-GRC", "lra_test") == "-"
    assert number(main, "rnn_grc", "best") == "-"
    assert number(main, "MEGA", "paper") == "0.7545 ± 0.0026"
    assert number(main, "baseline", "root_digits") == "0.400"
    assert number(main, "baseline", "no nesting") == "0.400"
    notes = "\n".join(main.notes)
    assert "median of 3 runs" in notes and "population std" in notes
    assert "root_digits = given that operator" in notes
    assert "listops x rnn_grc: 0 of 3 runs have ended" in notes


def test_no_nesting_is_the_best_lookup_on_each_split(
    runs: Path, three: Write, printed: Path
) -> None:
    levels = {
        "near_iid": {"majority": 0.1, "root_digits": 0.4, "root_summary": 0.42, "root_rule": 0.45},
        "args_10": {"majority": 0.1, "root_digits": 0.5, "root_summary": 0.41, "root_rule": 0.3},
        "lra_test": {"majority": 0.1, "root_digits": 0.2, "root_summary": 0.44, "root_rule": 0.3},
    }
    rows = [
        {"baseline": name, "split": split, "value": value, "n": 2_000}
        for split, known in levels.items()
        for name, value in known.items()
    ]
    three(SCORES, baselines=rows)
    main = shown(runs, spec("bbt_grc"), printed)[0]
    best = [number(main, "baseline", "no nesting", split) for split in levels]
    assert best == ["0.450", "0.500", "0.440"]


def test_at_chance_is_no_better_than_uniform_and_majority(
    runs: Path, three: Write, printed: Path
) -> None:
    """Both ours and the paper's 0.123 on 2,000 strings of which 0.12 are the majority's."""
    three(SCORES)
    main = shown(runs, spec("bbt_grc"), printed)[0]
    assert number(main, "bbt_grc", "best", "args_10") == "0.1220 ± 0.0010 (3), at chance"
    assert number(main, "bbt_grc", "paper: BBT-GRC", "args_10") == "0.123, at chance"


@pytest.mark.parametrize(("accuracy", "expected"), [(0.65, "above"), (0.5, "below")])
def test_an_accuracy_far_from_1_is_compared_with_the_papers(
    accuracy: float, expected: str, runs: Path, three: Write, printed: Path
) -> None:
    """Unlike at lengths, where not learned would hide it."""
    three({"near_iid": accuracy})
    main = shown(runs, spec("bbt_grc"), printed)[0]
    assert number(main, "bbt_grc", "best").endswith(f"(3), {expected}")


def test_two_runs_have_no_verdict_and_no_median(
    runs: Path, write_splits: Write, printed: Path
) -> None:
    for seed in range(2):
        write_splits(SCORES, seed=seed)
    main, rest, *_ = shown(runs, spec("bbt_grc"), printed)
    assert number(main, "bbt_grc", "best") == "0.5920 ± 0.0000 (2)"
    assert "best, median" not in {row["number"] for row in texts(main)}
    assert {row["verdict"] for row in texts(rest)} == {"-"}
    assert "listops x bbt_grc: 2 of 3 runs have ended" in main.notes


def test_what_a_verdict_rests_on(runs: Path, three: Write, printed: Path) -> None:
    three(SCORES)
    first, *_ = texts(shown(runs, spec("bbt_grc"), printed)[1])
    assert first == {
        "split": "near_iid",
        "model": "bbt_grc",
        "n": "3",
        "strings": "10,000",
        "mean": "0.5920",
        "95 % interval": "[0.5895, 0.5945]",
        "paper": "0.59",
        "verdict": "reproduced",
        "last": "0.5420 ± 0.0010 (3)",
        "chance": "0.120",
        "up to": first["up to"],
        "best baseline": "0.400 root_digits",
    }
    assert 0.120 < float(first["up to"]) < 0.125


def test_the_end_of_training_is_not_the_papers_rule(
    runs: Path, three: Write, printed: Path
) -> None:
    three(SCORES)
    main = paper_tables(collect(runs), spec("bbt_grc"), "last", printed)[0]
    assert number(main, "bbt_grc", "last") == "0.5420 ± 0.0010 (3), not comparable"
    with pytest.raises(UserError, match=r"rule .of runs over a corpus. 'id' unknown"):
        paper_tables(collect(runs), spec("bbt_grc"), "id", printed)


def test_made_pairs_of_logic_are_not_comparable(
    runs: Path, write_splits: Write, printed: Path
) -> None:
    table = TableSpec(
        *("mine", "Mine", (TableCell(("task=logic", "model=bbt_grc")),)),
        *("arXiv:2311.04449, Table 3", "rir2023"),
    )
    for seed in range(3):
        folder = write_splits({"test_8": 0.777}, task="logic", seed=seed)
        text = (folder / "result.json").read_text().replace('"released"', '"made"')
        (folder / "result.json").write_text(text)
    main = shown(runs, table, printed)[0]
    assert number(main, "bbt_grc", "best", "test_8").endswith("not comparable")
    assert number(main, "bbt_grc", "paper: BBT-GRC", "test_8") == "0.777 ± 0.015"


def test_configurations_compete_for_a_row(
    runs: Path, three: Write, write_splits: Write, printed: Path
) -> None:
    three(SCORES)
    write_splits({"near_iid": 0.7}, fingerprint=B)
    main = shown(runs, spec("bbt_grc"), printed)[0]
    assert number(main, "bbt_grc", "best") == "2 compete"
    assert any("2 configurations compete for listops x bbt_grc" in note for note in main.notes)
    chosen = shown(runs, spec("bbt_grc"), printed, choose=("bbbb",))[0]
    assert number(chosen, "bbt_grc", "best") == "0.7000"
    assert number(chosen, "bbt_grc", "best", "args_10") == "-"
    assert "listops x bbt_grc: not tested by best on args_10, lra_test" in chosen.notes


def test_what_was_trained_on_says_which_row_and_column_a_run_fills(
    runs: Path, three: Write, printed: Path
) -> None:
    three({"lra_test": 0.55}, source="lra_train", fingerprint=A)
    three({"mix_test": 0.7}, source="mix_train", fingerprint=B)
    three(SCORES, fingerprint=C)
    cells = (*spec("bbt_grc", arguments=LRA).cells, *spec("bbt_grc", arguments=MIX).cells)
    table = TableSpec("mine", "Mine", cells, "arXiv:2311.04449, Table 4", "rir2023")
    main, rest, cost, *_ = shown(runs, table, printed)
    assert [column.title for column in main.columns[2:]] == ["lra_test", "mix_test"]
    assert number(main, "bbt_grc", "best", "lra_test") == "0.5500 ± 0.0010 (3), reproduced"
    assert number(main, "bbt_grc", "best", "mix_test") == "0.7000 ± 0.0010 (3), above"
    assert number(main, "S4D (copied)", "paper", "lra_test") == "0.6018 ± 0.0035"
    assert "best, median" not in {row["number"] for row in texts(main)}  # the paper has means
    assert "3 runs of no cell of this table: listops x bbt_grc (3)" in main.notes
    assert [row["split"] for row in texts(rest)] == ["lra_test", "mix_test"]
    tasks = [row["task"] for row in texts(cost)]
    assert tasks == ["listops (lra_train)", "listops (mix_train)"]
    kept = narrowed(collect(runs), Request(table=table)).runs
    assert set(kept["fingerprint"]) == {A, B}


def test_failed_and_diverged_runs_are_reported(
    runs: Path, write_splits: Write, printed: Path
) -> None:
    for seed in range(3):
        write_splits({}, seed=seed, status="diverged", stopped="diverged", baselines=[])
    main = shown(runs, spec("bbt_grc"), printed)[0]
    assert number(main, "bbt_grc", "best") == "diverged, not learned"
    assert sum(note.startswith("diverged: ") for note in main.notes) == 3


def test_runs_that_used_up_their_budget_are_counted(
    runs: Path, write_splits: Write, printed: Path
) -> None:
    write_splits(SCORES, stopped="budget")
    write_splits(SCORES, seed=1)
    notes = shown(runs, spec("bbt_grc"), printed)[0].notes
    assert any(note.startswith("1 of 2 runs ended at their budget") for note in notes)


def test_without_a_run_the_kept_baselines_stand(runs: Path, printed: Path) -> None:
    [main] = shown(runs, spec(table="5", columns=("near_iid",)), printed)
    assert [(row["model"], row["near_iid"]) for row in texts(main)] == [
        ("BBT-GRC", "0.015, at chance"),
        ("RIR-GRC", "0.7833"),
        ("baseline", "0.100"),
        ("baseline", "0.540"),
        ("baseline", "0.540"),  # the best of them, without nesting
    ]


@pytest.mark.parametrize(
    ("name", "columns", "models"),
    [("rir2023_table2", 7, 11), ("rir2023_table3", 6, 8), ("rir2023_table5", 7, 11)],
)
def test_a_shipped_table_has_every_row_of_the_paper(
    name: str, columns: int, models: int, runs: Path
) -> None:
    main = paper_tables(collect(runs), load_table(name))[0]
    assert len(main.columns) == 2 + columns
    papers = [row for row in texts(main) if row["number"].startswith("paper")]
    assert len({row["number"].partition(": ")[2] or row["model"] for row in papers}) == models
    assert {row["number"] for row in texts(main)} >= {"uniform", "majority"}


def test_the_shipped_table_4_has_the_columns_on_listops(runs: Path) -> None:
    main = paper_tables(collect(runs), load_table("rir2023_table4"))[0]
    assert number(main, "bbt_grc", "paper: BBT-GRC", "mix_test") == "0.557 ± 0.015"
    assert number(main, "MEGA (copied from Ma et al.)", "paper", "mix_test") == "-"
    assert number(main, "baseline", "root_digits", "mix_test") != "-"
    assert main.title.endswith("(Long Range Arena), listops: best")


def test_columns_of_table_4_without_data_say_so(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path / "data"))
    trees, text, retrieval = paper_tables(collect(runs), load_table("rir2023_table4"))
    assert not any("no data at hand" in cell.text for row in trees.rows for cell in row)
    flattered = [
        any("selects on lra_text by the test split" in n for n in each.notes)
        for each in (trees, text, retrieval)
    ]
    assert flattered == [False, True, False]
    said = [
        any("which is the paper's rule" in n for n in t.notes) for t in (trees, text, retrieval)
    ]
    assert said == [True, False, True]
    for table, task, papers in (
        (text, "lra_text", ("0.8569 ± 0.0007", "0.8818 ± 0.0004", "0.9043")),
        (retrieval, "lra_retrieval", ("0.9078 ± 0.0016", "0.9117 ± 0.0006", "0.9125")),
    ):
        assert table.title.endswith(f", {task}: best")
        ours = [row for row in texts(table) if row["number"] == "best"]
        assert [row["test"] for row in ours] == ["no data at hand"] * 5
        assert number(table, "bbt_grc", "paper: BBT-GRC", "test") == papers[0]
        assert number(table, "s4d_stack", "paper: S4D", "test") == papers[1]
        assert number(table, "MEGA (copied from Ma et al.)", "paper", "test") == papers[2]
        assert sum(f"`lrbench data fetch {task}` says which" in note for note in table.notes) == 1
    (tmp_path / "data" / "lra_text" / "train").mkdir(parents=True)
    _, text, retrieval = paper_tables(collect(runs), load_table("rir2023_table4"))
    assert [row["test"] for row in texts(text) if row["number"] == "best"] == ["-"] * 5
    assert number(retrieval, "bbt_grc", "best", "test") == "no data at hand"


def test_a_number_of_ours_stands_without_the_data(
    runs: Path, write_splits: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of another machine, with all bytes that the paper reads and with fewer."""
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path / "data"))
    for seed in range(3):
        write_splits({"test": 0.857}, seed=seed, task="lra_text")
    cell = TableCell(("task=lra_text", "model=bbt_grc", "trials=3"))
    table = TableSpec("mine", "Mine", (cell,), "arXiv:2311.04449, Table 4", "rir2023")
    main = paper_tables(collect(runs), table)[0]
    assert number(main, "bbt_grc", "best", "test").startswith("0.8570 ± 0.0000 (3)")
    assert not any("no data at hand" in note for note in main.notes)
    everything = paper_tables(collect(runs), load_table("rir2023_table4"))
    mains = [each for each in everything if each.title.endswith(": best")]
    assert len(mains) == 3
    assert not any("of no cell" in note for each in (mains[0], mains[2]) for note in each.notes)
