"""Automata written into `blockdiag` by hand answer strings of 10,000 symbols without training.

Every 0/1 matrix with one 1 a column is allowed by the paper's constraint, so an automaton of at
most b states fits one block: its state is one-hot, its inputs are zero, x_0 marks the start state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.block_diagonal.blockdiag import BlockDiagConfig, BlockDiagonalMixer
from lrbench.models.lrnn_release import LrnnRelease, LrnnReleaseConfig
from lrbench.tasks.base import Carry, Device, Task
from lrbench.tasks.stream import Stream, integers
from lrbench.tasks.symbols.cyclic import Parity, ParityConfig, Sum, SumConfig
from lrbench.training.scoring import score

ELEMENTS = list(permutations(range(3)))  # the symbols of S_3: where 0, 1 and 2 go


class WordProblem(Task):
    """The product of all permutations read so far, the newest applied last."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.vocabulary = self.class_names = tuple("".join(map(str, e)) for e in ELEMENTS)
        self.products = torch.tensor(
            [[ELEMENTS.index(tuple(b[i] for i in a)) for b in ELEMENTS] for a in ELEMENTS]
        )

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        places, answers = [0, 1, 2], []
        for token in tokens:
            places = [ELEMENTS[token][place] for place in places]
            answers.append(ELEMENTS.index(tuple(places)))
        return answers

    def _tokens(
        self, stream: Stream, step: int, rows: int, start: int, stop: int, device: Device
    ) -> Tensor:
        return integers(stream, step, rows, start, stop, len(ELEMENTS), device)

    def _answer(self, tokens: Tensor, start: int, carry: Carry | None) -> tuple[Tensor, Carry]:
        element = torch.zeros(len(tokens), dtype=torch.int64) if carry is None else carry[0]
        answers = []
        for token in tokens.unbind(1):
            element = self.products[element, token]
            answers.append(element)
        return torch.stack(answers, 1), (element,)


def automaton(blocks: Tensor, start: Tensor, read: Tensor) -> LrnnRelease:
    """Build a model with given blocks (S, h, b, b), x_0 (h, b) and class weights (C, h b)."""
    symbols, heads, size, _ = blocks.shape
    width = heads * size
    config = BlockDiagConfig(block_size=size, blocks=heads, g="linear", values="linear")
    model = LrnnRelease(
        LrnnReleaseConfig(), symbols, len(read), width, 1, lambda: BlockDiagonalMixer(config, width)
    )
    mixer = model.mixers[0]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight.copy_(torch.eye(symbols, width))
        norm, head_norm, hidden, _, last = model.norms[0], *model.head
        # layer norm of a one-hot vector, undone: the mixer sees the symbol one-hot
        norm.weight.fill_((1 / width * (1 - 1 / width) + norm.eps) ** 0.5)
        norm.bias.fill_(1 / width)
        mixer.transition[0].weight.copy_(torch.zeros(width**2 // heads, width))
        mixer.transition[0].weight[:, :symbols] = blocks.flatten(1).T
        mixer.start.copy_(start)
        head_norm.weight.fill_(1)
        hidden.weight.copy_(torch.eye(width))
        last.weight.copy_(read)
    return model


def cyclic(modulus: int) -> LrnnRelease:
    """Symbol s turns the wheel of `modulus` states by s."""
    eye = torch.eye(modulus)
    blocks = torch.stack([eye.roll(s, 0) for s in range(modulus)])[:, None]
    return automaton(blocks, eye[:1], eye)


def symmetric() -> LrnnRelease:
    """Two blocks follow where 0 and 1 go, which tells the permutation."""
    eye = torch.eye(3)
    matrices = torch.stack([eye[list(e)].T for e in ELEMENTS])
    read = torch.stack([torch.cat([eye[e[0]], eye[e[1]]]) for e in ELEMENTS])
    return automaton(torch.stack([matrices, matrices], 1), eye[:2], read)


MODELS_AND_TASKS = {
    "Z_5": (lambda: cyclic(5), lambda: Sum(SumConfig(modulus=5))),
    "parity": (lambda: cyclic(2), lambda: Parity(ParityConfig())),
    "S_3": (symmetric, lambda: WordProblem(SimpleNamespace(name="s3"))),
}


@pytest.mark.parametrize("name", MODELS_AND_TASKS)
def test_exact_at_ten_thousand_symbols(name: str) -> None:
    model, task = (make() for make in MODELS_AND_TASKS[name])
    found = score(model, task, Stream.named(0, "exact"), 10_000, 16, "cpu")
    assert (found.correct, found.n, found.length) == (16, 16, 10_000)


@pytest.mark.parametrize("name", MODELS_AND_TASKS)
def test_exact_at_every_position(name: str) -> None:
    model, task = (make() for make in MODELS_AND_TASKS[name])
    batch = task.sample(Stream.named(1, "exact"), 0, 32, 200, "cpu")
    assert task.oracle(batch.tokens[0].tolist()) == batch.targets[0].tolist()
    for mode in ("sequential", "tree"):
        logits, _ = model(batch.tokens, mode=mode)
        assert torch.equal(logits.argmax(-1), batch.targets)


def test_a_wrong_block_is_found_out() -> None:
    """The score of an automaton with one wrong transition is not 1."""
    model = cyclic(5)
    with torch.no_grad():
        model.mixers[0].transition[0].weight[:, 1] = torch.eye(5).flatten()
    task = Sum(SumConfig(modulus=5))
    assert score(model, task, Stream.named(0, "exact"), 200, 64, "cpu").accuracy < 0.5
