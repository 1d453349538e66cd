"""The summary printed at the end of a run.

A line for each length that was tested, or for each split: a layout of each kind. Printed to the
console that is passed in (stdout's): styled on a terminal, the same words in plain text otherwise,
readable in 80 columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from lrbench.metrics import ACCURACY, METRICS, metric_of
from lrbench.protocols.base import declared
from lrbench.records import POSITIONS, Evaluation, Result
from lrbench.report.output.cells import duration
from lrbench.report.output.display import (
    again,
    columns_table,
    header,
    interval,
    number,
    plural,
    say,
    say_wrapped,
    wrap,
)
from lrbench.report.output.verdict_sentence import lengths_of_test, verdict_sentence
from lrbench.report.paper.recipe import faithful_on, lookup_run, other_recipe
from lrbench.report.paper.reference import Reference, Split, ablation, lookup_on
from lrbench.report.runs.certificates import read_answers
from lrbench.report.runs.record import baselines_by_split, best_baseline, guessing_at
from lrbench.statistics import FEWEST_STRINGS, SOLVED

LONGER = (5_003, 50_021, 500_009)  # primes, so of no special residue, and odd for mod_arith
OTHER_SPLITS = {
    "listops": (
        *("args_10", "args_15", "args_iid", "lra_test", "near_iid"),
        *(f"len_{low}_{low + 100}" for low in range(200, 1000, 100)),
    ),
    "logic": tuple(f"test_{operators}" for operators in (*range(12, 6, -1), *range(7))),
}
LAST = "last"
MOST = 3  # of those that are named

Columns = dict[str, list[str]]
Line = tuple[str, str]  # a label and what is said


def run_summary(
    result: Result, folder: Path, console: Console, references: Path | None = None
) -> None:
    """Print what the run in `folder` can do, from its result.json and its certificates.

    The paper's number is looked up in `references` (default: the project's own reference tables).
    """
    layout = layout_of(result, folder, references)
    if result["status"] == "diverged":
        say(console, layout.diverged(), "bold red")
    for whose, sentence in layout.sentences():
        say_wrapped(console, f"{whose}: {sentence}" if whose else sentence, "bold")
    for line in wrap(header(result), " · ", console.width):
        say(console, line)
    if layout.rows:
        console.print()
        columns_table(console, layout.columns(), layout.bold_row())
        for caption in layout.captions():
            say_wrapped(console, caption, "dim")
    for label, text in layout.lines():
        say(console, text, label=f"{label:<13} ")


def layout_of(result: Result, folder: Path, references: Path | None = None) -> Summary:
    """Return how the end of this run is told: by length, or by split of a corpus."""
    layout = _OnSplits if declared(result["protocol"]).by_split else _AtLengths
    return layout(result, folder, references)


class Summary(ABC):
    """The end of one run: a row a length or split, a column for each checkpoint its rules kept."""

    tells_last: ClassVar[bool]

    def __init__(self, result: Result, folder: Path, references: Path | None) -> None:
        self.result, self.folder, self.references = result, folder, references
        self.metric = metric_of(result)
        self.steps = result.get("checkpoints") or {}
        self.rows = [row for row in result["evaluations"] if self.is_shown(row)]
        self.groups = self._groups()

    @property
    def rule(self) -> str:
        """The rule of the paper's number."""
        return declared(self.result["protocol"]).usual_rule

    @abstractmethod
    def is_shown(self, row: Evaluation) -> bool:
        """Tell whether an evaluation has a place in the table."""

    @abstractmethod
    def places(self) -> dict[str, Sequence[Evaluation]]:
        """Return the scores of each line, by what it is called: a length or a split."""

    @abstractmethod
    def columns(self) -> Columns:
        """Return the columns of the table."""

    @abstractmethod
    def captions(self) -> Iterable[str]:
        """Yield what its numbers mean."""

    @abstractmethod
    def lines(self) -> Iterable[Line]:
        """Yield what else there is to say, each with its label."""

    def sentences(self) -> Iterable[Line]:
        """Yield what the checkpoint of the paper's rule has learnt, of lengths the last one too.

        Each is (rules, sentence); the rules are left out where the sentence is true of both.
        """
        known = read_answers(self.folder, self.steps, [])
        said: dict[str, list[str]] = {}
        for group in self.groups:
            if self.rule in group or (self.tells_last and LAST in group):
                answer = next((known[rule] for rule in group if rule in known), None)
                text = verdict_sentence(self.result, _scored_rule(group, self.rows), answer)
                said.setdefault(text, []).append("=".join(group))
        for text, groups in said.items():
            if text:
                yield "" if len(said) == 1 else ", ".join(groups), text

    def title(self, group: tuple[str, ...]) -> str:
        """Return what heads a group's column: its rules, where there are several groups."""
        return "=".join(group) if len(self.groups) > 1 else self.metric.title

    def bold_row(self) -> int:
        """Return the row that the paper has, -1 where it has several."""
        return -1

    def diverged(self) -> str:
        return f"diverged at update {self.result['steps']:,}: training was no longer finite; " + (
            "below: checkpoints from before" if self.rows else "nothing to test"
        )

    def scores(self, found: Iterable[Mapping[str, Evaluation]]) -> Columns:
        """Return a column a group from {rule: row} of each line; the first has its interval."""
        by_line = list(found)
        columns: Columns = {}
        for index, group in enumerate(self.groups):
            rows = [next((by[r] for r in group if r in by), None) for by in by_line]
            columns[self.title(group)] = [f"{row['value']:.4f}" if row else "-" for row in rows]
            if index == 0 and self.metric.counts:  # the first group holds the paper's rule
                columns["95 % interval"] = [
                    interval(row["value"], row["n"]) if row else "-" for row in rows
                ]
        return columns

    def taken(self) -> str:
        """Return the update of each group's checkpoint; of a single one, that all agree."""
        known = [group for group in self.groups if self.steps.get(group[0]) is not None]
        updates = [f"{'='.join(group)} {self.steps[group[0]]:,}" for group in known]
        if len(known) > 1:
            return f"checkpoints, by update: {', '.join(updates)}"
        if len(self.groups) == 1 and len(self.groups[0]) > 1:
            when = f" of update {self.steps[known[0][0]]:,}" if known else ""
            return f"{', '.join(self.groups[0])}: one checkpoint{when}"
        return ""

    def _groups(self) -> list[tuple[str, ...]]:
        """Rules with the same checkpoint in one group: they are one model, and scored once."""
        rules, scored = declared(self.result["protocol"]).rules, {row["which"] for row in self.rows}
        groups: dict[int | str, tuple[str, ...]] = {}
        for rule in (*rules, *sorted(scored.difference(rules))):
            if rule in scored or rule in self.steps:
                step = self.steps.get(rule)
                key = rule if step is None else step
                groups[key] = (*groups.get(key, ()), rule)
        return [group for group in groups.values() if scored.intersection(group)]


