"""Where theory says that a model cannot, training must not find a way (it would be a bug of ours).

Real transitions between 0 and 1 cannot count modulo two over any length (Sarrof, Veitsman & Hahn
2024, arXiv:2405.17394; Grazzi et al. 2025, arXiv:2411.12537, Theorem 1). With signs they can: the
exact solutions in tests/mixers are that half of the statement.
"""

from __future__ import annotations

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.scoring import score

UPDATES, STRINGS = 5000, 1000


@pytest.mark.slow
def test_parity_stays_at_chance_for_transitions_between_0_and_1() -> None:
    words = ["task=parity", "model=lrnn_diag", "model.mixer.range=sigmoid", "model.width=16"]
    config = composed([*words, "protocol.batch_size=32", "optim.lr=1e-3"])
    trial = LengthTrial(config, 0)
    first = trial.update()
    for _ in range(UPDATES - 1):
        last = trial.update()
    assert last < first, "it should have learnt something about the first symbols"
    result = score(trial.model, trial.task, trial.stream("test", 500), 500, STRINGS, "cpu")
    assert abs(result.accuracy - 0.5) < 4 * (0.25 / STRINGS) ** 0.5
