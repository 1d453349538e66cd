"""Pages of measured tables in results/, from the raw output in their records.

    python -m benchmarks.pages [FOLDER] [--check]

FOLDER is a folder of published tables (results/ of the checkout) or that of one table. With --check
nothing is written, what differs is named, and the exit code is then 1. `lrbench publish --rebuild`
makes the other pages, which are of runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.pages.build import rebuild
from lrbench.errors import UserError

RESULTS = Path(__file__).resolve().parents[2] / "results"


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=RESULTS)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    try:
        changes = rebuild(options.folder, options.check)
    except UserError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    findings = list(changes.findings())
    print("\n".join([*changes.done, *findings] or [f"{options.folder}: as its records make it"]))
    return int(bool(findings) and options.check)


if __name__ == "__main__":
    sys.exit(main())
