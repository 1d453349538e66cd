"""From words to a Config: who wins over whom, presets, flags, and one name for each cell."""

from __future__ import annotations

import csv
import dataclasses
import logging
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from lrbench.cli.hydra.compose import composed, run_hydra
from lrbench.config import Config, OptimConfig
from lrbench.errors import UserError
from lrbench.locations import conf_dir
from lrbench.protocols.fan2024.declaration import Fan2024Config
from lrbench.registry import ENCODERS, MIXERS, PROTOCOLS, TASKS
from lrbench.runs.folder.cell import Cell
from lrbench.runs.train.validate import validated
from lrbench.schema import config_from
from lrbench.tables import load_table
from lrbench.tasks.corpus.task import CorpusTask
from tests import made_up_corpora, made_up_mnist
from tests.named_layers import words

Run = Callable[..., Any]

PRESETS = sorted((conf_dir() / "preset").glob("*/*.yaml"))


def parts(preset: Path) -> tuple[str, str, str]:
    """Return the protocol, the task and the model that a preset is named for, or some that do."""
    protocol = max((name for name in PROTOCOLS if preset.stem.startswith(name)), key=len)
    rest = preset.stem.removeprefix(protocol).removeprefix("_")
    anything = "group" if protocol.startswith(("siems", "merrill", "suite")) else "nnch_even_pairs"
    task = max((name for name in TASKS if rest.startswith(name)), key=len) if rest else anything
    usual = "bbt_grc" if issubclass(TASKS.get(task).cls, CorpusTask) else "blockdiag"
    return protocol, task, rest.removeprefix(task).removeprefix("_") or usual


