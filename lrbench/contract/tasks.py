"""The checks of `lrbench check task=NAME`: a task of symbols against its oracle and itself.

A wrong task trains without an error. So each promise is checked against something slower: answers
against the oracle, pieces against whole strings, batches against their rows drawn alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from lrbench.contract.finding import Finding, not_applicable, raised
from lrbench.errors import UserError
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE, Batch, LabelledTask
from lrbench.tasks.baselines import best_baseline, drawn_baselines, known_baselines
from lrbench.tasks.stream import Stream

LENGTHS = (1, 2, 3, 5, 8, 13, 40, 97)  # of these, or the nearest below, those that the task has
SHORT = LENGTHS[:6]  # where the oracle, which may be slow, is asked before a training
LONG = 97
SEGMENTS = (1, 3, 7, 40)
ROWS = 6
STRINGS = 2000  # to measure baselines on
FAR = 0.06  # five standard deviations: a baseline on STRINGS strings is no farther from its value
HIGHEST = 0.999  # a baseline above that leaves nothing to learn
STREAM = Stream.named(0, "check")
CPU = "cpu"


def lengths_of(task: LabelledTask, wanted: Sequence[int] = LENGTHS) -> list[int]:
    """Return the lengths to look at: those wanted that the task has, or has one just below."""
    found = set()
    for length in wanted:
        try:
            found.add(task.nearest_length(length))
        except UserError:
            continue  # no string is as short as that
    return sorted(found)


def says_what_it_has(task: LabelledTask, lengths: Sequence[int]) -> Finding:
    """Strings are (B, positions) int64 of the vocabulary, answers of the classes, some asked."""
    name = "strings"
    if not lengths:
        return Finding(name, False, f"no strings of length <= {LONG}; it has {task.length_rule}")
    for length in lengths:
        if wrong := _misfit(task, task.sample(STREAM, 0, ROWS, length, CPU), length):
            return Finding(name, False, f"length {length}: {wrong}")
    symbols, classes = len(task.vocabulary), task.num_classes
    return Finding(name, True, f"{symbols} symbols, {classes} classes, lengths {_named(lengths)}")


def _misfit(task: LabelledTask, batch: Batch, length: int) -> str:
    """Return what of a batch is not as it has to be, '' where all is."""
    shape = (ROWS, task.positions(length))
    for what, tensor, wanted in (
        ("tokens", batch.tokens, shape),
        ("targets", batch.targets, shape),
        ("lengths", batch.lengths, shape[:1]),
    ):
        if tuple(tensor.shape) != wanted or tensor.dtype != torch.int64:
            return f"{what} are {tuple(tensor.shape)} {tensor.dtype}, not {wanted} torch.int64"
    asked = batch.targets[batch.targets != IGNORE]
    for what, tensor, number in (
        ("symbol", batch.tokens, len(task.vocabulary)),
        ("answer", asked, task.num_classes),
    ):
        if tensor.numel() and not 0 <= int(tensor.min()) <= int(tensor.max()) < number:
            return f"{what} {int(tensor.min())} to {int(tensor.max())}, of {number} that there are"
    return "" if bool(batch.counted.any(1).all()) else "nothing is asked of a string"


def answers_equal_the_oracle(task: LabelledTask, lengths: Sequence[int]) -> Finding:
    """Answers that models are trained on are those of the definition, at every position."""
    name, compared = "oracle", 0
    for length in lengths:
        batch = task.sample(STREAM, 1, ROWS, length, CPU)
        for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
            right = list(task.oracle(tokens))
            compared += len(right)
            if right != targets:
                said = f"oracle {_named(right)}, answers {_named(targets)}"
                return Finding(name, False, f"of {task.describe_string(tokens)[:60]}: {said}")
    return Finding(name, True, f"{compared} answers equal")


def pieces_join(task: LabelledTask, lengths: Sequence[int]) -> Finding:
    """A string read in pieces is the string read whole, answers too: the carry is heeded."""
    name = "pieces"
    length = lengths[-1]
    whole = task.sample(STREAM, 2, ROWS, length, CPU)
    for segment in SEGMENTS:
        pieces = list(task.segments(STREAM, ROWS, length, segment, CPU, 2))
        for what in ("tokens", "targets", "counted"):
            joined = torch.cat([getattr(piece, what) for piece in pieces], 1)
            if place := _first_difference(joined, getattr(whole, what)):
                return Finding(name, False, f"pieces of {segment}: {what} differ {place}")
    return Finding(name, True, f"length {length} in pieces of {_named(SEGMENTS)}")


def sampling_is_pure(task: LabelledTask, lengths: Sequence[int]) -> Finding:
    """Strings depend on seed, step and row alone: not on what was drawn, nor on a global state."""
    name = "purity"
    length = lengths[-1]
    first = task.sample(STREAM, 3, ROWS, length, CPU)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1234)
        task.sample(STREAM, 4, ROWS, length, CPU)
        second = task.sample(STREAM, 3, ROWS, length, CPU)
        other = make_task(task.config).sample(STREAM, 3, ROWS, length, CPU)
    for what, again in (("drawn again", second), ("of another such task", other)):
        if place := _first_difference(first.tokens, again.tokens):
            return Finding(name, False, f"the same strings {what} differ {place}")
    rows = [task.sample(STREAM.from_row(row), 3, 1, length, CPU).tokens for row in range(ROWS)]
    if place := _first_difference(torch.cat(rows), first.tokens):
        return Finding(name, False, f"rows drawn one by one differ {place}")
    if place := _first_difference(task.answers(first.tokens), task.answers(first.tokens.clone())):
        return Finding(name, False, f"the same strings answered twice differ {place}")
    return Finding(name, True, "the same strings drawn again, by rows and by another such task")


def strings_vary(task: LabelledTask, lengths: Sequence[int]) -> Finding:
    """Other steps, seeds and rows have other strings, where there are enough of them."""
    name = "variety"
    length = lengths[-1]
    drawn = [
        task.sample(stream, step, ROWS, length, CPU).tokens
        for stream in (STREAM, Stream.named(1, "check"))
        for step in (5, 6)
    ]
    strings = {tuple(row) for tokens in drawn for row in tokens.tolist()}
    total = len(drawn) * ROWS
    if len(strings) < total // 2:
        return Finding(name, False, f"{len(strings)} strings among {total} of length {length}")
    return Finding(name, True, f"{len(strings)} strings among {total} of length {length}")


def machine_agrees(task: LabelledTask, lengths: Sequence[int]) -> Finding:
    """The automaton that the task states gives the oracle's answers."""
    name = "machine"
    machine = task.machine()
    if machine is None:
        return not_applicable(name, "machine() states none: no certify, no diagnose")
    for length in lengths:
        for tokens in task.sample(STREAM, 7, ROWS, length, CPU).tokens.tolist():
            asked = zip(task.oracle(tokens), machine.run(tokens), strict=True)
            if any(right not in (IGNORE, said) for right, said in asked):
                string = task.describe_string(tokens)[:60]
                return Finding(name, False, f"other answers than the oracle's on {string}")
    return Finding(name, True, f"{machine.states} states, answers equal")


