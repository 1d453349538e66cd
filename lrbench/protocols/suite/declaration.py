"""`suite_v1`: training on lengths 3 to 40, tests on a fixed grid of lengths up to 5,000.

The protocol of the table `suite_v1` (docs/suite.md). Its settings are frozen: any change of a
default is `suite_v2`. A run with other settings than these is of the division `open`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lrbench.checks import at_least, between, only_with
from lrbench.protocols.base import MOST, SearchExtent, Settings
from lrbench.protocols.lengths.declaration import LAST, SeveralLengths
from lrbench.protocols.lengths.settings import LONGEST_RANGE, LengthProtocolConfig, LookSettings
from lrbench.registry import register_protocol

GRID = (40, 60, 90, 128, 181, 256, 362, 500, 1000, 2000, 5000)
SCORED = (40, 256, 500, 5000)  # the lengths that a score is of; the others bound the horizon
STRINGS, FEWER, LONG = 2000, 400, 1000  # of a length; of one of LONG or more
DATA_SEED = 424242  # of the test strings: the same for every run

TASKS = ("parity", "sum", "mod_arith", "mod_arith_ltr", "group", "dfa", "flip_flop", "even_pair")
FUNCTIONS = tuple(f"{paper}_modular_arithmetic" for paper in ("nnch", "xlstm", "slice"))


@dataclass
class GridSettings:
    """What is tested at the end: a grid of lengths, the same strings for every run.

    lengths: those that are tested; of a task without one of them the nearest below. strings: how
    many at each length. fewer: how many at a length of 1,000 or more. data_seed: of the strings.
    """

    lengths: list[int] = field(default_factory=lambda: list(GRID))
    strings: int = STRINGS
    fewer: int = FEWER
    data_seed: int = DATA_SEED

    def __post_init__(self) -> None:
        lengths = self.lengths
        if not lengths or not all(
            isinstance(length, int) and 1 <= length <= LONGEST_RANGE for length in lengths
        ):
            raise ValueError(
                "protocol.test.lengths must be a list of at least one length from 1 to"
                f" {LONGEST_RANGE:,}, such as [40, 500], not {lengths}"
            )
        between("protocol.test.strings", self.strings, 1, MOST)
        between("protocol.test.fewer", self.fewer, 1, MOST)
        at_least("protocol.test.data_seed", self.data_seed, 0)

    def strings_at(self, length: int) -> int:
        """Return how many strings of a length are tested."""
        return self.fewer if length >= LONG else self.strings


@dataclass
class SuiteV1Config(LengthProtocolConfig):
    """`suite_v1`: a length a row, from 3 to 40; 5,000 updates; no look beyond length 40."""

    name: str = "suite_v1"
    train_lengths: list[int] = field(default_factory=lambda: [3, 40])
    mix: str = "row"
    max_steps: int = 5000
    batch_size: int = 64
    look_every: int = 500
    look: LookSettings = field(default_factory=lambda: LookSettings([3, 40]))
    band: list[int] = field(default_factory=lambda: [3, 40])
    test: GridSettings = field(default_factory=GridSettings)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        own = type(self).score
        only_with("protocol.score", self.score, own, False, "protocols that sum up lengths")


@register_protocol("suite_v1", SuiteV1Config, "lengths 3 to 40, a grid of lengths to 5,000")
class SuiteV1(SeveralLengths):
    """Accuracy on one set of test strings at each of eleven lengths; checkpoints by 3 to 40."""

    procedure = "lrbench.protocols.suite.procedure:SuiteProcedure"
    untested = ("protocol.test.lengths=[40]", "protocol.certify=never")
    rules: ClassVar[Mapping[str, str]] = {rule: LAST[rule] for rule in ("last", "id")}
    tasks = (*TASKS, *FUNCTIONS)  # the suite's, and other functions of the name (table functions)
    by_tests = True
    search = SearchExtent(complete=100_000, families=2_000, beam=5, longest=500)

    def unlike_paper(self, settings: Settings, runs: int) -> str:
        return "no paper prints numbers of this protocol"
