"""`lrbench doctor`: the versions and devices to train with, and obstacles to training."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from lrbench.cli.printed_json import AsJson, print_json
from lrbench.errors import UserError
from lrbench.machine import available_cores
from lrbench.version import __version__

HELP = (
    "Show versions, devices and extras, and what prevents training.\n\n"
    "It also shows threads, and the folders of runs and data.\n\n"
    "The exit code is 0 if training can run; otherwise 1, and stderr says what to do."
)

PACKAGES = {  # distribution -> the module it is imported as
    "torch": "torch",
    "hydra-core": "hydra",
    "omegaconf": "omegaconf",
    "typer": "typer",
    "rich": "rich",
    "numpy": "numpy",
    "pandas": "pandas",
    "scipy": "scipy",
}
EXTRAS = {
    "plot": "matplotlib",
    "parallel": "hydra-joblib-launcher",
    "slurm": "hydra-submitit-launcher",
    "fast": "numba",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "trackio": "trackio",
}
COMPILERS = ("g++", "clang++", "c++")
TRIAL_BYTES = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class MachineFinding:
    """One line of the report; `fix` says what to do where training cannot run like this."""

    name: str
    text: str
    fix: str = ""


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(doctor)


def doctor(
    runs: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder that runs would be written to.")
    ] = Path("outputs"),
    as_json: AsJson = False,
) -> None:
    """Print the findings; exit 1 if one of them is in the way of training."""
    from lrbench.console import results
    from lrbench.report.output.display import say

    console = results()
    found = []
    for finding in findings(runs):
        mark = "  <- !" if finding.fix else ""
        if not as_json:
            say(console, f"{finding.name:<22} {finding.text}{mark}")
        found.append(finding)
    wrong = [finding for finding in found if finding.fix]
    if as_json:
        print_json({"can_train": not wrong, "findings": [asdict(finding) for finding in found]})
    if wrong:
        raise UserError(
            "training cannot run here:\n"
            + "\n".join(f"{finding.name}: {finding.fix.removeprefix(': ')}" for finding in wrong)
        )
    if not as_json:
        say(console, "training can run")


def findings(runs: Path) -> Iterator[MachineFinding]:
    """Yield what is found, one line each; nothing is left behind on disk."""
    yield from versions()
    yield from shipped()
    yield from devices()
    yield threads()
    yield compiler()
    yield compiled_loops()
    yield from kernels()
    yield writable(runs)
    yield from extras()
    yield from plugins()


def versions() -> Iterator[MachineFinding]:
    """Yield the version of everything a run needs, each really imported."""
    yield MachineFinding("lrbench", __version__)
    yield MachineFinding("python", platform.python_version())
    fix = "install it again: pip install -c constraints.txt . (in the checkout)"
    for name, module in PACKAGES.items():
        wrong = _attempt(partial(import_module, module))
        build = getattr(sys.modules.get(module), "__version__", None)  # 2.13.0+cpu, say
        text = f"{build or _version(name) or 'not installed'}{wrong}"
        yield MachineFinding(name, text, wrong and fix)


def shipped() -> Iterator[MachineFinding]:
    """Yield whether the files that come with the program are there."""
    from lrbench.locations import conf_dir

    wrong = _attempt(conf_dir)
    yield MachineFinding("configuration files", f"found{wrong}" if not wrong else "missing", wrong)


def devices() -> Iterator[MachineFinding]:
    """Yield processor and GPUs, each after a small gradient was computed on it."""
    if _attempt(lambda: import_module("torch")):
        return  # told by versions()
    from lrbench.runs.folder.environment import environment

    machine = environment()
    usable = available_cores()
    wrong = _attempt(lambda: _gradient("cpu"))
    text = f"{machine['cpu']}, {usable} of {machine['cores']} cores usable"
    yield MachineFinding(
        "cpu", f"{text}{wrong}", wrong and "torch does not compute: install it again"
    )
    if not machine["devices"]:
        built = f" (torch is built for CUDA {machine['cuda']})" if machine["cuda"] else ""
        yield MachineFinding("cuda", f"no device{built}: device=auto is the CPU")
    for index, about in enumerate(machine["devices"]):
        name = f"cuda:{index}"
        wrong = _attempt(partial(_gradient, name))
        yield MachineFinding(
            name, f"{about}{wrong}", wrong and "does not compute: train with device=cpu"
        )


def threads() -> MachineFinding:
    """Return how many threads a run takes, and what limits them from outside."""
    limit = os.environ.get("OMP_NUM_THREADS")
    note = f"; OMP_NUM_THREADS={limit}" if limit else ""
    return MachineFinding("threads", f"1 a run; threads=N for more{note}")


def compiler() -> MachineFinding:
    """Return the C++ compiler found, which only compiled modes need."""
    names = filter(None, (os.environ.get("CXX"), *COMPILERS))
    found = next((name for name in names if shutil.which(name)), None)
    return MachineFinding("C++ compiler", found or "none; only torch.compile needs one")


def compiled_loops() -> MachineFinding:
    """Return whether numba compiles the loops of models on the CPU."""
    from lrbench.kernels.choice import SWITCH, installed, wanted

    if not installed():
        return MachineFinding("compiled loops", "none: torch's take their place (extra fast)")
    if not wanted():
        return MachineFinding("compiled loops", f"off: {SWITCH}=0")
    wrong = _attempt(lambda: import_module("numba"))
    fix = f"install numba again, or do without: {SWITCH}=0"
    return MachineFinding("compiled loops", f"by numba {_version('numba')}{wrong}", wrong and fix)


def kernels() -> Iterator[MachineFinding]:
    """Yield how many kernels proved themselves on this machine, and each that did not."""
    if _attempt(lambda: import_module("torch")):
        return  # told by versions()
    from lrbench.runs.folder.environment import selfcheck
    from lrbench.trust import SWITCH

    found = selfcheck()
    if not found["on"]:
        yield MachineFinding("kernels", f"used unchecked: {SWITCH}=0")
        return
    wrong = found["not used"]
    unused = f", {len(wrong)} not used" if wrong else ""
    yield MachineFinding("kernels", f"{len(found['trusted'])} proved themselves here{unused}")
    for kernel, reason in wrong.items():
        yield MachineFinding("not used", f"{kernel}: {reason}")


def writable(runs: Path) -> MachineFinding:
    """Return whether runs can be written: a file is really written, and removed."""
    folder = runs.absolute()
    while not folder.exists():
        folder = folder.parent

    def write() -> None:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(TRIAL_BYTES))
            file.flush()
            os.fsync(file.fileno())

    wrong = _attempt(write)
    state = "writable" if runs.is_dir() else "can be made"
    text = f"'{runs}' {state}, {shutil.disk_usage(folder).free / GIB:,.1f} GiB free"
    fix = f"cannot write in {folder}: choose a folder with output_dir=DIR"
    return MachineFinding("runs", f"'{runs}'{wrong}" if wrong else text, wrong and fix)


def extras() -> Iterator[MachineFinding]:
    """Yield each optional extra, or how to get it."""
    for extra, distribution in EXTRAS.items():
        version = _version(distribution)
        get = f"not installed; checkout: pip install -e '.[{extra}]'"
        yield MachineFinding(f"extra {extra}", f"{distribution} {version}" if version else get)


def plugins() -> Iterator[MachineFinding]:
    """Yield each plugin with what it registers."""
    from lrbench.plugins import VARIABLE, load_plugins
    from lrbench.registry import BACKBONES, ENCODERS, MIXERS, TASKS

    try:
        loaded = load_plugins()
    except UserError as error:
        first, _, rest = str(error).partition("\n")
        yield MachineFinding("plugins", first, rest or f"mend it, or take it out of {VARIABLE}")
        return
    if not loaded:
        yield MachineFinding("plugins", "none")
    registries = (TASKS, MIXERS, ENCODERS, BACKBONES)
    for name, module in loaded.items():
        entries = [
            f"{registry.kind} {one.name}"
            for registry in registries
            for one in map(registry.get, registry.names())
            if f"{one.module}.".startswith(f"{module.__name__}.")
        ]
        yield MachineFinding(f"plugin {name}", f"registers {', '.join(entries) or 'nothing'}")


def _gradient(device: str) -> None:
    import torch

    x = torch.ones(8, 8, device=device, requires_grad=True)
    (x @ x).sum().backward()
    if x.grad is None or x.grad.sum().item() != 1024:
        raise RuntimeError("a product of ones has a wrong gradient")


def _version(distribution: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _attempt(body: Callable[[], object]) -> str:
    """Run `body`; return '' or ': ' and the first line of what went wrong."""
    try:
        body()
    except Exception as error:  # a doctor tells whatever it meets
        return f": {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return ""
