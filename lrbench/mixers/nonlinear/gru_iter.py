"""n iterations of a gated recurrent unit as a model of its own.

Su, kexue.fm 9783, General Cases, cut off after n = `iterations` (`truncated.py`):

    h^i_k = A (h^i_{k-1} - h^{i-1}_{k-1}) + (1 - z) h^{i-1}_{k-1} + z c,   A = (I + U_h / 2) / 2

with z and c of h^{i-1}_{k-1} as in `gru_seed.py`.
"""

from __future__ import annotations

from lrbench.mixers.nonlinear.fixed_point_surrogates import SURROGATES
from lrbench.mixers.nonlinear.gru_seed import GatedWeights
from lrbench.mixers.nonlinear.truncated import IteratedMixer, IterConfig
from lrbench.registry import register_mixer


@register_mixer("gru_plain_iter", IterConfig, "n iterations of a gated unit (Su 2023)", "bare")
class GruPlainIter(GatedWeights, IteratedMixer):
    """n iterations of a gated unit with (I + U_h / 2) / 2 (Su 2023)."""

    surrogate = SURROGATES["plain"]
