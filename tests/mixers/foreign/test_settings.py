"""What a constructor is given is written down whole; what it cannot be given is told."""

from __future__ import annotations

import pytest

from lrbench.errors import UserError

from .conftest import Named


def test_every_plain_default_is_written_out(named: Named) -> None:
    config = named("Recurrent", hidden=5)
    assert config.args == {"hidden": 5, "bias": True}  # a class is not written, nor the place
    assert config.width_as == ["dim"]
    again = named("Recurrent", tuple(config.width_as), **config.args)
    assert again == config


def test_the_width_has_the_name_that_the_class_gives_it(named: Named) -> None:
    assert named("Strange", ("breite",), heads=2).width_as == ["breite"]
    with pytest.raises(
        UserError, match=r"(?s)takes breite.*tried: hidden_size, d_model.*width_as=.breite."
    ):
        named("Strange", heads=2)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("Recurrent", {"hiden": 3}, "argument of .* 'hiden' unknown. Did you mean 'hidden'"),
        ("Recurrent", {"dim": 3}, r"(?s)which argument of .* is the width\? it takes hidden, bias"),
        ("Failing", {}, None),
    ],
)
def test_what_cannot_be_given(named: Named, name: str, args: dict, message: str | None) -> None:
    if message is None:
        assert named(name, **args).args == {}  # its constructor is not called yet
        return
    with pytest.raises(UserError, match=message):
        named(name, **args)


def test_what_is_missing_is_named_with_a_way_to_give_it(named: Named) -> None:
    with pytest.raises(UserError, match=r"(?s)needs heads\nfix: .*'\{heads: VALUE\}'"):
        named("Strange", ("breite",))
