"""The short convolution equals torch's, in pieces too, and sees nothing that comes later."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import conv1d, pad, silu

from lrbench.errors import UserError
from lrbench.mixers.convolution import CausalConvolution

BATCH, FEATURES = 3, 5


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def made(size: int, activation: str = "silu", bias: bool = True) -> CausalConvolution:
    convolution = CausalConvolution(FEATURES, size, activation, bias).double()
    with torch.no_grad():
        for seed, parameter in enumerate(convolution.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=10 + seed))
    return convolution


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_equals_torch(size: int, length: int) -> None:
    convolution, x = made(size), draw(BATCH, length, FEATURES).requires_grad_()
    padded = pad(x.mT, (size - 1, 0))
    weight = convolution.weight[:, None]
    wanted = silu(conv1d(padded, weight, convolution.bias, groups=FEATURES)).mT
    y, after = convolution(x)
    torch.testing.assert_close(y, wanted, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(after, padded.mT[:, length:])
    leaves, upstream = [x, *convolution.parameters()], draw(*y.shape, seed=3)
    found = torch.autograd.grad(y, leaves, upstream)
    expected = torch.autograd.grad(wanted, leaves, upstream)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cut", [1, 2, 5, 8])
def test_a_string_in_pieces_is_the_whole(cut: int) -> None:
    convolution, x = made(4, "identity", bias=False), draw(BATCH, 9, FEATURES)
    first, state = convolution(x[:, :cut], convolution.initial_state(BATCH))
    second, after = convolution(x[:, cut:], state)
    whole, wanted = convolution(x)
    assert convolution.state_size == after[0].numel() == wanted[0].numel()
    torch.testing.assert_close((torch.cat([first, second], 1), after), (whole, wanted))


def test_it_sees_what_came_before_and_nothing_later() -> None:
    convolution, x = made(4), draw(BATCH, 9, FEATURES)
    changed = x.clone()
    changed[:, 4] += 1
    moved = (convolution(x)[0] != convolution(changed)[0]).any(-1).any(0)
    assert moved.tolist() == [False] * 4 + [True] * 4 + [False]


def test_several_run_at_once() -> None:
    several, x = [made(4) for _ in range(3)], draw(3, BATCH, 7, FEATURES)
    with torch.no_grad():
        for convolution in several:
            convolution.weight.mul_(torch.rand(()))
    stacked = stack_module_state(several)
    together = vmap(lambda p, b, u: functional_call(several[0], (p, b), (u,)))(*stacked, x)
    for k, convolution in enumerate(several):
        torch.testing.assert_close(tuple(part[k] for part in together), convolution(x[k]))


def test_what_it_cannot_be_is_said() -> None:
    with pytest.raises(UserError, match="activation 'relu' unknown"):
        CausalConvolution(FEATURES, 4, "relu")
    with pytest.raises(ValueError, match="0 positions"):
        CausalConvolution(FEATURES, 0)
