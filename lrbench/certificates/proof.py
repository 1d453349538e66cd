"""Proofs for all lengths: the graphs that are tried, and the files that anybody can check."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from lrbench.certificates.boxes import BlownUp, Boxes, closed_boxes
from lrbench.certificates.graphs import ProofGraph, gathered_graph, suffix_graph
from lrbench.certificates.images import Cells, cells_of
from lrbench.certificates.permuted import counted_states
from lrbench.tasks.machine import Machine

MOST_NODES = 20_000
FEW_NODES = 1000  # of suffixes, before strings are gathered
GATHERED_NODES = 3000  # comparing more of them takes longer than it is worth
DISTANCES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
LINEAR = ("blockdiag",)  # that the checker knows


@dataclass
class ProofSearch:
    """What came of a search for boxes.

    boxes: closed ones, None where there are none. refusal: why none were sought. tried: the graphs
    that did not close, in turn, each with what stands in the way.
    """

    boxes: Boxes | None = None
    refusal: str = ""
    tried: list[BlownUp] = field(default_factory=list)
    seconds: float = 0.0


def find_proof(
    model: nn.Module,
    config: dict[str, Any],
    machine: Machine,
    most_nodes: int = MOST_NODES,
    refusal: str = "",
) -> ProofSearch:
    """Search for closed boxes on one graph after another, up to `most_nodes` nodes.

    With no nodes at all none are sought.

    config: the `model` node of the configuration. refusal: why none is sought, known before. What
    is found is to be checked (check/).
    """
    began = time.perf_counter()
    found = ProofSearch(refusal=refusal)
    if refusal:
        return found
    if config.get("name") in LINEAR:
        if most_nodes > 0:
            states = counted_states(model, config, machine, most_nodes)
            if isinstance(states, str):
                found.refusal = states
            else:
                found.boxes = states
    else:
        net = cells_of(model, config)
        if isinstance(net, str):
            found.refusal = net
            return found
        for nodes in _graphs(net, machine, most_nodes):
            boxes = closed_boxes(net, machine, nodes)
            if isinstance(boxes, Boxes):
                found.boxes = boxes
                break
            found.tried.append(boxes)
    found.seconds = time.perf_counter() - began
    return found


def _graphs(net: Cells, machine: Machine, most: int) -> Iterator[ProofGraph]:
    """Yield graphs to try, cheapest first.

    Strings with 0, 1, 2, .. known symbols while there are few; then gathered ones, ever nearer;
    then more known symbols.
    """
    if most < 1:
        return
    depth, before, gathered = 0, 0, False
    while (nodes := suffix_graph(machine, depth, most)) is not None:
        if len(nodes) == before:
            return  # the language is finite: longer memory adds nothing
        if len(nodes) > FEW_NODES and not gathered:
            gathered = True
            yield from _gathered(net, machine, most)
        yield nodes
        depth, before = depth + 1, len(nodes)
    if not gathered:
        yield from _gathered(net, machine, most)


def _gathered(net: Cells, machine: Machine, most: int) -> Iterator[ProofGraph]:
    for within in DISTANCES:
        nodes = gathered_graph(net, machine, within, min(most, GATHERED_NODES))
        if nodes is None:
            return
        yield nodes


def arrays_bytes(boxes: Boxes, weights: dict[str, Tensor], machine: Machine) -> bytes:
    """Return the .npz of a proof, without pickle: lo, hi, next, and what it is about.

    That is the weights, and the task's automaton.
    """
    stream = io.BytesIO()
    arrays: dict[str, Any] = {
        f"w/{name}": value.detach().cpu().numpy() for name, value in weights.items()
    }
    arrays |= {"task/start": np.array(machine.start, np.int32)}
    arrays |= {"task/edges": machine.table.astype(np.int32)}
    arrays |= {"task/answers": machine.targets.astype(np.int32)}
    arrays |= {"lo": boxes.lo, "hi": boxes.hi, "next": boxes.nodes.following}
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def arrays_record(content: bytes, file: Path) -> dict[str, str]:
    """Return what the certificate says of its arrays: the name beside it, and a digest."""
    return {"file": file.name, "sha256": hashlib.sha256(content).hexdigest()}
