"""The contract of `Task`, held by every built-in task."""

import itertools
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lrbench.errors import UserError
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE, Task
from lrbench.tasks.stream import Stream, integers

STREAM = Stream.named(0, "test")
FIELDS = ("tokens", "targets")

contract = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def valid_tokens(task, position):
    """The tokens that may stand at `position`."""
    numbers = task.config.modulus
    if task.name.startswith("mod_arith"):
        return range(numbers, numbers + 3) if position % 2 else range(numbers)
    return range(numbers)


@pytest.mark.parametrize("length", range(1, 6))
def test_answers_equal_the_oracle_on_every_string(task, length):
    # prefixes that end in an operator are no strings of mod_arith, but have answers all the same
    alphabets = [valid_tokens(task, position) for position in range(length)]
    strings = list(itertools.product(*alphabets))
    answers = task.answers(torch.tensor(strings)).tolist()
    assert answers == [task.oracle(string) for string in strings]


@pytest.mark.slow
@contract
@given(length=st.integers(1, 60), step=st.integers(0, 10**6))
def test_samples_are_valid_strings_with_the_oracle_s_answers(task, length, step):
    length = task.nearest_length(length)
    batch = task.sample(STREAM, step, 4, length, "cpu")
    assert batch.tokens.shape == batch.targets.shape == (4, length)
    assert batch.tokens.dtype == batch.targets.dtype == batch.lengths.dtype == torch.int64
    assert batch.lengths.tolist() == [length] * 4
    for string, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert all(token in valid_tokens(task, t) for t, token in enumerate(string))
        assert targets == task.oracle(string)
        assert set(targets) <= {IGNORE, *range(task.num_classes)}
        assert targets[-1] != IGNORE


@pytest.mark.slow
@contract
@given(length=st.integers(1, 60), segment=st.integers(1, 61), step=st.integers(0, 10**6))
def test_segments_joined_equal_the_sample(task, length, segment, step):
    length = task.nearest_length(length)
    whole = task.sample(STREAM, step, 3, length, "cpu")
    pieces = list(task.segments(STREAM, 3, length, segment, "cpu", step))
    for field in FIELDS:
        joined = torch.cat([getattr(piece, field) for piece in pieces], 1)
        assert torch.equal(joined, getattr(whole, field))
    widths = [min(segment, length - start) for start in range(0, length, segment)]
    assert [piece.lengths.tolist() for piece in pieces] == [[width] * 3 for width in widths]


@contract
@given(cuts=st.lists(st.integers(1, 30), max_size=6))
def test_answers_may_be_cut_anywhere(task, cuts):
    batch = task.sample(STREAM, 0, 3, 31, "cpu")
    bounds = sorted({0, 31, *cuts})
    carry, targets = None, []
    for start, stop in itertools.pairwise(bounds):
        piece, carry = task._answer(batch.tokens[:, start:stop], start, carry)
        targets.append(piece)
    assert torch.equal(torch.cat(targets, 1), batch.targets)


@contract
@given(rows=st.integers(1, 9), first=st.integers(1, 8), shorter=st.integers(1, 31))
def test_rows_and_prefixes_do_not_depend_on_the_rest(task, rows, first, shorter):
    whole = task.sample(STREAM, 5, first + rows, 31, "cpu")
    shorter = task.nearest_length(shorter)
    part = task.sample(STREAM.from_row(first), 5, rows, shorter, "cpu")
    for field in FIELDS:
        assert torch.equal(getattr(part, field), getattr(whole, field)[first:, :shorter])


@contract
@given(first=st.integers(0, 10**6), steps=st.integers(1, 4), rows=st.integers(1, 5))
def test_samples_of_several_steps_are_those_of_each(task, first, steps, rows):
    together = task.samples(STREAM.from_row(2), range(first, first + steps), rows, 11, "cpu")
    assert len(together) == steps
    for step, batch in enumerate(together, first):
        alone = task.sample(STREAM.from_row(2), step, rows, 11, "cpu")
        for field in (*FIELDS, "lengths"):
            assert torch.equal(getattr(batch, field), getattr(alone, field))


