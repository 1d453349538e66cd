"""Searches find planted mistakes, in models that are right but for what a test plants."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Callable
from itertools import count, product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lrbench.certificates import witness
from lrbench.certificates.proof import find_proof
from lrbench.certificates.witness import (
    LONGEST_COMPLETE,
    SearchBudget,
    WitnessSearch,
    rarity,
    search,
)
from lrbench.config import Config
from lrbench.models.build import build_model
from lrbench.registry import MIXERS, TASKS
from lrbench.schema import model_node
from lrbench.tasks import make_task
from lrbench.tasks.machine import Machine
from tests.named_layers import named

from .exact import exact_rnn


def machine_of(name: str, *modulus: int) -> Machine:
    settings = dict(zip(("modulus",), modulus, strict=False))
    machine = make_task(TASKS.get(name).config(**settings)).machine()
    assert machine is not None
    return machine


class Planted(nn.Module):
    """A machine as a model, which is one class off wherever `mistaken` of the string says so.

    Its carried state is the string itself. `lead` is by how much a right answer leads.
    """

    def __init__(
        self,
        machine: Machine,
        mistaken: Callable[[tuple[int, ...]], bool],
        lead: Callable[[tuple[int, ...]], float] = lambda word: 1.0,
    ) -> None:
        super().__init__()
        self.machine, self.mistaken, self.lead = machine, mistaken, lead
        self.classes = max(c for c in machine.answers if c is not None) + 1
        self.read: set[tuple[int, ...]] = set()

    def forward(self, tokens: Tensor, state: Any = None, read: str = "all") -> tuple[Tensor, Any]:
        before = state[0] if state is not None else tokens[:, :0]
        words = torch.cat([before, tokens], 1)
        logits = torch.zeros(len(words), self.classes)
        for row, word in enumerate(map(tuple, words.tolist())):
            self.read.add(word)
            answer = self.machine.run(word)[-1]
            if answer is not None:
                logits[row, (answer + self.mistaken(word)) % self.classes] = self.lead(word)
        return logits, [words]


def right_class(machine: Machine, found: WitnessSearch) -> None:
    """What a witness says of itself is so."""
    witness = found.witness
    assert witness is not None
    assert machine.run(witness.tokens)[-1] == witness.right != witness.given
    assert witness.rarity == rarity(machine, witness.tokens)


def test_a_task_that_asks_once_at_its_end_is_asked_on_the_way() -> None:
    """Its prefixes ask nothing, so families and beam end each with the query to see a margin."""
    machine = machine_of("nnch_parity_check")
    symbols = make_task(TASKS.get("nnch_parity_check").config()).vocabulary
    one, zero, query = (symbols.index(symbol) for symbol in "10?")
    assert machine.shortest_endings()[machine.start] and machine.run([one, zero, query])[-1] == 1
    drifts = Planted(
        machine,
        lambda w: w[-1] == query and len(w) > 30 and set(w[1:-1]) == {zero} and w[0] == one,
        lambda w: 1.0 - 0.01 * len(w) * (set(w[1:-1]) <= {zero}),
    )
    for only in ({"beam": 0}, {"families": 0}):
        for longest in (31, 1000):  # the longest string that may be read is read
            found = search(drifts, machine, SearchBudget(complete=50, longest=longest, **only))
            assert found.witness is not None and found.witness.length == 31
            right_class(machine, found)
        assert search(drifts, machine, SearchBudget(50, longest=30, **only)).witness is None


def test_strings_that_differ_since_they_were_asked_are_told_apart() -> None:
    """A flip-flop asks behind r alone: strings that go on from one answer have its margin."""
    task = make_task(TASKS.get("flip_flop").config())
    machine = task.machine()
    assert machine is not None
    word = tuple(task.vocabulary.index(c) for c in "w0i1r0i0i1r1i1i1r0i1i0r0i1r1")

    def lead(tokens: tuple[int, ...]) -> float:
        """Narrower the longer a string follows the word, whatever its last question is."""
        followed = next(n for n in range(len(word), -1, -1) if tokens[:n] == word[:n])
        return 1.0 - 0.02 * followed * (followed >= len(tokens) - 3)

    planted = Planted(machine, lambda tokens: tokens == word, lead)
    found = search(planted, machine, SearchBudget(complete=50, families=20, longest=40))
    assert found.witness is not None and found.witness.tokens == word
    assert found.witness.found_by == "beam"


def test_every_string_is_tried_once_and_the_shortest_is_found() -> None:
    machine = machine_of("sum", 3)
    model = Planted(machine, lambda word: word[-5:] == (2, 0, 1, 1, 0))
    found = search(model, machine, SearchBudget(complete=3**8))
    assert found.witness is not None
    assert found.witness.tokens == (2, 0, 1, 1, 0)
    assert found.witness.shortest
    assert (found.witness.found_by, found.complete_to) == ("complete", 4)
    assert rarity(machine, found.witness.tokens) == 3**5
    right_class(machine, found)


def test_a_right_model_is_right_on_all_that_were_asked() -> None:
    machine = machine_of("mod_arith", 2)
    model = Planted(machine, lambda word: False)
    # 2 + 2·3 + 2·3·2 + 2·3·2·3 + 2·3·2·3·2 = 128 strings of up to 5 symbols
    found = search(model, machine, SearchBudget(complete=72, families=0, beam=0))
    assert found.witness is None
    assert (found.complete_to, found.strings) == (5, 128)
    choices = [range(2), range(2, 5)] * 3
    valid = {word for n in range(1, 6) for word in product(*choices[:n])}
    assert model.read - {(0,)} == valid - {(0,)}
    assert found.least_margin == 1.0


def test_families_find_a_drift_that_is_too_long_to_try_all() -> None:
    machine = machine_of("sum", 5)
    model = Planted(machine, lambda word: word[:-40].count(1) == 1 and set(word[-40:]) == {0})
    found = search(model, machine, SearchBudget(complete=100, families=700, beam=0, longest=60))
    assert found.witness is not None
    assert found.witness.tokens == (1, *[0] * 40)
    assert (found.witness.found_by, found.witness.shortest) == ("families", False)
    right_class(machine, found)


def test_a_beam_follows_the_narrowest_answers() -> None:
    """A long word is wrong, and each of its beginnings a little less sure than the one before."""
    machine = machine_of("even_pair", 3)
    word = (2, 0, 1, 1, 2, 0, 0, 2, 1, 0, 2, 2, 1, 1)

    def lead(tokens: tuple[int, ...]) -> float:
        common = 0
        while common < min(len(tokens), len(word)) and tokens[common] == word[common]:
            common += 1
        return 1 - 0.01 * common if common == len(tokens) else 1.0

    model = Planted(machine, lambda tokens: tokens == word, lead)
    found = search(model, machine, SearchBudget(complete=50, families=20, beam=3, longest=40))
    assert found.witness is not None
    assert (found.witness.tokens, found.witness.found_by) == (word, "beam")
    right_class(machine, found)


def test_parts_that_do_not_matter_are_left_out() -> None:
    machine = machine_of("sum", 2)
    model = Planted(machine, lambda word: word.count(1) >= 7)
    found = search(model, machine, SearchBudget(complete=10, families=100, beam=0, longest=30))
    assert found.witness is not None
    assert found.witness.tokens == (1,) * 7
    right_class(machine, found)


def test_what_is_right_when_read_whole_is_no_witness() -> None:
    """Wrong symbol by symbol alone: as rounding may be."""
    machine = machine_of("sum", 2)

    class Uneven(Planted):
        def forward(self, tokens: Tensor, state: Any = None, read: str = "all") -> Any:
            logits, after = super().forward(tokens, state, read)
            return (logits if tokens.shape[1] > 1 or state is None else -logits), after

    model = Uneven(machine, lambda word: False)
    found = search(model, machine, SearchBudget(complete=16, families=0, beam=0))
    assert found.witness is None
    assert (found.strings, found.unconfirmed) == (2 + 4 + 8 + 16, 4 + 8 + 16)


def test_a_language_may_end() -> None:
    """Two symbols and no more: searches end, and so does the search for boxes."""
    machine = Machine(("", "one", "two"), 0, ((1, 1), (2, 2), (None, None)), (None, 0, 1))
    found = search(Planted(machine, lambda word: False), machine, SearchBudget(longest=9))
    assert (found.witness, found.complete_to) == (None, 2)
    model, node = exact_rnn(machine_of("sum", 2), 0.1)
    proof = find_proof(model, dataclasses.asdict(node), machine)
    assert proof.boxes is None and len(proof.tried) == 3


def test_numbers_that_are_not_finite_are_no_answer() -> None:
    machine = machine_of("sum", 2)
    model = Planted(machine, lambda w: False, lambda w: float("nan") if len(w) == 3 else 1.0)
    found = search(model, machine, SearchBudget(complete=100))
    assert found.witness is not None
    assert (found.witness.length, found.witness.given) == (3, None)


class Uneven(Planted):
    """Wrong on ones alone when read symbol by symbol, right when read as a whole."""

    def forward(self, tokens: Tensor, state: Any = None, read: str = "all") -> tuple[Tensor, Any]:
        logits, after = super().forward(tokens, state, read)
        if tokens.shape[1] == 1 and state is not None:
            ones = (after[0] == 1).all(1) & (after[0].shape[1] == 2)
            logits = torch.where(ones[:, None], -logits, logits)
        return logits, after


def test_what_was_not_confirmed_is_not_passed_over() -> None:
    """A string of 2 is wrong symbol by symbol: the witness of 3 is not called the shortest."""
    machine = machine_of("sum", 2)
    model = Uneven(machine, lambda word: word == (0, 1, 1))
    found = search(model, machine, SearchBudget(complete=16, families=0, beam=0))
    assert found.witness is not None
    assert (found.witness.tokens, found.witness.shortest) == ((0, 1, 1), False)
    assert (found.complete_to, found.unconfirmed, found.unconfirmed_from) == (1, 1, 2)


@pytest.mark.slow
def test_one_symbol_goes_on_without_recursion() -> None:
    machine = Machine(("even", "odd"), 0, ((1,), (0,)), (0, 1))

    class Counting(nn.Module):
        state_size = 1

        def forward(self, tokens: Tensor, state: Any = None, read: str = "all") -> Any:
            count = (state[0] if state else torch.zeros(len(tokens))) + tokens.shape[1]
            return torch.nn.functional.one_hot((count % 2).long(), 2).float(), [count]

    found = search(Counting(), machine, SearchBudget(10, families=0, beam=0, longest=20_000))
    assert found.complete_to == found.strings == LONGEST_COMPLETE
    assert search(Counting(), machine, SearchBudget(10, 0, 0, longest=7)).complete_to == 7


def test_very_long_strings_are_not_written_out() -> None:
    """Where all strings and all their lengths would be gigabytes, as numbers they are megabytes."""
    machine = machine_of("sum", 5)

    class Drifting(nn.Module):
        """Right until a count of zeros since the last other symbol passes 150."""

        state_size = 2

        def forward(self, tokens: Tensor, state: Any = None, read: str = "all") -> Any:
            total, zeros = state or [torch.zeros(len(tokens), dtype=torch.int64)] * 2
            for n in range(tokens.shape[1]):
                total = (total + tokens[:, n]) % 5
                zeros = torch.where(tokens[:, n] == 0, zeros + 1, 0)
            answer = (total + (zeros > 150)) % 5
            lead = 1 - 1e-3 * zeros[:, None]
            return nn.functional.one_hot(answer, 5) * lead, [total, zeros]

    tracemalloc.start()
    budget = SearchBudget(complete=5, families=5_000, beam=0, longest=100_000, seconds=60)
    found = search(Drifting(), machine, budget)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.witness is not None and found.witness.length <= 155
    assert most < 200e6
    assert found.families > found.families_kept == 2000
    # as many digits as the strings have: no float holds it
    assert found.witness.rarity == 5**found.witness.length


@pytest.mark.slow
def test_time_ends_a_search_and_the_search_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machine_of("sum", 3)
    clock = count(0.0, 0.02)  # every look at it takes so long
    monkeypatch.setattr("lrbench.certificates.witness.time.perf_counter", lambda: next(clock))
    model = Planted(machine, lambda word: word[-12:] == (1,) * 12)
    budget = SearchBudget(complete=3**12, families=100, beam=2, longest=500, seconds=1)
    found = search(model, machine, budget)
    assert found.out_of_time[0] == "complete" and found.strings > 0
    assert found.complete_to < 12  # of the whole lengths that were tried
    assert found.witness is not None and found.witness.found_by == "families"
    assert not found.witness.shortest
    none = search(model, machine, SearchBudget(seconds=0))
    assert (none.witness, none.strings, none.complete_to) == (None, 0, 0)
    assert none.out_of_time == ["complete", "families", "beam"]


def test_what_was_found_before_time_was_over_is_made_shorter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not all shorter strings were tried: some pieces of them were waiting."""
    monkeypatch.setattr(witness, "ROWS", 2)
    late = witness._Seeker._late

    def over(seeker: witness._Seeker, what: str) -> bool:
        if what == witness.COMPLETE and seeker.found.witness is not None:
            seeker.until = 0.0
        return late(seeker, what)

    monkeypatch.setattr(witness._Seeker, "_late", over)
    model = Planted(machine_of("parity"), lambda word: word.count(1) > 2 and word[0] == 1)
    longer = Planted(machine_of("parity"), lambda word: len(word) > 8 or model.mistaken(word))
    found = search(longer, machine_of("parity"), SearchBudget(complete=2**12, longest=12))
    assert found.out_of_time == ["complete"]
    assert found.witness is not None and found.witness.length == 3


