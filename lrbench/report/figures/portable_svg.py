"""SVG whose bytes do not depend on the processor that drew it.

matplotlib writes coordinates to six decimals, and names markers and clip paths by a hash of theirs.
The last bits of a layout differ between processors, and with them a digit here and a name there.
"""

from __future__ import annotations

import re
from itertools import count

DECIMALS = 3  # of a point, 1/72 inch: a hundredth of what can be seen
# Round numbers are common in a drawing, and so are halves of the last digit that is kept; moved by
# this much before they are rounded, none of them lies where the last bit decides.
OFF_ROUND = 0.00023

_NAMED = re.compile(rb'((?: id="|url\(#|href="#))([mpch][0-9a-f]{10})(?=[")])')
_PLACED = re.compile(rb' (?:d|x|y|width|height|points)="[^"]*"|translate\([^)]*\)')
_DECIMAL = re.compile(rb"-?\d+\.\d+")


def portable_svg(drawn: bytes) -> bytes:
    """Return a drawing of matplotlib with its hashed names numbered and its coordinates rounded."""
    names: dict[bytes, bytes] = {}
    numbers = {letter: count(1) for letter in b"mpch"}

    def named(found: re.Match[bytes]) -> bytes:
        before, name = found.groups()
        if name not in names:
            names[name] = b"%c%d" % (name[0], next(numbers[name[0]]))
        return before + names[name]

    return _PLACED.sub(_rounded, _NAMED.sub(named, drawn))


def _rounded(found: re.Match[bytes]) -> bytes:
    return _DECIMAL.sub(_number, found[0])


def _number(found: re.Match[bytes]) -> bytes:
    text = f"{float(found[0]) + OFF_ROUND:.{DECIMALS}f}".rstrip("0").rstrip(".")
    return b"0" if text == "-0" else text.encode()
