"""Findings of a diagnosis, as a few sentences and as tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lrbench.certificates.record import ForetoldRecord
from lrbench.diagnosis.dynamics import SLOW, WORD_LENGTHS, Growth, Spectrum
from lrbench.diagnosis.extraction import NOT_FINITE, Extracted
from lrbench.diagnosis.states import SEPARATES, AtLength, LayerStates, Survey
from lrbench.report.output.cells import Column, PrintedCell, Table

MOST_STATES = 12  # of the task, that have a row each; of more, those with most mistakes
MOST_GIVEN = 3  # wrong answers that are named for a right one
MOST_VALUES = 2  # eigenvalues that are written out
PREDICTED = "predicted on random strings, if states are Gaussian:"


@dataclass(frozen=True)
class Diagnosis:
    """Everything that is known of a checkpoint.

    about: update, run and the like. verdict: what files of `certify` say of these weights, or that
    there are none. linear: a spectrum for each symbol, or why there is none; layers: how many carry
    a state, of which `linear` is of the first. unsaid: what was not looked at, and why. wrong: the
    symbols of a string that `certify` found wrong, with the margin of the right answer after each.
    """

    title: str
    about: tuple[str, ...]
    symbols: tuple[str, ...]
    states: tuple[str, ...]
    classes: tuple[str, ...]
    layers: int
    verdict: str
    survey: Survey
    order: int
    linear: tuple[Spectrum, ...] | str
    growth: tuple[Growth, ...] | str
    extracted: Extracted
    foretold: ForetoldRecord
    unsaid: tuple[str, ...] = ()
    wrong: tuple[tuple[str, float | None], ...] = ()


def in_short(found: Diagnosis) -> list[str]:
    """Return what matters most, a sentence a line."""
    lines = [found.verdict, _random(found), _extracted(found)]
    if found.survey.parts:
        lines.append(_layers(found.survey))
    lines += [*_drift(found), *_foretold(found.foretold)]
    return [*lines, *(f"not said: {one}" for one in found.unsaid)]


def tables(found: Diagnosis) -> list[Table]:
    """Return the numbers behind it."""
    made = [_by_length(found.survey), _by_state(found), *_confused(found)]
    if found.survey.parts:
        made += [_by_layer(found.survey), _saturation(found.survey)]
    if not isinstance(found.linear, str):
        made.append(_spectra(found, found.linear))
    if not isinstance(found.growth, str):
        made.append(_growth(found, found.growth))
    return made


def as_json(found: Diagnosis) -> dict[str, Any]:
    """Return everything as JSON has it: complex numbers as [re, im], None for what is no number."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [plain(one) for one in value]
        if isinstance(value, complex):
            return [value.real, value.imag]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    content: dict[str, Any] = plain(dataclasses.asdict(found))
    return content


def accuracy(seen: AtLength) -> float | None:
    """Return the share of right answers at the positions up to a length."""
    scored, right = (sum(part) for part in zip(*seen.by_state, strict=True))
    return right / scored if scored else None


# --- sentences


def _random(found: Diagnosis) -> str:
    shares = (f"{_share(accuracy(one))} at {one.length:,}" for one in found.survey.lengths)
    return f"right on {found.survey.strings} random strings: {', '.join(shares)}"


def _extracted(found: Diagnosis) -> str:
    seen = found.extracted
    effort = f"{seen.questions:,} questions, {seen.strings} random strings of {seen.length}"
    if seen.machine is None:
        return f"extraction: no automaton, {seen.stopped} ({effort}); it counts, or it drifts"
    count = f"extraction: {seen.machine.states} states, the empty string's among them"
    if seen.distinguishing is None:
        return f"{count}; equal to the task's on what was asked ({effort}), which proves nothing"
    word = " ".join(found.symbols[symbol] for symbol in seen.distinguishing)
    states = (
        f"{count} (the task's: {seen.needed}); the shortest string that tells them apart: {word}"
    )
    if seen.right is None:
        return f"{states}, which the automaton takes for no valid string; nothing is asked there"
    right = found.classes[seen.right]
    if seen.given == seen.right:
        return f"{states}, where the model itself is right ({right})"
    given = "nothing finite" if seen.given in (None, NOT_FINITE) else found.classes[seen.given or 0]
    return f"{states}, where the model itself says {given} instead of {right}"


