"""A layer of a library beside its twin, without the other checks of the contract."""

from __future__ import annotations

from lrbench.contract.finding import Finding
from lrbench.contract.mixers.twins import equals_twin
from lrbench.contract.subject import context_for, mixer_factory, model_settings


def twin(target: str, args: str = "{}") -> Finding:
    """Return what the contract's check of twins finds of a layer with these arguments."""
    model = model_settings("foreign", [f"model.mixer.target={target}", f"model.mixer.args={args}"])
    return equals_twin(mixer_factory(model), context_for(model))
