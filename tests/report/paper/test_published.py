from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.report.paper.reference import measured_chance, printed_modulus, published


@pytest.mark.parametrize(
    ("task", "train", "test"), [("sum", 40, 500), ("even_pair", 40, 500), ("mod_arith", 39, 499)]
)
def test_how_the_paper_looked(task: str, train: int, test: int) -> None:
    found = published("fan2024", task, 5)
    assert found is not None
    assert (found.train_length, found.test_length) == (train, test)
    assert (found.looks, found.strings) == (40, 128)


def test_nothing_where_the_files_do_not_say(references: Path) -> None:
    assert published("fan2024", "sum", 3) is None
    assert published("rir2023", "sum", 5) is None
    assert published("fan2024", "parity", 2) is None
    assert published("fan2024", "sum", 5, references) is None
    assert measured_chance("sum", 5, 500, references) is None


@pytest.mark.parametrize(
    ("task", "length", "level"),
    [("sum", 500, 0.2), ("even_pair", 500, 0.8), ("mod_arith", 499, 0.2)],
)
def test_chance_was_measured_at_the_papers_lengths(task: str, length: int, level: float) -> None:
    assert measured_chance(task, 5, length) == pytest.approx(level, abs=0.005)
    assert measured_chance(task, 5, length + 2) is None


def test_the_printed_modulus(references: Path) -> None:
    assert printed_modulus("sum", "fan2024") == 5
    assert printed_modulus("sum", "fan2024", references) == 5
    assert printed_modulus("even_pair", "fan2024", references) is None
    assert printed_modulus("sum", "mine") is None
    with (references / "more.csv").open("w") as file:
        file.write("paper,table,task,split,model,metric,value,spread,unit,aggregation\n")
        file.write("Fan2024-LRNN (x),Table 2,Sum(3),,S4,accuracy,0.3,,,\n")
    other = references.rename(references.with_name("two"))
    assert printed_modulus("sum", "fan2024", other) is None
