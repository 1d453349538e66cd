"""Adding rows to rows chosen by number: torch's `index_add_`, or compiled."""

from __future__ import annotations

from torch import Tensor

from lrbench.scan.compiled.compiler import DTYPES, array, usable

WIDTHS = (16, 8)  # how many features the compiled loop may take at a time


def add_rows(target: Tensor, index: Tensor, source: Tensor) -> None:
    """Add row i of source (m, d) to row index[i] of target (M, d), in place.

    index (m,) may name a row more than once; target is contiguous.
    """
    wide = next((wide for wide in WIDTHS if target.shape[1] % wide == 0), None)
    if wide is None or not usable(target):
        target.index_add_(0, index, source)
        return
    from lrbench.scan.compiled.scans.row_sums import add_rows_loop

    loop = add_rows_loop(wide, DTYPES[target.dtype])
    loop(target.detach().numpy(), array(index), array(source))
