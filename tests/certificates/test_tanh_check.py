"""The checker in one file: it accepts what the other one accepts, and nothing that was changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lrbench.certificates import check, tanh_check
from lrbench.tasks.machine import Machine

from .certificate import Certificate, machine_of
from .test_check import DAMAGES

KINDS = [("sum", 5, "rnn"), ("sum", 3, "elman x 2"), ("parity", 2, "rnn"), ("even_pair", 3, "rnn")]


@pytest.mark.parametrize(("task", "modulus", "kind"), KINDS)
def test_the_two_checkers_agree(task: str, modulus: int, kind: str, tmp_path: Path) -> None:
    """On boxes, on a least margin, and on the automaton, which neither takes from the other."""
    mine = Certificate(tmp_path, task, modulus, kind=kind, gain=2.5)
    found = mine.checked()
    said = tanh_check.check(mine.file)
    assert f"{found['nodes']:,} boxes" in said
    assert float(said.rpartition("by ")[2]) == pytest.approx(found["margin"], rel=0.02)
    edges, answers = tanh_check.automaton(mine.claim["task"])
    machine = machine_of(task, modulus)
    other = check.Automaton(0, [list(row) for row in edges], answers)
    assert check.same_language(other, _as_automaton(machine))


def _as_automaton(machine: Machine) -> check.Automaton:
    edges = [list(row) for row in machine.delta]
    return check.Automaton(machine.start, edges, list(machine.answers))


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_what_was_tampered_with_is_refused(tmp_path: Path, name: str) -> None:
    mine = Certificate(tmp_path, "sum", 5)
    DAMAGES[name][0](mine)
    with pytest.raises(check.Refused):
        mine.checked()  # writes the file as well
    with pytest.raises((ValueError, KeyError, TypeError, IndexError, AttributeError)):
        tanh_check.check(mine.file)


def test_images_hold_what_float32_computes(tmp_path: Path) -> None:
    """In both orders of a sum: states drawn from the boxes, by every symbol."""
    mine = Certificate(tmp_path, "sum", 5, kind="elman x 2", gain=2.5)
    net = tanh_check.network(mine.claim["model"], mine.weights())
    lo, hi = mine.arrays["lo"], mine.arrays["hi"]
    draws = np.random.default_rng(0).uniform(lo, hi, (20, *lo.shape)).astype(np.float32)
    draws = np.clip(draws, lo.astype(np.float32), hi.astype(np.float32))
    for symbol in range(5):
        low, high = tanh_check.image(net, symbol, lo, hi)
        for state in draws:
            for order in (1, -1):
                after, below, at = [], net["symbols"][symbol].astype(np.float32), 0
                for parts in net["layers"]:
                    w, u, b, c = (part.astype(np.float32) for part in parts)
                    x = np.concatenate(
                        [
                            np.broadcast_to(below, (len(state), w.shape[1])),
                            state[:, at : at + len(u)],
                        ],
                        1,
                    )[:, ::order]
                    both = np.concatenate([w, u], 1)[:, ::order]
                    at += len(u)
                    below = np.tanh(np.cumsum(x[:, None] * both, 2)[:, :, -1] + b + c)
                    after.append(below)
                there = np.concatenate(after, 1)
                assert (low <= there).all() and (there <= high).all()


def test_it_is_one_file_that_needs_numpy_alone(tmp_path: Path) -> None:
    mine = Certificate(tmp_path, "parity", 2)
    mine.checked()
    alone = shutil.copy(tanh_check.__file__, tmp_path / "anywhere.py")
    command = [sys.executable, "-I", str(alone), str(mine.file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "right on every string" in done.stdout, done.stderr
    imported = [
        line.split()[1]
        for line in Path(alone).read_text().splitlines()
        if line.startswith(("import ", "from "))
    ]
    assert set(imported) == {"__future__", "hashlib", "json", "sys", "pathlib", "typing", "numpy"}
    mine.file.write_text(mine.file.read_text().replace("certified", "open"))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("refused: "), done
