"""Groups written into the delta rule by hand: right over 10,000 symbols, in every mode, in pieces.

A reflection is a factor I - 2 k k^T. Two of them turn a plane, so n_h = 2 and K = V = 3 hold the
rotations of the icosahedron, which are A5; n_h = 4 and K = V = 5 hold every permutation of five
points (Siems et al. 2025, arXiv:2502.10297); one factor a symbol holds swaps and parity (Grazzi et
al. 2025, arXiv:2411.12537). Without reflections, beta <= 1, nothing alternates.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from math import cos, pi, sin, sqrt
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.delta.deltanet import DeltaNetConfig, DeltaNetMixer
from lrbench.models.build import build_model
from lrbench.models.exact.weights import Reflections, reflecting_weights
from lrbench.registry import TASKS
from lrbench.scan.matrix.householder import MODES
from lrbench.schema import model_node
from lrbench.tasks import make_task
from lrbench.tasks.groups.algebra import group
from lrbench.tasks.stream import Stream

LENGTH, CUT = 10_000, 4_999


def turn(axis: Tensor, angle: float) -> Tensor:
    """Return the rotation about an axis (3), as a matrix on rows."""
    x, y, z = (axis / axis.norm()).tolist()
    cross = torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=torch.float64)
    return torch.eye(3).double() + sin(angle) * cross + (1 - cos(angle)) * cross @ cross


@cache
def icosahedral() -> list[Tensor]:
    """Return a rotation for each element of A5, such that products go with products.

    Its generators are turns about a corner and about the middle of an edge; of all such pairs the
    first whose products are a homomorphism is taken.
    """
    golden = (1 + sqrt(5)) / 2
    signs = list(product((1.0, -1.0), repeat=2))
    corners = [torch.tensor([0, a, b * golden], dtype=torch.float64) for a, b in signs]
    corners = [corner.roll(k) for corner in corners for k in range(3)]
    edges = [a + b for a in corners for b in corners if abs(float((a - b).norm()) - 2) < 1e-9]
    a5 = group("A5")
    five, two = a5.generators
    for corner, edge, times in product(corners, edges, (1, 2, 3, 4)):
        found = {0: torch.eye(3).double()}
        letters = {five: turn(corner, 2 * pi * times / 5), two: turn(edge, pi)}
        waiting = [0]
        for element in waiting:
            for letter, matrix in letters.items():
                to = int(a5.table[element, letter])
                if to not in found:
                    found[to] = found[element] @ matrix
                    waiting.append(to)
        stacked = torch.stack([found[g] for g in range(60)])
        products = stacked[:, None] @ stacked[None]
        if float((products - stacked[torch.from_numpy(a5.table)]).abs().max()) < 1e-9:
            return list(stacked)
    raise AssertionError("A5 is the group of the icosahedron")


def two_reflections(rotation: Tensor) -> list[Tensor]:
    """Return k_1, k_2 with (I - 2 k_1 k_1^T)(I - 2 k_2 k_2^T) = a rotation of three dimensions."""
    if float((rotation - torch.eye(3)).abs().max()) < 1e-9:
        return []
    values, vectors = torch.linalg.eig(rotation)
    axis = vectors[:, (values - 1).abs().argmin()].real
    first = torch.linalg.svd(axis[None]).Vh[1]
    second = first + rotation.mT @ first  # half way to where the product is to send it
    if float(second.norm()) < 1e-6:  # half a turn
        second = torch.linalg.cross(axis, first)
    return [first, second / second.norm()]


def permuting(move: tuple[int, ...]) -> list[Tensor]:
    """Return reflections along e_i - e_j whose product has its ones at (move(i), i)."""
    keys, eye = [], torch.eye(len(move)).double()
    matrix = eye
    for column in range(len(move)):
        at = int(matrix[move[column]].argmax())  # which column has the one that belongs here
        if at != column:
            keys.append((eye[at] - eye[column]) / sqrt(2))
            matrix = matrix - 2 * torch.outer(matrix @ keys[-1], keys[-1])
    assert torch.allclose(matrix, torch.stack([eye[to] for to in move], 1))
    return keys


def reflections(
    matrices: list[list[Tensor]], query: list[float], classes: list[Tensor]
) -> Reflections:
    """Return what is to be written for the keys of each symbol and the matrix of each class."""
    size, most = len(query), max(map(len, matrices))
    keys = torch.zeros(len(matrices), most, size)
    for s, of_symbol in enumerate(matrices):
        for j, key in enumerate(of_symbol):
            keys[s, j] = key
    q = torch.tensor(query, dtype=torch.float64)
    q = q / q.norm()
    read = torch.stack([matrix @ q for matrix in classes])
    return Reflections(keys, torch.eye(size), q.float(), read.float())


def plane(symbol: int, modulus: int) -> list[Tensor]:
    half = pi * symbol / modulus
    return [torch.tensor([1.0, 0.0]), torch.tensor([cos(half), sin(half)])] if symbol else []


def parity() -> Reflections:
    flip = torch.diag(torch.tensor([-1.0, 1.0])).double()
    return reflections([[], [torch.tensor([1.0, 0.0])]], [1, 0.5], [torch.eye(2).double(), flip])


def fifths() -> Reflections:
    keys, turns = [plane(s, 5) for s in range(5)], []
    for of_symbol in keys:
        matrix = torch.eye(2)
        for key in of_symbol:
            matrix = matrix - 2 * torch.outer(matrix @ key, key)
        turns.append(matrix.double())
    return reflections(keys, [1, 0], turns)


def a5() -> Reflections:
    matrices = icosahedral()
    return reflections([two_reflections(m) for m in matrices], [1, 2.2, 3.7], matrices)


def s5(letters: tuple[int, ...]) -> Reflections:
    moves = group("S5").moves
    eye = torch.eye(5).double()
    classes = [torch.stack([eye[to] for to in move], 1) for move in moves]
    return reflections([permuting(moves[x]) for x in letters], [-2, -1, 0, 1, 2], classes)


def task_of(**settings: Any) -> Any:
    name = settings.pop("name")
    return make_task(TASKS.get(name).config(**settings))


CASES: dict[str, tuple[str, int, dict[str, Any], Callable[[Any], Reflections]]] = {
    "parity, one reflection": ("deltanet", 1, {"name": "parity"}, lambda task: parity()),
    "Z5, two": ("deltaproduct", 2, {"name": "sum", "modulus": 5}, lambda task: fifths()),
    "A5, two": ("deltaproduct", 2, {"name": "group", "group": "A5"}, lambda task: a5()),
    "S5, four": (
        "deltaproduct", 4, {"name": "group", "group": "S5"}, lambda task: s5(task.letters)
    ),
    "swaps of S5, one": (
        "deltanet", 1, {"name": "group", "group": "S5", "letters": "swaps"},
        lambda task: s5(task.letters),
    ),
}  # fmt: skip


def written(case: str, logit: float) -> tuple[Any, Any]:
    """Return a model of one layer and one head, its strengths 2 sigmoid(logit), and its task."""
    name, count, settings, make = CASES[case]
    task = task_of(**settings)
    made = make(task)
    symbols, classes, size = len(task.vocabulary), task.num_classes, len(made.query)
    node = model_node(name, "bare")(width=max(symbols, classes), layers=1)
    node.backbone.norm = False
    node.mixer = type(node.mixer)(
        heads=1, key_size=size, value_size=size, householders=count, range="signed", conv_size=0,
        qk_activation="identity", learn_x0=True,
    )  # fmt: skip
    model = build_model(SimpleNamespace(model=node), symbols, classes, seed=0)
    new = reflecting_weights(model.state_dict(), node.mixer, made, logit)
    new["embedding.weight"] = torch.eye(symbols, node.width)
    new["head.0.weight"] = torch.eye(classes, node.width)
    new["head.0.bias"] = torch.zeros(classes)
    model.load_state_dict(model.state_dict() | new)
    return model, task


def margin(logits: Tensor, targets: Tensor) -> float:
    """Return by how much the right class is ahead of the best other, where it is least."""
    right = logits.gather(-1, targets[..., None])
    others = logits.scatter(-1, targets[..., None], -torch.inf)
    return float((right - others.amax(-1, keepdim=True)).min())


def first_margin(case: str) -> float:
    """Return the margin after one symbol: that of exact arithmetic."""
    model, task = written(case, 20.0)
    batch = task.sample(Stream.named(1, "exact"), 0, 512, 1, "cpu")
    return margin(model(batch.tokens)[0], batch.targets)


@torch.no_grad()
@pytest.mark.parametrize(
    ("case", "mode"),
    [(c, m) for c in CASES for m in MODES if m != "sequential" or c in (*CASES,)[::3]],
)
def test_right_at_every_position_of_ten_thousand(case: str, mode: str) -> None:
    model, task = written(case, 20.0)
    batch = task.sample(Stream.named(0, "exact"), 0, 2, LENGTH, "cpu")
    assert task.oracle(batch.tokens[0].tolist()) == batch.targets[0].tolist()
    head, state = model(batch.tokens[:, :CUT], mode=mode)
    tail, state = model(batch.tokens[:, CUT:], state, mode=mode)
    logits = torch.cat([head, tail], 1)
    assert logits.dtype == torch.float32
    least, first = margin(logits, batch.targets), first_margin(case)
    print(f"{case}, {mode}: margin {least:.4f} of {first:.4f}")
    assert least > 0.9 * first
    lengths = state[0][0].norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths), rtol=0, atol=1e-2)


@torch.no_grad()
@pytest.mark.parametrize("logit", [12.0, 8.0])
def test_strengths_short_of_two_fade_alike_in_all_directions(logit: float) -> None:
    """A factor leaves 1 - beta of what is along its key, of size 1 - 2 (1 - sigmoid(logit)).

    The icosahedron has no direction of its own, so all of the state fades, and answers stay right
    for as long as the norm behind the state can tell it from nothing.
    """
    model, task = written("A5, two", logit)
    batch = task.sample(Stream.named(0, "exact"), 0, 2, LENGTH, "cpu")
    logits, state = model(batch.tokens)
    assert torch.equal(logits.argmax(-1), batch.targets)
    leak = 2 * float(torch.tensor(-logit, dtype=torch.float64).sigmoid())
    factors = 2 * LENGTH * 59 / 60 / 3  # in each of three directions
    amplitude = float(state[0][0].norm()) / sqrt(2 * 3)
    print(f"2 sigmoid({logit}): amplitude {amplitude:.4f} after {LENGTH:,} symbols")
    assert amplitude == pytest.approx((1 - leak) ** factors, rel=0.05)


@torch.no_grad()
def test_a_wrong_reflection_is_found_out() -> None:
    model, task = written("A5, two", 20.0)
    model.mixers[0].project.weight[3:6, 7] *= -1  # no change: k and -k are one reflection
    batch = task.sample(Stream.named(0, "exact"), 0, 4, 300, "cpu")
    assert torch.equal(model(batch.tokens)[0].argmax(-1), batch.targets)
    model.mixers[0].project.weight[3, 7] += 500.0
    assert (model(batch.tokens)[0].argmax(-1) == batch.targets).double().mean() < 0.5


@torch.no_grad()
def test_without_reflections_nothing_alternates() -> None:
    """beta <= 1: the state under one symbol only goes on where it is going (Grazzi, Theorem 1).

    S_t - S_{t-1} = (S_1 - S_0) A^(t-1), and A is symmetric with eigenvalues in [0, 1].
    """
    for seed in range(5):
        torch.manual_seed(seed)
        config = DeltaNetConfig(heads=2, conv_size=0, learn_x0=True)
        mixer = DeltaNetMixer(config, 12).double()
        mixer.strength.weight.mul_(10)  # of any strength
        u = torch.randn(1, 1, 12).double().expand(1, 30, 12)
        transition = mixer.coefficients(u, mixer.initial_state(1)[1])[0]
        eigenvalues = torch.linalg.eigvalsh(transition.written().blocks)
        assert float(eigenvalues.min()) > -1e-12 and float(eigenvalues.max()) < 1 + 1e-12
        states, state = [], mixer.initial_state(1)
        for k in range(30):
            _, state = mixer.step(u[:, k], state)
            states.append(state[0].flatten(2))
        changes = torch.stack(states, 1).diff(dim=1)
        along = (changes[:, 1:] * changes[:, :-1]).sum(-1)
        assert float(along.min()) > -1e-12
    flips, _ = written("parity, one reflection", 20.0)
    y = flips(torch.ones(1, 9, dtype=torch.long))[0][0, :, 0].diff()
    assert (y[1:] * y[:-1] < -0.1).all()


@torch.no_grad()
@pytest.mark.parametrize(("range", "least"), [("positive", 0.0), ("signed", -1.0)])
def test_no_product_expands(range: str, least: float) -> None:
    torch.manual_seed(0)
    config = DeltaNetConfig(householders=3, range=range, decay="channel", conv_size=4)
    mixer = DeltaNetMixer(config, 16).double()
    mixer.strength.weight.mul_(20)
    u = torch.randn(4, 50, 16).double()
    transition = mixer.coefficients(u, mixer.initial_state(4)[1])[0]
    assert float(torch.linalg.matrix_norm(transition.written().blocks, 2).max()) <= 1 + 1e-12
    along = 1 - (transition.erased * transition.keys).sum(-1)
    assert least <= float(along.min()) < least + 0.1 and float(along.max()) <= 1
