"""What was found of each thing that a verification looks at."""

from __future__ import annotations

from dataclasses import dataclass

GOOD, BAD, OPEN = "as told", "differs", "not checked"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: `status` is as told, differs or not checked."""

    what: str
    status: str
    text: str = ""


def finding(what: str, wrong: list[str], text: str) -> Finding:
    """Return that all is as told, with `text`, or the first thing that is wrong."""
    if not wrong:
        return Finding(what, GOOD, text)
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return Finding(what, BAD, f"{wrong[0]}{more}")
