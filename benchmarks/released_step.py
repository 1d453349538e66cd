"""The released block-diagonal LRNN training step, re-created as the yardstick of our speed.

Fan, Chi & Rudnicky (2024), "Advancing Regular Language Reasoning in Linear Recurrent Neural
Networks". Written from a description of what the released code computes, not from its text,
which carries no licence. It does what that code plainly does and is meant to stay that way:
coefficients for every token, the general p-norm, a recurrence that indexes `A[:, t]` under
autograd, ModArith data made symbol by symbol in Python. Never speed it up, nor slow it down.
The release also sets `float32_matmul_precision("high")`: on the CPU that makes no difference
(measured), so the process-wide switch is left alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from lrbench.errors import UserError, unknown

P_NORM = 1.2


@dataclass(frozen=True)
class Recipe:
    """One task's training settings in the release; vocabulary and classes at modulus 5 match it."""

    extra_symbols: int
    binary: bool
    length: int
    layers: int
    lr: float
    weight_decay: float
    every: int  # 2: only even positions (the numbers of an expression) are supervised


RECIPES = {
    "sum": Recipe(0, False, 40, 1, 1e-4, 0.0, 1),
    "even_pair": Recipe(0, True, 40, 1, 2e-4, 0.0, 1),
    "mod_arith": Recipe(3, False, 39, 3, 2e-4, 1e-4, 2),
}


