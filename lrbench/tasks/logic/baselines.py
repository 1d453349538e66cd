"""What predictors that cannot infer reach on a split of logic: numbers to hold models against."""

from __future__ import annotations

import numpy as np

from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic.vocabulary import RELATIONS


def baselines(train: Strings, test: Strings) -> dict[str, float]:
    """Return accuracies on `test`: `uniform` guesses, `majority` says the commonest of `train`.

    A lookup of what both formulas are at their roots (variable, and, or, not) never says anything
    but the commonest relation `#`, so it is no third one.
    """
    commonest = np.bincount(train.labels, minlength=len(RELATIONS)).argmax()
    return {
        "uniform": 1 / len(RELATIONS),
        "majority": float(np.mean(test.labels == commonest)),
    }
