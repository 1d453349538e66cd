"""The settings of protocols that train on strings of several lengths: what papers differ in."""

from __future__ import annotations

from dataclasses import dataclass, field

from lrbench.checks import at_least, between, fraction, one_of, only_with, shown
from lrbench.protocols.base import MOST, MOST_LOOKS, ProtocolConfig
from lrbench.records import added

MIXES = ("step", "row")
ASKED = ("task", "last")
STOPS = ("never", "threshold")
SCORES = ("mean", "pooled", "scaled", "sequence")
TOGETHER = ("mean", "max")
PRECISIONS = ("float32", "bfloat16")
LONGEST_RANGE = 10**6  # its lengths are listed


@dataclass
class LookSettings:
    """What a look scores: strings of a length each.

    lengths: the shortest and the longest. strings: how many there are. fixed: the same strings at
    every look of a run.
    """

    lengths: list[int] = field(default_factory=lambda: [40, 256])
    strings: int = 1024
    fixed: bool = True

    def __post_init__(self) -> None:
        _check_range("protocol.look.lengths", self.lengths)
        between("protocol.look.strings", self.strings, 1, MOST)


@dataclass
class TestSettings:
    """What is tested at the end.

    lengths: the shortest and the longest. stride: from one tested length to the next. strings: how
    many there are. mix: `step`, so many at each length, or `row`, so many in all, a drawn length
    each.
    """

    __test__ = False  # no test of pytest's, whatever it is called

    lengths: list[int] = field(default_factory=lambda: [41, 500])
    stride: int = 1
    strings: int = 512
    mix: str = "step"

    def __post_init__(self) -> None:
        _check_range("protocol.test.lengths", self.lengths)
        between("protocol.test.stride", self.stride, 1, MOST)
        between("protocol.test.strings", self.strings, 1, MOST)
        one_of("protocol.test.mix", self.mix, MIXES)


@dataclass
class LengthProtocolConfig(ProtocolConfig):
    """What protocols of several lengths decide; lengths are in symbols, both ends included.

    train_lengths: shortest and longest training string. mix: an update's strings have one drawn
    length (`step`) or one a row (`row`).
    train_strings: how many there are, gone through in a new order each time; 0: all are fresh. Each
    has a length of its own, so with several lengths mix=row goes with it.
    ask: train on whatever the task asks, or on the last answer of each string alone.
    look_every: updates from one look to the next. look: what rules choose between. stop:
    `threshold` ends a run at a look with an accuracy of at least `stop_at`.
    validation_size: fixed strings of the training lengths, and of `band`, scored at every look.
    test: what is scored at the end. score: the number that comes of it: `mean` over lengths;
    `pooled` over strings; `scaled`, pooled and rescaled so that `chance` is 0; `sequence`, strings
    that are right throughout.
    runs: how a paper puts several together, their mean or the best.
    precision: float32, or bfloat16: weights rounded after each update, and what linear maps return.

    Interventions, off unless set. curriculum: updates over which the longest training string grows
    from the shortest length to the longest; at most max_steps, and without train_strings. carry:
    the share of strings that begin with the state that the same row of the last update ended in;
    with several lengths mix=step goes with it. state_noise: the s.d. of Gaussian noise added to
    every string's initial state. None of them is there in looks and tests.

    max_steps: updates of a run at most. batch_size: strings of an update. band: shortest and
    longest length of the rule `band`. stop_at: the accuracy at which `threshold` ends a run.
    chance: what guessing scores, of the score `scaled`; unset the task's.
    """

    train_lengths: list[int] = field(default_factory=lambda: [1, 40])
    mix: str = "step"
    train_strings: int = 0
    max_steps: int = 100_000
    batch_size: int = 128
    ask: str = "task"
    look_every: int = 5000
    look: LookSettings = field(default_factory=LookSettings)
    validation_size: int = 1024
    band: list[int] = field(default_factory=lambda: [60, 120])
    stop: str = "never"
    stop_at: float = 1.0
    test: TestSettings = field(default_factory=TestSettings)
    score: str = "pooled"
    chance: float | None = None
    runs: str = "mean"
    curriculum: int = added(0)
    carry: float = added(0.0)
    state_noise: float = added(0.0)
    precision: str = added("float32")

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_range("protocol.train_lengths", self.train_lengths)
        _check_range("protocol.band", self.band)
        for key in ("max_steps", "batch_size", "look_every", "validation_size"):
            between(f"protocol.{key}", getattr(self, key), 1, MOST)
        for key in ("train_strings", "curriculum"):
            between(f"protocol.{key}", getattr(self, key), 0, MOST)
        for key, known in (
            ("mix", MIXES),
            ("ask", ASKED),
            ("stop", STOPS),
            ("score", SCORES),
            ("runs", TOGETHER),
            ("precision", PRECISIONS),
        ):
            one_of(f"protocol.{key}", getattr(self, key), known)
        for key in ("stop_at", "carry"):
            between(f"protocol.{key}", getattr(self, key), 0, 1)
        fraction("protocol.chance", self.chance)
        at_least("protocol.state_noise", self.state_noise, 0)
        own, rule, score = type(self), self.stop == "threshold", self.score == "scaled"
        only_with("protocol.stop_at", self.stop_at, own.stop_at, rule, "protocol.stop=threshold")
        fix = "leave it out, or write protocol.chance=null where a preset sets it"
        only_with("protocol.chance", self.chance, own.chance, score, "protocol.score=scaled", fix)
        steps, every = self.max_steps, self.look_every
        if isinstance(steps, int) and isinstance(every, int) and steps > every * MOST_LOOKS:
            raise ValueError(
                f"protocol.look_every {every} with protocol.max_steps {steps} makes more than"
                f" {MOST_LOOKS:,} looks; take a larger look_every"
            )


def _check_range(key: str, span: list[int]) -> None:
    if len(span) != 2 or not 1 <= span[0] <= span[1] <= LONGEST_RANGE:
        raise ValueError(
            f"{key} must be [shortest, longest], from 1 to {LONGEST_RANGE:,}, not {shown(span)}"
        )
