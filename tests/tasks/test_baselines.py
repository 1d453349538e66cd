import pytest
import torch

from lrbench.registry import TASKS
from lrbench.statistics import guessing_best_of
from lrbench.tasks import baselines, make_task
from lrbench.tasks.baselines import best_baseline, measure_baselines
from lrbench.tasks.stream import Stream

STREAM = Stream.named(0, "baselines")


def measured(name, length, n=4_000, **config):
    task = make_task(TASKS.get(name).config(**config))
    return measure_baselines(task, STREAM, length, n, "cpu")


def values(rows):
    return {row["baseline"]: row["value"] for row in rows}


def close(value):
    return pytest.approx(value, abs=0.03)


@pytest.mark.parametrize(
    ("name", "length", "uniform", "majority", "position", "last_token"),
    [
        ("sum", 40, 0.2, 0.2, 0.2, 0.2),
        ("sum", 1, 0.2, 0.2, 0.2, 1.0),  # the sum of one symbol is the symbol
        ("parity", 40, 0.5, 0.5, 0.5, 0.5),
        ("even_pair", 40, 0.5, 0.8, 0.8, 0.8),
        ("even_pair", 1, 0.5, 1.0, 1.0, 1.0),  # position 0 equals itself
        ("mod_arith", 39, 0.2, 0.2, 0.2, 0.2),
        # 19/75; a last 0 gives 0 at a product and else a uniform value: (7/15 + 4 x 1/5) / 5
        ("mod_arith", 3, 0.2, 0.2533, 0.2533, 0.2533),
    ],
)
def test_measured_chance(name, length, uniform, majority, position, last_token):
    rows = measured(name, length)
    assert values(rows) == {
        "uniform": close(uniform),
        "majority": close(majority),
        "position": close(position),
        "last_token": close(last_token),
    }
    assert {(row["length"], row["n"]) for row in rows} == {(length, 4_000)}


def test_majority_counts_all_positions_and_position_only_the_last():
    # of the answers (1, 0) and, once in ten, (1, 1), more are 1 than 0
    rows = values(measured("even_pair", 2, modulus=10))
    assert rows["majority"] == close(0.1)
    assert rows["position"] == close(0.9)


def test_strings_scored_are_not_those_fitted_on():
    for length in (1, 5, 9):
        assert values(measured("sum", length, n=1, modulus=10_000))["position"] == 0


def test_a_token_never_fitted_on_gets_the_commonest_answer():
    answer = baselines._by_last_token([(0, 1), (0, 1), (0, 2), (3, 4)], otherwise=9)
    assert [answer(token) for token in (0, 3, 7)] == [1, 4, 9]


def test_chunks_do_not_change_the_numbers(monkeypatch):
    whole = measured("mod_arith", 39, n=300)
    monkeypatch.setattr(baselines, "_ROWS", 7)
    monkeypatch.setattr(baselines, "_SEGMENT", 4)
    assert measured("mod_arith", 39, n=300) == whole


def test_the_best_is_the_most_accurate_and_the_first_of_equals():
    rows = [{"baseline": name, "value": value} for name, value in (("a", 0.1), ("b", 0.3))]
    assert best_baseline([*rows, {"baseline": "c", "value": 0.3}])["baseline"] == "b"


@pytest.mark.parametrize(("p", "best"), [(0.2, 0.279), (0.8, 0.873)])
def test_best_of_forty_looks_of_a_guesser(p, best):
    assert guessing_best_of(p, 128, 40) == pytest.approx(best, abs=0.001)


def test_one_look_is_chance():
    assert guessing_best_of(0.2, 128, 1) == pytest.approx(0.2, abs=1e-12)
    assert guessing_best_of(1.0, 128, 3) == 1.0


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_measures_the_same_numbers():
    task = make_task(TASKS.get("mod_arith").config())
    on = {d: measure_baselines(task, STREAM, 39, 300, d) for d in ("cpu", "cuda")}
    assert on["cuda"] == on["cpu"]
