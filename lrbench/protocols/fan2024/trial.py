"""A run of `fan2024`: batches of fresh strings of one length, and looks at longer ones.

A look is a short examination that rules choose between. It scores fresh strings at the first test
length at their final position (128 in the paper), a fixed validation set at the training length and
a fixed one spread over the band of lengths just beyond it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from lrbench.config import Config
from lrbench.kernels.cross_entropy import mean_cross_entropy
from lrbench.protocols.base import declared
from lrbench.protocols.fan2024.rules import LengthRules
from lrbench.records import Look
from lrbench.tasks.base import Batch, SampledTask
from lrbench.training.scoring import Score, pooled, score
from lrbench.training.trial import BatchTrial, Check

DRAWN_AT_ONCE = 1 << 16  # symbols: half a megabyte as int64, twelve updates of 128 strings of 40
BAND_LENGTHS = 16  # how many lengths stand for the band


class LengthTrial(BatchTrial):
    """A model in training on strings of one length."""

    task: SampledTask
    rules: LengthRules

    def __init__(self, config: Config, seed: int, device: torch.device | str = "cpu") -> None:
        super().__init__(config, seed, device)
        self.ahead: dict[int, Batch] = {}  # batches drawn for coming updates
        self.rules = self._new_rules()

    @property
    def steps(self) -> int:
        most: int = self.config.protocol.max_steps
        return most

    @property
    def look_due(self) -> bool:
        every: int = self.config.protocol.look_every
        return self.step % every == 0 or self.step == self.steps

    @property
    def read(self) -> str:
        """Every answer of a whole batch of long series is not made for one that is asked for."""
        only_last = self.task.features and self.config.protocol.supervision == "last"
        return "last" if only_last else "all"

    def batch(self, step: int) -> Batch:
        """Return the training strings of update `step`; draws those of some updates at once."""
        if step not in self.ahead:
            protocol = self.config.protocol
            size, length = protocol.batch_size, protocol.train_length
            symbols = size * self.task.positions(length)
            steps = range(step, step + max(1, DRAWN_AT_ONCE // symbols))
            drawn = self.task.samples(self.stream("train"), steps, size, length, self.device)
            self.ahead = dict(zip(steps, drawn, strict=True))
        return self.ahead[step]

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy over the supervised positions of a batch.

        Where a number is asked for, the mean squared error.
        """
        logits = logits[:, None] if logits.dim() == 2 else logits
        if self.config.protocol.supervision == "last":
            logits, targets = logits[:, -1:], targets[:, -1:]
        if not self.task.metric.counts:
            return mse_loss(logits[..., 0], targets.to(logits.dtype))
        by_class = logits.flatten(0, 1).T.contiguous()
        smoothing = self.config.optim.label_smoothing
        return mean_cross_entropy(by_class, targets.flatten(), smoothing)

    def look(self, check: Check) -> Look:
        """Examine it as it is now.

        What a task is scored by has its name: test_accuracy, or test_nrmse.
        """
        protocol, metric = self.config.protocol, self.task.metric.name
        length = protocol.test_lengths[0]
        stream = self.stream("look", length, self.step)
        test = score(
            self.model, self.task, stream, length, protocol.look_size, self.device, check=check
        )
        validation = self._score_set([protocol.train_length], check)
        beyond = self.band_lengths()
        again = beyond == [protocol.train_length]  # the same strings: series may be no longer
        band = validation if again else self._score_set(beyond, check)
        return {
            "step": self.step,
            "test_length": length,
            f"test_{metric}": test.value,
            "test_n": test.n,
            f"validation_{metric}": pooled(validation),
            "validation_loss": _loss(validation),
            "validation_n": sum(s.n for s in validation),
            f"band_{metric}": pooled(band),
            "band_loss": _loss(band),
            "band_n": sum(s.n for s in band),
            "seconds": self.seconds,
        }

    def band_lengths(self) -> list[int]:
        """Return up to `BAND_LENGTHS` valid lengths spread evenly over the band."""
        low, high = self.config.protocol.band
        valid = [length for length in range(low, high + 1) if self.task.valid_length(length)]
        if not valid:
            valid = [self.task.nearest_length(high)]
        count = min(BAND_LENGTHS, len(valid))
        return [valid[round(i * (len(valid) - 1) / max(1, count - 1))] for i in range(count)]

    def heed(self, look: Look) -> list[str]:
        believed = super().heed(look)
        if self.stopped != "diverged" and self._perfect(look) and self.perfect_look is None:
            self.perfect_look = {"step": self.step, "seconds": self.seconds}
        return believed

    def ending(self, look: Look) -> str | None:
        if self.config.protocol.stop == "perfect" and self._perfect(look):
            return "perfect"
        return super().ending(look)

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.rules = self._new_rules(state["rules"])

    def _new_rules(self, kept: dict[str, Look] | None = None) -> LengthRules:
        names = declared(self.config.protocol.name).rules
        return LengthRules(kept, self.task.metric, names)

    def _perfect(self, look: Look) -> bool:
        metric = self.task.metric
        return metric.perfect(look[f"test_{metric.name}"])

    def _score_set(self, lengths: list[int], check: Check) -> list[Score]:
        """Score validation strings, shared out over `lengths`: the same strings at every look."""
        n = self.config.protocol.validation_size
        shares = [n // len(lengths) + (i < n % len(lengths)) for i in range(len(lengths))]
        return [
            score(
                self.model,
                self.task,
                self.stream("validation", length),
                length,
                share,
                self.device,
                with_loss=True,
                check=check,
            )
            for length, share in zip(lengths, shares, strict=True)
            if share
        ]


def _loss(scores: list[Score]) -> float:
    return sum((s.loss or 0.0) * s.n for s in scores) / sum(s.n for s in scores)
