"""Publishing a table's runs: choosing and copying what its page is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lrbench.errors import UserError
from lrbench.publish.changes import Changes
from lrbench.publish.layout import RECORDS
from lrbench.publish.records import Copy, chosen_runs, planned_certificates, planned_copy, rivals
from lrbench.report.runs.collect import collect
from lrbench.tables import TableSpec


def publish(
    spec: TableSpec,
    runs_dir: Path,
    output: Path,
    choose: Sequence[str] = (),
    force: bool = False,
    certificates: bool = False,
) -> Copy:
    """Copy the small files of the runs of `spec` to its folder below `output`; return what it did.

    With `certificates`, those of runs that are published already, and nothing else.

    Raises UserError, before anything is written, where no run belongs to the table, configurations
    compete for a cell, or a run is there with other content and it is not by `force`.
    """
    if (runs_dir / RECORDS).is_dir():  # a published table
        runs_dir = runs_dir / RECORDS
    records = output / spec.name / RECORDS
    chosen = chosen_runs(collect(runs_dir), spec, choose)
    if not any(folders for _, folders in chosen):
        raise UserError(
            f"no run in '{runs_dir}' belongs to the table {spec.name}\n"
            f"make them with: lrbench sweep --table {spec.name}; or name another with --runs DIR"
        )
    if records.is_dir():
        _refuse(records, rivals(collect(records), spec, chosen))
    if certificates:
        copy = planned_certificates(runs_dir, chosen, records)
    else:
        copy = planned_copy(runs_dir, chosen, records, force)
    changes = Changes(written={records / name: content for name, content in copy.files.items()})
    changes.removed = [records / name for name in copy.stale]
    changes.apply()
    return copy


def _refuse(records: Path, competing: Iterable[str]) -> None:
    for rival in competing:
        raise UserError(
            f"{records / rival} has another configuration of the same cell\n"
            "a page has one of them: remove that folder, or leave these runs out"
        )
