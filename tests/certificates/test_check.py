"""Nothing unsound is accepted: damaged certificates, other weights, and models that are wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn

from lrbench.certificates import boxes as prover
from lrbench.certificates import check
from lrbench.certificates.boxes import Boxes, images, leads, nodes_of, stack_of
from lrbench.certificates.proof import arrays_bytes, find_proof
from lrbench.certificates.record import weights_digest
from lrbench.certificates.witness import SearchBudget, search
from lrbench.config import Config
from lrbench.models.build import build_model
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.machine import NOWHERE, Machine, explored

from .exact import exact_config, exact_rnn

SMALL = SearchBudget(complete=3000, families=200, beam=10, longest=30)


def machine_of(name: str, modulus: int) -> Machine:
    machine = make_task(TASKS.get(name).config(modulus=modulus)).machine()
    assert machine is not None
    return machine


class Certificate:
    """A certificate on disk that tests change, with its digests made anew each time."""

    def __init__(self, folder: Path, task: str, modulus: int, gain: float = 2.0) -> None:
        self.file = folder / "last.json"
        self.machine = machine_of(task, modulus)
        self.model, node = exact_rnn(self.machine, gain)
        proof = find_proof(self.model, dataclasses.asdict(node), self.machine)
        assert proof.boxes is not None
        self.boxes: Boxes = proof.boxes
        with np.load(io.BytesIO(arrays_bytes(proof.boxes, self.model.state_dict()))) as stored:
            self.arrays = {name: stored[name].copy() for name in stored.files}
        self.told: dict[str, Any] = {
            "format": "lrbench-certificate",
            "version": 1,
            "verdict": "certified",
            "task": {"name": task, "settings": {"modulus": modulus}, "version": 1},
            "model": dataclasses.asdict(node),
            "arithmetic": check.ARITHMETIC,
            "weights_sha256": weights_digest(self.model.state_dict()),
        }

    def weights(self) -> dict[str, Any]:
        return {k.removeprefix("w/"): v for k, v in self.arrays.items() if k.startswith("w/")}

    def sign(self) -> None:
        """Take the digest of the weights as they are now."""
        self.told["weights_sha256"] = check.digest(self.weights())

    def checked(self) -> dict[str, float]:
        arrays = self.file.with_name("last.npz")
        np.savez(arrays, **self.arrays)
        sha = hashlib.sha256(arrays.read_bytes()).hexdigest()
        self.file.write_text(
            json.dumps({**self.told, "arrays": {"file": "last.npz", "sha256": sha}})
        )
        return check.check(self.file)


@pytest.fixture
def sum5(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path, "sum", 5)


@pytest.mark.parametrize(
    ("task", "modulus", "gain", "units"),
    [("parity", 2, 2.0, 5), ("sum", 5, 2.0, 26), ("even_pair", 5, 2.0, 26), ("sum", 3, 2.5, 10)],
)
def test_a_constructed_network_is_certified(
    tmp_path: Path, task: str, modulus: int, gain: float, units: int
) -> None:
    mine = Certificate(tmp_path, task, modulus, gain)
    found = mine.checked()
    assert mine.arrays["lo"].shape == (found["nodes"], units)
    assert found["margin"] > 1
    assert mine.boxes.nodes.depth == 1
    assert search(mine.model, mine.machine, SMALL).witness is None


def test_a_smaller_gain_is_wrong_and_not_certified() -> None:
    machine = machine_of("sum", 5)
    model, node = exact_rnn(machine, 1.5)
    assert search(model, machine, SMALL).witness is not None
    proof = find_proof(model, dataclasses.asdict(node), machine, most_nodes=1000)
    assert proof.boxes is None
    assert [one.depth for one in proof.tried] == [0, 1, 2, 3]
    assert proof.tried[-1].word is not None


def narrower(mine: Certificate, part: float, node: int | None = None) -> None:
    """Cut boxes by a part of their width: all of them, or the widest side of one."""
    width = mine.arrays["hi"] - mine.arrays["lo"]
    if node is None:
        mine.arrays["hi"] -= part * width
        return
    side = int(width[node].argmax())
    mine.arrays["hi"][node, side] -= part * width[node, side]


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Certificate], None]:
    """Change an array and sign the weights again."""

    def damage(mine: Certificate) -> None:
        mine.arrays[name] = change(mine.arrays[name].copy())
        mine.sign()

    return damage


def put(name: str, place: Any, value: Any) -> Callable[[Certificate], None]:
    def damage(mine: Certificate) -> None:
        mine.arrays[name][place] = value

    return damage


def told(**news: Any) -> Callable[[Certificate], None]:
    return lambda mine: mine.told.update(news)


def exchanged(array: Any) -> Any:
    array[[0, 1]] = array[[1, 0]]
    return array


def noisy(array: Any) -> Any:
    generator = np.random.default_rng(0)
    return (array * (1 + 0.03 * generator.standard_normal(array.shape))).astype(np.float32)


OWN, HEAD = "w/mixers.0.network.weight_hh_l0", "w/head.0.weight"
DAMAGES: dict[str, tuple[Callable[[Certificate], None], str]] = {
    "a side cut by a fifth": (lambda mine: narrower(mine, 0.2, 7), "an image leaves its box"),
    "all boxes narrower": (lambda mine: narrower(mine, 0.02), "an image leaves its box"),
    "boxes are the cube": (
        lambda mine: mine.arrays.update(
            lo=np.full_like(mine.arrays["lo"], -1.1), hi=np.full_like(mine.arrays["hi"], 1.1)
        ),
        "right answer does not lead|variance may be rounding",
    ),
    "an infinite side": (put("hi", (3, 3), np.inf), "not finite"),
    "NaN": (put("lo", (3, 3), np.nan), "not finite"),
    "lo above hi": (put("lo", (3, 3), 2.0), "lo above hi"),
    "a successor exchanged": (
        lambda mine: mine.arrays["next"].__setitem__((9, 0), mine.arrays["next"][9, 1]),
        "two states of the task at one node",
    ),
    "all successors one": (changed("next", np.zeros_like), "two states of the task|at one node"),
    "a successor out of range": (put("next", (2, 2), 31), "no node"),
    "a successor -1": (put("next", (2, 2), -1), "no node"),
    "another start box": (
        lambda mine: (put("lo", 0, 0.5)(mine), put("hi", 0, 0.6)(mine))[0],
        "the start lies outside",
    ),
    "another modulus": (
        told(task={"name": "sum", "settings": {"modulus": 4}}),
        "successors of another shape",
    ),
    "another task": (
        told(task={"name": "even_pair", "settings": {"modulus": 5}}),
        "two states of the task",
    ),
    "an unknown task": (told(task={"name": "listops", "settings": {"modulus": 5}}), "not know"),
    "another model": (told(model={"name": "gru"}), "a model that this checker does not know"),
    "another arithmetic": (told(arithmetic={"unit": 2.0**-8}), "another arithmetic"),
    "no proof": (told(verdict="open"), "it proves nothing"),
    "an old digest": (put(OWN, (0, 0), 1e-3), "not those of the digest"),
    "half the recurrence": (changed(OWN, lambda a: a * np.float32(0.5)), "an image leaves"),
    "noisy weights": (changed(OWN, noisy), "an image leaves"),
    "rows of the head exchanged": (changed(HEAD, exchanged), "does not lead"),
    "a bias": (changed("w/head.0.bias", lambda a: a + np.eye(5)[2] * 200), "float32|not lead"),
    "a large bias": (
        changed("w/head.0.bias", lambda a: (a + np.eye(5)[2] * 200).astype(np.float32)),
        "does not lead",
    ),
    "a NaN weight": (changed(OWN, lambda a: a * np.float32("nan")), "not finite"),
    "weights of another type": (changed(OWN, lambda a: a.astype(np.float64)), "must be float32"),
    "boxes of another type": (changed("lo", lambda a: a.astype(np.float32)), "must be float64"),
    "another array": (lambda mine: mine.arrays.update({"w/more": np.ones(1, np.float32)}), "dige"),
    "numbers that overflow": (
        lambda mine: mine.arrays.update(
            lo=np.full_like(mine.arrays["lo"], -1e308), hi=np.full_like(mine.arrays["hi"], 1e308)
        ),
        "where no tanh is",
    ),
    "logits that overflow float32": (
        changed(HEAD, lambda a: a * np.float32(1e37)),
        "head.0.weight is too large",
    ),
    "a lead that flushed subnormals could take": (
        lambda mine: (
            changed(HEAD, lambda a: (a.astype(float) * 1e-37).astype(np.float32))(mine),
            changed("w/head.0.bias", lambda a: (a.astype(float) * 1e-37).astype(np.float32))(mine),
        )[0],
        "does not lead",
    ),
    "no layers": (
        lambda mine: mine.told.update(model={**mine.told["model"], "layers": 0}),
        "a number of layers that is none",
    ),
    "layers in words": (
        lambda mine: mine.told.update(model={**mine.told["model"], "layers": "one"}),
        "a number of layers that is none",
    ),
    "very many layers": (
        lambda mine: mine.told.update(model={**mine.told["model"], "layers": 10**12}),
        "a number of layers that is none",
    ),
    "a machine that takes all memory": (
        told(task={"name": "mod_arith", "settings": {"modulus": 1000}}),
        "successors of another shape",
    ),
    "settings that are none": (told(task={"name": "sum", "settings": 5}), "of another kind"),
    "a task of more classes": (
        lambda mine: (
            changed(HEAD, lambda a: a[:3])(mine),
            changed("w/head.0.bias", lambda a: a[:3])(mine),
        )[0],
        "another number of classes",
    ),
    "a scalar for a matrix": (changed(OWN, lambda a: a[0, 0]), "of another kind|fit"),
    "no boxes": (lambda mine: mine.arrays.__delitem__("lo"), "must be there"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_was_tampered_with_is_refused(sum5: Certificate, name: str) -> None:
    damage, why = DAMAGES[name]
    damage(sum5)
    with pytest.raises(check.Refused, match=why):
        sum5.checked()


def test_damaged_files_are_refused(sum5: Certificate) -> None:
    sum5.checked()
    arrays = sum5.file.with_name("last.npz")
    content, text = arrays.read_bytes(), sum5.file.read_text()
    for damaged in (b"", content[:1000], b"PK" + content[2:500]):
        arrays.write_bytes(damaged)
        sha = hashlib.sha256(damaged).hexdigest()
        signed = {**json.loads(text), "arrays": {"file": "last.npz", "sha256": sha}}
        sum5.file.write_text(json.dumps(signed))
        with pytest.raises(check.Refused):
            check.check(sum5.file)
    arrays.write_bytes(content)
    for bad in ("", "[]", text[:300], "[" * 100_000, '{"format": "lrbench-certificate"}'):
        sum5.file.write_text(bad)
        with pytest.raises(check.Refused):
            check.check(sum5.file)
    for name in ("../last.npz", "/etc/passwd", "last.json", "gone.npz"):
        sum5.file.write_text(
            json.dumps({**json.loads(text), "arrays": {"file": name, "sha256": ""}})
        )
        with pytest.raises(check.Refused):
            check.check(sum5.file)


def test_pickles_are_not_read(sum5: Certificate) -> None:
    sum5.arrays["lo"] = np.array([{"a": 1}], dtype=object)
    with pytest.raises(check.Refused, match="cannot be read"):
        sum5.checked()


def test_damaged_arrays_are_refused_whatever_a_parser_raises(sum5: Certificate) -> None:
    """An array's header of any shape or none, and every 97th byte changed: refused, or unharmed."""
    sum5.checked()
    arrays = sum5.file.with_name("last.npz")
    whole = arrays.read_bytes()
    for header in (b"{'descr': (", b"{'descr': '<f8', 'fortran_order': False, 'shape': (10**15,)}"):
        with zipfile.ZipFile(arrays, "w") as archive:
            length = len(header).to_bytes(2, "little")
            archive.writestr("lo.npy", b"\x93NUMPY\x01\x00" + length + header)
        resign(sum5.file, arrays)
        with pytest.raises(check.Refused):
            check.check(sum5.file)
    refused = 0
    for place in range(0, len(whole), 97):
        arrays.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        resign(sum5.file, arrays)
        try:
            check.check(sum5.file)
        except check.Refused:
            refused += 1
    assert refused > 100


