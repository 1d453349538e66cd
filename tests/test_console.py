"""Where the program speaks when a disk is full: messages are lost, results are an error."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from lrbench.console import Lossy

FULL = Path("/dev/full")
TINY = [
    *("task=sum", "model=rnn", "model.width=4", "protocol.max_steps=2", "protocol.look_every=1"),
    *("protocol.look_size=4", "protocol.validation_size=4", "protocol.test_size=4"),
    *("protocol.train_length=6", "protocol.test_lengths=[9]", "protocol.further_lengths=[]"),
    *("protocol.band=[7,8]", "protocol.batch_size=4", "protocol.certify=never", "device=cpu"),
]

needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")


def _started(words: list[str], folder: Path, out: str, err: str) -> tuple[int, str, str]:
    """Run lrbench with these as stdout and stderr; '' is a pipe that is read."""
    with open(out or "/dev/null", "w") as into, open(err or "/dev/null", "w") as errors:
        ended = subprocess.run(
            [sys.executable, "-m", "lrbench", *words],
            cwd=folder,
            stdout=into if out else subprocess.PIPE,
            stderr=errors if err else subprocess.PIPE,
            text=True,
            check=False,
        )
    return ended.returncode, ended.stdout or "", ended.stderr or ""


@pytest.mark.slow
@needs_full
def test_a_run_ends_though_its_messages_cannot_be_written(tmp_path: Path) -> None:
    code, out, _ = _started(["train", *TINY], tmp_path, "", str(FULL))
    assert code == 0
    assert "sum" in out
    assert list(tmp_path.glob("outputs/sum/rnn/fan2024/*/s0/result.json"))


@pytest.mark.slow
@needs_full
def test_results_that_cannot_be_written_are_an_error_without_a_traceback(tmp_path: Path) -> None:
    code, _, err = _started(["tasks"], tmp_path, str(FULL), "")
    assert code == 1
    assert err == "lrbench: cannot write the output: no space left on device\n"


@pytest.mark.slow
def test_a_run_ends_though_nobody_reads_its_messages(tmp_path: Path) -> None:
    """As after `lrbench train .. 2>&1 | head -1`; what it prints last is lost, the run is not."""
    command = [sys.executable, "-m", "lrbench", "train", *TINY]
    started = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert started.stdout is not None
    started.stdout.readline()
    started.stdout.close()
    assert started.wait(120) == 141
    assert list(tmp_path.glob("outputs/sum/rnn/fan2024/*/s0/result.json"))


@pytest.mark.parametrize(
    ("error", "lost"), [(BrokenPipeError(32, ""), True), (OSError(9, ""), False)]
)
def test_which_errors_of_a_stream_are_lost(error: OSError, lost: bool) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    if lost:
        assert Lossy(Closed()).write("text") == 4
        return
    with pytest.raises(OSError, match="Errno 9"):
        Lossy(Closed()).write("text")
