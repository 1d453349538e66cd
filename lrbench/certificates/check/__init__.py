"""The checker of certificates: whether a file proves a network right on every string of a task.

It needs numpy and nothing else of lrbench. Copy this folder anywhere, and beside it:
`python -m check certificates/last.json`. It was written apart from the search that makes such
files, and believes nothing of them but three arrays: boxes lo and hi (V, D), one for each node, and
next (V, S), the node that follows each by each symbol. In this order:

    reading      the two files: every key is known, and used or checked
    automata     the task, by its rule; of random tables and the like the automaton of the file
    network      what is computed: settings and weights that fit each other
    enclosures   what float32 may make of a box

The proof, by induction on length: the start lies in the box of node 0; from every box each symbol
leads into the box of the next node; nodes walk along with the task's automaton; and on all of a
node's box the right answer's logit is the largest. All of it is about what float32 computes, in
any order of summation: each image is widened by a bound on its rounding.

Assumed: tanh and logistic within 8 units of 2^-24 (4 ulp), no TF32, subnormals kept or flushed; of
blockdiag, that a column of norm one is divided by one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .automata import KNOWN, OF_FILE, OF_THE_FILE, Automaton, automaton, same_language
from .enclosures import Array, gamma, image, margin, output
from .network import ARITHMETIC, BEFORE, MOST_SYMBOLS, network
from .reading import Refused, digest, need, read

__all__ = ["ARITHMETIC", "Automaton", "Refused", "about", "automaton", "check", "digest", "gamma"]
__all__ += ["KNOWN", "image", "margin", "network", "output", "same_language"]

MOST_NODES, LARGEST_STATE = 1_000_000, 1e4  # beyond which float32 might overflow


def check(file: Path) -> dict[str, Any]:
    """Return what a file proves, if it does; Refused otherwise.

    nodes: how many boxes. margin: the least lead of the right answer. task, model: the settings.
    weights: the digest of names, shapes and numbers. automaton: what was proved of (`Automaton`).
    """
    try:
        claim, arrays = read(file)
        with np.errstate(all="ignore"):  # what overflows becomes inf or nan, and is refused
            return _checked(claim, arrays)
    except Refused:
        raise
    except Exception as error:  # bytes from anywhere can make a parser raise anything at all
        raise Refused(f"parts of another kind than a certificate's: {error!r:.200}") from error


def of_the_file(found: dict[str, Any]) -> bool:
    """Tell whether a part of the automaton came with the file, not from the task's rule."""
    return bool(found["automaton"].source == OF_FILE)


def about(found: dict[str, Any], compared: bool = False) -> list[str]:
    """Return lines that say what was proved, and of what, as `check` found it.

    compared: the automaton was held against that of a run's task.
    """
    task, machine = found["task"], found["automaton"]
    edges = sum(to is not None for row in machine.delta for to in row)
    size = f"{len(machine.delta):,} states, {len(machine.delta[0]):,} symbols, {edges:,} edges"
    unchecked = of_the_file(found) and not compared
    claim = "; that it is the task's was not checked" if unchecked else ""
    return [
        f"task: {_settings(task['name'], task['settings'])}, version {task['version']}",
        f"  {machine.source}{claim}: {size}, sha256 {machine.digest()}",
        f"model: {_settings(found['model']['name'], found['model'])}",
        f"weights: sha256 {found['weights']}",
    ]


def _settings(name: str, settings: dict[str, Any]) -> str:
    shown = [name]
    for key, value in settings.items():
        inner = value.items() if isinstance(value, dict) else ()
        shown += [f"{key}.{k}={v}" for k, v in inner]
        shown += [f"{key}={value}"] * (not isinstance(value, dict) and key != "name")
    return "".join(c if c.isprintable() else "?" for c in ", ".join(shown))[:1000]


