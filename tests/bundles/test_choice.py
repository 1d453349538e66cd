"""What a manifest keeps of the choice of a table, and what it may say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lrbench.bundles.choice import TableChoice
from lrbench.errors import UserError
from lrbench.tables import load_table


def kept(name: str) -> dict[str, Any]:
    """The choice of a built-in table as a manifest has it."""
    reported: dict[str, Any] = json.loads(json.dumps(TableChoice(load_table(name)).as_json()))
    return reported


@pytest.mark.parametrize("name", ["fan2024_table2", "length_curves"])
def test_a_choice_comes_back(name: str) -> None:
    assert TableChoice.from_json(kept(name)) == TableChoice(load_table(name))


def test_earlier_versions_had_no_kind() -> None:
    reported = kept("fan2024_table2")
    del reported["table"]["kind"]
    assert TableChoice.from_json(reported) == TableChoice(load_table("fan2024_table2"))


def test_a_kind_that_is_none() -> None:
    reported = kept("fan2024_table2")
    reported["table"]["kind"] = "x" * 100
    with pytest.raises(UserError, match="is none of"):
        TableChoice.from_json(reported)
