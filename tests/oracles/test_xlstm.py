"""mLSTM and sLSTM against the authors' xlstm, by its plain torch code, with copied weights."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from lrbench.mixers.xlstm.cell import empty_state, run
from lrbench.mixers.xlstm.mlstm import MODES, MlstmConfig, MlstmMixer, matrix_memory
from lrbench.mixers.xlstm.slstm import SlstmConfig, SlstmMixer
from lrbench.scan.diagonal.triples import EMPTY
from tests.oracles.pinned import pinned

WIDTH, HEADS, BATCH = 16, 2, 3
FILES = {
    "blocks/slstm/src/vanilla/slstm.py": "3bcd6660239fe391",
    "blocks/slstm/src/vanilla/__init__.py": "3aead96de1ea1483",
    "blocks/slstm/layer.py": "a63ae229ba5d9615",
    "blocks/mlstm/backends.py": "6fff15777a4c703d",
    "blocks/mlstm/cell.py": "552df10fa5349d5b",
    "blocks/mlstm/layer.py": "c17901e25664f031",
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


def memory_problem(length: int, dtype: torch.dtype) -> list[Tensor]:
    """Return q, k, v (B, T, H, d), and i and f (B, T, H) before exp and sigmoid."""
    units = WIDTH // HEADS
    shapes = [(BATCH, length, HEADS, units)] * 3 + [(BATCH, length, HEADS)] * 2
    made = [draw(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes)]
    return [x.requires_grad_() for x in (*made[:3], 3 * made[3], 3 + made[4])]


@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("length", [1, 7, 65, 300])
def test_the_memory_of_mlstm_in_parallel(
    length: int, mode: str, dtype: torch.dtype, allowed: float
) -> None:
    theirs = import_module("xlstm.blocks.mlstm.backends").parallel_stabilized_simple
    leaves = memory_problem(length, dtype)
    q, k, v, i, f = leaves
    units = WIDTH // HEADS
    state = q.new_zeros(BATCH, HEADS, units + 1, units), q.new_full((BATCH, HEADS), EMPTY)
    h, *_ = matrix_memory((q, k / units**0.5, v), (i, logsigmoid(f)), state, mode)
    heads = [x.transpose(1, 2) for x in (q, k, v)]
    wanted = theirs(*heads, *(x.mT[..., None] for x in (i, f))).transpose(1, 2)
    torch.testing.assert_close(h, wanted, rtol=allowed, atol=allowed)
    upstream = draw(*h.shape, dtype=dtype, seed=9)
    found, expected = (torch.autograd.grad(y, leaves, upstream) for y in (h, wanted))
    torch.testing.assert_close(found, expected, rtol=100 * allowed, atol=10 * allowed)


@pytest.mark.parametrize("mode", MODES)
def test_the_memory_of_mlstm_step_by_step(mode: str) -> None:
    theirs = import_module("xlstm.blocks.mlstm.backends").recurrent_step_stabilized_simple
    leaves = [x.detach() for x in memory_problem(65, torch.float64)]
    q, k, v, i, f = leaves
    units = WIDTH // HEADS
    memory, m = q.new_zeros(BATCH, HEADS, units + 1, units), q.new_zeros(BATCH, HEADS)
    state = q.new_zeros(BATCH, HEADS, units, units), q.new_zeros(BATCH, HEADS, units, 1)
    theirs_state, wanted = (*state, m[..., None, None]), []
    for t in range(65):
        at = [x[:, t, :, None].clone() for x in (q, k, v)]
        gates = [x[:, t, :, None, None] for x in (i, f)]
        h, theirs_state = theirs(*theirs_state, *at, *gates)
        wanted.append(h[:, :, 0])
    found = []
    for part in (slice(0, 20), slice(20, None)):
        inputs = q[:, part], k[:, part] / units**0.5, v[:, part]
        h, memory, m = matrix_memory(
            inputs, (i[:, part], logsigmoid(f[:, part])), (memory, m), mode
        )
        found.append(h)
    torch.testing.assert_close(torch.cat(found, 1), torch.stack(wanted, 1), rtol=1e-10, atol=1e-10)
    c, n, largest = theirs_state
    ours = memory[:, :, :-1].mT, memory[:, :, -1, :, None], m[..., None, None]
    torch.testing.assert_close(ours, (c, n, largest), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("length", "block"), [(9, 4), (65, 8)])
def test_the_layer_of_mlstm(length: int, block: int) -> None:
    module = import_module("xlstm.blocks.mlstm.layer")
    width = 32  # theirs rounds 2 D up to a multiple of 64
    ours = MlstmMixer(MlstmConfig(heads=HEADS, block_size=block), width).double()
    settings = module.mLSTMLayerConfig(
        embedding_dim=width, num_heads=HEADS, context_length=length, qkv_proj_blocksize=block
    )
    theirs = module.mLSTMLayer(settings).double()
    copy_mlstm(ours, theirs)
    u = draw(BATCH, length, width, dtype=torch.float64).requires_grad_()
    wanted = theirs(u)
    upstream = draw(*wanted.shape, dtype=torch.float64, seed=2)
    expected = torch.autograd.grad(wanted, [u, theirs.proj_up.weight], upstream)
    for mode in ours.modes:
        y = ours(u, mode=mode)[0]
        torch.testing.assert_close(y, wanted, rtol=1e-9, atol=1e-10)
        found = torch.autograd.grad(y, [u, ours.up.weight], upstream)
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)


@torch.no_grad()
def copy_mlstm(ours: MlstmMixer, theirs: Any) -> None:
    """Move all of our weights off their beginning, and copy them."""
    for seed, weight in enumerate(ours.parameters()):
        weight += 0.3 * draw(*weight.shape, dtype=weight.dtype, seed=20 + seed)
    assert ours.conv is not None and ours.conv.bias is not None
    cell, (gates, biases) = theirs.mlstm_cell, (x.chunk(2) for x in ours.gates.parameters())
    pairs = {
        theirs.proj_up.weight: ours.up.weight,
        theirs.conv1d.conv.weight: ours.conv.weight[:, None],
        theirs.conv1d.conv.bias: ours.conv.bias,
        theirs.q_proj.weight: ours.query,
        theirs.k_proj.weight: ours.key,
        theirs.v_proj.weight: ours.value,
        cell.igate.weight: gates[0],
        cell.fgate.weight: gates[1],
        cell.igate.bias: biases[0],
        cell.fgate.bias: biases[1],
        cell.outnorm.weight: ours.norm.weight.flatten() - 1,  # it adds 1
        theirs.learnable_skip: ours.skip,
        theirs.proj_down.weight: ours.down.weight,
    }
    assert len(pairs) == len(list(theirs.parameters()))
    for mine, value in pairs.items():
        mine.copy_(value)