def test_two_arrays_of_one_name_and_bombs_are_refused(sum5: Certificate) -> None:
    sum5.checked()
    arrays = sum5.file.with_name("last.npz")
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(arrays, "a") as archive,
    ):
        archive.writestr("lo.npy", b"")
    resign(sum5.file, arrays)
    with pytest.raises(check.Refused, match="two arrays of one name"):
        check.check(sum5.file)
    with zipfile.ZipFile(arrays, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lo.npy", bytes(check.MOST_BYTES + 1))
    resign(sum5.file, arrays)
    with pytest.raises(check.Refused, match="too large"):
        check.check(sum5.file)


def resign(file: Path, arrays: Path) -> None:
    content = json.loads(file.read_text())
    content["arrays"]["sha256"] = hashlib.sha256(arrays.read_bytes()).hexdigest()
    file.write_text(json.dumps(content))


def test_the_checker_needs_numpy_alone(sum5: Certificate, root: Path) -> None:
    sum5.checked()
    program = root / "lrbench" / "certificates" / "check.py"
    blocked = (
        "import runpy, sys\n"
        "for name in ('torch', 'lrbench', 'omegaconf', 'pandas', 'scipy', 'typer'):\n"
        "    sys.modules[name] = None\n"
        "sys.argv = ['check.py', sys.argv[2]]\n"
        f"runpy.run_path({str(program)!r}, run_name='__main__')\n"
    )
    command = [sys.executable, "-I", "-c", blocked, str(program), str(sum5.file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("holds: 31 nodes, least margin ")
    sum5.file.write_text("{}")
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and ended.stderr.startswith("refused: ")


def test_machines_of_the_checker_are_the_tasks() -> None:
    """Both were written from the definition; they answer alike on every word of up to 5 symbols."""
    for name, modulus in (("sum", 5), ("parity", 2), ("even_pair", 4), ("mod_arith", 3)):
        ours = machine_of(name, modulus)
        start, delta, answers = check.machine(
            {"name": name, "settings": {"modulus": modulus}}, ours.symbols
        )
        nodes = nodes_of(ours, 5, 100_000)
        assert nodes is not None
        states = {0: start}
        for node in range(len(nodes)):
            for symbol, to in enumerate(nodes.following[node]):
                theirs = delta[states[node]][symbol]
                assert (theirs is None) == (to == NOWHERE)
                if theirs is not None and to != NOWHERE:
                    assert states.setdefault(int(to), theirs) == theirs
                    assert answers[theirs] == ours.answers[nodes.states[to]]


def random_net(seed: int, units: int, layers: int, symbols: int, scale: float) -> tuple[Any, Any]:
    node = exact_config(units)
    node.layers = layers
    model = build_model(Config(model=node), symbols, symbols, seed=seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "network" in name:
                parameter *= scale
    return model.eval(), node


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_images_hold_what_float32_makes(layers: int) -> None:
    """Both image codes agree, and hold 20,000 states each of random boxes, corners included."""
    model, node = random_net(1, units=6, layers=layers, symbols=3, scale=2.0)
    net = stack_of(model, dataclasses.asdict(node))
    assert not isinstance(net, str)
    weights = {k: v.numpy() for k, v in model.state_dict().items()}
    layers_there, head = check._network(
        {"model": dataclasses.asdict(node), "arithmetic": check.ARITHMETIC}, weights
    )
    rng = np.random.default_rng(0)
    for _ in range(10):
        middle, radius = rng.uniform(-1, 1, (1, 6 * layers)), 10.0 ** rng.uniform(-7, -0.3)
        lo, hi = middle - radius, middle + radius
        states = lo + (hi - lo) * rng.random((20_000, 6 * layers))
        states[:5000] = np.where(rng.random((5000, 6 * layers)) < 0.5, lo, hi)
        inside = torch.from_numpy(states).float()
        inside = inside[
            ((inside >= torch.from_numpy(lo)) & (inside <= torch.from_numpy(hi))).all(1)
        ]
        assert len(inside) > 1000 or radius < 1e-6
        carried = list(inside.split(6, dim=1))
        for symbol in range(3):
            ours = images(net, symbol, lo, hi)
            theirs = check.image(layers_there, symbol, (lo, hi))
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)
            if not len(inside):
                continue
            tokens = torch.full((len(inside), 1), symbol)
            with torch.no_grad():
                logits, after = model(tokens, carried, read="last")
            after = torch.cat(after, 1).double().numpy()
            assert (theirs[0] <= after).all() and (after <= theirs[1]).all()
            # and the margin is below every lead that the model computes on the box it was given
            box = theirs[0][:, -6:], theirs[1][:, -6:]
            for answer in range(3):
                least = check.margin(head, answer, box)
                others = logits.double().clone()
                others[:, answer] = -np.inf
                lead = logits[:, answer].double() - others.max(1).values
                assert least <= float(lead.min())
                near = leads(net, np.array([answer]), *theirs)
                if least > 0:
                    assert least <= near[0] + 1e-9


def test_what_is_accepted_is_right(tmp_path: Path) -> None:
    """Random small networks, as tasks of their own: what the checker accepts is right on all words.

    The task is the machine that a network seems to be on words of up to 3 symbols, the last 3 of
    them for states: right for a network that forgets, wrong for one that does not.
    """
    verdicts = [own_machine(seed, tmp_path) for seed in range(40)]
    assert verdicts.count("accepted") > 5
    assert verdicts.count("wrong") > 5
    assert "accepted though wrong" not in verdicts


def own_machine(seed: int, folder: Path) -> str:
    """Whether a random network is certified as the machine that it seems to be, and is wrong."""
    rng = np.random.default_rng(seed)
    model, node = random_net(
        seed, units=int(rng.integers(2, 5)), layers=1, symbols=2, scale=float(rng.uniform(0.5, 6))
    )

    def answer(word: tuple[int, ...]) -> int | None:
        with torch.no_grad():
            return int(model(torch.tensor([word]))[0][0, -1].argmax()) if word else None

    machine = explored((), 2, lambda word, s: (*word, s)[-3:], answer)
    tokens = torch.from_numpy(rng.integers(0, 2, (2000, 200)))
    with torch.no_grad():
        answers = model(tokens)[0].argmax(-1)
    wrong = search(model, machine, SMALL).witness is not None
    states, table, asked = np.zeros(len(tokens), int), machine.table, machine.asked
    for place in range(tokens.shape[1]):
        states = table[states, tokens[:, place].numpy()]
        wrong = wrong or bool((asked[states] != answers[:, place].numpy()).any())
    accepted = False
    proof = find_proof(model, dataclasses.asdict(node), machine, most_nodes=200)
    if proof.boxes is not None:
        content = arrays_bytes(proof.boxes, model.state_dict())
        (folder / "last.npz").write_bytes(content)
        told = {
            "format": "lrbench-certificate",
            "version": 1,
            "verdict": "certified",
            "task": {},
            "model": dataclasses.asdict(node),
            "arithmetic": check.ARITHMETIC,
            "weights_sha256": weights_digest(model.state_dict()),
            "arrays": {"file": "last.npz", "sha256": hashlib.sha256(content).hexdigest()},
        }
        (folder / "last.json").write_text(json.dumps(told))
        known = (machine.start, machine.delta, machine.answers)
        with mock.patch.object(check, "machine", return_value=known):
            try:
                check.check(folder / "last.json")
                accepted = True
            except check.Refused:
                accepted = False
    return {
        (True, False): "accepted",
        (False, True): "wrong",
        (False, False): "open",
        (True, True): "accepted though wrong",
    }[accepted, wrong]


def test_a_proof_without_rounding_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boxes that are exactly the images of real arithmetic leave float32 no room."""
    monkeypatch.setattr(prover, "UNIT", 0.0)
    monkeypatch.setattr(prover, "SLACK", 0.0)
    monkeypatch.setattr(prover, "RELATIVE_SLACK", 0.0)
    monkeypatch.setattr(prover, "WIDEN_BY", 0.0)
    monkeypatch.setattr(prover, "WIDEN_LEAST", 0.0)
    mine = Certificate(tmp_path, "parity", 2, gain=4.0)
    with pytest.raises(check.Refused, match="an image leaves its box"):
        mine.checked()


def test_no_model_with_a_known_mistake_is_certified(tmp_path: Path) -> None:
    """Weights on the line from right to wrong: where a search finds a string, no proof is taken."""
    machine = machine_of("sum", 3)
    right, node = exact_rnn(machine, 2.5)
    wrong, _ = exact_rnn(machine, 1.0)
    config = dataclasses.asdict(node)
    good, bad = right.state_dict(), wrong.state_dict()
    verdicts = []
    for step in range(21):
        part = step / 20
        model: nn.Module = exact_rnn(machine, 2.5)[0]
        model.load_state_dict({k: (1 - part) * good[k] + part * bad[k] for k in good})
        erring = search(model, machine, SMALL).witness is not None
        mine = Certificate(tmp_path, "sum", 3, gain=2.5)
        for name, value in model.state_dict().items():
            mine.arrays[f"w/{name}"] = value.numpy()
        mine.sign()
        proof = find_proof(model, config, machine, most_nodes=2000)
        if proof.boxes is not None:
            mine.arrays |= {
                "lo": proof.boxes.lo,
                "hi": proof.boxes.hi,
                "next": proof.boxes.nodes.following,
            }
        try:
            accepted = mine.checked()["margin"] > 0
        except check.Refused:
            accepted = False
        assert not (accepted and erring)
        verdicts.append((accepted, erring))
    assert verdicts[0] == (True, False)
    assert verdicts[-1] == (False, True)


def test_a_head_of_classes_that_the_task_has_not_is_refused_at_once(tmp_path: Path) -> None:
    """Every answer is held against every class: a million of them would take for ever."""
    certificate = Certificate(tmp_path, "sum", 3)
    for part in ("w/head.0.weight", "w/head.0.bias"):
        whole = certificate.arrays[part]
        certificate.arrays[part] = np.concatenate([whole, whole - 1])
    certificate.sign()
    with pytest.raises(check.Refused, match="another number of classes"):
        certificate.checked()


@pytest.mark.parametrize("name", ["a pipe", "/dev/zero"])
def test_what_is_no_plain_file_is_not_read(tmp_path: Path, name: str) -> None:
    file = tmp_path / name  # an absolute name stands for itself
    if not file.exists():
        os.mkfifo(file)
    with pytest.raises(check.Refused, match="no plain file"):
        check.check(file)