def test_steps_and_streams_give_other_strings(task):
    here = task.sample(STREAM, 0, 8, 31, "cpu").tokens
    assert not torch.equal(here, task.sample(STREAM, 1, 8, 31, "cpu").tokens)
    assert not torch.equal(here, task.sample(Stream.named(1, "test"), 0, 8, 31, "cpu").tokens)


@pytest.mark.parametrize("segment", [3, 4])
def test_pieces_that_are_written_to_do_not_change_later_ones(task, segment):
    whole = task.sample(STREAM, 0, 3, 31, "cpu")
    targets = []
    for piece in task.segments(STREAM, 3, 31, segment, "cpu"):
        targets.append(piece.targets.clone())
        piece.targets.zero_()
        piece.tokens.zero_()
    assert torch.equal(torch.cat(targets, 1), whole.targets)


@pytest.mark.slow
def test_the_end_of_a_long_string(task):
    pieces = list(task.segments(STREAM, 1, 20_001, 1_000, "cpu"))
    tokens = torch.cat([piece.tokens for piece in pieces], 1)[0].tolist()
    ends = {
        "even_pair": lambda: int(tokens[-1] == tokens[0]),
        "mod_arith": lambda: task._value(tokens),
        "mod_arith_ltr": lambda: task._value(tokens),
    }
    expected = ends.get(task.name, lambda: sum(tokens) % task.config.modulus)()
    assert pieces[-1].targets[0, -1].item() == expected


def test_names_and_symbols(task):
    entry = TASKS.get(task.name)
    assert entry.cls is type(task)
    assert entry.source
    assert len(set(task.vocabulary)) == len(task.vocabulary)
    assert len(set(task.class_names)) == task.num_classes
    assert (task.metric.name, task.metric.higher_is_better) == ("accuracy", True)
    first_two = [valid_tokens(task, 0)[1], valid_tokens(task, 1)[-1]]
    assert task.describe_string(first_two) == f"1 {task.vocabulary[first_two[1]]}"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((STREAM, 0, 2, 0), "no strings of length 0"),
        ((STREAM, 0, 2, -3), "no strings of length -3"),
        ((STREAM, 0, 0, 5), "batch must be at least 1, not 0"),
    ],
)
def test_impossible_samples_are_user_errors(task, arguments, complaint):
    with pytest.raises(UserError, match=f"^task {task.name}: {complaint}"):
        task.sample(*arguments, "cpu")


def test_segments_complain_before_the_first_piece(task):
    with pytest.raises(UserError, match="segment must be at least 1, not 0"):
        task.segments(STREAM, 2, 5, 0, "cpu")
    with pytest.raises(UserError, match="no strings of length 0"):
        task.segments(STREAM, 2, 0, 5, "cpu")


@dataclass
class BlocksConfig:
    name: str = "blocks"


class Blocks(Task):
    """A user's own task: bits in blocks of four; the answer is the bit itself."""

    length_rule = "lengths that are multiples of 4"
    vocabulary = class_names = ("0", "1")

    def valid_length(self, length):
        return length >= 4 and length % 4 == 0

    def oracle(self, tokens):
        return list(tokens)

    def _tokens(self, stream, step, rows, start, stop, device):
        return integers(stream, step, rows, start, stop, 2, device)

    def _answer(self, tokens, start, carry):
        return tokens.clone(), ()


def test_a_task_may_have_a_length_rule_of_its_own():
    task = Blocks(BlocksConfig())
    assert task.nearest_length(11) == 8
    with pytest.raises(UserError) as error:
        task.sample(STREAM, 0, 1, 11, "cpu")
    assert str(error.value).splitlines() == [
        "task blocks: no strings of length 11; it has lengths that are multiples of 4",
        "use 8, the nearest below",
    ]
    with pytest.raises(UserError, match="no strings of length <= 3"):
        task.nearest_length(3)


def test_an_unknown_task_is_a_user_error():
    with pytest.raises(UserError, match=r"task 'summ' unknown\. Did you mean 'sum'"):
        make_task(BlocksConfig(name="summ"))
