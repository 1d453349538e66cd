"""The columns of runs.csv, and records of runs, finished or under way, in these columns.

After the fixed columns of runs.csv come the configuration keys and `versions.*` on which the runs
differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lrbench.metrics import ACCURACY, METRICS
from lrbench.records import Look

CELL = ["protocol", "task", "model", "fingerprint"]  # what a cell is; its runs differ in seed only

RUN_COLUMNS = {
    "task": "object",
    "task_title": "object",
    "model": "object",
    "protocol": "object",
    "fingerprint": "object",
    "seed": "Int64",
    "data_seed": "Int64",
    "status": "object",  # finished, diverged or failed
    "stopped": "object",  # perfect, patience, budget or diverged
    "steps": "Int64",
    "train_seconds": "float64",
    "iterations": "float64",  # mean an update, of models solved by iteration
    "converged": "float64",  # the share of updates whose iterations had converged
    "parameters": "Int64",
    "state_size": "Int64",
    "device": "object",
    "dtype": "object",
    "mode": "object",
    "threads": "Int64",
    "perfect_step": "Int64",
    "perfect_seconds": "float64",
    "error": "object",
    "folder": "object",  # relative to the folder of runs
}

EVALUATION_COLUMNS = {
    "length": "Int64",  # of a split: its longest string
    "split": "object",
    "metric": "object",
    "value": "float64",
    "n": "Int64",
    "which": "object",  # the rule that kept the checkpoint; one score is repeated for each rule
    "kind": "object",
    "checkpoint_step": "Int64",  # the update that the checkpoint `which` was taken at
    "chance": "float64",  # the best baseline at this length or split, and its name
    "chance_baseline": "object",
    "guessing": "float64",  # what a guesser gets at this length by the rule `which`
}

Settings = dict[str, Any]  # of a run, flat: "task.modulus", and "versions.torch" beside them
Row = dict[str, Any]  # by the columns of runs.csv
Columns = Mapping[str, Sequence[Any]]  # of some rows: a list of values for each column
Environment = dict[str, Any]  # of a cell: environment.json
EvaluationRow = tuple[Any, ...]  # in the order of EVALUATION_COLUMNS
Evaluations = tuple[tuple[Any, ...], ...]  # of a run: a tuple for each of EVALUATION_COLUMNS
NOT_EVALUATED: Evaluations = ((),) * len(EVALUATION_COLUMNS)

BySplit = dict[str, dict[str, tuple[float, int | None]]]  # split, baseline: value and strings

BY_CLOCK = "5 s"  # of a search that ended after so long, before a suite's had counts

Problems = list[tuple[Path, str]]

# Reads what each look of a run saw; what is wrong with its file is added to the problems.
Looks = Callable[[Problems], tuple[EvaluationRow, ...]]

UNFINISHED = "unfinished"


def in_columns(rows: Iterable[EvaluationRow]) -> Evaluations:
    """Return evaluations column by column."""
    return tuple(zip(*rows, strict=True)) or NOT_EVALUATED


class Answer(NamedTuple):
    """What is known of one checkpoint on all strings.

    length and string are of the shortest failure that was found, None and empty without one;
    `shortest`: nothing shorter is wrong. complete_to: every string of so many symbols was tried.
    again: empty, or how the scores of a run that was trained again compare with those published.
    extent: how far was searched, "complete/families/beam/longest"; empty where that is not known or
    the search was cut off, and `BY_CLOCK` where a version cut it off that had no extents.
    """

    which: str
    step: int
    verdict: str
    length: int | None
    shortest: bool
    string: str
    complete_to: int
    weights: str
    again: str
    extent: str = ""

    def covers(self, extent: Sequence[int]) -> bool:
        """Whether a search as far as `extent` finds nothing that is not known already."""
        if self.verdict == "certified" or self.shortest:
            return True
        reached = self.extent.split("/")
        return len(reached) == len(extent) and all(
            int(mine) >= asked for mine, asked in zip(reached, extent, strict=True)
        )


Answers = dict[str, Answer]  # by rule


@dataclass(frozen=True)
class Record:
    """One run: its row, its evaluations, its flattened configuration and library versions.

    `baselines` are those of the splits of a corpus, `answers` what is known of its checkpoints on
    all strings.
    """

    folder: Path
    row: Row
    settings: Settings = field(default_factory=dict)
    evaluations: Evaluations = NOT_EVALUATED
    baselines: BySplit = field(default_factory=dict)
    answers: Answers = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        return (*(self.row[name] for name in CELL), self.row["seed"])


@dataclass(frozen=True)
class UnderWay:
    """A run without a result: running, or interrupted and to be resumed.

    `steps` are the updates done, of a `budget` where that is known, in `seconds`; `look` is the
    last of its looks, as metrics.jsonl has it, and `look_scores` are its rows. `evaluations` are
    those of lrbench evaluate, of the checkpoint that there was at the time. `folder` is relative to
    the folder of runs.
    """

    task: str
    model: str
    protocol: str
    fingerprint: str
    seed: int
    folder: str
    settings: Settings = field(default_factory=dict)
    steps: int = 0
    seconds: float | None = None
    budget: int | None = None
    look: Look | None = None
    look_scores: tuple[EvaluationRow, ...] = ()
    evaluations: tuple[EvaluationRow, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        return (*(getattr(self, name) for name in CELL), self.seed)

    @property
    def row(self) -> Row:
        """Its row of runs.csv."""
        identity = {name: getattr(self, name) for name in (*CELL, "seed", "steps", "folder")}
        more = {"status": UNFINISHED, "train_seconds": self.seconds}
        return dict.fromkeys(RUN_COLUMNS) | identity | more

    @property
    def scores(self) -> list[EvaluationRow]:
        """Its evaluations in runs.csv: the last look, which is that of rule last, and the others.

        A dev split has no length.
        """
        return [*self.look_scores, *self.evaluations]

    @property
    def last_look(self) -> str:
        """What the last look saw, such as '0.691 on dev', nothing where there was none."""
        for length, split, metric, value, *_ in self.look_scores:
            if metric in METRICS:
                title = METRICS[metric].title if metric != ACCURACY.name else ""
                where = f"at {length}" if length else f"on {split}"
                return " ".join(filter(None, [title, f"{value:.3f}", where]))
        return ""