def guessing_is_not_enough(task: LabelledTask, lengths: Sequence[int]) -> Finding:
    """At some length no simple guess is nearly always right; known chance is that of strings."""
    name = "baselines"
    best = []
    for length in lengths:
        drawn = drawn_baselines(task, STREAM, length, STRINGS, CPU)
        known = known_baselines(task, length) or drawn
        for one, other in zip(known, drawn, strict=True):
            if one["baseline"] == "majority":
                continue  # where classes tie over all positions, either may be it
            if abs(one["value"] - other["value"]) > FAR:
                said = f"{one['value']:.3f} by `drawing`, {other['value']:.3f} on {STRINGS} strings"
                return Finding(name, False, f"length {length}: {one['baseline']} is {said}")
        best.append(best_baseline(known))
    hardest = min(best, key=lambda one: one["value"])
    told = f"the best guess is right on {hardest['value']:.3f} at length {hardest['length']}"
    return Finding(name, hardest["value"] < HIGHEST, f"{told} ({hardest['baseline']})")


Check = Callable[[LabelledTask, Sequence[int]], Finding]  # of a task, at some of its lengths

TASK_CHECKS: dict[str, Check] = {
    "strings": says_what_it_has,
    "oracle": answers_equal_the_oracle,
    "pieces": pieces_join,
    "purity": sampling_is_pure,
    "variety": strings_vary,
    "machine": machine_agrees,
    "baselines": guessing_is_not_enough,
}
QUICK = ("strings", "purity", "oracle", "pieces")  # without which a training means nothing


def run_task_contract(
    config: Any, tell: Callable[[Finding], None] = lambda finding: None
) -> list[Finding]:
    """Examine the task of a checked configuration; `tell` is called with each finding.

    Checks stop where the strings themselves are not as they have to be. Raises UserError for a
    task that is no `LabelledTask`: strings in files and series have no oracle to ask.
    """
    task = make_task(config)
    if not isinstance(task, LabelledTask):
        raise UserError(
            f"task '{config.name}' cannot be checked: its strings stand in files or are numbers,"
            " and have no oracle\n`lrbench show` prints them"
        )
    lengths = lengths_of(task)
    findings: list[Finding] = []
    for name in TASK_CHECKS:
        findings.append(_guarded(name, task, lengths))
        tell(findings[-1])
        if name == "strings" and not findings[-1].passed:
            break
    return findings


def first_broken(task: LabelledTask, used: Sequence[int]) -> Finding | None:
    """Return the first of the checks in QUICK that a task fails, on strings of a few symbols.

    `used` are lengths that the task has. The first is taken where it has none that is short.
    """
    lengths = lengths_of(task, SHORT) or list(used[:1]) or lengths_of(task)
    found = (_guarded(name, task, lengths) for name in QUICK if lengths)
    return next((finding for finding in found if not finding.passed), None)


def broken_machine(task: LabelledTask) -> Finding | None:
    """Return the finding of a task whose automaton raises, or answers otherwise than its oracle."""
    finding = _guarded("machine", task, lengths_of(task, SHORT) or lengths_of(task))
    return finding if finding.passed is False else None


def _guarded(name: str, task: LabelledTask, lengths: Sequence[int]) -> Finding:
    try:
        return TASK_CHECKS[name](task, lengths)
    except Exception as error:
        return raised(name, error)


def _first_difference(found: torch.Tensor, expected: torch.Tensor) -> str:
    """Return where two tensors (B, T) differ first, '' where they do not."""
    if found.shape != expected.shape:
        return f"in shape: {tuple(found.shape)} and {tuple(expected.shape)}"
    places = (found != expected).nonzero()
    return f"at row {int(places[0, 0])}, position {int(places[0, 1])}" if len(places) else ""


def _named(numbers: Any) -> str:
    told = ", ".join(str(one) for one in list(numbers)[:10])
    return told + (", ..." if len(numbers) > 10 else "")