class _AtLengths(Summary):
    """A line a length."""

    tells_last = True

    def is_shown(self, row: Evaluation) -> bool:
        return row["kind"] == "test" and row["metric"] in METRICS and row["value"] is not None

    @property
    def lengths(self) -> list[int]:
        return sorted({row["length"] for row in self.rows})

    def places(self) -> dict[str, Sequence[Evaluation]]:
        return {f"{n:,}": [row for row in self.rows if row["length"] == n] for n in self.lengths}

    def bold_row(self) -> int:
        tests = [row["length"] for row in self.rows if row["split"] == "test"]
        return self.lengths.index(tests[0]) if tests else -1

    def columns(self) -> Columns:
        lengths, result = self.lengths, self.result
        paper = self.paper()
        there = self.places()
        columns = {
            "length": list(there),
            "": [_split_name(rows) for rows in there.values()],
            **self.scores(map(_by_rule, there.values())),
        }
        chance = (best_baseline(result, length) for length in lengths)
        columns["chance"] = [number(row or {}, "value", ".3f") for row in chance]
        if self.metric.counts:
            guessing = (guessing_at(result, self.rule, length) for length in lengths)
            columns["guessing"] = [number(row or {}, "value", ".3f") for row in guessing]
        columns["paper"] = [paper.at(length) if paper else "-" for length in lengths]
        return columns

    def paper(self) -> Reference | None:
        """Return the paper's number, where this run may be held against it."""
        if other_recipe(self.result, self.references):
            return None
        return lookup_run(self.result, self.references)

    def captions(self) -> Iterable[str]:
        sizes: dict[int, list[int]] = {}
        number = self.number()
        for row in [row for row in self.rows if not (number and row["split"] == "test")]:
            lengths = sizes.setdefault(row["n"], [])
            lengths += [] if row["length"] in lengths else [row["length"]]
        most, *fewer = sorted(sizes, key=lambda n: -len(sizes[n])) or [0]
        other = [f"{n:,} at {' and '.join(f'{length:,}' for length in sizes[n])}" for n in fewer]
        strings = f"{most:,} fresh strings a length" + (f", {', '.join(other)}" if other else "")
        counts = self.metric.counts
        where = "at the final position" if counts else "at every position, lower is better"
        if any(row["metric"] == "exact" for row in self.result["evaluations"]):
            where = "of all scored answers"
        if sizes:
            yield f"{strings}; {self.metric.title} {where}"
        if number:
            yield number
        known = [row for row in self.result.get("guessing") or [] if row["rule"] == self.rule]
        for guess in [row for row in known if row.get("looks") and row.get("strings")][:1]:
            together = _node(self.result, "protocol").get("runs") == "max"
            tries = plural(guess["looks"], "run" if together else "look")
            looks = f"best of {tries} at {guess['strings']:,} strings"
            yield f"guessing: a guesser under the paper's rule, {looks}"
        reason = other_recipe(self.result, self.references)
        if reason and lookup_run(self.result, self.references):
            yield f"paper: no number beside this run; {reason}"
        if len(self.groups) > 1 and counts:
            yield f"95 % interval: of {'='.join(self.groups[0])}"
        if self.taken():
            yield self.taken()

    def number(self) -> str:
        """What the test's one number is, where it is not the accuracy at one length."""
        row = next((row for row in self.rows if row["split"] == "test"), None)
        score = _node(self.result, "protocol").get("score")
        every = lengths_of_test(self.result, row["which"]) if row else {}
        if row is None or not (score == "sequence" or every):
            return ""
        if score == "sequence":
            what = "strings that are right at every position"
        else:
            how = "mean over" if score == "mean" else "all strings of"
            what = f"{how} {len(every)} lengths, {min(every):,} to {max(every):,}"
        return f"test at {row['length']:,}: {what}, of {row['n']:,} fresh strings"

    def lines(self) -> Iterable[Line]:
        yield from self._look()
        yield from self._horizons()
        yield from self._positions()
        if self.rows and self.result.get("horizon") != {}:
            longest, odd = max(self.lengths), any(length % 2 for length in self.lengths)
            known = [length if odd else length - 1 for length in LONGER]  # flip_flop: even alone
            longer = [length for length in known if length > longest][:2] or [10 * longest + odd]
            lengths = ",".join(map(str, longer))
            which = "" if "best" in declared(self.result["protocol"]).rules else " --which last"
            yield "look further", again(self.result, self.folder, f"{which} --lengths {lengths}")

    def _look(self) -> Iterable[Line]:
        """The look that the paper's rule reports: a perfect one, or the best there was."""
        rows = self.result["evaluations"]
        looks = [row for row in rows if (row["kind"], row["which"]) == ("look", self.rule)]
        look = next((r for r in looks if r["split"] == "test" and r["metric"] in METRICS), None)
        strings = ""
        if look:
            settings = _node(self.result, "protocol").get("look")
            ends = settings.get("lengths") if isinstance(settings, dict) else None
            span = isinstance(ends, list) and len({*ends}) == 2
            where = f"of {ends[0]:,} to {ends[1]:,}" if ends and span else f"at {look['length']:,}"
            strings = f"{look['n']:,} strings {where}"
        perfect = self.result.get("perfect_look")
        if perfect:
            seconds = perfect.get("seconds")
            when = f"update {perfect['step']:,}"
            when += f" ({duration(seconds)})" if seconds is not None else ""
            ended = "; training ended there" if self.result.get("stopped") == "perfect" else ""
            yield "perfect look", ", ".join(part for part in (when, strings) if part) + ended
        elif look and look["value"] is not None:
            step = self.steps.get(self.rule)
            when = f" at update {step:,}" if step is not None else ""
            yield "best look", f"{look['value']:.4f}{when}, {strings}"

    def _horizons(self) -> Iterable[Line]:
        """The horizon of the paper's rule, and those of other rules where they differ from it."""
        printed: list[str] = []
        for rule, horizon in (self.result.get("horizon") or {}).items():
            if horizon["text"] in printed:
                continue
            bits = _node(self.result, "protocol").get("precision")
            rounded = f"rounded to {bits}" if bits not in (None, "float32") else ""
            parts = horizon.get("dtype"), rounded, horizon.get("mode")
            how = ", ".join(filter(None, parts))
            whose = f" of {rule}" if printed else ""
            if few := self._too_few(rule, horizon.get("upper")):
                yield f"horizon{whose}", few
                printed.append(horizon["text"])
                continue
            yield f"horizon{whose}", horizon["text"] + (f" ({how})" if how else "")
            again = horizon.get("float64")
            if again:
                on = f"{again['value']:.4f} of {again['n']:,} at {again['length']:,}"
                rounding = again["verdict"] == "rounding"
                # what float64 mends may also be numbers beyond float32
                passes, why = "passes", "rounding or overflow of float32"
                if not rounding:
                    passes, why = "fails as well", "not rounding"
                yield "", f"float64 {passes} ({on}): {why}"
            printed.append(horizon["text"])

    def _too_few(self, rule: str, length: int | None) -> str:
        """The reason for no horizon: nearly all strings are right, but they are too few."""
        for row in self.result["evaluations"]:
            place = row["kind"], row["which"], row["metric"], row["length"]
            if place != ("test", rule, "accuracy", length) or row["n"] >= FEWEST_STRINGS:
                continue
            if row["value"] is not None and row["value"] >= SOLVED:
                asked = f"{row['n']:,} strings at {length:,} are too few"
                return f"unknown: {asked} (protocol.test_size={FEWEST_STRINGS} or more)"
        return ""

    def _positions(self) -> Iterable[Line]:
        """What the last checkpoint says at every position, of tasks that were scored there."""
        rows = [row for row in self.result["evaluations"] if row["split"] == POSITIONS]
        which = "last" if any(row["which"] == "last" for row in rows) else self.rule
        mine = [row for row in rows if row["which"] == which and row["value"] is not None]
        whole = [row for row in mine if row["metric"] == "exact"]
        scores = [f"{row['value']:.4f} at {row['length']:,}" for row in whole]
        for first in range(0, len(scores), 4):
            yield "" if first else "exact", ", ".join(scores[first : first + 4])
        if scores:
            yield "", f"strings right at every scored position ({which})"
        curve = {row["length"]: row["value"] for row in mine if row["metric"] == "prefix"}
        if not curve:
            return
        # a start symbol was once counted: then the curve ends one behind its string
        lengths = [row["length"] for row in mine if row["metric"] == "token"]
        string = max((length for length in lengths if length <= max(curve)), default=None)
        at = {row["metric"]: row["value"] for row in mine if row["length"] == string}
        if {"token", "sequence"} <= at.keys():
            yield from at_positions(at["token"], at["sequence"], curve, f" ({which})")


