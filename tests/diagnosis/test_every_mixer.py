"""Every built-in mixer can be looked into: steps, states and answers."""

from __future__ import annotations

import pytest
import torch

from lrbench.certificates.foretold import affine_steps
from lrbench.certificates.reader import SymbolReader
from lrbench.config import Config
from lrbench.diagnosis import extraction
from lrbench.diagnosis.dynamics import growth, spectra
from lrbench.diagnosis.extraction import extract
from lrbench.diagnosis.states import survey
from lrbench.models.build import build_model
from lrbench.registry import MIXERS, TASKS
from lrbench.schema import model_node
from lrbench.tasks import make_task
from tests.named_layers import named


@pytest.mark.parametrize("name", sorted(MIXERS.builtin_modules()))
def test_every_mixer_can_be_looked_into(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is taken for granted of a carried state: what cannot be said has its reason."""
    monkeypatch.setattr(extraction, "STRINGS", 40)
    task = make_task(TASKS.get("mod_arith").config(modulus=2))
    machine = task.machine()
    assert machine is not None
    node = named(model_node(name)(width=8, layers=2))
    if getattr(node.mixer, "state_size", None):  # what each number of a layer has: 64 in S4
        node.mixer.state_size = 4
    model = build_model(Config(model=node), 5, 2, seed=1).eval()
    found = survey(model, task, machine, [5, 9], task.stream(0, "test"), strings=8)
    fixed = model.state_size is not None
    assert len(found.lengths[1].layers) == (len(model.stateful) if fixed else 0)
    grown = growth(model, machine, lengths=(1, 2))
    assert (grown == "the state grows with the string") == (not fixed)
    steps = affine_steps(SymbolReader(model), machine.symbols, of_several=True)
    if not isinstance(steps, str):
        assert len(spectra(steps, 2)) == machine.symbols
    extracted = extract(model, machine, most_states=20)
    with torch.no_grad():
        word = extracted.distinguishing
        if word is not None and extracted.given is not None:
            logits, _ = model(torch.tensor([word]))
            assert int(logits[0, -1].argmax()) == extracted.given
