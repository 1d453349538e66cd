"""BT-GRC: a search without a graph against the released form, all merge orders, greedy merging."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.encoders.trees.bt_grc import BtGrc, BtGrcConfig
from lrbench.encoders.trees.composed import trace
from lrbench.models.classifier import Classifier, ClassifierConfig

LENGTHS = torch.tensor([5, 1, 13, 8, 2, 13, 9, 3, 4])


def encoder_of(width: int = 8, **settings: Any) -> BtGrc:
    torch.manual_seed(0)
    encoder = BtGrc(BtGrcConfig(**settings), width).double()
    with torch.no_grad():
        encoder.scorer.weight.mul_(3)  # so that beams differ in what they weigh
    return encoder


def strings(lengths: Tensor = LENGTHS, more: int = 0, width: int = 8) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    mask = torch.arange(int(lengths.max()) + more) < lengths[:, None]
    x = torch.randn(*mask.shape, width, dtype=torch.float64) * mask[..., None]
    return x.requires_grad_(), mask


def assert_same_slopes(encoder: Any, seed: int | None, more: int = 0) -> None:
    x, mask = strings(more=more)
    weight, found = torch.randn(len(x), 8, dtype=torch.float64), []
    for way in (encoder.forward, encoder.reference):
        y = way(x, mask, None if seed is None else torch.Generator().manual_seed(seed))
        found.append([y, *torch.autograd.grad((y * weight).sum(), [x, *encoder.parameters()])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("more", [0, 2])
def test_the_search_is_the_released_one(more: int) -> None:
    assert_same_slopes(encoder_of(), None, more)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"noise": False},
        {"beam": 2, "dropout": 0.4},
        {"dropout": 0.0},
        {"dropout": 0.0, "reuse_dropout": True, "beam": 3},
    ],
)
def test_training_is_the_released_one(settings: dict[str, Any]) -> None:
    """Value and gradient, with the same draws of dropout and noise."""
    for seed in range(3):
        assert_same_slopes(encoder_of(**settings), seed)


@pytest.mark.parametrize("reuse", [False, True])
def test_without_a_graph_results_are_the_same(reuse: bool) -> None:
    encoder = encoder_of(dropout=0.3, reuse_dropout=reuse)
    x, mask = strings()
    expected = encoder(x, mask, torch.Generator().manual_seed(2))
    with torch.no_grad():
        found = encoder(x, mask, torch.Generator().manual_seed(2))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_kept_mask_has_the_derivative_of_what_it_did() -> None:
    encoder = encoder_of(width=4, dropout=0.5, reuse_dropout=True)
    x, mask = strings(torch.tensor([5, 3]), width=4)

    def run(x: Tensor) -> Tensor:
        return encoder(x, mask, torch.Generator().manual_seed(1))

    assert torch.autograd.gradcheck(run, (x,))


def orders(encoder: BtGrc, nodes: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Every order in which nodes (S, d) can be merged: its score and the vector at its end."""
    if len(nodes) == 1:
        return [(nodes.new_zeros(()), nodes[0])]
    parents = encoder.cell.reference(torch.cat([nodes[:-1], nodes[1:]], 1))
    gained, found = encoder.scorer(parents).squeeze(1).log_softmax(0), []
    for place, parent in enumerate(parents):
        rest = torch.cat([nodes[:place], parent[None], nodes[place + 2 :]])
        found += [(gained[place] + score, end) for score, end in orders(encoder, rest)]
    return found


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_a_wide_beam_has_every_order_of_merges(length: int) -> None:
    encoder = encoder_of(beam=24)  # 4! orders of five leaves
    x, mask = strings(torch.tensor([length]))
    found = orders(encoder, encoder.leaf(x[0]))
    shares = torch.stack([score for score, _ in found]).exp()
    assert float(shares.detach().sum()) == pytest.approx(1.0)
    expected = (shares[:, None] * torch.stack([end for _, end in found])).sum(0)
    torch.testing.assert_close(encoder(x, mask)[0], expected, rtol=1e-10, atol=1e-12)


