"""transformer against torch's attention and against explicit sums."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from lrbench.checks import from_a_user
from lrbench.contract import run_contract
from lrbench.errors import UserError
from lrbench.mixers.attention import transformer
from lrbench.mixers.attention.transformer import (
    KINDS,
    TransformerConfig,
    TransformerMixer,
    rotated,
    sinusoids,
)
from lrbench.registry import MIXERS

WIDTH, BATCH, LENGTH, HEADS = 12, 3, 9, 2


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(positions: str, width: int = WIDTH, **options: Any) -> TransformerMixer:
    torch.manual_seed(0)
    config = TransformerConfig(**{"heads": HEADS, "positions": positions, **options})
    mixer = TransformerMixer(config, width).double().eval()
    nn.init.normal_(mixer.project.bias)
    nn.init.normal_(mixer.out.bias)
    for name in ("table", "content_bias", "distance_bias"):
        if hasattr(mixer, name):
            nn.init.normal_(getattr(mixer, name))
    return mixer


def by_sums(mixer: TransformerMixer, u: Tensor, positions: list[int]) -> Tensor:
    """Attend head by head and position by position, as the docstrings have it."""
    kind, heads, width = mixer.kind, mixer.config.heads, mixer.width
    at = torch.tensor(positions)
    added = sinusoids(at, width) if kind == "sinusoidal" else 0.0
    added = mixer.table[at] if kind == "learnt" else added
    q, k, v = ((u + added) @ mixer.project.weight.T + mixer.project.bias).split(width, 2)
    size, gathered = width // heads, []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        qs, ks = q[..., part], k[..., part]
        if kind == "rope":
            qs, ks = rotated(qs, at), rotated(ks, at)
        slope = 2 ** (-8 * (head + 1) / heads) if kind == "alibi" else 0.0
        further = torch.zeros(len(u), len(at), len(at), dtype=u.dtype)
        if kind == "relative":
            distances = sinusoids((at[:, None] - at).flatten(), width) @ mixer.distance.weight.T
            towards = distances[:, part].unflatten(0, (len(at), -1))  # (T, T, K)
            further = torch.einsum("bik,ijk->bij", qs + mixer.distance_bias[head], towards)
            qs = qs + mixer.content_bias[head]
        rows = []
        for i in range(u.shape[1]):
            scores = torch.stack(
                [
                    ((qs[:, i] * ks[:, j]).sum(1) + further[:, i, j]) / math.sqrt(size)
                    - slope * (positions[i] - positions[j])
                    for j in range(i + 1)
                ],
                dim=1,
            )
            rows.append((scores.softmax(1)[..., None] * v[:, : i + 1, part]).sum(1))
        gathered.append(torch.stack(rows, 1))
    return torch.cat(gathered, 2) @ mixer.out.weight.T + mixer.out.bias + added


def positions_of(mixer: TransformerMixer, length: int = LENGTH) -> list[int]:
    if mixer.random is None:
        return list(range(length))
    return [int(p) for p in mixer.random.fixed[:length]]


@pytest.mark.parametrize("mode", TransformerMixer.modes)
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_the_sums(kind: str, mode: str) -> None:
    mixer, u = make(kind), draw(BATCH, LENGTH, WIDTH)
    wanted = by_sums(mixer, u, positions_of(mixer))
    torch.testing.assert_close(mixer(u, None, mode)[0], wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_long_strings_are_read_the_same_by_fused_attention(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no gradient is asked; whole, and in pieces behind a cache."""
    mixer, u, calls = make(kind), draw(BATCH, 21, WIDTH), []
    expected = mixer(u)[0].detach()
    monkeypatch.setattr(transformer, "LONG", 8)
    monkeypatch.setattr(
        transformer,
        "scaled_dot_product_attention",
        lambda *args, **words: calls.append(1) or scaled_dot_product_attention(*args, **words),
    )
    with torch.no_grad():
        whole, _ = mixer(u)
        first, cache = mixer(u[:, :6])
        second, cache = mixer(u[:, 6:13], cache)
        last, _ = mixer(u[:, 13:], cache)
    assert len(calls) == (0 if mixer.kind == "relative" else 3)  # not for the first six
    torch.testing.assert_close(whole, expected)
    torch.testing.assert_close(torch.cat([first, second, last], 1), expected)


@pytest.mark.parametrize("mode", TransformerMixer.modes)
def test_distances_of_an_odd_width_are_the_sums(mode: str) -> None:
    mixer, u = make("randomised_relative", width=5, heads=1), draw(BATCH, LENGTH, 5)
    wanted = by_sums(mixer, u, positions_of(mixer))
    torch.testing.assert_close(mixer(u, None, mode)[0], wanted, rtol=1e-10, atol=1e-10)


def test_nope_is_torchs_multihead_attention_and_starts_with_its_weights() -> None:
    torch.manual_seed(3)
    mixer = TransformerMixer(TransformerConfig(HEADS, "nope"), WIDTH).double()
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).double()
    bound = max(float(p.detach().abs().max()) for p in (theirs.in_proj_weight,))
    assert float(mixer.project.weight.detach().abs().max()) == pytest.approx(bound, rel=0.05)
    assert not mixer.project.bias.any() and not mixer.out.bias.any()
    theirs.load_state_dict(
        {
            "in_proj_weight": mixer.project.weight,
            "in_proj_bias": mixer.project.bias,
            "out_proj.weight": mixer.out.weight,
            "out_proj.bias": mixer.out.bias,
        }
    )
    u = draw(BATCH, LENGTH, WIDTH)
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=u.dtype)
    wanted = theirs(u, u, u, attn_mask=mask, need_weights=False)[0]
    torch.testing.assert_close(mixer(u)[0], wanted, rtol=1e-10, atol=1e-10)


