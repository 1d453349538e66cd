"""What a check of a bundle found: one line for each thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass

GOOD, BAD, OPEN = "confirmed", "differs", "not checked"


@dataclass(frozen=True)
class BundleFinding:
    """One thing that was looked at: `status` is confirmed, differs or not checked."""

    what: str
    status: str
    text: str = ""


def finding(what: str, wrong: list[str], text: str) -> BundleFinding:
    """Return that all is confirmed, with `text`, or the first thing that is wrong."""
    if not wrong:
        return BundleFinding(what, GOOD, text)
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return BundleFinding(what, BAD, f"{wrong[0]}{more}")
