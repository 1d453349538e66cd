"""A table of inputs looked up by symbol gives what the inputs written out give."""

from __future__ import annotations

from typing import Any

from lrbench.contract.comparison import Comparison
from lrbench.contract.finding import Finding, not_applicable
from lrbench.contract.passes import gradients, trainable
from lrbench.contract.subject import Context, Factory, finest, tolerance, ways, whole

LENGTHS = (1, 7, 40)


def symbols_equal_inputs(make: Factory, context: Context) -> Finding:
    """Compare outputs, states and gradients of both paths, from the start and from a state."""
    dtype = finest(make)
    mixer = make(dtype=dtype)
    if not mixer.takes_symbols:
        return not_applicable("symbols", "takes_symbols is False")
    comparison = Comparison(tolerance(mixer, dtype))
    table = context.table(dtype).requires_grad_()
    leaves = [table, *trainable(mixer).values()]
    for length in sorted({whole(length, mixer) for length in LENGTHS}):
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
