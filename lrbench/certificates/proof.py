"""A proof for all lengths: boxes by growing memory, and the files that a stranger can check."""

from __future__ import annotations

import hashlib
import io
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from lrbench.certificates.boxes import BlownUp, Boxes, closed_boxes, nodes_of, stack_of
from lrbench.tasks.machine import Machine

MOST_NODES = 20_000


@dataclass
class ProofSearch:
    """What came of a search for boxes.

    boxes: closed ones, None where there are none. refusal: why none were sought. tried: the graphs
    that did not close, the last of them with what stands in the way.
    """

    boxes: Boxes | None = None
    refusal: str = ""
    tried: list[BlownUp] = field(default_factory=list)
    seconds: float = 0.0


def find_proof(
    model: nn.Module, config: dict[str, Any], machine: Machine, most_nodes: int = MOST_NODES
) -> ProofSearch:
    """Search for closed boxes, knowing the last 0, 1, 2, .. symbols, up to `most_nodes` nodes.

    With no nodes at all none are sought.

    config: the `model` node of the configuration. What is found is to be checked (check.py).
    """
    began = time.perf_counter()
    found = ProofSearch()
    net = stack_of(model, config)
    if isinstance(net, str):
        found.refusal = net
        return found
    depth, before = 0, 0
    if most_nodes < 1:
        return found
    while (nodes := nodes_of(machine, depth, most_nodes)) is not None:
        if len(nodes) == before:
            break  # the language is finite: longer memory adds nothing
        before = len(nodes)
        boxes = closed_boxes(net, machine, nodes)
        if isinstance(boxes, Boxes):
            found.boxes = boxes
            break
        found.tried.append(boxes)
        depth += 1
    found.seconds = time.perf_counter() - began
    return found


def arrays_bytes(boxes: Boxes, weights: dict[str, Any]) -> bytes:
    """Return the .npz of a proof: lo, hi, next and the weights it is about, without pickle."""
    stream = io.BytesIO()
    arrays = {f"w/{name}": value.detach().cpu().numpy() for name, value in weights.items()}
    arrays |= {"lo": boxes.lo, "hi": boxes.hi, "next": boxes.nodes.following}
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def arrays_record(content: bytes, file: Path) -> dict[str, str]:
    """Return what the certificate says of its arrays: the name beside it, and a digest."""
    return {"file": file.name, "sha256": hashlib.sha256(content).hexdigest()}
