"""Names of curves: those of a table's rows, and never a fingerprint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lrbench.report.figures.draw import drawings
from lrbench.report.figures.labels import configuration_labels, row_labels, short
from lrbench.report.runs.collect import collect
from lrbench.report.tables.request import Request
from lrbench.tables import TableCell, TableSpec
from tests.report.runs.test_under_way import going

Write = Callable[..., Path]
A, B, C, D = (letter * 12 for letter in "abcd")
SPEC = TableSpec(
    "labels",
    "Labels",
    (
        TableCell(("task=sum", "model=s4")),
        TableCell(("task=sum", "model=blockdiag", "optim.lr=0.001"), label="our recipe"),
        TableCell(("task=sum", "model=blockdiag", "optim.lr=0.0001"), label="as released"),
    ),
)


def test_curves_are_named_and_ordered_as_the_rows_are(runs: Path, write: Write) -> None:
    write(fingerprint=A, lr=1e-4)
    write(fingerprint=B, lr=1e-3)
    write(fingerprint=C, model="s4")
    write(fingerprint=D, lr=0.5)
    found = row_labels(collect(runs), Request(table=SPEC))
    rows = [(C, "s4"), (B, "our recipe"), (A, "as released")]
    assert list(found.items()) == [*rows, (D, "blockdiag lr=0.5, of no row")]


def test_configurations_that_compete_for_a_row_are_told_apart(runs: Path, write: Write) -> None:
    spec = TableSpec("one", "One", (TableCell(("task=sum", "model=blockdiag"), label="ours"),))
    write(fingerprint=A, lr=1e-4)
    write(fingerprint=B, lr=1e-3)
    found = row_labels(collect(runs), Request(table=spec))
    assert found == {A: "ours lr=0.0001", B: "ours lr=0.001"}
    chosen = row_labels(collect(runs), Request(table=spec, fingerprints=(B[:4],)))
    assert chosen == {B: "ours"}


def test_equal_settings_are_told_apart_by_number(runs: Path, write: Write) -> None:
    write(fingerprint=A)
    write(fingerprint=B)
    found = configuration_labels(collect(runs))
    assert found == {A: "blockdiag configuration 1", B: "blockdiag configuration 2"}


def test_an_unfinished_run_has_its_row(runs: Path, write: Write) -> None:
    going(runs, seed=1, lines=({"step": 900},))
    collection = collect(runs)
    [run] = collection.under_way
    assert configuration_labels(collection) == {run.fingerprint: "blockdiag"}


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("elman model.mixer.iterations=4", "elman iterations=4"),
        ("rir model.encoder.s4d=false optim.lr=0.1", "rir s4d=false lr=0.1"),
        ("blockdiag, 40.000", "blockdiag, 40.000"),
    ],
)
def test_settings_have_their_own_names(label: str, shown: str) -> None:
    assert short(label) == shown


def test_no_drawing_of_a_table_says_a_fingerprint(runs: Path, write: Write) -> None:
    write(fingerprint=A, lr=1e-4)
    write(fingerprint=B, lr=1e-3, train_seconds=5.0)
    made = [
        drawing.files["page"] for drawing in drawings(collect(runs), Request(table=SPEC), ("page",))
    ]
    assert len(made) == 3  # horizons, lengths, costs
    for svg in made:
        assert b"our recipe" in svg and b"as released" in svg
        assert A[:6].encode() not in svg and B[:6].encode() not in svg
