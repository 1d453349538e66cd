"""The tree that a trained encoder reads a string by, and what its classifier answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lrbench.encoders.base import Tree
from lrbench.encoders.brackets import BracketCount, found, no_trees
from lrbench.errors import UserError
from lrbench.runs.evaluate.evaluation import take_weights
from lrbench.runs.evaluate.trained import trained
from lrbench.tasks import make_task
from lrbench.training.trial import model_for


@dataclass(frozen=True)
class Parse:
    """A string's symbols, and the tree over their positions.

    What is asked and what the model answers are given for tasks of single strings. `found` tells
    of the brackets inside the string how many are nodes of the tree.
    """

    symbols: list[str]
    tree: Tree
    answer: str | None
    predicted: str | None
    found: BracketCount


@dataclass(frozen=True)
class TreeReader:
    """The encoder of a run, with the weights of update `step`."""

    task: Any
    model: Any
    name: str
    seed: int
    step: int

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a typed string; UserError where it is none of the task."""
        tokens: list[int] = self.task.tokens_of(text)
        return tokens

    @torch.no_grad()
    def parse(self, tokens: list[int]) -> Parse:
        """Read one string."""
        task, reader = self.task, self.model.reader
        string, length = torch.tensor([tokens]), torch.tensor([len(tokens)])
        mask = torch.ones(1, len(tokens), dtype=torch.bool)
        (tree,) = reader.encoder.trees(reader.embedding(string), mask)
        answer, predicted = None, None
        if task.sides == 1:
            logits: Tensor = self.model(string, length)
            told = task.answer(tokens)
            answer = None if told is None else task.class_names[told]
            predicted = task.class_names[int(logits.argmax())]
        symbols = [task.vocabulary[token] for token in tokens]
        kept = found(tree, task.brackets(tokens), tokens, task.marks)
        return Parse(symbols, tree, answer, predicted, kept)


def tree_reader(folder: Path, which: str) -> TreeReader:
    """Return a run's encoder with the checkpoint that a rule kept.

    Raises UserError for a folder that holds no run of an encoder with trees.
    """
    run = trained(folder, which)
    task, name = make_task(run.config.task), run.config.model.name
    if not task.one_answer:
        raise UserError(f"{folder}: {name} reads symbol by symbol, without a tree")
    model: Any = model_for(run.config, task, run.seed).eval()
    take_weights(model, run.weights, folder, which)
    if not model.reader.encoder.shows_trees:
        raise UserError(f"{folder}: {no_trees(name)}")
    return TreeReader(task, model, name, run.seed, run.step)


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
