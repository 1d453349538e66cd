"""Generated strings against the released file and the specification, statistic by statistic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from benchmarks.listops_statistics import side_by_side, statistics
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.draw import NANGIA, bits, labelled, trees
from lrbench.tasks.listops.expressions import depths

from .oracle import nesting

LENGTHS = {4: 51, 5: 423, 6: 860, 7: 917, 8: 328, 9: 450, 10: 501, 11: 393, 12: 304}
HUNDREDS = [8925, 626, 247, 111, 42, 28, 11, 8, 1, 1]
DEPTHS = [1, 2093, 2339, 1429, 893, 611, 519, 404, 287, 230, 185, 158, 113, 104, 88, 81, 48, 61]
DEPTHS += [32, 324]
LABELS = [1127, 1038, 967, 978, 991, 969, 895, 930, 964, 1141]
SHORT_LABELS = [989, 927, 878, 871, 894, 871, 800, 837, 851, 1015]


def test_the_released_file_is_the_one_that_was_measured(released: Strings, shared: Path) -> None:
    found, lengths = statistics(released), released.lengths
    n = len(released)
    assert n == len({released.text(row) for row in range(n)}) == 10_000
    assert [round(found[f"length {k}"] * n) for k in range(1, 13)] == [1, 0, 0, *LENGTHS.values()]
    assert np.bincount(lengths // 100).tolist() == HUNDREDS
    assert [round(found[f"depth {k}"] * n) for k in range(20)] == DEPTHS
    assert np.bincount(released.labels).tolist() == LABELS
    quantiles = {"min": 1, "p1": 5, "p5": 6, "p10": 6, "p25": 8, "p50": 16, "p75": 40, "p90": 106}
    quantiles |= {"p95": 185.05, "p99": 386.04, "max": 939}
    for name, value in quantiles.items():
        assert found[f"length {name}"] == pytest.approx(value, abs=0.01)
    assert (found["length mean"], found["length std"]) == pytest.approx((42.845, 75.622), abs=1e-3)
    assert found["depth mean"] == pytest.approx(4.527, abs=1e-3)
    assert found["operators mean"] == pytest.approx(9.214, abs=1e-3)
    assert [found[f"operators {name}"] for name in ("p50", "p95", "max")] == [3, 40, 200]
    assert np.bincount(released.tokens)[10:14].sum() == 92_143
    assert np.bincount(released.tokens)[:10].sum() == 244_165
    for name, share in {"SM": 0.2491, "MIN": 0.2524, "MAX": 0.2493, "MED": 0.2491}.items():
        assert found[f"operator {name}"] == pytest.approx(share, abs=6e-5)
    for k, share in zip(range(2, 6), (0.2358, 0.2476, 0.2559, 0.2606), strict=True):
        assert found[f"arguments {k}"] == pytest.approx(share, abs=6e-5)
    for k, share in zip(range(2, 6), (0.1414, 0.2263, 0.3036, 0.3286), strict=True):
        assert found[f"root arguments {k}"] == pytest.approx(share, abs=6e-5)
    assert all(0.099 <= round(found[f"digit {k}"], 3) <= 0.101 for k in range(10))
    assert (found["length <= 100"], found["length <= 50"]) == (0.8933, 0.7966)


def test_the_released_strings_that_are_short(released: Strings) -> None:
    short = released.take(released.lengths <= 100)
    found = statistics(short)
    assert np.bincount(short.labels).tolist() == SHORT_LABELS
    assert (found["length mean"], found["length std"]) == pytest.approx((21.94, 20.59), abs=0.01)
    assert [found[f"length {q}"] for q in ("p50", "p75", "p90", "p95")] == [13, 28, 53, 70]
    assert (found["depth mean"], found["depth p95"]) == pytest.approx((3.32, 8), abs=0.005)


@pytest.mark.slow
def test_ten_thousand_generated_are_within_the_tolerances(nangia: dict[str, Strings]) -> None:
    found = statistics(nangia["near_iid"])
    assert found["strings"] == 10_000
    assert found["length mean"] == pytest.approx(42.8, abs=2.5)
    assert found["length p50"] == 16
    assert found["length p90"] == pytest.approx(106, abs=6)
    assert found["length <= 100"] == pytest.approx(0.893, abs=0.01)
    assert found["depth 19"] == pytest.approx(0.032, abs=0.005)
    assert found["depth 1"] == pytest.approx(0.209, abs=0.012)
    for k in range(2, 6):
        wanted = {2: 0.2358, 3: 0.2476, 4: 0.2559, 5: 0.2606}[k]
        assert found[f"arguments {k}"] == pytest.approx(wanted, abs=0.006)
    for name in ("SM", "MIN", "MAX", "MED"):
        assert found[f"operator {name}"] == pytest.approx(0.25, abs=0.006)


def counts(strings: Strings) -> dict[str, np.ndarray]:
    deepest = np.maximum.reduceat(depths(strings.tokens), strings.offsets[:-1])
    lengths = np.digitize(strings.lengths, [*range(4, 14), 16, 20, 25, 30, 40, 60, 100, 200, 300])
    return {
        "length": np.bincount(lengths, minlength=20),
        "depth": np.bincount(np.maximum(deepest, 1), minlength=20),
        "label": np.bincount(strings.labels, minlength=10),
    }


@pytest.mark.parametrize("name", ["length", "depth", "label"])
def test_generated_and_released_are_of_one_distribution(
    name: str, nangia: dict[str, Strings], released: Strings
) -> None:
    """The file that was to be the test set against all that could have been its training set."""
    others = Strings.join([nangia[split] for split in ("train", "dev", "train_long", "near_iid")])
    table = np.array([counts(strings)[name] for strings in (others, released)])
    table = table[:, table.sum(axis=0) > 20]
    assert table.shape[1] >= 10
    assert chi2_contingency(table).pvalue > 0.001


def test_a_hundred_thousand_are_saturated_at_short_lengths(saturated: Strings) -> None:
    found = statistics(saturated)
    texts = {saturated.row(row).tobytes() for row in range(len(saturated))}
    assert len(texts) == 100_000
    lengths = np.bincount(saturated.lengths)
    assert lengths[:5].tolist() == [0, 10, 0, 0, 400]  # all digits, all of one operator, two digits
    assert [found[f"length {k}"] * 1e4 for k in (5, 6, 7)] == pytest.approx([385, 911, 916], abs=25)
    assert found["length mean"] == pytest.approx(42.72, abs=0.9)
    assert found["length std"] == pytest.approx(73.6, abs=2.0)
    wanted = {"p50": (16, 0), "p90": (107, 2), "p95": (186, 4), "p99": (381, 12)}
    for name, (value, error) in wanted.items():
        assert found[f"length {name}"] == pytest.approx(value, abs=error)
    shares = {"length <= 100": 0.8933, "depth 19": 0.0312, "depth 1": 0.2089, "depth 2": 0.2334}
    for name, value in shares.items():
        assert found[name] == pytest.approx(value, abs=0.003)


def test_counting_by_hand() -> None:
    strings = labelled(*trees(bits(0, "counting"), NANGIA, range(4, 200)))
    found = statistics(strings)
    texts = [strings.text(row).split() for row in range(len(strings))]
    deepest = [nesting(tokens) for tokens in texts]
    opens = [sum(token.startswith("[") for token in tokens) for tokens in texts]
    assert found["depth mean"] == pytest.approx(np.mean(deepest))
    assert found["depth 3"] == pytest.approx(np.mean(np.array(deepest) == 3))
    assert found["operators mean"] == pytest.approx(np.mean(opens))
    values = sum(len(tokens) - count for tokens, count in zip(texts, opens, strict=True))
    mean = sum(k * found[f"arguments {k}"] for k in range(2, 6))
    assert mean == pytest.approx((values - len(strings)) / sum(opens))


def test_table_of_text() -> None:
    columns = {"one": {"a": 1.0, "bb": 12345.0}, "two": {"a": 0.25, "c": 3.0}}
    assert side_by_side(columns).splitlines() == [
        "       one     two",
        "a   1.0000  0.2500",
        "bb  12,345       -",
        "c        -       3",
    ]