def _checked(claim: Any, arrays: dict[str, Array]) -> dict[str, Any]:
    weights = {k.removeprefix("w/"): v for k, v in arrays.items() if k.startswith("w/")}
    need(digest(weights) == claim["weights_sha256"], "the weights are not those of the digest")
    assumed = (ARITHMETIC, BEFORE) if claim["model"].get("name") == "rnn" else (ARITHMETIC,)
    need(claim["arithmetic"] in assumed, "another arithmetic than float32 as assumed here")
    net = network(claim["model"], weights)
    lo, hi, following = arrays["lo"], arrays["hi"], arrays["next"]
    _check_boxes(lo, hi, len(net["start"]))
    need(following.ndim == 2 and following.shape[1] <= MOST_SYMBOLS, "successors of another shape")
    machine = automaton(claim["task"], arrays, following.shape[1])
    delta, answers = machine.delta, machine.answers
    need(following.shape == (len(lo), len(delta[0])), "successors of another shape")
    need(following.dtype == np.int32, "successors must be int32")
    need(len(net["table"]) == len(delta[0]), "another number of symbols than the task has")
    classes = 1 + max(a for a in answers if a is not None)
    carried = claim["task"]["name"] in OF_THE_FILE  # may have classes that nothing asks for
    more = MOST_SYMBOLS if carried else classes
    need(classes <= len(net["head"][2]) <= more, "another number of classes than the task has")
    labels = _labels(following, machine)
    begins = (lo[0] <= net["start"]).all() and (net["start"] <= hi[0]).all()
    need(bool(begins), "the start lies outside its box")

    entered = np.zeros(len(lo), bool)
    for symbol in range(len(delta[0])):
        nodes = np.nonzero(following[:, symbol] >= 0)[0]
        if not len(nodes):
            continue
        to = following[nodes, symbol]
        low, high = image(net, symbol, (lo[nodes], hi[nodes]))
        need(bool((lo[to] <= low).all() and (high <= hi[to]).all()), "an image leaves its box")
        entered[to] = True
    least = np.inf
    for answer in sorted({a for a in answers if a is not None}):
        asked = [v for v in np.nonzero(entered)[0] if answers[labels[v]] == answer]
        if asked:
            lead = margin(net["head"], answer, output(net, (lo[asked], hi[asked])))
            least = float(np.minimum(least, lead))  # of a nan it is nan
    need(0 < least < np.inf, "a box on which the right answer does not lead")
    _check_claim(claim.get("proof", {}), len(lo), float(least))
    parts = {"task": claim["task"], "model": claim["model"], "weights": claim["weights_sha256"]}
    return {"nodes": len(lo), "margin": float(least), "automaton": machine, **parts}


def _check_boxes(lo: Array, hi: Array, size: int) -> None:
    need(lo.ndim == 2 and lo.shape == hi.shape == (len(lo), size), "boxes of another size")
    need(lo.dtype == hi.dtype == np.float64, "boxes must be float64")
    need(bool(np.isfinite(lo).all() and np.isfinite(hi).all()), "a side that is not finite")
    need(bool((lo <= hi).all()), "a box with lo above hi")
    inside = (lo >= -LARGEST_STATE).all() and (hi <= LARGEST_STATE).all()
    need(bool(inside), f"a box beyond {LARGEST_STATE:g}, where float32 might overflow")
    need(0 < len(lo) <= MOST_NODES, "too many nodes, or none")


def _check_claim(proof: dict[str, Any], nodes: int, least: float) -> None:
    """What the file says of its own proof is what was found."""
    need(proof.get("nodes", nodes) == nodes, "another number of boxes than the file says")
    claim = least if proof.get("margin") is None else proof["margin"]
    need(abs(claim - least) <= 1e-6 * least, "another margin than the file says")


def _labels(following: Array, machine: Automaton) -> Array:
    """Return the automaton's state at each node."""
    labels = np.full(len(following), -1)
    labels[0], waiting = machine.start, [0]
    while waiting:
        node = waiting.pop()
        for symbol, state in enumerate(machine.delta[labels[node]]):
            if state is None:
                need(following[node, symbol] == -1, "a successor where no valid string goes on")
                continue
            to = int(following[node, symbol])
            need(0 <= to < len(following), "a successor that is no node")
            if labels[to] == -1:
                labels[to] = state
                waiting.append(to)
            need(labels[to] == state, "two states of the task at one node")
    need(bool((labels >= 0).all()), "a node that no string leads to")
    return labels
