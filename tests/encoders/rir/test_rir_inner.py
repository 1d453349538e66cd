"""Recursion in recursion around encoders without beams: short strings, two levels, parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.encoders.rir.rir_crvnn import RirCrvnn, RirCrvnnConfig
from lrbench.encoders.rir.rir_grc import RirGrc, RirGrcConfig
from lrbench.encoders.rir.rir_om import RirOm, RirOmConfig
from lrbench.encoders.soft.crvnn import between, reaches
from lrbench.models.build import count_parameters
from lrbench.models.classifier import Classifier, ClassifierConfig

KINDS: dict[str, tuple[Any, Any]] = {
    "rir_grc": (RirGrc, RirGrcConfig),
    "rir_crvnn": (RirCrvnn, RirCrvnnConfig),
    "rir_om": (RirOm, RirOmConfig),
}


def encoder_of(kind: str, width: int = 8, **settings: Any) -> Any:
    encoder, config = KINDS[kind]
    torch.manual_seed(0)
    return encoder(config(**settings), width).double()


def inside(kind: str, encoder: Any, x: Tensor) -> Tensor:
    """Return what the inner model's plain form makes of unpadded vectors (1, c, d)."""
    mask = torch.ones(x.shape[:2], dtype=torch.bool)
    if kind == "rir_crvnn":
        lengths = mask.sum(1)
        framed = between(encoder.ends, x, lengths) * reaches(lengths)
        result: Tensor = encoder.composition(framed, lengths, halt=False)
    else:
        result = encoder.inner.reference(x, mask)
    return result


def test_slots_that_nothing_learnt_to_choose_between_are_refused() -> None:
    with pytest.raises(ValueError, match=r"add model\.encoder\.inference=rir"):
        RirOmConfig(chunk=2, inference="full")
    with pytest.raises(ValueError, match="leave test_slot_factor at 1"):
        RirOmConfig(slots=1, test_slot_factor=3)


@pytest.mark.parametrize("kind", KINDS)
def test_two_levels_are_chunks_of_chunks(kind: str) -> None:
    """Of 11 positions in chunks of 4: vectors of 4, 4 and 3, and one of these three."""
    encoder = encoder_of(kind, chunk=4)
    x, mask = torch.randn(2, 11, 8, dtype=torch.float64), torch.ones(2, 11, dtype=torch.bool)
    x.requires_grad_()
    leaves = encoder.leaves(x, mask).view(2, 11, 8)
    expected = []
    for n in range(2):
        parts = [inside(kind, encoder, leaves[n : n + 1, at : at + 4]) for at in (0, 4, 8)]
        expected.append(inside(kind, encoder, torch.cat(parts)[None]))
    results = encoder(x, mask), torch.cat(expected)
    weight, inputs = torch.randn(2, 8, dtype=torch.float64), [x, *encoder.parameters()]
    found = [[y, *torch.autograd.grad((y * weight).sum(), inputs)] for y in results]
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_short_strings_and_full_inference_are_one_chunk(kind: str) -> None:
    x, mask = torch.randn(2, 11, 8, dtype=torch.float64), torch.ones(2, 11, dtype=torch.bool)
    full = encoder_of(kind, chunk=4, inference="full")
    whole = encoder_of(kind, chunk=8)
    expected = inside(kind, full, full.leaves(x, mask).view(2, 11, 8))
    for encoder in (full, whole):
        torch.testing.assert_close(encoder(x, mask), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_training_reaches_all_weights(kind: str) -> None:
    encoder = encoder_of(kind, chunk=4)
    mask = torch.arange(11) < torch.tensor([11, 3, 7])[:, None]
    x = torch.randn(3, 11, 8, dtype=torch.float64)
    encoder(x, mask, torch.Generator().manual_seed(0)).square().sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


@pytest.mark.parametrize(
    ("kind", "parameters"), [("rir_grc", 546_826), ("rir_crvnn", 629_515), ("rir_om", 597_259)]
)
def test_parameters(kind: str, parameters: int) -> None:
    encoder, config = KINDS[kind]
    model = Classifier(ClassifierConfig(), encoder(config(), 128), 15, 10)
    assert count_parameters(model) == parameters


def test_ordered_memory_maps_the_chunks_of_every_level() -> None:
    """As released: a Linear and the cell's LayerNorm before the memory, 577,153 parameters."""
    encoder = RirOm(RirOmConfig(), 128)
    assert sum(p.numel() for p in encoder.parameters()) == 577_153
    encoder = encoder_of("rir_om", chunk=4)
    x, mask = torch.randn(1, 11, 8, dtype=torch.float64), torch.ones(1, 11, dtype=torch.bool)
    memory, vectors = encoder.inner.memory, encoder.leaves(x, mask)
    for cuts in ((4, 4, 3), (3,)):
        mapped = memory.cell.norm(vectors @ encoder.inner.leaf.weight.T + encoder.inner.leaf.bias)
        parts = [part[None] for part in mapped.split(cuts)]
        vectors = torch.cat([memory.reference(part, mask[:, : part.shape[1]]) for part in parts])
    torch.testing.assert_close(encoder(x, mask), vectors, rtol=1e-9, atol=1e-9)
