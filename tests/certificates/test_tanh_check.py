"""The checker in one file: it bounds what float32 computes, and believes nothing else."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lrbench.certificates import check, tanh_check

from .certificate import Certificate, machine_of
from .in_float32 import Shuffled
from .test_check import DAMAGES, HEAD, OWN, changed, put

KINDS = [("sum", 5, "rnn"), ("sum", 3, "elman x 2"), ("parity", 2, "rnn"), ("even_pair", 3, "rnn")]


@pytest.mark.parametrize(("task", "modulus", "kind"), KINDS)
def test_the_two_checkers_agree(task: str, modulus: int, kind: str, tmp_path: Path) -> None:
    """On boxes, on the least lead, and on the automaton, which neither takes from the other."""
    mine = Certificate(tmp_path, task, modulus, kind=kind, gain=2.5)
    found = mine.checked()
    said = tanh_check.check(mine.file)
    assert said.startswith(f"{found['nodes']:,} boxes") and found["weights"] in said
    for part in ("task", "model"):
        assert json.dumps(mine.claim[part]) in said
    told = re.search(r"by at least (\S+) between", said)
    assert told and 0 <= found["margin"] - float(told[1]) < 2e-3 * found["margin"] + 1e-3
    edges, answers = tanh_check.automaton(mine.claim["task"])
    made = check.Automaton(0, [list(row) for row in edges], answers)
    machine = machine_of(task, modulus)
    rows = [list(row) for row in machine.delta]
    assert check.same_language(made, check.Automaton(machine.start, rows, list(machine.answers)))


class Random:
    """A network of random weights, some units near the ends of tanh, in both forms."""

    def __init__(self, seed: int, units: int = 5, classes: int = 3) -> None:
        rng = np.random.default_rng(seed)
        shapes = {"embedding.weight": (4, units)}
        for i in range(2):
            at = f"mixers.{i}.network."
            shapes |= {f"{at}weight_ih_l0": (units, units), f"{at}weight_hh_l0": (units, units)}
            shapes |= {f"{at}bias_ih_l0": (units,), f"{at}bias_hh_l0": (units,)}
        shapes |= {"norm.weight": (units,), "norm.bias": (units,)}
        shapes |= {"head.0.weight": (classes, units), "head.0.bias": (classes,)}
        size = 10.0 ** rng.integers(-1, 2)
        weights = {k: (size * rng.standard_normal(v)).astype(np.float32) for k, v in shapes.items()}
        mixer = {"units": None, "noise": 0.0, "nonlinearity": "tanh", "init": "random"}
        stack = {"name": "bare", "norm": True, "hidden": 0, "embed": "embedding"}
        model = {"name": "rnn", "width": units, "layers": 2, "backbone": stack, "mixer": mixer}
        self.rng, self.classes = rng, classes
        self.net = tanh_check.network(model, weights)
        self.float32 = Shuffled("rnn", weights, seed)

    def boxes(self, size: int, width: float) -> tuple[Any, Any]:
        """Return boxes (9, size) between numbers of float32."""
        lo = self.rng.uniform(-1, 1 - width, (9, size)).astype(np.float32)
        return lo.astype(float), (lo + np.float32(width) * (self.rng.random((9, size)) < 0.7)) * 1.0


@pytest.mark.parametrize("width", [0.0, 1e-6, 0.3])
def test_images_hold_what_float32_computes(width: float) -> None:
    """Of points, where rounding is all there is, and at corners of wide boxes."""
    for seed in range(12):
        mine = Random(seed)
        lo, hi = mine.boxes(10, width)
        for symbol in range(4):
            low, high = tanh_check.image(mine.net, symbol, lo, hi)
            for _ in range(8):
                state = np.where(mine.rng.random(lo.shape) < 0.5, lo, hi).astype(np.float32)
                layers = [state[:, :5], state[:, 5:]]
                _, after = mine.float32.step(np.full(len(lo), symbol), layers)
                there = np.concatenate(after, 1)
                assert (low <= there).all() and (there <= high).all(), (seed, symbol)


@pytest.mark.parametrize("width", [0.0, 1e-3, 0.3])
def test_a_lead_is_no_larger_than_float32_has_it(width: float) -> None:
    """At every corner of boxes, in sums of any order; of points the bound is close as well."""
    for seed in range(12):
        mine = Random(seed)
        lo, hi = mine.boxes(5, width)
        for answer in range(mine.classes):
            for box in range(len(lo)):
                least = np.inf
                bound = tanh_check.lead(mine.net, answer, lo[[box]], hi[[box]])
                for chosen in itertools.product((False, True), repeat=5 if width else 1):
                    h = np.where(chosen, hi[[box]], lo[[box]]).astype(np.float32)
                    for _ in range(1 if width else 6):
                        logits = mine.float32._head(h)[0].astype(float)
                        least = min(least, logits[answer] - np.delete(logits, answer).max())
                assert bound <= least, (seed, answer, box)
                if not width:
                    assert least - bound < 0.02 * (1 + np.abs(logits).max()), (seed, answer, box)


def said(**news: Any) -> Callable[[Certificate], None]:
    """Change parts of a claim: {"model": {"layers": True}} that one setting."""

    def damage(mine: Certificate) -> None:
        for part, inner in news.items():
            before = mine.claim.get(part)
            mine.claim[part] = {**before, **inner} if isinstance(before, dict) else inner

    return damage


def more_nodes(mine: Certificate) -> None:
    for name in ("lo", "hi", "next"):
        mine.arrays[name] = np.concatenate([mine.arrays[name], mine.arrays[name][-1:]])


def cut(name: str, part: float) -> Callable[[Certificate], None]:
    """Move the lower or the upper sides of all boxes but the first towards their middles."""

    def damage(mine: Certificate) -> None:
        mine.arrays[name][1:] += part * (mine.arrays["hi"] - mine.arrays["lo"])[1:]

    return damage


def norm_of(mine: Certificate, **settings: Any) -> None:
    mine.claim["model"] = {
        **mine.claim["model"],
        "backbone": {**mine.claim["model"]["backbone"], **settings},
    }


def mixer_of(mine: Certificate, **settings: Any) -> None:
    mine.claim["model"] = {
        **mine.claim["model"],
        "mixer": {**mine.claim["model"]["mixer"], **settings},
    }


MINE: dict[str, tuple[Callable[[Certificate], None], str]] = {
    "the start moved below zero": (
        lambda mine: (put("lo", 0, -0.002)(mine), put("hi", 0, -0.001)(mine))[0],
        "the start lies outside",
    ),
    "the start moved above zero": (
        lambda mine: (put("lo", 0, 0.001)(mine), put("hi", 0, 0.002)(mine))[0],
        "the start lies outside",
    ),
    "lower sides cut": (cut("lo", 0.02), "an image leaves"),
    "upper sides cut": (cut("hi", -0.02), "an image leaves"),
    "the cube": (DAMAGES["boxes are the cube"][0], "a variance that may be rounding"),
    "beyond the cube": (DAMAGES["numbers that overflow"][0], "boxes that are none"),
    "lo above hi": (DAMAGES["lo above hi"][0], "boxes that are none"),
    "a node's state": (DAMAGES["a successor exchanged"][0], "two states of the task"),
    "a successor -1": (put("next", (2, 2), -1), "no node"),
    "a successor too large": (put("next", (2, 2), 10_000), "no node"),
    "nodes that nothing leads to": (more_nodes, "nodes that no string leads to"),
    "rows of the head exchanged": (DAMAGES["rows of the head exchanged"][0], "does not lead"),
    "one class more": (
        lambda mine: (
            changed(HEAD, lambda a: np.concatenate([a, a[:1]]))(mine),
            changed("w/head.0.bias", lambda a: np.concatenate([a, a[:1] - 900]))(mine),
        )[0],
        "other classes",
    ),
    "an old digest": (put(OWN, (0, 0), 1e-3), "the weights are not those"),
    "a weight more": (
        lambda mine: (mine.arrays.update({"w/more": np.ones((1, 1), np.float32)}), mine.sign())[0],
        "weights of another model",
    ),
    "nan": (changed(OWN, lambda a: a * np.float32("nan")), "no float32 numbers"),
    "float64": (changed(OWN, lambda a: a.astype(float)), "no float32 numbers"),
    "a large weight": (changed("w/head.0.bias", lambda a: a + np.float32(1e7)), "too large"),
    "a bias of two axes": (changed("w/head.0.bias", lambda a: a[None]), "has 2 axes"),
    "a matrix of one axis": (changed(OWN, lambda a: a[0]), "has 1 axes"),
    "more columns": (changed(OWN, lambda a: np.concatenate([a, a], 1)), "other units"),
    "a longer bias": (
        changed("w/mixers.0.network.bias_hh_l0", lambda a: np.concatenate([a, a])),
        "other units",
    ),
    "a shorter norm": (changed("w/norm.bias", lambda a: a[:1]), "a norm that does not fit"),
    "a shorter bias": (changed("w/head.0.bias", lambda a: a[:1]), "a head that does not fit"),
    "another type of boxes": (changed("lo", lambda a: a.astype(np.float32)), "another type"),
    "other boxes": (changed("lo", lambda a: a[:, :-1]), "another shape"),
    "one symbol more": (changed("next", lambda a: a[:, [0, *range(5)]]), "number of symbols"),
    "relu": (lambda mine: mixer_of(mine, nonlinearity="relu"), "the curve 'relu'"),
    "another mixer": (lambda mine: mixer_of(mine, gate=True), "other settings of the mixer"),
    "no norm": (lambda mine: norm_of(mine, norm=False), "another stack"),
    "a hidden layer": (lambda mine: norm_of(mine, hidden=8), "another stack"),
    "symbols": (lambda mine: norm_of(mine, embed="learned"), "symbols by 'learned'"),
    "layers": (said(model={"layers": True}), "True layers"),
    "a setting of the model": (said(model={"quantised": "int8"}), "other settings"),
    "another model": (said(model={"name": "gru"}), "model 'gru'"),
    "a task that says more": (said(task={"also": "S5"}), "another task"),
    "a setting of the task": (said(task={"settings": {"modulus": 5, "n": 1}}), "other settings"),
    "another version of the task": (said(task={"version": 2}), "another task"),
    "parity of five": (said(task={"name": "parity"}), "parity modulo 5"),
    "an unknown task": (said(task={"name": "group"}), "task 'group'"),
    "no width": (said(model={"width": 0}), "a width of 0"),
    "TF32": (said(arithmetic={"tf32": True}), "another arithmetic"),
    "bfloat16": (said(arithmetic={"unit": 2.0**-8}), "another arithmetic"),
    "no proof": (said(verdict="open"), "it claims no proof"),
    "half": (said(dtype="float16"), "it claims no proof"),
    "a wrong string": (said(witness={"string": "0"}), "a string that is wrong"),
    "another format": (said(version=2), "another format"),
}


@pytest.mark.slow
def test_what_was_tampered_with_is_refused_by_the_check_that_is_there_for_it(
    tmp_path: Path,
) -> None:
    for number, (damage, why) in enumerate(MINE.values()):
        (folder := tmp_path / str(number)).mkdir()
        mine = Certificate(folder, "sum", 5)
        damage(mine)
        with pytest.raises(check.Refused):  # writes the file as well
            mine.checked()
        with pytest.raises(ValueError, match=re.escape(why)):
            tanh_check.check(mine.file)


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_what_the_other_checker_refuses_is_refused(tmp_path: Path, name: str) -> None:
    mine = Certificate(tmp_path, "sum", 5)
    DAMAGES[name][0](mine)
    with pytest.raises(check.Refused):
        mine.checked()
    with pytest.raises((ValueError, KeyError, TypeError, IndexError, AttributeError)):
        tanh_check.check(mine.file)


@pytest.mark.parametrize("verdict", ["wrong", "open"])
def test_a_certificate_that_is_no_proof(tmp_path: Path, verdict: str) -> None:
    """It has no arrays."""
    claim = {"format": "lrbench-certificate", "version": 1, "verdict": verdict}
    (tmp_path / "last.json").write_text(json.dumps(claim))
    with pytest.raises(ValueError, match="it claims no proof"):
        tanh_check.check(tmp_path / "last.json")


@pytest.mark.parametrize("arguments", [(), ("a.json", "b.json")])
def test_how_it_is_called(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-I", str(tanh_check.__file__), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    usage = "usage: python tanh_check.py certificates/last.json\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", usage)


def test_it_is_one_file_that_needs_numpy_alone(tmp_path: Path) -> None:
    mine = Certificate(tmp_path, "parity", 2)
    mine.checked()
    alone = shutil.copy(tanh_check.__file__, tmp_path / "anywhere.py")
    command = [sys.executable, "-I", str(alone), str(mine.file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "the right answer to every string" in done.stdout, done.stderr
    imported = re.findall(r"^(?:from|import) (\w+)", Path(alone).read_text(), re.M)
    assert set(imported) == {
        *("__future__", "hashlib", "io", "json", "numpy", "pathlib", "sys", "typing")
    }
    mine.arrays["w/\r\x1b[2Kright"] = np.ones(1, np.float32)
    with pytest.raises(check.Refused):
        mine.sign()
        mine.checked()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("refused: "), done
    assert "\x1b" not in done.stderr  # nothing of a file reaches a terminal as it stands
