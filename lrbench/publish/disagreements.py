"""Where we and the paper disagree: numbers and verdicts made here, two sentences from the notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from lrbench.publish.layout import NOTES
from lrbench.publish.notes import Disagreement, Notes
from lrbench.publish.verdicts import Judged
from lrbench.report.output.cells import escape
from lrbench.report.output.display import plural
from lrbench.report.paper.verdict import FEWEST, Verdict

NOT_YET = "Not looked into yet."
NO_VERDICT = f"without a verdict (fewer than {FEWEST} runs)"


def disagreements(cells: Sequence[Judged], notes: Notes) -> Iterator[str]:
    """Yield markdown lines: an item for each cell that disagrees, below each note what it says.

    Cells of one note stand together, in the order in which the table has the first of them. Cells
    with too few runs for a verdict are there if a note speaks of them and their mean is elsewhere.
    """
    yield f"{_count(cells)}\n"
    groups: dict[Disagreement | None, list[Judged]] = {}
    for cell in cells:
        if cell.disagrees or (cell.undecided and notes.on(cell.name)):
            groups.setdefault(notes.on(cell.name), []).append(cell)
    without = groups.pop(None, [])
    for note, group in groups.items():
        if note is not None:
            yield from _items(group)
            yield f"\n  Checked: {_one_line(note.checked)} Believed: {_one_line(note.believed)}\n"
    if without:
        yield from _items(without)
        yield f"\n  {NOT_YET}\n"


def _count(cells: Sequence[Judged]) -> str:
    """How many cells have each verdict, of those that the paper prints a number for."""
    told = Counter(
        NO_VERDICT if cell.verdict in (None, Verdict.MISSING) else str(cell.verdict)
        for cell in cells
        if cell.entry.reference
    )
    if not told:
        return "The paper prints no number for these cells."
    counts = ", ".join(f"{told[name]} {name}" for name in sorted(told, key=lambda n: (-told[n], n)))
    return f"Of {plural(told.total(), 'cell')} with a number of the paper's: {counts}."


def warnings(cells: Sequence[Judged], notes: Notes) -> Iterator[str]:
    """Yield which cells disagree though nobody has written about them, and which notes are idle."""
    for cell in cells:
        if cell.disagrees and notes.on(cell.name) is None:
            yield f"{cell.name} disagrees with the paper, and {NOTES} says nothing about it"
    used = {notes.on(cell.name) for cell in cells if cell.disagrees or cell.undecided}
    for note in notes.disagreements:
        if note not in used:
            yield f"the note on {', '.join(note.cells)} is about nothing that disagrees"


def _items(group: Sequence[Judged]) -> Iterator[str]:
    for cell in group:
        yield f"- **{escape(cell.name)}**: {escape(cell.numbers)}"


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    return words if words.endswith((".", "?", "!", ":")) else f"{words}."
