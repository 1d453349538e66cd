"""`lrbench doctor`: what is found, and exit 1 with a way out where training cannot run."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench import locations, plugins
from lrbench.cli.commands.extend import doctor

Run = Callable[..., Any]


def lines(out: str) -> dict[str, str]:
    """Return the first column -> the rest."""
    return {line[:22].strip(): line[23:] for line in out.splitlines()}


def test_a_healthy_machine(lrbench: Run, tmp_path: Path) -> None:
    ended = lrbench("doctor")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[-1] == "training can run"
    said = lines(ended.out)
    assert said["torch"] == torch.__version__
    assert said["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"lrbench", *doctor.PACKAGES, "cpu", "threads", "C++ compiler"} <= set(said)
    assert said["plugins"] == "none"
    assert said["runs"].startswith("'outputs' can be made, ")
    assert max(map(len, ended.out.splitlines())) <= 80 and "\x1b" not in ended.out
    assert list(tmp_path.iterdir()) == [], "it left something behind"


def test_json(lrbench: Run, tmp_path: Path) -> None:
    ended = lrbench("doctor", "--json")
    said = json.loads(ended.out)
    assert (ended.code, ended.err, said["can_train"]) == (0, "", True)
    found = {one["name"]: one for one in said["findings"]}
    assert found["torch"] == {"name": "torch", "text": torch.__version__, "fix": ""}
    (tmp_path / "file").write_text("")
    ended = lrbench("doctor", "--runs", "file/runs", "--json")
    said = json.loads(ended.out)
    assert (ended.code, said["can_train"]) == (1, False) and "cannot write in" in ended.err
    assert [one["name"] for one in said["findings"] if one["fix"]] == ["runs"]


def test_extras_are_those_of_the_project(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    assert set(doctor.EXTRAS) == set(optional) - {
        "dev",
        "docs",
        "mutants",
        "oracles",
    }  # not for users
    for extra, distribution in doctor.EXTRAS.items():
        assert optional[extra][0].startswith(distribution)
    needed = {line.partition(">")[0] for line in project["dependencies"]}
    assert set(doctor.PACKAGES) == needed


def test_a_missing_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"plot": "no-such-distribution", "here": "torch"})
    missing, here = doctor.extras()
    assert missing.text == "not installed; checkout: pip install -e '.[plot]'"
    assert here.text.startswith("torch 2.") and not missing.fix


def test_a_folder_that_cannot_be_written(lrbench: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = lrbench("doctor", "--runs", "file/runs")
    assert ended.code == 1
    assert "<- !" in ended.out and "training can run" not in ended.out
    assert ended.err.startswith("lrbench: training cannot run here:\nruns: cannot write in ")
    assert "output_dir=DIR" in ended.err


def test_a_package_that_does_not_import(lrbench: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", {"no-such-distribution": "no_such_module"})
    ended = lrbench("doctor")
    assert ended.code == 1
    found = lines(ended.out)["no-such-distribution"]
    assert found.startswith("not installed: ModuleNotFoundError")
    assert "pip install -c constraints.txt ." in ended.err and "Traceback" not in ended.err


def test_a_machine_that_does_not_compute(lrbench: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(device: str) -> None:
        raise RuntimeError("illegal instruction\nand more")

    monkeypatch.setattr(doctor, "_gradient", broken)
    ended = lrbench("doctor")
    assert ended.code == 1
    assert lines(ended.out)["cpu"].endswith(": RuntimeError: illegal instruction  <- !")


def test_missing_configuration(lrbench: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Path:
        raise FileNotFoundError("lrbench is installed without its conf/ folder; install it again")

    monkeypatch.setattr(locations, "conf_dir", gone)
    ended = lrbench("doctor")
    assert ended.code == 1
    assert "install it again" in ended.err


def test_plugins(lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good_one.py").write_text("import lrbench\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setenv("LRBENCH_PLUGINS", "good_one")
    assert lines(lrbench("doctor").out)["plugin good_one"] == "registers nothing"
    monkeypatch.setenv("LRBENCH_PLUGINS", "good_one,not_there")
    ended = lrbench("doctor")
    assert ended.code == 1
    assert "plugin 'not_there' (LRBENCH_PLUGINS) not found" in ended.out
    assert "plugins: looked in " in ended.err


def test_a_gpu_that_does_not_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = {"cpu": "a processor", "cores": 2, "devices": ["GPU A", "GPU B"], "cuda": "12.8"}

    def gradient(device: str) -> None:
        if device == "cuda:1":
            raise RuntimeError("no kernel image")

    monkeypatch.setattr("lrbench.runs.folder.environment.environment", lambda: machine)
    monkeypatch.setattr(doctor, "_gradient", gradient)
    cpu, good, bad = doctor.devices()
    assert cpu.text.startswith("a processor, ") and cpu.text.endswith(" of 2 cores usable")
    assert (good.name, good.text, good.fix) == ("cuda:0", "GPU A", "")
    assert bad.text == "GPU B: RuntimeError: no kernel image" and "device=cpu" in bad.fix
    machine["devices"] = []
    assert list(doctor.devices())[1].text == (
        "no device (torch is built for CUDA 12.8): device=auto is the CPU"
    )
