"""The Elman network with its states found in parallel: four surrogates of its Jacobians.

Su, kexue.fm 9783: `elman_plain_solve` is Eq. 3 (A itself), `elman_taylor_solve` the first of
"Accelerating Convergence", `elman_newton_solve` the second, which is DEER (Lim et al. 2024);
`elman_quasi_solve` takes newton's diagonal (Gonzalez et al. 2024). Equations of the iteration stand
in `fixed_point.py`, of the network in `elman.py`; what is solved, and the gradient, is the same for
all (`solved.py`).

Differences: the post leaves open when to stop and what the gradient is. Its diagonalisation of A,
which loses nothing but changes what costs what, is not made.
"""

from __future__ import annotations

from lrbench.mixers.nonlinear.elman import ElmanWeights
from lrbench.mixers.nonlinear.fixed_point_surrogates import SURROGATES
from lrbench.mixers.nonlinear.solved import SolveConfig, SolvedMixer
from lrbench.registry import register_mixer


@register_mixer("elman_plain_solve", SolveConfig, "iterated with A (Su 2023)", "bare")
class ElmanPlainSolve(ElmanWeights, SolvedMixer):
    """Elman network, iterated with A at every position (Su 2023, Eq. 3)."""

    surrogate = SURROGATES["plain"]


@register_mixer("elman_taylor_solve", SolveConfig, "iterated with sech^2(u) A (Su 2023)", "bare")
class ElmanTaylorSolve(ElmanWeights, SolvedMixer):
    """Elman network, iterated with its Jacobians at x = 0 (Su 2023)."""

    surrogate = SURROGATES["taylor"]


@register_mixer("elman_newton_solve", SolveConfig, "Newton iteration: DEER (Lim 2024)", "bare")
class ElmanNewtonSolve(ElmanWeights, SolvedMixer):
    """Elman network, iterated with its Jacobians at each iterate (Lim et al. 2024)."""

    surrogate = SURROGATES["newton"]


@register_mixer("elman_quasi_solve", SolveConfig, "quasi-DEER (Gonzalez et al. 2024)", "bare")
class ElmanQuasiSolve(ElmanWeights, SolvedMixer):
    """Elman network, iterated with the diagonals of its Jacobians (Gonzalez et al. 2024)."""

    surrogate = SURROGATES["quasi"]
