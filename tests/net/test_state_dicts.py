"""Names and shapes of what every registered model keeps in a checkpoint.

Weights on disk are found by these names. `parameters.json` holds a digest for each model, by its
default settings and in each of the stacks; a new model adds its line, none changes one but with its
`version` (`rir_om` of version 2).
`python -m tests.net.test_state_dicts` prints what the file should hold.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import torch

from lrbench.config import Config
from lrbench.models.build import build_model
from lrbench.registry import BACKBONES, ENCODERS, MIXERS
from lrbench.schema import model_node
from tests.named_layers import named

KEPT = Path(__file__).with_name("parameters.json")
SYMBOLS, CLASSES = 7, 5
EVERYWHERE = "blockdiag"  # the mixer that stands in each backbone


def digest(model: torch.nn.Module) -> str:
    """Return the number of parameters, and a digest of names, shapes and types, in their order."""
    state = model.state_dict()
    reported = [f"{name} {tuple(value.shape)} {value.dtype}" for name, value in state.items()]
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return f"{count} {sha256(chr(10).join(reported).encode()).hexdigest()[:16]}"


def digests() -> dict[str, str]:
    """Return the digest of every built-in model, by a name that says how it was made."""
    found = {}
    for name in MIXERS.builtin_modules():
        found[name] = digest(built(name))
    for stack in BACKBONES.builtin_modules():
        found[f"{EVERYWHERE} in {stack}"] = digest(built(EVERYWHERE, stack))
    found[f"{EVERYWHERE} of numbers"] = digest(built(EVERYWHERE, features=1))
    for name in ENCODERS.builtin_modules():
        for sides in (1, 2):
            found[f"{name} of {sides}"] = digest(built(name, sides=sides))
    return found


def built(
    name: str, stack: str | None = None, features: int = 0, sides: int = 1
) -> torch.nn.Module:
    config = Config(model=named(model_node(name, stack)()))
    return build_model(config, SYMBOLS, CLASSES, seed=0, features=features, sides=sides)


def test_names_and_shapes_are_as_they_were() -> None:
    kept, now = json.loads(KEPT.read_text()), digests()
    assert {name: now.get(name) for name in kept} == kept
    assert sorted(set(now) - set(kept)) == [], "a new model: add its line to parameters.json"


if __name__ == "__main__":
    print(json.dumps(digests(), indent=1))
