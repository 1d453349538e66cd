"""`python -m check FILE`: a certificate checked, with numpy alone, beside this folder's copy."""

import sys
from pathlib import Path

from . import Refused, about, check


def main() -> None:
    """Check the file that the command line names; exit 0 if it is a proof, 1 if not."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m check certificates/last.json")
    try:
        found = check(Path(sys.argv[1]))
    except Refused as why:
        sys.exit(f"refused: {why}")
    print(f"holds: {found['nodes']:,} nodes, least margin {found['margin']:.3g}")
    print("\n".join(about(found)))


if __name__ == "__main__":
    main()
