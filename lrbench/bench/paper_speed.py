"""`lrbench bench fan2024_speed`: section 4.5 of Fan, Chi & Rudnicky 2024, made again.

They time a loop over positions against their parallel scan (PScan) on Sum(5): training at T = 40,
testing at T = 500, with blocks of 8 and of 1. Theirs are seconds on a Quadro RTX 8000 for an
"instance" that is not defined; ours are seconds for a batch of 128 strings, here. Only the ratio of
the two algorithms can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from lrbench.bench.pscan import added
from lrbench.bench.timing import alternate
from lrbench.config import Config
from lrbench.report.paper.times import Printed, speeds
from lrbench.training.memory import keep_freed_memory
from lrbench.training.procedure import make_trial
from lrbench.training.trial import BatchTrial

Compose = Callable[[Sequence[str]], Config]
MODEL, TASK = "blockdiag_release", "sum"
ALGORITHMS = ("sequential", "pscan")


@dataclass(frozen=True)
class Setting:
    """What was timed: its name in the paper's row, block size, length, training or testing."""

    paper: str
    block: int
    length: int
    training: bool


SETTINGS = (
    Setting("train T=40 b=8", 8, 40, True),
    Setting("test T=500 b=8", 8, 500, False),
    Setting("re-assessed with b=1", 1, 500, False),
)


@dataclass(frozen=True)
class PaperSpeed:
    """Seconds a batch of each algorithm, and the paper's seconds an instance."""

    setting: Setting
    sequential: float
    pscan: float
    ratio: float  # of sequential to pscan: above 1 the parallel scan is faster
    rounds: dict[str, list[float]]
    paper: Printed | None


def paper_speeds(
    compose: Compose,
    rounds: int,
    seconds: float,
    device: torch.device,
    tell: Callable[[str], None] = lambda line: None,
) -> list[PaperSpeed]:
    """Measure the three settings of the paper, the algorithms in turn."""
    keep_freed_memory()
    printed = speeds()
    found = []
    for setting in SETTINGS:
        overrides = [f"task={TASK}", f"model={MODEL}", f"model.mixer.block_size={setting.block}"]
        trial = make_trial(compose(overrides), 0, device)
        assert isinstance(trial, BatchTrial)
        calls = {name: partial(_run, trial, setting, name) for name in ALGORITHMS}
        with added():
            measured = alternate(calls, rounds, seconds)
        tell(setting.paper)
        found.append(
            PaperSpeed(
                setting,
                measured.time("sequential"),
                measured.time("pscan"),
                measured.ratio("sequential", "pscan"),
                measured.seconds,
                next((row for row in printed if row.setting.startswith(setting.paper)), None),
            )
        )
    return found


def _run(trial: BatchTrial, setting: Setting, algorithm: str) -> None:
    """Draw a batch and train on it, or read it to its end."""
    batch = trial.task.sample(
        trial.stream("bench", setting.length),
        0,
        trial.config.protocol.batch_size,
        setting.length,
        trial.device,
    )
    if setting.training:
        trial.model.zero_grad(set_to_none=True)
        logits, _ = trial.model(batch.tokens, mode=algorithm, generator=trial.generator)
        trial.loss(logits, batch.targets).backward()
    else:
        with torch.no_grad():
            trial.model(batch.tokens, read="last", mode=algorithm)
    if trial.device.type == "cuda":
        torch.cuda.synchronize()
