"""The figures of a report, as its request has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lrbench.report.collect import Collection
from lrbench.report.figure_data import panels
from lrbench.report.figures import Drawing, draw
from lrbench.report.learning import learning_panels
from lrbench.report.length_curves import solving
from lrbench.report.request import Request, narrowed


def drawings(
    collection: Collection, request: Request, kinds: Sequence[str] = ("svg",)
) -> Iterator[Drawing]:
    """Yield the figures of what `request` shows, each in all `kinds`: 'svg', 'pdf'.

    A table of lengths has no figures of costs, and only the curves that are its rows. Raises
    UserError where matplotlib is not installed.
    """
    table, rule = request.table, request.one_rule
    if table is not None and table.kind == "lengths":
        mine = solving(collection, table, rule, request.fingerprints)
        yield from draw(panels(mine, rule), kinds, only_lengths=True)
    else:
        mine = narrowed(collection, request)
        yield from draw(panels(mine, rule), kinds, learning=learning_panels(mine))
