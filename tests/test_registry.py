"""Names, collisions, and what a misspelt name is told."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields

import pytest

from lrbench.checks import at_least
from lrbench.errors import UserError
from lrbench.protocols.fan2024.declaration import Fan2024Config
from lrbench.registry import (
    BACKBONES,
    ENCODERS,
    MIXERS,
    TASKS,
    Registry,
    register_backbone,
    register_encoder,
    register_mixer,
    register_protocol,
    register_task,
)


@dataclass
class Settings:
    size: int = 1


class Thing:
    """A thing.

    More about it.
    """


def test_built_ins_are_known_before_they_are_imported() -> None:
    registry = Registry("thing", {"far": "no.such.module"})
    assert registry.names() == ["far"]
    assert "far" in registry
    with pytest.raises(ModuleNotFoundError):
        registry.get("far")


def test_an_entry_describes_itself_by_its_docstring() -> None:
    registry = Registry("thing", {})
    registry.add("mine", Settings, "")(Thing)
    entry = registry.get("mine")
    assert (entry.cls, entry.config, entry.source) == (Thing, Settings, "A thing.")
    assert not entry.builtin
    assert TASKS.get("sum").builtin


def test_an_unknown_name_brings_the_nearest_and_the_command_that_lists_all() -> None:
    with pytest.raises(
        UserError, match=r"(?s)task 'summ' unknown.*'sum'.*`lrbench tasks` lists all \d\d"
    ) as error:
        TASKS.get("summ")
    assert max(map(len, str(error.value).splitlines())) < 100
    with pytest.raises(UserError, match=r"backbone 's5' unknown.*\nknown: bare, gpt, .*xlstm"):
        BACKBONES.get("s5")


def test_a_taken_name_names_both() -> None:
    registry = Registry("thing", {"far": "some.module"})
    with pytest.raises(UserError, match=r"'far' is already registered by some.module"):
        registry.add("far", Settings, "")(Thing)
    registry.add("mine", Settings, "")(Thing)
    registry.add("mine", Settings, "")(Thing)  # the same module imported again

    class Other:
        pass

    with pytest.raises(UserError, match="must choose another name"):
        registry.add("mine", Settings, "")(Other)


def test_a_configuration_must_be_a_dataclass() -> None:
    with pytest.raises(UserError, match="not a dataclass"):
        Registry("thing", {}).add("mine", int, "")


@dataclass
class NoDefault:
    hidden: int


@dataclass
class Refusing:
    hidden: int = 0

    def __post_init__(self) -> None:
        at_least("model.mixer.hidden", self.hidden, 1)


@dataclass
class WrongCall:
    hidden: int = 1

    def __post_init__(self) -> None:
        at_least(1, hidden=self.hidden)  # type: ignore[call-arg,arg-type]


@dataclass
class OddType:
    pair: tuple[int, str] = (1, "a")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (NoDefault, r"NoDefault\(\) cannot be made: .*'hidden'"),
        (Refusing, r"hidden must be at least 1, not 0 \(test_registry.py, line \d+\)"),
        (WrongCall, r"unexpected keyword argument 'hidden' \(test_registry.py, line \d+\)"),
        (OddType, "'a' of type 'str'"),
    ],
)
def test_settings_that_cannot_be_made_are_told_when_they_are_registered(
    settings: type, message: str
) -> None:
    registry = Registry("thing", {})
    with pytest.raises(UserError, match=message) as error:
        registry.add("mine", settings, "")(Thing)
    assert "\neach field needs a default that its checks accept" in str(error.value)
    assert "mine" not in registry


@pytest.mark.parametrize("name", ["a/../../tmp/evil", "..", ".hidden", "", "two words", "a" * 101])
def test_a_name_that_is_none(name: str) -> None:
    adding = (register_task, register_mixer, register_encoder, register_backbone, register_protocol)
    for register in adding:
        with pytest.raises(UserError, match="cannot be registered: that is no name") as error:
            register(name, Settings)
        assert len(str(error.value).splitlines()) == 3
    with pytest.raises(UserError, match=r"thing 'a/b' cannot be .*\n.*\nfix: .* my_thing;"):
        Registry("thing", {}).add("a/b", Settings, "")


def test_what_is_a_name() -> None:
    for name in ("s4", "_mine", "my-model.v2", "größe"):
        registry = Registry("thing", {})
        registry.add(name, Settings, "")(Thing)
        assert name in registry


def test_a_size_is_at_least_one() -> None:
    """Of the sizes that have a default only these may be 0, which leaves the part out."""
    optional = {"conv_size", "hidden", "slstm_conv_size"}
    accepted = set()
    for registry in (MIXERS, ENCODERS, BACKBONES):
        for entry in (one for one in map(registry.get, registry) if one.builtin):
            config = entry.config
            for size in [one.name for one in fields(config) if type(one.default) is int]:
                with pytest.raises(ValueError, match=size):
                    config(**{size: -1})
                with suppress(ValueError):
                    config(**{size: 0})
                    accepted.add((registry.kind, size))
    assert {size for _, size in accepted} == {*optional, "expansion"}
    assert {kind for kind, size in accepted if size == "expansion"} == {BACKBONES.kind}


def test_a_protocol_says_its_own_name() -> None:
    """Or its runs would be those of the protocol whose settings it has."""
    with pytest.raises(UserError, match=r"protocol 'turns': .*Fan2024Config does not say its name"):
        register_protocol("turns", Fan2024Config)
