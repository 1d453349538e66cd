"""SLiCE against its equations in numpy, matrix by matrix of each input, and what it begins as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lrbench.checks import from_a_user
from lrbench.contract import run_contract
from lrbench.mixers.structured.slice import STRUCTURES, Slice, SliceConfig

WIDTH, BATCH, LENGTH = 8, 3, 17


def made(width: int = WIDTH, **settings: Any) -> Slice:
    torch.manual_seed(0)
    return Slice(SliceConfig(**settings), width).double()


def matrices(mixer: Slice) -> list[np.ndarray]:
    """Return A_0..A_D of each input, the last of them the one that goes with the time."""
    w = {name: value.detach().numpy() for name, value in mixer.state_dict().items()}
    structure, found = mixer.config.structure, []
    signs = np.array([[(-1) ** bin(i & j).count("1") for j in range(WIDTH)] for i in range(WIDTH)])
    for i in range(WIDTH + 1):
        if structure in ("block", "dense"):
            a, size = np.zeros((WIDTH, WIDTH)), w["blocks"].shape[1]
            for h, block in enumerate(w["blocks"][..., i]):
                a[h * size : (h + 1) * size, h * size : (h + 1) * size] = block
        elif structure == "walsh":
            a = signs / np.sqrt(WIDTH) @ np.diag(np.tanh(w["values"][:, i]))
        else:
            a = np.diag(w["values"][:, i])
            if structure == "dplr":
                a = a + w["left"][:, i] @ w["right"][:, i].T
        found.append(a)
    return found


def by_the_paper(mixer: Slice, u: np.ndarray) -> np.ndarray:
    """Return the states (T, N) of one string u (T, D), position by position."""
    *each, of_time = matrices(mixer)
    first = mixer.first.weight.detach().numpy(), mixer.first.bias.detach().numpy()
    states = [first[0] @ u[0] + first[1]]
    for u_k in u[1:]:
        a = sum(number * matrix for number, matrix in zip(u_k, each, strict=True)) + of_time
        change = (a / 40) @ states[-1]
        states.append(states[-1] + 1e11 * np.tanh(change / 1e11))
    return np.stack(states)


@torch.no_grad()
@pytest.mark.parametrize("structure", STRUCTURES)
def test_it_is_what_the_paper_says(structure: str) -> None:
    mixer = made(structure=structure, rank=2)
    u = torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1)).double()
    expected = np.stack([by_the_paper(mixer, string) for string in u.numpy()])
    for mode in mixer.modes:
        y, _ = mixer(u, mode=mode)
        assert np.abs(y.numpy() - expected).max() < 1e-12 * np.abs(expected).max(), mode


@pytest.mark.slow
@pytest.mark.parametrize("structure", STRUCTURES)
def test_structures_keep_the_contract(structure: str) -> None:
    rank = ["model.mixer.rank=2"] if structure == "dplr" else []
    settings = [f"model.mixer.structure={structure}", *rank, "model.width=8"]
    findings = run_contract("slice", settings)
    assert [str(finding) for finding in findings if finding.passed is False] == []


@torch.no_grad()
def test_it_expands_as_it_begins() -> None:
    """Blocks of 4 at width 128, init_std 0.5: 1 + A has a spectral radius of 1.1 on average."""
    mixer = made(128)
    u = torch.randn(4, 256, 128, generator=torch.Generator().manual_seed(2)).double()
    blocks = mixer.coefficients(u)[0].written().blocks
    radii = torch.linalg.eigvals(blocks).abs().amax(-1)
    print(f"radius {float(radii.mean()):.3f} on average, at most {float(radii.max()):.3f}")
    assert 1.05 < float(radii.mean()) < 1.15
    y, _ = mixer(u)
    growth = y[:, -1].norm(dim=-1) / y[:, 0].norm(dim=-1)
    print(f"a state grows {float(growth.mean()):.1f}-fold over 256 symbols")
    assert float(growth.mean()) > 5


@pytest.mark.parametrize(
    ("width", "settings", "message"),
    [
        (8, {"structure": "sparse"}, "model.mixer.structure must be one of diagonal, block, dplr"),
        (12, {"structure": "walsh"}, "model.width that is a power of two, not 12"),
        (10, {}, "model.width 10 is not a multiple of model.mixer.block_size 4"),
        (8, {"rank": 0}, "model.mixer.rank must be at least 1"),
        (8, {"structure": "dense", "block_size": 2}, "block_size=2 is for model.mixer.structure"),
        (8, {"structure": "block", "rank": 2}, "rank=2 is for model.mixer.structure=dplr"),
        (8, {"init": "exact", "init_std": 0.1}, "init_std=0.1 is for model.mixer.init=random"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    width: int, settings: dict[str, Any], message: str
) -> None:
    with from_a_user(), pytest.raises(ValueError, match=message):
        made(width, **settings)


@torch.no_grad()
def test_diagonals_do_not_know_the_order_of_letters() -> None:
    """Diagonal matrices commute: what follows the first symbol may come in any order.

    So a diagonal layer has no group that does not commute, such as A5; blocks and others have.
    """
    u = torch.randn(1, LENGTH, WIDTH, generator=torch.Generator().manual_seed(3)).double()
    turned = torch.cat([u[:, :1], u[:, 1:].flip(1)], 1)
    apart = {}
    for structure in STRUCTURES:
        mixer = made(structure=structure)
        states = [mixer(string)[1][0] for string in (u, turned)]
        apart[structure] = float((states[0] - states[1]).norm() / states[0].norm())
    assert apart.pop("diagonal") < 1e-12
    assert min(apart.values()) > 1e-3, apart
