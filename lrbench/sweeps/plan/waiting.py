"""The planned runs of a sweep, in a file from which `lrbench status` knows those not begun.

`OUTPUT_DIR/.sweeps/plan-<digest>.json` is written when a sweep begins and removed when every run of
it has ended. So the file shows which runs of a killed sweep are left. The same sweep writes the
same file again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from lrbench.checks import is_of_kind, shown
from lrbench.disk import below
from lrbench.protocols.base import declared
from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile

if TYPE_CHECKING:  # `lrbench status` reads files without torch
    from lrbench.sweeps.plan.ledger import Ledger
    from lrbench.sweeps.plan.plan import Plan, PlannedRun

FOLDER = ".sweeps"


@dataclass(frozen=True)
class WaitingRun:
    """A run that nobody has begun; updates: at most, None where its settings do not tell."""

    task: str
    model: str
    protocol: str
    fingerprint: str
    seed: int
    folder: str
    updates: int | None


@contextmanager
def planned(plan: Plan, ledger: Ledger, tell: Callable[[str], None]) -> Iterator[None]:
    """Keep what there is to do on disk until every run of `ledger` has ended."""
    written: list[Path] = []
    try:
        written = _write(plan)
    except OSError as error:  # the runs themselves say so too, each for its folder
        tell(f"the plan could not be written, so lrbench status knows of no waiting run: {error}")
    try:
        yield
    finally:
        for path in written if not ledger.open else ():
            path.unlink(missing_ok=True)
            with suppress(OSError):  # other plans or logs are there
                path.parent.rmdir()


def _write(plan: Plan) -> list[Path]:
    """Write a file for each output folder; return the files."""
    by_folder: dict[Path, list[PlannedRun]] = {}
    for run in plan.to_do:
        by_folder.setdefault(Path(run.cell.config.output_dir), []).append(run)
    written = []
    for folder, runs in by_folder.items():
        rows = [_row(folder, run) for run in runs]
        every = sorted(str(run.run.final_folder) for run in plan.runs)
        digest = hashlib.sha256("\n".join(every).encode()).hexdigest()[:12]
        path = folder / FOLDER / f"plan-{digest}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_json(path, {"runs": rows}, durable=False)
        written.append(path)
    return written


def waiting(root: Path, tell: Callable[[str], None]) -> Iterator[WaitingRun]:
    """Yield the runs that sweeps below `root` have still to begin, each once.

    tell: takes a line about each file in the place of a plan that is none.
    """
    seen: set[Path] = set()
    for path in (path for path in below(root, "plan-*.json") if path.parent.name == FOLDER):
        try:
            content = files.read_json(path)
        except UnreadableFile:
            continue  # its sweep has just removed it
        runs = _runs(content)
        if runs is None:
            tell(
                f"'{shown(path, 200)}' is no plan of a sweep of this version: some waiting runs may"
                " be missing; remove it, and the command of its sweep writes it again"
            )
        for run in runs or []:
            folder = path.parent.parent / run.folder
            if folder not in seen and not folder.exists():
                seen.add(folder)
                yield replace(run, folder=str(folder))


def _runs(content: dict[str, Any]) -> list[WaitingRun] | None:
    """Return the runs of a plan, None if it is none."""
    hints = get_type_hints(WaitingRun)
    rows = content.get("runs")
    if isinstance(rows, list) and all(
        isinstance(row, dict)
        and row.keys() == hints.keys()
        and all(is_of_kind(row[name], hint) for name, hint in hints.items())
        for row in rows
    ):
        return [WaitingRun(**row) for row in rows]
    return None


def _row(output_dir: Path, run: PlannedRun) -> dict[str, Any]:
    config, settings = run.cell.config, run.cell.settings
    name = config.protocol.name
    return {
        "task": config.task.name,
        "model": config.model.name,
        "protocol": name,
        "fingerprint": run.cell.fingerprint,
        "seed": run.seed,
        "folder": str(run.run.final_folder.relative_to(output_dir)),
        "updates": declared(name).most_updates(settings["protocol"], None),
    }
