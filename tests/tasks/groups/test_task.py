"""Words over groups: their answers, letters, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from lrbench.checks import from_a_user
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE
from lrbench.tasks.groups.algebra import group
from lrbench.tasks.groups.task import GroupConfig
from lrbench.tasks.stream import Stream

STREAM = Stream.named(0, "test")


def task_of(**settings: Any) -> Any:
    return make_task(GroupConfig(**settings))


def test_a_worked_example() -> None:
    task = task_of(group="S3")
    assert task.vocabulary == task.class_names == ("012", "021", "102", "120", "201", "210")
    assert task.answers(torch.tensor([[1, 2, 3]])).tolist() == [[1, 4, 0]]


@pytest.mark.parametrize("name", ["S5", "A4", "S6"])
def test_answers_are_composed_permutations(name: str) -> None:
    """The printed letters, composed point by point: the letter acts first, then all before it."""
    task = task_of(group=name)
    batch = task.sample(STREAM, 0, 8, 40, "cpu")
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        product = {point: point for point in range(int(name[1]))}
        for token, target in zip(tokens, targets, strict=True):
            letter = [int(digit) for digit in task.vocabulary[token]]
            product = {point: product[letter[point]] for point in product}
            assert task.class_names[target] == "".join(map(str, product.values()))


def test_answers_of_a_cyclic_group_are_sums() -> None:
    batch = task_of(group="Z60").sample(STREAM, 0, 8, 40, "cpu")
    assert torch.equal(batch.targets, batch.tokens.cumsum(1) % 60)


def test_letters_that_are_swaps() -> None:
    task = task_of(group="S5", letters="swaps")
    assert task.letters == (0, 1, 2, 5, 6, 14, 21, 24, 54, 80, 105)
    assert task.num_classes == 120
    without = task_of(group="S5", letters="swaps", identity=False)
    assert without.letters == task.letters[1:]


@pytest.mark.parametrize(("points", "letters"), [(2, 11), (3, 31), (4, 76), (5, 120)])
def test_letters_that_move_few_points(points: int, letters: int) -> None:
    task = task_of(group="S5", letters="move_at_most", letters_arg=points)
    assert len(task.vocabulary) == letters
    for name in task.vocabulary:
        assert sum(int(to) != point for point, to in enumerate(name)) <= points


def test_letters_that_generate() -> None:
    assert task_of(group="A5", letters="generators").letters == (16, 13)
    assert task_of(group="A5", letters="generators", identity=True).letters == (0, 16, 13)
    assert task_of(group="Z2xZ4", letters="generators").vocabulary == ("(1,0)", "(0,1)")
    assert len(task_of(group="A5", identity=False).letters) == 59


def test_random_letters_generate_and_are_a_function_of_their_seed() -> None:
    made = group("S5")
    drawn = [
        task_of(group="S5", letters="random", letters_arg=2, letters_seed=seed).letters
        for seed in range(20)
    ]
    again = task_of(group="S5", letters="random", letters_arg=2, letters_seed=7).letters
    assert drawn[7] == again
    assert len(set(drawn)) > 15
    assert all(made.generated(letters) == 120 and 0 not in letters for letters in drawn)


def test_the_last_answer_alone() -> None:
    every, last = task_of(group="S4"), task_of(group="S4", ask="last")
    all_of, one = (task.sample(STREAM, 3, 5, 9, "cpu") for task in (every, last))
    assert torch.equal(one.tokens, all_of.tokens)
    assert (one.targets[:, :-1] == IGNORE).all()
    assert torch.equal(one.targets[:, -1], all_of.targets[:, -1])
    assert last.oracle(one.tokens[0].tolist()) == one.targets[0].tolist()


def test_letters_and_answers_are_uniform() -> None:
    batch = task_of(group="D5").sample(STREAM, 0, 10_000, 6, "cpu")
    for drawn in (batch.tokens[:, 3], batch.targets[:, -1]):
        counts = torch.bincount(drawn, minlength=10).double()
        assert ((counts - 1000) ** 2 / 1000).sum() < 27.9  # chi-square, 9 degrees, p = 0.001


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"letters": "swaps", "group": "A5"}, "a subgroup of order 1 of A5, which has 60 elements"),
        (
            {"letters": "move_at_most", "letters_arg": 1, "group": "S4"},
            "letters_arg=1 generate a subgroup of order 1 of S4",
        ),
        ({"letters": "swaps", "group": "Z6"}, "the elements of Z6 move no points"),
        ({"letters": "swap"}, "not 'swap'. Did you mean 'swaps'?"),
        ({"letters": "random"}, "write task.letters_arg=3, say, with task.letters=random"),
        ({"letters": "all", "letters_arg": 3}, "letters_arg is for move_at_most and random"),
        (
            {"letters": "random", "letters_arg": 1},
            "of 1,000 draws the best generate a subgroup of order 5",
        ),
        ({"letters": "random", "letters_arg": 60}, "A5 has 59 elements without the identity"),
        ({"letters": "random", "letters_arg": 0}, "task.letters_arg must be at least 1"),
        ({"ask": "first"}, "task.ask must be one of all, last"),
        ({"letters_seed": 3}, "task.letters_seed=3 is for task.letters=random; leave it out"),
        ({"group": "S7"}, "too large"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], complaint: str) -> None:
    with from_a_user(), pytest.raises(ValueError, match=re.escape(complaint)) as error:
        GroupConfig(**settings)
    assert len(str(error.value).splitlines()) <= 3


def test_titles() -> None:
    assert GroupConfig(group="S3").title == "group (S3)"
    settings: dict[str, Any] = {"group": "S5", "letters": "random", "letters_arg": 3}
    assert GroupConfig(**settings).title == "group (S5, random 3)"


def test_a_cup_is_followed_through_the_swaps() -> None:
    """Cups 0, 1, 2; letters are swaps: the newest acts first, as products do."""
    task = task_of(group="S3", letters="swaps", view="cup")
    assert task.vocabulary == ("012", "021", "102", "210", "cup 0", "cup 1", "cup 2")
    assert task.class_names == ("place 0", "place 1", "place 2")
    assert task.oracle([1, 2, 4])[-1] == 2  # (102 moves 0 to 1, then 021 moves 1 to 2)
    assert task.oracle([3, 4]) == [IGNORE, 2] and task.oracle([3, 5]) == [IGNORE, 1]
    batch = task.sample(STREAM, 0, 300, 6, "cpu")
    assert batch.tokens.shape == (300, 7) and int(batch.tokens[:, :6].max()) == 3
    assert set(batch.tokens[:, 6].tolist()) == {4, 5, 6}
    assert batch.targets.tolist() == [task.oracle(row) for row in batch.tokens.tolist()]
    product = task_of(group="S3", letters="swaps")
    assert torch.equal(batch.tokens[:, :6], product.sample(STREAM, 0, 300, 6, "cpu").tokens)
    rows = task.of_lengths(STREAM, 2, [3, 6, 1], "cpu")
    for tokens, targets, length in zip(rows.tokens, rows.targets, (4, 7, 2), strict=True):
        assert targets[:length].tolist() == task.oracle(tokens[:length].tolist())
        assert (targets[length:] == IGNORE).all()


@pytest.mark.parametrize("view", ["product", "cup"])
def test_a_start_symbol_is_an_answer_and_moves_no_letter(view: str) -> None:
    plain = task_of(group="A4", view=view)
    task = task_of(group="A4", view=view, start_symbol=True)
    drawn, without = (one.sample(STREAM, 0, 20, 9, "cpu") for one in (task, plain))
    assert task.vocabulary[-1] == "[BOS]" and (drawn.tokens[:, 0] == len(plain.vocabulary)).all()
    assert torch.equal(drawn.tokens[:, 1:], without.tokens)
    assert torch.equal(drawn.targets[:, 1:], without.targets)
    if view == "product":
        assert (drawn.targets[:, 0] == 12).all() and task.class_names[12] == "[BOS]"
    pieces = list(task.segments(STREAM, 20, 9, 4, "cpu"))
    assert torch.equal(torch.cat([piece.tokens for piece in pieces], 1), drawn.tokens)
    assert torch.equal(torch.cat([piece.targets for piece in pieces], 1), drawn.targets)
    assert drawn.targets.tolist() == [task.oracle(row) for row in drawn.tokens.tolist()]


def test_a_start_symbol_alone_is_no_string_where_the_last_is_asked() -> None:
    for ask, asked in (("all", 6), ("last", None)):
        task = task_of(group="S3", ask=ask, start_symbol=True)
        assert task.machine().run((6, 4, 1)) == [asked, 4, task.oracle((6, 4, 1))[-1]]
        assert task.sample(STREAM, 0, 5, 1, "cpu").targets[:, -1].max() < 6


def test_groups_that_move_no_cups() -> None:
    with pytest.raises(ValueError, match=r"task\.view=cup: the elements of Z6 move no cups"):
        GroupConfig(group="Z6", view="cup")
