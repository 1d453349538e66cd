"""`lrbench tune`: what it refuses, and the preset it writes for results made by hand."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.cli.hydra.compose import composed, run_hydra
from lrbench.cli.hydra.grid import protocol_of
from lrbench.config import Config
from lrbench.runs.folder.cell import Cell

Run = Callable[..., Any]
LR = "optim.lr=1e-4,1e-3"
SHORT = "protocol.max_steps=200"


def finish(arguments: list[str], accuracy: float, status: str = "finished") -> None:
    """Put a result into the folder of the run that these words are for."""
    untested = protocol_of(arguments).untested
    config = composed([*arguments, "protocol.stop=never", *untested])
    cell = Cell.of(config)
    folder = cell.folder / f"s{config.seed}"
    folder.mkdir(parents=True)
    look = {"length": 40, "split": "train_length", "kind": "look", "which": "id", "n": 1024}
    test = {"length": 500, "split": "test", "kind": "test", "which": "id", "n": 10_000}
    result = {
        "schema": 1,
        "task": config.task.name,
        "model": config.model.name,
        "protocol": config.protocol.name,
        "seed": config.seed,
        "fingerprint": cell.fingerprint,
        "config": cell.settings,
        "status": status,
        "steps": config.protocol.max_steps,
        "checkpoints": {"id": 100},
        "evaluations": [
            {**look, "metric": "accuracy", "value": accuracy},
            {**look, "metric": "loss", "value": 1.5},
            {**test, "metric": "accuracy", "value": 0.8642},
        ],
    }
    (folder / "result.json").write_text(json.dumps(result))


def used(*arguments: str) -> Config:
    """Return what `lrbench train` is given for these words, flags included."""
    given: list[Config] = []
    run_hydra(arguments, given.append)
    return given[0]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "tune needs settings to choose from"),
        (["--grid", "optim.lr"], 2, "'optim.lr' has no values"),
        (["--grid", "optim.lr="], 2, "'optim.lr=' has no values"),
        (["--grid", "=1,2"], 2, "'=1,2' has no values"),
        (["--grid", "optim.lr=,"], 1, "cannot read the override"),
        (["--grid", "optim.lr=1,fast"], 1, "optim.lr must be a number, not 'fast'"),
        (["--grid", "optim.lr=1,-1"], 1, "optim.lr must be a positive number"),
        (["--grid", "optim.lrr=1,2"], 1, "Did you mean 'optim.lr'?"),
        (["--grid", "lr=1,2"], 1, "there is no"),
        (["--grid", "task=sum,parity"], 1, "write task=V1,V2 without --grid"),
        (["--grid", "model=blockdiag,lru"], 1, "write model=V1,V2 without --grid"),
        (["--grid", "seed=0,1"], 1, "write seed=V1,V2 without --grid"),
        (["--grid", "data_seed=0,1"], 1, "write data_seed=VALUE without --grid"),
        (["--grid", "output_dir=a,b"], 1, "it changes nothing that a model learns"),
        (["--grid", "device=cpu,cuda"], 1, "it may vary model.*, optim.*"),
        (["--grid", "trials=1,2"], 1, "write seed=0,1,2 or trials=3"),
        (["--grid", "protocol.test_lengths=[500],[50]"], 1, "nothing is chosen by the test length"),
        (["--grid", "protocol.train_length=40,20"], 1, "would not compare"),
        (["--grid", "task.modulus=2,3"], 1, "would not compare"),
        (["--grid", "++protocol.train_length=40,20"], 1, "would not compare"),
        (["--grid", "++seed=0,1"], 1, "write seed=V1,V2 without --grid"),
        (["--grid", LR, "--grid", "++optim.lr=1"], 1, "names optim.lr twice"),
        (["--grid", LR, "--grid", "optim.lr=1"], 1, "names optim.lr twice"),
        (["--grid", LR, "optim.lr=1"], 1, "is in the grid and is typed as well"),
        (["--grid", LR, "optim.clip=1,2"], 1, "write --grid optim.clip=1,2"),
        (["--grid", LR, "trials=2,3"], 1, "write one, trials=3; only task, model"),
        (["--grid", LR, "task.modulus=2,3"], 1, "write one, task.modulus=VALUE; only task"),
        (["--grid", LR, "protocol.stop=perfect"], 1, "by their looks at the test length"),
        (["--grid", LR, "--output", "no/where.yaml"], 1, "there is no folder 'no'"),
        (["--grid", LR, "--output", "."], 1, "it is a folder"),
        (["--grid", LR, "--table", "x"], 2, "tune does not take --table"),
        (["--grid", LR, "model=blockdiag,blockdiag_release"], 1, "would get different budgets"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_tuned_is_reported(
    lrbench: Run, arguments: list[str], code: int, said: str
) -> None:
    ended = lrbench("tune", *arguments)
    assert ended.code == code, ended.err
    assert said in ended.err
    assert ended.err.startswith("lrbench: ")
    assert len(ended.err.splitlines()) <= 6
    assert list(Path().iterdir()) == []


def test_one_file_cannot_hold_two_presets(lrbench: Run) -> None:
    ended = lrbench("tune", "task=sum,parity", SHORT, "--grid", LR, "--output", "a.yaml")
    assert ended.code == 2
    assert "2 presets are to be written: fan2024_sum_blockdiag, fan2024_parity" in ended.err


def test_a_dry_run_tells_the_equal_budget_and_does_nothing(lrbench: Run) -> None:
    models = "model=blockdiag,blockdiag_release"
    ended = lrbench("tune", models, "seed=0,1", SHORT, "--grid", LR, "--dry-run")
    assert ended.code == 0, ended.err
    assert ended.out.count("2 settings x 2 seeds x 200 updates = 4 runs, 800 updates") == 2
    assert "8 to do" in ended.out
    assert list(Path().iterdir()) == []


@pytest.fixture
def searched(lrbench: Run) -> list[str]:
    """The words of a search whose runs are all there: one wins, one diverges."""
    common = ["task=sum", SHORT, "model.mixer.hidden=32"]
    for rate, accuracy, status in ((1e-4, 0.3, "finished"), (1e-3, 0.9, "finished")):
        finish([*common, f"optim.lr={rate}"], accuracy, status)
    finish([*common, "optim.lr=0.5"], 1.0, "diverged")
    return [*common, "--grid", "optim.lr=1e-4,1e-3,0.5"]


PRESET = Path("outputs/tuned/preset/model/fan2024_sum_blockdiag.yaml")


def test_everything_tried_is_shown_but_no_number_of_the_test_length(
    lrbench: Run, searched: list[str]
) -> None:
    ended = lrbench("tune", *searched)
    assert ended.code == 0, ended.err
    rows = {line.split()[0]: line for line in ended.out.splitlines() if line.strip()}
    assert "0.3000" in rows["0.0001"] and "chosen" not in rows["0.0001"]
    assert "0.9000" in rows["0.001"] and rows["0.001"].rstrip().endswith("chosen")
    assert "0.0000" in rows["0.5"] and "diverged" in rows["0.5"]
    assert "budget: 3 settings x 1 seed x 200 updates = 3 runs" in ended.out
    assert "Nothing was chosen by the test length" in ended.out
    assert "0.86" not in ended.out + ended.err
    assert "0.86" not in PRESET.read_text()


def test_a_grid_typed_with_plus_signs_is_the_same_grid(lrbench: Run, searched: list[str]) -> None:
    """It trained every run and then ended with KeyError: '++optim'."""
    ended = lrbench("tune", *searched[:-1], f"++{searched[-1]}")
    assert ended.code == 0, ended.err
    assert "# * optim.lr=0.001: 0.9000, 1.5, 1, finished" in PRESET.read_text()


def test_train_uses_the_built_in_preset_with_what_was_chosen_on_top(
    lrbench: Run, searched: list[str]
) -> None:
    lrbench("tune", *searched)
    text = PRESET.read_text()
    assert text.startswith("# @package _global_\n")
    assert "#   optim.lr=0.0001: 0.3000, 1.5, 1, finished" in text
    assert "# * optim.lr=0.001: 0.9000, 1.5, 1, finished" in text
    assert "#   optim.lr=0.5: 0.0000, -, 0 of 1, diverged" in text
    with_it = used("task=sum", "model=blockdiag", "--config-dir", "outputs/tuned")
    without = composed(["task=sum", "model=blockdiag"])
    assert with_it.tuning_runs == 3
    assert (with_it.optim.lr, without.optim.lr) == (0.001, 0.0003)
    typed = ["task=sum", "model=blockdiag", "optim.lr=0.001", "model.mixer.hidden=32"]
    by_hand = composed(typed)
    assert by_hand.protocol.max_steps == without.protocol.max_steps != 200
    assert Cell.of(with_it).fingerprint == Cell.of(by_hand).fingerprint
    other = used("task=parity", "model=blockdiag", "--config-dir", "outputs/tuned")
    assert other.optim == composed(["task=parity", "model=blockdiag"]).optim
    assert other.tuning_runs is None


@pytest.mark.parametrize(("named", "before"), [("", ""), ("json", "LRBENCH_PLUGINS=json ")])
def test_the_command_that_is_printed_uses_the_preset_of_another_protocol(
    lrbench: Run, monkeypatch: pytest.MonkeyPatch, named: str, before: str
) -> None:
    monkeypatch.setenv("LRBENCH_PLUGINS", named)
    common = ["task=sum", "model=rnn", "protocol=suite_v1", SHORT]
    for rate in ("1e-4", "2e-3"):
        finish([*common, f"optim.lr={rate}"], 0.9)
    ended = lrbench("tune", *common, "--grid", "optim.lr=1e-4,2e-3")
    assert ended.code == 0, ended.err
    printed = " ".join(ended.err.split()).split("use it: ")[1]
    assert printed.startswith(f"{before}lrbench train ")
    config = used(*shlex.split(printed.removeprefix(before))[2:])
    assert (config.protocol.name, config.tuning_runs) == ("suite_v1", 2)
    assert config.optim.lr in (1e-4, 2e-3)
    [preset] = Path("outputs/tuned/preset/model").iterdir()
    assert "training lengths (3 to 40); the test lengths had no say" in preset.read_text()


def test_a_search_without_a_winner_is_a_failure(lrbench: Run) -> None:
    """It ended with 0, and a script went on with a preset that was not there."""
    for rate in ("1e-4", "0.5"):
        finish(["task=sum", SHORT, f"optim.lr={rate}"], 1.0, "diverged")
    ended = lrbench("tune", "task=sum", SHORT, "--grid", "optim.lr=1e-4,0.5")
    assert ended.code == 1
    assert "no winner: no run ended well, so no preset is written" in ended.out
    assert not PRESET.exists()


def test_the_command_that_is_printed_has_the_tasks_settings(lrbench: Run) -> None:
    """It trained A5, the default, with a rate that was tuned for S3."""
    common = ["task=group", "task.group=S3", "model=rnn", SHORT]
    finish([*common, "optim.lr=1e-4"], 0.9)
    ended = lrbench("tune", *common, "--grid", "optim.lr=1e-4")
    assert ended.code == 0, ended.err
    printed = " ".join(ended.err.split()).split("use it: lrbench train ")[1]
    config: Any = used(*shlex.split(printed))
    assert (config.task.group, config.optim.lr) == ("S3", 1e-4)


@pytest.mark.parametrize(
    ("typed", "grid", "won", "name"),
    [
        (["model.backbone.name=gpt"], ["optim.lr=1e-4,2e-3"], "optim.lr=1e-4", "lstm+gpt"),
        ([], ["model.backbone.name=bare,gpt"], "model.backbone.name=gpt", "lstm+gpt"),
        ([], ["model.backbone.name=bare,gpt"], "model.backbone.name=bare", "lstm"),
    ],
)
def test_a_preset_belongs_to_a_model_in_the_stack_that_won(
    lrbench: Run, typed: list[str], grid: list[str], won: str, name: str
) -> None:
    """One of another stack was written for the usual one, which has not its settings."""
    common = ["task=sum", "model=lstm", "model.width=16", SHORT, *typed]
    key, _, values = grid[0].partition("=")
    for value in values.split(","):
        point = f"{key}={value}"
        finish([*common, point], 0.9, "finished" if point == won else "diverged")
    ended = lrbench("tune", *common, "--grid", *grid)
    assert ended.code == 0, ended.err
    assert [path.stem for path in PRESET.parent.iterdir()] == [f"fan2024_sum_{name}"]
    printed = " ".join(ended.err.split()).split("use it: lrbench train ")[1]
    config: Any = used(*shlex.split(printed))
    assert (config.model.width, config.tuning_runs) == (16, 2)
    stack = "gpt" if "gpt" in name else "bare"
    untuned = composed(["task=sum", "model=lstm", f"model.backbone.name={stack}"])
    assert config.model.backbone == untuned.model.backbone  # type: ignore[attr-defined]
    assert config.optim.lr == (1e-4 if typed else untuned.optim.lr)


def test_a_preset_that_says_something_else_stays_until_it_is_forced(
    lrbench: Run, searched: list[str]
) -> None:
    PRESET.parent.mkdir(parents=True)
    PRESET.write_text("# mine\n")
    ended = lrbench("tune", *searched)
    assert ended.code == 1
    assert "fan2024_sum_blockdiag.yaml is there and says something else" in ended.err
    assert "--force" in ended.err and "--output FILE" in ended.err
    assert "chosen" in ended.out
    assert PRESET.read_text() == "# mine\n"
    assert lrbench("tune", *searched, "--output", "elsewhere.yaml").code == 0
    assert lrbench("tune", *searched, "--force").code == 0
    assert PRESET.read_text() == Path("elsewhere.yaml").read_text() != "# mine\n"
    ended = lrbench("tune", *searched)
    assert (ended.code, "unchanged" in ended.err) == (0, True)


def test_a_preset_chosen_while_runs_had_failed_is_replaced(
    lrbench: Run, searched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk let runs fail, and what was left was chosen from: no choice to be kept."""
    (best,) = (
        path
        for path in Path("outputs").rglob("result.json")
        if json.loads(path.read_text())["config"]["optim"]["lr"] == 0.001
    )
    kept = best.read_bytes()
    best.unlink()
    with monkeypatch.context() as patched:
        patched.setattr("lrbench.cli.hydra.tuning.run_plan", lambda *arguments: 1)
        assert lrbench("tune", *searched).code == 1
    assert "# Provisional: 1 of 3 runs failed; the same command" in PRESET.read_text()
    assert "# * optim.lr=0.0001:" in PRESET.read_text()
    best.write_bytes(kept)
    assert lrbench("tune", *searched).code == 0
    assert "# * optim.lr=0.001:" in PRESET.read_text()
    assert "Provisional" not in PRESET.read_text()


def test_a_preset_of_the_users_own_is_what_the_choice_is_put_upon(lrbench: Run) -> None:
    own = Path("mine/preset/model/fan2024_sum_blockdiag.yaml")
    own.parent.mkdir(parents=True)
    own.write_text("# @package _global_\noptim: {clip: 0.25, betas: [0.5, 0.75]}\n")
    finish(
        [
            "task=sum",
            SHORT,
            "optim.lr=0.01",
            "optim.clip=0.25",
            "optim.betas=[0.5,0.75]",
            "optim.warmup=0",
            "optim.schedule=constant",
            "optim.label_smoothing=0",
            "protocol.look_every=1000",
        ],
        0.7,
    )
    folder = ["--config-dir", "mine"]
    ended = lrbench("tune", "task=sum", SHORT, "--grid", "optim.lr=0.01", *folder)
    assert ended.code == 0, ended.err
    config = used("task=sum", "model=blockdiag", "--config-dir", "outputs/tuned")
    assert (config.optim.lr, config.optim.clip, config.optim.betas) == (0.01, 0.25, [0.5, 0.75])
    assert config.optim.warmup == 0
