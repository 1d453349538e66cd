"""`lrnn_diag`: what its range of transitions can and cannot do."""

from __future__ import annotations

from math import log, pi
from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.checks import from_a_user
from lrbench.mixers.block_diagonal.lrnn_diag import DiagonalMixer, LrnnDiagConfig
from lrbench.models.lrnn_release import LrnnRelease, LrnnReleaseConfig
from lrbench.tasks.stream import Stream
from lrbench.tasks.symbols.cyclic import Parity, ParityConfig, Sum, SumConfig
from lrbench.training.scoring import score

WIDTH = 6
SATURATED = 100.0  # sigma and tanh of it are 1 in any precision


def make(width: int = WIDTH, **options: Any) -> DiagonalMixer:
    torch.manual_seed(0)
    return DiagonalMixer(LrnnDiagConfig(**options), width).double()


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_equation_of_the_paper() -> None:
    mixer, u = make(), draw(1, 4, WIDTH)
    x = torch.zeros(WIDTH, dtype=torch.float64)
    for k in range(4):
        x = mixer.transition(u[0, k]).sigmoid() * x + mixer.value(u[0, k])
    torch.testing.assert_close(mixer(u)[0][0, -1], x)


def test_complex_equation() -> None:
    mixer, u = make(range="complex", state_size=4, learn_x0=True), draw(1, 4, WIDTH)
    x = torch.view_as_complex(mixer.start.view(4, 2))
    for k in range(4):
        raw, value = mixer.transition(u[0, k]), mixer.value(u[0, k])
        v = raw[:4].sigmoid() * torch.exp(2j * pi * raw[4:].sigmoid())
        x = v * x + torch.view_as_complex(value.view(4, 2))
    torch.testing.assert_close(mixer(u)[0][0, -1], mixer.out(torch.view_as_real(x).flatten()))


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        ({"range": "sigmoid"}, 0.0, 1.0),
        ({"range": "tanh"}, -1.0, 1.0),
    ],
)
def test_real_ranges(options: dict[str, Any], low: float, high: float) -> None:
    values = make(f="linear", **options).coefficients(5 * draw(4, 50, WIDTH))[0].values
    assert low <= values.min() < low + 0.05 and high - 0.05 < values.max() <= high


@pytest.mark.parametrize("phase", ["sigmoid", "free"])
def test_complex_ranges(phase: str) -> None:
    u = 5 * draw(4, 50, WIDTH)
    inside = make(f="linear", range="complex", phase=phase).coefficients(u)[0].values
    assert inside.abs().max() <= 1 and inside.abs().min() < 0.1
    circle = make(f="linear", range="unit", phase=phase).coefficients(u)[0].values
    torch.testing.assert_close(circle.abs(), torch.ones_like(circle.abs()))
    for values in (inside, circle):  # every direction
        assert values.real.min() < -0.5 and values.imag.min() < -0.5 < 0.5 < values.imag.max()


def solution(
    raw: Tensor, values: Tensor, read: Tensor, bias: Tensor, **options: Any
) -> LrnnRelease:
    """Build a model of one state with z = raw (S, ..), B u = values (S, ..) per symbol, x_0 = 0.

    Class c gets read_c . x + bias_c, through the layer norm of the head, which keeps order.
    """
    symbols, width = len(raw), len(raw) + 1
    config = LrnnDiagConfig(f="linear", state_size=1, **options)
    model = LrnnRelease(
        LrnnReleaseConfig(), symbols, len(read), width, 1, lambda: DiagonalMixer(config, width)
    )
    mixer = model.mixers[0]
    assert isinstance(mixer, DiagonalMixer)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight.copy_(torch.eye(symbols, width))
        norm, head_norm, hidden, _, last = model.norms[0], *model.head
        # layer norm of a one-hot vector, undone: the mixer sees the symbol one-hot
        norm.weight.fill_((1 / width * (1 - 1 / width) + norm.eps) ** 0.5)
        norm.bias.fill_(1 / width)
        mixer.transition[0].weight[:, :symbols] = raw.T
        mixer.value[0].weight[:, :symbols] = values.T
        mixer.out.weight[: len(read)] = read
        mixer.out.bias[: len(read)] = bias
        head_norm.weight.fill_(1)
        hidden.weight.copy_(torch.eye(width))
        hidden.bias.fill_(5)  # the rectifier lets everything through
        last.weight.copy_(torch.eye(len(read), width))
    return model


