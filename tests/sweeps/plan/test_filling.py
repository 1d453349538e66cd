"""One rule of what fills a cell: a report's is the sweep's."""

from __future__ import annotations

import json
from pathlib import Path

from lrbench.cli.hydra.compose import composed
from lrbench.report.grids.selection import others_there, select
from lrbench.report.runs.collect import collect
from lrbench.sweeps.plan.filling import fingerprinted, fingerprints
from lrbench.tables import TableCell, TableSpec
from tests.report.conftest import make_result

SMALL = (
    *("model.width=4", "model.backbone.hidden=4", "protocol.train_length=6"),
    *("protocol.test_lengths=[9]", "protocol.further_lengths=[12]", "protocol.band=[7,8]"),
    *("protocol.batch_size=4", "protocol.look_every=2", "protocol.look_size=8"),
    *("protocol.validation_size=8", "protocol.test_size=8", "protocol.max_steps=2"),
    *("protocol.stop=never", "device=cpu", "protocol.certify=never"),
)


def test_a_run_fills_a_cell_where_a_sweep_finds_it_finished(train, tmp_path: Path) -> None:
    table = TableSpec(
        "t",
        "T",
        (
            TableCell(("task=sum", "model=lstm", "trials=2", *SMALL)),
            TableCell(("task=sum", "model=gru")),
        ),
    )
    train(("task=sum", "model=lstm", *SMALL, "seed=1"))
    train(("task=sum", "model=gru", *SMALL))
    runs = collect(tmp_path / "outputs")
    found = fingerprinted(table, others_there(runs, table), composed)
    mine, other = select(runs, found)
    assert (mine.unlike, len(mine.runs)) == (None, 1)
    assert other.unlike is not None and len(other.runs) == 1
    assert any(word.startswith("protocol.max_steps=") for word in other.unlike)
    assert [cell.fingerprint for cell in found.cells] == [*fingerprints([table], composed).values()]


def test_seeds_of_a_cell_have_one_fingerprint() -> None:
    one, several = (TableCell(("task=sum", "model=lstm", word)) for word in ("seed=0", "seed=1,2"))
    table = TableSpec("t", "T", (one, several))
    found = fingerprinted(table, [one, several], composed)
    assert found.cells[0].fingerprint == found.cells[1].fingerprint != ""


def test_a_cell_that_cannot_be_composed_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "sum" / "blockdiag" / "fan2024" / ("a" * 12) / "s0"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(make_result()))
    plain = TableCell(("task=sum", "model=blockdiag"), fingerprint="b" * 12)
    empty = TableCell(("task=sum", "model=lstm"))
    runs, table = collect(tmp_path), TableSpec("t", "T", (plain, empty))
    [found, other] = fingerprinted(table, others_there(runs, table), refusing).cells
    assert (found.unknown, found.settings) == ("no such run", None)
    assert other == empty  # it has no run, and nobody asked
    [filled, _] = select(runs, TableSpec("t", "T", (found, other)))
    assert (filled.unlike, filled.unknown) == ((), "no such run")


def refusing(words: object) -> None:
    from lrbench.errors import UserError

    raise UserError("no such run\nfix: another")