def test_the_softmax_is_torchs_with_large_scores() -> None:
    mixer = make("nope")
    nn.init.normal_(mixer.project.weight, std=50.0)
    u = draw(BATCH, LENGTH, WIDTH)
    q, k, v = mixer.project(u).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    gathered = scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
    torch.testing.assert_close(mixer(u)[0], mixer.out(gathered))


def test_sinusoids_enter_in_the_first_layer_alone() -> None:
    deep, first, plain = make("sinusoidal"), make("sinusoidal"), make("nope")
    deep.place(1, 2)
    first.place(0, 2)
    u = draw(BATCH, LENGTH, WIDTH)
    torch.testing.assert_close(deep(u), plain(u))
    added = sinusoids(torch.arange(LENGTH), WIDTH)
    torch.testing.assert_close(first(u)[0], plain(u + added)[0] + added)


def test_learnt_vectors_are_of_the_first_layer_and_end() -> None:
    deep, first = make("learnt", position_range=512), make("learnt", position_range=512)
    deep.place(1, 2)
    assert deep.table is None and first.table.shape == (512, WIDTH)
    plain = make("nope")
    plain.load_state_dict(deep.state_dict())
    torch.testing.assert_close(deep(draw(1, 4, WIDTH)), plain(draw(1, 4, WIDTH)))
    _, state = first(draw(1, 510, WIDTH))
    with pytest.raises(UserError, match="position_range to at least 513"):
        first(draw(1, 3, WIDTH), state)


@pytest.mark.parametrize("kind", ["rope", "alibi", "nope", "relative"])
def test_outputs_do_not_depend_on_where_a_string_starts(kind: str) -> None:
    mixer, u = make(kind), draw(BATCH, LENGTH, WIDTH)
    wanted = by_sums(mixer, u, [p + 1000 for p in range(LENGTH)])
    torch.testing.assert_close(mixer(u)[0], wanted, rtol=1e-9, atol=1e-9)


def test_without_positions_the_past_is_a_set_and_with_them_it_is_not() -> None:
    u = draw(1, LENGTH, WIDTH)
    shuffled = torch.cat([u[:, [3, 0, 2, 1]], u[:, 4:]], 1)
    for kind in KINDS:
        mixer = make(kind)
        same = torch.allclose(mixer(u)[0][:, 4:], mixer(shuffled)[0][:, 4:], atol=1e-9)
        assert same is (kind == "nope"), kind


def test_the_state_grows_by_a_key_and_a_value_per_position() -> None:
    mixer = make("rope")
    state = mixer.initial_state(BATCH)
    assert mixer.state_size is None
    for length in (4, 1):
        before = state[0].shape[2]
        _, state = mixer(draw(BATCH, length, WIDTH), state)
        shape = (BATCH, HEADS, before + length, WIDTH // HEADS)
        assert [tuple(part.shape) for part in state] == [shape, shape]


def test_training_batches_are_read_at_positions_of_their_own() -> None:
    mixer, u = make("randomised_alibi", position_range=40, longest=LENGTH), draw(1, LENGTH, WIDTH)
    fixed = mixer(u)[0]
    drawn = [mixer.train()(u)[0] for _ in range(3)]
    with torch.no_grad():
        torch.testing.assert_close(mixer.train()(u)[0], fixed)  # scoring, though in training mode
    torch.testing.assert_close(mixer.eval()(u)[0], fixed)
    for i, y in enumerate(drawn):
        assert all(not torch.allclose(y, other) for other in (fixed, *drawn[:i]))


def test_too_long_a_string_is_refused() -> None:
    mixer = make("randomised_rope", position_range=40, longest=8)
    _, state = mixer(draw(1, 6, WIDTH))
    with pytest.raises(UserError, match=r"longest to at least 9"):
        mixer(draw(1, 3, WIDTH), state)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"positions": "ropes"}, "Did you mean 'rope'"),
        ({"heads": 0}, "heads"),
        ({"longest": 3000, "positions": "randomised_rope"}, "cannot be drawn"),
        ({"longest": 9}, "longest=9 is for randomised positions; leave it out"),
        ({"longest": 9, "positions": "learnt"}, "longest=9 is for randomised positions"),
        ({"position_range": 600}, "position_range=600 is for learnt and randomised positions"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], words: str) -> None:
    with from_a_user(), pytest.raises(ValueError, match=words):
        TransformerConfig(**wrong)


def test_how_long_a_string_it_reads_is_by_its_positions() -> None:
    """`longest` is of randomised positions alone: learnt ones of 256 rows were refused by it."""
    assert make("learnt", position_range=256).longest_read == (256, "model.mixer.position_range")
    assert make("randomised_learnt", longest=9).longest_read == (9, "model.mixer.longest")
    assert make("rope").longest_read is None


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match=r"heads=5 does not divide a mixer's width of 12"):
        make("nope", heads=5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_contract_is_kept(kind: str) -> None:
    words = ["model.width=6", "model.mixer.heads=2", f"model.mixer.positions={kind}"]
    findings = run_contract("transformer", words)
    assert [str(f) for f in findings if f.passed is False] == []
    assert {f.name for f in findings if f.passed is None} == {"state size", "cuda"} or (
        torch.cuda.is_available()
    )


def test_its_stack_is_gpt() -> None:
    assert MIXERS.get("transformer").backbone == {"name": "gpt"}
