"""Run every check on one registered mixer; what its code raises is a failure, not a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from lrbench.contract.causality import is_causal, keeps_strings_apart
from lrbench.contract.determinism import seed_determines, state_dict_is_whole
from lrbench.contract.devices import cuda_equals_cpu
from lrbench.contract.finding import Finding, raised
from lrbench.contract.gradients import gradients_agree, gradients_are_derivatives
from lrbench.contract.groups import runs_as_a_group
from lrbench.contract.modes import modes_agree, modes_agree_in_single
from lrbench.contract.settings import model_settings
from lrbench.contract.shapes import keeps_shape_and_dtype
from lrbench.contract.split import splits_anywhere
from lrbench.contract.stability import is_finite, state_growth
from lrbench.contract.state_size import state_size_is_constant
from lrbench.contract.subject import Context, Factory, factory_of
from lrbench.contract.symbols import symbols_equal_inputs
from lrbench.errors import UserError
from lrbench.mixers.base import Mixer
from lrbench.registry import MIXERS

Check = Callable[[Factory, Context], Finding]

CHECKS: dict[str, Check] = {
    "shape, dtype": keeps_shape_and_dtype,
    "modes": modes_agree,
    "modes, single": modes_agree_in_single,
    "split": splits_anywhere,
    "gradients": gradients_agree,
    "derivative": gradients_are_derivatives,
    "causality": is_causal,
    "strings apart": keeps_strings_apart,
    "finite": is_finite,
    "growth": state_growth,
    "state size": state_size_is_constant,
    "symbols": symbols_equal_inputs,
    "determinism": seed_determines,
    "checkpoint": state_dict_is_whole,
    "vmap": runs_as_a_group,
    "cuda": cuda_equals_cpu,
}


def run_contract(
    name: str,
    overrides: Iterable[str] = (),
    tell: Callable[[Finding], None] = lambda finding: None,
) -> list[Finding]:
    """Examine the mixer registered as `name`; `tell` is called with each finding as it is made.

    `overrides` are words such as model.width=32 or model.mixer.p=2. Raises UserError for an
    unknown name or setting, or settings that a built-in mixer refuses.
    """
    model = model_settings(name, overrides)
    make, context = factory_of(model), Context(model.width)
    findings = [_build(name, make, model.width)]
    tell(findings[0])
    if findings[0].passed:
        for title, check in CHECKS.items():
            findings.append(_guarded(title, check, make, context))
            tell(findings[-1])
    return findings


def _build(name: str, make: Factory, width: int) -> Finding:
    """Construct the mixer once: the other checks need one."""
    try:
        mixer: object = make(dtype=torch.float32)
    except UserError:
        raise
    except Exception as error:
        if isinstance(error, ValueError) and MIXERS.get(name).builtin:
            raise UserError(str(error)) from error  # settings that do not go together
        return raised("build", error)
    if not isinstance(mixer, Mixer):
        kind = type(mixer).__name__
        return Finding("build", False, f"{kind} is not a subclass of lrbench.mixers.base.Mixer")
    parameters = sum(p.numel() for p in mixer.parameters() if p.requires_grad)
    return Finding("build", True, f"width {width}, {parameters:,} parameters")


def _guarded(name: str, check: Check, make: Factory, context: Context) -> Finding:
    try:
        return check(make, context)
    except Exception as error:
        return raised(name, error)
