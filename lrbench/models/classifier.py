"""The framework for labelled strings: a reader and a head (Ray Chowdhury & Caragea 2023).

mlp      dropout -> Linear(d_out, d) -> GELU -> dropout -> Linear(d, C)
linear   Linear(d_out, C), as published for S4D and MEGA on ListOps
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from lrbench.checks import fraction, one_of
from lrbench.encoders.base import Encoder
from lrbench.encoders.dropout import dropout
from lrbench.models.reader import Reader

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
        self.reader = Reader(encoder, symbols, config.in_dropout)
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
