"""What a run's folder keeps of earlier searches: proofs that still hold, of the same weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from lrbench.registry import TASKS
from lrbench.runs.evaluate.kept import known_proof
from lrbench.tasks import make_task
from tests.certificates.test_check import Certificate


def test_a_proof_that_still_holds_is_kept(tmp_path: Path) -> None:
    """A search that seeks none, or finds none, does not take it away."""
    certificate = Certificate(tmp_path, "parity", 2)
    certificate.checked()
    subject: Any = certificate.claim
    machine = make_task(TASKS.get("parity").config()).machine()
    assert machine is not None
    kept = known_proof(certificate.file, subject, machine)
    assert (
        set(kept) == {"verdict", "proof", "arithmetic", "arrays"} and kept["verdict"] == "certified"
    )
    for part, value in (("weights_sha256", "0" * 64), ("task", {}), ("model", {})):
        assert known_proof(certificate.file, subject | {part: value}, machine) == {}
    another = replace(machine, answers=machine.answers[::-1])
    assert known_proof(certificate.file, subject, another) == {}
    arrays = certificate.file.with_name("last.npz")
    arrays.write_bytes(arrays.read_bytes()[:-1])
    assert known_proof(certificate.file, subject, machine) == {}
    assert known_proof(tmp_path / "none.json", subject, machine) == {}
