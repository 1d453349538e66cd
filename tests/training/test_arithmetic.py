"""Runs compute in full float32, and take subnormal numbers for zero."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from lrbench.cli.hydra.compose import composed
from lrbench.runs.evaluate.evaluation import evaluate_run
from lrbench.runs.train.job import run_cell
from lrbench.training.arithmetic import are_flushed, flushed, full_float32
from tests.bundles.conftest import TINY

pytestmark = pytest.mark.skipif(
    not torch.set_flush_denormal(False), reason="a processor that cannot flush subnormal numbers"
)


def test_they_count_as_zero_inside_and_nowhere_else() -> None:
    small = torch.full((4, 4), 2.0**-130)
    for _ in range(2):
        with flushed():
            with flushed():
                assert are_flushed()
            assert are_flushed()
            assert (small @ torch.eye(4)).abs().max() == 0
        assert not are_flushed()
        assert ((small @ torch.eye(4)) == small).all()


def test_an_error_leaves_the_processor_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), flushed():
        raise ZeroDivisionError
    assert not are_flushed()


def test_threads_started_inside() -> None:
    with flushed(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(are_flushed).result()


def test_runs_are_trained_examined_and_evaluated_so(tmp_path: Path) -> None:
    seen: list[bool] = []
    hook = register_module_forward_pre_hook(
        lambda *_: seen.append(are_flushed() and not torch.backends.cudnn.allow_tf32)
    )
    try:
        [outcome] = run_cell(composed([*TINY, f"output_dir={tmp_path}"]))
        trained = len(seen)
        evaluate_run(outcome.folder, "15", "best", 8, "cpu")
    finally:
        hook.remove()
    assert 0 < trained < len(seen) and all(seen)
    assert not are_flushed() and torch.backends.cudnn.allow_tf32


@pytest.fixture
def as_before() -> Iterator[None]:
    """Put torch's settings back, whatever a test does to them."""
    cudnn = torch.backends.cudnn.allow_tf32
    yield
    torch.backends.cudnn.allow_tf32 = cudnn
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("before", ["highest", "high", "medium"])
@pytest.mark.usefixtures("as_before")
def test_products_are_in_full_float32(before: str) -> None:
    torch.set_float32_matmul_precision(before)
    torch.backends.cudnn.allow_tf32 = True
    matmul = torch.backends.cuda.matmul.allow_tf32
    with full_float32():
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.backends.cudnn.allow_tf32
        assert not torch.backends.cuda.matmul.allow_tf32
    assert torch.get_float32_matmul_precision() == before
    assert torch.backends.cudnn.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == matmul


def test_the_last_thread_that_leaves_puts_the_settings_back() -> None:
    first, second = full_float32(), full_float32()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not torch.backends.cudnn.allow_tf32
    second.__exit__(None, None, None)
    assert torch.backends.cudnn.allow_tf32


NEWER = """
import torch
from operator import attrgetter
from lrbench.training.arithmetic import OPERATIONS, full_float32
now = lambda: [attrgetter(name)(torch.backends).fp32_precision for name in OPERATIONS]
torch.backends.cuda.matmul.fp32_precision = "tf32"
torch.backends.cudnn.conv.fp32_precision = "ieee"
before = now()
with full_float32():
    assert set(now()) == {"ieee"}, now()
assert now() == before != ["ieee"] * len(before), now()
"""


@pytest.mark.skipif(
    not hasattr(torch.backends.cudnn, "rnn"), reason="a torch without fp32_precision"
)
def test_settings_by_the_newer_names() -> None:
    """In a process of its own: torch refuses the older names from then on."""
    ended = subprocess.run([sys.executable, "-c", NEWER], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