def test_what_is_known_counts_if_it_is_shorter() -> None:
    machine = machine_of("sum", 3)
    model = Planted(machine, lambda word: len(word) >= 6 and word[-1] == 0)
    little = SearchBudget(complete=3**3, families=0, beam=0)
    known = (1, 2, 1, 2, 1, 2, 0)
    found = search(model, machine, little, known=(known, "beam"))
    assert found.witness is not None
    assert (found.witness.length, found.witness.found_by) == (6, "beam")  # shortened
    assert (found.witness.shortest, found.complete_to) == (False, 3)
    for gone in ((1, 1), (7, 7)):  # right by now, and no string of this task
        assert search(model, machine, little, known=(gone, "beam")).witness is None


def test_no_search_comes_out_longer_for_what_is_known() -> None:
    """What it finds at 12 symbols is still wrong with parts left out, and ends below the known."""
    machine, known = machine_of("sum", 3), (0, 0, 1, 2, 0, 1, 1, 0)
    mistaken = {(1, 2) * 6, (1, 2, 1) * 2 + (2, 1, 2), (1, 2, 1, 1, 2, 1, 2), known}
    model = Planted(machine, lambda word: word in mistaken)
    budget = SearchBudget(complete=0, families=40, beam=0)
    for told in ((), known):
        found = search(model, machine, budget, known=(told, "beam")).witness
        assert found is not None and found.tokens == (1, 2, 1, 1, 2, 1, 2)


