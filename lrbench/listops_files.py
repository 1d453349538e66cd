"""The released test file of ListOps, and the public repositories that hold it.

Nangia & Bowman 2018, "ListOps: a diagnostic dataset for latent tree learning" (MIT-style licence,
copyright 2018 New York University). Its training file is nowhere to be had any more.
"""

from __future__ import annotations

from lrbench.downloads import Download

FOLDER = "released/listops"  # in the folder of data
_RAW = "https://raw.githubusercontent.com"
MIRRORS = (
    f"{_RAW}/nyu-mll/spinn/listops-release/python/spinn/data/listops",
    f"{_RAW}/yikangshen/Ordered-Memory/master/data/listops",
    f"{_RAW}/yikangshen/Ordered-Neurons/ddb18c3bd529f91e71ab5591092015b07647b755/data/listops",
)
FILES = (
    Download(
        "test_d20s.tsv",
        2_804_179,
        "71335416e6896e8dd8dc69281c8ed9b37316382d05d3705d660461564e843840",
    ),
)
