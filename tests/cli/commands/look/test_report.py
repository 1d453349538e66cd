"""`lrbench report`: stdout or a whole file, without torch; nothing found is a mistake."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from lrbench.cli import app
from lrbench.cli.commands.look.report import FORMATS

Run = Callable[..., Any]
RESULT = {
    "schema": 1,
    "task": "sum",
    "model": "blockdiag",
    "protocol": "fan2024",
    "seed": 0,
    "fingerprint": "0123456789ab",
    "config": {"seed": 0, "task": {"name": "sum", "modulus": 5}},
    "status": "finished",
    "steps": 2000,
    "checkpoints": {"best": 2000},
    "evaluations": [
        {
            "length": 500,
            "split": "test",
            "metric": "accuracy",
            "value": 0.75,
            "n": 1000,
            "which": "best",
            "kind": "test",
        }
    ],
}


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    """A cell with one finished run, in the default folder of runs."""
    folder = tmp_path / "outputs" / "sum" / "blockdiag" / "fan2024" / "0123456789ab"
    (folder / "s0").mkdir(parents=True)
    (folder / "s0" / "result.json").write_text(json.dumps(RESULT))
    return folder


@pytest.mark.usefixtures("cell")
def test_a_table_on_stdout(lrbench: Run) -> None:
    ended = lrbench("report")
    assert (ended.code, ended.err) == (0, "")
    row = next(line for line in ended.out.splitlines() if line.startswith("| sum "))
    assert "| blockdiag " in row and "0123456789ab" in row and "0.7500" in row
    assert "\x1b" not in ended.out


@pytest.mark.usefixtures("cell")
def test_csv_is_nothing_but_csv(lrbench: Run) -> None:
    out = lrbench("report", "--format", "csv").out
    (row,) = csv.DictReader(out.splitlines())
    assert (row["task"], row["length"], float(row["value"])) == ("sum", "500", 0.75)


@pytest.mark.usefixtures("cell")
def test_json_has_the_numbers_of_csv_and_the_table(lrbench: Run) -> None:
    ended = lrbench("report", "--json")
    said = json.loads(ended.out)
    assert (ended.code, ended.err, said["problems"]) == (0, "", [])
    rows = list(csv.DictReader(io.StringIO(lrbench("report", "--format", "csv").out)))
    numbers = [
        {key: "" if value is None else value for key, value in one.items()}
        for one in said["numbers"]
    ]
    assert [list(one) for one in numbers] == [list(row) for row in rows] and len(rows) == 1
    for one, row in zip(numbers, rows, strict=True):
        assert {key: str(value) for key, value in one.items()} == row
    (table,) = said["tables"]
    cells = dict(zip(table["columns"], table["rows"][0], strict=True))
    assert [0.75] in [cell["values"] for cell in cells.values()]
    assert "blockdiag" in [cell["text"] for cell in cells.values()]
    assert lrbench("report", "--json", "--format", "csv").code == 2
    refused = lrbench("report", "--runs", "nowhere", "--json")
    assert (refused.code, refused.out) == (1, "")


def test_files_that_cannot_be_used_are_named(lrbench: Run, cell: Path) -> None:
    (cell / "s1").mkdir()
    (cell / "s1" / "result.json").write_text('{"schema": 1, "ta')
    ended = lrbench("report")
    assert ended.code == 0
    table, note = ended.out.index("| sum "), ended.out.index("not used: ")
    assert table < note and "s1/result.json: is not json" in ended.out
    ended = lrbench("report", "--format", "csv")
    assert "s1/result.json" not in ended.out
    assert "not used: outputs/sum/blockdiag/fan2024/0123456789ab/s1/result.json" in ended.err


@pytest.mark.usefixtures("cell")
def test_a_file_instead_of_stdout(lrbench: Run, tmp_path: Path) -> None:
    shown = lrbench("report").out
    target = tmp_path / "report.md"
    target.write_text("old")
    ended = lrbench("report", "--output", "report.md")
    assert (ended.code, ended.out, ended.err) == (0, "", "wrote report.md\n")
    assert target.read_text() == shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outputs", "report.md"]


@pytest.mark.usefixtures("cell")
def test_what_a_killed_report_left_goes_with_the_next(lrbench: Run, tmp_path: Path) -> None:
    killed = (
        "import os, signal\nfrom pathlib import Path\nfrom lrbench.runs.folder import files\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.write_bytes(Path('report.md'), b'half')"
    )
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -9
    assert len(list(tmp_path.glob(".report.md.*.tmp"))) == 1
    assert lrbench("report", "--output", "report.md").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outputs", "report.md"]


@pytest.mark.usefixtures("cell")
def test_a_link_stays_a_link_and_a_pipe_a_pipe(lrbench: Run, tmp_path: Path) -> None:
    shown = lrbench("report").out
    (tmp_path / "real.md").write_text("old")
    (tmp_path / "link.md").symlink_to("real.md")
    assert lrbench("report", "--output", "link.md").code == 0
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real.md").read_text() == shown
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert lrbench("report", "--output", "pipe").code == 0
    assert os.read(reader, 1 << 20).decode() == shown
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.usefixtures("cell")
def test_a_full_disk_leaves_the_old_file(
    lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.md"
    target.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ended = lrbench("report", "--output", "report.md")
    assert ended.code == 1
    assert "cannot write 'report.md': no space left on device" in ended.err
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outputs", "report.md"]


@pytest.mark.usefixtures("cell")
@pytest.mark.parametrize("target", ["nowhere/report.md", "outputs"])
def test_a_file_that_cannot_be_written(lrbench: Run, target: str) -> None:
    ended = lrbench("report", "--output", target)
    assert (ended.code, ended.out) == (1, "")
    assert f"cannot write '{target}'" in ended.err and "Traceback" not in ended.err


def test_no_folder(lrbench: Run) -> None:
    ended = lrbench("report", "--runs", "elsewhere")
    assert (ended.code, ended.out) == (1, "")
    assert "'elsewhere'" in ended.err and "lrbench train" in ended.err


def test_an_empty_folder(lrbench: Run, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    ended = lrbench("report", "--output", "report.md")
    assert ended.code == 1
    assert "no finished run in 'outputs'" in ended.err
    assert "lrbench train task=sum model=blockdiag" in ended.err
    assert not (tmp_path / "report.md").exists()


def test_nothing_but_broken_and_unfinished_runs(lrbench: Run, tmp_path: Path) -> None:
    for seed in range(5):
        folder = tmp_path / "outputs" / f"s{seed}"
        folder.mkdir(parents=True)
        (folder / ("result.json" if seed < 2 else "metrics.jsonl")).write_text("")
    ended = lrbench("report")
    assert ended.code == 1
    assert "not used: outputs/s0/result.json: is not json" in ended.err
    assert "... and 3 more" in ended.err and "lrbench train" in ended.err
    assert len(ended.err.splitlines()) <= 6


@pytest.mark.parametrize("runs", ["kept", "kept/first"])
def test_a_run_in_a_folder_of_another_name(
    lrbench: Run, cell: Path, tmp_path: Path, runs: str
) -> None:
    shutil.copytree(next(cell.glob("s*")), tmp_path / "kept" / "first")
    ended = lrbench("report", "--runs", runs)
    assert ended.code == 1
    assert "not read: kept/first: a run's folder is called s0, s1 and so on" in ended.err


def test_an_unknown_format(lrbench: Run) -> None:
    ended = lrbench("report", "--format", "markdwon")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "lrbench: format 'markdwon' unknown. Did you mean 'markdown'?\n"
        "known: csv, html, latex, markdown\n"
    )


def test_formats_are_those_that_can_be_rendered(lrbench: Run, cell: Path) -> None:
    for name in FORMATS:
        assert lrbench("report", "--format", name).code == 0
        assert name in lrbench("report", "--help").out


@pytest.mark.usefixtures("cell")
def test_the_ending_of_a_file_names_its_format(lrbench: Run, tmp_path: Path) -> None:
    starts = {"md": "## ", "csv": "task,", "tex": "% lrbench report", "html": "<!DOCTYPE html>"}
    for ending, start in starts.items():
        assert lrbench("report", "--output", f"report.{ending}").code == 0
        assert (tmp_path / f"report.{ending}").read_text(encoding="utf-8").startswith(start)
    assert lrbench("report", "--output", "a.txt", "--format", "csv").code == 0
    assert (tmp_path / "a.txt").read_text().startswith("task,")
    refused = lrbench("report", "--output", "a.html", "--format", "csv")
    assert refused.code == 2 and "is a file for html, and --format says csv" in refused.err
    assert not (tmp_path / "a.html").exists()
    assert lrbench("report", "--output", "plain.txt").code == 0
    for name in ("a.xlsx", "a.json"):
        refused = lrbench("report", "--output", name)
        assert refused.code == 2 and f"--output {name}: a file for markdown, csv" in refused.err
        assert ".md, .csv, .tex, .html" in refused.err and not (tmp_path / name).exists()


@pytest.mark.usefixtures("cell")
def test_a_page_on_stdout_is_ascii(lrbench: Run) -> None:
    out = lrbench("report", "--format", "html").out
    assert out.startswith("<!DOCTYPE html>") and out.isascii() and "&#177;" in out


@pytest.mark.usefixtures("cell")
def test_a_papers_table(lrbench: Run) -> None:
    ended = lrbench("report", "--table", "fan2024_table2", "--rule", "last")
    assert (ended.code, ended.err) == (0, "")
    assert "Fan et al. 2024, Table 2" in ended.out and "S4D" in ended.out


@pytest.mark.usefixtures("cell")
def test_a_table_of_ones_own(lrbench: Run) -> None:
    out = lrbench("report", "--rows", "blockdiag", "--columns", "sum", "--digits", "2").out
    assert "0.75" in out and "0.7500" not in out


@pytest.mark.usefixtures("cell")
def test_a_table_from_a_plugin(
    lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_tables.py").write_text(
        "from lrbench.tables import TableCell, TableSpec, register_table\n"
        "cells = (TableCell(('task=sum', 'model=blockdiag')),)\n"
        "register_table(TableSpec('from_plugin', 'From a plugin', cells))\n"
    )
    monkeypatch.setenv("LRBENCH_PLUGINS", "my_tables")
    monkeypatch.setattr("lrbench.plugins._loaded", {})
    monkeypatch.setattr("lrbench.tables._REGISTERED", {})
    assert "From a plugin" in lrbench("report", "--table", "from_plugin").out


@pytest.mark.usefixtures("cell")
def test_figures_beside_the_report(lrbench: Run, tmp_path: Path) -> None:
    shown = lrbench("report").out
    ended = lrbench("report", "--figures", "made/here")
    assert (ended.code, ended.out) == (0, shown)
    assert ended.err == "wrote to made/here, as svg, pdf and png: figure_length_sum\n"
    names = sorted(path.name for path in (tmp_path / "made" / "here").iterdir())
    assert names == [f"figure_length_sum.{kind}" for kind in ("pdf", "png", "svg")]
    assert (tmp_path / "made/here/figure_length_sum.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.usefixtures("cell")
def test_a_terminal_has_tables_that_fit_it(lrbench: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--wide is for a terminal" in lrbench("report", "--wide").err
    monkeypatch.setattr("lrbench.cli.commands.look.report.on_terminal", lambda: True)
    ended = lrbench("report")
    assert ended.code == 0 and "| " not in ended.out and "blockdiag" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80
    assert max(map(len, lrbench("report", "--wide").out.splitlines())) > 80
    assert lrbench("report", "--format", "markdown").out.startswith("## ")


@pytest.mark.usefixtures("cell")
def test_one_part_of_a_report(lrbench: Run) -> None:
    asked = ("report", "--rows", "blockdiag", "--columns", "sum")
    whole = lrbench(*asked).out
    parts = [lrbench(*asked, "--part", part).out for part in ("main", "evidence", "cost")]
    titles = [[line for line in text.splitlines() if line[:3] == "## "] for text in parts]
    assert [line for group in titles for line in group] == [
        line for line in whole.splitlines() if line[:3] == "## "
    ]
    assert len(titles[0]) == 1 and titles[2] == ["## Cost"]
    ended = lrbench(*asked, "--part", "pairs")  # of one model there are none
    assert ended.code == 1 and "parts that are here: main, evidence, cost" in ended.err
    assert "known: cost, evidence, main, pairs" in lrbench("report", "--part", "all").err


@pytest.mark.usefixtures("cell")
def test_a_compact_table(lrbench: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "title: Mine\nprotocol: fan2024\ncells:\n- {overrides: [task=sum, model=blockdiag]}\n"
    )
    asked = ("report", "--table", "mine.yaml", "--compact")
    text = lrbench(*asked).out
    assert text.startswith("## Mine\n") and text.count("## ") == 1
    assert "0.750 (1) / - / 1.00" in text
    assert "0.75 (1) / - / 1.00" in lrbench(*asked, "--digits", "2").out
    assert lrbench(*asked, "--format", "latex").out.count("\\begin{table") == 1
    none = lrbench("report", "--table", "fan2024_table2", "--compact")  # its cells ask for more
    assert none.code == 1 and "no run here is of table 'fan2024_table2'" in none.err


def test_figures_of_nothing(lrbench: Run, cell: Path, tmp_path: Path) -> None:
    ended = lrbench("report", "--figures", "here", "--rule", "band")
    assert ended.code == 1
    assert "no figure to draw" in ended.err and "rule band" in ended.err
    (cell / "s0" / "result.json").write_text(json.dumps(RESULT | {"evaluations": []}))
    assert lrbench("report", "--figures", "here").code == 1
    assert not (tmp_path / "here").exists()


@pytest.mark.usefixtures("cell")
def test_figures_cannot_replace_a_file(lrbench: Run, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    ended = lrbench("report", "--figures", "taken")
    assert ended.code == 1 and "cannot write 'taken'" in ended.err
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.usefixtures("cell")
@pytest.mark.parametrize("arguments", [["--figures", "here"], ["--format", "html"]])
def test_without_matplotlib(
    lrbench: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = lrbench("report", *arguments)
    assert (ended.code, ended.out) == (1, "")
    assert "matplotlib" in ended.err and ".[plot]" in ended.err


@pytest.mark.usefixtures("cell")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--table", "fan2024_tabel2"], "Did you mean 'fan2024_table2'?"),
        (["--rows", "blokdiag"], "Did you mean 'blockdiag'?"),
        (["--columns", "some"], "'some' unknown"),
        (["--rows", "blockdiag", "--rule", "bset"], "Did you mean 'best'?"),
        (["--rule", "id"], "--rule goes with"),
        (["--table", "fan2024_table2", "--columns", "sum"], "leave out --rows and --columns"),
        (["--compact"], "it goes with --table"),
        (["--table", "fan2024_table2", "--compact", "--part", "main"], "without --part"),
        (["--digits", "0"], "--digits must be 1 to 10, not 0"),
        (["--fingerprint", "0123456789ac"], "Did you mean '0123456789ab'?"),
        (["--rows", "blockdiag", "--fingerprint", "ffff"], "'ffff' unknown"),
    ],
)
def test_mistakes_are_reported_in_our_words(lrbench: Run, arguments: list[str], said: str) -> None:
    ended = lrbench("report", *arguments)
    assert ended.code in (1, 2) and ended.out == ""
    assert said in ended.err and "Traceback" not in ended.err
    assert len(ended.err.splitlines()) <= 6


def test_an_empty_folder_and_a_table(lrbench: Run, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    ended = lrbench("report", "--table", "fan2024_table2")
    assert "lrbench sweep --table fan2024_table2" in ended.err


@pytest.mark.parametrize(
    ("option", "start", "offered"),
    [
        ("table", "fan2024_t", ["fan2024_table2"]),
        ("rule", "b", ["best", "band"]),
        ("format", "", list(FORMATS)),
    ],
)
def test_completion(option: str, start: str, offered: list[str]) -> None:
    command = typer.main.get_group(app).commands["report"]
    [parameter] = [one for one in command.params if one.name == option]
    found = parameter.shell_complete(command.make_context("report", []), start)
    assert [item.value for item in found] == offered


@pytest.mark.usefixtures("cell")
def test_no_torch(without_torch: Callable[..., tuple[list[int], str]]) -> None:
    table = ["report", "--table", "fan2024_table2"]
    codes, out = without_torch(
        [
            ["report"],
            ["report", "--format", "csv", "--output", "runs.csv"],
            [*table, "--format", "latex"],
            [*table, "--output", "page.html", "--figures", "here"],
        ]
    )
    assert codes == [0, 0, 0, 0]
    assert "| sum " in out and Path("runs.csv").read_text().startswith("task,")
    assert Path("page.html").is_file() and Path("here/figure_length_sum.pdf").is_file()


PLAIN = """
import sys
from lrbench.cli import main
sys.argv = ["lrbench", "report", "--table", "fan2024_table2"]
main()
assert "matplotlib" not in sys.modules
"""


@pytest.mark.usefixtures("cell")
def test_matplotlib_is_imported_for_figures_only() -> None:
    subprocess.run([sys.executable, "-c", PLAIN], check=True, capture_output=True, timeout=60)


def test_a_folder_name_too_long_to_look_at(lrbench: Any) -> None:
    ended = lrbench("report", "--runs", "9" * 5000)
    assert ended.code == 1
    assert "File name too long" in ended.err
    assert "Traceback" not in ended.err
