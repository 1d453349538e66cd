"""What a page says, and in which order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lrbench import plugins, tables
from tests.made_up_results import make_split_result
from tests.publish.conftest import run_folder, write_run

Run = Callable[..., Any]


def page(results: Path) -> str:
    return (results / "toy" / "README.md").read_text()


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_sections_in_order(results: Path) -> None:
    lines = page(results).splitlines()
    assert lines[1] == "# A toy \\[table\\]"
    assert lines[3].startswith("Source: a paper, Table 2.")
    assert [line for line in lines if line.startswith("## ")] == [
        "## Table",
        "## Where we and the paper disagree",
        "## Unfinished",
        "## How sure",
        "## How it was made",
    ]
    caption = "sum (mod 5): accuracy against length; a thin line a run, a thick one their mean"
    assert f"![{caption}](figures/figure_length_sum.svg)" in lines
    assert "### Cost" in section(page(results), "How sure").splitlines()


def test_numbers_of_a_disagreement(results: Path) -> None:
    reported = section(page(results), "Where we and the paper disagree").splitlines()
    assert reported[1] == (
        "Of 4 cells with a number of the paper's: 2 without a verdict (fewer than 3 runs),"
        " 1 above, 1 reproduced."
    )
    [item] = [line for line in reported if line.startswith("- ")]
    assert item == (
        "- **sum x s4**: ours 0.6100 ± 0.0100 (3), 95 % interval \\[0.5852, 0.6348\\];"
        " paper 0.27, at chance (S4); above"
    )
    assert "  Not looked into yet." in reported


def test_a_note_on_a_cell_without_a_verdict_is_reported(lrbench: Run, results: Path) -> None:
    note = "disagreements: [{cells: [even_pair x blockdiag], checked: This., believed: That.}]\n"
    (results / "toy" / "notes.yaml").write_text(note)
    ended = lrbench("publish", "--rebuild", str(results))
    assert ended.code == 0 and "about nothing that disagrees" not in ended.err
    reported = section(page(results), "Where we and the paper disagree").splitlines()
    [item] = [line for line in reported if line.startswith("- **even_pair x blockdiag**")]
    assert item.endswith("; too few runs for a verdict")
    assert reported[reported.index(item) + 2] == "  Checked: This. Believed: That."


def test_a_few_runs_that_agree_are_no_disagreement(lrbench: Run, results: Path, runs: Path) -> None:
    note = "disagreements: [{cells: [even_pair x blockdiag], checked: This., believed: That.}]\n"
    (results / "toy" / "notes.yaml").write_text(note)
    write_run(runs, task="even_pair", accuracy=0.98)  # the paper prints 0.99
    ended = lrbench("publish", "toy", "--runs", str(runs), "--output", str(results), "--force")
    assert ended.code == 0, ended.err
    assert "the note on even_pair x blockdiag is about nothing that disagrees" in ended.err
    assert "**even_pair x blockdiag**: ours" not in page(results)


def test_what_is_unfinished(results: Path) -> None:
    reported = [line for line in section(page(results), "Unfinished").splitlines() if line]
    assert reported == [
        "- **even_pair x blockdiag**: 1 of 3 runs have ended.",
        "  `lrbench sweep --table toy task=even_pair model=blockdiag`",
        "- **even_pair x s4**: 0 of 3 runs have ended.",
        "  `lrbench sweep --table toy task=even_pair model=s4`",
        "Published runs are not trained again where they lie in `outputs/`: first"
        " `cp -r results/toy/records/. outputs/`, and afterwards `lrbench publish toy`.",
    ]


def test_nothing_is_unfinished(lrbench: Run, results: Path, tmp_path: Path) -> None:
    for seed in range(3):
        for model in ("s4", "blockdiag"):
            write_run(tmp_path / "more", task="even_pair", model=model, seed=seed, accuracy=0.95)
    assert lrbench("publish", "toy", "--runs", "more", "--output", str(results)).code == 0
    assert section(page(results), "Unfinished").strip() == (
        "Nothing: every cell has the runs that were planned."
    )


def test_how_it_was_made(results: Path) -> None:
    reported = section(page(results), "How it was made")
    for line in (
        "lrbench sweep --table toy ",
        "- dates: 2026-03-04",
        "- commits: 0123456789",
        "- machines: A processor, 2 cores, 1 thread",
        "- versions: lrbench 0.1.0, python 3.11.7, torch 2.13.0+cpu",
        "- update budget: 10,000 updates: every cell",
        "- tuning: settings chosen from 4 runs: every cell",
    ):
        assert f"\n{line}" in reported
    assert "LRBENCH_PLUGINS" not in reported


def test_plug_ins_that_the_runs_need_are_named(lrbench: Run, runs: Path, tmp_path: Path) -> None:
    versions = {"torch": "2.13.0", "plugins": {"my_layers": "1" * 64, "my_task": "2" * 64}}
    write_run(runs, task="even_pair", versions=versions)
    ended = lrbench("publish", "toy", "--runs", str(runs), "--output", str(tmp_path))
    assert ended.code == 0, ended.err
    reported = section(page(tmp_path), "How it was made")
    assert "\nexport LRBENCH_PLUGINS=my_layers,my_task " in reported
    assert reported.index("export") < reported.index("lrbench sweep")


def test_the_plug_in_that_registers_the_table_is_named(
    lrbench: Run, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("my_table", "my_tab"):
        monkeypatch.setitem(plugins._loaded, name, ModuleType(name))
    monkeypatch.setitem(tables._REGISTERED_BY, "toy", "my_table.cells")
    assert lrbench("publish", "--rebuild", str(results)).code == 0
    assert "\nexport LRBENCH_PLUGINS=my_table " in section(page(results), "How it was made")


def test_a_line_for_each_table(lrbench: Run, results: Path) -> None:
    (results / "notes.yaml").write_text("about: |\n  What we *found*.\n")
    (results / ".hidden" / "records").mkdir(parents=True)
    (results / "sum" / "blockdiag").mkdir(parents=True)
    assert lrbench("publish", "--rebuild", str(results)).code == 0
    lines = (results / "README.md").read_text().splitlines()
    assert lines[1:4] == ["# Published results", "", "What we *found*."]
    assert lines[5:] == [
        "| table | rows x columns | runs | newest |",
        "| --- | --- | --- | --- |",
        "| [A toy \\[table\\]](toy/README.md) | 2 x 2 | 7 runs | 2026-03-04 |",
    ]


def test_a_table_on_another_page(lrbench: Run, results: Path, tmp_path: Path) -> None:
    front = tmp_path / "README.md"
    kept = "<!-- table: fan2024_table2 -->\nlater\n<!-- end -->\n"
    front.write_text(f"# Hello\n\n<!-- table: toy -->\nold\n<!-- end -->\n\n{kept}")
    arguments = ("publish", "--rebuild", str(results), "--page", str(front))
    ended = lrbench(*arguments, "--check")
    assert ended.code == 1 and "README.md: differs" in ended.err
    assert lrbench(*arguments).code == 0
    lines = front.read_text().splitlines()
    assert lines[2] == "<!-- table: toy -->"
    assert lines[3].split("|")[2:4] == [
        " sum (chance 0.204): at 500 / at 40 / paper ",
        " even_pair (chance 0.204): at 500 / at 40 / paper ",
    ]
    assert [[cell.strip() for cell in line.split("|")[1:4]] for line in lines[5:7]] == [
        ["blockdiag", "1.000 ± 0.000 (3) / 1.000 / 1.00", "0.950 (1) / 1.000 / 0.99"],
        ["s4", "0.610 ± 0.010 (3) / 1.000 / 0.27", "-"],
    ]
    assert lines[8].endswith("how it was made: [README.md](results/toy/README.md).")
    assert lines[9] == "<!-- end -->" and front.read_text().endswith(kept)
    assert lrbench(*arguments, "--check").code == 0
    front.write_text("<!-- table: toy, rows: s4 -->\nold\n<!-- end -->\n")
    assert lrbench(*arguments).code == 0
    lines = front.read_text().splitlines()
    assert lines[0] == "<!-- table: toy, rows: s4 -->"
    assert lines[3].startswith("| s4 ") and lines[4] == ""
    front.write_text("<!-- table: toy, rows: s5 -->\nold\n<!-- end -->\n")
    assert "row of table 'toy' 's5' unknown" in lrbench(*arguments).err
    front.write_text("<!-- table: toy -->\nold\n")
    assert "has no line <!-- end -->" in lrbench(*arguments).err
    (results / "times" / "records").mkdir(parents=True)
    (results / "times" / "records" / "times.json").write_text("{}")
    front.write_text("<!-- table: times -->\nold\n<!-- end -->\n")
    assert "times is measured, not trained: it has no table" in lrbench(*arguments).err


def test_a_table_of_splits(lrbench: Run, tmp_path: Path) -> None:
    for seed, score in enumerate((0.61, 0.62, 0.63)):
        scores = {"near_iid": score, "len_900_1000": 0.3}
        result = make_split_result(scores, seed=seed)
        result["config"]["protocol"]["train_split"] = "train"
        folder = run_folder(tmp_path / "outputs", result)
        (folder.parent / "config.json").write_text(json.dumps(result["config"]))
        (folder / "result.json").write_text(json.dumps(result))
    going = folder.with_name("s3")
    going.mkdir()
    (going / "metrics.jsonl").write_text('{"step": 1242, "loss": 1.0}\n')
    assert lrbench("publish", "rir2023_table2").code == 0
    text = (tmp_path / "results" / "rir2023_table2" / "README.md").read_text()
    reported = section(text, "Where we and the paper disagree")
    assert "- **near_iid x bbt_grc**: ours 0.6200 ± 0.0100 (3)" in reported
    assert "0.5918 (BBT-GRC); above" in reported and "x mega**" not in reported
    assert "- **listops x bbt_grc**: 0 of 3 runs have ended, 3 with other settings (¶)," in text
    assert ", seed 3 is unfinished" in text
    assert "- update budget: 100 epochs: every cell" in text
    assert lrbench("publish", "--rebuild", "results", "--check").code == 0
