"""sLSTM against the authors' xlstm, by its plain torch code, with copied weights."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.xlstm.cell import empty_state, run
from lrbench.mixers.xlstm.slstm import SlstmConfig, SlstmMixer
from tests.oracles.pinned import pinned

WIDTH, HEADS, BATCH = 16, 2, 3
FILES = {
    "blocks/slstm/src/vanilla/slstm.py": "3bcd6660239fe391",
    "blocks/slstm/src/vanilla/__init__.py": "3aead96de1ea1483",
    "blocks/slstm/layer.py": "a63ae229ba5d9615",
}


@pytest.fixture(autouse=True)
def installed() -> None:
    pinned("xlstm", "2.0.6", FILES)
    pinned("mlstm_kernels", "2.0.6", {})


def draw(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-11), (torch.float32, 1e-4)])
@pytest.mark.parametrize("length", [1, 7, 65])
def test_the_loop_of_slstm(length: int, dtype: torch.dtype, allowed: float) -> None:
    theirs = import_module("xlstm.blocks.slstm.src.vanilla")
    units = WIDTH // HEADS
    drive = draw(BATCH, length, HEADS, 4, units, dtype=dtype).requires_grad_()
    recurrent = (draw(HEADS, units, 4, units, dtype=dtype, seed=1) / 3).requires_grad_()
    y, (_, average, log) = run(drive, recurrent, empty_state(drive, BATCH, HEADS, units))
    inputs = drive.permute(1, 0, 3, 2, 4).flatten(2)  # (T, B, 4 H d)
    weight = recurrent.permute(0, 2, 3, 1).flatten(1, 2)  # (H, 4 d, d)
    none, bias = drive.new_zeros(4, BATCH, WIDTH), drive.new_zeros(4 * WIDTH)
    step = theirs.slstm_pointwise_function_registry["slstm"]
    states, (_, c, n, m), _ = theirs.slstm_forward(inputs, none, weight, bias, step)
    wanted = states[0, 1:].transpose(0, 1)
    torch.testing.assert_close(y.flatten(2), wanted, rtol=allowed, atol=allowed)
    torch.testing.assert_close(average.flatten(1), c / n, rtol=allowed, atol=allowed)
    torch.testing.assert_close(log.flatten(1), m + n.log(), rtol=allowed, atol=allowed)
    upstream = draw(*wanted.shape, dtype=dtype, seed=2)
    leaves = [drive, recurrent]
    found = torch.autograd.grad(y.flatten(2), leaves, upstream, retain_graph=True)
    expected = torch.autograd.grad(wanted, leaves, upstream)
    torch.testing.assert_close(found, expected, rtol=allowed, atol=10 * allowed)


@pytest.mark.parametrize("conv", [0, 4])
def test_the_layer_of_slstm(conv: int) -> None:
    module = import_module("xlstm.blocks.slstm.layer")
    ours = SlstmMixer(SlstmConfig(heads=HEADS, conv_size=conv), WIDTH)
    torch.nn.init.normal_(ours.recurrent, std=0.3)
    torch.nn.init.normal_(ours.norm.weight)
    settings = module.sLSTMLayerConfig(
        embedding_dim=WIDTH, num_heads=HEADS, conv1d_kernel_size=conv, backend="vanilla"
    )
    theirs = module.sLSTMLayer(settings)
    copy_slstm(ours, theirs)
    u = draw(BATCH, 9, WIDTH, dtype=torch.float32).requires_grad_()
    y, wanted = ours(u)[0], theirs(u)
    torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-5)
    upstream = draw(*y.shape, dtype=torch.float32, seed=2)
    found, expected = (torch.autograd.grad(out, u, upstream)[0] for out in (y, wanted))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@torch.no_grad()
def copy_slstm(ours: SlstmMixer, theirs: Any) -> None:
    """Copy weights; theirs calls the map of i `fgate` and that of f `igate`."""
    maps = (theirs.fgate, theirs.igate, theirs.zgate, theirs.ogate)
    for gate, layer in enumerate(maps):
        layer.weight.copy_(ours.weight[:, :, gate].mT)
    cell = theirs.slstm_cell
    cell._recurrent_kernel_.copy_(ours.recurrent.permute(0, 2, 3, 1).flatten(1, 2))
    cell._bias_.copy_(ours.bias.transpose(0, 1).flatten())
    theirs.group_norm.weight.copy_(ours.norm.weight.flatten() - 1)  # it adds 1
    if ours.conv is not None:
        assert ours.conv.bias is not None
        theirs.conv1d.conv.weight.copy_(ours.conv.weight[:, None])
        theirs.conv1d.conv.bias.copy_(ours.conv.bias)
