"""Networks that are right by construction: the positive controls of searches and checkers.

One unit for each (new state r, symbol s) that can be, and one that says that the string has begun;
symbols are one-hot; units near -1 are off (after Omlin & Giles 1996 and Carrasco et al. 2000):

    unit (r, s)   H (2 [symbol = s] + sum of (h_(p, .) + 1) over p with delta(p, s) = r - 3
                     + c_rs (1 - g)),   c_rs = -#{(p, .)} + 2 [delta(start, s) = r]
    unit g        H

A class answers by the sum of its units, after the norm of the stack `bare`. A gru is that with its
gates open, an lstm as well, its c either written anew (keep = 0) or kept in part. Another layer
copies the one below. A block-diagonal recurrence moves a one-hot state by matrices of 0 and 1.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from lrbench.config import Config
from lrbench.models.build import build_model
from lrbench.schema import model_node
from lrbench.tasks.machine import Machine

OPEN = 20.0  # of a gate's bias: logistic(20) is one in float32


def exact_config(units: int, name: str = "rnn", layers: int = 1) -> Any:
    """Return the model node of a recurrent network with one-hot symbols and so many units."""
    node = model_node(name)()
    node.backbone.embed = "one_hot"
    node.mixer.units = units
    node.layers = layers
    return node


def exact_rnn(machine: Machine, gain: float) -> tuple[nn.Module, Any]:
    """Return the tanh network of a machine with all edges, in float32, and its model node."""
    return exact_network(machine, gain)


def exact_network(
    machine: Machine, gain: float, name: str = "rnn", layers: int = 1, keep: float = 0.0
) -> tuple[nn.Module, Any]:
    """Return rnn, elman, gru or lstm of a machine with all edges, and its model node.

    keep: of an lstm, the part of c that its forget gate keeps.
    """
    states, symbols = range(machine.states), range(machine.symbols)
    pairs = sorted({(machine.delta[p][s], s) for p in states for s in symbols})
    n = len(pairs) + 1
    of_state = {p: [k for k, (r, _) in enumerate(pairs) if r == p] for p in states}
    w, u, c = torch.zeros(n, machine.symbols), torch.zeros(n, n), torch.zeros(n)
    c[-1] = gain
    for k, (r, s) in enumerate(pairs):
        w[k, s] = 2 * gain
        before = [i for p in states if machine.delta[p][s] == r for i in of_state[p]]
        at_start = -len(before) + 2 * (machine.delta[machine.start][s] == r)
        u[k, before] += gain
        u[k, -1] -= gain * at_start
        c[k] = gain * (len(before) - 3 + at_start)
    classes = 1 + max(answer for answer in machine.answers if answer is not None)
    mu = (4 - n) / n
    off = (1 + mu) / math.sqrt(1 - mu**2)
    head, bias = torch.zeros(classes, n), torch.zeros(classes)
    for k, (r, _) in enumerate(pairs):
        answer = machine.answers[r]
        assert answer is not None
        head[answer, k] = 10
        bias[answer] += 10 * off
    node = exact_config(n, name, layers)
    model = build_model(Config(model=node), machine.symbols, classes, seed=0)
    state = model.state_dict()
    state |= _layer(name, 0, w, u, c, keep)
    for layer in range(1, layers):
        copy = gain * torch.eye(n) / (math.tanh(1) if name == "lstm" else 1)
        state |= _layer(name, layer, copy, torch.zeros(n, n), torch.zeros(n), keep)
    state["head.0.weight"], state["head.0.bias"] = head, bias
    model.load_state_dict(state)
    return model.eval(), node


def _layer(name: str, at: int, w: Tensor, u: Tensor, c: Tensor, keep: float) -> dict[str, Tensor]:
    """Return the weights of a layer h' = tanh(W x + U h + c), as a cell of that name has them."""
    if name == "elman":
        parts = {"input.weight": w, "input.bias": c, "matrix": u}
        return {f"mixers.{at}.{part}": value for part, value in parts.items()}
    closed, still = torch.zeros_like(w), torch.zeros_like(u)
    wide = torch.full_like(c, OPEN)
    if name == "gru":  # r open, z closed
        w, u, c = (
            torch.cat([closed, closed, w]),
            torch.cat([still, still, u]),
            torch.cat([wide, -wide, c]),
        )
    if name == "lstm":  # i and o open; h is tanh(c), and c is g where nothing is kept
        kept = torch.full_like(c, math.log(keep / (1 - keep)) if keep else -OPEN)
        w = torch.cat([closed, closed, w, closed])
        u = torch.cat([still, still, u / math.tanh(1), still])
        c = torch.cat([wide, kept, c, wide])
    parts = {"weight_ih_l0": w, "weight_hh_l0": u, "bias_ih_l0": c, "bias_hh_l0": c * 0}
    return {f"mixers.{at}.network.{part}": value for part, value in parts.items()}


def exact_blocks(machine: Machine, embed: str = "one_hot", g: str = "linear") -> Any:
    """Return the block-diagonal recurrence of a machine with all edges, and its model node."""
    n, symbols = machine.states, machine.symbols
    classes = 1 + max(answer for answer in machine.answers if answer is not None)
    node = model_node("blockdiag")()
    node.backbone = model_node("rnn")().backbone
    node.backbone.embed, node.width = embed, symbols
    node.mixer.blocks, node.mixer.block_size, node.mixer.g = 1, n, g
    node.mixer.hidden = symbols
    model = build_model(Config(model=node), symbols, classes, seed=0)
    state = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
    matrices = torch.zeros(symbols, n, n)
    for q in range(n):
        for s in range(symbols):
            matrices[s, machine.delta[q][s], q] = 1
    last = "mixers.0.transition.0.weight"
    if g == "mlp":
        state[last] = torch.eye(symbols)
        last = "mixers.0.transition.2.weight"
    state[last] = matrices.flatten(1).T.contiguous()
    state["mixers.0.start"][0, machine.start] = 1
    if embed == "embedding":
        state["embedding.weight"] = torch.eye(symbols)
    answers = torch.zeros(symbols, n)
    for q, answer in enumerate(machine.answers):
        if answer is not None:
            answers[answer, q] = 1
    if "mixers.0.out.weight" in state:
        state["mixers.0.out.weight"] = answers
    state["norm.weight"] = torch.ones(symbols)
    state["head.0.weight"] = 10 * torch.eye(symbols)[:classes]
    model.load_state_dict(state)
    return model.eval(), node
