"""The example of docs/adding-an-encoder.md is an encoder: it is checked and trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.made_up_corpora import write as write_corpora
from tests.pages import commands, lrbench, printed, write

PAGE = "adding-an-encoder"


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(PAGE, "averages.py", tmp_path)
    check, train = commands(PAGE, "LRBENCH_PLUGINS=averages ")
    output = lrbench(tmp_path, *check, plugins="averages").splitlines()
    assert output[-1] == printed(PAGE, "averages:")[-1] or torch.cuda.is_available()
    assert not any(line.startswith("FAILED") for line in output)
    monkeypatch.setenv("LRBENCH_DATA", str(write_corpora(tmp_path / "data")))
    small = ["protocol.max_steps=2", "protocol.batch_size=4", "protocol.test_splits=[dev]"]
    assert "averages" in lrbench(tmp_path, *train, *small, plugins="averages")
