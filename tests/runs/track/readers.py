"""What trackers have kept, read back by their own means: {name: [(update, value), ..]}."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Curves = dict[str, list[tuple[int, float]]]
BLOCK, HEADER = 32768, 7  # of a .wandb file, which is a log in LevelDB's format


def expected(folder: Path) -> Curves:
    """What the files of a run say, written down a second time: the names of docs/commands.md."""
    found: Curves = {}
    for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()):
        for key, value in line.items() if "loss" in line else ():
            if key != "step":
                found.setdefault(f"train/{key}", []).append((line["step"], value))
        for key, value in line.get("look", {}).items():
            if key not in ("step", "test_n", "test_length", "validation_n", "band_n"):
                found.setdefault(f"look/{key}", []).append((line["step"], value))
    result = folder / "result.json"
    for row in json.loads(result.read_text())["evaluations"] if result.exists() else ():
        if row["kind"] == "test" and row["split"] != "positions":
            name = f"test/{row['which']}/{row['metric']}/{row['length']}"
            found[name] = [(json.loads(result.read_text())["steps"], row["value"])]
    return found


def of_tensorboard(folder: Path) -> Curves:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def of_wandb(folder: Path) -> Curves:
    """All of a run's offline folders, in the order in which they were made."""
    from wandb.proto import wandb_internal_pb2

    found: Curves = {}
    for path in sorted((folder / "wandb").glob("offline-run-*/*.wandb")):
        for data in _records(path.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "history":
                row = {_key(item): json.loads(item.value_json) for item in record.history.item}
                for name in (name for name in row if not name.startswith("_")):
                    found.setdefault(name, []).append((row["_step"], row[name]))
    return found


def of_trackio(database: Path, run: str = "%") -> Curves:
    found: Curves = {}
    with sqlite3.connect(database) as connection:
        rows = connection.execute(
            "SELECT step, metrics FROM metrics WHERE run_name LIKE ? ORDER BY id", (run,)
        ).fetchall()
    connection.close()
    for step, metrics in rows:
        for name, value in json.loads(metrics).items():
            found.setdefault(name, []).append((step, value))
    return found


def _key(item: Any) -> str:
    return item.key or ".".join(item.nested_key)


def _records(data: bytes) -> Iterator[bytes]:
    at, parts = HEADER, b""
    while at + HEADER <= len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER:
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + HEADER])
        if not kind:
            return
        parts += data[at + HEADER : at + HEADER + size]
        at += HEADER + size
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""
