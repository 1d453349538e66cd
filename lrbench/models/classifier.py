"""The frameworks around an encoder: a reader, and a head for strings or for pairs of them.

    tokens -> embedding, N(0, 1), zero at padded positions -> dropout -> encoder

The vocabulary is that of the task and three more symbols, as in the released code of Ray
Chowdhury & Caragea 2023: unknown, padding and separator, in this order.

Heads for labelled strings (Ray Chowdhury & Caragea 2023):

mlp      dropout -> Linear(d_out, d) -> GELU -> dropout -> Linear(d, C)
linear   Linear(d_out, C), as published for S4D and MEGA on ListOps

For labelled pairs of strings there is one reader for both, and a head that is not even:

    u, v = reader(first), reader(second)
    (u, v, u v, |u - v|) -> dropout -> Linear(4 d_out, 200) -> GELU -> dropout -> Linear(200, C)

as for logical inference in Ray Chowdhury & Caragea 2023; the same head for every encoder. Both
sides go through the encoder as one batch of 2N, padded to a common length.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad

from lrbench.checks import at_least, fraction, one_of
from lrbench.encoders.base import Encoder, dropout

SPECIALS = ("UNK", "PAD", "SEP")


class StringReader(nn.Module):
    """Embedding, dropout and encoder."""

    def __init__(self, encoder: Encoder, symbols: int, in_dropout: float) -> None:
        super().__init__()
        self.padding = symbols + SPECIALS.index("PAD")
        total = symbols + len(SPECIALS)
        self.embedding = nn.Embedding(total, encoder.width, padding_idx=self.padding)
        self.encoder = encoder
        self.in_dropout = in_dropout

    @property
    def out_width(self) -> int:
        """Features of a string's vector."""
        width: int = self.encoder.out_width
        return width

    def forward(
        self, tokens: Tensor, lengths: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Map tokens (N, S), int64, of strings of `lengths` (N,) to vectors (N, out_width).

        What stands in `tokens` beyond a string's length does not matter. Without a generator
        nothing is dropped.
        """
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        mask = positions < lengths.to(tokens.device)[:, None]
        x = self.embedding(tokens.masked_fill(~mask, self.padding))
        vectors: Tensor = self.encoder(dropout(x, self.in_dropout, generator), mask, generator)
        return vectors


HEADS = ("mlp", "linear", "published")


@dataclass
class ClassifierConfig:
    """Settings of the framework for single strings.

    in_dropout: of the embedded symbols. out_dropout: before each layer of the head `mlp`. head:
    `published` is the one that the encoder was published with.
    """

    in_dropout: float = 0.1
    out_dropout: float = 0.1
    head: str = "published"

    def __post_init__(self) -> None:
        fraction("model.framework.in_dropout", self.in_dropout)
        fraction("model.framework.out_dropout", self.out_dropout)
        one_of("model.framework.head", self.head, HEADS)


class Classifier(nn.Module):
    """Logits (N, C) of N strings."""

    def __init__(
        self, config: ClassifierConfig, encoder: Encoder, symbols: int, classes: int
    ) -> None:
        super().__init__()
        self.config = config
        self.reader = StringReader(encoder, symbols, config.in_dropout)
        kind = encoder.head if config.head == "published" else config.head
        self.head: nn.Module
        if kind == "linear":
            self.head = LinearHead(encoder.out_width, classes)
        else:
            self.head = MlpHead(encoder.out_width, encoder.width, classes, config.out_dropout)

    def forward(
        self, tokens: Tensor, lengths: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Map tokens (N, S), int64, of strings of `lengths` (N,) to logits (N, C).

        generator: where training takes dropout from; without it there is none.
        """
        logits: Tensor = self.head(self.reader(tokens, lengths, generator), generator)
        return logits


class MlpHead(nn.Module):
    """Two layers with GELU between them and dropout before each."""

    def __init__(self, features: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(features, hidden)
        self.output = nn.Linear(hidden, classes)
        self.dropout = dropout

    def forward(self, features: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Map features (N, F) to logits (N, C)."""
        hidden = gelu(self.hidden(dropout(features, self.dropout, generator)))
        logits: Tensor = self.output(dropout(hidden, self.dropout, generator))
        return logits


class LinearHead(nn.Module):
    """One layer, without dropout."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.output = nn.Linear(features, classes)

    def forward(self, features: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Map features (N, F) to logits (N, C)."""
        logits: Tensor = self.output(features)
        return logits


@dataclass
class PairConfig:
    """Settings of the framework for pairs.

    in_dropout: of the embedded symbols. out_dropout: before each layer of the head. hidden: units
    of its first layer.
    """

    in_dropout: float = 0.4
    out_dropout: float = 0.1
    hidden: int = 200

    def __post_init__(self) -> None:
        fraction("model.framework.in_dropout", self.in_dropout)
        fraction("model.framework.out_dropout", self.out_dropout)
        at_least("model.framework.hidden", self.hidden, 1)


class PairClassifier(nn.Module):
    """Logits (N, C) of N ordered pairs of strings."""

    def __init__(self, config: PairConfig, encoder: Encoder, symbols: int, classes: int) -> None:
        super().__init__()
        self.config = config
        self.reader = StringReader(encoder, symbols, config.in_dropout)
        features = 4 * encoder.out_width
        self.head = MlpHead(features, config.hidden, classes, config.out_dropout)

    def forward(
        self,
        first: Tensor,
        first_lengths: Tensor,
        second: Tensor,
        second_lengths: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Map tokens (N, S) and (N, S'), int64, with lengths (N,) each, to logits (N, C).

        generator: where training takes dropout from; without it there is none.
        """
        width = max(first.shape[1], second.shape[1])
        tokens = [pad(side, (0, width - side.shape[1])) for side in (first, second)]
        lengths = torch.cat([first_lengths, second_lengths])
        u, v = self.reader(torch.cat(tokens), lengths, generator).chunk(2)
        logits: Tensor = self.head(torch.cat([u, v, u * v, (u - v).abs()], 1), generator)
        return logits
