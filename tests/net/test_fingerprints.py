"""Every published cell has the fingerprint that today's code gives its settings.

Fingerprints name cells for ever: whoever has runs on disk finds them by these names. A change of a
setting's name or default, of a version or of what is hashed would silently orphan them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lrbench.runs.folder.cell import Cell
from lrbench.runs.folder.fingerprint import fingerprint, relevant
from lrbench.schema import config_from

RESULTS = Path(__file__).resolve().parents[2] / "results"
TABLES = sorted(path.parent for path in RESULTS.glob("*/records") if any(path.glob("*/*/*/*/")))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_published_cells_keep_their_fingerprints(table: Path) -> None:
    moved, today = {}, Today()
    folders = sorted({path.parent for path in table.glob("records/**/config.json")})
    assert folders
    for folder in folders:
        written = [json.loads((folder / "config.json").read_text())]
        for path in sorted(folder.glob("s*/result.json")):
            result = json.loads(path.read_text())
            assert result["fingerprint"] == folder.name
            written.append(result["config"])
        for config in {json.dumps({**config, "seed": 0}): config for config in written}.values():
            digits = today.of(config)
            if digits != folder.name:
                moved[str(folder.relative_to(RESULTS))] = digits
            parts = (config[part]["name"] for part in ("task", "model", "protocol"))
            assert tuple(parts) == folder.parts[-4:-1]
    assert moved == {}


class Today:
    """Fingerprints by today's code.

    Cells that differ in their rate alone share one `Cell.of`: where that gives back what was
    written, it does so of the others, whose names are then made from what was written.
    """

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Any] | None] = {}

    def of(self, config: dict[str, Any]) -> str:
        alike = json.dumps({**config, "seed": 0, "optim": {**config["optim"], "lr": 0}})
        if (versions := self.known.get(alike)) is not None:
            return fingerprint(config, versions)
        cell = Cell.of(config_from(config))
        same = relevant(cell.settings) == relevant(config)
        self.known[alike] = cell.versions if same else None
        return cell.fingerprint


def test_there_are_published_cells() -> None:
    assert len(TABLES) >= 8
    assert sum(1 for table in TABLES for _ in table.glob("records/**/config.json")) >= 122
