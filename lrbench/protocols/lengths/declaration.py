"""Protocols of five papers on state tracking, their short forms, and the steps between them.

Each is a set of values of the same settings (settings.py). The optimiser that goes with it is in
conf/preset/protocol/. A short form has a tenth of the updates, unless its text says otherwise.

deletang2022  Delétang et al. 2023 (arXiv:2207.02098) and its released code
grazzi2025    Grazzi et al. 2025 (arXiv:2411.12537) and its released code
walker2025    Walker et al. 2025 (arXiv:2505.17761) and its released code
siems2025     Siems et al. 2025 (arXiv:2502.10297) and its released code
merrill2024   Merrill, Petty & Sabharwal 2024 (arXiv:2404.08819) and its released code

`walks` is no paper's: the stations between two of them, in the table `protocols`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any, ClassVar

from lrbench.protocols.base import CERTIFY, ByLength, Settings
from lrbench.protocols.lengths.settings import (
    ASKED,
    MIXES,
    PRECISIONS,
    SCORES,
    STOPS,
    TOGETHER,
    LengthProtocolConfig,
    LookSettings,
    TestSettings,
)
from lrbench.registry import PROTOCOLS, register_protocol

LAST = {
    "last": "end of training",
    "id": "lowest validation loss at the training lengths",
    "band": "highest accuracy over the band",
}
BEST = {"best": "best look at the test lengths", **LAST}
SHORT = "_short"
# What the runs of a paper have in common, besides their looks and tests
COMPARED = (
    *("max_steps", "batch_size", "train_lengths", "train_strings"),
    *("mix", "ask", "score", "runs", "stop"),
)
NOT_THERE = ("curriculum", "carry", "state_noise")  # in no paper


class SeveralLengths(ByLength):
    """A protocol that trains on strings of several lengths and tests over a range of them.

    tasks: patterns of the names of the paper's tasks. budgets: updates of tasks that have others
    than its usual ones. batches: strings of an update, of a model on a task that has others.
    chances: what guessing scores, of tasks on which the paper says so.
    """

    procedure = "lrbench.protocols.lengths.procedure:LengthsProcedure"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "mix": MIXES,
        "ask": ASKED,
        "stop": STOPS,
        "score": SCORES,
        "runs": TOGETHER,
        "precision": PRECISIONS,
        "certify": CERTIFY,
    }
    whole_budget = "protocol.stop=never"
    untested = ("protocol.test.strings=1", "protocol.certify=never")
    ends_early = (
        "would end runs by their looks at the test lengths\n"
        "tune trains every run for its whole budget; leave protocol.stop out"
    )
    budgets: ClassVar[Mapping[str, int]] = {}
    batches: ClassVar[Mapping[tuple[str, str], int]] = {}
    chances: ClassVar[Mapping[str, float]] = {}

    def has(self, task: str) -> bool:
        """Whether the paper has a task of this name."""
        return any(fnmatch(task, pattern) for pattern in self.tasks)

    @property
    def short(self) -> bool:
        """Whether it has a smaller budget than the paper's."""
        return self.name.endswith(SHORT)

    def unlike_paper(self, settings: Settings, runs: int) -> str:
        if self.short:
            return f"{self.name} has a smaller budget than {self.name.removesuffix(SHORT)}"
        usual = PROTOCOLS.get(self.name).config()
        task, model = str(settings.get("task")), str(settings.get("model"))
        usual.max_steps = self.budgets.get(task, usual.max_steps)
        usual.batch_size = self.batches.get((task, model), usual.batch_size)
        for key in COMPARED:
            value = settings.get(key, getattr(usual, key))
            if _plain(value) != _plain(getattr(usual, key)):
                return f"protocol.{key} is {value}, the paper's is {getattr(usual, key)}"
        chance = self.chances.get(task)
        if usual.score == "scaled" and settings.get("chance", chance) != chance:
            return f"protocol.chance is {settings['chance']}, the paper's is {chance}"
        if usual.stop == "threshold" and settings.get("stop_at", usual.stop_at) != usual.stop_at:
            return f"protocol.stop_at is {settings['stop_at']}, the paper's is {usual.stop_at}"
        for node in ("test", "look"):
            for key, wanted in vars(getattr(usual, node)).items():
                value = settings.get(f"{node}.{key}", wanted)
                if _plain(value) != _plain(wanted):
                    return f"protocol.{node}.{key} is {value}, the paper's is {wanted}"
        if settings.get("precision", usual.precision) != usual.precision:
            return f"protocol.precision is {settings['precision']}, emulated in float32"
        every = settings.get("look_every", usual.look_every)
        if self.usual_rule == "best" and every < usual.look_every:
            return f"protocol.look_every is {every}, the paper looks every {usual.look_every}"
        on = [key for key in NOT_THERE if settings.get(key)]
        if on:
            return f"protocol.{on[0]} is on; the paper has no such thing"
        if self.paper_runs not in (1, runs):
            return f"it is the best of {runs} runs, the paper's of {self.paper_runs}"
        return ""


