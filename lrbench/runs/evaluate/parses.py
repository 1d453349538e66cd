"""The tree that a trained encoder reads a string by, and what its classifier answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lrbench.encoders.base import Tree
from lrbench.errors import UserError
from lrbench.runs.evaluate.evaluation import take_weights
from lrbench.runs.evaluate.trained import trained
from lrbench.tasks import make_task
from lrbench.training.trial import model_for


@dataclass(frozen=True)
class Parse:
    """A string's symbols, and the tree over their positions.

    What is asked and what the model answers are given for tasks of single strings.
    """

    task: str
    model: str
    seed: int
    step: int
    symbols: list[str]
    tree: Tree
    answer: str | None
    predicted: str | None


def parse(folder: Path, text: str, which: str) -> Parse:
    """Read a string with the checkpoint that a run's rule kept.

    Raises UserError for a folder that holds no run of an encoder with trees, and for a text that is
    no string of its task.
    """
    run = trained(folder, which)
    task = make_task(run.config.task)
    if not task.one_answer:
        raise UserError(f"{folder}: {run.config.model.name} reads symbol by symbol, without a tree")
    tokens = task.tokens_of(text)
    model: Any = model_for(run.config, task, run.seed).eval()
    take_weights(model, run.weights, folder, which)
    encoder = model.reader.encoder
    if not encoder.shows_trees:
        raise UserError(f"{folder}: {run.config.model.name} has no tree to show")
    string, length = torch.tensor([tokens]), torch.tensor([len(tokens)])
    with torch.no_grad():
        x = model.reader.embedding(string)
        (tree,) = encoder.trees(x, torch.ones(1, len(tokens), dtype=torch.bool))
        answer, predicted = None, None
        if task.sides == 1:
            logits: Tensor = model(string, length)
            answer = task.class_names[task.answer(tokens)]
            predicted = task.class_names[int(logits.argmax())]
    symbols = [task.vocabulary[token] for token in tokens]
    return Parse(
        task.name,
        run.config.model.name,
        run.seed,
        run.step,
        symbols,
        tree,
        answer,
        predicted,
    )


def bracketed(tree: Tree, symbols: list[str]) -> str:
    """Return a tree on one line, each pair in round parentheses; however deep it is."""
    parts: list[str] = []
    rest: list[Tree | str] = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, tuple):
            rest += [")", node[1], node[0], "("]
        else:
            parts.append(node if isinstance(node, str) else symbols[node])
    return " ".join(parts).replace("( ", "(").replace(" )", ")")


def spans(tree: Tree) -> list[tuple[int, range]]:
    """Return (depth, positions) of every node of a tree, parents before their children."""
    if isinstance(tree, int):
        return [(0, range(tree, tree + 1))]
    left, right = (spans(side) for side in tree)
    whole = range(left[0][1].start, right[0][1].stop)
    return [(0, whole), *((depth + 1, part) for depth, part in (*left, *right))]
