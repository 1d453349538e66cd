"""`lrbench bench selfcheck`: every kernel that could be used here, and whether it may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from lrbench.errors import UserError
from lrbench.kernels.choice import DTYPES, SWITCH, Means, covers, wanted
from lrbench.trust import Kernel, TrustOutcome, all_found, checked, find
from lrbench.trust.cases import CASES, LAYOUTS, MEANS


def check_dtype(name: str) -> str:
    """Return the name of a type of numbers that kernels are made for; UserError for another."""
    if name not in DTYPES.values():
        raise UserError(f"--dtype must be {' or '.join(DTYPES.values())}, not '{name}'", 2)
    return name


def check_all(
    dtype: str, device: torch.device, again: bool, tell: Callable[[str], None] = lambda line: None
) -> list[TrustOutcome]:
    """Return the outcome for a layout of each kernel, and for what runs asked for before.

    What was checked before is not checked again, unless `again` says so. Raises UserError where
    kernels are switched off.
    """
    if not wanted():
        raise UserError(f"{SWITCH}=0 switches all kernels off; leave it out")
    place = str(device)
    kernels = list(candidates(dtype, device))
    before = [outcome.kernel for outcome in all_found(place)]
    outcomes = []
    for kernel in dict.fromkeys(kernels + before):
        found = None if again else find(kernel)
        if found is None:
            tell(f"checking {kernel}")
        outcomes.append(found or checked(kernel))
    return outcomes


def candidates(dtype: str, device: torch.device) -> Iterator[Kernel]:
    """Yield a layout of each kernel that a device has."""
    here = torch.empty(0, dtype=getattr(torch, dtype), device=device)
    for name in CASES:
        if covers(MEANS.get(name, Means.NUMBA), here):
            yield Kernel(name, dtype, LAYOUTS.get(name, ()), str(device))
