"""Whatever the checker accepts is right: random networks, networks made wrong, no rounding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lrbench.certificates import boxes, check, images
from lrbench.certificates.witness import SearchBudget, search
from lrbench.tasks.machine import Machine, explored

from .certificate import Certificate, exact_of, machine_of
from .in_float32 import Shuffled
from .test_images import random_net

SMALL = SearchBudget(complete=3000, families=200, beam=10, longest=30)
KINDS = ("rnn", "elman", "gru", "lstm")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_accepted_is_right(kind: str, tmp_path: Path) -> None:
    """Random small networks, as tasks of their own: what the checker accepts is right on all words.

    The task is the machine that a network seems to be on words of up to 3 symbols, the last 3 of
    them for states: right for a network that forgets, wrong for one that does not.
    """
    verdicts = [_own_machine(kind, seed, tmp_path) for seed in range(24)]
    assert verdicts.count("accepted") > 0, verdicts
    assert verdicts.count("wrong") > 0, verdicts
    assert "accepted though wrong" not in verdicts


def _own_machine(kind: str, seed: int, folder: Path) -> str:
    """Whether a random network is certified as the machine that it seems to be, and is wrong."""
    rng = np.random.default_rng(seed)
    units, layers = int(rng.integers(2, 5)), 1 + (seed % 4 == 3)
    model, config = random_net(kind, seed, units, layers, 2, float(rng.uniform(0.5, 6)))
    recurrence = float(rng.uniform(0.1, 1)) if seed % 3 else 1.0  # most forget soon
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "hh" in name or "matrix" in name:
                parameter *= recurrence
            if kind == "lstm" and "bias_ih" in name and seed % 3:
                parameter[units : 2 * units] -= 4.0

    def answer(word: tuple[int, ...]) -> int:
        with torch.no_grad():  # of the empty string nothing is asked, whatever stands there
            return int(model(torch.tensor([word]))[0][0, -1].argmax()) if word else 0

    machine = explored((), 2, lambda word, s: (*word, s)[-3:], answer)
    wrong = search(model, machine, SMALL).witness is not None
    wrong = wrong or _errs(Shuffled(kind, model.state_dict(), seed), machine, rng)
    mine = Certificate.__new__(Certificate)
    mine.about(folder, "regular", {}, model, config)  # whose automaton is the file's
    accepted = mine.prove(machine, most_nodes=200) and _accepted(mine)
    return {
        (True, False): "accepted",
        (False, True): "wrong",
        (False, False): "open",
        (True, True): "accepted though wrong",
    }[accepted, wrong]


def _errs(network: Shuffled, machine: Machine, rng: np.random.Generator) -> bool:
    """Whether one of 250 random strings of 100 is answered wrongly anywhere, sums shuffled."""
    tokens = rng.integers(0, machine.symbols, (250, 100))
    states, carried = np.full(250, machine.start), network.start(250)
    table, targets = machine.table, machine.targets
    for symbols in tokens.T:
        logits, carried = network.step(symbols, carried)
        states = table[states, symbols]
        if (targets[states] != logits.argmax(1))[targets[states] >= 0].any():
            return True
    return False


def _accepted(mine: Certificate) -> bool:
    try:
        return mine.checked()["margin"] > 0
    except check.Refused:
        return False


@pytest.mark.parametrize("kind", [*KINDS, "rnn x 2", "gru x 2"])
def test_no_model_with_a_known_mistake_is_certified(kind: str, tmp_path: Path) -> None:
    """Weights on the line from right to wrong: where a search finds a string, no proof is taken."""
    machine = machine_of("sum", 3)
    mine = Certificate(tmp_path, "sum", 3, 2.5, kind)
    good, bad = (exact_of(kind, machine, gain)[0].state_dict() for gain in (2.5, 0.4))
    closed = {name: mine.arrays[name] for name in ("lo", "hi", "next")}
    verdicts = []
    for part in np.linspace(0, 1, 7):
        weights = {k: (1 - part) * good[k] + part * bad[k] for k in good}
        mine.model.load_state_dict(weights)
        erring = search(mine.model, machine, SMALL).witness is not None
        mine.about(tmp_path, "sum", 3, mine.model, mine.config)
        if not mine.prove(machine, most_nodes=500):
            mine.arrays |= closed  # the boxes of the right one
        verdicts.append((_accepted(mine), erring))
    assert (True, True) not in verdicts
    assert verdicts[0] == (True, False)
    assert verdicts[-1] == (False, True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_proof_without_rounding_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boxes that are exactly the images of real arithmetic leave float32 no room."""
    names = ("SLACK", "RELATIVE_SLACK", "WIDEN_BY", "WIDEN_LEAST")
    for module, name in [(images, "UNIT"), *((boxes, name) for name in names)]:
        monkeypatch.setattr(module, name, 0.0)
    mine = Certificate(tmp_path, "parity", 2, 4.0, kind)
    with pytest.raises(check.Refused, match="an image leaves its box"):
        mine.checked()


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_what_float32_loses_is_not_taken_for_known(kind: str, tmp_path: Path) -> None:
    """Two biases that cancel change nothing in real numbers, and all digits in float32."""
    mine = Certificate(tmp_path, "parity", 2, 2.0, kind)
    assert _accepted(mine)
    for name, large in (("bias_ih_l0", 1e5), ("bias_hh_l0", -1e5)):
        mine.arrays[f"w/mixers.0.network.{name}"] += np.float32(large)
    mine.sign()
    with pytest.raises(check.Refused, match="an image leaves its box"):
        mine.checked()


@pytest.mark.parametrize("kind", [*KINDS, "blockdiag"])
def test_a_certified_network_does_not_err(kind: str, tmp_path: Path) -> None:
    """Certified ones are right on 50 strings of 500 symbols, and on all short ones."""
    machine = machine_of("even_pair", 3)
    mine = Certificate(tmp_path, "even_pair", 3, 2.5, kind)
    assert _accepted(mine)
    assert search(mine.model, machine, SMALL).witness is None
    tokens = np.random.default_rng(0).integers(0, 3, (50, 500))
    states = np.full(50, machine.start)
    with torch.no_grad():
        answers = mine.model(torch.from_numpy(tokens))[0].argmax(-1).numpy()
    for place, symbols in enumerate(tokens.T):
        states = machine.table[states, symbols]
        assert (machine.targets[states] == answers[:, place]).all()
