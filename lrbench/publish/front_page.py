"""Small tables in a page outside results/, between `<!-- table: NAME -->` and `<!-- end -->`.

`<!-- table: NAME, rows: A; B -->` has these rows alone, in this order.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lrbench.errors import UserError
from lrbench.publish.layout import PAGE, is_measured, is_table, spec_of
from lrbench.report.output.cells import to_markdown
from lrbench.report.runs.archive import read_archive
from lrbench.report.tables.matrix import compact_of
from lrbench.tables import SUITE

HOW = "How sure, and how it was made:"
LEGEND = (
    "Accuracy on fresh strings, mean ± sample std (runs), by the paper's rule; at the"
    " training length, of the checkpoint that was best there; the paper's number."
)
OF_SUITE = (
    "Score: (accuracy - chance) / (1 - chance) on random strings, the interquartile mean over tasks"
    " and seeds with its 95 % interval; a model with tasks left has none. Held: tasks whose median"
    " seed failed at no tested length. Runs wrong: those of which a search found a string that"
    " they get wrong, of those searched; the others may err on random strings."
)
BLOCK = re.compile(
    r"(?P<head><!-- table: (?P<name>[\w.-]+)(?:, rows: (?P<rows>[^\n]+))? -->\n)"
    r".*?(?P<end><!-- end -->)",
    re.DOTALL,
)
OPENING = re.compile(r"<!-- table: ")


def with_tables(page: Path, results: Path) -> bytes:
    """Return the content of `page` with its tables filled in; one of no results stays as it is.

    Raises UserError where the page cannot be read, a block has no end or names measurements.
    """
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"'{page}' cannot be read: {error}") from error
    if len(OPENING.findall(text)) != len(BLOCK.findall(text)):
        raise UserError(f"'{page}': a line <!-- table: NAME --> has no line <!-- end --> after it")

    def fill(block: re.Match[str]) -> str:
        folder = results / block["name"]
        if not is_table(folder):
            return block[0]
        if is_measured(folder):
            raise UserError(
                f"'{page}': {block['name']} is measured, not trained: it has no table to put here\n"
                "remove its line <!-- table: NAME --> and the line <!-- end --> after it"
            )
        place = os.path.relpath(folder / PAGE, page.absolute().parent)
        legend = OF_SUITE if spec_of(folder).kind == SUITE else LEGEND
        return (
            f"{block['head']}{compact(folder, _rows(block['rows']))}\n"
            f"{legend} {HOW} [{PAGE}]({Path(place).as_posix()}).\n{block['end']}"
        )

    return BLOCK.sub(fill, text).encode()


def _rows(words: str | None) -> list[str] | None:
    return None if words is None else [word.strip() for word in words.split(";")]


def compact(folder: Path, rows: Sequence[str] | None = None) -> str:
    """Return the small form of a table: models x tasks, or a suite's scores.

    Of these `rows`, or of all. Raises UserError for a row that the table does not have.
    """
    table = compact_of(read_archive(folder), spec_of(folder), rows=rows)
    return to_markdown(replace(table, notes=())).partition("\n\n")[2]
