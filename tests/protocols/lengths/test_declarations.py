"""When a number of ours may be held against a paper's, and what is said where it may not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lrbench.protocols.base import declared
from lrbench.registry import PROTOCOLS
from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.runs.record import flat
from lrbench.runs.folder.cell import Cell

FAMILIES = ("deletang2022", "grazzi2025", "walker2025", "siems2025", "merrill2024")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_short_form_has_less_of_the_same(name: str) -> None:
    full, short = PROTOCOLS.get(name).config(), PROTOCOLS.get(f"{name}_short").config()
    assert short.max_steps * 9 < full.max_steps
    for key in ("train_lengths", "mix", "batch_size", "ask", "score", "runs", "stop"):
        assert getattr(short, key) == getattr(full, key), key
    assert declared(name).rules == declared(f"{name}_short").rules


@pytest.mark.parametrize("name", FAMILIES)
def test_only_the_papers_own_settings_are_comparable(name: str) -> None:
    protocol = declared(name)
    runs, usual = protocol.paper_runs, PROTOCOLS.get(name).config()
    own: dict[str, Any] = {
        "train_lengths": str(usual.train_lengths),  # as a report reads them
        "max_steps": usual.max_steps,
        "test.lengths": str(usual.test.lengths),
    }
    assert protocol.unlike_paper(own, runs) == ""
    assert "max_steps is 7" in str(protocol.unlike_paper({**own, "max_steps": 7}, runs))
    assert "test.stride is 3" in str(protocol.unlike_paper({**own, "test.stride": 3}, runs))
    assert "carry is on" in str(protocol.unlike_paper({**own, "carry": 0.5}, runs))
    assert "stop is perfect" in str(protocol.unlike_paper({**own, "stop": "perfect"}, runs))
    ends = protocol.unlike_paper({**own, "stop_at": 0.5}, runs)
    stops = usual.stop == "threshold"
    assert ends == (f"protocol.stop_at is 0.5, the paper's is {usual.stop_at}" if stops else "")
    assert "train_strings is 5" in str(protocol.unlike_paper({**own, "train_strings": 5}, runs))
    more, fewer = ({**own, "look_every": usual.look_every + by} for by in (-1, 1))
    chosen = "best" in protocol.rules  # of many looks a best one is better by luck
    assert ("looks every" in str(protocol.unlike_paper(more, runs))) == chosen
    assert protocol.unlike_paper(fewer, runs) == ""
    assert "smaller budget" in str(declared(f"{name}_short").unlike_paper(own, runs))
    if runs > 1:
        assert f"best of 2 runs, the paper's of {runs}" in str(protocol.unlike_paper(own, 2))


def test_a_task_with_a_budget_of_its_own_has_that_of_its_preset() -> None:
    """Parity has a fifth of the others' updates, in the paper and in the preset."""
    from lrbench.cli.hydra.compose import composed

    protocol = declared("grazzi2025")
    for task in ("xlstm_parity", "nnch_parity_check", "xlstm_modular_arithmetic"):
        steps = composed([f"task={task}", "model=lstm", "protocol=grazzi2025"]).protocol.max_steps
        assert protocol.unlike_paper({"max_steps": steps, "task": task}, 3) == "", task
        chance = composed([f"task={task}", "model=lstm", "protocol=grazzi2025"]).protocol.chance  # type: ignore[attr-defined]
        settings = {"max_steps": steps, "task": task, "chance": chance}
        assert protocol.unlike_paper(settings, 3) == ""
        told = protocol.unlike_paper({**settings, "chance": 0.0}, 3)
        assert told == f"protocol.chance is 0.0, the paper's is {chance}"
    assert "the paper's is 100000" in str(protocol.unlike_paper({"max_steps": 20_000}, 3))
    told = protocol.unlike_paper({"max_steps": 100_000, "task": "xlstm_parity"}, 3)
    assert told == "protocol.max_steps is 100000, the paper's is 20000"


@pytest.mark.parametrize("table", ["grazzi2025_table3", "siems2025_figure1"])
def test_every_cell_of_a_papers_table_may_be_held_against_it(table: str) -> None:
    """With the presets that a sweep of the table trains by."""
    from lrbench.cli.hydra.sweeping import SweepRequest

    request = SweepRequest.read([], table, None)
    for cell in request.cells:
        settings = flat(Cell.of(request.compose(cell)).settings)
        own = {key.removeprefix("protocol."): value for key, value in settings.items()}
        names = {part: str(settings[f"{part}.name"]) for part in ("protocol", "task", "model")}
        protocol = declared(names["protocol"])
        assert protocol.unlike_paper(own | names, protocol.paper_runs) == "", cell


def test_a_model_with_batches_of_its_own_is_held_against_the_paper() -> None:
    """DeltaNet has 1,024 strings an update on modular arithmetic, as in its preset."""
    from lrbench.cli.hydra.compose import composed

    words = ["task=xlstm_modular_arithmetic", "model=deltanet", "protocol=grazzi2025"]
    own: dict[str, Any] = {"task": "xlstm_modular_arithmetic", "model": "deltanet"}
    own["batch_size"] = composed(words).protocol.batch_size
    protocol = declared("grazzi2025")
    assert protocol.unlike_paper(own, 3) == ""
    told = protocol.unlike_paper({**own, "batch_size": 256}, 3)
    assert told == "protocol.batch_size is 256, the paper's is 1024"
    told = protocol.unlike_paper({**own, "model": "mamba"}, 3)
    assert told == "protocol.batch_size is 1024, the paper's is 256"
    cell: Any = SimpleNamespace(**own, protocol="grazzi2025", count=lambda _: 3)
    cell.settings = {"protocol.batch_size": 1024}
    assert FilledCell.unlike_paper(cell) == ""


@pytest.mark.parametrize("protocol", ["grazzi2025", "grazzi2025_short"])
def test_models_with_configurations_of_their_own(protocol: str) -> None:
    """DeltaNet and Mamba on parity, DeltaNet on modular arithmetic; the others have one."""
    from lrbench.cli.hydra.compose import composed

    def of(task: str, model: str) -> tuple[float, int, int]:
        made: Any = composed([f"task=xlstm_{task}", f"model={model}", f"protocol={protocol}"])
        return made.optim.weight_decay, made.model.layers, made.protocol.batch_size

    assert of("parity", "lstm") == of("modular_arithmetic", "mamba") == (0.1, 1, 256)
    assert of("parity", "mamba") == of("parity", "deltanet") == (0.0, 1, 256)
    assert of("modular_arithmetic", "deltanet") == (0.1, 3, 1024)


def test_other_protocols_say_nothing_of_it() -> None:
    assert declared("fan2024").unlike_paper({}, 5) is None
