"""Whether a run fits into memory, from below: what is refused here could not have worked."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.models.build import count_parameters
from lrbench.tasks import make_task
from lrbench.tasks.base import TaskBase
from lrbench.training.memory import NUMBER
from lrbench.training.procedure import procedure_for
from lrbench.training.trial import model_for

GIB = 2**30
KEPT_PER_PARAMETER = 4  # the weight, its gradient and Adam's two moments
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
SMALLER = (
    "make protocol.batch_size, protocol.train_length, model.width, model.layers or trials smaller"
)


def check_fits(config: Config, device: torch.device) -> None:
    """Refuse a run that needs more memory than there is; UserError with both numbers.

    Also raises what building the model raises: ValueError for shapes that do not fit together.
    """
    task = make_task(config.task)
    weights = config.trials * parameters(config, task) * NUMBER * KEPT_PER_PARAMETER
    batch = procedure_for(config).batch_bytes()
    needed, there = weights + batch, memory_of(device)
    if needed <= there:
        return
    sizes = {key: getattr(config.model, key, None) for key in ("layers", "width")}
    batches = {key: getattr(config.protocol, key, None) for key in ("batch_size", "train_length")}
    raise UserError(
        f"this needs at least {_readable(needed)} of memory; {device} has {_readable(there)}\n"
        f"weights and optimiser: {_readable(weights)} for trials={config.trials},"
        f" {_named('model', sizes)}\n"
        f"one update: {_readable(batch)} for {_named('protocol', batches)}\n{SMALLER}"
    )


def _named(group: str, sizes: dict[str, int | None]) -> str:
    return ", ".join(f"{group}.{key}={size}" for key, size in sizes.items() if size is not None)


def parameters(config: Config, task: TaskBase) -> int:
    """Return how many numbers a model trains, from those of one and of two layers, unallocated."""

    def count(layers: int | None = None) -> int:
        depth: dict[str, Any] = {} if layers is None else {"layers": layers}
        smaller = replace(config, model=replace(config.model, **depth))
        try:
            with torch.device("meta"):
                return count_parameters(model_for(smaller, task, 0))
        except RuntimeError:  # a plugin that reads its weights while it makes them, or too large
            return count_parameters(model_for(smaller, task, 0))

    layers = getattr(config.model, "layers", None)
    if layers is None:
        return count()
    one = count(1)
    return one if layers == 1 else one + (layers - 1) * (count(2) - one)


def memory_of(device: torch.device) -> int:
    """Return the bytes of memory of a device; of this machine, or what it lets us have, for CPU."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in LIMITS:
        text = path.read_text().strip() if path.is_file() else "max"
        there = min(there, int(text)) if text.isdecimal() else there
    return there


def out_of_memory(error: BaseException) -> str | None:
    """Return "out of memory: needs 3.7 GiB more" for a failed allocation, None for another error.

    torch names bytes on CPU and GiB on CUDA, each in a line of its insides.
    """
    text = str(error)
    if found := re.search(r"[Tt]ried to allocate (\d+) bytes", text):
        return f"out of memory: needs {_readable(int(found[1]))} more"
    if found := re.search(r"[Tt]ried to allocate ([\d.]+ [KMGT]iB)", text):
        return f"out of memory: needs {found[1]} more"
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return "out of memory"
    return None


def _readable(size: int) -> str:
    if size < GIB:
        return f"{size / 2**20:,.1f} MiB"
    return f"{size / GIB:,.1f} GiB" if size < 100 * GIB else f"{size // GIB:,} GiB"
