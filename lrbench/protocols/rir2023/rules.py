"""Rules of a run over a corpus: the best dev score, and the last; patience and plateaus.

    best   the best dev score: the lowest loss, or the highest accuracy
    last   the last look

A score is better if it is so by more than 1e-4; what `plateau` compares is relative (torch's
ReduceLROnPlateau, mode max: a loss counts as its negative), as in the released code.

Differences: accuracies are percentages there, so that any gain is more than 1e-4. Here one string
of more than 10,000 is not (of listops' dev splits, with 1,000 and 2,000, it is; logic's has 13,552,
where in the published runs no look was better by one string alone). A dev loss is the mean over
strings; there over batches, of which the last is smaller.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from lrbench.protocols.rir2023.declaration import Rir2023
from lrbench.records import Look
from lrbench.training.trial import Rules

BETTER = 1e-4
FACTOR, PATIENCE = 0.5, 2  # of the plateau schedule


class DevRules(Rules):
    """The looks believed so far, epochs without a better score, and what the rate is reduced to."""

    def __init__(self, kept: dict[str, Look] | None = None, select_by: str = "loss") -> None:
        super().__init__(kept)
        self.select_by = select_by
        self.waited = 0
        self._rate = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        self._plateau = ReduceLROnPlateau(self._rate, mode="max", factor=FACTOR, patience=PATIENCE)

    @property
    def reduction(self) -> float:
        """What is left of the learning rate."""
        left: float = self._rate.param_groups[0]["lr"]
        return left

    def score(self, look: Look) -> float:
        """Return the dev score of a look; more is better."""
        if self.select_by == "loss":
            return -float(look["validation_loss"])
        return float(look["validation_accuracy"])

    def consider(self, look: Look) -> list[str]:
        score = self.score(look)
        best = self.kept.get("best")
        believed = ["last"]
        if best is None or score > self.score(best) + BETTER:
            believed, self.waited = list(Rir2023.rules), 0
        else:
            self.waited += 1
        self._plateau.step(score)
        self.kept.update(dict.fromkeys(believed, look))
        return believed

    def selection(self) -> dict[str, Any]:
        """Return what a checkpoint keeps beside the looks: the patience and plateaus so far."""
        return {
            "waited": self.waited,
            "reduction": self.reduction,
            "plateau": {
                key: value
                for key, value in self._plateau.state_dict().items()
                if isinstance(value, int | float)
            },
        }

    @classmethod
    def restored(cls, kept: dict[str, Look], selection: dict[str, Any], select_by: str) -> DevRules:
        """Return rules as a checkpoint kept them."""
        rules = cls(kept, select_by=select_by)
        rules.waited = selection["waited"]
        rules._plateau.load_state_dict(selection["plateau"])
        rules._rate.param_groups[0]["lr"] = selection["reduction"]
        return rules