def _layers(survey: Survey) -> str:
    first, last = survey.lengths[0], survey.lengths[-1]
    lost = survey.first_lost()
    if lost is not None:
        length, layers = lost
        seen = next(one for one in survey.lengths if one.length == length)
        shares = ", ".join(_share(seen.layers[layer - 1].nearest) for layer in layers)
        return (
            f"states: {_named(layers)} stops first to separate the task's states, at {length:,}"
            f" (nearest mean right in {shares})"
        )
    there = survey.separating()
    if not there:
        best = max((one.nearest or 0.0 for one in first.layers), default=0.0)
        return (
            f"states: no layer's states separate the task's, not even at {first.length:,}"
            f" (nearest mean right in at most {_share(best)})"
        )
    return f"states: {_named(there)} still separates the task's states at {last.length:,}"


def _drift(found: Diagnosis) -> list[str]:
    lines = []
    if not isinstance(found.linear, str) and found.linear:
        where = "steps" if found.layers == 1 else f"steps of layer 1 of {found.layers}"
        worst = max(found.linear, key=lambda one: one.radius)
        away = [distance for one in found.linear for distance in one.away]
        lasting = (
            f"those that last are up to {max(away):.4f} off a root of unity of order {found.order}"
            if away
            else f"none is above {SLOW}, so none lasts"
        )
        lines.append(
            f"{where}: linear; the largest eigenvalue is {worst.radius:.4f}, of symbol"
            f" {found.symbols[worst.symbol]}; {lasting}"
        )
    elif not isinstance(found.growth, str):
        random = next((one for one in found.growth if one.symbol is None), None)
        if random is not None:
            lines.append(
                f"steps: over {WORD_LENGTHS[len(random.norm) - 1]} random symbols a small error is"
                f" multiplied by {random.norm[-1]:.3g} on average, {random.largest_norm[-1]:.3g} at"
                " most"
            )
        repeated = (one for one in found.growth if one.symbol is not None and len(one.radius) > 1)
        kept = [one for one in repeated if one.radius[-1] > 1]
        if kept:
            worst_of = max(kept, key=lambda one: one.radius[-1])
            assert worst_of.symbol is not None
            lines.append(
                f"steps: repeating symbol {found.symbols[worst_of.symbol]} may let errors grow:"
                f" spectral radius {worst_of.radius[-1]:.3g} over"
                f" {WORD_LENGTHS[len(worst_of.radius) - 1]} symbols"
            )
    return lines


def _foretold(prediction: ForetoldRecord) -> list[str]:
    if not prediction["accuracies"]:
        return []
    longest, below = max(map(int, prediction["accuracies"])), prediction["first_below"]
    if below is None:
        return [f"{PREDICTED} at least 0.99 to {longest:,}"]
    value = prediction["accuracies"][str(below)]
    until = "" if prediction["horizon"] is None else f"at least 0.99 to {prediction['horizon']:,}, "
    return [f"{PREDICTED} {until}{value:.3f} at {below:,}"]


# --- tables


def _by_length(survey: Survey) -> Table:
    at = survey.lengths
    rows = [
        _row("right", (_share(accuracy(one)) for one in at)),
        _row("margin of the right answer, mean", (_number(one.mean_margin) for one in at)),
        _row("margin of the right answer, least", (_number(one.least_margin) for one in at)),
    ]
    for part, name in enumerate(survey.parts):
        rows.append(_row(f"norm of {name}", (_number(one.norms[part]) for one in at)))
    seen = ", ".join(f"{one.positions} up to {one.length:,}" for one in survey.lengths)
    return _table(
        "By length",
        survey,
        rows,
        f"{survey.strings} random strings, at the last positions ({seen})",
        "margins are in logits, below zero where another answer was larger",
    )


