"""Causal self-attention, the first sublayer of a decoder block; stack `gpt` adds the other.

Vaswani et al. 2017, "Attention Is All You Need", arXiv:1706.03762, section 3.2, with a causal mask:

    q_k, k_k, v_k = W u_k + c                     H heads of K = D / H features each
    y_k = W_o concat_h( sum_{j <= k} softmax_j(q_k . k_j / sqrt(K) + bias_kj) v_j ) + c_o

Positions (`positions`): `nope` none, `sinusoidal`, `learnt`, `relative`, `rope`, `alibi`, and each
but the first with `randomised_` before it: those of Ruoss et al. 2023.

Sinusoids and learnt vectors are added to what the first layer reads, and to what it returns: so
they get into the residual stream, and later layers see them as if they were of the embedding.

The state is every key and value so far, so it grows with the string and `state_size` is None: this
is the one model here that does not run in constant memory. Weights start as torch's
MultiheadAttention does. Ruoss et al. 2023 and Deletang et al. 2023 use an encoder without a causal
mask: their numbers are not this model's.

What the positions are:

    sinusoidal   a vector per position, added to the input              (Vaswani et al. 2017)
    learnt       the same, of a table of `position_range` rows          (Gehring et al. 2017)
    relative     scores (q_k + c) . k_j + (q_k + r) . W s(k - j), with sinusoids s of distances and
                 learnt c, r, W                                         (Dai et al. 2019, Eq. 4)
    rope         queries and keys turned by angles position * base^(-2 i / K)  (Su et al. 2021)
    alibi        -2^(-8 i / H) * distance added to the scores of head i = 1..H  (Press et al. 2022)

Randomised positions (Ruoss et al. 2023, "Randomized Positional Encodings Boost Length
Generalization of Transformers") replace 0, 1, 2, .. by sorted distinct numbers below a range: a
batch of short strings in training then has seen the positions of long ones.

Differences from Ruoss et al., of positions: they draw T of `position_range` for every batch, at
test time too, where T is the length of its strings. So do we in training. But a mixer reads test
strings piece by piece and does not know how long they will be, and a cached key must keep its
position. So one draw of `longest` positions, made with the weights, serves all other strings: one
of n symbols is read at the first n. Test lengths near `longest` are read as theirs are; far shorter
ones more densely. Randomised `relative` has the distances between the positions drawn; they draw
the distances themselves, the same for all queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, scaled_dot_product_attention

from lrbench.checks import at_least, one_of, only_with
from lrbench.errors import UserError
from lrbench.kernels.rows import rows
from lrbench.mixers.base import Mixer
from lrbench.registry import register_mixer

State = tuple[Tensor, Tensor]
RANDOMISED = "randomised_"
PLAIN = ("nope", "sinusoidal", "rope", "alibi", "learnt", "relative")
# Positions above which strings are read by torch's fused attention. It keeps no scores, and takes a
# seventh to a quarter of the time at 500. With gradients it saves less, and groups of runs cannot
# use it; of `relative` queries and values differ in size, and torch has no fused form.
LONG = 64
KINDS = (*PLAIN, *(RANDOMISED + kind for kind in PLAIN[1:]))


@dataclass
class TransformerConfig:
    """Settings of `transformer`; the last two are of randomised and learnt positions alone.

    position_range: positions are numbers below it. longest: of the strings read when not training,
    of randomised positions.

    heads: of the attention. positions: how positions are told apart; nope: not at all.
    """

    heads: int = 4
    positions: str = "rope"
    position_range: int = 2048
    longest: int = 512

    def __post_init__(self) -> None:
        at_least("model.mixer.heads", self.heads, 1)
        one_of("model.mixer.positions", self.positions, KINDS)
        at_least("model.mixer.longest", self.longest, 1)
        at_least("model.mixer.position_range", self.position_range, 1)
        drawn, own = self.positions.startswith(RANDOMISED), type(self)
        key, most, other = "model.mixer.position_range", self.position_range, "randomised positions"
        table = drawn or self.positions == "learnt"
        only_with(key, most, own.position_range, table, f"learnt and {other}")
        only_with("model.mixer.longest", self.longest, own.longest, drawn, other)
        if drawn and self.longest > self.position_range:
            raise ValueError(
                f"model.mixer.longest={self.longest} positions cannot be drawn from"
                f" model.mixer.position_range={self.position_range}"
            )


@register_mixer(
    "transformer", TransformerConfig, "causal self-attention (Vaswani et al. 2017)", backbone="gpt"
)
class TransformerMixer(Mixer):
    """Multi-head causal self-attention with a cache of keys and values (Vaswani et al. 2017)."""

    modes: ClassVar[tuple[str, ...]] = ("parallel", "sequential")
    default_mode: ClassVar[str] = "parallel"
    takes_symbols: ClassVar[bool] = True

    def __init__(self, config: TransformerConfig, width: int) -> None:
        super().__init__(config, width)
        if width % config.heads:
            raise ValueError(
                f"model.mixer.heads={config.heads} does not divide a mixer's width of {width}"
            )
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)
        nn.init.zeros_(self.out.bias)
        self.kind = config.positions.removeprefix(RANDOMISED)
        self.random = (
            RandomPositions(config.position_range, config.longest)
            if config.positions.startswith(RANDOMISED)
            else None
        )
        if self.kind == "learnt":
            self.table = nn.Parameter(SMALL * torch.randn(config.position_range, width))
        if self.kind == "relative":
            self.distance = nn.Linear(width, width, bias=False)
            nn.init.xavier_uniform_(self.distance.weight)
            shape = config.heads, 1, width // config.heads
            self.content_bias, self.distance_bias = (
                nn.Parameter(SMALL * torch.randn(shape)) for _ in range(2)
            )
        self.place(0, 1)

    def place(self, layer: int, layers: int) -> None:
        """Note whether this is the first layer: vectors of positions are added there alone."""
        self.adds = self.kind in ("sinusoidal", "learnt") and layer == 0
        self.rounds = not self.adds and self.kind != "relative"
        if self.kind == "learnt" and layer:
            self.register_parameter("table", None)

    @property
    def longest_read(self) -> tuple[int, str] | None:
        """Learnt positions end with their table, randomised ones with those that were drawn."""
        if self.random is not None:
            return self.config.longest, "model.mixer.longest"
        if self.kind == "learnt":
            return self.config.position_range, "model.mixer.position_range"
        return None

    @property
    def state_size(self) -> None:
        """Nothing to tell: 2 D numbers per position read so far."""
        return None

    def initial_state(self, batch: int) -> State:
        heads = self.config.heads
        empty = self.out.weight.new_empty(batch, heads, 0, self.width // heads)
        return empty, empty.clone()

    def forward(
        self,
        u: Tensor,
        state: State | None = None,
        mode: str | None = None,
        index: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """Map u (B, T, D), or a table u (S, D) looked up by `index` (B, T), to (y, state)."""
        projected = self.project(u) if index is None else rows(self.project(u), index)
        batch, length = projected.shape[:2]
        cache = self.initial_state(batch) if state is None else state
        before = cache[0].shape[2]
        positions = self._positions(before, length, u.device)
        added = self._vectors(positions[before:]).to(projected.dtype) if self.adds else None
        if added is not None:
            projected = projected + linear(added, self.project.weight)
        parts = projected.unflatten(2, (3, self.config.heads, -1)).permute(2, 0, 3, 1, 4)
        if (mode or self.default_mode) == "sequential":
            mixed, cache = self._one_by_one(parts, cache, positions)
        else:
            mixed, cache = self._attend(parts, cache, positions)
        y = self.out(mixed.transpose(1, 2).flatten(2))
        return y if added is None else y + added, cache

    def _vectors(self, positions: Tensor) -> Tensor:
        """Return what is added at positions (T), (T, D)."""
        if self.kind == "sinusoidal":
            return sinusoids(positions, self.width)
        table: Tensor = self.table
        return table[positions]

    def _positions(self, before: int, length: int, device: torch.device) -> Tensor:
        """Return the positions (N) of `length` symbols and the `before` ones cached."""
        if self.random is None:
            end, most = before + length, self.config.position_range
            if self.kind == "learnt" and end > most:
                raise UserError(
                    f"learnt positions: a string of {end} symbols, but only {most} positions\n"
                    f"raise model.mixer.position_range to at least {end}"
                )
            return torch.arange(end, device=device)
        drawn: Tensor = self.random(before, length, self.training and torch.is_grad_enabled())
        return drawn

    def _one_by_one(self, parts: Tensor, cache: State, positions: Tensor) -> tuple[Tensor, State]:
        """Attend from one position after another, each seeing a cache that ends with it."""
        outputs, before = [], cache[0].shape[2]
        for k, part in enumerate(parts.split(1, dim=3)):
            y, cache = self._attend(part, cache, positions[: before + k + 1])
            outputs.append(y)
        return torch.cat(outputs, dim=2), cache

    def _attend(self, parts: Tensor, cache: State, positions: Tensor) -> tuple[Tensor, State]:
        """Return what queries gather, (B, H, T, K), and the longer cache.

        Args:
            parts: queries, keys and values of T positions, (3, B, H, T, K).
            cache: keys and values (B, H, N - T, K) of the positions before them.
            positions: of all N.
        """
        query, key, value = parts
        here = positions[len(positions) - query.shape[2] :]
        if self.kind == "rope":
            query, key = rotated(query, here), rotated(key, here)
        keys, values = torch.cat([cache[0], key], dim=2), torch.cat([cache[1], value], dim=2)
        asking, asked, scale = query, keys, query.shape[3] ** -0.5
        if self.kind == "relative":
            waves = distance_waves(positions, self.width).to(keys.dtype)
            asking = torch.cat([query + self.content_bias, self._turned(query, here)], -1)
            asked = torch.cat([keys, waves.expand(*keys.shape[:2], -1, -1)], -1)
        bias = self._bias(here, positions).to(query.dtype)
        fused = len(positions) > LONG and self.kind != "relative" and not torch.is_grad_enabled()
        if fused:
            y = scaled_dot_product_attention(asking, asked, values, bias[None], scale=scale)
            return y, (keys, values)
        q, k, v = (part.flatten(0, 1) for part in (asking, asked, values))  # (B H, ..)
        if len(bias) > 1:  # of heads that differ
            bias = bias.repeat(len(query), 1, 1)
        scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=scale)
        return (scores.softmax(-1) @ v).view_as(query), (keys, values)

    def _turned(self, query: Tensor, here: Tensor) -> Tensor:
        """Return what makes, times `distance_waves` at j, (q_k + r) . W s(k - j): (B, H, T, D).

        The sinusoids of a difference are products of those of its parts, so no pair of positions
        needs a vector of its own.
        """
        weight = self.distance.weight.unflatten(0, (self.config.heads, -1))  # (H, K, D)
        found = (query + self.distance_bias) @ weight
        found = pad(found, (0, self.width % 2)).unflatten(-1, (-1, 2))
        sin, cos = (wave.to(found.dtype) for wave in _waves(here, self.width))
        of_sin, of_cos = found.unbind(-1)
        parts = of_cos * sin - of_sin * cos, of_sin * sin + of_cos * cos
        return torch.stack(parts, -1).flatten(-2)

    def _bias(self, here: Tensor, positions: Tensor) -> Tensor:
        """Return what is added to scores: minus infinity for positions to come.

        (H, T, N) where heads differ, (1, T, N) where they do not.
        """
        if self.kind == "alibi":
            bias = distance_penalties(here, positions, self.config.heads)
        else:
            bias = torch.zeros(1, len(here), len(positions), device=here.device)
        return bias.masked_fill(here[:, None] < positions, -torch.inf)


BASE = 10_000.0
SMALL = 0.02  # the deviation of learnt vectors and biases as they begin
# Multipliers of the 64-bit finaliser of SplitMix (Steele, Lea & Flood 2014), as signed numbers.
INCREMENT, FIRST, SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return sin and cos of position * base^(-2 i / D) in turn, (T, D) for positions (T), float64.

    Source: Vaswani et al. 2017, section 3.5.
    """
    angles = _angles(positions, width)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return pairs.flatten(1)[:, :width]


def distance_waves(positions: Tensor, width: int) -> Tensor:
    """Return `sinusoids` of positions (N), filled up to whole pairs of sin and cos."""
    return torch.stack(_waves(positions, width), -1).flatten(1)


def _waves(positions: Tensor, width: int) -> tuple[Tensor, Tensor]:
    angles = _angles(positions, width)
    return angles.sin(), angles.cos()


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
