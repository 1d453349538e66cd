"""The framework for labelled pairs of strings: one reader for both, and a head that is not even.

    u, v = reader(first), reader(second)
    (u, v, u v, |u - v|) -> dropout -> Linear(4 d_out, 200) -> GELU -> dropout -> Linear(200, C)

as for logical inference in Ray Chowdhury & Caragea 2023; the same head for every encoder. Both
sides go through the encoder as one batch of 2N, padded to a common length.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from lrbench.checks import at_least, fraction
from lrbench.encoders.base import Encoder
from lrbench.models.classifier import MlpHead
from lrbench.models.reader import Reader


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
        self.reader = Reader(encoder, symbols, config.in_dropout)
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
