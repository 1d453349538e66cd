"""The README's example of a model is a model: it registers, runs, and its modes agree."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lrbench.registry import MIXERS


@pytest.fixture
def mine(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    example = re.search(r"^```python\n(.*?)^```", (root / "README.md").read_text(), re.M | re.S)
    assert example
    (tmp_path / "mine.py").write_text(example[1])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(MIXERS, "_entries", dict(MIXERS._entries))
    yield importlib.import_module("mine")
    del sys.modules["mine"]


def test_example_model_is_causal_and_its_modes_agree(mine: ModuleType) -> None:
    entry = MIXERS.get("mine")
    torch.manual_seed(0)
    mixer = entry.cls(entry.config(), 8).double()
    u = torch.randn(2, 13, 8, dtype=torch.float64)
    outputs = {mode: mixer(u, mode=mode)[0] for mode in mixer.modes}
    for y in outputs.values():
        torch.testing.assert_close(y, outputs["reference"], rtol=1e-9, atol=1e-12)
    y, state = mixer(u[:, :6])
    rest, _ = mixer(u[:, 6:], state)
    torch.testing.assert_close(torch.cat([y, rest], 1), outputs["reference"])
    assert state[0].numel() == mixer.state_size