class _OnSplits(Summary):
    """A line a split of a corpus, its dev score, and why the run ended."""

    tells_last = False  # its dev split decides; where epochs end is luck

    def is_shown(self, row: Evaluation) -> bool:
        return row["kind"] == "test" and row["metric"] == ACCURACY.name and row["value"] is not None

    @property
    def splits(self) -> list[str]:
        return list(dict.fromkeys(row["split"] for row in self.rows))

    def places(self) -> dict[str, Sequence[Evaluation]]:
        return {s: [row for row in self.rows if row["split"] == s] for s in self.splits}

    @property
    def settings(self) -> Mapping[str, Any]:
        """Those of the protocol."""
        return _node(self.result, "protocol")

    def columns(self) -> Columns:
        there = self.places()
        levels = baselines_by_split(self.result)
        best = [
            max(levels.get(split, {}).items(), key=lambda item: item[1][0], default=None)
            for split in there
        ]
        return {
            "": self.splits,
            "strings": [f"{rows[0]['n']:,}" for rows in there.values()],
            **self.scores(map(_by_rule, there.values())),
            "baseline": [f"{each[1][0]:.3f} {each[0]}" if each else "-" for each in best],
            "paper": [each.text if each else "-" for each in self._papers()],
        }

    def captions(self) -> Iterable[str]:
        yield "accuracy on whole splits; baseline: the best of those that were measured"
        if self.taken():
            yield f"95 % interval: of {'='.join(self.groups[0])}; {self.taken()}"
        for paper in [each for each in self._papers() if each][:1]:
            yield f"paper: {paper.model} in {paper.source}, {paper.aggregation}"

    def lines(self) -> Iterable[Line]:
        yield from self._dev()
        yield from self._end()
        tested, known = set(self.splits), OTHER_SPLITS.get(self.result["task"], ())
        untested = [name for name in known if name not in tested][:MOST]
        if self.rows and untested:
            splits = ",".join(untested)
            yield "look further", again(self.result, self.folder, f" --splits {splits}")

    def _papers(self) -> list[Reference | None]:
        task, model = self.result["task"], self.result["model"]
        source = str(self.settings.get("train_split") or "train")
        settings = {f"task.{key}": value for key, value in _node(self.result, "task").items()}
        encoder = _node(self.result, "model").get("encoder") or {}
        row = ablation(model, {f"model.encoder.{key}": value for key, value in encoder.items()})
        return [
            lookup_on(split, model, row=row, folder=self.references)
            if faithful_on(split, settings)
            else None
            for split in (Split(task, name, source) for name in self.splits)
        ]

    def _dev(self) -> Iterable[Line]:
        """The look at the dev split by which the best checkpoint was chosen."""
        looks = [
            row
            for row in self.result["evaluations"]
            if (row["kind"], row["which"]) == ("look", self.rule) and row["value"] is not None
        ]
        if not looks:
            return
        values = ", ".join(f"{row['metric']} {row['value']:.4f}" for row in looks)
        step = self.steps.get(self.rule)
        when = f" at update {step:,}" if step is not None else ""
        chosen = self.settings.get("select_by")
        how = f" (by {chosen})" if chosen else ""
        yield f"best {looks[0]['split']}", f"{values}{when}, {looks[0]['n']:,} strings{how}"

    def _end(self) -> Iterable[Line]:
        """How many epochs it was, and why no more."""
        settings, epochs = self.settings, self.result.get("epochs")
        after = f"after {epochs:.3g} epochs" if epochs is not None else ""
        why = ""
        if self.result.get("stopped") == "patience":
            why = f"the dev score no better for more than {settings.get('patience')} (patience)"
        elif self.result.get("stopped") == "budget":
            updates = settings.get("max_steps")
            most = f"{settings.get('epochs')} epochs"
            if type(updates) is int and 0 < updates <= self.result["steps"]:  # it may have both
                most = plural(updates, "update")
            why = f"its budget of {most} was used up"
        if after or why:
            yield "ended", ": ".join(part for part in (after, why) if part)


