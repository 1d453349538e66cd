"""The delta rule in every way it can be computed, against the recurrence written in numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from lrbench.errors import UserError
from lrbench.scan import ALGORITHMS, Indexed, scan
from lrbench.scan.matrix.householder import MODES, HouseholderProducts, delta_rule

pytestmark = pytest.mark.usefixtures("chunks")
N, K, V = 3, 4, 5
DECAYS = {"none": 0, "scalar": 1, "channel": K}
Leaves = list[Tensor]


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def leaves(length: int, count: int, decay: str, oblique: bool = False) -> Leaves:
    """Return k, e, v, q, S_0 and where there is one log a, which may be strong: e^-20 and below."""
    k = normalize(draw(N, length, count, K, seed=1), dim=-1)
    strength = 2 * draw(N, length, count, 1, seed=2).sigmoid()
    e = strength * (normalize(k + 0.3 * draw(*k.shape, seed=3), dim=-1) if oblique else k)
    made = [k, e, draw(N, length, count, V, seed=4), draw(N, length, K, seed=5)]
    made.append(draw(N, V, K, seed=6))
    if decay != "none":
        made.append(-(3 * draw(N, length, DECAYS[decay], seed=7)).exp())
    return [leaf.requires_grad_() for leaf in made]


def transition(k: Tensor, e: Tensor, log_decay: Sequence[Tensor]) -> HouseholderProducts:
    return HouseholderProducts(k, e, *log_decay)


def run(mode: str, made: Leaves) -> tuple[Tensor, Tensor]:
    k, e, v, q, start, *log_decay = made
    return delta_rule(transition(k, e, log_decay), v, q, start, mode)


def slopes(results: Sequence[Tensor], made: Leaves) -> tuple[Tensor, ...]:
    weights = [draw(*result.shape, seed=9) for result in results]
    total = sum((r * w).sum() for r, w in zip(results, weights, strict=True))
    return torch.autograd.grad(total, made)  # type: ignore[arg-type]


def by_hand(made: Leaves) -> tuple[np.ndarray, np.ndarray]:
    """Return y and the last state by dense factors I - e k^T, one string and one at a time."""
    k, e, v, q, start, *log_decay = (leaf.detach().numpy() for leaf in made)
    outputs = np.zeros((*q.shape[:2], V))
    states = start.copy()
    for n in range(N):
        s = start[n]
        for t in range(q.shape[1]):
            if log_decay:
                s = s @ np.diag(np.broadcast_to(np.exp(log_decay[0][n, t]), K))
            for j in range(k.shape[2]):
                s = s @ (np.eye(K) - np.outer(e[n, t, j], k[n, t, j]))
                s = s + np.outer(v[n, t, j], k[n, t, j])
            outputs[n, t] = s @ q[n, t]
        states[n] = s
    return outputs, states


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize(("count", "oblique"), [(1, False), (2, True), (4, False)])
def test_every_mode_is_the_recurrence(count: int, oblique: bool, decay: str) -> None:
    made = leaves(65, count, decay, oblique)
    wanted = by_hand(made)
    for mode in MODES:
        for found, expected in zip(run(mode, made), wanted, strict=True):
            np.testing.assert_allclose(found.detach(), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 63, 64, 129, 500])
@pytest.mark.parametrize(("count", "decay"), [(1, "none"), (2, "channel"), (4, "scalar")])
def test_modes_agree_at_lengths_around_chunks(length: int, count: int, decay: str) -> None:
    made = leaves(length, count, decay)
    wanted = run("sequential", made)
    expected = slopes(wanted, made)
    allowed = 1e-8 if count == 4 else 1e-9
    for mode in MODES:
        found = run(mode, made)
        torch.testing.assert_close(found, wanted, rtol=allowed, atol=1e-11)
        torch.testing.assert_close(slopes(found, made), expected, rtol=allowed, atol=1e-10)


@pytest.mark.parametrize("length", [1, 65, 300])
def test_decays_that_are_bounded_are_taken_alone(length: int) -> None:
    k, e, v, q, start, g = leaves(length, 2, "channel")
    bounded = (-0.6 * g.detach().sigmoid()).requires_grad_()
    made = [k, e, v, q, start, bounded]
    wanted = run("sequential", made)
    kind = HouseholderProducts(k, e, bounded, least=-0.6)
    found = delta_rule(kind, v, q, start, "chunked")
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(slopes(found, made), slopes(wanted, made), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cut", [1, 17, 64])
def test_a_carried_state_is_the_whole(mode: str, cut: int) -> None:
    made = leaves(70, 2, "scalar")
    k, e, v, q, start, g = made
    head = run(mode, [k[:, :cut], e[:, :cut], v[:, :cut], q[:, :cut], start, g[:, :cut]])
    tail = run(mode, [k[:, cut:], e[:, cut:], v[:, cut:], q[:, cut:], head[1], g[:, cut:]])
    pieces, whole = (torch.cat([head[0], tail[0]], 1), tail[1]), run(mode, made)
    torch.testing.assert_close(pieces, whole, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(slopes(pieces, made), slopes(whole, made), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("mode", MODES)
def test_a_gate_that_closes_wholly_stays_finite(mode: str) -> None:
    """e^-1e4 is zero, and its inverse infinite: only differences may be taken."""
    k, e, v, q, start, g = leaves(40, 1, "channel")
    closed = g.detach().clone()
    closed[:, 10:13] = -1e4
    made = [k, e, v, q, start, closed.requires_grad_()]
    results = run(mode, made)
    assert all(bool(x.isfinite().all()) for x in (*results, *slopes(results, made)))
    changed = [k, e, v, q, start + 1.0, closed]
    torch.testing.assert_close(run(mode, changed)[0][:, 10:], results[0][:, 10:])


@pytest.mark.parametrize("decay", ["scalar", "channel"])
def test_a_strong_gate_costs_no_digits(decay: str) -> None:
    """Sums of log a took what was below their rounding from all later positions of a chunk."""
    k, e, v, q, start, g = leaves(40, 1, decay)
    closed = g.detach().clone()
    closed[:, 3], closed[:, 10] = -1e12, -torch.inf
    made = [k, e, v, q, start, closed]
    with torch.no_grad():
        wanted = run("sequential", made)
        torch.testing.assert_close(run("chunked", made), wanted, rtol=1e-9, atol=1e-11)


def test_as_a_transition_of_many_symbols_its_gradients_are_those_of_the_reference() -> None:
    """Blocks that all rows share had numbers from nowhere for a gradient."""
    k, e, v, _, start, *_rest = made = leaves(30, 2, "none")
    index = torch.randint(30, (N, 9), generator=torch.Generator().manual_seed(8))
    made = [leaf for leaf in made if leaf is not made[3]]
    found = []
    for algorithm in ("reference", "sequential"):
        kind = transition(k[:1], e[:1], [])
        states = scan(Indexed(kind, index), kind.writes(v[:1]), start, algorithm)
        found.append((states, slopes([states], made)))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("looked_up", [False, True], ids=["by position", "by symbol"])
def test_every_scan_takes_it(decay: str, looked_up: bool) -> None:
    """As a transition among others, with its writes for inputs."""
    k, e, v, _, start, *log_decay = made = leaves(13, 2, decay)
    index = torch.randint(13, (N, 9), generator=torch.Generator().manual_seed(8))
    made = [leaf for leaf in made if leaf is not made[3]]
    rows = 1 if looked_up else N
    found = []
    for algorithm in ALGORITHMS:
        kind = transition(k[:rows], e[:rows], [g[:rows] for g in log_decay])
        inputs = kind.writes(v[:rows])
        states = scan(Indexed(kind, index) if looked_up else kind, inputs, start, algorithm)
        found.append((states, slopes([states], made)))
    for one in found[1:]:
        torch.testing.assert_close(one, found[0], rtol=1e-9, atol=1e-10)


def test_a_mode_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="known: chunked, scan, sequential"):
        run("chunks", leaves(3, 1, "none"))


def test_reflections_keep_lengths_and_projections_erase() -> None:
    k = normalize(draw(1, 1, 1, K, seed=1), dim=-1)
    state = draw(1, V, K, seed=2)
    turned = HouseholderProducts(k, 2 * k).act(0, state)
    torch.testing.assert_close(turned.norm(dim=-1), state.norm(dim=-1))
    torch.testing.assert_close(turned @ k[0, 0, 0], -(state @ k[0, 0, 0]))
    erased = HouseholderProducts(k, k).act(0, state)
    assert float((erased @ k[0, 0, 0]).abs().max()) < 1e-14
