"""What a user may get wrong after `lrbench train`: a few lines, an exit code, and nothing written.

Every case runs the program in this process beside a finished result, which must not change.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.runs.train.job import run_cell
from lrbench.training.trial import Trial
from tests import programs

Run = Callable[..., Any]

SMALL = [
    "protocol.max_steps=2",
    "protocol.look_every=1",
    "protocol.look_size=4",
    "protocol.validation_size=16",
    "protocol.test_size=4",
    "protocol.further_lengths=[]",
    "protocol.test_lengths=[41]",
    "protocol.batch_size=2",
    "model.width=8",
]


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return what is below a folder: content and time of change of every file and folder."""
    return {
        str(path.relative_to(folder)): (
            b"" if path.is_dir() else path.read_bytes(),
            path.stat().st_mtime_ns,
        )
        for path in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with one finished result, which the cases must leave as it is."""
    folder = tmp_path_factory.mktemp("earlier") / "outputs"
    [outcome] = run_cell(composed([*SMALL, f"output_dir={folder}"]))
    assert outcome.status == "finished"
    assert list(folder.rglob("result.json"))
    return folder


@pytest.fixture
def refused(
    lrbench: Run, outputs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., str]:
    """Run `lrbench train WORDS`, which must be refused; return what was said."""

    def no_update(trial: Trial) -> None:
        raise AssertionError(f"{trial.config} was trained")

    monkeypatch.setattr(Trial, "update", no_update)

    def run(*arguments: str, code: int = 1) -> str:
        named = any("output_dir" in argument for argument in arguments)
        before, here = tree(outputs), tree(tmp_path)
        ended = lrbench("train", *arguments, *([] if named else [f"output_dir={outputs}"]))
        assert (ended.code, ended.out) == (code, "")
        assert "lrbench: " in ended.err and "Traceback" not in ended.err
        assert len(ended.err.splitlines()) <= 6
        assert all(line.isprintable() for line in ended.err.splitlines())
        assert tree(outputs) == before and tree(tmp_path) == here
        return str(ended.err)

    return run


CASES = [
    # misspelt names
    ("task=sums", "task 'sums' unknown. Did you mean 'sum'?", "`lrbench tasks` lists all "),
    ("model=blockdag", "model 'blockdag' unknown. Did you mean 'blockdiag'?"),
    ("model=mine", "model 'mine' unknown.", "one of your own: LRBENCH_PLUGINS=mine"),
    ("protocol=fan", "protocol 'fan' unknown.", "`lrbench protocols` lists all "),
    ("optim=sgd", "optim 'sgd' unknown", "adam, adamw"),
    ("task=a/b", "task must be one name, not 'a/b'"),
    ("task=../task/sum", "task must be one name"),
    ("task=", "task must be one name, not ''"),
    ("model=null", "model must be one name, not 'null'", "model.KEY=VALUE"),
    ("task=[sum,parity]", "task must be one name, not '[sum,parity]'"),
    ("model.name=blockdig", "model 'blockdig' unknown. Did you mean 'blockdiag'?"),
    ("task.name=mod_arith", "write task=mod_arith"),
    ("model.backbone.name=tower", "backbone 'tower' unknown", "lrnn_release"),
    ("protocol.name=fan2025", "protocol.name must be one of fan2024", "Did you mean 'fan2024'"),
    # misspelt keys
    ("tsak=sum", "there is no setting 'tsak'. Did you mean 'task'?", "there are:", "seed"),
    ("SEED=1", "there is no setting 'SEED'. Did you mean 'seed'?"),
    ("optim.lrr=1e-3", "'optim.lrr'. Did you mean 'optim.lr'?", "weight_decay"),
    ("model.mixer.block_sise=4", "Did you mean 'model.mixer.block_size'?"),
    ("task.moduls=7", "Did you mean 'task.modulus'?", "task has: modulus"),
    ("seed.x=1", "no setting 'seed.x': seed is a value of its own"),
    ("model.mixer={p: 2, q: 3}", "there is no setting 'model.mixer.q'"),
    ("lr=0.1", "there is no setting 'lr'. Did you mean 'optim.lr'?"),
    ("model.block_size=4", "Did you mean 'model.mixer.block_size'?", "model has:"),
    ("preset/x=1", "there is no setting 'preset/x'"),
    ("+model.foo=1", "there is no setting 'model.foo'", "model has:"),
    ("+seed=1", "'seed' is there already: write seed=VALUE, without the +"),
    # words that are no override
    ("sum", "cannot read the override 'sum'", "KEY=VALUE"),
    ("", "cannot read the override ''"),
    ("=", "cannot read the override '='"),
    ("=5", "cannot read the override '=5'"),
    ("seed:1", "cannot read the override 'seed:1'"),
    ("seed =1", "cannot read the override 'seed =1'", "without blanks"),
    ("seed='", "cannot read the override 'seed=''", "quote"),
    ("device=größe", "cannot read the override 'device=größe'", "quote"),
    ("seed=1\nseed=2", r"cannot read the override 'seed=1\nseed=2'", "one line"),
    ("device=\x1b[31mred", r"'device=\x1b[31mred'"),
    ("device=\udcff", r"'device=\udcff'"),
    ("seed=${", "cannot read the override 'seed=${'"),
    ("seed=" + "9" * 5000, "cannot read the override 'seed=9999", "..."),
    ("seed=" + "[" * 300, "cannot read the override 'seed=[[[["),
    ("~seed", "'~seed': a setting cannot be taken away"),
    ("~model", "'~model': a setting cannot be taken away"),
    ("task@model=sum", "'task@model=sum'", "task=NAME"),
    ("seed=1,2", "'seed=1,2' names several values", "trials=5"),
    ("seed=range(1,9)", "names several values"),
    ("hydra.run.dir=elsewhere", "'hydra.run.dir' is one of Hydra's own", "output_dir=FOLDER"),
    ("hydra.output_subdir=.hydra", "'hydra.output_subdir'"),
    ("hydra/launcher=joblib", "'hydra/launcher'"),
    # values of another type
    ("task.modulus=2.5", "task.modulus must be a whole number, not '2.5'"),
    ("task.modulus=five", "task.modulus must be a whole number, not 'five'"),
    ("task.modulus=null", "task.modulus must be a whole number, not null"),
    ("task.modulus=???", "task.modulus is not set"),
    ("data_seed=0x10", "data_seed must be a whole number or null, not '0x10'"),
    ("seed=true", "seed must be a whole number, not 'true'"),
    ("optim.lr=fast", "optim.lr must be a number, not 'fast'"),
    ("optim.clip=[1]", "optim.clip must be a number or null, not '[1]'"),
    ("force=maybe", "force must be true or false, not 'maybe'"),
    ("model.mixer=linear", "model.mixer is a group of settings", "not 'linear'"),
    ("model.mixer=[1]", "write model.mixer.KEY=VALUE, not '[1]'"),
    ("task=2", "task must be one name, not '2'"),
    ("protocol.test_lengths=500", "a list of whole numbers, such as [500,1000], not '500'"),
    ("protocol.test_lengths=[1.5]", "a list of whole numbers", "[1.5]"),
    ("protocol.test_lengths=[[500]]", "a list of whole numbers", "[[500]]"),
    ("protocol.test_lengths=${task.name}", "a list of whole numbers", "not 'sum'"),
    ("optim.betas=[a,b]", "optim.betas must be a list of numbers", "[a,b]"),
    ("output_dir=null", "output_dir must be a word, not null"),
    ("seed=${nope}", "seed cannot be '${nope}'", "not found"),
    ("seed=${seed}", "seed cannot be '${seed}'", "Recursive"),
    # values out of range
    ("task.modulus=1", "task.modulus must be an integer >= 2, not 1"),
    ("task.modulus=-5", "task.modulus must be an integer >= 2, not -5"),
    ("task.modulus=10000000000", "task.modulus must be at most 10,000"),
    ("protocol.train_length=0", "protocol.train_length must be at least 1, not 0"),
    ("protocol.train_length=-40", "protocol.train_length must be at least 1, not -40"),
    ("protocol.test_lengths=[500,0]", "protocol.test_lengths must be at least 1, not 0"),
    ("protocol.test_lengths=[]", "protocol.test_lengths must name at least one length"),
    ("protocol.further_lengths=[-1]", "protocol.further_lengths must be at least 1"),
    ("protocol.band=[120,60]", "protocol.band must be [shortest, longest], not [120, 60]"),
    ("protocol.band=[60]", "protocol.band must be [shortest, longest]"),
    ("protocol.band=[1,10000000]", "protocol.band must be at most 1,000,000"),
    ("protocol.batch_size=0", "protocol.batch_size must be at least 1, not 0"),
    ("protocol.max_steps=0", "protocol.max_steps must be at least 1, not 0"),
    ("protocol.look_every=0", "protocol.look_every must be at least 1, not 0"),
    ("protocol.max_steps=1000000000", "more than 10,000 looks", "look_every"),
    ("protocol.test_size=1000000000000", "protocol.test_size must be at most 1,000,000,000"),
    ("protocol.stop=perfekt", "protocol.stop must be one of perfect, never", "Did you mean"),
    ("protocol.supervision=none", "protocol.supervision must be one of all, last"),
    ("optim.lr=-0.001", "optim.lr must be a positive number, not -0.001"),
    ("optim.lr=0", "optim.lr must be a positive number, not 0.0"),
    ("optim.lr=nan", "optim.lr must be a positive number, not nan"),
    ("optim.lr=1e400", "optim.lr must be a positive number, not inf"),
    ("optim.weight_decay=inf", "optim.weight_decay must be at least 0, not inf"),
    ("optim.label_smoothing=1", "optim.label_smoothing must be in [0, 1), not 1.0"),
    ("optim.betas=[0.9]", "optim.betas must be two numbers in [0, 1), not [0.9]"),
    ("optim.schedule=cosin", "optim.schedule must be one of", "Did you mean 'cosine'"),
    ("model.layers=0", "model.layers must be at least 1, not 0"),
    ("model.mixer.p=0.5", "model.mixer.p must be at least 1, not 0.5"),
    ("model.mixer.g=conv", "model.mixer.g must be one of linear, mlp, not 'conv'"),
    ("model.mixer.block_size=7", "model.width 64 is not a multiple", "block_size 7"),
    ("seed=-1", "seed must be at least 0, not -1"),
    ("seed=99999999999999999999", "seed must be at most 9,223,372,036,854,775,807"),
    ("trials=0", "trials must be at least 1, not 0"),
    ("threads=0", "threads must be at least 1, not 0"),
    ("threads=1000000000", "threads must be at most 1,024, not 1000000000"),
    # what this machine does not have
    ("device=tpu", "device 'tpu' is not there. Did you mean 'cpu'?", "here: auto, cpu"),
    ("device=cuda:99", "device 'cuda:99' is not there"),
    ("trials=1000000000", "needs at least", "GiB of memory", "trials=1000000000"),
    ("model.width=1000000", "needs at least", "GiB of memory", "model.width=1000000"),
    ("model.layers=1000000", "needs at least", "GiB of memory", "model.layers=1000000"),
    ("model.mixer.hidden=100000000000", "model.width=64", "GiB of memory"),
    ("model.mixer.hidden=99999999999999999999", "cannot be built", "model.layers"),
    ("protocol.batch_size=1000000000", "GiB of memory", "protocol.batch_size=1000000000"),
    ("protocol.train_length=1000000000", "GiB of memory", "protocol.train_length=1000000000"),
    ("output_dir=", "output_dir must name a folder, not ''"),
    ("output_dir=/", "output_dir '/' is the root of the file system"),
    ("output_dir=/dev/null/runs", "output_dir '/dev/null/runs': /dev/null is a file"),
    (f"output_dir=/tmp/{'x' * 300}", "output_dir '/tmp/xxx", "too long"),
    ("output_dir=/proc/nowhere/runs", "output_dir '/proc/nowhere/runs'"),
]


@pytest.mark.parametrize("case", CASES, ids=[ascii(case[0])[1:40] for case in CASES])
def test_one_wrong_word(refused: Callable[..., str], case: tuple[str, ...]) -> None:
    argument, *said = case
    text = refused(argument)
    for part in said:
        assert part in text


TOGETHER = [
    (["task=sum", "task=parity", "task.modulus=3"], "task.modulus of parity is 2, not 3"),
    (["task=mod_arith", "protocol.train_length=40"], "train_length 40", "odd", "below is 39"),
    (["task=mod_arith", "protocol.test_lengths=[499,500]"], "test_lengths 500", "is 499"),
    (["task=parity", "task.modulus=3"], "task.modulus of parity is 2, not 3: use task=sum"),
    (["model=blockdiag_release", "model.mixer.g=mlp"], "no setting 'model.mixer.g'", "block_size"),
    (["seed=9223372036854775807", "trials=2"], "seed + trials must be at most"),
    (["task=sum", "model=nope", "device=tpu"], "model 'nope' unknown"),
    (
        ["task=mod_arith", "model=pooled", "protocol=suite_v1"],
        "preset/task/suite_v1_mod_arith.yaml sets model.layers, which model pooled does not have",
    ),
]


@pytest.mark.parametrize("case", TOGETHER, ids=lambda case: " ".join(case[0]))
def test_words_that_do_not_go_together(refused: Callable[..., str], case: tuple[Any, ...]) -> None:
    arguments, *said = case
    text = refused(*arguments)
    for part in said:
        assert part in text


FLAGS = [
    (["--foo"], "--foo", "--cfg job"),
    (["-x"], "-x"),
    (["--cfg", "jobs"], "--cfg", "jobs", "'job'"),
    (["--multirun", "seed=1,2"], "--multirun", "`lrbench sweep`"),
    (["seed=1,2", "-m"], "-m", "`lrbench sweep`"),
    (["--config-name", "mine"], "--config-name", "--config-dir FOLDER"),
    (["--config-path=mine"], "--config-path", "--config-dir FOLDER"),
    (["--experimental-rerun", "config.pickle"], "--experimental-rerun"),
    (["--resolve"], "--resolve", "--cfg job"),
    (["--version"], "--version"),
    (["--config-dir", "/nonexistent"], "--config-dir '/nonexistent' is not a folder"),
]


@pytest.mark.parametrize("case", FLAGS, ids=lambda case: " ".join(case[0]))
def test_flags_that_train_does_not_take(refused: Callable[..., str], case: tuple[Any, ...]) -> None:
    arguments, *said = case
    text = refused(*arguments, code=2)
    for part in said:
        assert part in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# @package _global_\noptim: {lr: [}\n", "not YAML"),
        (b"# @package _global_\noptim: {lr: \xff}\n", "not UTF-8"),
        (b"# @package _global_\noptim: {lr: fast}\n", "blockdiag.yaml, optim.lr: Value 'fast'"),
        (b"# @package _global_\noptim: {lrr: 1}\n", "blockdiag.yaml, optim.lrr: Key 'lrr'"),
        (b"# @package _global_\noptim: {lr: -1}\n", "optim.lr must be a positive number"),
        (b"# @package _global_\noptim: null\n", "optim"),
        (b"# @package _global_\ntask: 5\n", "blockdiag.yaml"),
        (b"# @package _global_\noptim: [1]\n", "blockdiag.yaml"),
        (b"# @package _global_\nhydra: {run: {dir: elsewhere}}\nseed: -1\n", "seed must be"),
        (b"# @package _global_\nhydra: {output_subdir: x}\nseed: -1\n", "seed must be"),
        (b"# @package _global_\nhydra: {job: {chdir: true}, run: {dir: x}}\nseed: -1\n", "seed"),
        (b"- 1\n", "preset/model"),
        (b"defaults: [nowhere]\n", "nowhere"),
    ],
)
def test_a_preset_of_the_users_own_that_is_wrong(
    refused: Callable[..., str], tmp_path: Path, content: bytes, said: str
) -> None:
    preset = tmp_path / "mine" / "preset" / "model" / "fan2024_sum_blockdiag.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_bytes(content)
    assert said in refused("--config-dir", str(tmp_path / "mine"))


def test_a_configuration_that_replaces_ours(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    assert "would replace lrbench's" in refused("--config-dir", str(tmp_path), code=2)


def test_a_missing_plugin(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRBENCH_PLUGINS", "no_such_plugin")
    assert "plugin 'no_such_plugin' (LRBENCH_PLUGINS) not found" in refused("seed=1")


def test_a_file_where_the_folder_of_runs_should_be(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "runs").write_text("mine")
    assert "is a file, not a folder" in refused(f"output_dir={tmp_path / 'runs'}")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sum").write_text("mine")
    assert f"{tmp_path}/other/sum is a file" in refused(f"output_dir={tmp_path / 'other'}")


def test_a_folder_that_may_not_be_written_to(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "archive"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):  # root may do anything
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder)
    text = refused(f"output_dir={folder / 'runs'}")
    assert f"{folder} cannot be written to" in text and "output_dir=FOLDER" in text


def test_as_a_program(outputs: Path, tmp_path: Path) -> None:
    before = tree(outputs)
    done = programs.lrbench("train", "optim.lr=nan", f"output_dir={outputs}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "lrbench: optim.lr must be a positive number, not nan\n"
    assert tree(outputs) == before and not tree(tmp_path)
