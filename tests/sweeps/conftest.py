"""Plans of tiny cells, and launchers without processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.sweeps.plan.expansion import expand
from lrbench.sweeps.plan.plan import Plan, make_plan

TINY = [
    *("task=sum", "model=blockdiag", "model.width=8", "model.mixer.block_size=4"),
    *("model.mixer.hidden=8", "model.backbone.noise=0", "optim.warmup=0"),
    *("optim.label_smoothing=0", "optim.schedule=constant", "protocol.train_length=6"),
    *("protocol.test_lengths=[9]", "protocol.further_lengths=[12]", "protocol.band=[7,8]"),
    *("protocol.batch_size=8", "protocol.look_every=4", "protocol.look_size=8"),
    *("protocol.validation_size=16", "protocol.test_size=20", "protocol.max_steps=4"),
    *("protocol.stop=never", "device=cpu"),
]


@pytest.fixture
def plan_of() -> Callable[..., Plan]:
    """A function from extra words to the plan of a tiny sweep below ./outputs."""

    def make(*arguments: str, groups: bool = False) -> Plan:
        return make_plan(expand([*TINY, *arguments]), composed, groups)

    return make


@pytest.fixture
def train() -> Callable[[Sequence[str]], None]:
    """A function that trains the run of a job's overrides here and now."""

    def run(overrides: Sequence[str]) -> None:
        from lrbench.runs.train.job import run_cell

        run_cell(composed(list(overrides)))

    return run
