"""What those reach on a split who know next to nothing: measured by the runs, or kept in a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lrbench.report.paper.splits import Split, measured
from lrbench.report.paper.verdict import Guesser
from lrbench.report.runs.collection import Collection
from lrbench.statistics import mean

GUESSES = ("uniform", "majority")  # of these, which see nothing of a string, the better is chance
MEANING = {
    "uniform": "any class",
    "majority": "the commonest answer of the training split",
    "root_operator": "the commonest there given the operator at the root",
    "root_digits": "given that operator and the digits that are its direct arguments",
}


@dataclass(frozen=True)
class Levels:
    """The accuracy of each baseline on a split, and how many strings that has where it is known."""

    values: dict[str, float]
    strings: int | None = None

    @property
    def chance(self) -> float | None:
        """What a guesser gets who sees nothing of the strings."""
        return max((self.values[name] for name in GUESSES if name in self.values), default=None)

    @property
    def best(self) -> tuple[str, float] | None:
        """The baseline to beat, and its accuracy."""
        return max(self.values.items(), key=lambda item: item[1], default=None)

    @property
    def guesser(self) -> Guesser | None:
        """Who guesses once on as many strings: over a corpus nobody looks at a test split."""
        if self.chance is None or self.strings is None:
            return None
        return Guesser(self.chance, self.strings, 1)


def levels(
    split: Split, collection: Collection, folders: Iterable[str], references: Path | None = None
) -> Levels:
    """Return the levels that the runs in `folders` measured, else those kept for the tables.

    Baselines are the same for equal data; of runs on other data the mean is taken.
    """
    found: dict[str, list[float]] = {}
    strings: list[int] = []
    for folder in folders:
        for name, (value, n) in collection.baselines.get(folder, {}).get(split.name, {}).items():
            found.setdefault(name, []).append(value)
            strings += [] if n is None else [n]
    if found:
        values = {name: mean(each) for name, each in found.items()}
        return Levels(values, min(strings, default=None))
    kept = measured(split, references)
    sizes = [n for _, n in kept.values() if n is not None]
    return Levels({name: value for name, (value, _) in kept.items()}, min(sizes, default=None))


def meanings(names: Iterable[str]) -> str:
    """Return what the baselines of these names say, in the order in which they see more."""
    told = [name for name in (*MEANING, *sorted(set(names) - set(MEANING))) if name in set(names)]
    return "; ".join(f"{name} = {MEANING[name]}" if name in MEANING else name for name in told)
