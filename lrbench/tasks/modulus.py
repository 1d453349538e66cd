"""The one check that every task over the integers mod M makes of its M."""

from __future__ import annotations

from typing import Any

from omegaconf import MISSING

LARGEST = 10_000  # keeps every product of two residues, and sums of them, far inside int64


def check_modulus(modulus: Any) -> None:
    """Raise ValueError unless `modulus` is an integer from 2 to 10,000 (or not given yet)."""
    if modulus == MISSING:  # OmegaConf's "???"
        return
    if isinstance(modulus, bool) or not isinstance(modulus, int) or modulus < 2:
        raise ValueError(f"task.modulus must be an integer >= 2, not {modulus}")
    if modulus > LARGEST:
        raise ValueError(f"task.modulus must be at most {LARGEST}, not {modulus}")
