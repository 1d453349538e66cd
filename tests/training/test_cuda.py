"""The same training on a GPU: same data bits, same weights at the start, losses that agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from lrbench.config import Config
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.group.stacked import Stacked
from lrbench.training.trial import unwatched

pytestmark = pytest.mark.cuda

NO_NOISE = "model.backbone.noise=0"  # a GPU draws other noise than a CPU


@pytest.mark.parametrize("model", ["blockdiag", "blockdiag_release"])
@pytest.mark.parametrize("task", ["sum", "mod_arith"])
def test_trains_as_on_cpu(task: str, model: str) -> None:
    from lrbench.cli.hydra.compose import composed

    config = composed([f"task={task}", f"model={model}", "protocol.batch_size=32", NO_NOISE])
    cpu, cuda = LengthTrial(config, 0, "cpu"), LengthTrial(config, 0, "cuda")
    assert torch.equal(cpu.batch(1).tokens, cuda.batch(1).tokens.cpu())
    for _ in range(20):
        expected, found = cpu.update(), cuda.update()
        assert found.device.type == "cuda"
        assert found.item() == pytest.approx(expected.item(), rel=1e-3)


def test_looks_and_checkpoints_work_there(tiny: Callable[..., Config]) -> None:
    trial = LengthTrial(tiny(), 0, "cuda")
    trial.update()
    look = trial.look(unwatched)
    assert 0 <= look["test_accuracy"] <= 1
    again = LengthTrial(tiny(), 0, "cuda")
    again.load(trial.state())
    pairs = zip(again.model.parameters(), trial.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("noise", [0, 3])
def test_a_captured_group_trains_as_single_runs_do(noise: int, tiny: Callable[..., Config]) -> None:
    config = tiny(f"model.backbone.noise={noise}", "protocol.max_steps=20", "optim.clip=1.0")
    together, alone = ([LengthTrial(config, seed, "cuda") for seed in range(3)] for _ in range(2))
    stack = Stacked(together)
    for _ in range(20):
        stack.update()
        for trial in alone:
            trial.update()
    assert stack.graph is not None
    for one, other in zip(together, alone, strict=True):
        assert one.step == other.step
        assert one.take_loss() == pytest.approx(other.take_loss(), rel=1e-3)
