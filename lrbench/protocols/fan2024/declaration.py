"""`fan2024`: one training length, looks at longer strings (Fan, Chi & Rudnicky 2024).

Source: arXiv:2309.07412, Table 1, and the released code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lrbench.checks import between, one_of, shown
from lrbench.protocols.base import CERTIFY, MOST, MOST_LOOKS, ByLength, ProtocolConfig
from lrbench.registry import register_protocol

STOPS = ("perfect", "never")
SUPERVISIONS = ("all", "last")

WIDEST_BAND = 10**6  # its lengths are listed at each look


@dataclass
class Fan2024Config(ProtocolConfig):
    """`fan2024`: fresh strings of one length, looks at longer ones (design: protocols and rules).

    Lengths are in symbols; a length a task does not have is an error, except in `band` and
    `further_lengths`, where the nearest valid length below is taken.

    train_length: of every training string. test_lengths: looks are at the first of them, tests at
    all. further_lengths: tested at the end too. band: shortest and longest length of the rule
    `band`. max_steps: updates of a run at most. batch_size: strings of an update. supervision:
    train on all positions of a string, or on its last alone. look_every: updates from one look to
    the next. look_size: strings of a look at a test length. validation_size: strings of a look at
    the training length and of the band. test_size: strings of a test at each length. stop: perfect
    ends a run early, at a perfect look; never does not.
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
        super().__post_init__()
        one_of("protocol.stop", self.stop, STOPS)
        one_of("protocol.supervision", self.supervision, SUPERVISIONS)
        _check_lengths(self)
        _check_looks(self)


@register_protocol("fan2024", Fan2024Config, "one training length, looks at 500 (Fan et al. 2024)")
class Fan2024(ByLength):
    """Fresh strings of one length; a look at longer ones every so many updates."""

    paper = "Fan2024-LRNN"
    procedure = "lrbench.protocols.fan2024.procedure:Fan2024Procedure"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "stop": STOPS,
        "supervision": SUPERVISIONS,
        "certify": CERTIFY,
    }
    whole_budget = "protocol.stop=never"  # a perfect look at the test length must not end a run
    untested = ("protocol.further_lengths=[]", "protocol.test_size=1", "protocol.certify=never")
    ends_early = (
        "would end runs by their looks at the test length\n"
        "tune trains every run for its whole budget; leave protocol.stop out"
    )


def _check_lengths(protocol: Fan2024Config) -> None:
    for key in ("test_lengths", "further_lengths", "band"):
        most = WIDEST_BAND if key == "band" else MOST
        for length in getattr(protocol, key):
            between(f"protocol.{key}", length, 1, most)
    if not protocol.test_lengths:
        raise ValueError("protocol.test_lengths must name at least one length, such as [500]")
    band = protocol.band
    if len(band) != 2 or band[0] > band[1]:
        raise ValueError(f"protocol.band must be [shortest, longest], not {shown(band)}")


def _check_looks(protocol: Fan2024Config) -> None:
    steps, every = protocol.max_steps, protocol.look_every
    if isinstance(steps, int) and isinstance(every, int) and steps > every * MOST_LOOKS:
        raise ValueError(
            f"protocol.look_every {every} with protocol.max_steps {steps} makes more than"
            f" {MOST_LOOKS:,} looks; take a larger look_every"
        )
