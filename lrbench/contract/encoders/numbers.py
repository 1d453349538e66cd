"""Checks of shapes, number types and devices: an encoder is the same function in each."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from lrbench.contract.finding import Comparison, Finding, not_applicable
from lrbench.contract.passes import loss
from lrbench.contract.subject import (
    TOLERANCES,
    EncoderFactory,
    PaddedStrings,
    finest,
    misshapen,
    shown,
    tolerance,
)
from lrbench.encoders.base import Encoder

SHAPES = ((1,), (4,), (1, 1), (3, 3, 3), (9, 2))  # lengths of batches


@torch.no_grad()
def keeps_shape_and_dtype(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Check that (N, S, d) goes to (N, out_width), for every dtype an encoder declares."""
    dtypes = make(dtype=torch.float32).dtypes
    for dtype in dtypes:
        encoder = make(dtype=dtype)
        for lengths in SHAPES:
            given = PaddedStrings(strings.width, lengths)
            y = encoder(given.inputs(dtype), given.mask())
            expected = (len(lengths), encoder.out_width)
            if (y.shape, y.dtype) != (expected, dtype):
                became = f"lengths {lengths} become {misshapen(y, expected, dtype)}"
                return Finding("shape, dtype", False, became)
    shapes = f"(N, S, {encoder.width}) to (N, {encoder.out_width})"
    return Finding("shape, dtype", True, f"{shapes} in {', '.join(map(shown, dtypes))}")


def single_agrees(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Compare results and gradients in every other dtype with those in float64."""
    name = "single"
    if finest(make) != torch.float64:
        return not_applicable(name, "float64 is not declared")
    exact = make(dtype=torch.float64)
    expected = _run(exact, strings, torch.float64)
    reduced = [dtype for dtype in exact.dtypes if dtype != torch.float64]
    comparison = Comparison(max((TOLERANCES.get(d, 1e-2) for d in reduced), default=1e-4), 1.0)
    for dtype in reduced:
        rounded = copy.deepcopy(exact).to(dtype)
        comparison.add(shown(dtype), _run(rounded, strings, dtype), expected)
    return comparison.finding(name, "results and gradients against float64")


def cuda_equals_cpu(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Compare results and gradients on a GPU with those on the CPU."""
    if not torch.cuda.is_available():
        return not_applicable("cuda", "no CUDA device here")
    dtype = finest(make)
    encoder = make(dtype=dtype)
    moved = copy.deepcopy(encoder).to("cuda")
    comparison = Comparison(tolerance(encoder, dtype), 1e-30 if dtype == torch.float64 else 1.0)
    found = _run(moved, strings, dtype, "cuda")
    comparison.add("a batch", found, _run(encoder, strings, dtype))
    return comparison.finding("cuda", f"{torch.cuda.get_device_name()} against the CPU")


def _run(
    encoder: Encoder, strings: PaddedStrings, dtype: torch.dtype, device: str = "cpu"
) -> tuple[Any, list[Tensor]]:
    """Return the result and the gradients of inputs and parameters, in evaluation."""
    x = strings.inputs(dtype).to(device).requires_grad_()
    y = encoder(x, strings.mask().to(device))
    leaves = [x, *(p for p in encoder.parameters() if p.requires_grad)]
    found = torch.autograd.grad(loss(y), leaves, allow_unused=True)
    slopes = [
        torch.zeros_like(leaf) if slope is None else slope
        for leaf, slope in zip(leaves, found, strict=True)
    ]
    return y, slopes
