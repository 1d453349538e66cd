"""Masked softmax against the released formula; stochastic top k against sampling."""

from __future__ import annotations

import math

import torch

from lrbench.encoders.trees.choice import (
    LOG_FLOOR,
    beam_shares,
    gumbel,
    masked_log_softmax,
    top_k,
)


def test_masked_softmax_is_the_released_one() -> None:
    logits = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    valid = torch.arange(7) < torch.tensor([1, 3, 7, 2, 5])[:, None]
    released = logits.softmax(-1) * valid + 1e-20
    released = (released / released.sum(-1, keepdim=True)).log()
    found = masked_log_softmax(logits, valid)
    torch.testing.assert_close(found[valid], released[valid])
    assert bool((found[~valid] == LOG_FLOOR).all())
    assert float((found - released)[~valid].abs().max()) < 5, "divided by the share that is valid"


def test_where_nothing_is_valid_all_are_equal() -> None:
    logits = torch.randn(2, 4, requires_grad=True)
    nothing = torch.zeros(2, 4, dtype=torch.bool)
    found = masked_log_softmax(logits, nothing)
    torch.testing.assert_close(found, torch.full((2, 4), -math.log(4)))
    found.sum().backward()
    assert logits.grad is not None and not logits.grad.any()
    assert torch.equal(beam_shares(torch.randn(2, 4), nothing), torch.full((2, 4), 0.25))


def test_the_largest_come_first_and_the_invalid_last() -> None:
    values = torch.tensor([[1.0, 3.0, 3.0, 9.0, 9.0]])
    valid = torch.tensor([[True, True, True, False, False]])
    assert top_k(values, valid, 5).tolist() == [[1, 2, 0, 3, 4]]
    assert top_k(values, valid, 2).tolist() == [[1, 2]]


def test_noise_is_gumbel() -> None:
    noise = gumbel((200_000,), torch.Generator().manual_seed(0), torch.zeros(()))
    assert abs(float(noise.mean()) - 0.5772) < 0.01
    assert abs(float(noise.var()) - math.pi**2 / 6) < 0.03


def test_perturbed_top_k_samples_without_replacement() -> None:
    """Plackett-Luce: the first by softmax, the second by softmax of the rest."""
    values = torch.tensor([0.0, 1.0, 2.0]).expand(200_000, 3)
    noise = gumbel((200_000, 3), torch.Generator().manual_seed(0), values)
    drawn = top_k(values, torch.ones_like(values, dtype=torch.bool), 2, noise)
    p = values[0].softmax(0)
    for first in range(3):
        for second in range(3):
            share = float(((drawn[:, 0] == first) & (drawn[:, 1] == second)).double().mean())
            expected = 0.0 if first == second else float(p[first] * p[second] / (1 - p[first]))
            assert abs(share - expected) < 0.005
