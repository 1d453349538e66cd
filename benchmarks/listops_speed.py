"""How fast ListOps strings are drawn on one core, and read back from disk.

Bounds: 20,000 near-IID strings a second, counted as the different ones that are kept, with their
values; 2,000 strings of 900 to 1,000 tokens in 5 s, their tables included; a split read in 1 s.
On a shared machine compare the load and the processor seconds beside the wall seconds.

    python benchmarks/listops_speed.py [--repeats 3] [--lra] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.repeats import timed
from lrbench.tasks.corpus.storage import read, write
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.conditional import length_tables
from lrbench.tasks.listops.splits import LRA_SPLITS, NANGIA_SPLITS, family_of

KEPT = Path(__file__).parent / "results" / "listops_speed.json"
BOUNDS = {"near_iid_per_second": 20_000, "len_900_1000_seconds": 5.0, "read_seconds": 1.0}


def main() -> None:
    """Time drawing and reading, print and perhaps keep what was measured."""
    parser = argparse.ArgumentParser(description="Time the making of ListOps.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--lra", action="store_true", help="draw the 100,000 of LRA, too, once")
    parser.add_argument("--write", action="store_true", help=f"keep the numbers in {KEPT.name}")
    chosen = parser.parse_args()
    measured = {"bounds": BOUNDS, **measure(chosen.repeats, chosen.lra)}
    print(json.dumps(measured, indent=2))
    if chosen.write:
        KEPT.write_text(json.dumps(measured, indent=2) + "\n")


def measure(repeats: int, lra: bool) -> dict[str, Any]:
    """Return seconds and rates of each kind of drawing, and of reading."""
    load = round(os.getloadavg()[0], 2)
    nangia, drawn = timed(lambda: NANGIA_SPLITS.draw(0, quiet), repeats)
    nangia["per_second"] = round(len(drawn) / nangia["median"])
    nangia["per_processor_second"] = round(len(drawn) / nangia["processor_median"])
    lengths = {
        name: timed(lambda name=name: drawn_anew(name), repeats)[0]
        for name in ("len_200_300", "len_500_600", "len_900_1000", "args_15")
    }
    reading = {"train family, 100,000 strings": read_back(drawn, repeats)}
    whole: dict[str, Any] = {}
    if lra:
        whole, strings = timed(lambda: LRA_SPLITS.draw(0, quiet), 1)
        reading["lra family, 100,000 strings"] = read_back(strings, repeats)
    return {
        "near_iid": {"different strings": len(drawn), **nangia},
        "2,000 strings": lengths,
        "lra, 100,000 strings": whole,
        "read": reading,
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "machine": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "system": platform.system(),
            "cores": os.cpu_count(),
            "load_before": load,
        },
    }


def drawn_anew(split: str) -> Strings:
    """Draw a split with tables made anew."""
    length_tables.cache_clear()
    return family_of(split).draw(0, quiet)


def read_back(strings: Strings, repeats: int) -> dict[str, Any]:
    """Time the reading of a split, its sha256 checked."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "listops" / "split", strings)
        seconds, _ = timed(lambda: read(Path(folder) / "listops" / "split"), repeats)
    return {"megabytes": round(strings.tokens.nbytes / 1e6, 1), **seconds}


def quiet(done: int) -> None:
    """Tell nobody."""


if __name__ == "__main__":
    main()
