"""The variants of two papers: lengths, answers and vocabularies as their generators have them."""

from __future__ import annotations

import hashlib
import itertools

import pytest

from lrbench.errors import UserError
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE
from lrbench.tasks.chomsky.variants import VariantTask
from lrbench.tasks.stream import Stream

NAMES = (
    *("xlstm_parity", "xlstm_even_pairs", "xlstm_cycle_navigation", "xlstm_modular_arithmetic"),
    *("slice_parity", "slice_even_pairs", "slice_cycle_nav", "slice_modular_arithmetic"),
)
# lines written by hand from the generators' definitions: symbols that are read, and the answer
BY_HAND = {
    "xlstm_parity": [("1", "1"), ("2", "2"), ("1 2 2 1", "1"), ("2 2 2", "2")],
    "xlstm_even_pairs": [("1 1", "1"), ("1 2", "2"), ("2 1 1 2", "1"), ("2 1 2 1", "2")],
    "xlstm_cycle_navigation": [("-1", "at 5"), ("+1 +1 stay", "at 2"), ("+1 -1 -1 -1", "at 4")],
    "xlstm_modular_arithmetic": [("4 =", "4"), ("3 - 2 × 4 =", "0"), ("1 - 3 + 2 × 2 =", "2")],
    "slice_parity": [("a", "a"), ("b", "b"), ("b a b a", "a"), ("b b b", "b")],
    "slice_even_pairs": [("a", "a"), ("a b", "b"), ("b a b", "a")],
    "slice_cycle_nav": [("-1", "at 4"), ("+1 +1 +1 stay", "at 3"), ("+1 -1 -1 -1", "at 3")],
    "slice_modular_arithmetic": [("4 =", "4"), ("2 × 3 =", "1"), ("0 - 1 - 2 × 3 =", "3")],
}


def made(name: str, shared: bool = True) -> VariantTask:
    config = TASKS.get(name).config(shared_vocabulary=shared)
    task = make_task(config)
    assert isinstance(task, VariantTask)
    return task


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_lines_written_by_hand(name: str, shared: bool) -> None:
    task = made(name, shared)
    for text, answer in BY_HAND[name]:
        tokens = [task.vocabulary.index(symbol) for symbol in text.split()]
        found = task.oracle(tokens)
        assert found[:-1] == [IGNORE] * (len(tokens) - 1)
        assert task.class_names[found[-1]] == answer, text


@pytest.mark.parametrize("name", NAMES)
def test_the_machine_answers_as_the_oracle(name: str) -> None:
    task = made(name)
    machine = task.machine()
    assert machine is not None
    seen = 0
    for length in range(1, 5):
        for tokens in itertools.product(range(machine.symbols), repeat=length):
            state: int | None = machine.start
            for token in tokens:
                state = None if state is None else machine.delta[state][token]
            if state is None or (answer := machine.answers[state]) is None:
                continue
            seen += 1
            assert answer == task.oracle(list(tokens))[-1]
    assert seen > 20


# lengths, and how many symbols are read: of a paper's 3 .. 40
READ = {
    "xlstm_parity": {3: 2, 40: 39, 256: 255},
    "xlstm_even_pairs": {3: 2, 40: 39},
    "xlstm_cycle_navigation": {3: 2, 40: 39},
    "xlstm_modular_arithmetic": {3: 2, 39: 38, 255: 254},
    "slice_parity": {3: 3, 40: 40},
    "slice_even_pairs": {3: 3, 40: 40},
    "slice_cycle_nav": {3: 3, 40: 40},
    "slice_modular_arithmetic": {3: 4, 4: 4, 39: 40, 40: 40, 255: 256},
}


@pytest.mark.parametrize("name", NAMES)
def test_what_a_length_counts(name: str) -> None:
    task = made(name)
    for length, read in READ[name].items():
        batch = task.sample(Stream.named(0, "a test"), 0, 64, length, "cpu")
        assert batch.tokens.shape == (64, read) and (batch.lengths == read).all()
        for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
            assert targets == task.oracle(tokens)
        assert int(batch.tokens.max()) < len(task.vocabulary)
        assert task.vocabulary.index("[PAD]") not in batch.tokens


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_many_lengths_end_at_their_own(name: str) -> None:
    task, stream = made(name), Stream.named(0, "a test")
    lengths = [task.nearest_length(length) for length in (3, 7, 5, 12, 4, 9)]
    batch = task.of_lengths(stream, 3, lengths, "cpu")
    for row, length in enumerate(lengths):
        read = task.positions(length)
        assert batch.lengths[row] == read
        tokens = batch.tokens[row, :read].tolist()
        assert batch.targets[row, :read].tolist() == task.oracle(tokens)
        assert (batch.targets[row, read:] == IGNORE).all()


