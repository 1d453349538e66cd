"""The work of `lrbench evaluate --table`: scores of all runs of a table that lack them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from lrbench.errors import UserError, unknown
from lrbench.protocols.base import declared, rule_names
from lrbench.records import FURTHER, POSITIONS, Evaluation
from lrbench.report.grids.selection import matching_runs
from lrbench.report.runs.collect import collect
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.record import further_rows
from lrbench.runs.evaluate.evaluation import evaluate_run
from lrbench.runs.folder import files
from lrbench.schema import config_from
from lrbench.statistics import SOLVED
from lrbench.tables import TableSpec
from lrbench.tasks import make_task
from lrbench.training.procedure import STRINGS, parse_lengths

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Wish:
    """What to score of each run: the checkpoint `which`, at `lengths`, on so many strings.

    No `which`: that of the table's rule.
    `every` asks for runs that do not solve their task as well.
    """

    lengths: str
    which: str = ""
    strings: int | None = None
    every: bool = False


def evaluate_table(
    table: TableSpec, runs_dir: Path, wish: Wish, device: str, tell: Tell
) -> Iterator[tuple[Path, list[Evaluation]]]:
    """Score each finished run of `table` below `runs_dir`; yield its folder and the new rows.

    A length that a task does not have becomes the nearest below. One that a checkpoint was scored
    at, on as many strings, is left out. What cannot be scored is told and skipped. Raises
    UserError for a table over a corpus, for no lengths, and in the end where a run was skipped for
    a mistake.
    """
    wish = replace(wish, which=wish.which or table.rule)
    wanted = _lengths(table, wish)
    collection = collect(runs_dir)
    failed = []
    for folder in _folders(collection, table, wish, runs_dir, tell):
        run = runs_dir / folder
        try:
            lengths = _missing(collection.frame, run, folder, wanted, wish)
            if not lengths:
                tell(f"{run}: nothing to do")
                continue
            tell(f"{run}: {', '.join(f'{length:,}' for length in lengths)}")
            text = ",".join(map(str, lengths))
            yield run, evaluate_run(run, text, wish.which, wish.strings, device)
        except UserError as error:
            failed.append(run)
            tell(f"{run}: not scored: {error}")
    if failed:
        raise UserError(f"{len(failed)} runs could not be scored, such as {failed[0]}")


def _lengths(table: TableSpec, wish: Wish) -> list[int]:
    if wish.which not in rule_names():
        raise unknown("rule", wish.which, rule_names(), exit_code=2)
    if wish.strings is not None and wish.strings < 1:
        raise UserError(f"--strings must be at least 1, not {wish.strings}", exit_code=2)
    if declared(table.protocol).by_split:
        raise UserError(
            f"table '{table.name}' is over a corpus, which has splits instead of lengths\n"
            "score a run of it with: lrbench evaluate RUN --splits dev",
            exit_code=2,
        )
    if not wish.lengths:
        raise UserError(
            "--table goes with --lengths, such as --lengths 10007,20011,50021,100003", exit_code=2
        )
    return parse_lengths(wish.lengths, ())


def _folders(
    collection: Collection, table: TableSpec, wish: Wish, runs_dir: Path, tell: Tell
) -> list[str]:
    """The finished runs of the table that have the checkpoint and, unless all are asked, solve."""
    matching = [matching_runs(collection, table, cell) for cell in table.cells]
    runs = pd.concat(matching) if matching else collection.runs[:0]
    finished = list(dict.fromkeys(runs.loc[runs["status"] == "finished", "folder"]))
    if not finished:
        raise UserError(f"no finished run of table '{table.name}' in '{runs_dir}'")
    solving = set(finished) if wish.every else _solving(collection.frame, wish.which)
    kept = [folder for folder in finished if folder in solving]
    with_weights = [f for f in kept if (runs_dir / f / "checkpoints" / f"{wish.which}.pt").exists()]
    tell(
        f"{len(finished)} finished runs: {len(finished) - len(kept)} do not solve their test length"
        f" (--all scores them too), {len(kept) - len(with_weights)} have no '{wish.which}'"
        f" checkpoint, {len(with_weights)} to score"
    )
    return with_weights


def _solving(frame: pd.DataFrame, which: str) -> set[str]:
    fresh = frame[(frame["split"] == "test") & (frame["kind"] == "test")]
    right = fresh[(fresh["metric"] == "accuracy") & (fresh["value"] >= SOLVED)]
    return set(right.loc[right["which"] == which, "folder"])


def _missing(
    frame: pd.DataFrame, run: Path, folder: str, wanted: Sequence[int], wish: Wish
) -> list[int]:
    """The lengths of a run's task, nearest to those wanted, that it has not been scored at yet."""
    config = config_from(files.read_json(run / "result.json")["config"])
    task = make_task(config.task)
    nearest = dict.fromkeys(task.nearest_length(length) for length in wanted)
    scored = (frame["kind"] == "test") & (frame["split"] != POSITIONS)
    mine = frame[(frame["folder"] == folder) & scored]
    further = [row for row in further_rows(run, []) if row["split"] == FURTHER]
    known = [
        (row["which"], row["length"], row["n"]) for row in further
    ]  # a report may prefer others
    known += mine[["which", "length", "n"]].dropna().itertuples(index=False, name=None)
    enough = wish.strings or STRINGS
    done = {int(length) for which, length, n in known if which == wish.which and n >= enough}
    return [length for length in nearest if length not in done]
