"""Protocols: how a model is trained and looked at, each with settings of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from lrbench.checks import between, one_of, shown

STOPS = ("perfect", "never")
SELECTIONS = ("loss", "accuracy")

MOST = 10**9  # of anything that is counted: strings, updates, symbols
WIDEST_BAND = 10**6  # its lengths are listed at each look
MOST_LOOKS = 10_000  # each examines the model and is a line of metrics.jsonl


@dataclass
class Protocol:
    """What all protocols have; the rest depends on which it is."""

    name: str = MISSING


@dataclass
class ProtocolConfig(Protocol):
    """`fan2024`: fresh strings of one length, looks at longer ones (design: protocols and rules).

    Lengths are in symbols; a length a task does not have is an error, except in `band` and
    `further_lengths`, where the nearest valid length below is taken.
    """

    name: str = "fan2024"
    train_length: int = 40
    test_lengths: list[int] = field(default_factory=lambda: [500])
    further_lengths: list[int] = field(default_factory=lambda: [43, 211, 503, 997, 2003, 4999])
    band: list[int] = field(default_factory=lambda: [60, 120])
    max_steps: int = 40_000
    batch_size: int = 128
    supervision: str = "all"
    look_every: int = 1000
    look_size: int = 128
    validation_size: int = 1024
    test_size: int = 10_000
    stop: str = "perfect"

    def __post_init__(self) -> None:
        for key in ("train_length", "max_steps", "batch_size", "look_every"):
            between(f"protocol.{key}", getattr(self, key), 1, MOST)
        for key in ("look_size", "validation_size", "test_size"):
            between(f"protocol.{key}", getattr(self, key), 1, MOST)
        one_of("protocol.name", self.name, ("fan2024",))
        one_of("protocol.stop", self.stop, STOPS)
        one_of("protocol.supervision", self.supervision, ("all", "last"))
        _check_lengths(self)
        _check_looks(self)


@dataclass
class CorpusProtocolConfig(Protocol):
    """`rir2023`: epochs over a corpus, a look at its dev split after each, early stopping.

    Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), appendix, and their released code. An update
    is made from `batch_size` strings, `micro_batch` of them at a time (all at once if not set).
    Batches have strings of similar length: `bucket` batches are sorted together. `select_by` says
    which dev score is believed; training ends when it has not become better for more than
    `patience` epochs, after `epochs`, or after `max_steps` updates.
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

    def __post_init__(self) -> None:
        for key in ("epochs", "max_steps", "batch_size", "micro_batch", "bucket"):
            between(f"protocol.{key}", getattr(self, key), 1, MOST)
        between("protocol.patience", self.patience, 0, MOST)
        between("protocol.epochs", self.epochs, 1, MOST_LOOKS)
        one_of("protocol.name", self.name, ("rir2023",))
        one_of("protocol.select_by", self.select_by, SELECTIONS)
        splits = self.test_splits
        if isinstance(splits, list) and len(set(splits)) < len(splits):
            raise ValueError(f"protocol.test_splits names one twice: {shown(splits)}")

    def updates_per_epoch(self, strings: int) -> int:
        """Return how many updates go once through a training split of so many strings."""
        return -(-strings // self.batch_size)

    def updates(self, strings: int) -> int:
        """Return how many updates a run on a training split of so many strings has at most."""
        most = self.epochs * self.updates_per_epoch(strings)
        return most if self.max_steps is None else min(most, self.max_steps)


PROTOCOLS: dict[str, Any] = {"fan2024": ProtocolConfig, "rir2023": CorpusProtocolConfig}
VERSIONS = {"fan2024": 1, "rir2023": 1}  # raise one whenever its numbers come to mean another thing


def _check_lengths(protocol: ProtocolConfig) -> None:
    for key in ("test_lengths", "further_lengths", "band"):
        most = WIDEST_BAND if key == "band" else MOST
        for length in getattr(protocol, key):
            between(f"protocol.{key}", length, 1, most)
    if not protocol.test_lengths:
        raise ValueError("protocol.test_lengths must name at least one length, such as [500]")
    band = protocol.band
    if len(band) != 2 or band[0] > band[1]:
        raise ValueError(f"protocol.band must be [shortest, longest], not {shown(band)}")


def _check_looks(protocol: ProtocolConfig) -> None:
    steps, every = protocol.max_steps, protocol.look_every
    if isinstance(steps, int) and isinstance(every, int) and steps > every * MOST_LOOKS:
        raise ValueError(
            f"protocol.look_every {every} with protocol.max_steps {steps} makes more than"
            f" {MOST_LOOKS:,} looks; take a larger look_every"
        )
