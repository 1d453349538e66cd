"""Times of runs that nobody has trained here: by published ones, and how fast this machine is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.sweeps.plan import expected
from lrbench.sweeps.plan.expected import Cost, Estimate, published_costs, published_rate
from lrbench.sweeps.plan.plan import make_plan

LSTM = ["task=parity", "model=lstm", "protocol.batch_size=10", "protocol.train_length=20"]
COSTS = (
    Cost("sum", "lstm", "fan2024", 1, 64, 3e-6),
    Cost("sum", "lstm", "fan2024", 1, 64, 5e-6),
    Cost("parity", "lstm", "suite_v1", 2, 64, 9e-6),
    Cost("listops", "lstm", "rir2023", 1, 64, 1.0),
    Cost("parity", "gru", "fan2024", 1, 64, 7e-6),
)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "published_costs", lambda: COSTS)
    monkeypatch.setattr(expected, "machine_ratio", lambda: 2.0)


def settings(**own: object) -> dict[str, object]:
    usual = {"model.layers": 1, "model.width": 64, "protocol.name": "fan2024", "task.name": "sum"}
    return usual | {"model.name": "lstm"} | own


@pytest.mark.usefixtures("known")
def test_the_likest_published_runs_tell() -> None:
    """Sizes first, then the protocol and the task; a corpus tells nothing of lengths."""
    assert published_rate(settings()) == pytest.approx(4e-6)
    assert published_rate(settings(**{"model.layers": 2})) == pytest.approx(9e-6)
    assert published_rate(settings(**{"model.layers": 4})) == pytest.approx(1.6e-5)  # four of one
    assert published_rate(settings(**{"task.name": "parity"})) == pytest.approx(4e-6)
    assert published_rate(settings(**{"protocol.name": "rir2023", "task.name": "listops"})) == 1.0
    assert published_rate(settings(**{"protocol.name": "rir2023", "task.name": "logic"})) is None
    assert published_rate(settings(**{"model.name": "mamba"})) is None


@pytest.mark.usefixtures("known")
def test_a_plan_is_that_many_symbols_on_this_machine(tmp_path) -> None:
    plan = make_plan([(*LSTM, "protocol.max_steps=30", f"output_dir={tmp_path}")], composed)
    found = Estimate(plan).of(plan.runs[0])
    assert found is not None and found.published
    assert found.seconds == pytest.approx(4e-6 * 10 * 20 * 30 * 2.0)


def test_published_tables_tell_what_many_models_cost() -> None:
    costs = published_costs()
    models = {one.model for one in costs}
    assert {"lstm", "gru", "blockdiag", "mamba", "slstm", "deltanet", "bbt_grc"} <= models
    assert all(0 < one.seconds < 100 for one in costs)


@pytest.mark.parametrize("beside", [None, "{}", '{"schema": 1, "varying": []}'])
def test_a_table_that_was_published_by_half_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, beside: str | None
) -> None:
    """runs.csv is written before the settings beside it."""
    folder = tmp_path / "sum_table"
    folder.mkdir()
    (folder / "runs.csv").write_text("task,model\n")
    if beside is not None:
        (folder / "settings.json").write_text(beside)
    monkeypatch.setattr(expected, "published_dir", lambda: tmp_path)
    assert published_costs.__wrapped__() == ()


@pytest.fixture
def pace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file that remembers how fast this machine is; there is none yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "lrbench" / "pace.json"


@pytest.mark.usefixtures("pace")
def test_the_ratio_is_of_one_workload_here_and_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that ticks once a call: an update takes one second, there a hundredth of that."""
    cost = 1 / (128 * 40) / 100
    monkeypatch.setattr(
        expected, "published_costs", lambda: (Cost("sum", "lstm", "fan2024", 1, 64, cost),)
    )
    ticks = iter(range(1000))
    monkeypatch.setattr(expected.time, "perf_counter", lambda: float(next(ticks)))
    assert expected.machine_ratio.__wrapped__() == pytest.approx(100)


def test_what_was_measured_stands_for_an_hour(monkeypatch: pytest.MonkeyPatch, pace: Path) -> None:
    """Later, from another version, or damaged, it is measured again."""
    updates: list[int] = []

    class Recorder:
        def update(self) -> None:
            updates.append(1)

    monkeypatch.setattr(expected, "make_trial", lambda config, seed: Recorder())
    monkeypatch.setattr(expected, "published_costs", lambda: COSTS)
    monkeypatch.setattr(expected, "CALIBRATION", 1e-9)
    ratio = expected.machine_ratio.__wrapped__

    def measured_again() -> bool:
        before = len(updates)
        ratio()
        return len(updates) > before

    assert measured_again() and not measured_again()
    known = json.loads(pace.read_text())
    symbols = 128 * 40
    pace.write_text(json.dumps(known | {"seconds": 8e-6 * symbols}))
    assert ratio() == pytest.approx(2)  # the two published ones took 4e-6 a symbol
    for change in ({"at": known["at"] - 3601}, {"at": known["at"] + 60}, {"versions": []}):
        pace.write_text(json.dumps(known | change))
        assert measured_again(), change
    for text in ("", "{}", "[]", '{"at": "now"}'):
        pace.write_text(text)
        assert measured_again(), text
    pace.unlink()
    pace.parent.rmdir()
    pace.parent.write_text("no folder can be made here")
    assert measured_again() and measured_again()


@pytest.mark.usefixtures("pace")
def test_the_workload_has_one_thread_as_a_run_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """With several, a busy machine looked fifteen times as slow as it is for a run."""
    threads: list[int] = []

    class Recorder:
        def update(self) -> None:
            threads.append(torch.get_num_threads())

    monkeypatch.setattr(expected, "make_trial", lambda config, seed: Recorder())
    monkeypatch.setattr(expected, "published_costs", lambda: COSTS)
    monkeypatch.setattr(expected, "CALIBRATION", 1e-9)
    torch.set_num_threads(2)
    try:
        expected.machine_ratio.__wrapped__()
        assert set(threads) == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
