"""docs/models.md says of every built-in model how many parameters and numbers of state it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.models.build import build_model, count_parameters
from lrbench.registry import ENCODERS, MIXERS
from lrbench.tasks import make_task
from lrbench.training.trial import model_for
from tests.named_layers import words

ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \|.*\| ([\d, ]+) \| ([\w, ]+) \|$", re.M)


def reported(root: Path) -> dict[str, tuple[str, str]]:
    """Return {model: (parameters, state)} as the document prints them."""
    found = {}
    for names, parameters, states in ROW.findall((root / "docs" / "models.md").read_text()):
        models = re.findall(r"\w+", names)
        counts = re.findall(r"\d+(?:,\d{3})*", parameters)
        sizes = re.findall(r"\d+(?:,\d{3})*|grows", states)
        found |= {m: (c, s) for m, c, s in zip(models, counts, sizes, strict=True)}
    return found


def test_every_model_is_in_the_document(root: Path) -> None:
    assert set(reported(root)) == {name for name in MIXERS if MIXERS.get(name).builtin}


@pytest.mark.parametrize("name", [name for name in MIXERS if MIXERS.get(name).builtin])
def test_its_sizes_are_reported(name: str, root: Path) -> None:
    model = build_model(composed(words(name)), symbols=5, classes=5, seed=0)
    size = "grows" if model.state_size is None else f"{model.state_size:,}"
    assert reported(root)[name] == (f"{count_parameters(model):,}", size)


ENCODER_ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+|-) \|", re.M)


def test_every_encoder_is_in_the_document_with_its_size(root: Path) -> None:
    reported = dict(ENCODER_ROW.findall((root / "docs" / "models.md").read_text()))
    assert set(reported) == {name for name in ENCODERS if ENCODERS.get(name).builtin}
    for name, parameters in reported.items():
        config = composed(["task=listops", f"model={name}"])
        if parameters != "-":
            model = model_for(config, make_task(config.task), 0)
            assert f"{count_parameters(model):,}" == parameters