def sum_data(batch: int, length: int, modulus: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw digits and their running sum mod `modulus`: two (batch, length) int64 tensors."""
    tokens = torch.randint(modulus, (batch, length), generator=rng)
    return tokens, tokens.cumsum(1) % modulus


def even_pair_data(
    batch: int, length: int, modulus: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw symbols and whether each equals the first: two (batch, length) int64 tensors."""
    tokens = torch.randint(modulus, (batch, length), generator=rng)
    return tokens, (tokens == tokens[:, :1]).long()


def mod_arith_data(
    batch: int, length: int, modulus: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw expressions (digits, then + - x as M, M+1, M+2) and the value after each number.

    Shapes (batch, length) and (batch, (length + 1) // 2). `left` is the value before the term
    being read and `right` that term, so that x binds tighter than + and -.
    """
    tokens = torch.randint(modulus, (batch, length), generator=rng)
    tokens[:, 1::2] = torch.randint(modulus, modulus + 3, (batch, length // 2), generator=rng)
    targets = torch.zeros(batch, (length + 1) // 2, dtype=torch.long)
    for row in range(batch):
        left, right = torch.tensor(0), tokens[row, 0]
        targets[row, 0] = right
        for position in range(1, length, 2):
            operator, number = tokens[row, position], tokens[row, position + 1]
            if operator == modulus:
                left, right = left + right, number
            elif operator == modulus + 1:
                left, right = left + right, -number
            else:
                right = (right * number) % modulus
            targets[row, (position + 1) // 2] = (left + right) % modulus
    return tokens, targets


DATA = {"sum": sum_data, "even_pair": even_pair_data, "mod_arith": mod_arith_data}


def loop_states(blocks: Tensor, values: Tensor, initial: Tensor) -> Tensor:
    """Evaluate x_t = A_t x_{t-1} + v_t by an indexed loop under autograd.

    Shapes: (B, T, h, b, b), (B, T, h, b), (1, h, b) -> (B, T, h, b). The backward of every
    `blocks[:, t]` fills a gradient of the whole tensor: the cost this benchmark is about.
    """
    state = initial.expand(values.shape[0], -1, -1)
    states = []
    for t in range(values.shape[1]):
        state = torch.einsum("bhij,bhj->bhi", blocks[:, t], state) + values[:, t]
        states.append(state)
    return torch.stack(states, dim=1)


def pscan_states(blocks: Tensor, values: Tensor, initial: Tensor) -> Tensor:
    """Evaluate the same recurrence by the paper's PScan (appendix A.2), padded to 2^m slots."""
    batch, length, heads, size = values.shape
    slots = 1 << length.bit_length()  # slot 0 is the initial state, so at least length + 1
    states = torch.cat([initial.expand(batch, 1, -1, -1), values], dim=1)
    states = pad(states, (0, 0, 0, 0, 0, slots - length - 1))
    products = pad(blocks, (0, 0, 0, 0, 0, 0, 0, slots - length - 1)).unsqueeze(2)
    width = 1  # products: (B, groups, width, h, b, b), a group's prefix products
    while width < slots:
        pairs = states.view(batch, slots // (2 * width), 2, width, heads, size)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        here, carried = products[:, ::2], products[:, 1::2]
        longer = torch.einsum("bgchij,bghjk->bgchik", here[:, 1:], carried[:, :, -1])
        second = second + torch.einsum("bgchij,bghj->bgchi", here, first[:, :, -1])
        states = torch.cat([first, second], dim=2)
        products = torch.cat([carried, longer], dim=2)
        width *= 2
    return states.view(batch, slots, heads, size)[:, 1 : length + 1]


SCANS = {"loop": loop_states, "pscan": pscan_states}


class ReleasedLayer(nn.Module):
    """Per-token blocks and values from two-layer ReLU networks, learnt a0, one recurrence."""

    def __init__(self, width: int, block: int, scan: Callable[..., Tensor]) -> None:
        super().__init__()
        self.shape = (width // block, block)
        wide = width * block
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(nn.Linear(width, wide), nn.ReLU(), nn.Linear(wide, wide))
        self.values = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.a0 = nn.Parameter(torch.randn(1, *self.shape))
        self.scan = scan

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (B, T, D) to (B, T, D)."""
        heads, size = self.shape
        normed = self.norm(inputs)
        blocks = self.blocks(normed).unflatten(-1, (heads, size, size))
        blocks = blocks - blocks.mean(-2, keepdim=True)
        norms = torch.linalg.vector_norm(blocks, ord=P_NORM, dim=-2, keepdim=True)
        blocks = blocks / norms.amax(-1, keepdim=True)
        values = self.values(normed).unflatten(-1, (heads, size))
        return self.scan(blocks, values, self.a0).flatten(-2)


class ReleasedModel(nn.Module):
    """Embedding, pre-norm layers (residual on all but the last), norm, Linear-ReLU-Linear."""

    def __init__(
        self, vocabulary: int, classes: int, layers: int, width: int, block: int, scan: str
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(ReleasedLayer(width, block, SCANS[scan]) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, T) symbols to (B, T, classes) logits."""
        hidden = self.embedding(tokens)
        *inner, last = self.layers
        for layer in inner:
            hidden = hidden + layer(hidden)
        logits: Tensor = self.head(self.norm(last(hidden)))
        return logits


class ReleasedStep:
    """Train the released model one update at a time; `width`, `block`, `batch` shrink it in tests.

    Raises `UserError` for an unknown task or scan, and for `compile` without a C++ compiler.
    """

    def __init__(
        self,
        task: str,
        modulus: int = 5,
        seed: int = 0,
        scan: str = "loop",
        compile: bool = False,
        *,
        width: int = 64,
        block: int = 8,
        batch: int = 128,
        length: int | None = None,
    ) -> None:
        if task not in RECIPES:
            raise unknown("task", task, RECIPES)
        if scan not in SCANS:
            raise unknown("scan", scan, SCANS)
        recipe = RECIPES[task]
        self.data = DATA[task]
        self.size = (batch, length or recipe.length, modulus)
        self.every = recipe.every
        self.rng = torch.Generator().manual_seed(seed)
        classes = 2 if recipe.binary else modulus
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = ReleasedModel(
                modulus + recipe.extra_symbols, classes, recipe.layers, width, block, scan
            )
        self.parameters_count = sum(p.numel() for p in self.model.parameters())
        self.optimiser = torch.optim.Adam(
            self.model.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay
        )
        self.forward = compiled(self.model) if compile else self.model

    def update(self) -> float:
        """Draw a fresh batch, take one Adam step on its mean cross-entropy, return that loss."""
        tokens, targets = self.data(*self.size, self.rng)
        logits = self.forward(tokens)[:, :: self.every]
        loss = cross_entropy(logits.flatten(0, 1), targets.flatten())
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item()


def compiled(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """Wrap `model` in torch.compile (inductor), as the release trains it."""
    names = [os.environ.get("CXX", "g++"), "g++", "clang++"]
    if not any(map(shutil.which, names)):
        raise UserError("compile=True needs a C++ compiler; found none of " + ", ".join(names))
    return torch.compile(model, backend="inductor")
