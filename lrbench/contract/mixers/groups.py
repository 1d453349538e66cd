"""Check of groups: mixers of several seeds under vmap equal a loop over them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from lrbench.contract.finding import Comparison, Finding, not_applicable, tensors_of
from lrbench.contract.passes import gradients
from lrbench.contract.subject import Context, MixerFactory, finest, tolerance, whole
from lrbench.mixers.base import Mixer

GROUP = 3
PERFORMANCE_DROP = ".*not yet implemented the batching rule"
LENGTH = 7


def runs_as_a_group(make: MixerFactory, context: Context) -> Finding:
    """Compare outputs, states and gradients; by symbols too if the mixer takes them.

    A mixer that cannot be batched this way declares `vmap = False`.
    """
    dtype = finest(make)
    mixers = [make(seed=seed, dtype=dtype) for seed in range(GROUP)]
    if not mixers[0].vmap:
        return not_applicable("vmap", "declares vmap = False: trials are trained one by one")
    length = whole(LENGTH, mixers[0])
    comparison = Comparison(tolerance(mixers[0], dtype))
    inputs = [context.inputs(length, dtype, seed) for seed in range(GROUP)]
    _compare(comparison, "inputs", mixers, torch.stack(inputs), None)
    if mixers[0].takes_symbols:
        indices = torch.stack([context.index(length, seed) for seed in range(GROUP)])
        tables = context.table(dtype).expand(GROUP, -1, -1).contiguous()
        _compare(comparison, "symbols", mixers, tables, indices)
    return comparison.finding("vmap", f"{GROUP} mixers at once against one by one")


def _compare(
    comparison: Comparison, path: str, mixers: Sequence[Mixer], u: Tensor, index: Tensor | None
) -> None:
    """Run mixer k on u[k] (and index[k]) both ways."""
    parameters, buffers = stack_module_state(list(mixers))
    leaves = {name: p for name, p in parameters.items() if p.requires_grad}

    def run(parameters: Any, buffers: Any, u: Tensor, index: Tensor | None) -> Any:
        kwargs = {} if index is None else {"index": index}
        return functional_call(mixers[0], (parameters, buffers), (u,), kwargs)

    u = u.requires_grad_()
    dims = (0, 0, 0, None if index is None else 0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", PERFORMANCE_DROP)  # slow is not wrong
        together = vmap(run, in_dims=dims)(parameters, buffers, u, index)
    apart = [
        run(*_member(parameters, buffers, k), u[k], None if index is None else index[k])
        for k in range(len(mixers))
    ]
    stacked = [torch.stack(parts) for parts in zip(*map(tensors_of, apart), strict=True)]
    comparison.add(path, together, stacked)
    targets = [u, *leaves.values()]
    found, expected = gradients(together, targets), gradients(stacked, targets)
    comparison.add(f"{path}, gradients", found, expected)


def _member(parameters: Any, buffers: Any, k: int) -> tuple[Any, Any]:
    return {n: p[k] for n, p in parameters.items()}, {n: b[k] for n, b in buffers.items()}
