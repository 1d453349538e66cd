"""What the verdicts of a paper's table mean, and what they leave open."""

from __future__ import annotations

from collections.abc import Iterator

from lrbench.report.entry import Entry
from lrbench.report.places import View
from lrbench.report.verdict import FEWEST, LEARNED, RELATIVE_TOLERANCE, TOLERANCE

BETWEEN = "above, below = all of it on that side; inconclusive = too wide to tell"
OTHER = "not comparable = another rule, length or protocol than the paper's"
OF_ACCURACIES = (
    f"verdicts (none for fewer than {FEWEST} runs): reproduced = 95 % interval within {TOLERANCE}"
    f" of the paper's number at its printed precision; {BETWEEN}; not learned = the median run has"
    f" less than {LEARNED} at the training length; at chance = no better than guessing under the"
    f" same rule, or far worse; {OTHER}"
)
WITHIN = f"within {RELATIVE_TOLERANCE} times the paper's number"
OF_ERRORS = (
    f"verdicts (none for fewer than {FEWEST} runs): reproduced = 95 % interval {WITHIN} of it, at"
    f" its printed precision; {BETWEEN}; not learned = all runs diverged; at chance = no better"
    f" than the best baseline; {OTHER}"
)
ERRORS = (
    "NRMSE: root of the summed squared error over the summed squared target, at every position of"
    " every test series; lower is better, so below the paper's number is better than it; look and"
    " fresh strings are the same test series; nothing is guessed or solved"
)
ERRORS_BESIDE = (
    f"; reproduced = {WITHIN} of it; at chance = no better than the best baseline; not learned ="
    " all runs diverged"
)


def how_to_read(view: View) -> Iterator[str]:
    """Yield the lines on verdicts that `view` needs."""
    counted = [entry.metric.counts for entry in view.entries]
    only_errors = bool(counted) and not any(counted)
    yield OF_ERRORS if only_errors else OF_ACCURACIES
    if any(_all_alike(entry, view.rule) for entry in view.entries):
        yield (
            "runs that are all alike give an interval without width: a further run may differ all"
            " the same; the solve rates have an interval that says how often"
        )
    yield from _fewer_updates(view)
    if not all(counted):
        yield ERRORS + ("" if only_errors else ERRORS_BESIDE)


def _fewer_updates(view: View) -> Iterator[str]:
    """Say where our runs had a smaller budget than the paper's: that alone may be a 'below'."""
    budgets = {
        (ours, entry.published.updates)
        for entry in view.entries
        if len(entry.runs) and entry.published
        if (ours := entry.settings.get("protocol.max_steps")) and ours < entry.published.updates
    }
    for ours, theirs in sorted(budgets):
        yield (
            f"our runs of {ours:,} updates stand against the paper's of {theirs:,}: 'below', 'not"
            " learned' and 'at chance' may be for want of training"
        )


def _all_alike(entry: Entry, rule: str) -> bool:
    values = entry.values(rule, "look")
    return len(values) >= FEWEST and len(set(values)) == 1
