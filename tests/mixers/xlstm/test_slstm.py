"""sLSTM against c, n and m written out, and parity exactly over 10,000 symbols."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, logsigmoid

from lrbench.contract import CHECKS
from lrbench.contract.subject import Context
from lrbench.kernels.choice import SWITCH
from lrbench.kernels.lanes import side_by_side
from lrbench.mixers.xlstm.cell import LOOP, empty_state, run
from lrbench.mixers.xlstm.slstm import SlstmConfig, SlstmMixer
from lrbench.scan.diagonal.triples import EMPTY

BATCH, HEADS, WIDTH = 3, 2, 8  # heads of four units, for which loops are compiled once
LENGTHS = (1, 65, 200)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_mixer(
    seed: int = 0, dtype: torch.dtype = torch.float64, width: int = WIDTH, **settings: int
) -> SlstmMixer:
    """Return a mixer whose R is not zero, as after training."""
    torch.manual_seed(seed)
    mixer = SlstmMixer(SlstmConfig(**{"heads": HEADS, **settings}), width)
    torch.nn.init.normal_(mixer.recurrent, std=0.3)
    return mixer.to(dtype).eval()


def by_definition(
    drive: Tensor, recurrent: Tensor, h: Tensor, c: Tensor, n: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Follow c and n with a running maximum m, through autograd; return h_1..h_T, c e^m, n e^m."""
    m, outputs = torch.zeros_like(h), []
    for at in drive.unbind(1):
        i, f, z, o = (at + torch.einsum("bhk,hkgj->bhgj", h, recurrent)).unbind(2)
        new = torch.maximum(logsigmoid(f) + m, i) if bool((n != 0).any()) else i
        forget, take = (logsigmoid(f) + m - new).exp(), (i - new).exp()
        c, n, m = forget * c + take * z.tanh(), forget * n + take, new
        h = o.sigmoid() * c / n
        outputs.append(h)
    return torch.stack(outputs, 1), c * m.exp(), n * m.exp()


def problem(length: int, units: int, begun: bool) -> list[Tensor]:
    """Return drive, R, and h, a and log n of the state before."""
    drive = draw(BATCH, length, HEADS, 4, units)
    recurrent = draw(HEADS, units, 4, units, seed=1) / units**0.5
    state = [draw(BATCH, HEADS, units, seed=2 + k) for k in range(3)]
    if not begun:
        state = list(empty_state(drive, BATCH, HEADS, units))
    return [x.requires_grad_() for x in (drive, recurrent, *state)]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", ["0", "1"])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(("length", "units"), [*((length, 4) for length in LENGTHS), (7, 3)])
def test_outputs_states_and_gradients_are_those_of_the_definition(
    length: int, units: int, begun: bool, compiled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, compiled)
    leaves = problem(length, units, begun)
    drive, recurrent, h, a, s = leaves
    y, (last, average, log) = run(drive, recurrent, (h, a, s))
    assert torch.equal(last, y[:, -1])
    n = s.exp() if begun else torch.zeros_like(s)
    wanted, c, n = by_definition(drive, recurrent, h, a * n, n)
    ours, theirs = (y, average, log), (wanted, c / n, n.log())
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    weights = [draw(*part.shape, seed=9 + k) for k, part in enumerate(ours)]
    leaves = leaves if begun else leaves[:3]  # what stands before a string has no slope
    found, expected = (
        torch.autograd.grad(sum((p * w).sum() for p, w in zip(parts, weights, strict=True)), leaves)
        for parts in (ours, theirs)
    )
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def test_gates_of_any_size_do_not_overflow() -> None:
    drive = torch.tensor([300.0, -300.0, 40.0]).view(1, 3, 1, 1, 1).repeat(1, 1, 1, 4, 4)
    drive[:, :, :, 1] = 300.0  # remember everything
    recurrent = torch.zeros(1, 4, 4, 4)
    y, (_, _, s) = run(drive, recurrent, empty_state(drive, 1, 1, 4))
    assert y[0, :, 0, 0].tolist() == [1.0, 0.0, 1.0]  # tanh 300, then the gate o is shut
    assert s.unique().tolist() == [300.0]


def test_each_string_says_whether_it_has_begun() -> None:
    """The released code asks all strings of the batch together."""
    drive, recurrent, *begun = problem(5, 4, True)
    fresh = empty_state(drive, BATCH, HEADS, 4)
    mixed = tuple(torch.cat([one[:1], other[1:]]) for one, other in zip(begun, fresh, strict=True))
    together, _ = run(drive, recurrent, mixed)
    torch.testing.assert_close(together[:1], run(drive, recurrent, tuple(begun))[0][:1])
    torch.testing.assert_close(together[1:], run(drive, recurrent, fresh)[0][1:])
    assert mixed[2][1:].unique().item() == EMPTY


