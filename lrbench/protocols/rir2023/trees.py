"""Rows of `lrbench evaluate --trees`: how far a trained encoder's trees follow the brackets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from lrbench.encoders.base import Encoder, Tree
from lrbench.encoders.brackets import fixed, found, no_trees
from lrbench.errors import UserError
from lrbench.protocols.rir2023.scores import batches_by_length
from lrbench.protocols.rir2023.trial import EpochTrial
from lrbench.records import TREES, Evaluation, evaluation
from lrbench.statistics import correct_of, wilson
from lrbench.tasks.corpus.task import CorpusTask
from lrbench.training.scoring import evaluating
from lrbench.training.trial import Check

Tokens = list[int]


def tree_rows(
    trial: EpochTrial, split: str, count: int, which: str, check: Check
) -> list[Evaluation]:
    """Return a row for each tree metric, over the first `count` strings that nest.

    Of pairs each side is a string. `chance` is the best of three trees that do not look at the
    string, and `baseline` its name. Raises UserError for an encoder without trees, and a split
    without nested strings.
    """
    encoder: Encoder = cast(Any, trial.model).reader.encoder
    if not encoder.shows_trees:
        raise UserError(f"--trees: {no_trees(trial.config.model.name)}")
    began = time.perf_counter()
    strings = nested(trial.task, split, count)
    if not strings:
        raise UserError(f"--trees: no string of split {split} has a bracket inside another")
    read = {"ours": trees_of(trial.model, strings, trial.device, check)}
    for tokens in strings:
        for name, tree in fixed(len(tokens)).items():
            read.setdefault(name, []).append(tree)
    values = {name: _shares(trial.task, trees, strings) for name, trees in read.items()}
    ours, longest = values.pop("ours"), max(map(len, strings))
    rows = []
    for metric, value in ours.items():
        best = max(values, key=lambda name: values[name][metric])
        row = evaluation(longest, split, metric, value, len(strings), which=which, kind=TREES)
        row["chance"], row["baseline"] = values[best][metric], best
        if metric.startswith("trees"):
            row["interval"] = list(wilson(correct_of(value, len(strings)), len(strings)))
        rows.append(row)
    rows[0]["seconds"] = round(time.perf_counter() - began, 3)
    return rows


def nested(task: CorpusTask, split: str, count: int) -> list[Tokens]:
    """Return the first `count` strings of a split that have a bracket inside another."""
    strings, kept = task.load(split), []
    for row in range(len(strings)):
        for side in range(strings.sides):
            tokens = strings.row(row, side).tolist()
            if len(task.brackets(tokens)) > 1:
                kept.append(tokens)
            if len(kept) == count:
                return kept
    return kept


@evaluating
def trees_of(
    model: nn.Module, strings: Sequence[Tokens], device: torch.device | str, check: Check
) -> list[Tree]:
    """Return the tree that a model's encoder reads each string by, without dropout."""
    reader: Any = model.reader
    lengths = np.array([len(tokens) for tokens in strings])
    trees: dict[int, Tree] = {}
    for rows in batches_by_length(lengths):
        check(read=int(lengths[rows].sum()))
        longest = int(lengths[rows].max())
        padded = [strings[i] + [reader.padding] * (longest - len(strings[i])) for i in rows]
        mask = torch.arange(longest) < torch.from_numpy(lengths[rows])[:, None]
        x = reader.embedding(torch.tensor(padded, device=device))
        trees |= zip(rows.tolist(), reader.encoder.trees(x, mask.to(device)), strict=True)
    return [trees[i] for i in range(len(strings))]


def _shares(task: CorpusTask, trees: Sequence[Tree], strings: Sequence[Tokens]) -> dict[str, float]:
    """Return the value of each of TREES for one tree a string."""
    pairs = zip(trees, strings, strict=True)
    of_strings = [found(tree, task.brackets(one), one, task.marks) for tree, one in pairs]
    brackets = sum(one.brackets for one in of_strings)
    return {
        "trees": float(np.mean([one.exact == one.brackets for one in of_strings])),
        "brackets": sum(one.exact for one in of_strings) / brackets,
        "trees_unmarked": float(np.mean([one.unmarked == one.brackets for one in of_strings])),
        "brackets_unmarked": sum(one.unmarked for one in of_strings) / brackets,
    }