def _plain(value: Any) -> str:
    return str(value).replace(" ", "")


# --- Delétang et al. 2023: mean accuracy over lengths 41 to 500, the best of seeds and rates


@dataclass
class Deletang2022Config(LengthProtocolConfig):
    """`deletang2022`: one length an update, 1 to 40; a million updates."""

    name: str = "deletang2022"
    max_steps: int = 1_000_000
    look_every: int = 10_000
    look: LookSettings = field(default_factory=lambda: LookSettings([41, 500]))
    score: str = "mean"
    runs: str = "max"


@dataclass
class Deletang2022ShortConfig(Deletang2022Config):
    """`deletang2022_short`: a hundredth of the updates, one rate, every tenth length."""

    name: str = "deletang2022_short"
    max_steps: int = 10_000
    look_every: int = 500
    look: LookSettings = field(default_factory=lambda: LookSettings([41, 491], 256))
    validation_size: int = 256
    test: TestSettings = field(default_factory=lambda: TestSettings([41, 491], 10))


@register_protocol("deletang2022", Deletang2022Config, "lengths 1 to 40, mean over 41 to 500")
@register_protocol("deletang2022_short", Deletang2022ShortConfig, "deletang2022, 10,000 updates")
class Deletang2022(SeveralLengths):
    """Accuracy averaged over lengths 41 to 500, the best of ten seeds and three rates."""

    paper = "Deletang2023"
    rules = LAST
    tasks = ("nnch_*",)
    by_tests = True
    paper_runs = 30  # ten seeds at each of three rates


# --- Grazzi et al. 2025: scaled accuracy over lengths 40 to 256, the best of three


@dataclass
class Grazzi2025Config(LengthProtocolConfig):
    """`grazzi2025`: a length a row, from 3 to 40; 8,192 strings of 40 to 256 at the end."""

    name: str = "grazzi2025"
    train_lengths: list[int] = field(default_factory=lambda: [3, 40])
    mix: str = "row"
    batch_size: int = 256
    ask: str = "last"
    test: TestSettings = field(default_factory=lambda: TestSettings([40, 256], 1, 8192, "row"))
    score: str = "scaled"
    runs: str = "max"


@dataclass
class Grazzi2025ShortConfig(Grazzi2025Config):
    """`grazzi2025_short`: a tenth of the updates."""

    name: str = "grazzi2025_short"
    max_steps: int = 10_000
    look_every: int = 500
    look: LookSettings = field(default_factory=lambda: LookSettings(strings=256))
    validation_size: int = 256


@register_protocol("grazzi2025", Grazzi2025Config, "lengths 3 to 40, scaled accuracy on 40 to 256")
@register_protocol("grazzi2025_short", Grazzi2025ShortConfig, "grazzi2025, a tenth of the updates")
class Grazzi2025(SeveralLengths):
    """Accuracy over lengths 40 to 256 at the end, chance at 0, the best of three seeds."""

    paper = "Grazzi2025"
    rules = LAST
    tasks = ("xlstm_*", "nnch_*")
    budgets: ClassVar[Mapping[str, int]] = {"xlstm_parity": 20_000, "nnch_parity_check": 20_000}
    batches: ClassVar[Mapping[tuple[str, str], int]] = {
        ("xlstm_modular_arithmetic", "deltanet"): 1024
    }
    chances: ClassVar[Mapping[str, float]] = {
        **{f"{source}_modular_arithmetic": 0.2 for source in ("xlstm", "nnch")},
        **{f"{source}_modular_arithmetic_brackets": 0.2 for source in ("xlstm", "nnch")},
        **{"xlstm_parity": 0.5, "nnch_parity_check": 0.5},
    }
    by_tests = True
    paper_runs = 3


# --- Walker et al. 2025: accuracy over lengths 40 to 256 at the best look, the mean of five


@dataclass
class Walker2025Config(LengthProtocolConfig):
    """`walker2025`: a length a row, from 3 to 40; looks at 8,192 strings of 40 to 256 decide."""

    name: str = "walker2025"
    train_lengths: list[int] = field(default_factory=lambda: [3, 40])
    mix: str = "row"
    max_steps: int = 100_001
    batch_size: int = 256
    ask: str = "last"
    look: LookSettings = field(default_factory=lambda: LookSettings(strings=8192))
    stop: str = "threshold"
    stop_at: float = 0.9995
    test: TestSettings = field(default_factory=lambda: TestSettings([40, 256], 1, 8192, "row"))


