"""The table of kernels: for each the small case of its self-check.

A case is (draw, *layout) -> (function, leaves); `draw` knows dtype and device. A check calls the
very function that models call, once with the kernel and once the plain way, and asks for gradients
by the leaves that have one. So what is compared is what is used, the choice included. Sizes are
small and uneven, so that a loop meets the end of a row and of a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lrbench.encoders.base import draw_bits
from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.encoders.trees.choice import Beams, choose_fast, gumbel, move
from lrbench.encoders.trees.pair_scores import PairScorer, slopes
from lrbench.kernels.choice import Means
from lrbench.kernels.cross_entropy import mean_cross_entropy
from lrbench.kernels.gate import gated
from lrbench.kernels.normalisation import LayerNorm
from lrbench.kernels.normed_head import normed_head
from lrbench.kernels.perceptron import perceptron
from lrbench.kernels.products import add_product, product
from lrbench.kernels.rows import add_rows
from lrbench.mixers.nonlinear.m2rnn import recur
from lrbench.mixers.rwkv.rwkv4 import Rwkv4Config, Rwkv4Mixer
from lrbench.mixers.rwkv.rwkv4_channel import RwkvChannelMixer
from lrbench.mixers.xlstm.cell import empty_state, run
from lrbench.scan import (
    BlockDiagonal,
    ConstantBlocks,
    ConstantDiagonal,
    Diagonal,
    GeneratedBlocks,
    Indexed,
    scan,
)
from lrbench.scan.blocks.constraints import constrain_few
from lrbench.scan.blocks.indexed import table_scan
from lrbench.scan.diagonal.modulated import modulated_scan
from lrbench.scan.diagonal.selective import selective_scan
from lrbench.scan.matrix.duality import Writes, dual_scan
from lrbench.scan.matrix.householder import HouseholderProducts, delta_rule
from lrbench.scan.structured.one_hot import OneHotProducts
from lrbench.scan.time_invariant.convolution import convolve
from lrbench.scan.time_invariant.responses import superpose
from lrbench.scan.transitions import PerceptronBlocks

Prepared = tuple[Callable[..., Sequence[Tensor]], Sequence[Tensor]]
Case = Callable[..., Prepared]


class Draw:
    """Numbers of a dtype on a device, the same each time."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device
        self.generator = torch.Generator().manual_seed(0)

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype | None = None) -> Tensor:
        """Draw a leaf, normal with standard deviation `scale`."""
        dtype = dtype or self.dtype
        wide = torch.complex128 if dtype.is_complex else torch.float64
        drawn = torch.randn(shape, generator=self.generator, dtype=wide) * scale
        return drawn.to(self.device, dtype).requires_grad_()

    def plain(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Draw such numbers that nobody asks a gradient of."""
        return self.normal(*shape, scale=scale).detach()

    def numbers(self, below: int, *shape: int) -> Tensor:
        """Draw whole numbers from 0 to below - 1."""
        return torch.randint(below, shape, generator=self.generator).to(self.device)

    def module(self, made: nn.Module) -> nn.Module:
        """Give a module such numbers, of a size that keeps its results of order 1."""
        made = made.to(self.device, self.dtype)
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.copy_(self.plain(*parameter.shape, scale=0.3))
        return made


def by_parameters(module: nn.Module, *more: Tensor) -> list[Tensor]:
    """Return the parameters of a module as leaves, and more."""
    return [*module.parameters(), *more]


def cross_entropy(draw: Draw, classes: int) -> Prepared:
    """Logits (C, N) and targets, one of them to be ignored."""
    logits, targets = draw.normal(classes, 48), draw.numbers(classes, 48)
    targets[5] = -100
    return lambda logits: [mean_cross_entropy(logits, targets, 0.1)], [logits]


def channel_mix(draw: Draw) -> Prepared:
    """rwkv4's other half, for channels beside each other."""
    module = draw.module(RwkvChannelMixer(Rwkv4Config(), 32))
    u, state = draw.normal(3, 5, 32), draw.normal(3, 32)
    return lambda *leaves: module(leaves[-2], leaves[-1]), by_parameters(module, u, state)


def gated_averages(draw: Draw) -> Prepared:
    """rwkv4's time mixing."""
    module = draw.module(Rwkv4Mixer(Rwkv4Config(), 32))
    u = draw.normal(3, 5, 32)
    return lambda *leaves: [module(leaves[-1])[0]], by_parameters(module, u)


def delta(draw: Draw, wide: int, rates: int) -> Prepared:
    """The delta rule, two updates a position, without a decay, with one, or with one a channel.

    Its backward keeps the states of some positions at a time; there are more than these.
    """
    length, keys = 50, 64
    leaves = [draw.normal(2, length, 2, keys, scale=0.1) for _ in range(2)]
    leaves += [draw.normal(2, length, 2, wide), draw.normal(2, length, keys)]
    leaves += [draw.normal(2, wide, keys)]
    leaves += [draw.normal(2, length, (1, keys)[rates - 1], scale=0.3)] if rates else []

    def outputs(
        k: Tensor, e: Tensor, v: Tensor, q: Tensor, start: Tensor, *rate: Tensor
    ) -> Sequence[Tensor]:
        log_decay = -rate[0].square() if rate else None
        return delta_rule(HouseholderProducts(k, e, log_decay), v, q, start, "chunked")

    return outputs, leaves


def dual(draw: Draw, wide: int, later: int) -> Prepared:
    """Matrix states under one decay a head, of two heads that share keys.

    Its backward keeps the states of some positions at a time; there are more than these.
    """
    length, keys = 140, 64
    leaves = [draw.normal(2, length, 2), draw.normal(2, length, 1, keys, scale=0.3)]
    leaves += [draw.normal(2, length, 2, wide), draw.normal(2, length, 1, keys, scale=0.3)]
    leaves += [draw.normal(2, 2, wide, keys), draw.normal(2, length, 2)]
    leaves += [draw.normal(2, length, 2)] * later

    def outputs(
        a: Tensor, k: Tensor, v: Tensor, q: Tensor, start: Tensor, *written: Tensor
    ) -> Sequence[Tensor]:
        return dual_scan(a.tanh(), Writes(k, v, *written), q, start, "chunked")

    return outputs, leaves


def one_hot(draw: Draw, orientation: str) -> Prepared:
    """One-hot columns or rows, of three symbols at the positions of two strings."""
    leaves = [draw.normal(1, 3, 4), draw.normal(4, 6, 6), draw.normal(1, 3, 6, 2)]
    leaves += [draw.normal(1, 3, 1, 6, 2), draw.normal(2, 1, 6, 2)]
    index = draw.numbers(3, 2, 7)

    def outputs(w: Tensor, dictionary: Tensor, *numbers: Tensor) -> list[Tensor]:
        d, b, start = (torch.view_as_complex(x) for x in numbers)
        ones = OneHotProducts(w.softmax(-1), dictionary, d, orientation)
        return [torch.view_as_real(scan(Indexed(ones, index), b, start, "sequential"))]

    return outputs, leaves


def slstm(draw: Draw, wide: int) -> Prepared:
    """The cell of sLSTM over time, two heads."""
    drive, recurrent = draw.normal(3, 5, 2, 4, wide), draw.normal(2, wide, 4, wide, scale=0.3)

    def outputs(drive: Tensor, recurrent: Tensor) -> list[Tensor]:
        y, state = run(drive, recurrent, empty_state(drive, 3, 2, wide))
        return [y, *state[1:]]

    return outputs, [drive, recurrent]


def m2rnn(draw: Draw, wide: int) -> Prepared:
    """Matrix states that are not linear, of two heads."""
    values = 2 * wide if wide == 16 else wide
    leaves = [draw.normal(2, values, values, scale=0.3), draw.normal(2, 5, 2, 3)]
    leaves += [draw.normal(2, 5, 2, values), draw.normal(2, 5, 2, 1), draw.normal(2, 5, 2, 3)]
    leaves += [draw.normal(2, 2, 3, values)]

    def outputs(
        w: Tensor, k: Tensor, v: Tensor, f: Tensor, q: Tensor, before: Tensor
    ) -> Sequence[Tensor]:
        return recur(w, k, v, f.sigmoid(), q, before)

    return outputs, leaves


def layer_norm(draw: Draw, width: int) -> Prepared:
    """Layer normalisation over `width` features."""
    module, x = draw.module(LayerNorm(width)), draw.normal(3, 7, width)
    return lambda *leaves: [module(leaves[-1])], by_parameters(module, x)


def head_after_norm(draw: Draw) -> Prepared:
    """Layer normalisation and a linear layer to few classes."""
    norm, head = draw.module(LayerNorm(32)), draw.module(nn.Linear(32, 5))
    x = draw.normal(3, 7, 32)
    leaves = [*norm.parameters(), *head.parameters(), x]
    return lambda *leaves: [normed_head(norm, _linear(head), leaves[-1])], leaves


def two_layers(draw: Draw, hidden: int, out: int) -> Prepared:
    """A perceptron of one hidden layer."""
    layers = nn.Sequential(nn.Linear(12, hidden), nn.ReLU(), nn.Linear(hidden, out))
    module, x = draw.module(layers), draw.normal(3, 7, 12)
    return lambda *leaves: [perceptron(layers, leaves[-1])], by_parameters(module, x)


def gate(draw: Draw, by_symbol: int) -> Prepared:
    """A gated linear unit with what goes round it, given or looked up."""
    layer, x = draw.module(nn.Linear(16, 32)), draw.normal(3, 7, 16)
    beside = draw.normal(5, 16) if by_symbol else draw.normal(3, 7, 16)
    index = draw.numbers(5, 3, 7) if by_symbol else None

    def outputs(*leaves: Tensor) -> list[Tensor]:
        return [gated(_linear(layer), leaves[-2], leaves[-1], index)]

    return outputs, by_parameters(layer, x, beside)


def row_sums(draw: Draw, wide: int) -> Prepared:
    """Rows added to rows, some of them several times."""
    target, source = draw.plain(5, 2 * wide), draw.plain(9, 2 * wide)
    index = draw.numbers(5, 9)

    def added(target: Tensor, source: Tensor) -> list[Tensor]:
        total = target.clone()
        add_rows(total, index, source)
        return [total]

    return added, [target, source]


def modulated(draw: Draw, wide: int) -> Prepared:
    """Complex diagonal systems whose transitions depend on the input."""
    width, pairs = 2 * wide if wide == 16 else wide, draw.dtype.to_complex()
    systems = [draw.normal(width, 3, scale=0.5, dtype=pairs) for _ in range(3)]
    inputs = [draw.normal(width), draw.normal(2, 5, width), draw.normal(2, 5, width, scale=0.5)]

    def outputs(*leaves: Tensor) -> list[Tensor]:
        y, last = modulated_scan(*leaves)
        return [y, torch.view_as_real(last)]

    return outputs, [*systems, *inputs, draw.normal(2, width, 3, dtype=pairs)]


def selective(draw: Draw, wide: int) -> Prepared:
    """The selective scan, with decays in (-1, 1)."""
    width, modes = 2 * wide if wide == 16 else wide, 3
    rates = draw.plain(modes, width).abs().neg().requires_grad_()
    steps = draw.plain(2, 5, width).abs().requires_grad_()
    middle = draw.normal(width), steps, draw.normal(2, 5, width)
    rest = draw.normal(2, 5, modes), draw.normal(2, 5, modes), draw.normal(2, modes, width)
    return partial(selective_scan, reach=2.0), [rates, *middle, *rest]


def generated(draw: Draw, size: int, constraint: str) -> Prepared:
    """Blocks made from features, position by position."""
    weight, z = draw.normal(2, size, size, 3), draw.normal(16, 5, 3)
    rest = draw.normal(16, 5, 2, size), draw.normal(16, 2, size)

    def states(weight: Tensor, z: Tensor, inputs: Tensor, initial: Tensor) -> list[Tensor]:
        return [scan(GeneratedBlocks(weight, z, constraint, 1.2), inputs, initial, "sequential")]

    return states, [weight, z, *rest]


def of_perceptrons(draw: Draw, size: int, constraint: str) -> Prepared:
    """Blocks whose features are a hidden layer's."""
    weight = draw.normal(2, size, size, 9)
    hidden = draw.normal(8, 6, scale=0.5), draw.normal(8), draw.normal(16, 5, 6)
    rest = draw.normal(16, 5, 2, size), draw.normal(16, 2, size)

    def states(w: Tensor, w1: Tensor, c1: Tensor, u: Tensor, *rest: Tensor) -> list[Tensor]:
        blocks = PerceptronBlocks(w, w1, c1, u, constraint, 1.2)
        return [scan(blocks, rest[0], rest[1], "sequential")]

    return states, [weight, *hidden, *rest]


def constrained(draw: Draw, size: int, constraint: str) -> Prepared:
    """A table of blocks under a constraint."""
    blocks = draw.normal(5, size, size)
    return lambda blocks: [constrain_few(blocks, constraint, 1.2)], [blocks]


def by_table(draw: Draw, size: int) -> Prepared:
    """A scan by blocks of a table; they do not grow."""
    table = draw.plain(5, 2, size, size, scale=size**-0.5).requires_grad_()
    index = draw.numbers(5, 3, 7)
    leaves = [table, draw.normal(5, 2, size), draw.normal(3, 2, size)]
    return lambda table, inputs, initial: [table_scan(table, inputs, index, initial)], leaves


def responses(draw: Draw, wide: int) -> Prepared:
    """Responses to symbols, superposed."""
    kernel, index = draw.normal(5, 7, wide), draw.numbers(5, 3, 7)
    return lambda kernel: [superpose(kernel, index)], [kernel]


def convolution(draw: Draw) -> Prepared:
    """A causal convolution of channels."""
    return lambda u, kernel: [convolve(u, kernel)], [draw.normal(3, 21, 32), draw.normal(32, 21)]


def choose_merges(draw: Draw, noisy: int, tracks: int) -> Prepared:
    """Choosing the merges of a step of an easy-first search; nothing of it has a gradient."""
    beams, beam = _beams(draw, bool(tracks)), 4
    noise = None, None
    if noisy:
        each = min(beams.pairs.shape[2], beam)
        shapes = tuple(beams.pairs.shape), (3, beams.pairs.shape[1] * each)
        noise = tuple(gumbel(shape, draw.generator, beams.scores) for shape in shapes)  # type: ignore[assignment]

    def chosen(scores: Tensor) -> list[Tensor]:
        found = choose_fast(scores, beams, beam, noise)
        shares = [] if beams.shares is None else [beams.shares]
        return [found.parents, found.positions, found.scores, found.valid, *shares]

    return chosen, [draw.plain(12)]


def move_merges(draw: Draw, tracks: int) -> Prepared:
    """Tables of pairs after a step of that search, whose merges torch chose."""
    beams = _beams(draw, bool(tracks))
    chosen = choose_fast(draw.plain(12), beams, 4, (None, None))
    made = draw.numbers(100, *chosen.positions.shape, 2)

    def moved() -> list[Tensor]:
        return [tensor for tensor in move(beams, chosen, made) if tensor is not None]

    return moved, []


def pair_scores(draw: Draw, wide: int) -> Prepared:
    """Scores of pairs of nodes, and their slopes, which the encoder writes out itself."""
    scorer = PairScorer(2 * wide if wide == 16 else wide)
    draw.module(scorer)
    nodes, gradient = draw.plain(6, 2 * scorer.features), draw.plain(5)
    left, right = draw.numbers(6, 5), draw.numbers(6, 5)

    def scores(nodes: Tensor, gradient: Tensor) -> list[Tensor]:
        weights = tuple(weight.detach() for weight in scorer.weights())
        found = scorer.of_pairs(scorer.sides(nodes).detach(), left, right)
        return [found, *slopes(weights, nodes, left, right, gradient)]

    return scores, [nodes, gradient]


def grc_cell(draw: Draw, wide: int, drops: int) -> Prepared:
    """The gated recursive cell, with dropout or without."""
    width = 2 * wide if wide == 16 else wide
    cell = GatedRecursiveCell(width, 0.25)
    draw.module(cell)
    pairs = draw.normal(5, 2 * width)
    bits = draw_bits((5, 4 * width), draw.generator, "cpu").to(draw.device) if drops else None
    return lambda *leaves: [cell.parents(leaves[-1], bits)], by_parameters(cell, pairs)


def fused_diagonal(draw: Draw, access: str, width: int) -> Prepared:
    """A diagonal scan as one GPU kernel; numbers on the unit circle, so that states do not grow."""
    values = draw.plain(*_rows(access), width)
    return _fused(draw, access, (width,), values / values.abs())


def fused_blocks(draw: Draw, access: str, heads: int, size: int) -> Prepared:
    """A scan by blocks as one GPU kernel."""
    shape = heads, size, size
    blocks = draw.plain(*_rows(access), *shape, scale=0.7 * size**-0.5)
    return _fused(draw, access, shape[:2], blocks)


def _rows(access: str) -> tuple[int, ...]:
    return {"step": (3, 9), "table": (1, 5), "constant": ()}[access]


def _fused(draw: Draw, access: str, state: tuple[int, ...], numbers: Tensor) -> Prepared:
    index = draw.numbers(5, 3, 9)
    forms = (Diagonal, ConstantDiagonal) if len(state) == 1 else (BlockDiagonal, ConstantBlocks)
    form = forms[access == "constant"]
    inputs = draw.normal(*((1, 5) if access == "table" else (3, 9)), *state)

    def states(numbers: Tensor, inputs: Tensor, initial: Tensor) -> list[Tensor]:
        made: Any = form(numbers)
        transition = Indexed(made, index) if access == "table" else made
        return [scan(transition, inputs, initial, "fused")]

    return states, [numbers.requires_grad_(), inputs, draw.normal(3, *state)]


def onednn_product(draw: Draw, left: str, right: str) -> Prepared:
    """A product large enough for oneDNN, and one added to a sum."""
    a, b, total = _lying(draw, left, 130, 129), _lying(draw, right, 129, 67), draw.plain(130, 67)

    def products(a: Tensor, b: Tensor, total: Tensor) -> list[Tensor]:
        return [product(a, b), product(a, b, bias=total[0]), add_product(total.clone(), a, b)]

    return products, [a, b, total]


def _lying(draw: Draw, how: str, rows: int, columns: int) -> Tensor:
    if how == "row":
        return draw.plain(rows, columns)
    if how == "column":
        return draw.plain(columns, rows).T
    return draw.plain(2 * rows, 2 * columns)[::2, ::2]


def _beams(draw: Draw, tracks: bool) -> Beams:
    """Three strings of which two beams are left, the second of one of them not valid."""
    pairs, left = draw.numbers(12, 3, 2, 6), torch.tensor([6, 4, 1], device=draw.device)
    shares = draw.plain(3, 2, 6).abs() if tracks else None
    valid = torch.tensor([[True, True], [True, False], [True, True]], device=draw.device)
    rows = torch.arange(3, device=draw.device)
    return Beams(rows, left, pairs, draw.plain(3, 2), valid, shares)


def _linear(module: nn.Module) -> nn.Linear:
    assert isinstance(module, nn.Linear)
    return module


CASES: dict[str, Case] = {
    "channel_mix": channel_mix,
    "choose_merges": choose_merges,
    "constrained_blocks": constrained,
    "convolution": convolution,
    "cross_entropy": cross_entropy,
    "delta_rule": delta,
    "dual_scan": dual,
    "fused_blocks": fused_blocks,
    "fused_diagonal": fused_diagonal,
    "gate": gate,
    "gated_averages": gated_averages,
    "generated_blocks": generated,
    "grc_cell": grc_cell,
    "layer_norm": layer_norm,
    "m2rnn": m2rnn,
    "modulated_scan": modulated,
    "move_merges": move_merges,
    "normed_head": head_after_norm,
    "one_hot": one_hot,
    "onednn_product": onednn_product,
    "pair_scores": pair_scores,
    "perceptron": two_layers,
    "perceptron_blocks": of_perceptrons,
    "responses": responses,
    "row_sums": row_sums,
    "selective_scan": selective,
    "slstm": slstm,
    "table_scan": by_table,
}

# By what kernels are made, other than numba
MEANS = {
    "fused_blocks": Means.TRITON,
    "fused_diagonal": Means.TRITON,
    "onednn_product": Means.ONEDNN,
}

# A layout of each, for `lrbench bench selfcheck` and for tests: what runs ask for is theirs.
LAYOUTS: dict[str, tuple[int | str, ...]] = {
    "choose_merges": (1, 1),
    "constrained_blocks": (8, "column_clip"),
    "cross_entropy": (5,),
    "delta_rule": (16, 1),
    "dual_scan": (16, 1),
    "fused_blocks": ("step", 8, 8),
    "fused_diagonal": ("step", 64),
    "gate": (0,),
    "generated_blocks": (8, "column_clip"),
    "grc_cell": (16, 1),
    "layer_norm": (64,),
    "m2rnn": (16,),
    "modulated_scan": (16,),
    "move_merges": (1,),
    "one_hot": ("column",),
    "onednn_product": ("row", "column"),
    "pair_scores": (16,),
    "perceptron": (64, 5),
    "perceptron_blocks": (8, "column_clip"),
    "responses": (64,),
    "row_sums": (16,),
    "selective_scan": (16,),
    "slstm": (16,),
    "table_scan": (8,),
}