def test_what_is_known_counts_beside_what_all_strings_gave() -> None:
    """A string that is wrong as a whole alone, which no search symbol by symbol meets."""
    machine, known = machine_of("sum", 3), (0, 1)

    class Rounding(Planted):
        def forward(self, tokens: Tensor, state: Any = None, read: str = "all") -> Any:
            whole = state is None and tuple(tokens[0].tolist()) == known
            logits, carried = super().forward(tokens, state, read)
            return (logits.roll(1, -1) if whole else logits), carried

    model = Rounding(machine, lambda word: word == (1, 1, 1))
    for told, length in (((), 3), (known, 2)):
        found = search(model, machine, SearchBudget(3**3, 0, 0), known=(told, "beam"))
        assert found.witness is not None and found.witness.length == length


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MIXERS.builtin_modules()))
def test_every_mixer_can_be_searched(name: str) -> None:
    """Untrained models err early; what they are said to get wrong they do get wrong."""
    machine = machine_of("mod_arith", 3)
    for layers in (1, 2):
        node = named(model_node(name)(width=8, layers=layers))
        model = build_model(Config(model=node), 6, 3, seed=1).eval()
        found = search(model, machine, SearchBudget(complete=200, families=50, beam=5, longest=12))
        right_class(machine, found)
        witness = found.witness
        assert witness is not None and witness.shortest
        with torch.no_grad():
            logits, _ = model(torch.tensor([witness.tokens]))
        assert int(logits[0, -1].argmax()) == witness.given
        # every shorter string is right, asked one at a time
        for length in range(1, witness.length, 2):
            for word in product(*([range(3), range(3, 6)] * length)[:length]):
                with torch.no_grad():
                    answer = int(model(torch.tensor([word]))[0][0, -1].argmax())
                assert answer == machine.run(word)[-1]
