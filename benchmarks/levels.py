"""Baselines and guessing in published records, made anew by today's code.

A record of results/*/records keeps what was measured of a model for good. What knows nothing of the
rule is a matter of the task alone: where it is computed otherwise than when the run was made (new
lookups of ListOps, exact values where strings were drawn, guessing in closed form instead of by
simulation) this writes it anew, in result.json and in evaluations/*.json:

    python -m benchmarks.levels [FOLDER] [--check]

FOLDER is results/ of the checkout, or a table there. With --check nothing is written, what differs
is named, and the exit code is then 1. `lrbench publish --rebuild results` then makes tables and
pages of it. Baselines at lengths that are not known exactly, and those of series, stay as measured.
Those of corpora are fitted on the data on disk, which must be those that the run was tested on
(`lrbench data make listops`, `lrbench data fetch listops_test`, `lrbench data fetch logic`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lrbench.errors import UserError
from lrbench.protocols.fan2024.examination import guessing_row
from lrbench.records import Baseline
from lrbench.report.runs.record import FOLDER, evaluation_names
from lrbench.runs.folder.files import write_json
from lrbench.schema import config_from
from lrbench.tasks import make_task
from lrbench.tasks.baselines import best_baseline, known_baselines
from lrbench.tasks.corpus.storage import identity
from lrbench.tasks.corpus.task import CorpusTask
from lrbench.training.procedure import procedure_for

RESULTS = Path(__file__).resolve().parents[1] / "results"
Row = dict[str, Any]


@cache
def task_of(settings: str) -> Any:
    """Return the task of a run's settings, as JSON."""
    return make_task(config_from(json.loads(settings)).task)


@cache
def at_length(settings: str, length: int) -> list[Baseline] | None:
    """Return the baselines at a length where they are known exactly."""
    task = task_of(settings)
    return None if task.fixed else known_baselines(task, length)


def is_known(settings: str, longest: int) -> bool:
    """Whether no baseline need be measured for tests up to a length."""
    task = task_of(settings)
    return bool(longest) and at_length(settings, task.nearest_length(longest)) is not None


@cache
def by_protocol(settings: str) -> Row:
    """Return what the protocol of these settings says of baselines and guessing."""
    config: Any = config_from(json.loads(settings))
    procedure = procedure_for(config)
    baselines, guessing = procedure.levels(procedure.trial(0, "cpu"), lambda *_: None)
    return {"baselines": baselines, "guessing": guessing}


@cache
def on_split(settings: str, split: str, trained_on: str) -> Mapping[str, float]:
    """Return the baselines of a corpus on a split."""
    found: Mapping[str, float] = task_of(settings).baselines(split, trained_on)
    return found


@cache
def hashes(settings: str, split: str) -> Row:
    """Return the sha256 of a split on disk."""
    found: Row = identity(task_of(settings).load(split))["sha256"]
    return found


class Levels:
    """What knows nothing of the rule, of the run of a result.json."""

    def __init__(self, result: Row) -> None:
        self.result = result
        parts = {name: result["config"][name] for name in ("task", "model", "protocol")}
        self.trained_on = parts["protocol"].get("train_split", "")
        self.settings = json.dumps(parts, sort_keys=True)
        self.of_splits = isinstance(task_of(self.settings), CorpusTask)

    def baselines(self) -> list[Row]:
        """Return the rows of all splits that the result has.

        Raises UserError where a split on disk is not the one that the run was tested on.
        """
        places = {row["split"]: row["n"] for row in self.result["baselines"]}
        return [row for place, n in places.items() for row in self._at(place, n)]

    def _at(self, place: Any, n: int) -> list[Row]:
        for split in (self.trained_on, place):
            data = self.result.get("data", {}).get(split)
            if data and hashes(self.settings, split) != data["sha256"]:
                raise UserError(f"{split} on disk is not what {self.result['fingerprint']} had")
        levels = on_split(self.settings, place, self.trained_on)
        return [
            {"baseline": name, "split": place, "value": value, "n": n}
            for name, value in levels.items()
        ]

    def anew(self) -> Row:
        """Return the result with its baselines, and the guessing that follows from them."""
        longest = max((row.get("length", 0) for row in self.result["baselines"]), default=0)
        if not self.of_splits and is_known(self.settings, longest):
            return self.result | by_protocol(self.settings)
        baselines = self.baselines() if self.of_splits else self.result["baselines"]
        guessing = []
        for row in self.result["guessing"]:
            there: Any = [one for one in baselines if one["length"] == row["length"]]
            best = best_baseline(there)
            guessing.append(guessing_row(best, row["length"], row["strings"], row["looks"]))
        return self.result | {"baselines": baselines, "guessing": guessing}

    def evaluated_anew(self, evaluations: Row) -> Row:
        """Return a file of further evaluations of the run with the best baseline of each."""
        return evaluations | {"evaluations": list(map(self._scored, evaluations["evaluations"]))}

    def _scored(self, row: Row) -> Row:
        if self.of_splits:
            # of a file by its path, or of trees beside brackets: as it was scored
            if row["split"].endswith(".tsv") or row.get("kind") == "trees":
                return row
            levels = on_split(self.settings, row["split"], self.trained_on)
            name = max(levels, key=lambda name: levels[name])
            return row | {"chance": levels[name], "baseline": name}
        levels_there = at_length(self.settings, row["length"]) if "chance" in row else None
        return row | {"chance": best_baseline(levels_there)["value"]} if levels_there else row


def changed(folder: Path) -> Iterator[tuple[Path, Row]]:
    """Yield the files below a folder that are not as today's code makes them, with what they are.

    Raises UserError where a run's data are not on disk, or others.
    """
    for path in sorted(folder.glob("**/records/**/result.json")):
        levels = Levels(json.loads(path.read_text()))
        if (anew := levels.anew()) != levels.result:
            yield path, anew
        for name in evaluation_names(path.parent):
            further = path.parent / FOLDER / name
            told = json.loads(further.read_text())
            if (again := levels.evaluated_anew(told)) != told:
                yield further, again


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=RESULTS)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found = 0
    try:
        for path, content in changed(options.folder):
            found += 1
            if options.check:
                print(f"{path}: its baselines or guessing are not today's")
            else:
                write_json(path, content)
    except UserError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"{found} files {'differ' if options.check else 'written'}")
    return int(bool(found) and options.check)


if __name__ == "__main__":
    sys.exit(main())