@dataclass
class Walker2025ShortConfig(Walker2025Config):
    """`walker2025_short`: a tenth of the updates and of each look's strings, as many looks."""

    name: str = "walker2025_short"
    max_steps: int = 10_000
    look_every: int = 500
    look: LookSettings = field(default_factory=lambda: LookSettings(strings=819))
    validation_size: int = 256


@register_protocol("walker2025", Walker2025Config, "lengths 3 to 40, the best look at 40 to 256")
@register_protocol("walker2025_short", Walker2025ShortConfig, "walker2025, a tenth of the updates")
class Walker2025(SeveralLengths):
    """Accuracy over lengths 40 to 256 at the best look at such strings, the mean of five runs."""

    paper = "Walker2025"
    rules = BEST
    tasks = ("slice_*", "nnch_*", "group")


# --- Siems et al. 2025: the share of strings right up to each position, at four times the length


@dataclass
class Siems2025Config(LengthProtocolConfig):
    """`siems2025`: 99,000 strings of 128, a hundred times; the curve of prefixes up to 512."""

    name: str = "siems2025"
    train_lengths: list[int] = field(default_factory=lambda: [128, 128])
    train_strings: int = 99_000
    max_steps: int = 4900
    batch_size: int = 2048
    look_every: int = 49
    look: LookSettings = field(default_factory=lambda: LookSettings([512, 512], 1000))
    band: list[int] = field(default_factory=lambda: [160, 256])
    stop: str = "threshold"
    stop_at: float = 0.99
    test: TestSettings = field(default_factory=lambda: TestSettings([512, 512], 1, 1000))
    score: str = "sequence"


@dataclass
class Siems2025ShortConfig(Siems2025Config):
    """`siems2025_short`: a tenth of the updates, and of each look's strings."""

    name: str = "siems2025_short"
    max_steps: int = 490
    look: LookSettings = field(default_factory=lambda: LookSettings([512, 512], 100))
    validation_size: int = 256


@register_protocol("siems2025", Siems2025Config, "length 128, the curve of prefixes to 512")
@register_protocol("siems2025_short", Siems2025ShortConfig, "siems2025, a tenth of the updates")
class Siems2025(SeveralLengths):
    """The share of strings that are right up to each of 512 positions, at the best epoch."""

    rules = BEST
    tasks = ("group",)


# --- Merrill et al. 2024: how many layers a length needs; nothing is extrapolated


@dataclass
class Merrill2024Config(LengthProtocolConfig):
    """`merrill2024`: four million strings of 2 to 16, 500 times; tested at the longest."""

    name: str = "merrill2024"
    train_lengths: list[int] = field(default_factory=lambda: [2, 16])
    mix: str = "row"
    train_strings: int = 4_000_000
    max_steps: int = 62_500_000
    batch_size: int = 32
    look_every: int = 125_000
    look: LookSettings = field(default_factory=lambda: LookSettings([16, 16], 1024))
    band: list[int] = field(default_factory=lambda: [17, 24])
    stop: str = "threshold"
    stop_at: float = 0.99
    test: TestSettings = field(default_factory=lambda: TestSettings([16, 16], 1, 10_000))
    score: str = "sequence"


@dataclass
class Merrill2024ShortConfig(Merrill2024Config):
    """`merrill2024_short`: 100,000 strings and 100,000 updates."""

    name: str = "merrill2024_short"
    train_strings: int = 100_000
    max_steps: int = 100_000
    look_every: int = 3125
    validation_size: int = 256


@register_protocol("merrill2024", Merrill2024Config, "lengths 2 to 16, the depth that 16 needs")
@register_protocol("merrill2024_short", Merrill2024ShortConfig, "merrill2024, 100,000 updates")
class Merrill2024(SeveralLengths):
    """Strings right throughout at the longest training length, at the best epoch; no horizon."""

    rules = BEST
    tasks = ("group",)


# --- between papers: every rule beside every other, a budget for one core


@dataclass
class WalksConfig(LengthProtocolConfig):
    """`walks`: 4,000 updates of 64 strings; what a paper has differently, a table says."""

    name: str = "walks"
    train_lengths: list[int] = field(default_factory=lambda: [3, 40])
    mix: str = "row"
    max_steps: int = 4000
    batch_size: int = 64
    look_every: int = 200
    validation_size: int = 512
    test: TestSettings = field(default_factory=lambda: TestSettings([40, 256], 1, 8192, "row"))


@register_protocol("walks", WalksConfig, "4,000 updates, settings from one paper to another")
class Walks(SeveralLengths):
    """The stations of a walk between two papers' protocols; a table says how each is read."""

    rules = BEST
    tasks = ("mod_arith", "xlstm_*", "slice_*", "nnch_*", "group")
    by_tests = True

    def unlike_paper(self, settings: Settings, runs: int) -> str:
        return "walks has a smaller budget than any paper's"