@pytest.mark.slow
@pytest.mark.parametrize("compiled", ["0", "1"])
@pytest.mark.parametrize(("steepness", "margin"), [(3.0, 0.38), (6.0, 0.49)])
def test_parity_exactly_over_ten_thousand_symbols(
    steepness: float, margin: float, compiled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two units, s = (h_1 - h_2) / 2; whole and across a carried state."""
    monkeypatch.setenv(SWITCH, compiled)
    x = torch.randint(2, (4, 10_000), generator=torch.Generator().manual_seed(0))
    drive, recurrent = torch.zeros(4, 10_000, 1, 4, 4), torch.zeros(1, 4, 4, 4)
    drive[..., 1, :], drive[..., 3, :] = -40.0, 40.0
    for unit, threshold in enumerate((0.5, 1.5)):
        drive[..., 0, 2, unit] = steepness * (x - threshold)
        recurrent[0, :2, 2, unit] = torch.tensor([0.5, -0.5]) * steepness
    state, answer = empty_state(drive, 4, 1, 4), x.cumsum(1) % 2
    first, carried = run(drive[:, :4_999], recurrent, state)
    second, _ = run(drive[:, 4_999:], recurrent, carried)
    whole, _ = run(drive, recurrent, state)
    for y in (whole, torch.cat([first, second], 1)):
        s = (y[:, :, 0, 0] - y[:, :, 0, 1]) / 2
        assert float((0.5 - (s - answer).abs()).min()) > margin


@pytest.mark.parametrize("size", [0, 4])
def test_the_layer_is_its_equations(size: int) -> None:
    mixer, u = random_mixer(conv_size=size), draw(BATCH, 9, WIDTH)
    mixed = u if mixer.conv is None else mixer.conv(u)[0]
    assert mixer.conv is None or mixer.conv.bias is not None  # the paper's has one
    heads, gates = mixer.units, []
    for gate, inputs in enumerate((mixed, mixed, u, u)):
        within = [
            inputs[..., k * heads : (k + 1) * heads] @ mixer.weight[k, :, gate]
            for k in range(HEADS)
        ]
        gates.append(torch.stack(within, 2) + mixer.bias[:, gate])
    zeros = torch.zeros(BATCH, HEADS, heads, dtype=u.dtype)
    h = by_definition(torch.stack(gates, 3), mixer.recurrent, zeros, zeros, zeros)[0]
    wanted = layer_norm(h, (heads,)).flatten(2)
    torch.testing.assert_close(mixer(u)[0], wanted)


def test_forget_gates_go_from_remembering_to_forgetting() -> None:
    mixer = SlstmMixer(SlstmConfig(), 64)
    for layer, middle in ((0, 5 - 12 * (5 / 15) ** 0.3), (1, 5 - 12 * (5 / 15) ** 1.6)):
        mixer.place(layer, 2)
        biases = mixer.bias[:, 1]
        assert biases[:, 0].tolist() == [5.0] * 4 and biases[:, -1].tolist() == [-7.0] * 4
        torch.testing.assert_close(biases[:, 5], torch.full((4,), middle))
    assert mixer.bias[:, [0, 2, 3]].abs().max() == mixer.recurrent.abs().max() == 0


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"conv_size": 4, "heads": 1, "width": WIDTH // 2}])
@pytest.mark.parametrize("check", [name for name in CHECKS if name != "cuda"])
def test_the_contract_is_kept_with_a_recurrence_that_does_something(
    check: str, settings: dict[str, int]
) -> None:
    def make(seed: int = 0, dtype: torch.dtype = torch.float64) -> SlstmMixer:
        return random_mixer(seed, dtype, **settings)

    finding = CHECKS[check](make, Context(settings.get("width", WIDTH)))
    assert finding.passed, finding.detail


def test_heads_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.width of 16 cannot be shared by .*heads=3"):
        SlstmMixer(SlstmConfig(heads=3), 16)


def test_few_units_go_by_the_plain_loop() -> None:
    assert [side_by_side(units) for units in (3, 12, 64)] == [1, 4, 16]
    drive, recurrent, *state = problem(4, 3, True)
    packed = LOOP(drive, recurrent, *state)
    y, _ = run(drive, recurrent, tuple(state))
    torch.testing.assert_close(y.flatten(1), packed[:, : 4 * HEADS * 3])
