"""Declarations of protocols: the training of a model, its looks, and its tests at the end.

A protocol is two classes. Its declaration, a `Protocol`, says what a report and a command line must
know, and loads no torch. Its procedure (lrbench/training/procedure.py) trains and scores. It is
named as text, `module:Class`, and imported only for training and scoring.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

from lrbench.checks import one_of
from lrbench.metrics import METRICS
from lrbench.plugins import load_plugins
from lrbench.records import added, unrecorded
from lrbench.registry import DEFAULT_PROTOCOL, PROTOCOLS

MOST = 10**9  # of anything that is counted: strings, updates, symbols
MOST_LOOKS = 10_000  # each examines the model and is a line of metrics.jsonl
MISSING = "???"  # omegaconf's mark of a setting without a value; a report loads no omegaconf for it

Settings = Mapping[str, Any]


CERTIFY = ("auto", "never", "always")


@dataclass
class ProtocolConfig:
    """What the settings of all protocols have; the rest depends on which it is.

    start_from: the folder of a finished run, whose last weights training begins with. certify:
    whether a training ends with a search for wrong strings, where the task is a finite automaton:
    for some seconds (under a suite's protocol as far as the suite says), not at all, or for as long
    as `lrbench certify` takes. It changes no number of
    a run, so no file of one names it.
    """

    name: str = MISSING
    start_from: str | None = added(None)
    certify: str = unrecorded("auto")

    def __post_init__(self) -> None:
        one_of("protocol.name", self.name, (type(self).name,))
        one_of("protocol.certify", self.certify, CERTIFY)


class LookValue(NamedTuple):
    """One number of a look, as metrics.jsonl has it: not checked. On a split it has no length."""

    length: Any
    split: str
    metric: str
    value: Any
    n: Any


class Selection(NamedTuple):
    """What `lrbench tune` goes by: the look that `rule` believes, its split, and what decides.

    `by` is loss or accuracy (that is, whatever the task is scored by).
    """

    rule: str
    split: str
    by: str


class SearchExtent(NamedTuple):
    """How far a search for wrong strings goes, in counts: the same on every machine.

    complete: every string is tried up to the greatest length that has so many. families: words
    with a repeated pattern. beam: strings kept for each state of the task. longest: symbols of the
    longest string that the last two reach (lrbench/certificates/witness.py).
    """

    complete: int
    families: int
    beam: int
    longest: int


class Protocol(ABC):
    """The declaration of a protocol, registered by `register_protocol(NAME, CONFIG)`.

    Raise `version` whenever its numbers come to mean another thing.

    axis: what the columns of its tables are, lengths of strings or splits of a corpus.
    rules: which checkpoint a number is of, {rule: legend}; the usual rule first.
    paper: column `paper` of data/reference/*.csv, where there are numbers to compare with.
    procedure: the class that trains and scores, as `module:Class`.
    choices: the values that some of its settings may have, {field: values}.
    whole_budget: the override with which no run ends early; `ends_early` says what another does.
    tasks: names of the tasks that it trains on, or patterns; nothing where any of its kind will do.
    untested: overrides with which a run is tested as little as can be; no look of it changes.
    fixed_budget: why `lrbench tune` may not vary max_steps under it; nothing where it may.
    by_tests: whether the paper's number is that of tests at the end, not of looks.
    paper_runs: how many runs the paper's number is the best of; 1 where it is one, or their mean.
    search: how far the search for wrong strings goes that ends a training; None: for some seconds.

    Settings and looks that methods get are data from anywhere: nothing in them is checked.
    """

    version: ClassVar[int] = 1
    axis: ClassVar[Literal["length", "split"]]
    rules: ClassVar[Mapping[str, str]]
    paper: ClassVar[str] = ""
    procedure: ClassVar[str]
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    whole_budget: ClassVar[str] = ""
    tasks: ClassVar[tuple[str, ...]] = ()
    untested: ClassVar[tuple[str, ...]] = ()
    ends_early: ClassVar[str] = ""
    fixed_budget: ClassVar[str] = ""
    by_tests: ClassVar[bool] = False
    paper_runs: ClassVar[int] = 1
    search: ClassVar[SearchExtent | None] = None

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def by_split(self) -> bool:
        """Whether it scores on the splits of a corpus, not at lengths."""
        return self.axis == "split"

    @property
    def usual_rule(self) -> str:
        """The rule of a number where nobody names one."""
        return next(iter(self.rules))

    @abstractmethod
    def look_values(self, look: Mapping[str, Any], settings: Settings) -> list[LookValue]:
        """Return the numbers of a look that a curve of looks shows."""

    @abstractmethod
    def selection(self, settings: Settings) -> Selection:
        """Return what the best of several settings is chosen by."""

    def unlike_paper(self, settings: Settings, runs: int) -> str | None:
        """Return why so many runs are not to be held against the paper's; nothing if they may be.

        settings: theirs, by their own names, and the names of their `task` and their `model`.
        None: what tells is what the paper says of its looks.
        """
        return None

    def most_updates(self, settings: Settings, look: Mapping[str, Any] | None) -> int | None:
        """Return how many updates a run has at most; None where its settings do not tell."""
        most = settings.get("max_steps")
        return most if type(most) is int else None


class ByLength(Protocol):
    """A protocol that trains at some lengths and tests at others."""

    axis = "length"
    rules: ClassVar[Mapping[str, str]] = {
        "best": "best look at the test length",
        "id": "lowest validation loss at the training length",
        "band": "highest accuracy over the band",
        "last": "end of training",
    }

    def look_values(self, look: Mapping[str, Any], settings: Settings) -> list[LookValue]:
        length, n = look.get("test_length"), look.get("test_n")
        return [LookValue(length, "test", m, look.get(f"test_{m}"), n) for m in METRICS]

    def selection(self, settings: Settings) -> Selection:
        return Selection("id", "train_length", "loss")


class _Unknown(ByLength):
    """A protocol that results tell of and nobody here registers: a plug-in that is not named."""


def declared(name: str) -> Protocol:
    """Return the declaration of a protocol, a plug-in's too; of an unknown one, what most have.

    Plug-ins are imported only where no other knows the name: a report is quicker without.
    """
    if name not in PROTOCOLS:
        load_plugins()
    return _declaration(PROTOCOLS.get(name).cls if name in PROTOCOLS else _Unknown, name)


@cache
def _declaration(kind: type[Protocol], name: str) -> Protocol:
    return kind(name)


def rule_names() -> tuple[str, ...]:
    """Return the rules of all protocols, those of the default one first."""
    names = (DEFAULT_PROTOCOL, *PROTOCOLS.names())
    return tuple(dict.fromkeys(rule for name in names for rule in declared(name).rules))
