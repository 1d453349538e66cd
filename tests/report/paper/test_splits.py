"""The paper's numbers by split: found by our names, as shares with the digits printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.locations import GIVEN
from lrbench.report.paper.recipe import faithful_on
from lrbench.report.paper.reference import (
    Reference,
    Split,
    ablation,
    load,
    lookup_on,
    measured_on,
    names,
    printed_on,
    printed_splits,
    reference_dir,
    table_of,
)
from lrbench.tables import load_table

NEAR = Split("listops", "near_iid")


def test_a_percentage_is_a_share_with_the_digits_printed(printed: Path) -> None:
    found = lookup_on(NEAR, "bbt_grc", folder=printed)
    assert found is not None
    assert (found.text, found.value, found.spread) == ("0.59", 0.59, "")
    assert (found.rule, found.trials) == ("best", 3)
    assert (found.source, found.aggregation) == ("rir2023, Table 2", "median of 3 runs")
    mega = lookup_on(NEAR, "bbt_grc", row="MEGA", folder=printed)
    assert mega is not None
    assert (mega.text, mega.spread) == ("0.7545", "0.0026")


def test_what_was_copied_was_chosen_by_rules_of_others(printed: Path) -> None:
    lra = Split("listops", "lra_test", "lra_train")
    found = lookup_on(lra, "x", row="S4D (copied)", folder=printed)
    assert found is not None
    assert (found.rule, found.trials) == (None, None)
    assert lookup_on(lra, "s4d_stack", folder=printed) is None


@pytest.mark.parametrize(
    ("split", "model", "value"),
    [
        (Split("listops", "lra_test"), "s4d_stack", "0.174"),
        (Split("listops", "lra_test", "lra_train"), "bbt_grc", "0.5515"),
        (Split("listops", "mix_test", "mix_train"), "bbt_grc", "0.557"),
        (Split("logic", "test_8"), "bbt_grc", "0.777"),
        (Split("listops", "args_iid"), "bbt_grc", None),
        (Split("listops", "near_iid", "lra_train"), "bbt_grc", None),
        (Split("logic", "test_13"), "bbt_grc", None),
        (Split("sum", "near_iid"), "bbt_grc", None),
    ],
)
def test_a_number_belongs_to_a_split_and_what_was_trained_on(
    split: Split, model: str, value: str | None, printed: Path
) -> None:
    found = lookup_on(split, model, folder=printed)
    assert (found.text if found else None) == value


def test_a_table_has_its_own_numbers_and_splits(printed: Path) -> None:
    assert [n.text for n in _numbers("2", printed)] == ["0.59", "0.7545"]
    assert [n.text for n in _numbers("5", printed)] == ["0.015", "0.7833"]
    assert [n.text for n in _numbers("", printed)] == ["0.59", "0.7545", "0.7833"]
    assert printed_splits("4", printed) == [
        Split("listops", "lra_test", "lra_train"),
        Split("lra_text", "test"),
        Split("listops", "mix_test", "mix_train"),
    ]
    assert table_of("arXiv:2311.04449, Table 4") == "4"
    assert table_of("arXiv:2309.07412v2, Table 2") == table_of("") == ""


def _numbers(table: str, folder: Path) -> list[Reference]:
    return printed_on(NEAR, table, folder)


def test_measured_baselines_tell_on_how_many_strings(printed: Path) -> None:
    assert measured_on(NEAR, printed) == {"uniform": (0.1, 10_000), "root_digits": (0.54, 10_000)}
    assert measured_on(Split("logic", "test_8"), printed) == {}


def test_logic_of_our_own_making_is_not_the_papers() -> None:
    logic = Split("logic", "test_8")
    assert faithful_on(logic, {"task.source": "released"})
    assert not faithful_on(logic, {"task.source": "made"})


def test_documents_cut_elsewhere_are_not_the_papers() -> None:
    text = Split("lra_text", "test")
    assert faithful_on(text, {"task.longest": 4096}) and faithful_on(text, {})
    assert not faithful_on(text, {"task.longest": 1000})
    found = lookup_on(text, "bbt_grc")
    assert found is not None and found.text == "0.8569"
    assert faithful_on(NEAR, {})


def test_every_split_we_name_is_in_the_shipped_files() -> None:
    rows = [row for row in load(reference_dir()) if row["paper"] in ("rir2023", "lrbench")]
    there = {(row["task"], row["split"]) for row in rows}
    assert {(row["task"], row["split"]) for row in names("splits")} <= there
    for row in names("splits"):
        kept = measured_on(Split(row["lrbench_task"], row["lrbench_split"], row["train_split"]))
        assert ("majority" in kept) == (row["lrbench_task"] not in GIVEN)  # nobody measured those
        assert all(n and 0 < value < 1 for value, n in kept.values())


def test_titles_name_the_training_split_only_where_it_is_unusual() -> None:
    assert Split("listops", "lra_test", "lra_train").title == "lra_test"
    assert NEAR.title == "near_iid"
    assert Split("listops", "near_iid", "lra_train").title == "near_iid, trained on lra_train"


def test_ablations_are_called_as_the_tables_call_them() -> None:
    """A run on its own and a cell of the paper's tables have the same row of the paper."""
    cells = [
        cell for name in ("rir2023_table2", "rir2023_table5") for cell in load_table(name).cells
    ]
    seen = set()
    for cell in cells:
        settings = dict(override.split("=", 1) for override in cell.overrides)
        if found := ablation(settings["model"], settings):
            assert cell.reference == found
            seen.add(found)
    assert seen == {row["model"] for row in names("ablations")}