def _by_state(found: Diagnosis) -> Table:
    """Accuracy by the task's state, the most mistaken first where there are many."""
    survey = found.survey
    last = survey.lengths[-1].by_state
    scored = [
        q for q, _ in enumerate(found.states) if any(one.by_state[q][0] for one in survey.lengths)
    ]
    wrong = sorted(scored, key=lambda q: last[q][1] - last[q][0])
    shown = sorted(wrong[:MOST_STATES])
    rows = [
        _row(found.states[q], (_share(_ratio(one.by_state[q])) for one in survey.lengths))
        for q in shown
    ]
    more = len(scored) - len(shown)
    notes = (f"{more} more states, each with no more mistakes than these",) if more > 0 else ()
    return _table("Right answers by the task's state", survey, rows, *notes)


def _confused(found: Diagnosis) -> Iterator[Table]:
    """What is answered instead of each class, up to the first length with mistakes."""
    for seen in found.survey.lengths:
        given: dict[int, list[tuple[int, int]]] = {}
        for right, one, count in seen.confusion:
            given.setdefault(right, []).append((count, one))
        wrong = {q: sum(n for n, one in pairs if one != q) for q, pairs in given.items()}
        worst = sorted((q for q in wrong if wrong[q]), key=lambda q: -wrong[q])
        if not worst:
            continue
        rows = []
        for q in sorted(worst[:MOST_STATES]):
            asked = sum(n for n, _ in given[q])
            others = sorted(
                (pair for pair in given[q] if pair[1] != q), key=lambda p: (-p[0], p[1])
            )
            instead = [
                f"{answered(found, one)} {_share(n / asked)}" for n, one in others[:MOST_GIVEN]
            ]
            share = _share(_ratio((asked, asked - wrong[q])))
            rows.append(_row(found.classes[q], (f"{asked:,}", share, ", ".join(instead))))
        more = len(worst) - len(rows)
        notes = (f"{more} more, each with no more mistakes than these",) if more else ()
        title = f"Given instead of the right answer, at {seen.length:,}"
        columns = ["right answer", "asked", "right", "most given instead"]
        yield Table(title, _columns(columns), tuple(rows), notes)
        return


def answered(found: Diagnosis, given: int) -> str:
    """Return what a model gave as a person would read it."""
    return "nothing finite" if given == NOT_FINITE else found.classes[given]


def _by_layer(survey: Survey) -> Table:
    rows = []
    first = survey.lengths[0].length
    for layer in range(len(survey.lengths[0].layers)):
        seen = [one.layers[layer] for one in survey.lengths]
        name = f"layer {layer + 1}: "
        rows += [
            _row(f"{name}nearest mean is right", (_share(one.nearest) for one in seen)),
            _row(f"{name}by the means at {first:,}", (_share(one.nearest_first) for one in seen)),
            _row(f"{name}means apart, at least", (_number(one.apart) for one in seen)),
        ]
        for place, suffix in enumerate(r.suffix for r in seen[0].radii):
            known = ("state alone", "last symbol")[suffix] if suffix < 2 else f"last {suffix}"
            rows.append(_row(f"{name}radius, {known}", (_radius(one, place) for one in seen)))
    return _table(
        "States by layer",
        survey,
        rows,
        f"a layer separates the task's states where the nearest mean is right in {SEPARATES}:"
        " means of half the strings, by state and last symbol, tell the other half",
        "apart: between means of two states of the task; radius: typical (largest) distance of"
        " states that agree in the task's state and their last symbols to their own mean",
    )


def _saturation(survey: Survey) -> Table:
    columns = ["", "length", "largest |h|", "above 0.99", "above 0.9", "below 0.5"]
    rows = [
        _row(
            one.part,
            (
                f"{seen.length:,}",
                _number(one.largest),
                *(_share(part) for part in (one.above_99, one.above_90, one.below_50)),
            ),
        )
        for seen in survey.lengths
        for one in seen.saturation
    ]
    notes: tuple[str, ...] = ()
    if any(one.above_99 is None for seen in survey.lengths for one in seen.saturation):
        notes = ("numbers beyond one do not saturate: no shares are given of such a part",)
    return Table("Saturation", _columns(columns), tuple(rows), notes)


