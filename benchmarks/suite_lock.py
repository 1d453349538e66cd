"""The lock of a suite: settings and test strings of every task, as hashes.

    python -m benchmarks.suite_lock suite_v1            writes data/reference/suite_v1.lock
    python -m benchmarks.suite_lock suite_v1 --check    draws all strings again and compares

Written once, when a suite is frozen. A lock that says something else is another suite.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from lrbench.api import config
from lrbench.records import recorded
from lrbench.report.runs.record import flat
from lrbench.report.suite.lock import FIXED, FREE, LAYERS, lock_path, own_hash
from lrbench.runs.folder.versions import versions_of
from lrbench.tables import load_table
from lrbench.training.procedure import procedure_for

ANY_MODEL = "lstm"  # the settings of task, protocol and optimiser do not depend on the model


def lock_of(suite: str) -> dict[str, Any]:
    """Return the content of a suite's lock, made anew."""
    table = load_table(suite)
    assert table.search is not None
    content: dict[str, Any] = {
        "suite": suite,
        "rates": [float(value) for value in table.search.grid[0].partition("=")[2].split(",")],
        "enough": table.search.enough,
        "search": dict(word.split("=", 1) for word in table.search.settings),
        "tasks": [],
    }
    for task in table.tasks:
        made = config(*table.common, *task.overrides, f"model={ANY_MODEL}")
        procedure = procedure_for(made)
        settings = flat(recorded(made)) | flat({"versions": versions_of(made)})
        fixed = {k: v for k, v in settings.items() if k.startswith(FIXED) and k not in FREE}
        entry = {"label": task.label, "settings": fixed, "layers": settings[LAYERS]}
        entry["strings"] = procedure.data()
        drawn = procedure.task.drawn()
        content["tasks"].append(entry if drawn is None else entry | {"automaton": drawn})
    return content | {"sha256": own_hash(content)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    told = parser.parse_args()
    path, content = lock_path(told.suite), lock_of(told.suite)
    if not told.check:
        path.write_text(json.dumps(content, indent=1) + "\n")
        print(f"wrote {path.name}: {len(content['tasks'])} tasks, sha256 {content['sha256']}")
        return 0
    there = json.loads(path.read_text())
    differing = [
        one["label"]
        for one, other in zip(content["tasks"], there["tasks"], strict=True)
        if one != other
    ]
    same = there == content
    print(f"{path.name}: {'the same' if same else 'DIFFERS: ' + ', '.join(differing)}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
