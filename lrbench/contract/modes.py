"""Every mode computes what a loop over `step` computes, up to rounding."""

from __future__ import annotations

import torch

from lrbench.contract.comparison import Comparison
from lrbench.contract.finding import Finding, not_applicable
from lrbench.contract.passes import by_reference, reference_name
from lrbench.contract.subject import Context, Factory, finest, shown, tolerance, ways, whole

LENGTHS = (1, 2, 3, 7, 40, 129)


def modes_agree(make: Factory, context: Context) -> Finding:
    """Compare outputs and last states in the finest dtype, relative to the largest number."""
    return _compare("modes", make, context, finest(make), 1e-30)


def modes_agree_in_single(make: Factory, context: Context) -> Finding:
    """Compare the same in float32: within 1e-4 for numbers of order one."""
    declared = make(dtype=torch.float32).dtypes
    if torch.float32 not in declared or torch.float64 not in declared:
        return not_applicable("modes, single", "float32 is not declared beside float64")
    return _compare("modes, single", make, context, torch.float32, 1.0)


@torch.no_grad()
def _compare(
    name: str, make: Factory, context: Context, dtype: torch.dtype, floor: float
) -> Finding:
    mixer = make(dtype=dtype)
    comparison = Comparison(tolerance(mixer, dtype), floor)
    lengths = sorted({whole(length, mixer) for length in LENGTHS})
    for length in lengths:
        u = context.inputs(length, dtype)
        expected = by_reference(mixer, u)
        for mode in ways(mixer):
            comparison.add(f"{mode or 'default mode'}, T={length}", mixer(u, None, mode), expected)
    return comparison.finding(
        name, f"{', '.join(mixer.modes)} against {reference_name(mixer)} in {shown(dtype)}"
    )
