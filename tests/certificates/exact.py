"""A tanh network that is right by construction: the positive control of searches and checkers.

One unit for each (new state r, symbol s) that can be, and one that says that the string has begun;
symbols are one-hot; units near -1 are off (after Omlin & Giles 1996 and Carrasco et al. 2000):

    unit (r, s)   H (2 [symbol = s] + sum of (h_(p, .) + 1) over p with delta(p, s) = r - 3
                     + c_rs (1 - g)),   c_rs = -#{(p, .)} + 2 [delta(start, s) = r]
    unit g        H

A class answers by the sum of its units, after the norm of the stack `bare`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from lrbench.config import Config
from lrbench.models.build import build_model
from lrbench.schema import model_node
from lrbench.tasks.machine import Machine


def exact_config(units: int) -> Any:
    """Return the model node of `rnn` in `bare` with one-hot symbols and so many units."""
    node = model_node("rnn")()
    node.backbone.embed = "one_hot"
    node.mixer.units = units
    return node


def exact_rnn(machine: Machine, gain: float) -> tuple[nn.Module, Any]:
    """Return the network of a machine with all edges, in float32, and its model node."""
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
    node = exact_config(n)
    model = build_model(Config(model=node), machine.symbols, classes, seed=0)
    state = model.state_dict()
    state["mixers.0.network.weight_ih_l0"] = w
    state["mixers.0.network.weight_hh_l0"] = u
    state["mixers.0.network.bias_ih_l0"] = c
    state["mixers.0.network.bias_hh_l0"] = torch.zeros(n)
    state["head.0.weight"], state["head.0.bias"] = head, bias
    model.load_state_dict(state)
    return model.eval(), node
