"""LaTeX that compiles whatever a model is called."""

from __future__ import annotations

import re
import shutil
import string
import subprocess
from pathlib import Path

import pytest

from lrbench.report.output.cells import Column, PrintedCell, Table, spread, with_best
from lrbench.report.output.latex import escape, to_latex

HOSTILE = [
    r"\input{/etc/passwd}",
    "100% & $x_1^2$ #1 {a} ~b~ a--b ,, '' ?` !` << >> |x|",
    '[0.1, 0.2] * "quoted" `code`',
    "naïve Łukasiewicz ogonek ą 模型 ∑ ±0.1 → – … ß",
    "line\nbreak\x00\x1b[31m\u202e",
    string.printable,
]


def table(*names: str, title: str = "Fan et al. 2024, Table 2", wide: str = "") -> Table:
    columns = (Column("model", right=False), Column("accuracy_%"), Column("paper"))
    rows = [(PrintedCell(name), spread([0.5, 1.0]), PrintedCell()) for name in names]
    return Table(title, columns, tuple(rows), (*names, wide) if wide else names)


def test_a_booktabs_table() -> None:
    text = to_latex([table("even_pair")])
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == r"% lrbench report: needs \usepackage{booktabs}"
    rules = [line for line in lines if line in (r"\toprule", r"\midrule", r"\bottomrule")]
    assert rules == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert r"\begin{tabular}{lrr}" in lines
    assert r"\caption{Fan et al. 2024, Table 2}" in lines
    assert r"\label{tab:fan-et-al-2024-table-2}" in lines
    assert r"even\_pair & 0.7500 $\pm$ 0.3536 (2) & -- \\".replace("--", "{--}") in lines
    assert r"model & \multicolumn{1}{c}{accuracy\_\%} & \multicolumn{1}{c}{paper} \\" in lines
    assert text.count(r"\begin{") == text.count(r"\end{") == 3  # table, tabular, notes


def test_labels_are_unique() -> None:
    text = to_latex([table("a", title="One!"), table("b", title="one"), table("c", title="模型")])
    assert re.findall(r"\\label\{(.*)\}", text) == ["tab:one", "tab:one-2", "tab:report"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a_b", r"a\_b"),
        ("5 % & $", r"5 \% \& \$"),
        (r"\input", r"\textbackslash{}input"),
        ("a--b---c", "a-{}-b-{}-{}-c"),
        ("0.5 ± 0.1", r"0.5 $\pm$ 0.1"),
        ("2,000–4,000", "2,000{--}4,000"),
        ("模", r"\texttt{U+6A21}"),
        ("997†", r"997\dag{}"),
        ("12‡; 9§; 0.5 ¶", r"12\ddag{}; 9\S{}; 0.5 \P{}"),
        ("naïve ą", r"naïve \texttt{U+0105}"),
        ("a\n b\x00", r"a b\textbackslash{}x00"),
    ],
)
def test_escape(text: str, written: str) -> None:
    assert escape(text) == written


def test_names_shared_by_rows_are_printed_once() -> None:
    text = to_latex([table("s4", "mine", "mine", "other", "more")])
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
    first = [line.strip().partition(" ")[0] for line in body.splitlines()[1:-1]]
    assert first == ["s4", r"\addlinespace", "mine", "&", r"\addlinespace", "other", "more"]


def test_the_best_number_is_bold_and_a_note_says_so() -> None:
    columns = (Column("model", right=False), Column("100 %"))
    cells = with_best([spread([0.5, 1.0]), spread([0.25])])
    rows = tuple((PrintedCell(name), cell) for name, cell in zip("ab", cells, strict=True))
    text = to_latex([Table("t", columns, rows)])
    assert r"a & \textbf{0.7500} $\pm$ 0.3536 (2) \\" in text and r"b & 0.2500 \\" in text
    assert text.count("bold: ") == 1


