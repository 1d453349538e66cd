"""The procedure of `rir2023`: training on one split of a corpus, scoring on whole splits."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lrbench.errors import UserError
from lrbench.protocols.rir2023.scores import score_split, sizes_of
from lrbench.protocols.rir2023.trees import tree_rows
from lrbench.protocols.rir2023.trial import EpochTrial
from lrbench.records import (
    Baseline,
    Evaluation,
    Guessing,
    Horizon,
    Look,
    SplitData,
    evaluation,
)
from lrbench.statistics import wilson
from lrbench.tasks.corpus.storage import identity
from lrbench.tasks.corpus.task import CorpusTask
from lrbench.training.examination import Kept, Section, each_kept
from lrbench.training.memory import NUMBER, PeakMemory
from lrbench.training.procedure import EvaluationRequest, Procedure
from lrbench.training.trial import Check


class Rir2023Procedure(Procedure):
    """Training in epochs over a corpus; looks, tests and evaluations on its splits."""

    tasks = CorpusTask

    def validate(self) -> None:
        protocol = self.protocol
        for split in (protocol.train_split, protocol.dev_split, *protocol.test_splits):
            self.task.load(split)

    @property
    def updates(self) -> int:
        most: int = self.protocol.updates(len(self.task.load(self.protocol.train_split)))
        return most

    @property
    def epochs(self) -> int | None:
        passes: int = self.protocol.epochs
        return passes if self.protocol.max_steps is None else None

    def batch_bytes(self) -> int:
        """How long the strings are is not known here: the vectors of their symbols, one each."""
        strings = self.protocol.micro_batch or self.protocol.batch_size
        return int(strings * NUMBER * self.config.model.width)

    def trial(self, seed: int, device: torch.device | str = "cpu") -> EpochTrial:
        return EpochTrial(self.config, seed, device)

    def examine(
        self, trial: EpochTrial, kept: Kept, check: Check
    ) -> tuple[list[Evaluation], dict[str, Horizon]]:
        """Score on the test splits; there is no horizon."""
        sections = [_section(trial, split, check) for split in self.protocol.test_splits]
        return each_kept(trial, kept, sections, _looks_of, check)

    def levels(self, trial: EpochTrial, check: Check) -> tuple[list[Baseline], list[Guessing]]:
        """Return the baselines on the test splits; nothing is chosen by looking at one."""
        found: list[Baseline] = []
        for split in self.protocol.test_splits:
            check()
            n = len(trial.task.load(split))
            for name, value in trial.task.baselines(split, self.protocol.train_split).items():
                found.append({"baseline": name, "split": split, "value": value, "n": n})
        return found, []

    def data(self) -> dict[str, SplitData]:
        found: dict[str, SplitData] = {}
        for split in self.protocol.splits:
            whole = identity(self.task.load(split))
            found[split] = {"n": whole["n"], "made": whole["made"], "sha256": whole["sha256"]}
        return found

    def refuse(self, request: EvaluationRequest) -> None:
        if request.lengths or request.strings is not None:
            raise UserError(
                f"{'--lengths' if request.lengths else '--strings'} does not go with a run over a"
                f" corpus: {self.config.task.name} is scored on whole splits\n"
                "name them instead, such as --splits dev; without, those of protocol.test_splits",
                exit_code=2,
            )

    def evaluate(
        self,
        trial: EpochTrial,
        request: EvaluationRequest,
        which: str,
        check: Check,
        purpose: str,
    ) -> list[Evaluation]:
        splits = named_splits(trial, request.splits)
        if request.trees is not None:
            found = (tree_rows(trial, one, request.trees, which, check) for one in splits)
            return [row for rows in found for row in rows]
        check(planned=_symbols_of(trial, splits))
        return [split_row(trial, split, which, check) for split in splits]


def _symbols_of(trial: EpochTrial, splits: Sequence[str]) -> int:
    """Return how many symbols scoring these splits reads, of pairs those of the longer sides."""
    return sum(int(sizes_of(trial.task.load(split)).sum()) for split in splits)


def named_splits(trial: EpochTrial, text: str) -> list[str]:
    """Return the splits of a list that was typed, all of them readable; default: the tested ones.

    Raises UserError for a split that the task does not have or that is not on disk.
    """
    names = [name for name in text.replace(",", " ").split() if name]
    splits = list(dict.fromkeys(names or trial.config.protocol.test_splits))
    if not splits:
        raise UserError(
            f"which splits of {trial.task.name}? its protocol.test_splits names none\n"
            "name some: --splits dev",
            exit_code=2,
        )
    for split in splits:
        trial.task.load(split)
    return splits


def split_row(trial: EpochTrial, split: str, which: str, check: Check) -> Evaluation:
    """Score a trial, as it is, on every string of a split; return an evaluation row.

    `chance` is the best baseline there, and `baseline` its name.
    """
    with PeakMemory(trial.device) as peak:
        score = score_split(trial.model, trial.task.load(split), trial.device, check)
    check()
    levels = trial.task.baselines(split, trial.config.protocol.train_split)
    name = max(levels, key=lambda name: levels[name], default=None)
    return evaluation(
        score.longest,
        split,
        "accuracy",
        score.accuracy,
        score.n,
        interval=list(wilson(score.correct, score.n)),
        which=which,
        kind="test",
        chance=None if name is None else levels[name],
        baseline=name,
        peak_mib=round(peak.mib, 1),
        seconds=round(score.seconds, 3),
    )


def _section(trial: EpochTrial, split: str, check: Check) -> Section:
    """Return the examination on a split, named by the split and by what is in it."""
    hashes = sorted(identity(trial.task.load(split))["sha256"].items())
    name = ", ".join([split, *(f"{file} {digest}" for file, digest in hashes)])
    return Section(name, _symbols_of(trial, [split]), lambda: ([_test(trial, split, check)], None))


def _test(trial: EpochTrial, split: str, check: Check) -> Evaluation:
    score = score_split(trial.model, trial.task.load(split), trial.device, check)
    seconds = round(score.seconds, 3)
    return evaluation(
        score.longest, split, "accuracy", score.accuracy, score.n, kind="test", seconds=seconds
    )


def _looks_of(trial: EpochTrial, look: Look, rule: str) -> list[Evaluation]:
    """Return the dev look that a rule believed as evaluation rows."""
    split = trial.config.protocol.dev_split
    longest, n = int(sizes_of(trial.task.load(split)).max()), look["validation_n"]
    return [
        evaluation(longest, split, metric, look[f"validation_{metric}"], n, kind="look", which=rule)
        for metric in ("accuracy", "loss")
    ]
