"""Table 1 is measured as it is told: training on one string, beside the unit, within limits."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context

import pytest
import torch

from lrbench.bench import tree_speed
from lrbench.bench.tree_speed import (
    LENGTHS,
    ROWS,
    CellLimits,
    Reading,
    Row,
    chosen_lengths,
    chosen_rows,
    drawn,
    measured,
)
from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.registry import ENCODERS
from lrbench.report.paper.times import printed_ratio, times_unit, tree_speeds

CPU = torch.device("cpu")
SMALL = ("model.width=16",)


def settings_of(*arguments: str) -> dict:
    return asdict(composed(["task=listops", *arguments, *SMALL]))


def test_every_row_is_a_model_and_a_row_of_the_paper() -> None:
    printed = tree_speeds()
    for row in ROWS:
        assert row.model in ENCODERS
        assert all((row.paper, lengths) in printed for lengths in LENGTHS)
        if row.plain:
            assert hasattr(ENCODERS.get(row.model).cls, "reference")
    assert {row.paper for row in ROWS} == {model for model, _ in printed}
    assert len({row.label for row in ROWS}) == len(ROWS)


def test_the_papers_ratios() -> None:
    printed = tree_speeds()
    assert times_unit(printed, "RNN-GRC", "200-250") == 1.0
    assert times_unit(printed, "EBT-GRC", "900-1000") == pytest.approx(5.5 / 1.3)
    assert times_unit(printed, "BT-GRC", "1500-2000") is None, "out of memory there"
    assert printed_ratio(printed, "BT-GRC", "1500-2000") == ("OOM", "OOM")
    assert printed_ratio(printed, "EBT-GRC", "900-1000") == (
        "4.23",
        printed["EBT-GRC", "900-1000"].peak_memory,
    )
    assert printed_ratio(printed, "BT-GRC", "100-200") == ("-", "-")
    assert printed["OM", "500-600"].peak_memory == "0.21"


def test_a_cell_is_measured_beside_the_unit() -> None:
    row = Row("bbt_grc", "BBT-GRC", SMALL)
    cost = measured(composed, row, "40-50", CellLimits(3, 60, 8), CPU)
    assert (cost.strings, cost.failed) == (3, "")
    assert len(cost.passes) == len(cost.unit_passes) == 3
    assert cost.seconds == pytest.approx(sum(cost.passes) / 3)
    assert cost.ratio is not None and cost.peak_bytes is not None


def test_what_takes_too_long_is_measured_on_fewer_strings() -> None:
    job = settings_of("model=rnn_grc")
    passes, units, _ = tree_speed._measure(job, job, False, "20-30", CellLimits(9, 0, 1000), "cpu")
    assert len(passes) == len(units) == 1


def test_what_needs_more_memory_is_reported() -> None:
    row = Row("crvnn", "CRvNN (no halt)", ("model.encoder.halt=false",))
    cost = measured(composed, row, "900-900", CellLimits(1, 60, 0.02), CPU)
    assert cost.failed in ("out of memory", "killed")
    assert (cost.strings, cost.seconds, cost.peak_bytes) == (0, None, None)


def weighed() -> tuple[float, int, bool]:
    """Train on a short string, weigh a long one; return what was found, and if all learnt."""
    reading = Reading(settings_of("model=bbt_grc"), CPU)
    short, long = (drawn(range(n, n + 3), 1)[0] for n in (16, 900))
    reading.train(short)
    return *reading.weigh(long), all(p.grad is not None for p in reading.model.parameters())


def test_longer_strings_need_more_memory() -> None:
    # a process that has done other things has memory to spare: nothing would be added
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        seconds, peak, learnt = pool.submit(weighed).result()
    assert seconds > 0 and peak > 1 << 20 and learnt


def test_a_plain_row_is_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    cls = ENCODERS.get("ebt_grc").cls
    reference = cls.reference
    monkeypatch.setattr(
        cls, "reference", lambda self, *a: read.append(len(a)) or reference(self, *a)
    )
    string = drawn(range(16, 20), 1)[0]
    for plain in (False, True):
        Reading(settings_of("model=ebt_grc"), CPU, plain).train(string)
    assert read == [3], "x, mask and a generator: it trains"


def test_strings_have_the_lengths_that_were_asked_for() -> None:
    found = drawn(range(200, 251), 5)
    assert all(200 <= len(string) <= 250 for string in found)
    again = drawn(range(200, 251), 5)
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))


def test_what_is_not_known_is_refused() -> None:
    assert [row.label for row in chosen_rows(["ebt_grc"])] == [
        "ebt_grc",
        "ebt_grc (plain reference)",
    ]
    with pytest.raises(UserError, match="model of this table 'ebt' unknown"):
        chosen_rows(["ebt"])
    for text in ("200", "300-200", "a-b", "1-2"):
        with pytest.raises(UserError, match="--lengths must be ranges"):
            chosen_lengths([text])