def test_a_row_that_starts_like_an_argument() -> None:
    rows = [line.strip() for line in to_latex([table("[1pt] x", "* y")]).splitlines()]
    assert [row[:5] for row in rows if row.endswith(r"\\")][1:] == ["{}[1p", "{}* y"]


def test_a_line_of_a_folded_name_that_starts_like_an_argument() -> None:
    """TeX read the words in brackets as a length, and took a star away."""
    columns = (Column("model", right=False), *(Column(f"a title of words {n}") for n in range(9)))
    names = ("a model of many words [with brackets]", "a model of many words *with a star*")
    rows = tuple((PrintedCell(name), *[PrintedCell("0.5")] * 9) for name in names)
    text = to_latex([Table("t", columns, rows)])
    assert r"a model of many words \\ {}[with brackets]\end{tabular}" in text
    assert r"a model of many words \\ {}*with a star*\end{tabular}" in text


def test_a_wide_table_goes_on_below_itself() -> None:
    columns = (Column("model", right=False), *(Column(f"n{at}") for at in range(20)))
    row = (
        PrintedCell("one"),
        *(PrintedCell(f"0.{at:02}00 ± 0.9999 (3), at chance") for at in range(20)),
    )
    text = to_latex([Table("t", columns, (row,)), table("word " * 20)])
    assert r"\resizebox" not in text and "graphicx" not in text
    assert (
        text.count(r"\caption{t}") == 1 and text.count("one &") == text.count(r"\toprule") - 1 > 2
    )
    assert all(text.count(f"0.{at:02}00 ") == 1 and text.count(f"n{at}}}") == 1 for at in range(20))
    assert r"0.0700 $\pm$ 0.9999 (3), \\ at chance\end{tabular}" in text
    assert r"\begin{tabular}{p{7cm}rr}" in text


def test_columns_of_other_widths_stay_where_they_fit() -> None:
    """Blocks of 7, 1, 5 and 3 columns are not made equal: two wide ones do not fit together."""
    widths = [10] * 7 + [70, 70] + [10] * 7
    columns = (Column("model", right=False), *(Column(f"n{at}") for at in range(16)))
    row = (PrintedCell("one"), *(PrintedCell("9" * wide) for wide in widths))
    blocks = to_latex([Table("t", columns, (row,))]).split(r"\toprule")[1:]
    heads = [block.partition(r"\midrule")[0] for block in blocks]
    found = [[int(at) for at in re.findall(r"n(\d+)", head)] for head in heads]
    assert found == [[*range(7)], [7], [*range(8, 13)], [13, 14, 15]]


def test_a_tall_table_is_several_floats_and_one_cell_too_wide_is_scaled() -> None:
    columns = (Column("model", right=False), Column("x", right=False), Column("y"))
    long = PrintedCell("x" * 70), PrintedCell("2" * 70)
    rows = tuple((PrintedCell(f"m{at}"), *long) for at in range(90))
    text = to_latex([Table("t", columns, rows)])
    assert r"\usepackage{graphicx}" in text.splitlines()[0]
    assert (
        text.count(r"\caption{t}") == 1
        and text.count("(continued)") == text.count("table*}[") - 1 == 2
    )
    assert text.count(r"\label{tab:t") == len(set(re.findall(r"label\{(.*?)\}", text)))
    assert all(text.count(f"m{at} ") == 1 for at in range(90))


def test_what_was_left_out_is_a_comment_of_one_line() -> None:
    text = to_latex([table("a")], ["not used: x\n\\evil: is not json"])
    assert text.splitlines()[-1] == r"% not used: x \evil: is not json"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_it_compiles(tmp_path: Path) -> None:
    found = subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, check=False)
    if found.returncode:
        pytest.skip("no booktabs here")
    document = (
        r"\documentclass{article}\usepackage{booktabs}\usepackage{graphicx}\begin{document}"
        + to_latex([table(*HOSTILE), table("a", "a", "b", title=HOSTILE[1])], HOSTILE)
        + r"\end{document}"
    )
    (tmp_path / "page.tex").write_text(document)
    ended = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "page.tex"],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-2000:]
