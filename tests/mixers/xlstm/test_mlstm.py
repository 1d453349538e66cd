"""mLSTM against C and n written out without a maximum, and what forbids it parity."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, logsigmoid

from lrbench.contract import run_contract
from lrbench.mixers.base import Mixer
from lrbench.mixers.xlstm.mlstm import MODES, MlstmConfig, MlstmMixer, matrix_memory
from lrbench.mixers.xlstm.slstm import SlstmConfig, SlstmMixer
from lrbench.scan.diagonal.triples import EMPTY

BATCH, HEADS, KEYS, VALUES, WIDTH = 2, 2, 4, 3, 8
EPSILON = 1e-6
EXTREME = 80.0


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_definition(q: Tensor, k: Tensor, v: Tensor, i: Tensor, f: Tensor) -> Tensor:
    """Follow C, n and the largest weight as they are, through autograd; return h_1..h_T."""
    c, n, largest, outputs = torch.zeros(()), torch.zeros(()), torch.zeros_like(i[:, 0]), []
    for t in range(q.shape[1]):
        forget, take = f[:, t].sigmoid(), i[:, t].exp()
        key, value, query = take[..., None] * k[:, t], v[:, t], q[:, t]
        c = forget[..., None, None] * c + value[..., None] * key[..., None, :]
        n = forget[..., None] * n + key
        largest = torch.maximum(forget * largest, take)
        below = (n * query).sum(-1).abs().clamp_min(1) + EPSILON * largest
        outputs.append((c * query[..., None, :]).sum(-1) / below[..., None])
    return torch.stack(outputs, 1)


def problem(length: int, extreme: bool) -> list[Tensor]:
    """Return q, k, v and the gates i and f, before exp and sigmoid."""
    q, k = (draw(BATCH, length, HEADS, KEYS, seed=seed) for seed in (0, 1))
    v = draw(BATCH, length, HEADS, VALUES, seed=2)
    i, f = (draw(BATCH, length, HEADS, seed=seed) for seed in (3, 4))
    gates = 3 * i, 3 + f
    if extreme:  # no two weights are the same: where they are, a maximum has no slope
        gates = EXTREME * i.sign() + i, EXTREME * f.sign()
    return [x.requires_grad_() for x in (q, k, v, *gates)]


def in_pieces(leaves: list[Tensor], cut: int, mode: str) -> Tensor:
    """Return h of strings that are read in two pieces (one: cut is 0)."""
    state = (
        leaves[0].new_zeros(BATCH, HEADS, VALUES + 1, KEYS),
        leaves[3].new_full((BATCH, HEADS), EMPTY),
    )
    outputs = []
    for part in (slice(0, cut), slice(cut, None)) if cut else (slice(None),):
        q, k, v, i, f = (leaf[:, part] for leaf in leaves)
        h, *state = matrix_memory((q, k, v), (i, logsigmoid(f)), tuple(state), mode)
        outputs.append(h)
    return torch.cat(outputs, 1)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("length", [1, 7, 64, 300])
def test_outputs_and_gradients_are_those_of_the_definition(
    length: int, extreme: bool, mode: str
) -> None:
    """With gates i = +-80 and f of nothing or one, too, whole and across a carried m."""
    leaves = problem(length, extreme)
    wanted = by_definition(*leaves)
    upstream = draw(*wanted.shape, seed=5)
    slopes = torch.autograd.grad(wanted, leaves, upstream)
    for cut in {0, length // 3}:
        h = in_pieces(leaves, cut, mode)
        torch.testing.assert_close(h, wanted, rtol=1e-10, atol=1e-10)
        found = torch.autograd.grad(h, leaves, upstream)
        torch.testing.assert_close(found, slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_slopes_are_those_of_finite_differences(mode: str) -> None:
    leaves = problem(5, False)
    assert torch.autograd.gradcheck(lambda *inputs: in_pieces(list(inputs), 2, mode), leaves)


@pytest.mark.parametrize("size", [0, 4])
def test_the_layer_is_its_equations(size: int) -> None:
    mixer, u = moved(MlstmMixer(MlstmConfig(heads=HEADS, conv_size=size), WIDTH)), draw(3, 9, WIDTH)
    weights = dict(mixer.named_parameters())
    x, z = (u @ weights["up.weight"].T).split(2 * WIDTH, -1)
    mixed = x * x.sigmoid() if mixer.conv is None else mixer.conv(x)[0]
    q, k, v = (
        inputs @ torch.block_diag(*weights[name]).T
        for name, inputs in (("query", mixed), ("key", mixed), ("value", x))
    )
    made = torch.cat([q, k, v], -1) @ weights["gates.weight"].T + weights["gates.bias"]
    heads = []
    for head in range(HEADS):
        units = slice(head * WIDTH, (head + 1) * WIDTH)  # 2 D / H = D
        h = written_out(
            q[..., units],
            k[..., units] / WIDTH**0.5,
            v[..., units],
            *(made[..., head::HEADS].unbind(-1)),
        )
        heads.append(layer_norm(h, (WIDTH,)) * weights["norm.weight"][head])
    y = (torch.cat(heads, -1) + weights["skip"] * mixed) * z * z.sigmoid()
    for mode in MODES:
        torch.testing.assert_close(mixer(u, mode=mode)[0], y @ weights["down.weight"].T)


def written_out(q: Tensor, k: Tensor, v: Tensor, i: Tensor, f: Tensor) -> Tensor:
    """Return h (B, T, V) of one head, each position a sum over those before it."""
    length, log = i.shape[1], f.sigmoid().log().cumsum(1)
    weights = (i[:, None] + log[:, :, None] - log[:, None]).exp().tril()
    scores = (q @ k.mT) * weights
    below = scores.sum(-1).abs().clamp_min(1) + EPSILON * weights.amax(-1)
    assert weights.shape[1:] == (length, length)
    return scores @ v / below[..., None]


def moved(mixer: Mixer, seed: int = 0, scale: float = 0.3) -> Any:
    """Return the mixer in float64 with noise on every weight, so that none is zero."""
    mixer = mixer.double()
    with torch.no_grad():
        for k, weight in enumerate(mixer.parameters()):
            weight += scale * draw(*weight.shape, seed=100 * seed + k)
    return mixer


@pytest.mark.slow
@pytest.mark.parametrize("settings", [["conv_size=0", "block_size=2"], ["heads=1", "expand=1"]])
def test_settings_keep_the_contract(settings: list[str]) -> None:
    findings = run_contract("mlstm", [f"model.mixer.{setting}" for setting in settings])
    assert [str(finding) for finding in findings if finding.passed is False] == []


def test_no_gate_makes_what_is_no_number() -> None:
    """In float32, with queries of zero and gates far beyond what exp can take, too."""
    leaves = [x.detach().float().requires_grad_() for x in problem(40, True)]
    q, k, v, i, f = leaves
    for factor in (1.0, 0.0):
        for mode in MODES:
            h = in_pieces([factor * q, k, v, 4 * i, 4 * f], 13, mode)
            slopes = torch.autograd.grad(h.square().sum(), leaves)
            assert all(bool(x.isfinite().all()) for x in (h, *slopes))


@pytest.mark.slow
def test_ten_thousand_closed_gates_do_not_round_the_largest_weight_away() -> None:
    """Sums of log f from the first position on are past 10^5 here; float32 keeps 10^-2 of them."""
    q, k, v, i, f = (x.detach() for x in problem(10_000, False))
    leaves = [q, k, v, i, f - 20]
    wanted = in_pieces(leaves, 0, "sequential")
    h = in_pieces([x.float() for x in leaves], 0, "chunked")
    torch.testing.assert_close(h.double()[:, -500:], wanted[:, -500:], rtol=1e-3, atol=1e-3)


def test_gates_begin_as_published() -> None:
    mixer = MlstmMixer(MlstmConfig(), 64)
    assert mixer.gates.bias[4:].tolist() == [3.0, 4.0, 5.0, 6.0]
    assert mixer.gates.weight.count_nonzero() == 0
    mixer.place(3, 4)
    assert mixer.down.weight.std().item() == pytest.approx(2 / 4 / 8, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_a_long_string_of_ones_has_no_parity(seed: int) -> None:
    """Decays lie in (0, 1), so that h settles where a parity would go on changing its sign.

    An sLSTM whose R has the sign does go on.
    """
    torch.manual_seed(seed)
    ones = draw(1, 1, WIDTH, seed=seed).expand(1, 4_000, WIDTH)
    with torch.no_grad():
        y = moved(MlstmMixer(MlstmConfig(heads=HEADS), WIDTH), seed)(ones)[0][0]
        change = (y[1:] - y[:-1]).abs().amax(-1) / y.abs().max()
    assert float(change[:5].max()) > 1e-3 and float(change[-100:].max()) < 1e-3


def test_an_slstm_goes_on_changing_its_sign() -> None:
    mixer = SlstmMixer(SlstmConfig(heads=1), 3).double()
    with torch.no_grad():
        mixer.weight.zero_()
        mixer.bias[:, 1] = -40.0  # what was is forgotten
        mixer.recurrent[0, :2, 2, :2] = torch.tensor([[-9.0, 0.0], [0.0, 0.0]])
        mixer.bias[0, 2, 0] = 0.1
        y = mixer(torch.ones(1, 400, 3, dtype=torch.float64))[0][0, :, 0]
    assert bool((y[1:].sign() == -y[:-1].sign()).all())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, r"expand \* model\.width of 16 cannot be shared by model\.mixer\.heads=3"),
        ({"block_size": 3}, r"of 16 is no multiple of model\.mixer\.block_size=3"),
        ({"conv_size": -1}, r"model\.mixer\.conv_size must be at least 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MlstmMixer(MlstmConfig(**settings), WIDTH)
