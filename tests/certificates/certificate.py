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
from lrbench.certificates.record import proof_record, search_record, weights_digest
from lrbench.certificates.witness import SearchBudget, WitnessSearch
from lrbench.records import recorded
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


Settings = int | dict[str, Any]  # of a task; a number is its modulus


def machine_of(name: str, settings: Settings) -> Machine:
    machine = make_task(config_of(name, settings)).machine()
    assert machine is not None
    return machine


def claimed(name: str, settings: Settings) -> dict[str, Any]:
    """Return what a certificate says of a task."""
    written = recorded(config_of(name, settings))
    return {"name": written.pop("name"), "settings": written, "version": 1}


def config_of(name: str, settings: Settings) -> Any:
    return TASKS.get(name).config(
        **({"modulus": settings} if isinstance(settings, int) else settings)
    )


class Certificate:
    """A certificate on disk that tests change, with its digests made anew each time."""

    def __init__(
        self, folder: Path, task: str, settings: Settings, gain: float = 2.0, kind: str = "rnn"
    ) -> None:
        """Prove the network of a task that is right by construction."""
        machine = machine_of(task, settings)
        model, node = exact_of(kind, machine, gain)
        self.about(folder, task, settings, model, dataclasses.asdict(node))
        self.prove(machine)

    def about(
        self, folder: Path, task: str, settings: Settings, model: nn.Module, config: dict[str, Any]
    ) -> None:
        """Speak of these weights, as `lrbench certify` does."""
        self.file, self.model, self.config = folder / "last.json", model, config
        self.arrays = {f"w/{k}": v.numpy().copy() for k, v in model.state_dict().items()}
        self.claim: dict[str, Any] = {
            "format": "lrbench-certificate",
            "version": 1,
            "verdict": "certified",
            "task": claimed(task, settings),
            "which": "last",
            "step": 600,
            "seed": 0,
            "dtype": "float32",
            "witness": None,
            "lrbench": "0.1.0",
            "date": "2026-01-01T00:00:00+00:00",
            "model": config,
            "arithmetic": check.ARITHMETIC,
            "weights_sha256": weights_digest(model.state_dict()),
        }

    def prove(self, machine: Machine, most_nodes: int = 20_000) -> bool:
        """Take the arrays of a proof of this machine; whether there is one."""
        proof = find_proof(self.model, self.config, machine, most_nodes)
        if proof.boxes is None:
            return False
        task = make_task(TASKS.get("parity").config())  # names the symbols of a string: none here
        self.claim["searched"] = search_record(task, WitnessSearch(budget=SMALL))
        self.claim["proof"] = proof_record(task, proof, None)
        self.boxes: Boxes = proof.boxes
        with np.load(
            io.BytesIO(arrays_bytes(proof.boxes, self.model.state_dict(), machine))
        ) as stored:
            self.arrays = {name: stored[name].copy() for name in stored.files}
        return True

    def weights(self) -> dict[str, Any]:
        return {k.removeprefix("w/"): v for k, v in self.arrays.items() if k.startswith("w/")}

    def sign(self) -> None:
        """Take the digest of the weights as they are now."""
        self.claim["weights_sha256"] = check.digest(self.weights())

    def checked(self) -> dict[str, Any]:
        arrays = self.file.with_name("last.npz")
        np.savez(arrays, **self.arrays)
        sha = hashlib.sha256(arrays.read_bytes()).hexdigest()
        self.file.write_text(
            json.dumps({**self.claim, "arrays": {"file": "last.npz", "sha256": sha}})
        )
        return check.check(self.file)
