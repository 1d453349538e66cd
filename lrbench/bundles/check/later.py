"""What `lrbench evaluate` added to the runs of a bundle after they had ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from lrbench.bundles import layout
from lrbench.bundles.check.findings import OPEN, BundleFinding, finding
from lrbench.bundles.data import over_corpus
from lrbench.records import FURTHER, Result
from lrbench.report.output.display import plural
from lrbench.report.runs.record import FOLDER


def misplaced(results: Mapping[str, Result], files: Mapping[str, bytes]) -> Iterator[BundleFinding]:
    """Yield which later scores would stand in a table as those of the test, if any do."""
    wrong = []
    for run, result in results.items():
        if over_corpus(result):
            continue  # any of its splits can be scored later
        file = re.compile(rf"{layout.RUNS}/{re.escape(run)}/{FOLDER}/[^./][^/]*\.json")
        for name in sorted(filter(file.fullmatch, files)):
            rows = layout.parsed(name, files[name]).get("evaluations") or []
            split = next((row["split"] for row in rows if row.get("split") != FURTHER), None)
            if split is not None:
                wrong.append(f"{name} has a score of the split {split}, which result.json tells")
    if wrong:
        yield finding("later scores", wrong, "")


def later_scores(files: Mapping[str, bytes], folder: str) -> Iterator[BundleFinding]:
    """Yield that what `lrbench evaluate` told of runs below `folder` was not scored again."""
    runs: set[str] = set()
    lengths: set[int] = set()
    for name, data in files.items():
        run, _, rest = name.removeprefix(f"{folder}/").partition(f"/{FOLDER}/")
        if rest:
            runs.add(run)
            lengths |= _lengths(data)
    if runs:
        reach = f"{min(lengths):,} to {max(lengths):,}" if lengths else "no length that can be read"
        text = f"what `lrbench evaluate` added to {plural(len(runs), 'run')}, lengths {reach}"
        yield BundleFinding("later scores", OPEN, text)


def _lengths(data: bytes) -> set[int]:
    """Return the lengths in a file of evaluations; a stranger's file may hold anything."""
    try:
        rows = json.loads(data)["evaluations"]
        return {int(row["length"]) for row in rows}
    except (ValueError, KeyError, TypeError, RecursionError):
        return set()
