"""What is refused before it trains: memory, counted from below; and what is not, every table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.locations import GIVEN
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.registry import MIXERS
from lrbench.runs.train import validate
from lrbench.tables import load_table, table_names
from lrbench.tasks import make_task
from lrbench.training.procedure import procedure_for
from tests.named_layers import words

CPU = torch.device("cpu")


@pytest.mark.parametrize("model", sorted(MIXERS))
def test_parameters_are_counted_without_building_the_model(model: str) -> None:
    config = composed([*words(model), "model.width=16"])
    task = make_task(config.task)
    for layers in (1, 3):
        config.model.layers = layers
        assert validate.parameters(config, task) == LengthTrial(config, 0).parameters


def test_the_estimate_stays_below_what_an_update_takes() -> None:
    """What autograd keeps of one update is more than what is counted."""
    config = composed(["protocol.batch_size=8", "protocol.train_length=20", "model.layers=2"])
    trial, kept = LengthTrial(config, 0), {}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: _note(kept, t), lambda t: t):
        batch = trial.batch(1)
        logits, _ = trial.model(batch.tokens)
        trial.loss(logits, batch.targets)
    weights = {p.untyped_storage().data_ptr() for p in trial.model.parameters()}
    bytes_kept = sum(size for at, size in kept.items() if at not in weights)
    assert procedure_for(config).batch_bytes() < 2 * bytes_kept


def _note(kept: dict[int, int], tensor: torch.Tensor) -> torch.Tensor:
    storage = tensor.untyped_storage()
    kept[storage.data_ptr()] = storage.nbytes()
    return tensor


@pytest.mark.parametrize(
    ("positions", "protocol", "message"),
    [
        (
            "learnt",
            ["protocol.further_lengths=[2003,2048,4999]"],
            r"reads 2,048 symbols .*_range\); protocol\.further_lengths has 4,999\n"
            r"raise model\.mixer\.position_range to at least 4999 or take shorter lengths",
        ),
        (
            "randomised_rope",
            ["protocol.test_lengths=[500,600]", "protocol.further_lengths=[]"],
            r"reads 512 .*longest\); protocol\.test_lengths has 600\nraise model\.mixer\.longest",
        ),
        (
            "randomised_rope",
            ["task=group", "protocol=walks", "protocol.test.lengths=[40,700]"],
            r"protocol\.test\.lengths has 700",
        ),
    ],
)
def test_strings_longer_than_a_model_reads_are_refused_before_it_trains(
    positions: str, protocol: list[str], message: str, tmp_path: Path
) -> None:
    """It failed in the examination, after the training, and again at each new try."""
    task = [] if "task=group" in protocol else ["task=sum"]
    words = [*task, "model=transformer", f"output_dir={tmp_path}", *protocol]
    with pytest.raises(UserError, match=message):
        validate.validated(composed([*words, f"model.mixer.positions={positions}"]))
    validate.validated(composed(words))


def test_strings_as_long_as_a_model_reads_are_not_refused(tmp_path: Path) -> None:
    exactly = "model.mixer.positions=learnt", "model.mixer.position_range=4999"
    validate.validated(composed(["model=transformer", f"output_dir={tmp_path}", *exactly]))


def test_a_little_less_than_there_is_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    config = composed([])
    task = make_task(config.task)
    needed = 16 * validate.parameters(config, task) + procedure_for(config).batch_bytes()
    monkeypatch.setattr(validate, "memory_of", lambda device: needed)
    validate.check_fits(config, CPU)
    monkeypatch.setattr(validate, "memory_of", lambda device: needed - 1)
    with pytest.raises(UserError, match=r"at least .* MiB of memory; cpu has .* MiB") as raised:
        validate.check_fits(config, CPU)
    assert len(str(raised.value).splitlines()) <= 6
    for key in ("trials=1", "model.width=64", "protocol.batch_size=128", "train_length=40"):
        assert key in str(raised.value)


def test_a_container_may_have_less_than_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = validate.memory_of(CPU)
    assert 2**28 < machine < 2**50
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(validate, "LIMITS", (limit,))
    for text, memory in (("1048576\n", 2**20), ("max\n", None), (str(2**62), None)):
        limit.write_text(text)
        expected = validate.memory_of(CPU)
        assert expected == memory if memory else expected >= machine


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate"
                " memory: you tried to allocate 4000000000 bytes. Error code 12"
            ),
            "out of memory: needs 3.7 GiB more",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has ..."),
            "out of memory: needs 2.50 GiB more",
        ),
        (MemoryError(), "out of memory"),
        (RuntimeError("shapes differ"), None),
    ],
)
def test_failed_allocations_are_reported_in_gib(error: Exception, reported: str | None) -> None:
    assert validate.out_of_memory(error) == reported


def test_torch_says_what_is_looked_for() -> None:
    with pytest.raises(RuntimeError) as failed:
        torch.empty(2**46, dtype=torch.float64)
    assert validate.out_of_memory(failed.value) == "out of memory: needs 524,288 GiB more"


def test_a_protocol_that_knows_no_noise_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left in silence, it would be a setting that names a cell and does nothing."""
    config = composed(["model=rnn", "model.mixer.noise=0.1", "model.width=8"])
    validate.validated(config)
    monkeypatch.setattr(type(procedure_for(config)), "hardens", False)
    with pytest.raises(UserError, match="fan2024 does not train with the noise of its mixers"):
        validate.validated(config)


