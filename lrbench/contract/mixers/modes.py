"""Checks of a mixer's modes: each computes the same function as a loop over `step`.

Outputs have the shape and dtype of the inputs. A string read in pieces, with the state carried
over, gives the same outputs; so does a string given by its symbols.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from lrbench.contract.finding import Comparison, Finding, not_applicable
from lrbench.contract.passes import (
    by_reference,
    gradients,
    reference_name,
    steps_are_possible,
    trainable,
)
from lrbench.contract.subject import (
    Context,
    MixerFactory,
    finest,
    misshapen,
    shown,
    tolerance,
    ways,
    whole,
)
from lrbench.mixers.base import Mixer

NAME = "shape, dtype"
ROUNDINGS, WIDEST = 4.0, 1e-2  # what two orders of float32 may differ by where rounding grows
LENGTHS = (1, 2, 3, 7, 40, 129)
PIECES = 12  # of `length_multiple` positions each; the cut comes after every one but the last
SYMBOL_LENGTHS = (1, 7, 40)


def keeps_shape_and_dtype(make: MixerFactory, context: Context) -> Finding:
    """Check that (B, T, D) goes to (B, T, D), or `out_width` for D, and a step (B, D) likewise."""
    dtypes = make(dtype=torch.float32).dtypes
    for dtype in dtypes:
        mixer = make(dtype=dtype)
        for given, y in _outputs(mixer, context, dtype):
            expected = (*given.shape[:-1], mixer.out_width)
            if (y.shape, y.dtype) != (expected, dtype):
                told = f"{tuple(given.shape)} {shown(given.dtype)}"
                return Finding(NAME, False, f"{told} becomes {misshapen(y, expected, dtype)}")
    return Finding(NAME, True, f"(B, T, D) to (B, T, D) in {', '.join(map(shown, dtypes))}")


@torch.no_grad()
def _outputs(mixer: Mixer, context: Context, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor]]:
    for length in (whole(1, mixer), whole(7, mixer)):
        u = context.inputs(length, dtype)
        for strings in (u, u[:1]):
            yield strings, mixer(strings)[0]
    if steps_are_possible(mixer):
        position = context.inputs(1, dtype)[:, 0]
        yield position, mixer.step(position, mixer.initial_state(context.batch))[0]


def modes_agree(make: MixerFactory, context: Context) -> Finding:
    """Compare outputs and last states in the finest dtype, relative to the largest number."""
    return _compare("modes", make, context, finest(make), 1e-30)


def modes_agree_in_single(make: MixerFactory, context: Context) -> Finding:
    """Compare the same in float32: within 1e-4 for numbers of order one.

    A recurrence that amplifies its own rounding may differ by some times what rounding does to the
    step loop: by how much depends on the processor.
    """
    declared = make(dtype=torch.float32).dtypes
    if torch.float32 not in declared or torch.float64 not in declared:
        return not_applicable("modes, single", "float32 is not declared beside float64")
    found = _compare("modes, single", make, context, torch.float32, 1.0)
    if found.passed:
        return found
    least = min(WIDEST, ROUNDINGS * _rounding(make, context))
    return _compare("modes, single", make, context, torch.float32, 1.0, least)


@torch.no_grad()
def _rounding(make: MixerFactory, context: Context) -> float:
    """How far the step loop in float32 is from itself in float64, for numbers of order one."""
    single, double = make(dtype=torch.float32), make(dtype=torch.float64)
    double.load_state_dict(single.state_dict())
    comparison = Comparison(0.0, 1.0)
    for length in sorted({whole(length, single) for length in LENGTHS}):
        u = context.inputs(length, torch.float32)
        exact = by_reference(double, u.double() if u.is_floating_point() else u)
        comparison.add("", by_reference(single, u), exact)
    return comparison.worst if math.isfinite(comparison.worst) else 0.0


@torch.no_grad()
def _compare(
    name: str,
    make: MixerFactory,
    context: Context,
    dtype: torch.dtype,
    floor: float,
    least: float = 0.0,
) -> Finding:
    mixer = make(dtype=dtype)
    comparison = Comparison(max(least, tolerance(mixer, dtype)), floor)
    lengths = sorted({whole(length, mixer) for length in LENGTHS})
    for length in lengths:
        u = context.inputs(length, dtype)
        expected = by_reference(mixer, u)
        for mode in ways(mixer):
            comparison.add(f"{mode or 'default mode'}, T={length}", mixer(u, None, mode), expected)
    return comparison.finding(
        name, f"{', '.join(mixer.modes)} against {reference_name(mixer)} in {shown(dtype)}"
    )


@torch.no_grad()
def splits_anywhere(make: MixerFactory, context: Context) -> Finding:
    """Cut a string at every place a mixer can be cut at, in every mode."""
    dtype = finest(make)
    mixer = make(dtype=dtype)
    comparison = Comparison(tolerance(mixer, dtype))
    u = context.inputs(PIECES * mixer.length_multiple, dtype)
    for mode in ways(mixer):
        expected = mixer(u, None, mode)
        for cut in range(mixer.length_multiple, u.shape[1], mixer.length_multiple):
            head, carried = mixer(u[:, :cut], None, mode)
            tail, last = mixer(u[:, cut:], carried, mode)
            found = torch.cat([head, tail], dim=1), last
            comparison.add(f"{mode or 'default mode'}, cut after {cut}", found, expected)
    return comparison.finding("split", f"{PIECES - 1} cuts of T={u.shape[1]}")


def symbols_equal_inputs(make: MixerFactory, context: Context) -> Finding:
    """Compare outputs, states and gradients of both paths, from the start and from a state."""
    dtype = finest(make)
    mixer = make(dtype=dtype)
    if not mixer.takes_symbols:
        return not_applicable("symbols", "takes_symbols is False")
    comparison = Comparison(tolerance(mixer, dtype))
    table = context.table(dtype).requires_grad_()
    leaves = [table, *trainable(mixer).values()]
    for length in sorted({whole(length, mixer) for length in SYMBOL_LENGTHS}):
        index, before = context.index(length), context.index(length, seed=1)
        for mode in ways(mixer):
            where = f"{mode or 'default mode'}, T={length}"
            looked_up: Any = mixer(
                table, mixer(table, None, mode, index=before)[1], mode, index=index
            )
            written: Any = mixer(table[index], mixer(table[before], None, mode)[1], mode)
            comparison.add(where, looked_up, written)
            found, expected = gradients(looked_up, leaves), gradients(written, leaves)
            comparison.add(f"{where}, gradients", found, expected)
    return comparison.finding("symbols", f"a table of {context.symbols} against inputs written out")