def _spectra(found: Diagnosis, linear: Sequence[Spectrum]) -> Table:
    columns = ["", "largest |z|", "2-norm", f"|z| > {SLOW}", "off a root", "largest, at degrees"]
    rows = []
    for one in linear:
        some = [_polar(value) for value in one.slow if value.imag >= 0][:MOST_VALUES]
        off = f"{max(one.away):.4f}" if one.away else "-"
        texts = f"{one.radius:.4f}", f"{one.norm:.4f}", str(len(one.slow)), off, ", ".join(some)
        rows.append(_row(f"symbol {found.symbols[one.symbol]}", texts))
    of = "" if found.layers == 1 else f" of layer 1 of {found.layers}"
    return Table(
        f"Eigenvalues of each symbol's matrix{of}",
        _columns(columns),
        tuple(rows),
        (
            f"off a root: the largest distance of those above {SLOW} to the nearest root of unity"
            f" of the task's order, {found.order}; largest: modulus and angle, of a conjugate"
            " pair one",
        ),
    )


def _growth(found: Diagnosis, growth: Sequence[Growth]) -> Table:
    longest = WORD_LENGTHS[-1]
    columns = [
        *(f"radius {n}" for n in WORD_LENGTHS),
        *(f"norm {n}" for n in WORD_LENGTHS),
        f"most {longest}",
    ]
    rows = []
    for one in growth:
        name = "random" if one.symbol is None else f"{found.symbols[one.symbol]} ..."
        most = [f"{one.largest_norm[-1]:.3g}" if len(one.norm) == len(WORD_LENGTHS) else "-"]
        texts = [*_padded(one.radius), *_padded(one.norm), *most]
        rows.append(_row(name, texts))
    return Table(
        "Products of Jacobians along words of 1, 2, 4 and 8 symbols",
        _columns(["", *columns]),
        tuple(rows),
        (
            "a symbol repeated, or random words, from states after 40 random symbols; of the state"
            " of all layers together",
            "radius: the largest spectral radius; norm: the mean 2-norm; most: the largest 2-norm",
        ),
    )


# --- cells


def _table(title: str, survey: Survey, rows: Sequence[Any], *notes: str) -> Table:
    lengths = (f"{one.length:,}" for one in survey.lengths)
    return Table(title, _columns(["", *lengths]), tuple(rows), notes)


def _columns(titles: Sequence[str]) -> tuple[Column, ...]:
    return tuple(Column(title, right=place > 0) for place, title in enumerate(titles))


def _row(name: str, texts: Any) -> tuple[PrintedCell, ...]:
    return tuple(PrintedCell(text) for text in (name, *texts))


def _padded(values: Sequence[float]) -> list[str]:
    return [f"{value:.3g}" for value in values] + ["-"] * (len(WORD_LENGTHS) - len(values))


def _ratio(part: tuple[int, int]) -> float | None:
    scored, right = part
    return right / scored if scored else None


def _share(value: float | None) -> str:
    """Return a share of one; 1.0000 is said of all alone."""
    if value is None:
        return "-"
    return f"{value:.4f}" if value == 1 else f"{min(value, 0.9999):.4f}"


def _number(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:,.3g}"


def _radius(layer: LayerStates, place: int) -> str:
    if not layer.radii or (typical := layer.radii[place].typical) is None:
        return "-"
    return f"{_number(typical)} ({_number(layer.radii[place].largest)})"


def _polar(value: complex) -> str:
    return f"{abs(value):.4f} at {math.degrees(math.atan2(value.imag, value.real)):.0f}"


def _named(layers: Sequence[int]) -> str:
    if len(layers) == 1:
        return f"layer {layers[0]}"
    return f"layers {', '.join(map(str, layers[:-1]))} and {layers[-1]}"
