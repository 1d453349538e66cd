"""RIR-EBT-GRC: against the released form; k = 2 and k >= S; what alignment keeps; gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lrbench.checks import from_a_user
from lrbench.encoders.grc.bbt_grc import BbtGrc, BbtGrcConfig
from lrbench.encoders.rir.rir_ebt_grc import RirEbtGrc, RirEbtGrcConfig
from lrbench.encoders.trees.ebt_grc import EasyFirst, EbtGrc, EbtGrcConfig

from ..agreement import assert_same_as_reference

LENGTHS = torch.tensor([5, 1, 19, 8, 2, 17, 4])
MASK = torch.arange(19) < LENGTHS[:, None]


def encoder_of(seed: int = 0, **settings: Any) -> RirEbtGrc:
    torch.manual_seed(seed)
    given: dict[str, Any] = {"s4d": False, "inference": "rir", **settings}
    encoder = RirEbtGrc(RirEbtGrcConfig(**given), 8).double()
    with torch.no_grad():  # so that pairs differ in score
        encoder.scorer.second.weight *= 8
    return encoder


def inputs(mask: Tensor = MASK) -> Tensor:
    drawn = torch.Generator().manual_seed(1)
    return torch.randn(*mask.shape, 8, generator=drawn, dtype=torch.float64) * mask[..., None]


@pytest.mark.slow
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"chunk": 4},
        {"chunk": 3, "beam": 2, "align": "random"},
        {"chunk": 5, "beam": 5, "align": "none"},
        {"chunk": 4, "beam": 3, "chunk_decision": "row"},
        {"chunk": 6, "s4d": True, "s4d_detach_backward": False},
    ],
)
def test_two_passes_equal_the_released_form(settings: dict[str, Any], trains: bool) -> None:
    for seed in range(2):
        encoder, x = encoder_of(seed, dropout=0.3, **settings), inputs().requires_grad_()
        assert_same_as_reference(encoder, x, MASK, seed if trains else None, atol=1e-12)


def shared(encoder: RirEbtGrc) -> dict[str, Tensor]:
    """The state of an encoder without S4D, by the names that the others have."""
    names = {name: name.replace("leaves.map", "leaf") for name in encoder.state_dict()}
    return {names[name]: tensor for name, tensor in encoder.state_dict().items()}


def test_chunks_of_two_are_a_balanced_tree() -> None:
    encoder = encoder_of(chunk=2, beam=3)
    balanced = BbtGrc(BbtGrcConfig(), 8).double()
    balanced.load_state_dict({n: t for n, t in shared(encoder).items() if "scorer" not in n})
    torch.testing.assert_close(encoder(inputs(), MASK), balanced(inputs(), MASK))
    assert encoder.trees(inputs(), MASK)[0] == (((0, 1), (2, 3)), 4)


def test_scores_that_nothing_trains_choose_no_tree() -> None:
    with pytest.raises(ValueError, match=r"add model\.encoder\.inference=rir"):
        RirEbtGrcConfig(chunk=2)


@pytest.mark.parametrize("settings", [{"chunk": 19}, {"chunk": 4, "inference": "full"}])
def test_one_chunk_is_an_easy_first_tree(settings: dict[str, Any]) -> None:
    encoder = encoder_of(beam=3, **settings)
    plain = EbtGrc(EbtGrcConfig(beam=3), 8).double()
    plain.load_state_dict(shared(encoder))
    assert torch.equal(encoder(inputs(), MASK), plain(inputs(), MASK))


@pytest.mark.parametrize("detach", [False, True])
def test_the_backward_half_of_s4d_learns_unless_it_is_detached(detach: bool) -> None:
    encoder = encoder_of(chunk=4, s4d=True, s4d_detach_backward=detach)
    encoder(inputs(), MASK, torch.Generator().manual_seed(0)).square().sum().backward()
    layer = encoder.leaves.s4d
    assert layer is not None
    slope = layer.spaces.frequency.grad
    assert slope is not None
    ahead, behind = slope.chunk(2, 0)
    assert ahead.any()
    assert bool(behind.any()) is not detach
    assert encoder.exact_gradient is not detach


def test_alignment_keeps_scores_with_their_beams() -> None:
    """Beam 0 of each chunk stays beam 0, and each score goes where its beam's node goes."""
    encoder, generator = encoder_of(chunk=5), torch.Generator().manual_seed(0)
    search = EasyFirst(
        encoder.cell, encoder.scorer, encoder.leaves(inputs(), MASK), encoder.config.beam, generator
    )
    level = encoder.levels(MASK, True)[0]
    found = search.climb(*level.indices(np.arange(len(level.lengths))))
    assert search.beam_scores.shape == (len(level.lengths), 7)
    uniform = torch.rand(search.beam_scores.shape, generator=generator, dtype=torch.float64)
    chosen = encoder._aligned(found.scores, found.valid, level, uniform)
    search.go_on(chosen)
    assert not chosen[:, 0].any()
    assert bool((chosen != torch.arange(7)).any())
    for chunk in range(len(level.lengths)):
        pairs = [
            set(zip(roots[chunk].tolist(), scores[chunk].tolist(), strict=True))
            for roots, scores in ((found.roots, found.scores), (search.beams, search.beam_scores))
        ]
        assert pairs[1] <= pairs[0]


def test_chunks_show_in_trees() -> None:
    encoder = encoder_of(chunk=4)
    tree = encoder.trees(inputs(), MASK)[2]
    chunks = [set(range(first, min(first + 4, 19))) for first in range(0, 19, 4)]

    def spans(node: Any) -> list[set[int]]:
        if isinstance(node, int):
            return [{node}]
        left, right = spans(node[0]), spans(node[1])
        return [left[0] | right[0], *left, *right]

    found = spans(tree)
    assert found[0] == set(range(19))
    assert all(chunk in found for chunk in chunks)


def test_evaluation_with_chunks_is_the_same_again_and_beside_others() -> None:
    encoder = encoder_of(chunk=4)
    found = encoder(inputs(), MASK)
    assert torch.equal(found, encoder(inputs(), MASK))
    torch.testing.assert_close(encoder(inputs()[2:], MASK[2:]), found[2:])
    with pytest.raises(ValueError, match="align must be one of beam, random, none"):
        RirEbtGrcConfig(align="best")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"beam": 1, "align": "none"}, r"align=none is for model\.encoder\.beam=2 or more"),
        ({"s4d": False, "s4d_dropout": 0.2}, r"s4d_dropout=0\.2 is for model\.encoder\.s4d=true"),
        ({"s4d": False, "s4d_detach_backward": False}, r"s4d_detach_backward=false is for"),
    ],
)
def test_what_nothing_reads_is_refused(settings: dict[str, Any], words: str) -> None:
    with from_a_user(), pytest.raises(ValueError, match=words):
        RirEbtGrcConfig(**settings)
    RirEbtGrcConfig(s4d=False, s4d_dropout=0)  # as presets and published tables have it
