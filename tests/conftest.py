"""What every test stands on: one thread, the same examples each time, a folder of its own."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

from tests import programs

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

LAYERS = {
    "commands": ("bench", "benchmarks", "bundles", "cli", "contract", "publish", "sweeps"),
    "programs": ("end_to_end", "faults"),
}
FAST = "unit and not slow"
# Modules of units that take more than eight seconds; `make test-fast` leaves them out. In others
# a test of more than a second is marked where it stands.
SLOW = (
    "bundles/check/test_suite_entry.py",
    "certificates/test_images.py",
    "certificates/test_soundness.py",
    "certificates/test_tampering.py",
    "diagnosis/test_every_mixer.py",
    "encoders/test_contract.py",
    "encoders/trees/test_ebt_grc.py",
    "kernels/test_compiler.py",
    "kernels/test_products.py",
    "mixers/attention/test_transformer.py",
    "mixers/delta/test_exact_solutions.py",
    "mixers/mamba/test_exact_solutions.py",
    "mixers/rwkv/test_rwkv7.py",
    "mixers/structured/test_exact_solutions.py",
    "mixers/test_contract.py",
    "models/test_document.py",
    "models/exact/test_weights.py",
    "models/test_products.py",
    "net/test_fingerprints.py",
    "protocols/rir2023/test_trial.py",
    "protocols/suite/test_procedure.py",
    "report/runs/test_archive.py",
    "report/runs/test_damage.py",
    "runs/evaluate/test_table.py",
    "runs/train/test_validate.py",
    "scan/blocks/test_compiled_generated.py",
    "scan/blocks/test_perceptron_blocks.py",
    "scan/fused/test_algorithm.py",  # in triton's interpreter
    "scan/fused/test_compiles.py",
    "scan/fused/test_kernels.py",
    "scan/test_algorithms.py",
    "tasks/listops/test_splits.py",
    "test_adding_a_model.py",
    "test_adding_a_task.py",
    "test_adding_an_encoder.py",
    "plugins/test_plugins.py",
    "training/group/test_members.py",
    "training/group/test_processes.py",
    "training/group/test_side_by_side.py",
    "training/group/test_stacked.py",
    "training/test_hardening.py",
    "training/test_loop.py",
    "training/test_scoring.py",
    "trust/test_fused.py",
)

NUMBERS = count()

settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
settings.load_profile("deterministic")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Keep torch on one thread: several are slower here, and results depend on their number."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def kernels_are_trusted() -> None:
    """Take kernels for what they are, in programs as well; tests/trust checks that they check."""
    os.environ.setdefault("LRBENCH_SELFCHECK", "0")


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """Heed Ctrl-C: a suite started in the background ignores it, and so would what it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a test's own. pytest's reads the names of all others first, which is slow."""
    folder = tmp_path_factory.getbasetemp() / f"test{next(NUMBERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start each test in a folder of its own, so that a default `outputs/` is never the checkout's.

    Programs that a test starts there still find the package, installed or not. No plugin is left,
    nor a module from that folder: what is typed as a target of `foreign` becomes one for the
    process, and another test's file of the same name would not be imported.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    os.environ.pop("LRBENCH_PLUGINS", None)
    monkeypatch.setattr("lrbench.plugins._loaded", {})
    monkeypatch.chdir(tmp_path)
    before = dict(sys.modules)
    yield
    os.environ.pop("LRBENCH_PLUGINS", None)
    if sys.modules == before:  # as after most tests; thousands of modules are compared at once
        return
    here = str(tmp_path)
    for name, module in list(sys.modules.items()):
        if before.get(name) is module:  # nearly all of thousands
            continue
        if str(getattr(module, "__file__", None)).startswith(here):
            del sys.modules[name]


def pytest_collection_finish() -> None:
    """Look no more for garbage among what was imported and collected: it stays to the end."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """End the process that programs are forked from."""
    programs.close()


@pytest.fixture
def output_dir(tmp_path: Path) -> Path:
    """Where a test's runs go."""
    return tmp_path / "outputs"


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The released data beside the checkout; a test that needs it is skipped without."""
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED}: it holds released data that the project does not ship")
    return SHARED


@cache
def layer(path: Path) -> str:
    """Return the layer of a test file: unit, commands or programs.

    A folder of tests that nobody has put into a layer is of units.
    """
    folder = path.relative_to(ROOT / "tests").parts[0]
    return next((name for name, folders in LAYERS.items() if folder in folders), "unit")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over whole modules that `make test-fast` leaves out: reading them all takes a while."""
    if config.option.markexpr != FAST or ROOT / "tests" not in collection_path.parents:
        return None
    name = collection_path.relative_to(ROOT / "tests").as_posix()
    return True if name in SLOW or layer(collection_path) != "unit" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by layer, slow modules as slow; skip those marked `cuda` where there is no GPU.

    Of workers side by side none is left with a long module at the end: these come first.
    """
    slow = {ROOT / "tests" / name for name in SLOW}
    assert all(path.is_file() for path in slow), "tests/conftest.py, SLOW: a module has moved"
    for item in items:
        item.add_marker(getattr(pytest.mark, layer(item.path)))
        if item.path in slow:
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: layer(item.path) == "unit" and item.path not in slow)
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))
