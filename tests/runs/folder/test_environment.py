"""The environment is recorded whole, as JSON, and gives away no folder or host."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import torch

from lrbench.runs.folder.environment import command, commit, environment


def git(root: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    arguments = ("git", *who, "-C", str(root), *arguments)
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.strip()


def test_says_what_bit_identity_depends_on(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/bin/lrbench", "train", f"output_dir={root}/outputs"])
    found = environment()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["devices"] == [
        torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
    ]
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["hydra"].startswith("1.3.")
    assert all(found[key] for key in ("omegaconf", "pandas", "numpy", "platform", "cpu", "cores"))
    assert datetime.fromisoformat(found["date"]).utcoffset() == timedelta(0)
    assert found["command"] == ["lrbench", "train", "output_dir=outputs"]


def test_gives_away_no_folder_or_host(root: Path) -> None:
    text = json.dumps(environment())
    assert str(root) not in text
    assert str(Path.home()) + "/" not in text
    assert len(socket.gethostname()) < 5 or socket.gethostname() not in text


def test_commit_and_dirty_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = {"commit": None, "dirty": None}
    assert commit(tmp_path) == unknown
    git(tmp_path, "init", "-q")
    assert commit(tmp_path) == unknown  # no commit yet
    (tmp_path / "a.py").write_text("")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "-q", "-m", "first")
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as inside a git hook
    head = commit(tmp_path)
    assert head["dirty"] is False
    assert len(head["commit"]) == 40
    (tmp_path / "a.py").write_text("changed")
    assert commit(tmp_path) == {"commit": head["commit"], "dirty": True}


def test_a_repository_further_up_is_not_ours(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "somebody's project")
    inside = tmp_path / "venv" / "site-packages"
    inside.mkdir(parents=True)
    assert commit(inside) == {"commit": None, "dirty": None}


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q")
    monkeypatch.setenv("PATH", "")
    assert commit(tmp_path) == {"commit": None, "dirty": None}


@pytest.mark.parametrize(
    ("argument", "kept"),
    [
        ("output_dir=/home/me/runs", "output_dir=runs"),
        ("/home/me/x.py", "x.py"),
        ("data=['/data/a','/data/b']", "data=['a','b']"),
        ("output_dir=~/runs", "output_dir=runs"),
        ("output_dir=outputs/a/b", "output_dir=outputs/a/b"),
        ("output_dir=../a/b", "output_dir=../a/b"),
        ("optim.lr=1e-3", "optim.lr=1e-3"),
        ("task/data=sum", "task/data=sum"),
    ],
)
def test_command_keeps_words_and_loses_folders(argument: str, kept: str) -> None:
    assert command(["/usr/bin/lrbench", argument]) == ["lrbench", kept]
    assert command([]) == [""]
