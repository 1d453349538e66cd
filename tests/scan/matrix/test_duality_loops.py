"""Matrix states under one decay a head in compiled loops, against chunks and the recurrence."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.scan.matrix import by_values
from lrbench.scan.matrix.duality import Writes, dual_scan
from lrbench.scan.matrix.duality_loops import DUAL_SCAN
from tests.both_ways import both_ways, close, draw, group_is_each_alone, needs_numba

pytestmark = needs_numba
SIZES = [  # strings, positions, heads, those of keys, keys, values, whether written behind as well
    (1, 1, 1, 1, 3, 8, 0),
    (2, 40, 3, 1, 4, 8, 0),
    (2, 7, 2, 2, 5, 33, 0),  # two blocks of 16 values, one of 8
    (1, 26, 2, 2, 4, 8, 1),
    (2, 5, 4, 1, 3, 3, 1),
]


def leaves(sizes: tuple[int, ...]) -> list[Tensor]:
    """Return decays of any sign, k, v, w, q, S_0 and maybe l."""
    strings, length, heads, groups, keys, values, later = sizes
    made = [draw(strings, length, heads, seed=1).tanh()]
    made[0][:, length // 2] = 0  # a gate that closes wholly
    made += [draw(strings, length, groups, keys, seed=2), draw(strings, length, heads, values)]
    made += [draw(strings, length, heads, seed=3), draw(strings, length, groups, keys, seed=4)]
    made += [draw(strings, heads, values, keys, seed=5)]
    return made + [draw(strings, length, heads, seed=6)] * later


def run(*made: Tensor, mode: str = "chunked") -> Tensor:
    """Return what heads that decay and write read, and their last states, flat."""
    decays, k, v, now, q, start, *later = made
    y, state = dual_scan(decays, Writes(k, v, now, *later), q, start, mode)
    return torch.cat([y.flatten(), state.flatten()])


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kept", [1, 1 << 12, 1 << 18])
def test_values_and_gradients(
    sizes: tuple[int, ...], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever part of a string the backward goes over at a time; keys of a head, or of all."""
    monkeypatch.setattr(by_values, "KEPT", kept)
    made = leaves(sizes)
    ours, chunks = both_ways(run, made)
    close(ours, chunks)
    slow, _ = both_ways(lambda *parts: run(*parts, mode="sequential"), made)
    close(ours, slow)


def test_values_are_followed_in_pieces_that_registers_hold() -> None:
    assert by_values.blocks(33) == [(0, 32, 16), (32, 40, 8)]
    assert by_values.blocks(16) == [(0, 16, 16)]
    assert by_values.blocks(3) == [(0, 8, 8)]


def test_nothing_to_do_is_left_to_torch() -> None:
    decays, k, v, now, q, start = leaves((2, 3, 1, 1, 4, 8, 0))
    inputs = v, decays, k, q, now, now[..., :0]
    assert DUAL_SCAN.usable(*inputs, start)
    assert not DUAL_SCAN.usable(*(x[:, :0] for x in inputs), start)
    assert not DUAL_SCAN.usable(*inputs, start.float())


def test_what_may_be_broadcast_is() -> None:
    decays, k, v, now, q, start = leaves((2, 4, 3, 1, 5, 8, 0))
    alike = decays[:1], k[:1], v, now[:1, :, :1], q, start[:1, :1]
    found = dual_scan(alike[0], Writes(*alike[1:4]), *alike[4:], "chunked")
    slow = dual_scan(alike[0], Writes(*alike[1:4]), *alike[4:], "sequential")
    close(found, slow)
    with pytest.raises(RuntimeError):  # two groups of keys for three heads
        dual_scan(decays, Writes(k.expand(-1, -1, 2, -1), v, now), q, start, "chunked")


def test_what_is_written_behind_does_not_pass_what_is_read() -> None:
    """However large it is."""
    decays, k, v, now, q, start, later = leaves((1, 3, 2, 1, 4, 8, 1))
    later[:, -1] = 1e30
    found, _ = dual_scan(decays, Writes(k, v, now, later), q, start, "chunked")
    slow, _ = dual_scan(decays, Writes(k, v, now, later), q, start, "sequential")
    close([found], [slow])


def test_a_state_to_carry_on_keeps_no_outputs() -> None:
    decays, k, v, now, q, start = leaves((1, 30, 1, 1, 4, 8, 0))
    _, last = dual_scan(decays, Writes(k, v, now), q, start, "chunked")
    assert last.untyped_storage().nbytes() == start.untyped_storage().nbytes()


def test_single_precision() -> None:
    made = [leaf.float() for leaf in leaves(SIZES[3])]
    close(*both_ways(run, made))


def test_a_group_of_runs_at_once() -> None:
    """Under vmap(grad(..)), as groups train."""
    group_is_each_alone(run, leaves(SIZES[2]))