def test_sizes_are_counted_without_the_compiler_of_torch() -> None:
    """Its import takes longer than the rest of a small sweep's plan."""
    program = """
import sys
from lrbench.runs.train.validate import parameters
from lrbench.schema import config_from
from lrbench.tasks import make_task
for name in ("lstm", "blockdiag", "lrnn_diag", "deltanet", "transformer"):
    node = {"task": {"name": "sum"}, "protocol": {"name": "fan2024"}, "model": {"name": name}}
    config = config_from(node)
    assert parameters(config, make_task(config.task)) > 1000
    assert "torch._dynamo" not in sys.modules, name
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_weights_without_memory_are_drawn_by_a_generator_of_their_own() -> None:
    """As a plug-in may draw them: the shape is all that is asked for."""
    with torch.device("meta"), validate._Unfilled():
        drawn = torch.randn(2, 3, generator=torch.Generator("cpu"))
        filled = torch.nn.init.normal_(tensor=torch.empty(4))
    assert drawn.is_meta and drawn.shape == (2, 3) and filled.shape == (4,)


def test_labels_are_smoothed_where_there_are_classes() -> None:
    words = ["model=lstm", "task=mackey_glass", "optim.label_smoothing=0.1"]
    with pytest.raises(UserError, match="label_smoothing is for classes; task mackey_glass"):
        validate.validated(composed(words))


def test_a_schedule_by_dev_scores_has_no_warm_up() -> None:
    with pytest.raises(UserError, match=r"warmup 10 does not go with optim.schedule=plateau"):
        composed(["task=listops", "model=bbt_grc", "optim.warmup=10"])


@pytest.mark.parametrize("words", [["task=sum"], ["task=group", "protocol=walks"]])
def test_a_schedule_by_dev_scores_needs_a_corpus(words: list[str]) -> None:
    with pytest.raises(UserError, match="plateau goes by the dev score of a corpus"):
        validate.validated(composed(["model=lstm", *words, "optim.schedule=plateau"]))


def test_every_table_can_be_trained() -> None:
    """A cell of each task of each table; corpora and images are not at hand."""
    tried = 0
    for name in table_names():
        table = load_table(name)
        firsts = {cell.task: cell for cell in reversed(table.cells)}
        for task, cell in firsts.items():
            if task not in ("listops", "logic", "psmnist", *GIVEN):
                for settings in ([], table.search.settings if table.search else []):
                    validate.validated(composed([*cell.overrides, *settings, "device=cpu"]))
                    tried += 1
    assert tried >= 100
