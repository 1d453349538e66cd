"""`lrbench show --tree RUN STRING`: how a trained tree encoder reads a string."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from lrbench.console import results
from lrbench.report.output.display import plain, say
from lrbench.runs.evaluate.parses import Parse, bracketed, parse, spans

DRAWN = 60  # symbols of a string whose tree is drawn, too


def show_tree(folder: Path, text: str, which: str) -> None:
    """Print how a run's encoder reads a string: on one line, and as a tree of what is merged."""
    found, console = parse(folder, text, which), results()
    say(console, f"{found.task} · {found.model} · seed {found.seed}, update {found.step:,}", "bold")
    say(console, " ".join(found.symbols), label="string  ")
    if found.answer is not None:
        say(console, f"{found.answer}, the model says {found.predicted}", label="answer  ")
    say(console, bracketed(found.tree, found.symbols), label="parse   ")
    if len(found.symbols) <= DRAWN:
        console.print(drawing(found, console))


def drawing(found: Parse, console: Console) -> Tree:
    """Return the tree with what each node spans beside it."""
    drawings: list[Tree] = []  # the nodes from the root to the last one
    for depth, part in spans(found.tree):
        words = plain(console, " ".join(found.symbols[part.start : part.stop]))
        node = drawings[depth - 1].add(Text(words)) if depth else Tree(Text(words))
        drawings[depth:] = [node]
    return drawings[0]
