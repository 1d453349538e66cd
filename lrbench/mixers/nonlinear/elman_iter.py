"""n iterations of an Elman network as a model of its own, with free or tied matrices.

Su, kexue.fm 9783, Eq. 3 and 5, cut off after n = `iterations` (`truncated.py`):

    elman_plain_iter    x^i_k = A (x^i_{k-1} - x^{i-1}_{k-1}) + tanh(A x^{i-1}_{k-1} + u_k)
    elman_taylor_iter   the same with diag(sech^2 u_k) A for the first A

f, A and u_k as in `elman.py`. Nothing keeps A's spectral radius below one: states may grow on
strings that are longer than those of training.
"""

from __future__ import annotations

from lrbench.mixers.nonlinear.elman import ElmanWeights
from lrbench.mixers.nonlinear.fixed_point_surrogates import SURROGATES
from lrbench.mixers.nonlinear.truncated import IteratedMixer, IterConfig
from lrbench.registry import register_mixer


@register_mixer("elman_plain_iter", IterConfig, "n iterations with A (Su 2023)", "bare")
class ElmanPlainIter(ElmanWeights, IteratedMixer):
    """n iterations with A at every position (Su 2023, Eq. 3)."""

    surrogate = SURROGATES["plain"]


@register_mixer("elman_taylor_iter", IterConfig, "n iterations with sech^2(u) A (Su 2023)", "bare")
class ElmanTaylorIter(ElmanWeights, IteratedMixer):
    """n iterations with the Jacobians at x = 0 (Su 2023)."""

    surrogate = SURROGATES["taylor"]
