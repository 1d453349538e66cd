"""The check of one program for several trials, before it trains them.

Whether a model's update may be evaluated for all trials at once and captured as a CUDA graph
depends on the model: a step that waits for the device or that forgets the member's axis may be
anybody's. So a copy of the first trials makes a few updates in both ways on the run's own strings.
Losses are compared; those of later updates depend on all weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from lrbench.training.group.stacked import WARM_UP, Stacked
from lrbench.training.procedure import make_trial
from lrbench.training.trial import BatchTrial, Trial
from lrbench.trust.decision import is_on, tell_of
from lrbench.trust.outcomes import Kernel, TrustOutcome

NAME = "stacked_update"
MEMBERS = 2
UPDATES = WARM_UP + 3  # a graph is captured after WARM_UP, and replayed for the rest
TOLERANCE = 1e-3  # of a loss, in float32, whose sums have another order


def proves_itself(trials: Sequence[Trial]) -> bool:
    """Tell whether trials can be trained as one program here; if not, stderr says why."""
    if not is_on():
        return True
    began, first = time.perf_counter(), trials[0]
    try:
        reason = difference(trials[:MEMBERS])
    except Exception as error:  # whatever a capture or a model raises is what is asked
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"[:200]
    layout = (first.config.model.name, len(trials))
    kernel = Kernel(NAME, first.dtype, layout, str(first.device))
    outcome = TrustOutcome(kernel, reason, time.perf_counter() - began)
    tell_of(outcome)
    return outcome.trusted


def difference(trials: Sequence[Trial]) -> str:
    """Return how copies of trials differ that are trained as one program and alone; or nothing."""
    together, alone = (
        [make_trial(trial.config, trial.seed, trial.device) for trial in trials] for _ in range(2)
    )
    stack = Stacked([trial for trial in together if isinstance(trial, BatchTrial)])
    for update in range(1, UPDATES + 1):
        stack.update()
        for one, other in zip(together, alone, strict=True):
            other.update()
            found, expected = one.take_loss(), other.take_loss()
            if math.isnan(found) and math.isnan(expected):
                continue
            if not math.isclose(found, expected, rel_tol=TOLERANCE):
                return f"loss {found:.6g} instead of {expected:.6g} in update {update}"
    return ""
