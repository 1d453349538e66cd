"""Which devices are named: their numbers count among those that are visible."""

from __future__ import annotations

import re

import pytest

from lrbench.errors import UserError
from lrbench.sweeps.launch.devices import named_devices


def test_numbers_count_among_the_visible_devices() -> None:
    assert named_devices("0,1", "2,3") == ("2", "3")
    assert named_devices("1", "3,2") == ("2",)
    assert named_devices("[GPU-b,0]", "GPU-a, GPU-b") == ("GPU-b", "GPU-a")
    assert named_devices("2,03") == ("2", "3")  # without CUDA_VISIBLE_DEVICES all are visible


@pytest.mark.parametrize(
    ("text", "visible", "message"),
    [
        ("2", "2,3", "no device 2; CUDA_VISIBLE_DEVICES is '2,3'"),
        ("GPU-c", "GPU-a", "no device GPU-c"),
        ("0", "", "no device 0"),
        ("0,1,0", None, "names a device twice"),
        ("0,00", None, "names a device twice"),
        ("0,GPU-a", "GPU-a,GPU-b", "names a device twice"),
        ("0,one", None, "'one' is no device"),
    ],
)
def test_devices_that_are_not_there_or_twice(text: str, visible: str | None, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        named_devices(text, visible)
