"""Self-checks of kernels: no fast path is used on a machine before it has computed a known result.

The first time that a kernel is wanted, a child process computes a small case of it by that kernel
and the plain way, values and gradients, in the dtype and layout of the run (`child.py`, by the
table in `cases.py`). What came out is kept on disk for this machine and these versions
(`outcomes.py`). What differs, raises, crashes or takes too long is not used: one warning names it,
and the plain path, which every fast one has beside it, takes its place.

LRBENCH_SELFCHECK=0 trusts every kernel unchecked.
"""

from lrbench.trust.decision import SWITCH, checked, told, trusted
from lrbench.trust.outcomes import Kernel, TrustOutcome, all_found, find

__all__ = ["SWITCH", "Kernel", "TrustOutcome", "all_found", "checked", "find", "told", "trusted"]
