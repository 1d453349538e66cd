"""What every test stands on: one thread, the same examples each time, a folder of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
settings.load_profile("deterministic")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Keep torch on one thread: several are slower here, and results depend on their number."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """Heed Ctrl-C: a suite started in the background ignores it, and so would what it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each test in a folder of its own, so that a default `outputs/` is never the checkout's.

    Programs that a test starts there still find the package, installed or not.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.delenv("LRBENCH_PLUGINS", raising=False)
    monkeypatch.chdir(tmp_path)


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `cuda` where there is no GPU."""
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))
