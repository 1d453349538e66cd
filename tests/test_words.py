"""Words for every setting: no field without a meaning, and ranges that are those checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, make_dataclass

import pytest

from lrbench.checks import at_least, between, fraction, one_of
from lrbench.config import Config, OptimConfig
from lrbench.registry import BACKBONES, ENCODERS, MIXERS, PROTOCOLS, TASKS
from lrbench.schema import model_node, task_node
from lrbench.words import glossary, kind, settings, words


def _everything() -> Iterator[tuple[str, type]]:
    yield "", Config
    yield "optim.", OptimConfig
    yield from (("task.", task_node(name)) for name in TASKS)
    yield from (("model.", model_node(name)) for name in (*MIXERS, *ENCODERS))
    yield from (("model.backbone.", BACKBONES.get(name).config) for name in BACKBONES)
    yield from (("protocol.", PROTOCOLS.get(name).config) for name in PROTOCOLS)


def test_no_setting_is_without_words() -> None:
    explained = [one for prefix, schema in _everything() for one in settings(schema, prefix)]
    assert {one.key for one in explained if not one.meaning} == set()
    assert {one.key for one in explained if len(one.meaning) > 300} == set()
    top = words(Config)
    assert {"task", "model", "protocol", "optim", "seed", "device"} <= set(top)


@pytest.mark.parametrize("name", ["ebt_grc", "rir_ebt_grc", "bt_grc", "bt_grc_os"])
def test_one_beam_is_said_to_be_chosen_by_what_nothing_trains(name: str) -> None:
    explained = {one.key: one.meaning for one in settings(ENCODERS.get(name).config)}
    assert "With 1, nothing trains the scores" in explained["beam"]


@dataclass
class _Base:
    """The first line: is no glossary.

    size, rate: of the base. kind, for some: a or b: both. Not a field: nothing.
    """

    size: int = 2
    rate: float = 0.5
    kind: str = "a"

    def __post_init__(self) -> None:
        between("x.size", self.size, 1, 9000)
        fraction("x.rate", self.rate)
        one_of("x.kind", self.kind, ("a", "b"))


@dataclass
class _Derived(_Base):
    """Another default, and one more.

    depth: how deep. rate: another meaning.
    """

    size: int = 3
    depth: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("x.depth", self.depth, 0.5)


def test_words_of_bases_and_ranges_of_checks() -> None:
    found = {one.key: one for one in settings(_Derived, "x.")}
    assert {key: one.meaning for key, one in found.items()} == {
        "x.size": "of the base.",
        "x.rate": "another meaning.",
        "x.kind": "(for some) a or b: both. Not a field: nothing.",
        "x.depth": "how deep.",
    }
    assert [one.default for one in found.values()] == [3, 0.5, "a", None]
    assert [one.allowed for one in found.values()] == [
        *("1 to 9,000", "0 or more, below 1", "a | b", "0.5 or more")
    ]


def test_every_setting_says_what_it_may_be() -> None:
    explained = [one for prefix, schema in _everything() for one in settings(schema, prefix)]
    unsaid = {one.key for one in explained if not one.allowed}
    assert unsaid <= {"task", "model", "protocol", "optim"}  # chosen by name, each with a card
    assert [kind(t) for t in ("bool | None", "list[int]", "str | None", "Odd")] == [
        *("true or false, or null", "whole numbers: [1,2]", "a name, or null", "")
    ]


def test_types_may_be_written_as_such() -> None:
    """A module of a user's need not say `from __future__ import annotations`."""
    fields = [("size", int, 2), ("sizes", list[int], field(default_factory=list))]
    made = make_dataclass("_Plain", [*fields, ("limit", int | None, None)])
    assert [one.allowed for one in settings(made)] == [
        *("a whole number", "whole numbers: [1,2]", "a whole number, or null")
    ]


def test_what_a_modulus_may_be() -> None:
    moduli = {
        name: settings(task_node(name), "task.")[0].allowed
        for name in ("sum", "parity", "mod_arith")
    }
    assert moduli == {"sum": "2 to 10,000", "parity": "2 alone", "mod_arith": "2 to 10,000"}


def test_checks_leave_no_notes_outside() -> None:
    with pytest.raises(ValueError, match="at most 9,000"):
        _Base(size=9001)
    assert glossary("Nothing.\n\nsize: here.", []) == {}
