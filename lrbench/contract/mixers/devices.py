"""Checks of machines: a mixer computes the same on a GPU, and with any number of threads."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from lrbench.contract.finding import Comparison, Finding, not_applicable
from lrbench.contract.passes import gradients, trainable
from lrbench.contract.subject import Context, MixerFactory, finest, tolerance, ways, whole
from lrbench.mixers.base import Mixer

LENGTH = 40
SHORT, THREADS = 7, (1, 2)


def cuda_equals_cpu(make: MixerFactory, context: Context) -> Finding:
    """Compare outputs, states and gradients in every mode, and by symbols if it takes them."""
    if not torch.cuda.is_available():
        return not_applicable("cuda", "no CUDA device here")
    if context.device != "cpu":
        return not_applicable("cuda", "computes on a GPU only")
    comparison = compare_devices(make, context, torch.device("cuda"))
    return comparison.finding("cuda", f"{torch.cuda.get_device_name()} against the CPU")


@torch.no_grad()
def threads_change_nothing(make: MixerFactory, context: Context) -> Finding:
    """Compare outputs and states of one thread with those of two, on a short string.

    Threads that wait take time of a processor, and a wait comes after each operation.
    """
    if context.device != "cpu":
        return not_applicable("threads", "computes on a GPU only")
    dtype, before = finest(make), torch.get_num_threads()
    mixer = make(dtype=dtype)
    comparison = Comparison(tolerance(mixer, dtype))
    u = context.inputs(whole(SHORT, mixer), dtype)
    results = []
    try:
        for threads in THREADS:
            torch.set_num_threads(threads)
            results.append(mixer(u))
    finally:
        torch.set_num_threads(before)
    comparison.add(f"T={u.shape[1]}", results[1], results[0])
    return comparison.finding("threads", "two threads against one")


def compare_devices(make: MixerFactory, context: Context, device: torch.device) -> Comparison:
    """Run one mixer on the CPU and its copy on `device`, on the same inputs."""
    dtype = finest(make)
    mixer = make(dtype=dtype)
    moved = copy.deepcopy(mixer).to(device)
    comparison = Comparison(tolerance(mixer, dtype), 1e-30 if dtype == torch.float64 else 1.0)
    u = context.inputs(whole(LENGTH, mixer), dtype)
    for mode in ways(mixer):
        found, expected = _run(moved, u.to(device), mode), _run(mixer, u, mode)
        comparison.add(mode or "default mode", found, expected)
    if mixer.takes_symbols:
        table, index = context.table(dtype), context.index(u.shape[1])
        found = _run(moved, table.to(device), None, index=index.to(device))
        comparison.add("symbols", found, _run(mixer, table, None, index=index))
    return comparison


def _run(mixer: Mixer, u: Tensor, mode: str | None, **kwargs: Tensor) -> Any:
    """Return the result and the gradients of inputs and parameters."""
    u = u.detach().clone().requires_grad_()
    result = mixer(u, None, mode, **kwargs)
    return result, gradients(result, [u, *trainable(mixer).values()])
