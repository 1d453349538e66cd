"""What a check found: passed, failed or not applicable, with the numbers that say so."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

LONGEST_TEXT = 160


@dataclass(frozen=True)
class Finding:
    """One line of a contract's report; `passed` is None where the check does not apply.

    `trace` is the traceback where the mixer's own code raised: a bug that its author has to see.
    """

    name: str
    passed: bool | None
    detail: str
    trace: str = ""

    @property
    def verdict(self) -> str:
        return {True: "ok", False: "FAILED", None: "not applicable"}[self.passed]

    def __str__(self) -> str:
        return f"{self.verdict:<14}  {self.name:<13}  {self.detail}"


def not_applicable(name: str, reason: str) -> Finding:
    """Return the finding of a check that this mixer or machine gives no occasion for."""
    return Finding(name, None, reason)


def raised(name: str, error: Exception) -> Finding:
    """Return the failure of a check in which the mixer's code raised `error`."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    if len(text) > LONGEST_TEXT:
        text = text[: LONGEST_TEXT - 3] + "..."
    return Finding(name, False, f"raised {text}", "".join(traceback.format_exception(error)))
