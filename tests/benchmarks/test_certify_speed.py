"""A search of a model that is never wrong goes as far as its budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import certify_speed
from lrbench.certificates.witness import SearchBudget
from lrbench.cli.hydra.compose import composed
from lrbench.tasks import make_task
from lrbench.training.trial import model_for

SMALL = ["--complete", "60", "--families", "10", "--beam", "3", "--longest", "12"]


def test_it_is_right_in_pieces_and_as_a_whole() -> None:
    config = composed(["task=even_pair", "model=gru", "model.width=4", "model.layers=1"])
    task = make_task(config.task)
    machine = task.machine()
    assert machine is not None
    model = certify_speed.Right(model_for(config, task, 0), machine).eval()
    tokens = torch.randint(0, 2, (20, 9), generator=torch.Generator().manual_seed(0))
    whole, _ = model(tokens, read="last")
    _, state = model(tokens[:, :4], read="last")
    pieces, _ = model(tokens[:, 4:], state, read="last")
    right = [machine.answers[machine.walk(word)[-1]] for word in tokens.tolist()]
    assert whole.argmax(1).tolist() == pieces.argmax(1).tolist() == right
    torch.testing.assert_close(whole, pieces)
    assert len(whole.unique()) > 2, "the model's own logits order strings"


def test_numbers_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(certify_speed, "RESULTS", tmp_path)
    certify_speed.main(["--models", "rnn", *SMALL, "--write"])
    assert capsys.readouterr().out.splitlines()[1].startswith("rnn ")
    (row,) = json.loads((tmp_path / "certify_speed.json").read_text())["models"].values()
    assert (row["complete_to"], row["families_to"], row["beam_to"]) == (5, 12, 12)
    assert row["strings"] > 60 and row["seconds"] > 0
    found = certify_speed.measured("rnn", ["task=parity"], SearchBudget(60, 0, 0, 12))
    assert found["strings"] == 2 + 4 + 8 + 16 + 32
