"""What stands later in a row changes no answer, to the last bit.

Batches whose rows end at places of their own (`LabelledTask.of_lengths`) have ordinary symbols
behind these ends, and no symbol that pads. So answers of mode `sequential`, one step a position,
must be the very same numbers whatever follows.
"""

from __future__ import annotations

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.registry import MIXERS
from lrbench.tasks import make_task
from lrbench.tasks.lengths import mixed_batch
from lrbench.tasks.stream import Stream
from lrbench.training.trial import model_for

BUILT_IN = [name for name in MIXERS if MIXERS.get(name).builtin]
SEQUENTIAL = [name for name in BUILT_IN if "sequential" in MIXERS.get(name).cls.modes]


def test_which_mixers_are_evaluated_symbol_by_symbol() -> None:
    """All but two, whose modes are all by chunks or transforms, and layers that have no step.

    Those round differently.
    """
    assert set(BUILT_IN) - set(SEQUENTIAL) == {"foreign", "lmu_gated", "lmu_parallel"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEQUENTIAL)
def test_later_symbols_cannot_matter(name: str) -> None:
    arguments = ["task=nnch_parity_check", f"model={name}", "model.width=16", "model.layers=2"]
    config = composed(arguments)
    task = make_task(config.task)
    model = model_for(config, task, 0).eval()
    batch = mixed_batch(task, Stream.named(0, "train"), 1, 8, (1, 24), "row", "cpu")
    behind = torch.arange(batch.tokens.shape[1]) >= batch.lengths[:, None]
    assert behind.any(1).sum() >= 6
    other = torch.where(behind, (batch.tokens + 1) % len(task.vocabulary), batch.tokens)
    with torch.no_grad():
        here, there = (model(tokens, mode="sequential")[0] for tokens in (batch.tokens, other))
    row = torch.arange(len(here))
    ends = batch.lengths - 1
    assert (batch.counted.nonzero()[:, 1] == ends).all()
    assert torch.equal(here[row, ends], there[row, ends])
    assert not torch.equal(here, there)