def test_one_beam_merges_the_best_pair_first() -> None:
    encoder = encoder_of(beam=1)
    x, mask = strings()
    for row, length in enumerate(LENGTHS.tolist()):
        nodes: list[Any] = list(range(length))
        h = encoder.leaf(x[row, :length])
        while len(h) > 1:
            parents = encoder.cell.reference(torch.cat([h[:-1], h[1:]], 1))
            best = int(encoder.scorer(parents).argmax())
            h = torch.cat([h[:best], parents[best, None], h[best + 2 :]])
            nodes[best : best + 2] = [(nodes[best], nodes[best + 1])]
        torch.testing.assert_close(encoder(x, mask)[row], h[0], rtol=1e-10, atol=1e-12)
        assert encoder.trees(x, mask)[row] == nodes[0]


def leaves_of(tree: Any) -> list[int]:
    return [tree] if isinstance(tree, int) else leaves_of(tree[0]) + leaves_of(tree[1])


def value_of(encoder: BtGrc, tree: Any, leaves: Tensor) -> Tensor:
    if isinstance(tree, int):
        return leaves[tree]
    sides = [value_of(encoder, side, leaves) for side in tree]
    return encoder.cell.reference(torch.cat(sides)[None])[0]


def test_the_tree_that_is_reported_is_that_of_the_best_beam() -> None:
    encoder = encoder_of()
    x, mask = strings()
    with torch.no_grad():
        leaves, lengths = encoder._leaves(x, mask)
        search = encoder._search(leaves, lengths, None)
        found = search.strings()
        best = found.scores.masked_fill(~found.valid, -torch.inf).argmax(1)
        for row, (tree, length) in enumerate(zip(encoder.trees(x, mask), lengths, strict=True)):
            assert leaves_of(tree) == list(range(length))
            root = search.nodes.vectors[found.roots[row, best[row]]]
            expected = value_of(encoder, tree, encoder.leaf(x[row]))
            torch.testing.assert_close(root, expected, rtol=1e-10, atol=1e-12)


def test_only_new_pairs_are_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, calls = encoder_of(), []
    parents = encoder.cell.parents
    monkeypatch.setattr(
        encoder.cell,
        "parents",
        lambda pairs, bits: calls.append(len(pairs)) or parents(pairs, bits),
    )
    x, mask = strings(torch.tensor([13]))
    with torch.no_grad():
        encoder(x, mask)
    assert calls == [12] + [2 * 5] * 11


def test_scores_are_traced_as_they_were_found() -> None:
    encoder = encoder_of(dropout=0.3)
    x, mask = strings()
    with torch.no_grad():
        leaves, lengths = encoder._leaves(x, mask)
        draws = encoder._draws(torch.Generator().manual_seed(4))
        found = encoder._search(leaves, lengths, draws).strings()
        traced = trace(found)
        logits = torch.cat(
            [
                layer.of_owners(layer.step.logits)[:, : layer.real.shape[1]][layer.real]
                for layer in traced.layers
            ]
        )
        scores = traced.scores(logits, found.valid.shape)
    torch.testing.assert_close(scores[found.valid], found.scores[found.valid])
    assert sum(len(layer.owners) for layer in traced.layers) < sum(
        step.table.shape[:2].numel() for step in found.steps
    ), "some beams came to nothing"


def test_the_scorer_learns_by_scores_alone() -> None:
    encoder = encoder_of()
    x, mask = strings()
    y = encoder(x, mask, torch.Generator().manual_seed(0))
    slope = torch.autograd.grad(y.square().sum(), encoder.scorer.weight)[0]
    assert float(slope.abs().max()) > 1e-3


def test_parameters_are_those_of_the_paper() -> None:
    encoder = BtGrc(BtGrcConfig(), 128)
    model = Classifier(ClassifierConfig(), encoder, 15, 10)
    assert sum(p.numel() for p in model.parameters()) == 431_499


def test_a_beam_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.encoder\.beam must be at least 1"):
        BtGrcConfig(beam=0)
