"""What is written of a run's settings: later ones at their defaults are not."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, make_dataclass

from lrbench.records import added, recorded, unrecorded


@dataclass
class Inner:
    rate: float = 0.5
    floor: float = added(0.0)
    words: list[int] = field(default_factory=lambda: [1])


@dataclass
class Outer:
    inner: Inner = field(default_factory=Inner)
    start: str | None = added(None)
    reported: str = unrecorded("auto")


def test_at_their_defaults_nothing_is_written_of_later_settings() -> None:
    before = {"inner": {"rate": 0.5, "words": [1]}}
    assert recorded(Outer()) == before
    assert recorded(Outer(inner=Inner(floor=-0.0))) == before
    assert asdict(Outer()) == {
        "inner": {"rate": 0.5, "floor": 0.0, "words": [1]},
        "start": None,
        "reported": "auto",
    }


def test_another_value_is_written() -> None:
    reported = recorded(Outer(inner=Inner(floor=0.25), start="x"))
    assert reported == {"inner": {"rate": 0.5, "floor": 0.25, "words": [1]}, "start": "x"}


def test_what_changes_no_number_is_never_written() -> None:
    assert "reported" not in recorded(Outer(reported="never"))


def test_classes_made_from_others_keep_the_rule() -> None:
    made = make_dataclass("Made", [("name", str, field(default="m"))], bases=(Inner,))
    assert recorded(made()) == {"rate": 0.5, "words": [1], "name": "m"}
