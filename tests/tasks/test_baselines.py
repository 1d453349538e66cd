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
def test_chance(name, length, uniform, majority, position, last_token):
    rows = measured(name, length)
    assert values(rows) == {
        "uniform": close(uniform),
        "majority": close(majority),
        "position": close(position),
        "last_token": close(last_token),
    }
    assert {(row["length"], row["n"]) for row in rows} == {(length, 0)}  # exact


@pytest.mark.parametrize(("name", "level"), [("sum", 1 / 33), ("even_pair", 32 / 33)])
def test_measured_where_there_are_many_symbols(name, level):
    rows = measured(name, 40, modulus=33)
    assert values(rows) == {
        "uniform": close(1 / 33 if name == "sum" else 0.5),
        **dict.fromkeys(("majority", "position", "last_token"), close(level)),
    }
    assert {(row["length"], row["n"]) for row in rows} == {(40, 4_000)}


def test_majority_counts_all_positions_and_position_only_the_last():
    # of the answers (1, 0) and, once in ten, (1, 1), more are 1 than 0
    rows = values(measured("even_pair", 2, modulus=10))
    assert rows["majority"] == close(0.1)
    assert rows["position"] == close(0.9)


@pytest.mark.parametrize(
    ("name", "length", "uniform", "majority", "position"),
    [
        ("nnch_bucket_sort", 200, 0.2, 0.2, 0.898),  # the place tells nine answers in ten
        ("nnch_reverse_string", 40, 0.5, 0.5, 0.5),
        ("nnch_modular_arithmetic_brackets", 40, 0.2, 0.2916, 0.2916),
        ("nnch_solve_equation", 40, 0.2, 0.2, 0.2),
        ("nnch_binary_addition", 1, 1 / 3, 0.5, 1.0),  # 0, and its end
    ],
)
def test_chance_of_slots(name, length, uniform, majority, position):
    rows = values(measured(name, length))
    last = {"last_token": close(position)}
    wanted = {"uniform": uniform, "majority": majority, "position": position}
    assert rows == {key: close(value) for key, value in wanted.items()} | last


@pytest.mark.parametrize(("name", "answers"), [("reverse_string", 40), ("duplicate_string", 40)])
def test_guesses_vary_as_so_many_independent_ones(name, answers):
    """Of bits that are answered twice each, half of the answers are independent."""
    rows = measured(f"nnch_{name}", 40)
    assert [row["answers"] for row in rows[1:3]] == pytest.approx([answers] * 2, rel=0.1)


def test_the_last_token_is_that_of_the_string_not_the_query():
    rows = values(measured("nnch_parity_check", 1))
    assert (rows["last_token"], rows["position"]) == (1.0, close(0.5))
    rows = values(measured("nnch_reverse_string", 2))  # the first answer is the last symbol
    assert (rows["last_token"], rows["position"]) == (close(0.75), close(0.5))


def test_the_last_token_is_there_where_the_length_counts_the_answer():
    """xlstm_parity of length 3 has two symbols; of length 2 the answer is its one symbol's."""
    rows = values(measured("xlstm_parity", 2))
    assert (rows["last_token"], rows["position"]) == (1.0, close(0.5))
    assert values(measured("xlstm_parity", 3))["last_token"] == close(0.5)


def test_answers_that_are_not_scored_are_no_chance():
    """Of a stack of one bit both scored answers follow; a padded one would be a third."""
    rows = values(measured("nnch_stack_manipulation", 1))
    assert rows["last_token"] == 1.0
    assert rows["position"] == close(0.75)


def test_chunks_of_several_answers_do_not_change_the_numbers(monkeypatch):
    whole = measured("nnch_binary_addition", 12, n=300)
    monkeypatch.setattr(baselines, "_ROWS", 300)
    assert measured("nnch_binary_addition", 12, n=300) == whole
    monkeypatch.setattr(baselines, "_POSITIONS", 40 * 25)
    parts = measured("nnch_binary_addition", 12, n=300)
    assert parts[1:] == whole[1:]
    monkeypatch.setattr(baselines, "_ANSWERS", 25 * 50)
    assert {row["n"] for row in measured("nnch_binary_addition", 12, n=300)} == {50}


def test_strings_scored_are_not_those_fitted_on():
    for length in (1, 5, 9):
        assert values(measured("sum", length, n=1, modulus=10_000))["position"] == 0


def test_a_token_never_fitted_on_gets_the_commonest_answer():
    answer = baselines._by_last_token([(0, 1), (0, 1), (0, 2), (3, 4)], otherwise=9)
    assert [answer(token) for token in (0, 3, 7)] == [1, 4, 9]


def test_chunks_do_not_change_the_numbers(monkeypatch):
    whole = measured("mod_arith", 39, n=300, modulus=31)
    monkeypatch.setattr(baselines, "_ROWS", 7)
    monkeypatch.setattr(baselines, "_SEGMENT", 4)
    assert measured("mod_arith", 39, n=300, modulus=31) == whole


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
    task = make_task(TASKS.get("mod_arith").config(modulus=31))
    on = {d: measure_baselines(task, STREAM, 39, 300, d) for d in ("cpu", "cuda")}
    assert on["cuda"] == on["cpu"]
