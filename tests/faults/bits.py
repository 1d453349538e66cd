"""Whether two runs are the same to the last bit: everything on disk but times and places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from lrbench.runs.folder import checkpoints, files

TIMES = {"seconds", "train_seconds", "examination_seconds"}
PLACES = {"output_dir", "force", "trials", "seed"}  # of the configuration; trials are compared too


def content(folder: Path) -> dict[str, Any]:
    """Return all that a finished run folder holds, in a form that `==` compares exactly."""
    stored = {path.name: checkpoints.load(path) for path in (folder / "checkpoints").glob("*.pt")}
    result = files.read_json(folder / "result.json")
    result["config"] = {k: v for k, v in result["config"].items() if k not in PLACES}
    return {
        "checkpoints": {name: _plain(state) for name, state in sorted(stored.items())},
        "metrics": _plain(files.read_lines(folder / "metrics.jsonl")),
        "result": _plain(result),
    }


def _plain(obj: Any) -> Any:
    if isinstance(obj, torch.Tensor):
        return str(obj.dtype), tuple(obj.shape), obj.contiguous().numpy().tobytes()
    if isinstance(obj, dict):
        return {key: _plain(value) for key, value in obj.items() if key not in TIMES}
    if isinstance(obj, list | tuple):
        return [_plain(value) for value in obj]
    return obj


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Return where two contents differ, as dotted keys: a failing test names them."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted({*one, *other}, key=str)
        return [
            found
            for key in keys
            for found in differences(one.get(key), other.get(key), f"{where}.{key}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            found
            for index, pair in enumerate(zip(one, other, strict=True))
            for found in differences(*pair, f"{where}[{index}]")
        ]
    return [] if one == other else [f"{where}: {str(one)[:60]} != {str(other)[:60]}"]