def parity(kind: str) -> LrnnRelease:
    """A one multiplies by -1 and adds one: the state is the parity. Classes read (0, x - 1/2)."""
    values = torch.tensor([[0.0], [1.0]])
    if kind != "tanh":
        values = torch.cat([values, torch.zeros(2, 1)], 1)
    turn = {
        "tanh": torch.tensor([[SATURATED], [-SATURATED]]),
        "unit": torch.tensor([[0.0], [pi]]),
        "complex": torch.tensor([[SATURATED, 0.0], [SATURATED, pi]]),
    }[kind]
    read = torch.zeros(2, values.shape[1])
    read[:, 0] = torch.tensor([-1.0, 1.0])
    return solution(turn, values, read, torch.tensor([0.5, -0.5]), range=kind, phase="free")


def cyclic(kind: str, phase: str, modulus: int = 5) -> LrnnRelease:
    """Symbol s turns the plane by s / M around (1, 0): the state is 1 - exp(2 pi i sum / M)."""
    angles = 2 * pi * torch.arange(modulus).double() / modulus
    if phase == "free":
        raw = angles
    else:  # the inverse of 2 pi sigma; a whole turn for symbol 0, which sigma reaches
        shares = torch.arange(1, modulus) / modulus
        raw = torch.tensor([SATURATED, *(log(s / (1 - s)) for s in shares.tolist())])
    raw = raw[:, None].float()
    if kind == "complex":
        raw = torch.cat([torch.full_like(raw, SATURATED), raw], 1)
    points = torch.stack([angles.cos(), angles.sin()], 1).float()
    values = torch.tensor([1.0, 0.0]) - points
    # class c: the inner product of 1 - x with the point at angle 2 pi c / M
    return solution(raw, values, -points, points[:, 0], range=kind, phase=phase)


PARITY, SUM = Parity(ParityConfig()), Sum(SumConfig(modulus=5))
SOLUTIONS = {
    "parity tanh": (lambda: parity("tanh"), PARITY),
    "parity unit": (lambda: parity("unit"), PARITY),
    "parity complex": (lambda: parity("complex"), PARITY),
    "Z_5 unit": (lambda: cyclic("unit", "free"), SUM),
    "Z_5 unit, phase of a sigmoid": (lambda: cyclic("unit", "sigmoid"), SUM),
    "Z_5 complex": (lambda: cyclic("complex", "sigmoid"), SUM),
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_exact_at_ten_thousand_symbols(name: str) -> None:
    make_model, task = SOLUTIONS[name]
    found = score(make_model(), task, Stream.named(0, "exact"), 10_000, 16, "cpu")
    assert (found.correct, found.n, found.length) == (16, 16, 10_000)


@pytest.mark.parametrize("name", SOLUTIONS)
def test_exact_at_every_position(name: str) -> None:
    make_model, task = SOLUTIONS[name]
    model = make_model()
    batch = task.sample(Stream.named(1, "exact"), 0, 32, 200, "cpu")
    for mode in ("sequential", "tree", "chunked"):
        logits, _ = model(batch.tokens, mode=mode)
        assert torch.equal(logits.argmax(-1), batch.targets)


def test_a_turn_that_is_slightly_off_is_found_out() -> None:
    model = cyclic("unit", "free")
    with torch.no_grad():
        model.mixers[0].transition[0].weight.mul_(1.007)
    assert score(model, SUM, Stream.named(0, "exact"), 500, 64, "cpu").accuracy < 0.5


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"range": "relu"}, "range must be one of sigmoid, tanh, complex, unit"),
        ({"phase": "half"}, "phase must be one of sigmoid, free"),
        ({"f": "cubic"}, "mixer.f must be one of linear, mlp"),
        ({"state_size": 0}, "state_size must be at least 1"),
        ({"range": "tanh", "phase": "free"}, "phase=free is for model.mixer.range=complex or unit"),
        ({"f": "linear", "hidden": 8}, "hidden=8 is for model.mixer.f=mlp or model.mixer.values"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any], message: str) -> None:
    with from_a_user(), pytest.raises(ValueError, match=message):
        LrnnDiagConfig(**wrong)
