"""Every run below some folders, each a folder of runs or a published table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lrbench.report.runs.archive import find_in_archive, is_archive
from lrbench.report.runs.collection import Collection, Found, gather
from lrbench.report.runs.finding import find_runs


def collect(*runs_dirs: Path) -> Collection:
    """Read every run below the folders, each of them a folder of runs or a published table.

    Of several, a run's `folder` begins with the one that it was found in, and a run that is in two
    counts where it was found first. Raises UserError as `find_runs` and
    `find_in_archive` do.
    """
    roots = list(dict.fromkeys(Path(root) for root in runs_dirs))
    found = [find_in_archive(root) if is_archive(root) else find_runs(root) for root in roots]
    if len(found) == 1:
        return gather(found[0])
    return gather(_together([one.below(root) for one, root in zip(found, roots, strict=True)]))


def _together(found: Sequence[Found]) -> Found:
    return Found(
        records=[record for one in found for record in one.records],
        under_way=[run for one in found for run in one.under_way],
        problems=[problem for one in found for problem in one.problems],
        unfinished=[folder for one in found for folder in one.unfinished],
        environments={
            cell: environment for one in found for cell, environment in one.environments.items()
        },
        looks={folder: rows for one in found for folder, rows in one.looks.items()},
    )
