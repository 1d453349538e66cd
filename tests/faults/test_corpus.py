"""A run over a corpus, stopped or killed in the middle of an epoch, ends with the same bits."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests import made_up_corpora

from .bits import content, differences
from .conftest import KILLED, Laboratory, run_folder

OVERRIDES = (  # 24 strings: 4 updates an epoch, 12 in all
    *("train", "task=listops", "model=bbt_grc", "model.width=8", "seed=2", "device=cpu"),
    *("protocol.batch_size=7", "protocol.micro_batch=4", "protocol.bucket=2", "protocol.epochs=3"),
    *("protocol.patience=5", "protocol.test_splits=[near_iid,args_10]"),
)
STOPPED = 130


@pytest.fixture(scope="module")
def whole(lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of an undisturbed run."""
    made_up_corpora.write(lab.folder / "data")  # programs of the laboratory start there
    folder = tmp_path_factory.mktemp("whole")
    program = lab.start(*OVERRIDES, f"output_dir={folder}")
    assert program.wait() == 0, program.err
    return run_folder(folder)


@pytest.mark.parametrize(
    ("number", "code", "step"),
    [(signal.SIGTERM, STOPPED, 2), (signal.SIGKILL, KILLED, 5), (signal.SIGTERM, STOPPED, 7)],
    ids=str,
)
def test_the_rest_of_an_epoch_is_the_same(
    number: signal.Signals, code: int, step: int, lab: Laboratory, whole: Path, tmp_path: Path
) -> None:
    fault = ["act_at", {"step": step, "name": "send", "numbers": [int(number)]}]
    arguments = (*OVERRIDES, f"output_dir={tmp_path}")
    assert lab.start(*arguments, sabotage=[fault]).wait() == code

    program = lab.start(*arguments)

    assert program.wait() == 0, program.err
    if number == signal.SIGTERM:
        assert f"going on from update {step}" in program.err
    assert not differences(content(run_folder(tmp_path)), content(whole))
