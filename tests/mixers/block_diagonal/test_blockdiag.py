"""The two block-diagonal mixers are the equations of their docstrings."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.mixers.block_diagonal.blockdiag import BlockDiagConfig, BlockDiagonalMixer
from lrbench.mixers.block_diagonal.blockdiag_release import (
    BlockDiagonalRelease,
    BlockDiagReleaseConfig,
)

WIDTH, SIZE, HEADS = 8, 4, 2


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_paper_equation() -> None:
    mixer = BlockDiagonalMixer(BlockDiagConfig(block_size=SIZE, hidden=6), WIDTH).double()
    u = draw(1, 3, WIDTH)
    state = mixer.start
    for k in range(3):
        columns = mixer.transition(u[0, k]).view(HEADS, SIZE, SIZE)
        value = mixer.value(u[0, k]).view(HEADS, SIZE)
        rows = []
        for head in range(HEADS):
            total = value[head]
            for j in range(SIZE):
                v = columns[head, :, j]
                norm = (v.abs() ** 1.2).sum() ** (1 / 1.2)
                total = total + state[head, j] * v / norm.clamp(min=1)
            rows.append(total)
        state = torch.stack(rows)
    torch.testing.assert_close(mixer(u)[0][0, -1], state.flatten())
    assert mixer.state_size == state.numel()


def test_released_equation() -> None:
    mixer = BlockDiagonalRelease(BlockDiagReleaseConfig(block_size=SIZE), WIDTH).double()
    u = draw(1, 3, WIDTH)
    state = mixer.start
    for k in range(3):
        blocks = mixer.transition(u[0, k]).view(HEADS, SIZE, SIZE)
        blocks = blocks - blocks.mean(1, keepdim=True)
        largest = (blocks.abs() ** 1.2).sum(1).amax(1) ** (1 / 1.2)
        blocks = blocks / largest[:, None, None]
        state = (blocks @ state[..., None])[..., 0] + mixer.value(u[0, k]).view(HEADS, SIZE)
    torch.testing.assert_close(mixer(u)[0][0, -1], state.flatten())


def test_transition_range_of_the_paper() -> None:
    mixer = BlockDiagonalMixer(BlockDiagConfig(block_size=SIZE), WIDTH).double()
    transition, _ = mixer.coefficients(10 * draw(4, 50, WIDTH))
    norms = torch.linalg.vector_norm(transition.written().blocks, 1.2, dim=-2)
    assert norms.max() <= 1 + 1e-12 and norms.max() > 0.99


def test_transition_range_of_the_release() -> None:
    mixer = BlockDiagonalRelease(BlockDiagReleaseConfig(block_size=SIZE), WIDTH).double()
    blocks = mixer.coefficients(draw(4, 50, WIDTH))[0].written().blocks
    norms = torch.linalg.vector_norm(blocks, 1.2, dim=-2).amax(-1)
    torch.testing.assert_close(norms, torch.ones_like(norms))
    torch.testing.assert_close(blocks.sum(-2), torch.zeros_like(blocks[..., 0]))


def test_start_is_learnt_unless_set_otherwise() -> None:
    fixed = BlockDiagonalMixer(BlockDiagConfig(block_size=SIZE, learn_x0=False), WIDTH)
    assert not fixed.start.requires_grad and not fixed.start.any()
    assert BlockDiagonalMixer(BlockDiagConfig(block_size=SIZE), WIDTH).start.requires_grad


@pytest.mark.parametrize("config", [BlockDiagConfig, BlockDiagReleaseConfig])
def test_width_must_hold_whole_blocks(config: type) -> None:
    mixers = {BlockDiagConfig: BlockDiagonalMixer, BlockDiagReleaseConfig: BlockDiagonalRelease}
    with pytest.raises(ValueError, match=r"model.width 10 is not a multiple .*block_size 8"):
        mixers[config](config(), 10)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"p": 0.5}, "mixer.p must be at least 1"),
        ({"p": 1e39}, "mixer.p must be at most 16"),
        ({"block_size": 0}, "block_size must be at least 1"),
        ({"constraint": "clip"}, "constraint must be one of column_clip"),
        ({"g": "cubic"}, "mixer.g must be one of linear, mlp"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BlockDiagConfig(**wrong)  # type: ignore[arg-type]
