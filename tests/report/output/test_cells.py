from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from lrbench.report.output.cells import (
    Column,
    PrintedCell,
    Table,
    escape,
    estimate,
    marked,
    share,
    span,
    spread,
    to_markdown,
    with_best,
)
from lrbench.statistics import Share

ALPHABET = st.sampled_from("|\\`*_<>&;~[]()!#-ab1 \n\té·±")
TEXTS = st.text(ALPHABET, max_size=12) | st.text(
    st.characters(exclude_categories=["C", "Z"]), max_size=8
)


def shown(markdown: str) -> list[list[str]]:
    """The rows of the first table as a CommonMark + GFM parser shows them."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    rows: list[list[str]] = []
    for token in parser.parse(markdown):
        if token.type == "tr_open":
            rows.append([])
        if token.type == "inline" and rows and len(rows[-1]) < 3 and token.level > 2:
            rows[-1].append("".join(t.content for t in token.children or [] if t.type == "text"))
    return rows


@pytest.mark.slow
@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=3))
def test_any_text_stays_in_its_cell_and_is_shown_as_it_is(rows: list[tuple[str, ...]]) -> None:
    columns = (Column("a|b", right=False), Column("c"), Column("d", right=False))
    grid = tuple(tuple(PrintedCell(text) for text in row) for row in rows)
    expected = [["a|b", "c", "d"], *([" ".join(text.split()) for text in row] for row in rows)]
    assert shown(to_markdown(Table("t", columns, grid))) == expected


def test_names_stay_readable() -> None:
    assert escape("even_pair (mod 5) 2,000 ± 0.1") == "even_pair (mod 5) 2,000 ± 0.1"
    assert escape("a|b") == r"a\|b"
    assert escape("$x_1$") == r"\$x_1\$"  # GitHub showed a formula


def test_markdown_is_padded_and_notes_follow() -> None:
    table = Table(
        "title",
        (Column("name", right=False), Column("n")),
        ((PrintedCell("x"), PrintedCell("10")),),
        ("so",),
    )
    assert to_markdown(table) == (
        "## title\n\n| name |   n |\n| ---- | --: |\n| x    |  10 |\n\n- so\n"
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [([], "-"), ([0.5], "0.5000"), ([0.0, 1.0], "0.5000 ± 0.7071 (2)"), ([1, 1, 1], None)],
)
def test_spread(values: list[float], text: str | None) -> None:
    assert spread(values).text == (text or "1.0000 ± 0.0000 (3)")
    assert spread(values).values == tuple(values)


def test_spread_says_why_there_is_nothing() -> None:
    assert spread([], missing="failed").text == "failed"


def test_span() -> None:
    assert [span(v).text for v in ([], [2000], [9000, 1000, 3000])] == ["-", "2,000", "1,000–9,000"]


def test_share_and_estimate() -> None:
    assert share(Share(4, 5, 0.3755, 0.9638)).text == "4/5 [0.38, 0.96]"
    assert estimate(0.5, (0.25, 1.0), 2) == PrintedCell("0.50 [0.25, 1.00]", (0.5,))
    assert estimate(0.5, None).text == "0.5000"


def test_marked_says_it_in_words_and_apart() -> None:
    assert marked(PrintedCell("0.27", (0.27,)), "at chance") == PrintedCell(
        "0.27, at chance", (0.27,), "at chance"
    )
    for mark in (None, "", "-"):
        assert marked(PrintedCell("0.27"), mark) == PrintedCell("0.27")
    assert marked(PrintedCell("failed"), "failed") == PrintedCell("failed")


def best(*cells: PrintedCell, lower: bool = False) -> list[int]:
    found = with_best(cells, lower, ("at chance",))
    assert [(one.text, one.values, one.mark) for one in found] == [
        (one.text, one.values, one.mark) for one in cells
    ]
    return [place for place, one in enumerate(found) if one.best]


def test_the_best_of_a_column() -> None:
    half, most, alike = spread([0.5]), spread([0.9, 1.0]), spread([0.95])  # 0.9500 as printed
    assert best(half, most, PrintedCell(), alike) == [1, 3]
    assert best(half, most, alike, lower=True) == [0]
    assert best(half, marked(most, "at chance")) == [0]
    assert best(half, marked(most, "below")) == [1]
    assert best(most, alike) == best(marked(half, "at chance")) == best() == []
    assert best(half, PrintedCell("1.0000, of the paper")) == []  # without values: not a run
    assert best(spread([0.99996]), spread([1.0]), half) == [0, 1]


def test_bold_is_the_number_alone() -> None:
    (first, other) = with_best([spread([0.9, 1.0]), spread([0.5])])
    assert first.parts == ("0.9500", " ", "± 0.0707 (2)") and other.parts == ("", "", "0.5000")
    (first, _) = with_best([marked(spread([1.0]), "above"), spread([0.5])])
    assert first.parts == ("1.0000", "", ", above")
    plain = Table("t", (Column("a"),), ((spread([1.0]),),))
    assert plain.styled_notes == () and "**" not in to_markdown(
        Table("t", (Column("a"),), ((first,),))
    )
    assert "bold: " in Table("t", (Column("a"),), ((first,),)).styled_notes[0]
