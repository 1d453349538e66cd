"""Exact weights of each model for a task that is a finite automaton (`init=exact`).

`rnn`, tanh (after Omlin & Giles 1996 and Carrasco et al. 2000): one unit for each (new state r,
symbol s) that can be, and one that says that the string has begun. Units near -1 are off, and what
is left over stays off:

    unit (r, s)   H (2 [symbol = s] + sum of (h_(p, .) + 1) over p with delta(p, s) = r - 3
                     + c_rs (1 - g)),   c_rs = -#{(p, .)} + 2 [delta(start, s) = r]
    unit g        H

    logit of a class = 10 times the sum of its units, which the norm before it leaves apart

`slstm`: the same network in its first head, which must have as many units. Forget gates are closed,
output gates open and input gates 1: then h = tanh(z), to the last bit of a float32.

`blockdiag`: the state is one-hot in the first block, A_s are its permutations or other matrices of
0 and 1, v = 0. H is a gain; from 2 on (2.5 for Sum(11), whose network has 122 units) the tanh
network is certified by boxes, at 1.5 it is wrong.

`deltanet` and its relatives (Siems et al. 2025, arXiv:2502.10297): where each symbol permutes the
states, and words that lead from the start to one state lead alike from every state (a word problem
of a group, as sum and parity are), a permutation is a product of swaps, and the swap of i and j the
reflection along e_i - e_j. From S = I the first head follows all states at once, and S q is q in
another order for each.

`pdssm`, `sdssm`, `slice`: the state is one-hot, and the dictionary has the matrix of each symbol,
or a block is it (`lrbench/models/exact/moves.py`).

`mamba`, `mamba2`, `mamba3`: where each symbol moves the states along one cycle, turns of it
(`lrbench/models/exact/turns.py`).

Symbols are one-hot in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lrbench.models.exact.machine import EXACT, StateMachine, need
from lrbench.models.exact.moves import pdssm_weights, sdssm_weights, slice_weights
from lrbench.models.exact.turns import mamba2_weights, mamba3_weights, mamba_weights

READING = {  # what writes the mixer and, unless its features are the classes', what reads them
    "mamba": mamba_weights,
    "mamba2": mamba2_weights,
    "mamba3": mamba3_weights,
    "pdssm": pdssm_weights,
    "sdssm": sdssm_weights,
    "slice": slice_weights,
}
GAIN = 2.5
SHUT = 40.0  # minus this is the input of a gate that is closed, this of one that is open
LOGIT = 10.0  # of a class for one of its units
SATURATED = 20.0  # a logit whose sigmoid is one, or nothing, in float32
LARGE = 1e3  # length of a key before it is made one: what is added under the root is then nothing
DELTA = ("project.weight", "strength.weight", "start", "norm.weight", "out.weight")


@dataclass(frozen=True)
class TanhNetwork:
    """h' = tanh(W x + U h + c) of N units over one-hot x (S), and the head after a norm of h.

    w (N, S), u (N, N), c (N), head (C, N), bias (C).
    """

    w: Tensor
    u: Tensor
    c: Tensor
    head: Tensor
    bias: Tensor


def tanh_network(
    machine: StateMachine, classes: int, units: int | None = None, gain: float = GAIN
) -> TanhNetwork:
    """Return the network of a machine, of as few units as can be or of `units`."""
    states, symbols = range(len(machine.delta)), range(len(machine.delta[0]))
    pairs = sorted(_pairs(machine))
    n = units or len(pairs) + 1
    of_state = {p: [k for k, (r, _) in enumerate(pairs) if r == p] for p in states}
    w, u, c = torch.zeros(n, len(symbols)), torch.zeros(n, n), torch.full((n,), -gain)
    began = len(pairs)
    c[began] = gain
    for k, (r, s) in enumerate(pairs):
        w[k, s] = 2 * gain
        before = [i for p in states if machine.delta[p][s] == r for i in of_state[p]]
        at_start = -len(before) + 2 * (machine.delta[machine.start][s] == r)
        u[k, before] += gain
        u[k, began] -= gain * at_start
        c[k] = gain * (len(before) - 3 + at_start)
    mean = (4 - n) / n  # two units are on
    off = (1 + mean) / math.sqrt(1 - mean**2)  # minus this is a unit that is off after the norm
    head, bias = torch.zeros(classes, n), torch.zeros(classes)
    for k, (r, _) in enumerate(pairs):
        answer = machine.answers[r]
        if answer is not None:
            head[answer, k] = LOGIT
            bias[answer] += LOGIT * off
    return TanhNetwork(w, u, c, head, bias)


def write_exact(model: nn.Module, config: Any, machine: StateMachine | None) -> None:
    """Give `model`, which `config` describes (its node `model`), the weights of a machine.

    Raises ValueError, saying what is needed, where it is too narrow or of another shape.
    """
    if machine is None:
        raise ValueError(
            "model.mixer.init=exact needs a task that is a finite automaton (Task.machine), such as"
            " sum, parity, even_pair or mod_arith"
        )
    _check_stack(config)
    symbols = len(machine.delta[0])
    embedded = config.backbone.embed == "embedding"
    if embedded:
        need("model.width", config.width, symbols, "the symbols")
    state = model.state_dict()
    if config.name == "rnn":
        new = _rnn(state, config, machine)
    elif config.name == "slstm":
        new = _slstm(state, config, machine)
    elif config.name == "blockdiag":
        new = _block_diagonal(state, config, machine)
    elif config.name in READING:
        new = _reading(state, config, machine)
    else:
        new = _delta(state, config, machine)
    if embedded:
        new["embedding.weight"] = _wide_eye(state["embedding.weight"])
    new["norm.weight"] = torch.ones_like(state["norm.weight"])
    new["norm.bias"] = torch.zeros_like(state["norm.bias"])
    model.load_state_dict(state | new)


def _rnn(state: dict[str, Tensor], config: Any, machine: StateMachine) -> dict[str, Tensor]:
    if config.mixer.nonlinearity != "tanh":
        raise ValueError("model.mixer.init=exact needs model.mixer.nonlinearity=tanh")
    layer = "mixers.0.network."
    units = len(state[f"{layer}weight_hh_l0"])
    needed = len(_pairs(machine)) + 1
    need("model.mixer.units", units, needed, "the pairs of a state and a symbol, and one more")
    made = tanh_network(machine, len(state["head.0.bias"]), units)
    inputs = torch.zeros_like(state[f"{layer}weight_ih_l0"])
    inputs[:, : made.w.shape[1]] = made.w
    return {
        f"{layer}weight_ih_l0": inputs,
        f"{layer}weight_hh_l0": made.u,
        f"{layer}bias_ih_l0": made.c,
        f"{layer}bias_hh_l0": torch.zeros_like(made.c),
        "head.0.weight": made.head,
        "head.0.bias": made.bias,
    }


def _slstm(state: dict[str, Tensor], config: Any, machine: StateMachine) -> dict[str, Tensor]:
    if config.mixer.conv_size:
        raise ValueError(
            "model.mixer.init=exact needs model.mixer.conv_size=0: it would mix symbols"
        )
    heads, units = state["mixers.0.bias"].shape[0], state["mixers.0.bias"].shape[2]
    needed = len(_pairs(machine)) + 1
    why = "the pairs of a state and a symbol, and one more"
    need("model.width / model.mixer.heads", units, needed, why)
    made = tanh_network(machine, len(state["head.0.bias"]), units)
    weight, recurrent, bias = (
        torch.zeros_like(state[f"mixers.0.{name}"]) for name in ("weight", "recurrent", "bias")
    )
    weight[0, : made.w.shape[1], 2] = made.w.T
    recurrent[0, :, 2] = made.u.T
    bias[:, 1], bias[:, 3] = -SHUT, SHUT
    bias[0, 2] = made.c
    head = torch.zeros_like(state["head.0.weight"])
    head[:, :units] = made.head / math.sqrt(heads)  # the norm behind it sees heads of zeros, too
    return {
        "mixers.0.weight": weight,
        "mixers.0.recurrent": recurrent,
        "mixers.0.bias": bias,
        "mixers.0.norm.weight": torch.ones_like(state["mixers.0.norm.weight"]),
        "head.0.weight": head,
        "head.0.bias": made.bias,
    }


def _block_diagonal(
    state: dict[str, Tensor], config: Any, machine: StateMachine
) -> dict[str, Tensor]:
    mixer, states, symbols = config.mixer, len(machine.delta), len(machine.delta[0])
    if mixer.constraint == "max_column_centred":
        raise ValueError(
            "model.mixer.init=exact needs columns that stay as they are:"
            " model.mixer.constraint=column_clip, column_unit or none"
        )
    blocks, size = state["mixers.0.start"].shape
    need("model.mixer.block_size", size, states, "the states")
    eye = torch.eye(size).repeat(symbols, blocks, 1, 1)  # (S, h, b, b), [row, column]
    for s in range(symbols):
        for q in range(states):
            after = machine.delta[q][s]
            eye[s, 0, :, q] = 0
            if after is not None:
                eye[s, 0, after, q] = 1
    start = torch.zeros(blocks, size)
    start[0, machine.start] = 1
    new = {"mixers.0.start": start}
    new |= _by_symbol(state, "mixers.0.transition", eye.flatten(1))
    new |= _by_symbol(state, "mixers.0.value", torch.zeros(symbols, blocks * size))
    if "mixers.0.out.weight" in state:
        need("model.width", config.width, states, "the states")
        new["mixers.0.out.weight"] = _wide_eye(state["mixers.0.out.weight"])
        new["mixers.0.out.bias"] = torch.zeros_like(state["mixers.0.out.bias"])
    head = torch.zeros_like(state["head.0.weight"])
    for q, answer in enumerate(machine.answers):
        if answer is not None:
            head[answer, q] = LOGIT
    return {**new, "head.0.weight": head, "head.0.bias": torch.zeros_like(state["head.0.bias"])}


@dataclass(frozen=True)
class Reflections:
    """S_t = S_{t-1} prod_j (I - 2 k_j k_j^T) of each symbol, and a class for each direction of S q.

    keys (symbols, n, K) of length one, or zero where a symbol needs fewer than n; start S_0 (V, K);
    query q (K); read (C, V), the S q of each class.
    """

    keys: Tensor
    start: Tensor
    query: Tensor
    read: Tensor


def permuting_reflections(machine: StateMachine, classes: int) -> Reflections:
    """Return the reflections of a machine whose symbols permute its states as a group does.

    Raises ValueError where they do not.
    """
    size, symbols = len(machine.delta), range(len(machine.delta[0]))
    columns = [[row[s] for row in machine.delta] for s in symbols]
    if any(
        sorted(-1 if q is None else q for q in column) != list(range(size)) for column in columns
    ):
        raise ValueError(
            f"{EXACT} of a product of reflections needs a task each of whose symbols permutes the"
            " states, such as sum, parity or group"
        )
    moves = [tuple(q for q in column if q is not None) for column in columns]
    swaps = [_swaps(move) for move in moves]
    keys = torch.zeros(len(moves), max(1, *map(len, swaps)), size)
    for s, pairs in enumerate(swaps):
        for j, (one, other) in enumerate(pairs):
            keys[s, j, one], keys[s, j, other] = 0.5**0.5, -(0.5**0.5)
    query = torch.linspace(-1, 1, size)
    read = torch.zeros(classes, size)
    for state, positions in _placed(machine, moves).items():
        answer = machine.answers[state]
        if answer is None or bool(read[answer].any()):
            raise ValueError(f"{EXACT} of a product of reflections needs an answer for each state")
        read[answer] = query[list(positions)]
    return Reflections(keys, torch.eye(size), query, read)


def reflecting_weights(
    state: dict[str, Tensor], config: Any, made: Reflections, logit: float = SATURATED
) -> dict[str, Tensor]:
    """Return the weights by which the first head of a mixer of the delta rule does what is `made`.

    `state` is that of a `bare` model with one such mixer, `config` the mixer's settings. A strength
    of 2 is 2 sigmoid(logit).
    """
    _check_delta(config)
    symbols, count, size = made.keys.shape
    values, (heads, v_size, k_size) = len(made.start), state["mixers.0.start"].shape
    need("model.mixer.key_size", k_size, size, "what the keys tell apart")
    need("model.mixer.value_size", v_size, values, "the rows of the state")
    need("model.mixer.householders", config.householders, count, "the reflections of a symbol")
    need("model.width", len(state["mixers.0.out.weight"]), len(made.read), "the classes")
    new = {f"mixers.0.{name}": torch.zeros_like(state[f"mixers.0.{name}"]) for name in DELTA}
    n = config.householders
    project = new["mixers.0.project.weight"]
    project[:size, :symbols] = made.query[:, None]
    for j in range(count):
        first = heads * k_size + j * k_size
        project[first : first + size, :symbols] = LARGE * made.keys[:, j].T
    new["mixers.0.strength.weight"][:n, :symbols] = -logit
    used = made.keys.norm(dim=-1) > 0
    new["mixers.0.strength.weight"][:count, :symbols] += 2 * logit * used.T
    new["mixers.0.start"][0, :values, :size] = made.start
    new["mixers.0.norm.weight"].fill_(1)
    new["mixers.0.out.weight"][: len(made.read), :values] = made.read
    return new


def _delta(state: dict[str, Tensor], config: Any, machine: StateMachine) -> dict[str, Tensor]:
    head = torch.zeros_like(state["head.0.weight"])
    made = permuting_reflections(machine, len(head))
    new = reflecting_weights(state, config.mixer, made)  # says what is too small for it
    head[:, : len(head)] = LOGIT * torch.eye(len(head))
    none = torch.zeros_like(state["head.0.bias"])
    return {**new, "head.0.weight": head, "head.0.bias": none}


def _reading(state: dict[str, Tensor], config: Any, machine: StateMachine) -> dict[str, Tensor]:
    read = _wide_eye(state["head.0.weight"])
    need("model.width", config.width, max(len(machine.delta[0]), len(read)), "symbols, classes")
    new = {"head.0.weight": read, **READING[config.name](state, config.mixer, machine)}
    new["head.0.weight"] = LOGIT * new["head.0.weight"]
    return {**new, "head.0.bias": torch.zeros_like(state["head.0.bias"])}


def _check_delta(config: Any) -> None:
    wanted = {
        "range": "signed",
        "qk_activation": "identity",
        "conv_size": 0,
        "decay": "none",
        "erase": "scalar",
        "output_gate": False,
        "learn_x0": True,
    }
    wrong = [name for name, value in wanted.items() if getattr(config, name) != value]
    if wrong:
        words = (f"model.mixer.{name}={str(wanted[name]).lower()}" for name in wrong)
        raise ValueError(f"{EXACT} of a product of reflections needs {' '.join(words)}")


def _swaps(move: Sequence[int]) -> list[tuple[int, int]]:
    """Return the swaps whose product sends e_q to e_{move[q]}, q by q, the first one first."""
    pairs, positions = [], list(range(len(move)))
    for q, to in enumerate(move):
        if positions[q] != to:
            one, other = positions[q], to
            pairs.append((one, other))
            positions = [{one: other, other: one}.get(p, p) for p in positions]
    return pairs


def _placed(machine: StateMachine, moves: Sequence[Sequence[int]]) -> dict[int, tuple[int, ...]]:
    """Return where the words to a state lead from each state; ValueError where they differ."""
    identity = tuple(range(len(machine.delta)))
    found, waiting = {machine.start: identity}, [identity]
    for positions in waiting:  # grows as states are found
        for move in moves:
            further = tuple(move[p] for p in positions)
            state = further[machine.start]
            if state not in found:
                found[state] = further
                waiting.append(further)
            elif found[state] != further:
                raise ValueError(
                    f"{EXACT} of a product of reflections needs a word problem of a group, such as"
                    " sum, parity or group: here two words to one state lead to different states"
                    " from another"
                )
    return found


def _by_symbol(state: dict[str, Tensor], name: str, rows: Tensor) -> dict[str, Tensor]:
    """Return the weights of a map of one-hot symbols to `rows` (S, n), with a hidden layer or not.

    `name` is that of the map in the state.
    """
    first, second = f"{name}.0", f"{name}.2"
    new = {f"{first}.bias": torch.zeros_like(state[f"{first}.bias"])}
    last = first
    if f"{second}.weight" in state:
        need("model.mixer.hidden", len(state[f"{first}.bias"]), len(rows), "the symbols")
        new[f"{first}.weight"] = _wide_eye(state[f"{first}.weight"])
        new[f"{second}.bias"] = torch.zeros_like(state[f"{second}.bias"])
        last = second
    weight = torch.zeros_like(state[f"{last}.weight"])
    weight[:, : len(rows)] = rows.T
    return {**new, f"{last}.weight": weight}


def _check_stack(config: Any) -> None:
    stack = config.backbone
    fits = stack.name == "bare" and stack.norm and not stack.hidden and config.layers == 1
    if not fits or stack.embed not in ("embedding", "one_hot"):
        raise ValueError(
            "model.mixer.init=exact needs model.backbone.name=bare with norm=true and hidden=0, one"
            " layer, and symbols embedded or one_hot"
        )


def _pairs(machine: StateMachine) -> set[tuple[int, int]]:
    """Return every (new state, symbol) that can be."""
    return {(r, s) for row in machine.delta for s, r in enumerate(row) if r is not None}


def _wide_eye(like: Tensor) -> Tensor:
    """Return ones on the diagonal of a matrix of the shape of `like`."""
    return torch.eye(*like.shape)
