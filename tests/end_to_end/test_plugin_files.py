"""What a plugin reads beside it is hashed and packed if it says so, and is told if it does not."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests import programs

TASK = """
import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from lrbench import register_task
from lrbench.tasks.symbols.cyclic import Sum

table = (Path(__file__).parent / "table.json").read_text()
helper = import_module(f"helper_{os.environ.get('KIND', 'a')}")
hidden = import_module(os.environ.get("HIDDEN", "math"))


@dataclass
class MineConfig:
    name: str = "mine"
    modulus: int = 3


@register_task("mine", MineConfig, "a task of my own")
class Mine(Sum):
    pass
"""
TINY = (
    *("train", "task=mine", "model=blockdiag", "model.width=8", "model.mixer.hidden=4"),
    *("protocol.max_steps=4", "protocol.look_every=2", "protocol.test_size=20"),
    *("protocol.test_lengths=[43]", "protocol.further_lengths=[]", "output_dir=out"),
)


@pytest.fixture
def lrbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return lrbench(words, variables): the program, in a folder that holds mine.py."""
    monkeypatch.setenv("LRBENCH_PLUGINS", "mine")
    (tmp_path / "mine.py").write_text(TASK)
    (tmp_path / "helper_a.py").write_text("width = 1\n")
    (tmp_path / "hidden.py").write_text("")
    (tmp_path / "table.json").write_text('{"of":   "/home/somebody/else"}')

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            return programs.lrbench(*words, cwd=tmp_path)

    return run


def results(folder: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("result.json"))]


def test_what_is_not_in_the_fingerprint_is_told(lrbench, tmp_path: Path) -> None:
    done = lrbench(*TINY, "trials=2", HIDDEN="hidden")
    assert done.returncode == 0, done.stderr
    line = "plugin 'mine' read what is not in the run's fingerprint: hidden.py, table.json\n"
    assert done.stderr.count(line) == 1  # though there are two runs
    found = results(tmp_path / "out")
    assert [one["not_hashed"] for one in found] == [{"mine": ["hidden.py", "table.json"]}] * 2
    assert line.strip() in next((tmp_path / "out").rglob("run.log")).read_text()
    done = lrbench("bundle", "--runs", "out", "--output", "a.zip")
    assert "not in the fingerprints, nor in this bundle: hidden.py, table.json" in done.stderr
    assert done.returncode == 0
    done = lrbench("verify", "a.zip", "--seed", "0", "--trust-plugins", LRBENCH_PLUGINS="")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "mine does not import: FileNotFoundError" in " ".join(done.stdout.split())


def test_what_is_declared_is_hashed_and_packed(lrbench, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f'lrbench_files = ["table.json"]\n{TASK}')
    done = lrbench(*TINY)
    assert done.returncode == 0 and "not in the run's" not in done.stderr, done.stderr
    done = lrbench("bundle", "--runs", "out", "--output", "a.zip", "--anonymous")
    assert done.returncode == 0 and "nor in this bundle" not in done.stderr, done.stderr
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        names = [name for name in archive.namelist() if "/plugins/" in name]
        packed = archive.read("lrbench-bundle/plugins/table.json")
    assert [Path(name).name for name in names] == ["helper_a.py", "mine.py", "table.json"]
    assert packed == (tmp_path / "table.json").read_bytes()  # a hash is of it: not rewritten
    for path in tmp_path.glob("*.*"):
        if path.suffix != ".zip":
            path.unlink()
    done = lrbench("verify", "a.zip", "--seed", "0", "--trust-plugins", LRBENCH_PLUGINS="")
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_of_them_makes_other_runs(lrbench, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f'lrbench_files = ["table.json"]\n{TASK}')
    for name, text in (("table.json", "1"), ("helper_a.py", "width = 2\n")):
        (tmp_path / name).write_text(text)
        done = lrbench(*TINY)
        assert done.returncode == 0 and "nothing to do" not in done.stderr, done.stderr
    assert len({one["fingerprint"] for one in results(tmp_path / "out")}) == 2
    (tmp_path / "table.json").unlink()
    unread = TASK.replace("table =", "#")
    (tmp_path / "mine.py").write_text(f'lrbench_files = ["table.json"]\n{unread}')
    done = lrbench(*TINY)
    assert done.returncode == 1 and "lrbench_files names 'table.json'" in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) <= 6
