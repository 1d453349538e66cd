"""Checks of padding: neither padding, its content, nor other strings change a string's vector."""

from __future__ import annotations

from dataclasses import replace

import torch

from lrbench.contract.finding import Comparison, Finding, not_applicable
from lrbench.contract.subject import SAME, EncoderFactory, PaddedStrings, finest

MORE = (1, 9, 150)
GARBAGE = 100.0


@torch.no_grad()
def ignores_masked_numbers(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Put large numbers where the mask is false: every bit of the result stays as it is."""
    dtype = finest(make)
    encoder, strings = make(dtype=dtype), replace(strings, more=3)
    x, mask = strings.inputs(dtype), strings.mask()
    expected = encoder(x, mask)
    found = encoder(torch.where(mask[..., None], x, GARBAGE), mask)
    comparison = Comparison(0.0)
    comparison.add("numbers of 100 where the mask is false", found, expected)
    return comparison.finding("mask", "what stands at padded positions")


@torch.no_grad()
def ignores_padding(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Pad by more positions: the result changes by no more than the encoder declares."""
    dtype = finest(make)
    encoder = make(dtype=dtype)
    if encoder.padding is None:
        return not_applicable("padding", f"depends on it: {encoder.padding_reason}")
    allowed = encoder.padding if dtype == torch.float64 else max(encoder.padding, 1e-5)
    comparison = Comparison(allowed)
    expected = encoder(strings.inputs(dtype), strings.mask())
    for more in MORE:
        padded = replace(strings, more=more)
        found = encoder(padded.inputs(dtype), padded.mask())
        comparison.add(f"{more} more", found, expected)
    return comparison.finding("padding", f"up to {max(MORE)} positions more")


@torch.no_grad()
def keeps_strings_apart(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Change one string, then the order of all: the vectors of the others, and all, are equal."""
    dtype = finest(make)
    encoder = make(dtype=dtype)
    comparison = Comparison(SAME.get(dtype, 1e-2))
    x, mask = strings.inputs(dtype), strings.mask()
    expected = encoder(x, mask)
    pushed = x.clone()
    pushed[0] += 10 * mask[0, :, None]
    comparison.add("beside a perturbed string", encoder(pushed, mask)[1:], expected[1:])
    comparison.add("in reverse order", encoder(x.flip(0), mask.flip(0)).flip(0), expected)
    return comparison.finding("strings apart", "vectors of one batch")


@torch.no_grad()
def reads_strings_alone(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Read each string alone and unpadded: what a batch gives, if padding does not matter."""
    dtype = finest(make)
    encoder = make(dtype=dtype)
    if encoder.padding is None:
        return not_applicable("alone", f"depends on padding: {encoder.padding_reason}")
    if encoder.company:
        return not_applicable("alone", f"depends on other strings: {encoder.company}")
    comparison = Comparison(max(encoder.padding, SAME.get(dtype, 1e-2)))
    x, mask = strings.inputs(dtype), strings.mask()
    expected = encoder(x, mask)
    for n, length in enumerate(strings.lengths):
        found = encoder(x[n : n + 1, :length], mask[n : n + 1, :length])
        comparison.add(f"length {length}", found, expected[n : n + 1])
    return comparison.finding("alone", "each string by itself against the batch")