def leaves(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every setting that is no group, with its value."""
    for key, value in node.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def hydra_gives(*arguments: str) -> Config:
    """Return what `lrbench train` is given for these words, flags included."""
    given: list[Config] = []
    run_hydra(arguments, given.append)
    [config] = given
    return config


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images and corpora: without its data a configuration passes no check."""
    folder = made_up_mnist.write(tmp_path_factory.mktemp("images"))
    made_up_corpora.write(folder)
    return folder


@pytest.fixture(autouse=True)
def images(made_up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let psmnist and corpora find files."""
    monkeypatch.setenv("LRBENCH_DATA", str(made_up))


@pytest.mark.parametrize("preset", PRESETS[::6], ids=lambda path: path.stem)
def test_a_preset_is_used_and_passes_the_checks(preset: Path) -> None:
    protocol, task, model = parts(preset)
    chosen = [f"protocol={protocol}", f"task={task}", f"model={model}"]
    config = composed(chosen)
    validated(config)
    given = dict(leaves(OmegaConf.to_container(OmegaConf.structured(config))))
    for key, value in leaves(OmegaConf.to_container(OmegaConf.load(preset))):
        assert given[key] == value, key


def test_every_preset_names_its_parts_and_has_settings_of_theirs() -> None:
    """A composition takes a quarter of a second, and there are hundreds of presets."""
    for preset in PRESETS:
        protocol, task, model = parts(preset)
        assert task in TASKS and (model in MIXERS or model in ENCODERS), preset.stem
        chosen = {"protocol": {"name": protocol}, "task": {"name": task}, "model": {"name": model}}
        told: Any = OmegaConf.to_container(OmegaConf.load(preset))
        content = {**told, **{part: {**told.get(part, {}), **chosen[part]} for part in chosen}}
        given = dict(leaves(dataclasses.asdict(config_from(content))))
        for key, value in leaves(told):
            assert given[key] == value, (preset.stem, key)


@pytest.mark.parametrize("preset", PRESETS[::20], ids=lambda path: path.stem)
def test_what_is_typed_wins_over_a_preset(preset: Path) -> None:
    protocol, task, model = parts(preset)
    chosen = [f"protocol={protocol}", f"task={task}", f"model={model}"]
    typed = composed([*chosen, "optim.lr=0.0123", "model.width=40"])
    assert (typed.optim.lr, typed.model.width) == (0.0123, 40)


# A pair can fail by its preset (above), by a task's strings (symbols, numbers, odd lengths, slots)
# or by what a model takes; so every task with three models, every model with five tasks.
SAMPLED = sorted(set(TASKS) - {"listops", "logic", "lra_text", "lra_retrieval"})
KINDS = ("sum", "mod_arith", "mackey_glass", "psmnist", "nnch_reverse_string")
FAMILIES = ("blockdiag", "lstm", "transformer")


@pytest.mark.parametrize("task", SAMPLED)
def test_a_task_goes_with_models(task: str) -> None:
    config = composed([f"task={task}", "model=blockdiag"])
    assert (config.task.name, config.model.name) == (task, "blockdiag")
    for model in FAMILIES:
        validated(replace(config, model=_of_model(model).model))


@pytest.mark.parametrize("model", sorted(MIXERS))
def test_a_model_goes_with_tasks(model: str) -> None:
    config = _of_model(model)
    assert config.model.name == model
    for task in KINDS:
        validated(replace(_of_task(task), model=config.model))
    tuned = (conf_dir() / "preset" / "model" / f"fan2024_mod_arith_{model}.yaml").is_file()
    as_deep = {*load_table("fan2024_table2").rows, "rnn", "gru"}  # as the paper's own model
    assert config.model.layers == (3 if tuned and model in as_deep else 1)


@cache
def _of_model(model: str) -> Config:
    return composed(["task=mod_arith", *words(model)])


@cache
def _of_task(task: str) -> Config:
    return composed([f"task={task}", "model=blockdiag"])


@pytest.mark.parametrize(("model", "layers"), [("lmu", 4), ("lstm", 4), ("gru", 1)])
def test_mackey_glass_is_as_deep_as_its_paper_has_it(model: str, layers: int) -> None:
    assert composed(["task=mackey_glass", f"model={model}"]).model.layers == layers


def test_a_model_without_a_preset_gets_plain_defaults() -> None:
    assert ("fan2024", "parity", "blockdiag_release") not in map(parts, PRESETS)
    config = composed(["task=parity", "model=blockdiag_release"])
    assert config.optim == OptimConfig()
    assert config.protocol == Fan2024Config()
    assert config.model.layers == 1


RELEASED = {
    "learning rate": "optim.lr",
    "weight decay": "optim.weight_decay",
    "layers": "model.layers",
    "emb_dim": "model.width",
    "block_dim b": "model.mixer.block_size",
    "p": "model.mixer.p",
    "batch size": "protocol.batch_size",
    "max updates": "protocol.max_steps",
    "evaluation interval": "protocol.look_every",
    "evaluation sequences": "protocol.look_size",
    "train length": "protocol.train_length",
}


@pytest.mark.parametrize(
    ("theirs", "task"),
    [("Sum(5)", "sum"), ("EvenPair(5)", "even_pair"), ("ModArith(5)", "mod_arith")],
)
def test_the_released_model_has_the_released_settings(root: Path, theirs: str, task: str) -> None:
    config = composed([f"task={task}", "model=blockdiag_release"])
    node = OmegaConf.structured(config)
    with open(root / "data" / "reference" / "lrnn_settings.csv", newline="") as rows:
        stated = [
            (RELEASED[row["metric"]], float(row["value"]))
            for row in csv.DictReader(rows)
            if row["table"].startswith("released code")
            and row["task"] == theirs
            and row["metric"] in RELEASED
        ]
    assert {key for key, _ in stated} == set(RELEASED.values())
    for key, value in stated:
        assert OmegaConf.select(node, key) == value, key
    assert config.optim.name == "adam" and config.optim.betas == [0.9, 0.999]
    assert (config.optim.clip, config.optim.schedule, config.optim.warmup) == (None, "constant", 0)


def own(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_defaults_then_presets_then_what_was_typed(tmp_path: Path) -> None:
    own(tmp_path, "preset/model/fan2024_sum_blockdiag.yaml", GLOBAL + "optim: {lr: 0.5, clip: 2}\n")
    folder = ["--config-dir", str(tmp_path)]
    config = hydra_gives(*folder)
    assert (config.optim.lr, config.optim.clip, config.model.layers) == (0.5, 2, 1)
    assert hydra_gives("optim.lr=0.25", *folder).optim.lr == 0.25
    assert hydra_gives("task=parity", "model=blockdiag_release", *folder).optim == OptimConfig()


GLOBAL = "# @package _global_\n"


def test_a_group_that_was_typed_wins_over_a_preset(tmp_path: Path) -> None:
    preset = "preset/model/fan2024_sum_blockdiag.yaml"
    own(tmp_path, preset, GLOBAL + "optim: {name: adamw, lr: 0.5, clip: 2}\n")
    own(tmp_path, "optim/mine.yaml", "name: adamw\nlr: 0.125\nbetas: [0.5, 0.75]\nwarmup: 1\n")
    folder = ["--config-dir", str(tmp_path)]
    assert hydra_gives(*folder).optim.name == "adamw"
    assert hydra_gives("optim=adam", *folder).optim.name == "adam"
    mine = hydra_gives("optim=mine", "optim.warmup=3", *folder).optim
    assert (mine.name, mine.lr, mine.betas, mine.warmup) == ("adamw", 0.125, [0.5, 0.75], 3)
    assert mine.clip == 2  # of which the file says nothing


def test_of_a_rate_that_was_typed_no_search_is_told(tmp_path: Path) -> None:
    preset = "preset/model/fan2024_sum_blockdiag.yaml"
    own(tmp_path, preset, GLOBAL + "optim: {lr: 0.5}\ntuning_runs: 4\n")
    own(tmp_path, "optim/mine.yaml", "name: adamw\nlr: 0.125\n")
    folder = ["--config-dir", str(tmp_path)]
    for typed in ([], ["optim.lr=5e-1"], ["model.width=8"], ["optim.lr=1", "tuning_runs=4"]):
        assert hydra_gives(*typed, *folder).tuning_runs == 4
    for typed in (["optim.lr=1"], ["optim=mine"], ["task=sum", "++optim.lr=0.25"]):
        assert hydra_gives(*typed, *folder).tuning_runs is None
    assert composed(["model=lstm"]).tuning_runs == 4
    assert composed(["model=lstm", "optim.lr=0.01"]).tuning_runs is None


def test_a_group_of_the_users_own(tmp_path: Path) -> None:
    own(tmp_path, "experiment/long.yaml", GLOBAL + "seed: 7\nprotocol: {max_steps: 70}\n")
    config = hydra_gives("+experiment=long", "--config-dir", str(tmp_path), "seed=8")
    assert (config.seed, config.protocol.max_steps) == (8, 70)
    with pytest.raises(UserError, match=r"experiment 'lon' unknown. Did you mean 'long'\?"):
        hydra_gives("+experiment=lon", "--config-dir", str(tmp_path))


def test_hydra_writes_nothing_whatever_a_file_says(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    settings = "hydra: {run: {dir: made}, output_subdir: made, job: {chdir: true}}\n"
    own(folder, "preset/model/fan2024_sum_blockdiag.yaml", GLOBAL + settings)
    here = os.getcwd()
    hydra_gives("--config-dir", str(folder))
    assert os.getcwd() == here
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "argument",
    [
        "protocol.look_every=99999",  # the last update is a look
        "protocol.further_lengths=[]",
        "protocol.band=[100000,200000]",
        "data_seed=null",
        "optim.clip=null",
        "model.mixer.blocks=3",
        "force=true",
        "model={layers: 2}",
        "task='sum'",
        "output_dir='größe/my runs (2)'",
        "output_dir=${oc.env:HOME}/runs",
        "++seed=3",
        "optim.lr=1_0e-4",
    ],
)
def test_what_looks_odd_and_is_right(argument: str) -> None:
    validated(composed([argument]))


def test_of_words_for_one_key_the_last_counts(lrbench: Run) -> None:
    ended = lrbench("train", "task=sum", "seed=1", "task=parity", "seed=1", "--cfg", "job")
    assert OmegaConf.create(ended.out).task.name == "parity"
    assert ended.err == "task is given 2 times; the last, parity, counts\n"
    ended = lrbench("train", "seed=1", "optim.lr=1", "+seed=2", "++seed=3", "--cfg", "job")
    assert "there already" in ended.err
    ended = lrbench("train", "seed=1", "optim.lr=1", "++seed=3", "--cfg", "job")
    assert OmegaConf.create(ended.out).seed == 3
    assert ended.err == ""  # scripts rely on it


def test_running_leaves_this_process_as_it_was() -> None:
    before = list(sys.argv), os.environ.get("HYDRA_FULL_ERROR")
    hydra_gives("seed=1")
    with pytest.raises(UserError):
        hydra_gives("seed=x")
    assert (sys.argv, os.environ.get("HYDRA_FULL_ERROR")) == before


def test_an_error_in_the_job_is_not_hydras() -> None:
    def job(config: Config) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        run_hydra([], job)


@pytest.mark.parametrize("arguments", [["--cfg", "job"], ["-c", "job", "--resolve"]])
def test_cfg_prints_the_configuration(lrbench: Run, tmp_path: Path, arguments: list[str]) -> None:
    ended = lrbench("train", "seed=3", *arguments, "task.modulus=7", "output_dir=there")
    assert (ended.code, ended.err) == (0, "")
    assert OmegaConf.create(ended.out) == OmegaConf.create(
        OmegaConf.to_container(
            OmegaConf.structured(composed(["seed=3", "task.modulus=7", "output_dir=there"]))
        )
    )
    assert not list(tmp_path.iterdir())


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Take away afterwards the handlers that Hydra's --info gives to the root of all loggers."""
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize(
    "arguments", [["--hydra-help"], ["--info", "searchpath"], ["--info"], ["--cfg", "hydra"]]
)
def test_other_flags_of_hydra(lrbench: Run, tmp_path: Path, arguments: list[str]) -> None:
    ended = lrbench("train", "seed=3", *arguments)
    assert (ended.code, ended.err) == (0, "")
    assert len(ended.out.splitlines()) > 5
    assert not list(tmp_path.iterdir())


def fingerprint(*arguments: str) -> str:
    return Cell.of(composed(arguments)).fingerprint


SPELLINGS = [
    ["optim.lr=0.001", "task=parity"],
    ["task=parity", "optim.lr=1e-3"],
    ["task=parity", "optim.lr=1.0E-3", "seed=7", "trials=3", "device=cpu", "threads=2"],
    ["optim={lr: 0.001}", "task='parity'", "task.modulus=2", "model=blockdiag"],
    ["++optim.lr=1e-3", "task=parity", "output_dir=elsewhere", "force=true", "seed=5"],
    ["optim.lr=1e-3", "optim.lr=1e-3", "task=parity", "model.layers=01"],
]


def test_one_configuration_has_one_fingerprint() -> None:
    assert len({fingerprint(*arguments) for arguments in SPELLINGS}) == 1


def test_names_may_stand_in_quotes() -> None:
    """What they imply is implied: a task's protocol, the settings of a model in a backbone."""
    for plain in (["task=listops", "model=ebt_grc"], ["model=rnn", "model.backbone.name=s4"]):
        quoted = ["{}='{}'".format(*word.split("=")) for word in plain]
        assert composed(quoted) == composed(plain)
        assert composed([word.replace("'", '"') for word in quoted]) == composed(plain)


def test_everything_spelt_out_has_the_same_fingerprint() -> None:
    shown = OmegaConf.to_container(OmegaConf.structured(composed(["task=mod_arith"])))
    arguments = [f"{key}={'null' if value is None else value}" for key, value in leaves(shown)]
    assert len(arguments) > 30
    assert fingerprint("task=mod_arith", *reversed(arguments)) == fingerprint("task=mod_arith")


@pytest.mark.parametrize(
    "argument",
    [
        "task.modulus=3",
        "model.layers=2",
        "model.mixer.p=1.3",
        "optim.lr=0.01",
        "optim.clip=0.7",
        "protocol.max_steps=39",
        "protocol.test_lengths=[500,1000]",
        "data_seed=5",
    ],
)
def test_another_configuration_has_another_fingerprint(argument: str) -> None:
    assert fingerprint(argument) != fingerprint()


def test_a_typed_backbone_decides_the_settings() -> None:
    from lrbench.models.s4 import S4StackConfig

    config: Any = composed(["model.backbone.name=s4", "model.backbone.dropout=0.1"])
    assert config.model.name == "blockdiag"
    assert config.model.backbone == S4StackConfig(dropout=0.1)


def test_a_preset_belongs_to_a_model_in_its_own_backbone() -> None:
    assert composed(["model.backbone.name=bare"]).optim.label_smoothing == 0.0
    own = composed(["model.backbone.name=lrnn_release"])
    assert own.optim.label_smoothing == composed([]).optim.label_smoothing > 0


def test_a_backbones_presets_of_its_task_still_count() -> None:
    config = composed(["task=mod_arith", "model.backbone.name=bare"])
    assert config.protocol.train_length == 39


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model.backbone.name=s5"], "backbone 's5' unknown"),
        (["model.backbone.name=s4", "model.backbone.noise=1"], "model.backbone.noise"),
    ],
)
def test_a_backbones_mistakes_are_reported(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        composed(arguments)


def test_the_second_stage_comes_after_the_models_preset_and_before_what_is_typed() -> None:
    model = composed(["task=sum", "model=rnn"])
    both = composed(["task=sum", "model=rnn", "+preset=saturate"])
    assert (both.optim.saturate, both.model.mixer.noise) == (0.5, 0.1)  # type: ignore[attr-defined]
    assert (model.optim.lr, both.optim.lr, both.optim.final_lr) == (3e-3, 1e-3, 5e-5)
    typed = composed(["task=sum", "model=rnn", "+preset=saturate", "optim.saturate=0.1"])
    assert (typed.optim.saturate, typed.optim.clip) == (0.1, 1.0)
    with pytest.raises(UserError, match=r"preset/saturate\.yaml, model\.mixer\.noise"):
        composed(["task=sum", "model=blockdiag", "+preset=saturate"])
