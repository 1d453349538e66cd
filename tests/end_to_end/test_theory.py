"""Where theory says that a model cannot, training must not find a way (it would be a bug of ours).

Real transitions between 0 and 1 cannot count modulo two over any length (Sarrof, Veitsman & Hahn
2024, arXiv:2405.17394; Grazzi et al. 2025, arXiv:2411.12537, Theorem 1). With signs they can: the
exact solutions in tests/mixers are that half of the statement. One reflection a symbol turns no
plane (Siems et al. 2025, arXiv:2502.10297): S3 needs two.

Models that cannot have a rule learn strings of 12 or 16 by heart, so these train at 40. Where a
test trains one that can beside one that cannot, the latter has at least as many updates.
"""

from __future__ import annotations

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.scoring import score

UPDATES, STRINGS = 1250, 1000
TRAINED = [
    *("protocol.train_length=40", "protocol.batch_size=64", "optim.name=adam", "optim.clip=1"),
    *("optim.weight_decay=0", "optim.schedule=constant", "optim.warmup=0"),
]
DELTA = [
    *("model=deltaproduct", "model.width=32", "model.mixer.conv_size=0"),
    *("model.mixer.qk_activation=identity", "model.mixer.learn_x0=true"),
    *("model.backbone.name=bare", "model.backbone.hidden=32", "optim.lr=3e-3"),
]
MAMBA = ["model=mamba", "model.width=32", "model.mixer.conv_size=0", "optim.lr=3e-3"]


@pytest.mark.slow
def test_parity_stays_at_chance_for_transitions_between_0_and_1() -> None:
    arguments = ["task=parity", "model=lrnn_diag", "model.mixer.range=sigmoid", "model.width=16"]
    config = composed([*arguments, "protocol.batch_size=32", "optim.lr=1e-3"])
    trial = LengthTrial(config, 0)
    first = trial.update()
    for _ in range(UPDATES - 1):
        last = trial.update()
    assert last < first, "it should have learnt something about the first symbols"
    result = score(trial.model, trial.task, trial.stream("test", 500), 500, STRINGS, "cpu")
    assert abs(result.accuracy - 0.5) < 4 * (0.25 / STRINGS) ** 0.5


def trained(updates: int, *words: str) -> LengthTrial:
    trial = LengthTrial(composed([*TRAINED, *words]), 0)
    for _ in range(updates):
        trial.update()
    return trial


def accuracy(trial: LengthTrial, length: int) -> float:
    """Return how often the last of `length` symbols is answered right."""
    stream = trial.stream("test", length)
    return score(trial.model, trial.task, stream, length, STRINGS, "cpu").accuracy


@pytest.mark.slow
def test_two_reflections_a_symbol_have_s3_and_one_does_not() -> None:
    """Measured, seeds 0 and 1: 1.00 at 40 and 1.00, 0.98 at 200; 0.31 to 0.36 at 40 throughout."""
    able = trained(300, *DELTA, "task=group", "task.group=S3", "model.mixer.householders=2")
    assert accuracy(able, 40) >= 0.99
    assert accuracy(able, 200) >= 0.95
    unable = trained(300, *DELTA, "task=group", "task.group=S3", "model.mixer.householders=1")
    assert accuracy(unable, 40) <= 0.6


@pytest.mark.slow
def test_parity_needs_a_strength_above_one() -> None:
    """Measured, seeds 0 and 1: 1.00 after 100 updates; 0.48 to 0.52 throughout 1,500."""
    words = *DELTA, "task=parity", "model.mixer.householders=1"
    assert accuracy(trained(150, *words, "model.mixer.range=signed"), 40) >= 0.99
    assert accuracy(trained(200, *words, "model.mixer.range=positive"), 40) <= 0.6


@pytest.mark.slow
def test_mamba_needs_transitions_below_zero_for_parity() -> None:
    """Measured, seeds 0 and 1: 1.00 at 40 and 200 after 250 updates; 0.49 to 0.50 after 500."""
    able = trained(250, *MAMBA, "task=parity", "model.mixer.range=signed")
    assert accuracy(able, 40) >= 0.99
    assert accuracy(able, 200) >= 0.95
    unable = trained(300, *MAMBA, "task=parity", "model.mixer.range=positive")
    assert accuracy(unable, 40) <= 0.6


@pytest.mark.slow
def test_a_block_has_a5_and_a_diagonal_does_not() -> None:
    """A5 is not solvable, so no diagonal layer has it unless TC0 = NC1 (Merrill et al. 2024).

    Measured, seeds 0 and 1, 400 updates: 1.00 at 40 and 1.00, 0.97 at 200; at 40 by diagonals of
    unit modulus 0.14 and 0.10, after 1,000 updates 0.17 and 0.21 (tanh: 0.03 and 0.02).
    """
    words = "task=group", "task.group=A5", "task.letters=generators", "optim.lr=3e-3"
    able = trained(400, *words, "model=blockdiag", "model.backbone.noise=0")
    assert accuracy(able, 40) >= 0.99
    assert accuracy(able, 200) >= 0.95
    for kind in ("tanh", "unit"):
        unable = trained(400, *words, "model=lrnn_diag", f"model.mixer.range={kind}")
        assert accuracy(unable, 40) <= 0.5
