"""What stands before an encoder: tokens of padded strings to a vector for each string.

    tokens -> embedding, N(0, 1), zero at padded positions -> dropout -> encoder

The vocabulary is that of the task and three more symbols, as in the released code of Ray
Chowdhury & Caragea 2023: unknown, padding and separator, in this order.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lrbench.encoders.base import Encoder
from lrbench.encoders.dropout import dropout

SPECIALS = ("UNK", "PAD", "SEP")


class Reader(nn.Module):
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
