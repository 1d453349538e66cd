"""Run every check on one registered encoder; what its code raises is a failure, not a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from lrbench.contract.encoder_gradients import (
    gradients_are_derivatives,
    gradients_reach_everything,
)
from lrbench.contract.encoder_learning import learns_by_heart
from lrbench.contract.encoder_numbers import (
    cuda_equals_cpu,
    keeps_shape_and_dtype,
    single_agrees,
)
from lrbench.contract.encoder_padding import (
    ignores_masked_numbers,
    ignores_padding,
    keeps_strings_apart,
    reads_strings_alone,
)
from lrbench.contract.encoder_randomness import (
    draws_from_the_generator,
    seed_determines,
    state_dict_is_whole,
)
from lrbench.contract.encoder_subject import Factory, Strings, factory_of
from lrbench.contract.finding import Finding, raised
from lrbench.contract.settings import model_settings
from lrbench.encoders.base import Encoder
from lrbench.errors import UserError
from lrbench.registry import ENCODERS

Check = Callable[[Factory, Strings], Finding]

ENCODER_CHECKS: dict[str, Check] = {
    "shape, dtype": keeps_shape_and_dtype,
    "mask": ignores_masked_numbers,
    "padding": ignores_padding,
    "alone": reads_strings_alone,
    "strings apart": keeps_strings_apart,
    "gradients": gradients_reach_everything,
    "derivative": gradients_are_derivatives,
    "determinism": seed_determines,
    "randomness": draws_from_the_generator,
    "checkpoint": state_dict_is_whole,
    "single": single_agrees,
    "by heart": learns_by_heart,
    "cuda": cuda_equals_cpu,
}


def run_encoder_contract(
    name: str,
    overrides: Iterable[str] = (),
    tell: Callable[[Finding], None] = lambda finding: None,
) -> list[Finding]:
    """Examine the encoder registered as `name`; `tell` is called with each finding as it is made.

    `overrides` are words such as model.width=32 or model.encoder.dropout=0.2. Raises UserError for
    an unknown name or setting, or settings that a built-in encoder refuses.
    """
    model = model_settings(name, overrides)
    make, strings = factory_of(model), Strings(model.width)
    findings = [_build(name, make, model.width)]
    tell(findings[0])
    if findings[0].passed:
        for title, check in ENCODER_CHECKS.items():
            findings.append(_guarded(title, check, make, strings))
            tell(findings[-1])
    return findings


def _build(name: str, make: Factory, width: int) -> Finding:
    """Construct the encoder once: the other checks need one."""
    try:
        encoder: object = make(dtype=torch.float32)
    except UserError:
        raise
    except Exception as error:
        if isinstance(error, ValueError) and ENCODERS.get(name).builtin:
            raise UserError(str(error)) from error  # settings that do not go together
        return raised("build", error)
    if not isinstance(encoder, Encoder):
        kind = type(encoder).__name__
        return Finding("build", False, f"{kind} is not a subclass of lrbench.encoders.base.Encoder")
    parameters = sum(p.numel() for p in encoder.parameters() if p.requires_grad)
    return Finding("build", True, f"width {width}, {parameters:,} parameters")


def _guarded(name: str, check: Check, make: Factory, strings: Strings) -> Finding:
    try:
        return check(make, strings)
    except Exception as error:
        return raised(name, error)
