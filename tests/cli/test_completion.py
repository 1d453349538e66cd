"""Shell completion: what is offered, through a real bash too, and never by importing torch."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest

from lrbench.cli.completion import complete, complete_show, declarations, matches, typed
from lrbench.config import OptimConfig
from lrbench.protocols.fan2024.declaration import Fan2024Config
from lrbench.registry import BACKBONES, ENCODERS, MIXERS, TASKS

PLUGIN = """
import torch, not_installed_anywhere
from lrbench import registry
from lrbench.registry import register_task

class Base:
    hidden: int = 3
    name: str = "mine"

class Settings(Base):
    lengths: list = [1, 2]
    rate: float = 1 / 3

@registry.register_mixer(name="mine", config=Settings)
class Mine: ...

@register_task("riddle", Base, "what?")
class Riddle: ...

@register_task(computed(), Base)
class Unseen: ...

raise SystemExit("completion must not run a plugin")
"""
# Completes like the real command; run with anything else it says what it was given.
STUB = """#!{python}
import os, sys
if "_LRBENCH_COMPLETE" in os.environ or "--show-completion" in sys.argv:
    from lrbench.cli import main
    main()
else:
    print("given", *sys.argv[1:], sep="|")
"""

SILENCE = 60.0  # seconds after which a shell is given up


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_completed.py").write_text(PLUGIN)
    monkeypatch.setenv("LRBENCH_PLUGINS", "mine_completed, not_there")


@pytest.mark.parametrize(
    ("before", "incomplete", "offered"),
    [
        ("", "tas", ["task=", "task.modulus="]),
        ("", "task=", [f"task={name}" for name in TASKS.names()]),
        ("", "model=", [f"model={name}" for name in sorted([*MIXERS, *ENCODERS])]),
        ("", "protocol=f", ["protocol=fan2024"]),
        ("", "optim=", ["optim=adam", "optim=adamw", "optim=ranger"]),
        ("", "task=mod", ["task=mod_arith", "task=mod_arith_ltr"]),
        ("", "task=sum,pa", ["task=sum,parity"]),
        ("", "task=sum,su", []),
        ("", "task=sum,slice_p", ["task=sum,slice_parity"]),
        ("task =", "ev", ["even_pair"]),
        ("seed = 3 task =", "sum,mo", ["sum,mod_arith", "sum,mod_arith_ltr"]),
        ("", "protocol.stop=", ["protocol.stop=perfect", "protocol.stop=never"]),
        ("", "device=c", ["device=cpu", "device=cuda"]),
        ("", "see", ["seed=", "seed=0"]),
        ("task=parity", "task.", ["task.modulus=", "task.modulus=2"]),
        ("task=dfa", "task.kind=p", ["task.kind=permutation"]),
        ("task=dfa", "task.target=", ["task.target=state", "task.target=accept"]),
        ("task=group", "task.letters=s", ["task.letters=swaps"]),
        ("task=group", "task.view=", ["task.view=product", "task.view=cup"]),
        ("task=regular", "task.language=tomita_6", ["task.language=tomita_6"]),
        ("model=lrnn_diag", "model.mixer.range=t", ["model.mixer.range=tanh"]),
        ("model=gated_deltanet", "model.mixer.decay=c", ["model.mixer.decay=channel"]),
        ("task = parity", "task.", ["task.modulus=", "task.modulus=2"]),
        ("model=blockdiag_release", "model.mixer.p", ["model.mixer.p=", "model.mixer.p=1.2"]),
        ("model=blockdiag_release", "model.mixer.h", []),
        ("seed=1", "see", []),
        ("", "nonsense", []),
        ("", "nonsense=", []),
        ("model=nonsense", "model.mixer.", []),
        ("model=bbt_grc", "model.mixer.", []),
        ("model=bbt_grc", "model.enc", ["model.encoder.dropout=", "model.encoder.dropout=0.1"]),
    ],
)
def test_offers(before: str, incomplete: str, offered: list[str]) -> None:
    assert complete(before.split(), incomplete) == offered


def test_every_key_of_the_schema_is_offered() -> None:
    offered = complete([], "")
    assert {"seed=", "data_seed=", "trials=", "threads=", "force=", "output_dir="} <= set(offered)
    for group, schema in (("protocol", Fan2024Config), ("optim", OptimConfig)):
        keys = {f"{group}.{one.name}=" for one in fields(schema)} - {f"{group}.name="}
        assert keys <= set(offered)
    assert {"model.layers=", "model.width=", "task.modulus="} <= set(offered)


@pytest.mark.parametrize("registry", [TASKS, MIXERS, ENCODERS, BACKBONES], ids=lambda r: r.kind)
def test_what_is_read_from_the_source_is_what_is_registered(registry) -> None:
    for name in registry.names():
        entry = registry.get(name)
        (found,) = (one for one in declarations(entry.module) if one.name == name)
        assert found.registry == registry.kind
        defaults = {key: typed(value) for key, value in vars(entry.config()).items()}
        assert found.settings == defaults


@pytest.mark.usefixtures("plugin")
def test_plugins_are_read_and_not_run() -> None:
    assert complete([], "model=mi") == ["model=mine"]
    assert complete([], "task=ri") == ["task=riddle"]
    keys = ["model.mixer.hidden=", "model.mixer.lengths=", "model.mixer.rate="]
    assert complete(["model=mine"], "model.mixer.") == keys
    assert complete(["model=mine"], "model.mixer.le")[1:] == ["model.mixer.lengths=[1,2]"]
    assert complete(["model=mine"], "model.mixer.rate=") == []
    assert "mine_completed" not in sys.modules


def test_a_plugin_that_is_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_one.py").write_text("def (")
    monkeypatch.setenv("LRBENCH_PLUGINS", "broken_one")
    assert "task=sum" in complete([], "task=")


def test_show_has_its_own_settings() -> None:
    assert complete_show([], "") == ["task=", "length=", "count=", "seed=", "task.modulus="]
    assert complete_show(["task", "="], "pa") == ["parity"]


def test_matches() -> None:
    vocabulary = {"a.one": ["1", "12"], "a.two": [], "b": ["x"]}
    assert matches(vocabulary, (), "a.") == ["a.one=", "a.two="]
    assert matches(vocabulary, ["a.one"], "a.") == ["a.two="]
    assert matches(vocabulary, (), "a.o") == ["a.one=", "a.one=1", "a.one=12"]
    assert matches(vocabulary, (), "a.one=1,") == ["a.one=1,12"]
    assert matches(vocabulary, (), "a.two=") == []


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `lrbench` on PATH that completes as the real one does and otherwise runs nothing."""
    program = tmp_path / "bin" / "lrbench"
    program.parent.mkdir()
    program.write_text(STUB.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return program


def query(**variables: str) -> list[str]:
    """Ask as a shell's completion function does; the program must not import torch."""
    code = (
        "import sys\nsys.argv = ['lrbench']\nfrom lrbench.cli import main\n"
        "try:\n    main()\nfinally:\n    assert 'torch' not in sys.modules\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.stderr == ""
    return ended.stdout.split("\n")[:-1]


def test_bash_protocol() -> None:
    def ask(*arguments: str) -> list[str]:
        line, position = "\n".join(("lrbench", *arguments)), str(len(arguments))
        return query(_LRBENCH_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=position)

    assert ask("train", "task", "=") == TASKS.names()
    assert ask("train", "seed", "=", "1", "task", "=", "mod") == [
        "mod_arith",
        "mod_arith_ltr",
    ]
    assert ask("show", "task", "=") == TASKS.names()


def test_zsh_protocol() -> None:
    found = query(_LRBENCH_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="lrbench train task=ev")
    assert found == ["""_arguments '*: :(("task=even_pair"))'"""]


def keystrokes(bash: str, lines: list[str]) -> Iterator[str]:
    """Type lines into an interactive bash and yield what `lrbench` was given each time."""
    environment = {**os.environ, "PS1": "", "TERM": "dumb", "INPUTRC": os.devnull}
    child, terminal = pty.fork()
    if child == 0:
        os.execve(bash, [bash, "--norc", "--noprofile", "-i"], environment)
    os.write(terminal, "".join(f"{line}\n" for line in [*lines, "exit"]).encode())
    heard = b""
    with suppress(OSError):  # how Linux reports the end of a terminal
        while select.select([terminal], [], [], SILENCE)[0] and (chunk := os.read(terminal, 4096)):
            heard += chunk
    os.kill(child, signal.SIGKILL)  # gone already, unless it was silent for too long
    os.waitpid(child, 0)
    os.close(terminal)
    for line in heard.decode().splitlines():
        if line.startswith("given|"):
            yield line.removeprefix("given|")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_person_presses_tab_in_bash(stub: Path, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    script = subprocess.run(
        [stub, "--show-completion", "bash"],
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    (tmp_path / "completion.sh").write_text(script.stdout)
    given = keystrokes(
        bash,
        [
            "source completion.sh",
            "lrbench train task=mo\t",
            "lrbench train see\t7",
            "lrbench train model=blockdiag_r\t optim.sch\tcos\t",
        ],
    )
    assert list(given) == [
        "train|task=mod_arith",
        "train|seed=7",
        "train|model=blockdiag_release|optim.schedule=cosine",
    ]


def test_python_m_offers_completion_of_the_command() -> None:
    script = subprocess.run(
        [sys.executable, "-m", "lrbench", "--show-completion", "bash"],
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert script.stdout.splitlines()[-1] == "complete -o default -F _lrbench_completion lrbench"
