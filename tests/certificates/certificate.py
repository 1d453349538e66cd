"""Certificates that tests make, change and have checked."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from lrbench.certificates import check
from lrbench.certificates.boxes import Boxes
from lrbench.certificates.proof import arrays_bytes, find_proof
from lrbench.certificates.record import weights_digest
from lrbench.certificates.witness import SearchBudget
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.machine import Machine

from .exact import exact_blocks, exact_network

SMALL = SearchBudget(complete=3000, families=200, beam=10, longest=30)


def exact_of(kind: str, machine: Machine, gain: float) -> tuple[nn.Module, Any]:
    """Return a network that is right by construction: 'gru', 'elman x 2' (layers), 'blockdiag'."""
    name, _, layers = kind.partition(" x ")
    if name == "blockdiag":
        return exact_blocks(machine)
    if name == "lstm":
        gain *= 2  # its outputs are at most tanh(1)
    return exact_network(machine, gain, name, int(layers or 1))


def machine_of(name: str, modulus: int) -> Machine:
    machine = make_task(TASKS.get(name).config(modulus=modulus)).machine()
    assert machine is not None
    return machine


class Certificate:
    """A certificate on disk that tests change, with its digests made anew each time."""

    def __init__(
        self, folder: Path, task: str, modulus: int, gain: float = 2.0, kind: str = "rnn"
    ) -> None:
        """Prove the network of a task that is right by construction."""
        machine = machine_of(task, modulus)
        model, node = exact_of(kind, machine, gain)
        self.about(folder, task, modulus, model, dataclasses.asdict(node))
        self.prove(machine)

    def about(
        self, folder: Path, task: str, modulus: int, model: nn.Module, config: dict[str, Any]
    ) -> None:
        """Speak of these weights."""
        self.file, self.model, self.config = folder / "last.json", model, config
        self.arrays = {f"w/{k}": v.numpy().copy() for k, v in model.state_dict().items()}
        self.claim: dict[str, Any] = {
            "format": "lrbench-certificate",
            "version": 1,
            "verdict": "certified",
            "task": {"name": task, "settings": {"modulus": modulus}, "version": 1},
            "model": config,
            "arithmetic": check.ARITHMETIC,
            "weights_sha256": weights_digest(model.state_dict()),
        }

    def prove(self, machine: Machine, most_nodes: int = 20_000) -> bool:
        """Take the arrays of a proof of this machine; whether there is one."""
        proof = find_proof(self.model, self.config, machine, most_nodes)
        if proof.boxes is None:
            return False
        self.boxes: Boxes = proof.boxes
        with np.load(io.BytesIO(arrays_bytes(proof.boxes, self.model.state_dict()))) as stored:
            self.arrays = {name: stored[name].copy() for name in stored.files}
        return True

    def weights(self) -> dict[str, Any]:
        return {k.removeprefix("w/"): v for k, v in self.arrays.items() if k.startswith("w/")}

    def sign(self) -> None:
        """Take the digest of the weights as they are now."""
        self.claim["weights_sha256"] = check.digest(self.weights())

    def checked(self) -> dict[str, float]:
        arrays = self.file.with_name("last.npz")
        np.savez(arrays, **self.arrays)
        sha = hashlib.sha256(arrays.read_bytes()).hexdigest()
        self.file.write_text(
            json.dumps({**self.claim, "arrays": {"file": "last.npz", "sha256": sha}})
        )
        return check.check(self.file)
