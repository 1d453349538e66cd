"""The layer that stands for `foreign` where every model is tried: torch's GRU, which needs naming.

`foreign` by itself is no model: it is one of a class that a user names.
"""

from __future__ import annotations

from typing import Any

from lrbench.mixers.foreign.target import with_named_target
from lrbench.registry import FOREIGN

TARGET = "torch.nn.GRU"
WIDTH_AS = ["input_size", "hidden_size"]
WORDS = (
    f"model.mixer.target={TARGET}",
    f"model.mixer.width_as=[{','.join(WIDTH_AS)}]",
    "model.mixer.args={batch_first: true}",
)


def words(model: str) -> list[str]:
    """Return what is typed for a model that can be built."""
    return [f"model={model}", *settings(model)]


def settings(model: str) -> list[str]:
    """Return the settings without which a model cannot be built: none but for `foreign`."""
    return list(WORDS) if model == FOREIGN else []


def named(node: Any) -> Any:
    """Return a `model` node that can be built."""
    if node.name == FOREIGN:
        node.mixer.target, node.mixer.width_as = TARGET, list(WIDTH_AS)
        node.mixer.args = {"batch_first": True}
    return with_named_target(node)
