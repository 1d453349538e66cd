"""How attention is told positions: sinusoids, rotations, distances, and positions drawn at random.

    sinusoidal   a vector per position, added to the input              (Vaswani et al. 2017)
    rope         queries and keys turned by angles position * base^(-2 i / K)  (Su et al. 2021)
    alibi        -2^(-8 i / H) * distance added to the scores of head i = 1..H  (Press et al. 2022)

Randomised positions (Ruoss et al. 2023, "Randomized Positional Encodings Boost Length
Generalization of Transformers") replace 0, 1, 2, .. by sorted distinct numbers below a range: a
batch of short strings in training then has seen the positions of long ones.

Differences from Ruoss et al.: they draw T of `position_range` for every batch, at test time too,
where T is the length of its strings. So do we in training. But a mixer reads test strings piece by
piece and does not know how long they will be, and a cached key must keep its position. So one draw
of `longest` positions, made with the weights, serves all other strings: one of n symbols is read at
the first n. Test lengths near `longest` are read as theirs are; far shorter ones more densely.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lrbench.errors import UserError

BASE = 10_000.0
# Multipliers of the 64-bit finaliser of SplitMix (Steele, Lea & Flood 2014), as signed numbers.
INCREMENT, FIRST, SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return sin and cos of position * base^(-2 i / D) in turn, (T, D) for positions (T), float64.

    Source: Vaswani et al. 2017, section 3.5.
    """
    angles = _angles(positions, width)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return pairs.flatten(1)[:, :width]


def rotated(x: Tensor, positions: Tensor) -> Tensor:
    """Turn features i and i + K // 2 of x (..., T, K) by the angle of each position (T).

    The scalar product of two such vectors depends on their distance alone (Su et al. 2021, Eq. 34).
    Of an odd number of features the last one is left as it is.
    """
    half = x.shape[-1] // 2
    angles = _angles(positions, 2 * half)
    rest = angles.new_zeros(len(angles), x.shape[-1] - 2 * half)
    cos = torch.cat([angles.cos(), angles.cos(), rest + 1], dim=-1).to(x.dtype)
    sin = torch.cat([-angles.sin(), angles.sin(), rest], dim=-1).to(x.dtype)
    a, b, last = x.split([half, half, x.shape[-1] - 2 * half], dim=-1)
    return torch.addcmul(x * cos, torch.cat([b, a, last], dim=-1), sin)


def distance_penalties(queries: Tensor, keys: Tensor, heads: int) -> Tensor:
    """Return -slope * (query position - key position), (H, T, N), float64.

    Source: Press et al. 2022; slopes 2^(-8 / H), 2^(-16 / H), .., 2^-8 for any number H of heads.
    """
    ranks = torch.arange(1, heads + 1, dtype=torch.float64, device=queries.device)
    slopes = torch.exp2(-8 * ranks / heads)
    return -slopes[:, None, None] * (queries[:, None] - keys)


def _angles(positions: Tensor, width: int) -> Tensor:
    """Return position * base^(-2 i / width), (T, ceil(width / 2)), in float64: angles get large."""
    even = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device)
    return positions[:, None].double() * BASE ** (-even / max(1, width))


class RandomPositions(nn.Module):
    """Sorted distinct positions below `span`: anew for each training batch, else one draw.

    What is drawn is a function of the seed the weights were drawn from and of how many batches
    there were, both kept in the state_dict: layers agree, and a resumed run goes on as it would
    have. No number passes through the host, so it works under vmap and costs a GPU no wait.
    """

    def __init__(self, span: int, longest: int) -> None:
        super().__init__()
        self.span, self.longest = span, longest
        seed = torch.tensor(
            torch.initial_seed() % 2**62
        )  # that of the whole model: see build_model
        self.register_buffer("seed", seed)
        self.register_buffer("drawn", torch.zeros((), dtype=torch.int64))
        self.register_buffer("fixed", sorted_draw(seed, torch.tensor(-1), span, longest))
        self.seed: Tensor
        self.drawn: Tensor
        self.fixed: Tensor

    def forward(self, first: int, length: int, drawing: bool) -> Tensor:
        """Return the positions (n) of symbols 0 .. first + length - 1; `drawing`: in training.

        Raises UserError for more symbols than there are positions, and where training reads on:
        later positions cannot be drawn without the earlier ones.
        """
        end, most = first + length, self.span if drawing else self.longest
        if end > most:
            raise UserError(_too_long(end, most, drawing, self.span))
        if not drawing:
            return self.fixed[:end]
        if first:
            raise UserError(
                "randomised positions: a training string has to be read whole, not in pieces\n"
                "choose a model.mixer.positions that is not randomised"
            )
        self.drawn.add_(1)
        return sorted_draw(self.seed, self.drawn, self.span, length)


def sorted_draw(seed: Tensor, count: Tensor, span: int, length: int) -> Tensor:
    """Return `length` of 0..span-1 in order, all choices as likely: the count-th draw of a seed."""
    marks = torch.arange(span, device=seed.device)
    stream = scrambled(scrambled(seed) + count)
    order = scrambled(stream + marks * INCREMENT).argsort()
    return order[:length].sort().values


def scrambled(x: Tensor) -> Tensor:
    """Return int64 numbers that look unrelated for related x: SplitMix64's finaliser."""
    x = (x ^ _shifted(x, 30)) * FIRST
    x = (x ^ _shifted(x, 27)) * SECOND
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift right and fill with zeros, where >> fills with the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _too_long(end: int, most: int, drawing: bool, span: int) -> str:
    key = "position_range" if drawing else "longest"
    advice = f"raise model.mixer.{key} to at least {end}"
    if not drawing and end > span:
        advice += f", and model.mixer.position_range (now {span}) beyond it"
    return f"randomised positions: a string of {end} symbols, but only {most} positions\n{advice}"
