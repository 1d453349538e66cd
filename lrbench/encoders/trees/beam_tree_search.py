"""The search of beam trees with full cells, without gradients: which pairs are merged, and when.

At each step every beam of every string that has pairs left gives K candidates, of which `beam` go
on. A merge leaves all pairs as they are but two, so what is known of a pair is kept: a beam is a
row of numbers of nodes and a row of numbers of pairs, vectors stand in one pool, and only the new
pairs at both sides of a merge go through the cell. With fresh dropout (`bt_grc.py`) all pairs do,
at each step. Strings leave as soon as they have one node. Candidates that a short string beside
longer ones cannot have are not valid; as released they would count with a score of 46 less.

Layout: R strings that still merge, B beams, M nodes of the longest, P = M - 1 pairs. Node numbers:
first all leaves, string by string, then pairs as they are made (a pair's vector is that of its
parent); with fresh dropout the nodes that were chosen.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.encoders.trees.beam_tree_cells import composed
from lrbench.encoders.trees.beam_tree_records import Beams, Found, Pool, Search, Step
from lrbench.encoders.trees.choice import BEAMS, CELLS, PAIRS, masked_log_softmax, stochastic_top_k


@torch.no_grad()
def search(how: Search, leaves: Tensor, lengths: list[int]) -> Found:
    """Return the trees of strings whose leaves (n, d) stand one after the other."""
    device = leaves.device
    sizes = torch.tensor(lengths, device=device)
    starts = sizes.cumsum(0) - sizes
    pool = Pool.of(leaves, _capacity(how, lengths), _bits(how))
    found = Found(
        pool,
        starts[:, None].repeat(1, how.beam),
        torch.arange(how.beam, device=device).expand(len(lengths), -1) < 1,
        leaves.new_zeros(len(lengths), how.beam),
    )
    if max(lengths) == 1:
        return found
    beams, left = _begin(how, pool, starts, sizes, max(lengths)), [n - 1 for n in lengths]
    beams, left = _only(beams, left)
    while left:
        t = len(found.steps)
        beams, step = (_step_anew if how.fresh else _choose)(how, pool, beams, t)
        found.steps.append(step)
        left, beams.latest = [count - 1 for count in left], step.place
        if 0 in left:
            _finish(found, beams, torch.tensor([count == 0 for count in left], device=device))
            beams, left = _only(beams, left)
        if left and not how.fresh:
            _compare_neighbours(how, pool, beams, t + 1)
    return found


def _only(beams: Beams, left: list[int]) -> tuple[Beams, list[int]]:
    """Return the beams of the strings that have merges left, and how many."""
    if 0 not in left:
        return beams, left
    going = [n for n, count in enumerate(left) if count]
    kept = torch.tensor(going, dtype=torch.int64, device=beams.rows.device)
    fields = vars(beams).values()
    return Beams(*(v.index_select(0, kept) for v in fields)), [left[n] for n in going]


def _capacity(how: Search, lengths: list[int]) -> int:
    """Return how many nodes a search adds at most."""
    merges = sum(lengths) - len(lengths)
    return how.beam * merges if how.fresh else (2 * how.beam + 1) * merges


def _bits(how: Search) -> int:
    """Return how many numbers of dropout are kept with a node."""
    drops = how.draws is not None and how.cell.dropout > 0 and not how.fresh
    return how.cell.first.out_features if drops else 0


def _begin(how: Search, pool: Pool, starts: Tensor, sizes: Tensor, longest: int) -> Beams:
    """Return one beam a string with its leaves, and all neighbours as pairs."""
    places = torch.arange(longest, device=starts.device)
    nodes = starts[:, None] + torch.minimum(places, sizes[:, None] - 1)
    real = places[1:] < sizes[:, None]
    pairs = torch.zeros_like(nodes[:, 1:])
    logits = pool.vectors.new_zeros(pairs.shape)
    if not how.fresh:
        children = torch.stack([nodes[:, :-1][real], nodes[:, 1:][real]], 1)
        pairs[real], logits[real] = _compose(how, pool, children, 0)
    scores = pool.vectors.new_zeros(len(sizes), 1)
    rows = torch.arange(len(sizes), device=starts.device)
    every = torch.ones_like(scores, dtype=torch.bool)
    known = nodes[:, None], pairs[:, None], logits[:, None]
    return Beams(rows, sizes - 1, *known, scores, every, torch.zeros_like(rows)[:, None])


def _compose(how: Search, pool: Pool, children: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """Add the parents of children (n, 2) to the pool; return their numbers and logits (n,)."""
    bits = None
    if pool.bits is not None and how.draws is not None:
        bits, _ = how.cell.draw(len(children), how.draws.source(t, CELLS), children.device)
    parents = composed(how.cell, pool.pairs(children), bits)
    return pool.add(parents, children, bits), how.scorer(parents).squeeze(1)


def _choose(how: Search, pool: Pool, beams: Beams, t: int) -> tuple[Beams, Step]:
    """Return the beams that go on, their new pairs not yet known, and what was chosen."""
    kept_beams, pairs = beams.logits.shape[1:]
    real = torch.arange(pairs, device=beams.rows.device) < beams.counts[:, None, None]
    real = real.expand_as(beams.logits)
    k = min(pairs, how.beam)
    noisy = how.draws if how.noise else None
    source = None if noisy is None else noisy.source(t, PAIRS)
    places = stochastic_top_k(beams.logits, real, k, source)
    gained = masked_log_softmax(beams.logits, real).gather(2, places)
    scores = (beams.scores[..., None] + gained).flatten(1)
    valid = (beams.valid[..., None] & (places < beams.counts[:, None, None])).flatten(1)
    if kept_beams * k > how.beam:
        source = None if noisy is None else noisy.source(t, BEAMS)
        kept = stochastic_top_k(scores, valid, how.beam, source)
    else:
        kept = torch.arange(kept_beams * k, device=scores.device).expand(len(scores), -1)
    origin, place = kept // k, places.flatten(1).gather(1, kept)
    moved = shifted(place, pairs)
    nodes, table = taken(beams.nodes, origin), taken(beams.pairs, origin)
    chosen = table.gather(2, place[..., None])
    here = torch.arange(pairs, device=place.device) == place[..., None]
    onward = Beams(
        beams.rows,
        beams.counts - 1,
        torch.where(here, chosen, nodes.gather(2, moved)),
        table.gather(2, moved[..., :-1]),
        taken(beams.logits, origin).gather(2, moved[..., :-1]),
        scores.gather(1, kept),
        valid.gather(1, kept),
        place,
    )
    past = beams.nodes if how.fresh else beams.pairs
    step = Step(beams.rows, beams.counts, past, beams.logits, origin, place, chosen.squeeze(2))
    return onward, step


def shifted(place: Tensor, count: int) -> Tensor:
    """Return where `count` numbers come from once one has been left out after `place` (..,)."""
    numbers = torch.arange(count, device=place.device)
    return numbers + (numbers > place[..., None])


def taken(table: Tensor, origin: Tensor) -> Tensor:
    """Return the rows origin (R, B') of a table (R, B, S)."""
    return table.gather(1, origin[..., None].expand(-1, -1, table.shape[2]))


def _compare_neighbours(how: Search, pool: Pool, beams: Beams, t: int) -> None:
    """Compose the newest node of each beam with both of its neighbours."""
    place = beams.latest
    last = beams.nodes.shape[2] - 1
    around = torch.stack([(place - 1).clamp(min=0), place, (place + 1).clamp(max=last)], 2)
    before, new, after = beams.nodes.gather(2, around).unbind(2)
    children = torch.stack([before, new, new, after], 2).view(-1, 2)
    numbers, logits = _compose(how, pool, children, t)
    places = torch.arange(last, device=place.device)
    for side, at in enumerate((place - 1, place)):
        here = places == at[..., None]
        beams.pairs = torch.where(here, numbers.view(*place.shape, 2)[..., side, None], beams.pairs)
        mine = logits.view(*place.shape, 2)[..., side, None]
        beams.logits = torch.where(here, mine, beams.logits)


def fresh_bits(how: Search, t: int, shape: torch.Size, real: Tensor) -> Tensor | None:
    """Return the bits of dropout of those of step t's pairs (R, B, P) that are asked for."""
    if how.draws is None:
        return None
    bits, _ = how.cell.draw(shape.numel(), how.draws.source(t, CELLS), how.draws.device)
    return None if bits is None else bits.index_select(0, real)


def _compare_anew(how: Search, pool: Pool, beams: Beams, t: int) -> Tensor:
    """Compose every pair of every beam; return their parents, numbered in `beams.pairs`."""
    shape = beams.nodes[..., 1:].shape
    real = torch.arange(shape[2], device=beams.rows.device) < beams.counts[:, None, None]
    real = (real & beams.valid[..., None]).flatten().nonzero().squeeze(1)
    left, right = beams.nodes[..., :-1].flatten(), beams.nodes[..., 1:].flatten()
    children = torch.stack([left[real], right[real]], 1)
    bits = fresh_bits(how, t, shape, real)
    parents = composed(how.cell, pool.pairs(children), bits)
    numbers = torch.zeros(shape.numel(), dtype=torch.int64, device=real.device)
    logits = parents.new_zeros(shape.numel())
    numbers[real] = torch.arange(len(real), device=real.device)
    logits[real] = how.scorer(parents).squeeze(1)
    beams.pairs, beams.logits = numbers.view(shape), logits.view(shape)
    return parents


def _step_anew(how: Search, pool: Pool, beams: Beams, t: int) -> tuple[Beams, Step]:
    """Do one step with all pairs composed anew."""
    vectors = _compare_anew(how, pool, beams, t)
    onward, step = _choose(how, pool, beams, t)
    return onward, _keep_chosen(pool, onward, step, vectors)


def _keep_chosen(pool: Pool, beams: Beams, step: Step, vectors: Tensor) -> Step:
    """Give the chosen ones of `vectors` numbers in the pool."""
    nodes = taken(step.table, step.origin)
    sides = torch.stack([step.place, step.place + 1], 2)
    children = nodes.gather(2, sides).view(-1, 2)
    numbers = pool.add(vectors.index_select(0, step.chosen.flatten()), children)
    chosen = numbers.view(step.chosen.shape)
    here = torch.arange(beams.nodes.shape[2], device=chosen.device) == step.place[..., None]
    beams.nodes = torch.where(here, chosen[..., None], beams.nodes)
    return Step(step.rows, step.counts, step.table, step.logits, step.origin, step.place, chosen)


def _finish(found: Found, beams: Beams, done: Tensor) -> None:
    """Write down the beams of strings that have one node left."""
    rows, count = beams.rows[done], beams.valid.shape[1]
    found.roots[rows, :count] = beams.nodes[done][:, :, 0]
    found.scores[rows, :count] = beams.scores[done]
    found.valid[rows, :count] = beams.valid[done]
