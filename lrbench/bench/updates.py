"""`lrbench bench train`: what one training update of each model costs, and where it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

import torch

from lrbench.bench.timing import Call, Rounds, alternate, forget_peak, status
from lrbench.config import Config
from lrbench.plugins import load_plugins
from lrbench.runs.train.validate import resolve_device
from lrbench.schema import config_from
from lrbench.training.arithmetic import run_arithmetic
from lrbench.training.group.stacked import WARM_UP, Stacked, stackable
from lrbench.training.memory import PeakMemory, keep_freed_memory
from lrbench.training.procedure import make_trial
from lrbench.training.trial import BatchTrial, Trial

Compose = Callable[[Sequence[str]], Config]
STEPS_FOR_MEMORY = 3


@dataclass(frozen=True)
class UpdateCost:
    """One model on one task: seconds an update, as a multiple of the first model's, and more.

    outside: the share of an update that is not the model's forward and backward (data, loss
    bookkeeping, optimiser); None of a corpus, whose batches differ in length, and on a GPU, where
    an update is one graph. peak_bytes: resident memory that updates add to a process with the model
    in it; on a GPU that of tensors.
    """

    task: str
    model: str
    parameters: int
    seconds: float
    ratio: float
    rounds: list[float]
    strings_per_second: float
    outside: float | None
    peak_bytes: int


def update_costs(
    configs: Sequence[Config],
    rounds: int,
    seconds: float,
    tell: Callable[[str], None] = lambda line: None,
) -> list[UpdateCost]:
    """Measure the updates of `configs` (cells of one task), in turn; the first is the unit.

    Updates are whole ones: fresh strings, forward, backward, optimiser.
    """
    keep_freed_memory()  # as `lrbench train` does
    trials = {config.model.name: started(config) for config in configs}
    calls: dict[str, Call] = {}
    for name, trial in trials.items():
        calls[name] = update_of(trial)
        if isinstance(trial, BatchTrial) and trial.device.type == "cpu":
            calls[_arithmetic(name)] = arithmetic_of(trial)
    with run_arithmetic():
        measured = alternate(calls, rounds, seconds, tell)
    first = next(iter(trials))
    costs = []
    for config in configs:
        name = config.model.name
        spent = measured.time(name)
        costs.append(
            UpdateCost(
                task=config.task.name,
                model=name,
                parameters=trials[name].parameters,
                seconds=spent,
                ratio=measured.ratio(name, first),
                rounds=measured.seconds[name],
                strings_per_second=config.protocol.batch_size / spent,
                outside=_outside(measured, name),
                peak_bytes=peak_of(config),
            )
        )
    return costs


def started(config: Config) -> Trial:
    """Return a run of a cell at its beginning, on the device that it would be trained on."""
    return make_trial(config, config.seed, resolve_device(config.device))


def update_of(trial: Trial) -> Call:
    """Return what makes an update as `lrbench train` does: on a GPU as a captured graph, if it can.

    Before a graph is captured some updates are made.
    """
    if trial.device.type == "cpu" or stackable(trial) or not isinstance(trial, BatchTrial):
        return trial.update
    stack = Stacked([trial])
    for _ in range(WARM_UP):
        stack.update()
    return stack.update


def arithmetic_of(trial: BatchTrial) -> Call:
    """Return what does the model's forward and backward alone, on strings drawn once."""
    batch = trial.batch(1)

    def call() -> None:
        trial.model.zero_grad(set_to_none=True)
        logits, _ = trial.model(batch.tokens, generator=trial.generator)
        trial.loss(logits, batch.targets).backward()

    return call


def peak_of(config: Config) -> int:
    """Return the bytes that some updates add: to the resident memory of a process of their own.

    On a GPU, to the memory of tensors.
    """
    device = resolve_device(config.device)
    if device.type == "cuda":
        trial = started(config)
        before = torch.cuda.memory_allocated(device)
        with PeakMemory(device) as peak:
            for _ in range(STEPS_FOR_MEMORY):
                trial.update()
        return round(peak.mib * 2**20) - before
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_added, asdict(config)).result()


def _added(settings: dict[str, Any]) -> int:
    load_plugins()
    config = config_from(settings)  # its classes are made at run time and cannot be sent
    torch.set_num_threads(config.threads)
    trial = started(config)
    before = forget_peak()  # importing torch needed more than many a model does
    for _ in range(STEPS_FOR_MEMORY):
        trial.update()
    return max(0, status("VmHWM") - before)


def _outside(measured: Rounds, name: str) -> float | None:
    if _arithmetic(name) not in measured.seconds:
        return None
    return 1 - measured.ratio(_arithmetic(name), name)


def _arithmetic(name: str) -> str:
    return f"{name}, model alone"
