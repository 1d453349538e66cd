"""`lrbench check`: a line for each check, an exit code, and mistakes told in a few lines."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest
import typer

from lrbench.cli.commands.extend.check import add_to
from lrbench.cli.guard import guarded
from lrbench.contract import CHECKS, ENCODER_CHECKS
from lrbench.mixers.base import Mixer
from lrbench.registry import ENCODERS, MIXERS, Entry


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Return check(words): its exit code, and the lines on stdout and on stderr."""

    def run(*arguments: str) -> tuple[int, list[str], list[str]]:
        app = typer.Typer(pretty_exceptions_enable=False)
        add_to(app, "Extend")
        app.command("another")(lambda: None)  # with one command alone, typer drops its name
        monkeypatch.setattr(sys, "argv", ["lrbench", "check", *arguments])
        with pytest.raises(SystemExit) as left:
            guarded(app)
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out.splitlines(), err.splitlines()

    return run


def test_a_line_for_each_check(check) -> None:
    code, out, err = check("model=rnn", "model.width=4", "model.mixer.noise=0.1")
    assert code == 0 and err == []
    assert out[0].split()[:4] == ["ok", "build", "width", "4,"]
    for line, name in zip(out[1:-1], CHECKS, strict=True):
        assert name in line and line.startswith(("ok ", "not applicable "))
    assert out[-1].startswith("rnn: ") and "0 FAILED" in out[-1]


def test_tasks_have_checks_of_their_own(check) -> None:
    code, out, err = check("task=sum", "task.modulus=3")
    assert code == 0 and err == []
    assert out[0].split()[:4] == ["ok", "strings", "3", "symbols,"]
    assert out[-1] == "sum: 7 ok, 0 FAILED, 0 not applicable"


def test_encoders_have_checks_of_their_own(check) -> None:
    code, out, err = check("model=rnn_grc", "model.width=8", "model.encoder.dropout=0.2")
    assert code == 0 and err == []
    assert out[0].split()[:4] == ["ok", "build", "width", "8,"]
    for line, name in zip(out[1:-1], ENCODER_CHECKS, strict=True):
        assert name in line and line.startswith(("ok ", "not applicable "))
    assert out[-1].startswith("rnn_grc: ") and "0 FAILED" in out[-1]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ((), 2, "check needs a model"),
        (("model=",), 2, "check needs a model"),
        (("model=blockdiag", "task=sum"), 2, "check task=NAME cannot use 'model'"),
        (("task=summ",), 1, "Did you mean 'sum'?"),
        (("task=sum", "task.modulus=x"), 1, "task.modulus cannot be 'x'"),
        (("task=listops",), 1, "cannot be checked"),
        (("model=blockdiag", "model.layers=2"), 2, "check cannot use 'model.layers=2'"),
        (("blockdiag",), 2, "check cannot use 'blockdiag'"),
        (("--all", "model=blockdiag"), 2, "check --all takes no 'model=blockdiag'"),
        (("model=blokdiag",), 1, "Did you mean 'blockdiag'?"),
        (("model=bbt_grcc",), 1, "Did you mean 'bbt_grc'?"),
        (("model=bbt_grc", "model.mixer.p=2"), 1, "setting 'model.mixer.p' unknown"),
        (("model=blockdiag", "model.mixer.pp=2"), 1, "Did you mean 'model.mixer.p'?"),
        (("model=blockdiag", "model.mixer.p=x"), 1, "model.mixer.p must be a number, not 'x'"),
        (("model=blockdiag", "model.mixer.p=0"), 1, "model.mixer.p must be at least 1, not 0"),
        (("model=blockdiag", "model.width=9"), 1, "not a multiple of model.mixer.block_size 8"),
    ],
)
def test_mistakes_are_reported(check, arguments: tuple[str, ...], code: int, text: str) -> None:
    found, out, err = check(*arguments)
    assert (found, out) == (code, [])
    assert text in "\n".join(err) and len(err) <= 6


@dataclass
class RaisingConfig:
    message: str = ""


class Raising(Mixer):
    state_size = 0

    def initial_state(self, batch: int) -> tuple[()]:
        return ()

    def forward(self, u, state=None, mode=None):
        raise RuntimeError(self.config.message)


def test_failures_and_the_authors_traceback(check, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("raising", Raising, RaisingConfig, "a test")
    monkeypatch.setitem(MIXERS._entries, "raising", entry)
    code, out, err = check("model=raising", "model.mixer.message=boom [x]")
    assert code == 1
    assert out[2].startswith("FAILED") and out[2].endswith("raised RuntimeError: boom [x]")
    assert out[-1].startswith("raising: ") and ", 0 FAILED" not in out[-1]
    assert "    raise RuntimeError(self.config.message)" in err
    assert sum("Traceback" in line for line in err) == 1, "the same place is shown once"


def test_all_models_in_a_matrix(check, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("raising", Raising, RaisingConfig, "a test")
    monkeypatch.setitem(MIXERS._entries, "raising", entry)
    monkeypatch.setattr(MIXERS, "names", lambda: ["rnn", "raising"])
    monkeypatch.setattr(ENCODERS, "names", lambda: ["rnn_grc"])
    code, out, err = check("--all")
    assert code == 1
    assert out[0] == "| " + " | ".join(("model", "build", *CHECKS)) + " |"
    good, bad = (line.strip("| ").split(" | ") for line in out[2:4])
    assert out[4] == "| " + " | ".join(("model", "build", *ENCODER_CHECKS)) + " |"
    assert out[6].startswith("| rnn_grc | ok | ok |")
    assert good[:3] == ["rnn", "ok", "ok"] and set(good[1:]) <= {"ok", "-"}
    assert bad[:3] == ["raising", "ok", "FAILED"]
    assert any(line.startswith("rnn: ") and "0 FAILED" in line for line in err)
    assert any("raised RuntimeError" in line for line in err)


def test_the_module_does_not_import_torch() -> None:
    code = "import sys, lrbench.cli.commands.extend.check as c; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
