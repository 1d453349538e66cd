"""The same training on a GPU: same data bits, same weights at the start, losses that agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.registry import ENCODERS, MIXERS
from lrbench.scan import ALGORITHMS
from lrbench.training.arithmetic import full_float32
from lrbench.training.group.proof import proves_itself
from lrbench.training.group.stacked import Stacked, stackable
from lrbench.training.procedure import make_trial
from lrbench.training.trial import unwatched
from lrbench.trust import decision
from tests import made_up_corpora
from tests.named_layers import words

pytestmark = pytest.mark.cuda

NO_NOISE = "model.backbone.noise=0"  # a GPU draws other noise than a CPU
SMALL = ("task=sum", "model.width=16", "model.layers=2", "protocol.batch_size=8")
LISTOPS = ("task=listops", "model.width=16", "protocol.batch_size=7")


@pytest.fixture(autouse=True)
def as_runs_compute() -> Iterator[None]:
    """Keep cuDNN from TF32, as runs do."""
    with full_float32():
        yield


def still(config: Config) -> Config:
    """Return a configuration without what is drawn in training."""
    for part in vars(config.model).values():
        for name in ("noise", "dropout"):
            if hasattr(part, name):
                setattr(part, name, type(getattr(part, name))(0))
    return config


@pytest.mark.parametrize("model", ["blockdiag", "blockdiag_release"])
@pytest.mark.parametrize("task", ["sum", "mod_arith"])
def test_trains_as_on_cpu(task: str, model: str) -> None:
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


@pytest.mark.parametrize("model", [name for name in MIXERS.names() if MIXERS.get(name).builtin])
def test_every_mixer_trains_as_on_cpu(model: str) -> None:
    """Alone there, and two of them as one program that is captured: the losses are the CPU's."""
    config = still(composed([*words(model), *SMALL]))
    cpu, cuda, *pair = (
        LengthTrial(config, 0, device) for device in ("cpu", "cuda", "cuda", "cuda")
    )
    stack = None if stackable(cuda) else Stacked(pair)
    for _ in range(6):
        expected = cpu.update().item()
        assert cuda.update().item() == pytest.approx(expected, rel=1e-3)
        if stack is not None:
            stack.update()
            for one in pair:
                assert one.take_loss() == pytest.approx(expected, rel=1e-3)
    if stack is not None:
        assert stack.graph is not None
        assert (
            pair[0].state()["optimiser"]["state"].keys()
            == cuda.state()["optimiser"]["state"].keys()
        )


@pytest.mark.parametrize("model", [name for name in ENCODERS.names() if ENCODERS.get(name).builtin])
def test_every_encoder_trains_as_on_cpu(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LRBENCH_DATA", str(made_up_corpora.write(tmp_path)))
    config = composed([f"model={model}", *LISTOPS])
    cpu, cuda = make_trial(config, 0), make_trial(config, 0, torch.device("cuda"))
    cpu.generator = cuda.generator = None  # type: ignore[assignment]
    for _ in range(3):
        assert cuda.update().item() == pytest.approx(cpu.update().item(), rel=1e-3)


def test_a_linear_model_takes_one_kernel_for_a_string(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, made = ALGORITHMS["fused"], []
    monkeypatch.setitem(ALGORITHMS, "fused", lambda *given: made.append(given) or plain(*given))
    trial = LengthTrial(composed(["task=sum", "model=blockdiag"]), 0, "cuda")
    trial.update()
    assert len(made) == 1


def test_a_capture_that_fails_leaves_the_process_as_it_was(
    tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(decision.SWITCH, "1")
    plain = Stacked._compute

    def compute(stack: Stacked, *batch: torch.Tensor) -> None:
        plain(stack, *batch)
        if torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize()

    monkeypatch.setattr(Stacked, "_compute", compute)
    trials = [LengthTrial(tiny(), seed, "cuda") for seed in range(2)]
    assert not proves_itself(trials)
    assert torch.randn(1 << 20, device="cuda").isfinite().all()
    assert trials[0].update().isfinite()
