"""Check of long strings: a mixer is one function at every length, beyond any block or window.

The other checks read up to 129 positions. A leak, a cut gradient or a block that begins later is
seen only here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lrbench.contract.finding import Comparison, Finding
from lrbench.contract.passes import ALLOWED, gradients, loss, slope_error, trainable
from lrbench.contract.subject import SAME, Context, MixerFactory, finest, seeded, tolerance, whole
from lrbench.mixers.base import Mixer

NAME = "long strings"
PIECE, PIECES = 40, 10  # 400 positions
PUSH = 10.0
WIDEST = 1e-2  # what rounding may add up to where float64 is not declared


def holds_at_length(make: MixerFactory, context: Context) -> Finding:
    """Compare a long string with its pieces, gradients included.

    Where they differ, the middle is perturbed to say whether outputs before it change. A mixer
    whose state is all that it has read reads the whole string again for the last piece, and cuts
    what it cuts in both: its gradient is compared with finite differences.
    """
    dtype = finest(make)
    mixer, context = make(dtype=dtype), replace(context, batch=1)
    u = context.inputs(PIECES * whole(PIECE, mixer), dtype).requires_grad_()
    where, against = f"T={u.shape[1]}", f"a string against its {PIECES} pieces"
    within = tolerance(mixer, dtype)
    comparison = Comparison(within if dtype == torch.float64 else max(within, WIDEST))
    found, expected = mixer(u), _in_pieces(mixer, u)
    comparison.add(where, found, expected)
    finding = comparison.finding(NAME, against)
    if not finding.passed:
        return _leak(mixer, u.detach(), found[0]) or finding
    leaves = [u, *trainable(mixer).values()]
    slopes = gradients(_total(found[0]), leaves)
    comparison.add(f"{where}, gradients", slopes, gradients(_total(expected[0]), leaves))
    finding = comparison.finding(NAME, against)
    derives = mixer.state_size is None and mixer.exact_gradient and dtype == torch.float64
    if finding.passed and derives:
        return _wrong_slope(mixer, u, slopes[0]) or finding
    return finding


@torch.no_grad()
def _leak(mixer: Mixer, u: Tensor, expected: Tensor) -> Finding | None:
    """Return the failure of a mixer whose outputs depend on inputs after them."""
    middle = u.shape[1] // 2
    pushed = u.clone()
    pushed[:, middle] += PUSH
    comparison = Comparison(SAME.get(u.dtype, 1e-2))
    where = f"T={u.shape[1]}, input {middle + 1}"
    comparison.add(where, mixer(pushed)[0][:, :middle], expected[:, :middle])
    finding = comparison.finding(NAME, "outputs before a perturbed input")
    return None if finding.passed else finding


def _wrong_slope(mixer: Mixer, u: Tensor, slope: Tensor) -> Finding | None:
    """Return the failure of a mixer whose gradient of the inputs is not the derivative."""
    direction = torch.randn(u.shape, generator=seeded(1), dtype=u.dtype).to(u)
    size = max(float(slope.norm()), 1e-12)
    error = slope_error(lambda: loss(_total(mixer(u)[0])), u, slope, direction, size)
    if error <= ALLOWED:
        return None
    return Finding(
        NAME,
        False,
        f"gradient of the inputs at T={u.shape[1]} against finite differences:"
        f" error {error:.1e}; allowed {ALLOWED:g}",
    )


def _total(y: Tensor) -> Tensor:
    """Return a sum of outputs with random weights: none of a whole position is near zero."""
    return (y * torch.randn(y.shape, generator=seeded(2), dtype=y.dtype).to(y)).sum()


def _in_pieces(mixer: Mixer, u: Tensor) -> tuple[Tensor, Any]:
    state, outputs = None, []
    for piece in u.chunk(PIECES, 1):
        y, state = mixer(piece, state)
        outputs.append(y)
    return torch.cat(outputs, 1), state
