"""The gated recurrent unit of `gru_seed` with its states found in parallel.

Su, kexue.fm 9783, General Cases: `gru_plain_solve` takes (I + U_h / 2) / 2, the Jacobian where all
gates are a half, which is at h = 0 and u = 0; `gru_newton_solve` the Jacobians at each iterate
(Lim et al. 2024, DEER). Iteration and gradient: `fixed_point.py`, `solved.py`; the unit and its
Jacobian: `gru_seed.py`.
"""

from __future__ import annotations

from lrbench.mixers.nonlinear.fixed_point_surrogates import SURROGATES
from lrbench.mixers.nonlinear.gru_seed import GatedWeights
from lrbench.mixers.nonlinear.solved import SolveConfig, SolvedMixer
from lrbench.registry import register_mixer


@register_mixer("gru_plain_solve", SolveConfig, "gated unit, iterated with one matrix", "bare")
class GruPlainSolve(GatedWeights, SolvedMixer):
    """Gated unit, iterated with (I + U_h / 2) / 2 (Su 2023)."""

    surrogate = SURROGATES["plain"]


@register_mixer("gru_newton_solve", SolveConfig, "gated unit by DEER (Lim et al. 2024)", "bare")
class GruNewtonSolve(GatedWeights, SolvedMixer):
    """Gated unit, iterated with its Jacobians at each iterate (Lim et al. 2024)."""

    surrogate = SURROGATES["newton"]