def at_positions(
    token: float, sequence: float, curve: Mapping[int, float], whose: str = ""
) -> Iterable[Line]:
    """Tokens and sequences at the end of a curve, and its last prefixes at powers of two."""
    longest = max(curve)
    yield "positions", f"token {token:.4f}, sequence {sequence:.4f} at {longest:,}{whose}"
    powers = sorted(n for n in curve if n.bit_count() == 1 or n == longest)
    yield "prefix", ", ".join(f"{curve[n]:.3f} to {n:,}" for n in powers[-6:])


def _node(result: Result, name: str) -> Mapping[str, Any]:
    """The settings of the task or the protocol; empty where the configuration has none."""
    found = result["config"].get(name)
    return found if isinstance(found, dict) else {}


def _by_rule(rows: Iterable[Evaluation]) -> dict[str, Evaluation]:
    """The first row of each rule."""
    return {row["which"]: row for row in reversed(list(rows))}


def _scored_rule(group: tuple[str, ...], rows: Iterable[Evaluation]) -> str:
    """The rule of a group under which its one checkpoint was scored."""
    scored = {row["which"] for row in rows}
    return next((rule for rule in group if rule in scored), group[0])


def _split_name(rows: Iterable[Evaluation]) -> str:
    splits = {row["split"] for row in rows}
    return "test" if "test" in splits else "train" if "train_length" in splits else ""
