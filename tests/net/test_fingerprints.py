"""Every published cell has the fingerprint that today's code gives its settings.

Fingerprints name cells for ever: whoever has runs on disk finds them by these names. A change of a
setting's name or default, of a version or of what is hashed would silently orphan them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lrbench.runs.folder.cell import Cell
from lrbench.schema import config_from

RESULTS = Path(__file__).resolve().parents[2] / "results"
TABLES = sorted(path.parent for path in RESULTS.glob("*/records") if any(path.glob("*/*/*/*/")))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_published_cells_keep_their_fingerprints(table: Path) -> None:
    moved = {}
    folders = sorted({path.parent for path in table.glob("records/**/config.json")})
    assert folders
    for folder in folders:
        written = [json.loads((folder / "config.json").read_text())]
        for path in sorted(folder.glob("s*/result.json")):
            result = json.loads(path.read_text())
            assert result["fingerprint"] == folder.name
            written.append(result["config"])
        for config in {json.dumps({**config, "seed": 0}): config for config in written}.values():
            today = Cell.of(config_from(config))
            if today.fingerprint != folder.name:
                moved[str(folder.relative_to(RESULTS))] = today.fingerprint
            assert today.folder.parts[-4:-1] == folder.parts[-4:-1]
    assert moved == {}


def test_there_are_published_cells() -> None:
    assert len(TABLES) >= 8
    assert sum(1 for table in TABLES for _ in table.glob("records/**/config.json")) >= 122
