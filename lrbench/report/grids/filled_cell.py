"""One cell of a table: its runs, their scores, the paper's number, and what may be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from lrbench.metrics import ACCURACY, METRICS, Metric
from lrbench.protocols.base import declared
from lrbench.report.paper.recipe import other_start
from lrbench.report.paper.reference import Published, Reference
from lrbench.report.paper.verdict import Evidence, Guesser
from lrbench.report.runs.columns import Settings, UnderWay

UNLIKE = "¶"  # at numbers of runs whose settings are not those that the table asks for
LEARNED_BY = "id"  # the rule that keeps the checkpoint of the lowest loss at the training length


class RunScore(NamedTuple):
    """One accuracy (or error) of a run.

    Plain, because a filter of a frame costs a thousand times as much.
    """

    folder: str
    rule: str
    kind: str
    split: str
    length: int
    value: float
    n: int
    chance: float  # nan where it was not measured
    metric: str = ACCURACY.name


@dataclass(frozen=True)
class FilledCell:
    """One cell of a table: its runs (all of one fingerprint), their scores, the paper's number.

    `rivals` are the fingerprints that compete for it; where there are several it has no runs.
    `length` is the test length that is shown; `faithful` says that what the paper tells of its task
    is true of the runs. Of runs over a corpus `split` is what is shown, and there is no length.
    `under_way` are its runs without a result, which are counted nowhere, and `overrides` the words
    that make such a run. `own_recipe`: its settings are ours, where the paper tells others.
    `unlike` is how the runs differ from those that a sweep of the table makes, as far as it is
    known; None where they do not. `unknown` is why that could not be found out.
    """

    task: str
    label: str
    model: str
    protocol: str
    modulus: int | None
    runs: pd.DataFrame
    scores: tuple[RunScore, ...]
    settings: Settings
    rivals: tuple[str, ...]
    not_shown: tuple[str, ...]
    wanted: int | None
    length: int | None
    reference: Reference | None
    published: Published | None
    faithful: bool = True
    split: str = ""
    under_way: tuple[UnderWay, ...] = ()
    overrides: tuple[str, ...] = ()
    own_recipe: bool = False
    unlike: tuple[str, ...] | None = None
    unknown: str = ""

    @property
    def column(self) -> str:
        """Where it stands in a table: its task, or over a corpus its split."""
        return self.split or self.task

    @property
    def contested(self) -> bool:
        return len(self.rivals) > 1

    @property
    def unfinished(self) -> bool:
        """Whether nothing is known of it but what its unfinished runs have so far."""
        none_ended = bool((self.runs["status"] == "failed").all())
        return bool(self.under_way) and none_ended and not self.contested

    def lacking(self, ended: int) -> str:
        """Say how many of the runs that the table wants have ended; nothing where all have."""
        of_table, others = (ended, 0) if self.unlike is None else (0, ended)
        if not self.wanted or of_table >= self.wanted:
            return ""
        elsewhere = f", {others} with other settings ({UNLIKE})" if others else ""
        return f"{of_table} of {self.wanted} runs have ended{elsewhere}"

    @property
    def metric(self) -> Metric:
        """What the runs are scored by; without runs, what the paper's are."""
        if self.scores:
            return METRICS[self.scores[0].metric]
        return self.reference.metric if self.reference else ACCURACY

    def by_run(self, rule: str, kind: str, split: str | None = None) -> dict[str, float]:
        """Return the accuracy of each run (folder), as shown or at the training length."""
        split = split or self.split or "test"
        return {
            score.folder: score.value
            for score in self.scores
            if (score.rule, score.kind, score.split) == (rule, kind, split)
            and (self.split or split != "test" or score.length == self.length)
        }

    def values(self, rule: str, kind: str, split: str | None = None) -> list[float]:
        """Return those accuracies, in the order of the runs."""
        return list(self.by_run(rule, kind, split).values())

    def trained(self, rule: str) -> list[float]:
        """Return accuracies at the training length, of the checkpoints that were best there.

        One that was chosen by its luck at the test length says less of what was learned. Of
        protocols that keep no such checkpoint it is the one of `rule`.
        """
        at_length = (LEARNED_BY, "test", "train_length")
        return self.values(*at_length) or self.values(rule, "test", "train_length")

    def so_far(self, rule: str, kind: str) -> list[float]:
        """Return what was measured of the unfinished runs, if they are all of one configuration.

        `lrbench evaluate` calls every length a further one, so that any at the test length counts.
        """
        if len({run.fingerprint for run in self.under_way}) != 1:
            return []
        found = []
        for run in self.under_way:
            for length, split, metric, value, _, which, measured, *_ in run.scores:
                here = split == self.split if self.split else length == self.length
                if here and (which, measured) == (rule, kind) and metric in METRICS:
                    found += [] if value is None else [value]
                    break
        return found

    def lost(self, rule: str, kind: str) -> int:
        """Return how many runs diverged before there was such an accuracy."""
        diverged = self.runs.loc[self.runs["status"] == "diverged", "folder"]
        return len(set(diverged) - set(self.by_run(rule, kind)))

    def strings(self, rule: str, kind: str) -> int | None:
        """Return the least number of strings that one of those accuracies was measured on."""
        if self.split:
            there = (s for s in self.scores if s.split == self.split)
            return min((s.n for s in there if (s.rule, s.kind) == (rule, kind)), default=None)
        wanted = (rule, kind, self.length)
        found = (s.n for s in self.scores if (s.rule, s.kind, s.length) == wanted)
        return min(found, default=None)

    def lengths(self) -> list[int]:
        """Return the test lengths, shortest first."""
        tests = [score for score in self.scores if (score.split, score.kind) == ("test", "test")]
        return sorted({score.length for score in tests})

    def count(self, status: str) -> int:
        return int((self.runs["status"] == status).sum())

    def looks(self) -> int | None:
        """Return how many looks a run may take, None where its configuration does not tell."""
        updates, every = self.updates(), _count(self.settings.get("protocol.look_every"))
        return -(-updates // every) if updates and every else None

    def updates(self) -> int | None:
        """Return how many updates a run may take, None where its configuration does not tell."""
        return _count(self.settings.get("protocol.max_steps"))

    def guesser(self, rule: str, kind: str, chance: float | None) -> Guesser | None:
        """Return who guesses under the same rule; None where the runs do not tell enough."""
        strings = self.strings(rule, kind)
        looks = self.looks() if (rule, kind) == ("best", "look") else 1
        if not self.metric.counts or chance is None or strings is None or looks is None:
            return None
        return Guesser(chance, strings, looks)

    def evidence(self, rule: str, kind: str, chance: float | None) -> Evidence:
        """Return what a verdict on this cell is given by."""
        return Evidence(
            values=self.values(rule, kind),
            trained=self.trained(rule),
            guesser=self.guesser(rule, kind, chance),
            diverged=self.lost(rule, kind),
            failed=self.count("failed"),
            metric=self.metric,
            chance=chance,
            best_run=declared(self.protocol).paper_runs > 1,
            own_recipe=self.own_recipe or self.unlike is not None,
        )

    def unlike_paper(self) -> str | None:
        """Return why its runs are not to be held against the paper's, where the protocol says."""
        own = {
            key.removeprefix("protocol."): value
            for key, value in self.settings.items()
            if key.startswith("protocol.")
        }
        if begun := other_start(own | {"init": self.settings.get("model.mixer.init")}):
            return begun
        return declared(self.protocol).unlike_paper(
            own | {"task": self.task, "model": self.model}, self.count("finished")
        )

    def comparable(self, rule: str) -> bool:
        """Tell whether the paper's number was taken by this rule, under no stricter a protocol.

        More looks, or looks at fewer strings, would flatter ours; fewer looks do not. A paper that
        tells of no looks is compared by rules that choose nothing at the test length.
        """
        paper, looks, strings = self.published, self.looks(), self.strings(rule, "look")
        if self.reference is None or self.reference.rule != rule:
            return False
        if self.reference.length != self.length or not self.faithful:
            return False
        if (unlike := self.unlike_paper()) is not None:
            return not unlike
        if self.split:  # nothing is chosen by a test split, there or here
            return True
        if paper is None:
            return rule != "best"
        if not looks or not strings:
            return False
        trained = self.settings.get("protocol.train_length")
        return trained == paper.train_length and looks <= paper.looks and strings >= paper.strings


def _count(value: Any) -> int | None:
    """Return a setting that counts something; None of another value, which a file may have."""
    return value if type(value) is int and value > 0 else None
