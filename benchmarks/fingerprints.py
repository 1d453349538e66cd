"""The fingerprints of the built-in tables' cells, which `lrbench report` goes by.

    python -m benchmarks.fingerprints            writes conf/table/fingerprints.json
    python -m benchmarks.fingerprints --check    composes all cells again and compares

To be written anew where a table, a preset or a version was changed; a test tells.
"""

from __future__ import annotations

import argparse
import json
import sys

from lrbench.cli.hydra.compose import composed
from lrbench.cli.hydra.sharing import SharedComposition
from lrbench.sweeps.plan.filling import fingerprints
from lrbench.tables import fingerprints_file, load_table, table_names


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    told = parser.parse_args()
    made = fingerprints(list(map(load_table, table_names())), SharedComposition(composed))
    path = fingerprints_file()
    if told.check:
        same = json.loads(path.read_bytes()) == made
        print(f"{path.name}: {'the same' if same else 'DIFFERS'}")
        return int(not same)
    path.write_text(json.dumps(made, indent=0, sort_keys=True) + "\n")
    print(f"wrote {path.name}: {len(made)} cells")
    return 0


if __name__ == "__main__":
    sys.exit(main())
