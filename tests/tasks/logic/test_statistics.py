"""What we make has the statistics of what was released (recursive_models.md 3.6)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from benchmarks.logic_statistics import count_variables, describe, side_by_side
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.corpus.task import of_labels
from lrbench.tasks.logic.formulas import RELATIONS, count_operators
from lrbench.tasks.logic.generator import FormulaPairs
from lrbench.tasks.logic.splits import by_size, split, written

# of the released corpus: unique pairs of each size; name: (n, shares of # < > = ^ | v)
SIZES = (36, 2729, 14649, 27356, 35734, 40179, 38768, 31378, 22309, 14864, 9625, 5758, 5684)
FILES = {
    "train1": (2319, (0.658, 0.099, 0.098, 0.025, 0.016, 0.052, 0.052)),
    "train2": (12451, (0.590, 0.103, 0.100, 0.018, 0.014, 0.089, 0.087)),
    "train3": (23252, (0.545, 0.109, 0.111, 0.020, 0.015, 0.101, 0.100)),
    "train4": (30373, (0.539, 0.106, 0.108, 0.020, 0.020, 0.104, 0.105)),
    "train5": (34152, (0.534, 0.106, 0.106, 0.023, 0.022, 0.104, 0.106)),
    "train6": (32952, (0.526, 0.106, 0.109, 0.021, 0.021, 0.109, 0.109)),
    "test7": (4707, (0.514, 0.115, 0.116, 0.016, 0.018, 0.117, 0.104)),
    "test8": (3347, (0.516, 0.108, 0.117, 0.016, 0.016, 0.116, 0.111)),
    "test9": (2230, (0.514, 0.116, 0.117, 0.011, 0.011, 0.117, 0.115)),
    "test10": (1444, (0.513, 0.118, 0.128, 0.010, 0.009, 0.099, 0.123)),
    "test11": (864, (0.506, 0.131, 0.096, 0.010, 0.006, 0.115, 0.137)),
    "test12": (853, (0.482, 0.127, 0.118, 0.007, 0.006, 0.149, 0.111)),
}
TRAINING = (0.5424, 0.1061, 0.1071, 0.0208, 0.0191, 0.1021, 0.1024)
BEFORE = (0.607, 0.069, 0.069, 0.063, 0.052, 0.069, 0.069)  # of all draws
SHAPES = {  # mean tokens on the left, of the longer side, shares of and, or, not, variables
    "train1": (5.15, 6.86, 0.361, 0.370, 0.270, 2.54),
    "train2": (7.59, 11.22, 0.314, 0.312, 0.374, 2.75),
    "train3": (9.98, 15.71, 0.292, 0.293, 0.415, 2.88),
    "train4": (12.54, 20.50, 0.290, 0.297, 0.412, 3.06),
    "train5": (15.18, 24.90, 0.283, 0.287, 0.430, 3.19),
    "train6": (17.93, 29.04, 0.272, 0.273, 0.455, 3.30),
}
ORDER = "#<>=^|v"


@pytest.fixture(scope="module")
def files(drawn: tuple[FormulaPairs, int]) -> dict[str, FormulaPairs]:
    return by_size(drawn[0])


@pytest.fixture(scope="module")
def made(files: dict[str, FormulaPairs]) -> dict[str, Strings]:
    return {name: written(files[name]) for name in FILES}


def shares(pairs: Strings) -> list[float]:
    return [describe(pairs).relations[name] for name in ORDER]


def within_sampling(n: int, share: float) -> float:
    """Four standard errors of the difference of two shares of n, and their rounding."""
    return 4 * (2 * share * (1 - share) / n) ** 0.5 + 0.0005


@pytest.mark.parametrize("name", FILES)
def test_the_numbers_are_those_of_the_released_files(
    name: str, released: dict[str, Strings]
) -> None:
    n, wanted = FILES[name]
    assert len(released[name]) == n
    assert shares(released[name]) == pytest.approx(wanted, abs=0.0006)


def test_sizes(files: dict[str, FormulaPairs], drawn: tuple[FormulaPairs, int]) -> None:
    pairs, rejected = drawn
    assert len(pairs) == 500_000 and rejected == pytest.approx(86_718, rel=0.02)
    for size, wanted in enumerate(SIZES):
        found = len(files[f"train{size}"]) + len(files[f"test{size}"])
        assert found == pytest.approx(wanted, rel=0.05 if size in (1, 10, 11, 12) else 0.04)
    assert sum(map(len, files.values())) == pytest.approx(249_069, rel=0.01)


def test_relations_before_anything_is_removed(drawn: tuple[FormulaPairs, int]) -> None:
    found = np.bincount(drawn[0].labels, minlength=7) / len(drawn[0])
    by_name = dict(zip(RELATIONS, found, strict=True))
    assert [by_name[name] for name in ORDER] == pytest.approx(BEFORE, abs=0.003)


@pytest.mark.parametrize("name", FILES)
def test_relations(name: str, made: dict[str, Strings]) -> None:
    n, wanted = FILES[name]
    for found, share in zip(shares(made[name]), wanted, strict=True):
        tolerance = 0.015 if n > 10_000 else max(0.015, within_sampling(n, share))
        assert found == pytest.approx(share, abs=tolerance)


@pytest.mark.parametrize("name", SHAPES)
def test_lengths_operators_and_variables(
    name: str, made: dict[str, Strings], released: dict[str, Strings]
) -> None:
    for pairs, tolerance in ((released[name], 0.001), (made[name], 0.02)):
        found = describe(pairs)
        shape = (found.left_tokens, found.longer_tokens, *found.operators.values())
        assert (*shape, found.variables) == pytest.approx(SHAPES[name], rel=tolerance, abs=0.006)
        assert found.longest == found.longest_left == 6 * int(name[-1]) + 1


def features(pairs: Strings) -> dict[str, np.ndarray]:
    operators = count_operators(pairs.tokens, pairs.offsets).reshape(-1, 2)
    return {
        "relation": pairs.labels,
        "operators on the left": operators[:, 0],
        "tokens on the left": pairs.lengths[:, 0],
        "tokens on the right": pairs.lengths[:, 1],
        "variables": count_variables(pairs),
    }


def test_no_test_of_distribution_tells_ours_from_the_released(
    files: dict[str, FormulaPairs], released: dict[str, Strings]
) -> None:
    """Chi-squared, of five features in each of 18 files: p is spread as it is by chance."""
    p = []
    for name, theirs in released.items():
        both = [features(theirs), features(written(files[name]))]
        for feature in both[0]:
            values = np.unique(np.concatenate([one[feature] for one in both]))
            table = np.array([[(one[feature] == v).sum() for v in values] for one in both])
            table = table[:, table.sum(0) > 10]
            if table.shape[1] > 1:
                p.append(chi2_contingency(table).pvalue)
    assert len(p) > 80
    assert min(p) > 0.001 / len(p)
    assert 0.35 < np.median(p) < 0.65


def test_the_tests_hold_what_is_drawn_late(
    made: dict[str, Strings], files: dict[str, FormulaPairs]
) -> None:
    assert describe(made["train1"]).operators["not"] == pytest.approx(0.270, abs=0.01)
    assert describe(written(files["test1"])).operators["not"] < 0.03


def test_splits_of_the_released_files(released: dict[str, Strings]) -> None:
    splits = dict(split(["train", "dev", "test_8"], released))
    assert {name: len(part) for name, part in splits.items()} == {
        "train": 121_977,
        "dev": 13_552,
        "test_8": 3347,
    }
    both = np.concatenate([splits["train"].labels, splits["dev"].labels])
    found = dict(zip(RELATIONS, np.bincount(both) / len(both), strict=True))
    assert [found[name] for name in ORDER] == pytest.approx(TRAINING, abs=0.00006)
    assert splits["dev"].text(0) == released["train0"].text(9)
    assert splits["dev"].text(3) == released["train1"].text(9)
    assert splits["train"].text(9) == released["train0"].text(10)


def test_majority(released: dict[str, Strings]) -> None:
    train = released["train6"]
    found = of_labels(train, released["test8"])
    assert found["majority"] == pytest.approx(0.516, abs=0.0005)
    assert found["uniform"] == pytest.approx(1 / 7)
    part = released["test8"].take(released["test8"].labels == RELATIONS.index("<"))
    assert of_labels(part, part)["majority"] == 1
    assert of_labels(train, part)["majority"] == 0


def test_side_by_side(released: dict[str, Strings]) -> None:
    lines = side_by_side({"one": released["train1"], "another": released["train2"]}).splitlines()
    assert lines[0].split() == ["one", "another"] and lines[1].split() == [
        "pairs",
        "2,319",
        "12,451",
    ]
    assert len({len(line) for line in lines}) == 1
    assert lines[8].split() == ["#", "0.6580", "0.5895"]
