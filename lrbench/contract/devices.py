"""A GPU computes what the CPU does."""

from __future__ import annotations

import copy
from typing import Any

import torch

from lrbench.contract.comparison import Comparison
from lrbench.contract.finding import Finding, not_applicable
from lrbench.contract.passes import gradients, trainable
from lrbench.contract.subject import Context, Factory, finest, tolerance, ways, whole
from lrbench.mixers.base import Mixer

LENGTH = 40


def cuda_equals_cpu(make: Factory, context: Context) -> Finding:
    """Compare outputs, states and gradients in every mode, and by symbols if it takes them."""
    if not torch.cuda.is_available():
        return not_applicable("cuda", "no CUDA device here")
    dtype = finest(make)
    mixer = make(dtype=dtype)
    moved = copy.deepcopy(mixer).to("cuda")
    comparison = Comparison(tolerance(mixer, dtype), 1e-30 if dtype == torch.float64 else 1.0)
    for mode in ways(mixer):
        where = mode or "default mode"
        comparison.add(where, _pass(moved, context, mode), _pass(mixer, context, mode))
    if mixer.takes_symbols:
        comparison.add("symbols", _by_symbols(moved, context), _by_symbols(mixer, context))
    return comparison.finding("cuda", f"{torch.cuda.get_device_name()} against the CPU")


def _pass(mixer: Mixer, context: Context, mode: str | None) -> Any:
    like = next(mixer.parameters(), torch.zeros(()))
    u = context.inputs(whole(LENGTH, mixer), like.dtype).to(like.device).requires_grad_()
    result = mixer(u, None, mode)
    return result, gradients(result, [u, *trainable(mixer).values()])


def _by_symbols(mixer: Mixer, context: Context) -> Any:
    like = next(mixer.parameters(), torch.zeros(()))
    table = context.table(like.dtype).to(like.device).requires_grad_()
    index = context.index(whole(LENGTH, mixer)).to(like.device)
    result = mixer(table, None, None, index=index)
    return result, gradients(result, [table, *trainable(mixer).values()])
