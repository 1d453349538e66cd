from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from lrbench.cli.hydra.compose import composed
from lrbench.runs.evaluate.evaluation import evaluate_run
from lrbench.runs.train.job import run_cell
from lrbench.training.subnormals import are_flushed, flushed
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
    hook = register_module_forward_pre_hook(lambda *_: seen.append(are_flushed()))
    try:
        [outcome] = run_cell(composed([*TINY, f"output_dir={tmp_path}"]))
        trained = len(seen)
        evaluate_run(outcome.folder, "15", "best", 8, "cpu")
    finally:
        hook.remove()
    assert 0 < trained < len(seen) and all(seen)
    assert not are_flushed()
