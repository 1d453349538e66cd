"""How fast pairs of formulas are drawn on one core, written out, read from text and from disk.

Bounds: 500,000 accepted pairs, made into the files of a corpus, in 60 s; a split read in 1 s. With
the folder of the released files their reading is timed as well, every label recomputed, and the
statistics of both corpora are printed side by side.
On a shared machine compare the load and the processor seconds beside the wall seconds.

    python benchmarks/logic_speed.py [--repeats 3] [--released DIR] [--write]
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
import torch

from benchmarks.logic_statistics import side_by_side
from benchmarks.repeats import timed
from lrbench.tasks.corpus.storage import read, write
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic.generator import ACCEPTED, draw
from lrbench.tasks.logic.released import FILES, read_files
from lrbench.tasks.logic.splits import SPLITS, by_size, split, written

KEPT = Path(__file__).parent / "results" / "logic_speed.json"
BOUNDS = {"corpus_seconds": 60.0, "read_seconds": 1.0}


def main() -> None:
    """Time it, print and perhaps keep what was measured."""
    parser = argparse.ArgumentParser(description="Time the making of the corpus of logic.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--released", type=Path, help="the folder of train0 ... test12")
    parser.add_argument("--write", action="store_true", help=f"keep the numbers in {KEPT.name}")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    measured = {"bounds": BOUNDS, **measure(chosen.repeats, chosen.released)}
    print(json.dumps(measured, indent=2))
    if chosen.write:
        KEPT.write_text(json.dumps(measured, indent=2) + "\n")


def measure(repeats: int, released: Path | None) -> dict[str, Any]:
    """Return seconds of drawing alone, of the whole corpus, and of reading."""
    load = round(os.getloadavg()[0], 2)
    drawing, _ = timed(lambda: draw(0), repeats)
    whole, files = timed(corpus, repeats)
    splits = dict(split(SPLITS, files))
    reading: dict[str, Any] = {"split train": read_back(splits["train"], repeats)}
    if released:
        text, theirs = timed(lambda: read_files(released), repeats)
        reading["released text"] = {"pairs": sum(map(len, theirs.values())), **text}
        compare(dict(split(SPLITS, theirs)), splits)
    return {
        "accepted": ACCEPTED,
        "draw": drawing,
        "corpus": {"unique pairs of its splits": sum(map(len, splits.values())), **whole},
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


def corpus(accepted: int = ACCEPTED) -> dict[str, Strings]:
    """Draw, remove what is there twice, sort by size, write out the files that splits need."""
    files = by_size(draw(0, accepted)[0])
    return {file.name: written(files[file.name]) for file in FILES}


def compare(theirs: dict[str, Strings], ours: dict[str, Strings]) -> None:
    """Print the statistics of some splits, released and made."""
    for name in ("train", "test_8", "test_12"):
        print(side_by_side({f"{name} released": theirs[name], "made": ours[name]}), end="\n\n")


def read_back(strings: Strings, repeats: int) -> dict[str, Any]:
    """Time the reading of a split, its sha256 checked."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "logic" / "train", strings)
        seconds, _ = timed(lambda: read(Path(folder) / "logic" / "train"), repeats)
    return {"pairs": len(strings), "megabytes": round(strings.tokens.nbytes / 1e6, 1), **seconds}


if __name__ == "__main__":
    main()
