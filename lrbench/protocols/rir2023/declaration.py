"""`rir2023`: epochs over a corpus, early stopping on its dev split (Ray Chowdhury & Caragea 2023).

Source: arXiv:2311.04449, appendix, and the released code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeGuard

from lrbench.checks import between, one_of, shown
from lrbench.protocols.base import (
    MOST,
    MOST_LOOKS,
    LookValue,
    Protocol,
    ProtocolConfig,
    Selection,
    Settings,
)
from lrbench.records import added
from lrbench.registry import register_protocol

SELECTIONS = ("loss", "accuracy")
ORDERS = ("epoch", "bucket")


@dataclass
class Rir2023Config(ProtocolConfig):
    """`rir2023`: epochs over a corpus, a look at its dev split after each, early stopping.

    Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), appendix, and their released code. Training
    ends by `patience`, `epochs` or `max_steps`, whichever comes first.

    train_split: what is trained on. dev_split: what every look scores. test_splits: what is tested
    at the end. epochs: how often training goes through its split at most. max_steps: updates at
    most, too; unset no limit. patience: epochs without a better dev score before a run ends.
    select_by: the dev score that is believed. batch_size: strings of an update. micro_batch:
    strings computed at a time; unset all of an update. bucket: how many batches are sorted by
    length together. order: in which batches follow one another: `epoch`, all of an epoch in random
    order; `bucket`, those of a bucket in random order, one bucket after the other, as released.
    parts: into how many parts a batch is divided, each with dropout of its own. On a CPU as many
    are computed at once as the run has threads; that changes no bit if parts is threads or more.
    """

    name: str = "rir2023"
    train_split: str = "train"
    dev_split: str = "dev"
    test_splits: list[str] = field(default_factory=list)
    epochs: int = 100
    max_steps: int | None = None
    patience: int = 4
    select_by: str = "loss"
    batch_size: int = 128
    micro_batch: int | None = None
    bucket: int = 5
    order: str = added("epoch")
    parts: int = added(1)

    def __post_init__(self) -> None:
        for key in ("epochs", "max_steps", "batch_size", "micro_batch", "bucket", "parts"):
            between(f"protocol.{key}", getattr(self, key), 1, MOST)
        between("protocol.patience", self.patience, 0, MOST)
        between("protocol.epochs", self.epochs, 1, MOST_LOOKS)
        super().__post_init__()
        one_of("protocol.select_by", self.select_by, SELECTIONS)
        one_of("protocol.order", self.order, ORDERS)
        if self.parts > self.batch_size:
            raise ValueError(
                f"protocol.parts is {self.parts}, more than the strings of a batch,"
                f" protocol.batch_size={self.batch_size}"
            )
        splits = self.test_splits
        if isinstance(splits, list) and len(set(splits)) < len(splits):
            raise ValueError(f"protocol.test_splits names one twice: {shown(splits)}")

    @property
    def splits(self) -> list[str]:
        """The splits that a run reads, each once."""
        return list(dict.fromkeys((self.train_split, self.dev_split, *self.test_splits)))

    def updates_per_epoch(self, strings: int) -> int:
        """Return how many updates go once through a training split of so many strings."""
        return -(-strings // self.batch_size)

    def updates(self, strings: int) -> int:
        """Return how many updates a run on a training split of so many strings has at most."""
        most = self.epochs * self.updates_per_epoch(strings)
        return most if self.max_steps is None else min(most, self.max_steps)


@register_protocol("rir2023", Rir2023Config, "epochs over a corpus, by its dev split (RIR, 2023)")
class Rir2023(Protocol):
    """Epochs over a corpus, a look at its dev split after each; tested on whole splits."""

    axis = "split"
    rules: ClassVar[Mapping[str, str]] = {
        "best": "the checkpoint with the best dev score, which is the paper's rule: no test split"
        " has a say",
        "last": "the end of training, which is not the paper's rule",
    }
    paper = "rir2023"
    procedure = "lrbench.protocols.rir2023.procedure:Rir2023Procedure"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"select_by": SELECTIONS, "order": ORDERS}
    # not to become better for as many epochs as there can be must not end a run either
    whole_budget = f"protocol.patience={MOST_LOOKS}"
    untested = ("protocol.test_splits=[]",)
    ends_early = (
        "would end runs before their budget is used up\n"
        "tune trains every run for its whole budget: leave it out, and set protocol.epochs"
    )
    fixed_budget = (
        "over a corpus: every run has the same budget\n"
        "write protocol.epochs=N or protocol.max_steps=N without --grid"
    )

    def look_values(self, look: Mapping[str, Any], settings: Settings) -> list[LookValue]:
        split, n = str(settings.get("dev_split", "dev")), look.get("validation_n")
        return [
            LookValue(None, split, metric, look.get(f"validation_{metric}"), n)
            for metric in ("accuracy", "loss")
        ]

    def selection(self, settings: Settings) -> Selection:
        """The only rule that a dev score decides, by what decided during training."""
        return Selection(
            "best", settings.get("dev_split", "dev"), settings.get("select_by", "loss")
        )

    def most_updates(self, settings: Settings, look: Mapping[str, Any] | None) -> int | None:
        """Those of all epochs follow from a look, which tells its epoch."""
        most = super().most_updates(settings, look)
        known = [] if most is None else [most]
        seen: Mapping[str, Any] = look or {}
        epochs, epoch, step = settings.get("epochs"), seen.get("epoch"), seen.get("step")
        if _is_positive(epochs) and _is_positive(epoch) and _is_positive(step):
            known.append(round(epochs * round(step / epoch)))
        return min(known, default=None)


def _is_positive(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and math.isfinite(value) and value > 0
