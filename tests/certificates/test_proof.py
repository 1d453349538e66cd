"""Proofs are found where they can be, by few boxes, and elsewhere it is said why not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lrbench.certificates import check
from lrbench.certificates.boxes import BlownUp, Boxes, closed_boxes
from lrbench.certificates.graphs import gathered_graph, suffix_graph
from lrbench.certificates.images import Cells, cells_of, images
from lrbench.certificates.proof import DISTANCES, find_proof
from lrbench.certificates.record import proof_record
from lrbench.config import Config
from lrbench.models.build import build_model
from lrbench.registry import TASKS
from lrbench.schema import model_node
from lrbench.tasks import make_task
from lrbench.tasks.machine import NOWHERE

from .certificate import Certificate, machine_of
from .exact import exact_blocks, exact_network

WITHIN = 1e-3
KINDS = ("rnn", "rnn x 3", "elman", "elman x 2", "gru", "gru x 2", "lstm", "lstm x 2", "blockdiag")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("task", "modulus", "gain", "nodes", "exact"),
    [("parity", 2, 2.0, 7, 2), ("sum", 5, 2.0, 31, 5), ("even_pair", 5, 2.0, 31, 11)],
)
def test_a_constructed_network_is_certified(
    tmp_path: Path, task: str, modulus: int, gain: float, nodes: int, exact: int, kind: str
) -> None:
    mine = Certificate(tmp_path, task, modulus, gain, kind)
    found = mine.checked()
    assert found["nodes"] == (exact if kind == "blockdiag" else nodes)
    assert found["margin"] > 1
    # and a checker that is told of other weights, or of another network, takes none of it
    name = "mixers.0.transition.0.weight" if kind == "blockdiag" else "head.0.weight"
    whole = mine.arrays[f"w/{name}"].copy()
    mine.arrays[f"w/{name}"] = np.roll(whole, 1, axis=0)
    mine.sign()
    with pytest.raises(check.Refused, match=r"an image leaves|does not lead"):
        mine.checked()
    mine.arrays[f"w/{name}"] = whole
    mine.sign()
    mine.claim["model"] = {**mine.config, "layers": mine.config["layers"] + 1}
    with pytest.raises(check.Refused, match=r"another kind|of another model|another size"):
        mine.checked()


@pytest.mark.parametrize("kind", ["elman", "gru", "lstm", "gru x 2"])
def test_boxes_of_every_cell_that_were_cut_are_refused(tmp_path: Path, kind: str) -> None:
    mine = Certificate(tmp_path, "sum", 5, 2.0, kind)
    lo, hi = mine.arrays["lo"].copy(), mine.arrays["hi"].copy()
    for node in range(1, len(lo), 7):
        side = int((hi - lo)[node].argmax())
        mine.arrays["hi"][node, side] -= 0.7 * (hi - lo)[node, side]
        with pytest.raises(check.Refused, match="an image leaves its box"):
            mine.checked()
        mine.arrays["hi"] = hi.copy()
    own = "w/mixers.0.matrix" if kind == "elman" else "w/mixers.0.network.weight_hh_l0"
    mine.arrays[own] *= np.float32(0.5)
    mine.sign()
    with pytest.raises(check.Refused, match="an image leaves its box"):
        mine.checked()


def test_an_lstm_that_keeps_some_of_its_c_is_certified() -> None:
    """c' = 0.2 c + g is restored by what is written, so errors fade; c' = c + g has no bound."""
    machine = machine_of("sum", 5)
    model, node = exact_network(machine, 5.0, "lstm", keep=0.2)
    proof = find_proof(model, dataclasses.asdict(node), machine)
    assert proof.boxes is not None and proof.boxes.hi.max() > 1.1  # c beyond what one g writes
    with torch.no_grad():
        model.mixers[0].network.bias_ih_l0[26:52] = 20.0  # type: ignore[union-attr, index]
    proof = find_proof(model, dataclasses.asdict(node), machine, most_nodes=200)
    assert proof.boxes is None
    assert any("has no bound, its forget gate reaching one" in one.cause for one in proof.tried)


def test_a_gru_that_keeps_its_errors_is_reported() -> None:
    machine = machine_of("parity", 2)
    model, node = exact_network(machine, 2.0, "gru")
    with torch.no_grad():
        model.mixers[0].network.bias_ih_l0[5] = 20.0  # type: ignore[union-attr, index]
        model.mixers[0].network.bias_ih_l0[6] = 20.0  # type: ignore[union-attr, index]
    proof = find_proof(model, dataclasses.asdict(node), machine, most_nodes=200)
    assert proof.boxes is None and proof.tried[-1].word is not None


def test_a_smaller_gain_is_open() -> None:
    machine = machine_of("sum", 5)
    model, node = exact_network(machine, 1.5)
    proof = find_proof(model, dataclasses.asdict(node), machine, most_nodes=1000)
    assert proof.boxes is None
    assert [one.nodes.depth for one in proof.tried if one.nodes.within is None] == [0, 1, 2, 3]
    gathered = [one.nodes.within for one in proof.tried[4:]]  # after suffixes, if they are few
    assert gathered == list(DISTANCES[: len(gathered)]) and gathered
    last = proof.tried[-1]
    record = proof_record(make_task(TASKS.get("sum").config()), proof, None)
    assert (record["nodes"], record["within"]) == (len(last.nodes), gathered[-1])
    assert record["obstacle"].startswith(f"{last.cause} after ")
    assert "is not saturated" in proof.tried[0].cause


def test_strings_are_gathered_by_where_they_lead(tmp_path: Path) -> None:
    """Few boxes are a proof, each of strings that lead nearer each other than to other boxes."""
    machine = machine_of("parity", 2)
    model, node = exact_network(machine, 2.0)
    net = cells_of(model, dataclasses.asdict(node))
    assert isinstance(net, Cells)
    nodes = gathered_graph(net, machine, WITHIN, 1000)
    assert nodes is not None
    assert gathered_graph(net, machine, WITHIN, 3) is None
    boxes = closed_boxes(net, machine, nodes)
    assert isinstance(boxes, Boxes)
    mine = Certificate(tmp_path, "parity", 2)
    mine.arrays |= {"lo": boxes.lo, "hi": boxes.hi, "next": nodes.following}
    assert mine.checked()["nodes"] == len(nodes)
    # a word leads to its node, and nodes are as far apart as was asked
    states, points = [machine.walk(word)[-1:] for word in nodes.words], []
    for word in nodes.words:
        x = np.zeros((1, net.carried))
        at = 0
        for symbol in word:
            x = sum(images(net, symbol, x, x)) / 2
            at = int(nodes.following[at, symbol])
        assert at == nodes.words.index(word)
        points.append(np.concatenate([sum(images(net, s, x, x)) / 2 for s in range(2)], 1)[0])
    for one in range(1, len(nodes)):
        for other in range(1, one):
            if states[one] == states[other]:
                assert np.abs(points[one] - points[other]).max() > 0.99 * WITHIN


def test_gathered_strings_close_where_suffixes_do_not() -> None:
    """A unit that remembers the first symbol for ever: no number of last symbols tells of it."""
    machine = machine_of("parity", 2)
    model, node = exact_network(machine, 2.0)
    state = model.state_dict()
    n = 5
    node.mixer.units = n + 1
    wider = build_model(Config(model=node), 2, 2, seed=0)
    grown = wider.state_dict()
    for name, value in state.items():
        grown[name].zero_()
        grown[name][tuple(slice(0, size) for size in value.shape)] = value
    grown["mixers.0.network.weight_hh_l0"][n, n] = 3.0  # bistable: written once, then kept
    grown["mixers.0.network.weight_ih_l0"][n] = torch.tensor([1.0, -1.0])
    wider.load_state_dict(grown)
    net = cells_of(wider, dataclasses.asdict(node))
    assert isinstance(net, Cells)
    for depth in range(6):
        nodes = suffix_graph(machine, depth, 1000)
        assert nodes is not None
        closed = closed_boxes(net, machine, nodes)
        far = closed.nodes.following.max()
        if isinstance(closed, Boxes):
            assert closed.hi[far, n] - closed.lo[far, n] > 1.5  # both attractors, in one box
    gathered = gathered_graph(net, machine, WITHIN, 1000)
    assert gathered is not None
    boxes = closed_boxes(net, machine, gathered)
    assert isinstance(boxes, Boxes)
    assert (boxes.hi - boxes.lo)[:, n].max() < 0.5


@pytest.mark.parametrize(
    ("embed", "g"), [("one_hot", "linear"), ("one_hot", "mlp"), ("embedding", "mlp")]
)
def test_exact_states_are_the_models_bit_by_bit(embed: str, g: str) -> None:
    machine = machine_of("even_pair", 3)
    model, node = exact_blocks(machine, embed, g)
    proof = find_proof(model, dataclasses.asdict(node), machine)
    assert proof.boxes is not None and len(proof.boxes.nodes) == machine.states
    nodes, points = proof.boxes.nodes, proof.boxes.lo
    for at, row in enumerate(nodes.following):
        for symbol, to in enumerate(row):
            assert to != NOWHERE
            carried = [torch.from_numpy(points[at]).float().view(1, 1, -1)]
            with torch.no_grad():
                _, after = model(torch.tensor([[symbol]]), carried, read="last")
            assert (after[0].flatten().double().numpy() == points[to]).all()


BROKEN: dict[str, tuple[str, Any, str]] = {
    "an entry": ("mixers.0.transition.0.weight", 0.5, "an entry 0.5"),
    "a second entry": ("mixers.0.transition.0.weight", 1.0, "a column of several entries"),
    "what is written": ("mixers.0.value.2.bias", 1.0, "writes 1 into the state"),
    "the start": ("mixers.0.start", 0.25, "the start has an entry 0.25"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_linear_recurrences_that_round_are_refused(name: str, tmp_path: Path) -> None:
    """By the search, which says why, and by the checker with the boxes of an exact one."""
    part, value, why = BROKEN[name]
    machine = machine_of("sum", 3)
    mine = Certificate(tmp_path, "sum", 3, kind="blockdiag")
    assert mine.checked()["nodes"] == 3
    weight = mine.arrays[f"w/{part}"]
    weight.reshape(-1)[int(np.nonzero(weight.reshape(-1) == 0)[0][0])] = value
    mine.sign()
    with pytest.raises(check.Refused):
        mine.checked()
    state = {k: torch.from_numpy(v) for k, v in mine.weights().items()}
    mine.model.load_state_dict(state)
    if part.startswith("mixers.0.transition"):  # columns would be made shorter
        mine.model.mixers[0].config.constraint = "none"  # type: ignore[union-attr, index]
    assert why in find_proof(mine.model, mine.config, machine).refusal


def test_exact_states_whose_answers_do_not_lead_are_no_proof() -> None:
    """A tie is no lead."""
    machine = machine_of("sum", 3)
    model, node = exact_blocks(machine)
    with torch.no_grad():
        model.head[0].weight[1] = model.head[0].weight[0]  # type: ignore[union-attr, index]
        model.head[0].bias[1] = model.head[0].bias[0]  # type: ignore[union-attr, index]
    assert "does not lead" in find_proof(model, dataclasses.asdict(node), machine).refusal


def test_points_are_not_widened(tmp_path: Path) -> None:
    mine = Certificate(tmp_path, "sum", 3, kind="blockdiag")
    mine.arrays["hi"] = mine.arrays["hi"] + 0.1
    with pytest.raises(check.Refused, match="is no point"):
        mine.checked()


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("lru", "for lru"),
        ("blockdiag", "in the stack lrnn_release"),
        ("rwkv4", "for rwkv4"),
        ("elman_newton_solve", "for elman_newton_solve"),
    ],
)
def test_other_models_are_refused_with_a_reason(model: str, why: str) -> None:
    node = model_node(model)()
    built = build_model(Config(model=node), 5, 5, seed=0)
    found = find_proof(built, dataclasses.asdict(node), machine_of("sum", 5))
    assert found.boxes is None and not found.tried
    assert found.refusal.startswith("no proof is sought") and why in found.refusal


def test_blown_boxes_name_the_unit_of_its_layer() -> None:
    machine = machine_of("sum", 3)
    model, node = exact_network(machine, 1.2, layers=2)
    net = cells_of(model, dataclasses.asdict(node))
    nodes = suffix_graph(machine, 1, 100)
    assert isinstance(net, Cells) and nodes is not None
    blown = closed_boxes(net, machine, nodes)
    assert isinstance(blown, BlownUp) and " of layer " in blown.cause
