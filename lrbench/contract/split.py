"""A string in pieces, with the state carried over, gives what the whole string gives."""

from __future__ import annotations

import torch

from lrbench.contract.comparison import Comparison
from lrbench.contract.finding import Finding
from lrbench.contract.subject import Context, Factory, finest, tolerance, ways

PIECES = 12  # of `length_multiple` positions each; the cut comes after every one but the last


@torch.no_grad()
def splits_anywhere(make: Factory, context: Context) -> Finding:
    """Cut a string at every place a mixer can be cut at, in every mode."""
    dtype = finest(make)
    mixer = make(dtype=dtype)
    comparison = Comparison(tolerance(mixer, dtype))
    u = context.inputs(PIECES * mixer.length_multiple, dtype)
    for mode in ways(mixer):
        expected = mixer(u, None, mode)
        for cut in range(mixer.length_multiple, u.shape[1], mixer.length_multiple):
            head, carried = mixer(u[:, :cut], None, mode)
            tail, last = mixer(u[:, cut:], carried, mode)
            found = torch.cat([head, tail], dim=1), last
            comparison.add(f"{mode or 'default mode'}, cut after {cut}", found, expected)
    return comparison.finding("split", f"{PIECES - 1} cuts of T={u.shape[1]}")