def test_vocabularies_are_as_large_as_the_papers() -> None:
    shared = {name: made(name).num_classes for name in NAMES}
    own = {name: made(name, shared=False).num_classes for name in NAMES}
    assert list(shared.values()) == [3, 3, 10, 10, 3, 3, 9, 10]
    assert list(own.values()) == [2, 2, 6, 5, 2, 2, 5, 5]


def test_lengths_that_there_are_not() -> None:
    for name, length in (("xlstm_modular_arithmetic", 12), ("xlstm_parity", 1)):
        with pytest.raises(UserError, match=f"task {name}: no strings of length {length}"):
            made(name).sample(Stream.named(0, "a test"), 0, 1, length, "cpu")


# sha256, the first twelve digits, of the symbols of 64 strings of length 39
DIGESTS = {
    "xlstm_parity": "0ba53368b21f",
    "xlstm_even_pairs": "0ba53368b21f",
    "xlstm_cycle_navigation": "82f149491da4",
    "xlstm_modular_arithmetic": "5e26e5673b85",
    "slice_parity": "e756ee5a7492",
    "slice_even_pairs": "e756ee5a7492",
    "slice_cycle_nav": "4c0136f33eaa",
    "slice_modular_arithmetic": "6406a8a84867",
}


@pytest.mark.parametrize("name", NAMES)
def test_strings_stay_what_they_are(name: str) -> None:
    """Another digest is another task: raise its version."""
    batch = made(name).sample(Stream.named(0, "pinned"), 0, 64, 39, "cpu")
    drawn = hashlib.sha256(str(batch.tokens.tolist()).encode()).hexdigest()[:12]
    assert drawn == DIGESTS[name]


BRACKETS = "xlstm_modular_arithmetic_brackets"


@pytest.mark.parametrize("shared", [True, False])
def test_brackets_of_grazzi_et_al(shared: bool) -> None:
    """Lines written by hand from the released generator; what a length counts, and the answers."""
    task = make_task(TASKS.get(BRACKETS).config(shared_vocabulary=shared))
    assert task.num_classes == (12 if shared else 5)  # the source has a vocabulary of 12
    for text, answer in {
        "- 3 =": "2",
        "( 4 ) =": "4",
        "( - 1 ) =": "4",
        "( 2 - 4 ) =": "3",
        "( ( 1 - 3 ) - - 4 ) =": "2",
        "( 3 + ( ( 0 - 1 ) - 4 ) ) =": "3",
    }.items():
        tokens = [task.vocabulary.index(symbol) for symbol in text.split()]
        found = task.oracle(tokens)
        assert found[:-1] == [IGNORE] * (len(tokens) - 1)
        assert task.class_names[found[-1]] == answer, text
    stream = Stream.named(0, "a test")
    for length, read in {3: 3, 4: 3, 5: 3, 6: 4, 40: 38, 256: 254}.items():
        batch = task.sample(stream, 0, 64, length, "cpu")
        assert batch.tokens.shape == (64, read)
        for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
            assert targets == task.oracle(tokens)
            text = task.describe_string(tokens).split()
            assert text[-1] == "=" and "=" not in text[:-1]
            assert not {"[PAD]", "\N{MULTIPLICATION SIGN}"} & set(text)
    with pytest.raises(UserError, match="it has lengths >= 3"):
        task.sample(stream, 0, 1, 2, "cpu")


def test_brackets_without_multiplication_have_no_likely_answer() -> None:
    batch = make_task(TASKS.get(BRACKETS).config()).sample(Stream.named(0, "a"), 0, 5000, 40, "cpu")
    counts = batch.targets[:, -1].bincount(minlength=5).tolist()
    assert len(counts) == 5 and all(900 < count < 1100 for count in counts)


def test_brackets_by_row_end_at_their_own() -> None:
    task, stream = make_task(TASKS.get(BRACKETS).config()), Stream.named(0, "a test")
    lengths = [3, 40, 7, 12]
    batch = task.of_lengths(stream, 3, lengths, "cpu")
    assert batch.lengths.tolist() == [3, 38, 5, 10]
    for row, read in enumerate(batch.lengths.tolist()):
        assert batch.targets[row, :read].tolist() == task.oracle(batch.tokens[row, :read].tolist())
        assert (batch.targets[row, read:] == IGNORE).all()
