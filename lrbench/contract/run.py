"""A run of all checks on one registered model; an exception in its code is a failed check."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from lrbench.contract.encoders import gradients as encoder_gradients
from lrbench.contract.encoders import learning, numbers, padding
from lrbench.contract.encoders import seeds as encoder_seeds
from lrbench.contract.finding import Finding, raised
from lrbench.contract.mixers import (
    causality,
    devices,
    gradients,
    groups,
    long,
    modes,
    seeds,
    state,
    training,
    twins,
)
from lrbench.contract.subject import (
    PaddedStrings,
    context_for,
    encoder_factory,
    mixer_factory,
    model_settings,
)
from lrbench.encoders.base import Encoder
from lrbench.errors import UserError
from lrbench.mixers.base import Mixer
from lrbench.registry import ENCODERS, FOREIGN, MIXERS, Registry

Check = Callable[[Any, Any], Finding]  # of a factory of models, and what makes their inputs

CHECKS: dict[str, Check] = {
    "shape, dtype": modes.keeps_shape_and_dtype,
    "modes": modes.modes_agree,
    "modes, single": modes.modes_agree_in_single,
    "split": modes.splits_anywhere,
    "gradients": gradients.gradients_agree,
    "derivative": gradients.gradients_are_derivatives,
    "parameters": gradients.gradients_reach_parameters,
    "causality": causality.is_causal,
    "strings apart": causality.keeps_strings_apart,
    "training": training.trains_what_is_tested,
    "randomness": training.draws_nothing_global,
    "long strings": long.holds_at_length,
    "finite": state.is_finite,
    "growth": state.state_growth,
    "state size": state.state_size_is_constant,
    "symbols": modes.symbols_equal_inputs,
    "determinism": seeds.seed_determines,
    "checkpoint": seeds.state_dict_is_whole,
    "vmap": groups.runs_as_a_group,
    "threads": devices.threads_change_nothing,
    "cuda": devices.cuda_equals_cpu,
}
FURTHER: dict[str, dict[str, Check]] = {FOREIGN: {"twin": twins.equals_twin}}  # by model
ENCODER_CHECKS: dict[str, Check] = {
    "shape, dtype": numbers.keeps_shape_and_dtype,
    "mask": padding.ignores_masked_numbers,
    "padding": padding.ignores_padding,
    "alone": padding.reads_strings_alone,
    "strings apart": padding.keeps_strings_apart,
    "gradients": encoder_gradients.gradients_reach_everything,
    "derivative": encoder_gradients.gradients_are_derivatives,
    "determinism": encoder_seeds.seed_determines,
    "randomness": encoder_seeds.draws_from_the_generator,
    "checkpoint": encoder_seeds.state_dict_is_whole,
    "single": numbers.single_agrees,
    "by heart": learning.learns_by_heart,
    "cuda": numbers.cuda_equals_cpu,
}


@dataclass(frozen=True)
class Contract:
    """What models of one registry have to be, and what they are examined with and for."""

    registry: Registry
    base: type[nn.Module]
    factory: Callable[[Any], Callable[..., nn.Module]]  # of a `model` node
    inputs: Callable[[Any], Any]  # of a `model` node
    checks: dict[str, Check]


CONTRACTS = (
    Contract(MIXERS, Mixer, mixer_factory, context_for, CHECKS),
    Contract(
        ENCODERS, Encoder, encoder_factory, lambda model: PaddedStrings(model.width), ENCODER_CHECKS
    ),
)


def run_contract(
    name: str,
    overrides: Iterable[str] = (),
    tell: Callable[[Finding], None] = lambda finding: None,
) -> list[Finding]:
    """Examine the model registered as `name`; `tell` is called with each finding as it is made.

    `overrides` are words such as model.width=32, model.mixer.p=2 or model.encoder.dropout=0.2.
    Raises UserError for an unknown name or setting, or settings that a built-in model refuses.
    """
    model = model_settings(name, overrides)
    contract = next(one for one in CONTRACTS if name in one.registry)
    make, inputs = contract.factory(model), contract.inputs(model)
    findings = [_build(contract, name, make, model.width)]
    tell(findings[0])
    if findings[0].passed:
        for title, check in {**contract.checks, **FURTHER.get(name, {})}.items():
            findings.append(_guarded(title, check, make, inputs))
            tell(findings[-1])
    return findings


def _build(contract: Contract, name: str, make: Callable[..., nn.Module], width: int) -> Finding:
    """Construct the model once: the other checks need one."""
    try:
        model = make(dtype=torch.float32)
    except UserError:
        raise
    except Exception as error:
        if isinstance(error, ValueError) and contract.registry.get(name).builtin:
            raise UserError(str(error)) from error  # settings that do not go together
        return raised("build", error)
    if not isinstance(model, contract.base):
        base = f"{contract.base.__module__}.{contract.base.__name__}"
        return Finding("build", False, f"{type(model).__name__} is not a subclass of {base}")
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return Finding("build", True, f"width {width}, {parameters:,} parameters")


def _guarded(name: str, check: Check, make: Callable[..., nn.Module], inputs: Any) -> Finding:
    try:
        return check(make, inputs)
    except Exception as error:
        return raised(name, error)
