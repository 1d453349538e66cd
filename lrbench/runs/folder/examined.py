"""The scores of an examination that has not ended: examination.jsonl of a run's folder.

A line has what one section (a split, or all tests) of one checkpoint gave. It names the checkpoint
by the digest of its weights, so a line of weights that were trained anew since is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from lrbench.certificates.record import weights_digest
from lrbench.report.runs.schema import is_finite, section_complaint
from lrbench.runs.folder import files
from lrbench.training.examination import Kept, Scored


class Examined(Kept):
    """What a run kept, with the scores of an examination that was cut off.

    path: the file; `Run.finish` removes it. seconds: time that earlier processes spent on the
    scores that were found in it.
    """

    def __init__(self, load: Callable[[str], dict[str, Tensor]], path: Path) -> None:
        super().__init__(load)
        self.path = path
        self.seconds = 0.0

    def scored(self, weights: Mapping[str, Tensor], section: str) -> Scored | None:
        named = weights_digest(weights)
        for line in files.newest_lines(self.path):
            if (line.get("weights"), line.get("section")) != (named, section):
                continue
            if section_complaint(line) is None:
                taken = [row.get("seconds") for row in line["rows"]]
                self.seconds += sum(filter(is_finite, taken))
                return line["rows"], line["horizon"]
        return None

    def keep(self, weights: Mapping[str, Tensor], section: str, step: int, scored: Scored) -> None:
        rows, horizon = scored
        if files.finite([rows, horizon]) != [rows, horizon]:
            return  # JSON has no NaN: what comes back would be another score
        named = {"step": step, "section": section, "weights": weights_digest(weights)}
        files.append_line(self.path, {**named, "rows": rows, "horizon": horizon})
