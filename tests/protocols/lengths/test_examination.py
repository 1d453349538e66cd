"""Numbers over a range of lengths, held against strings read one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.protocols.lengths.examination import chance_levels, final_tests, lengths_tested, scaled
from lrbench.protocols.lengths.scoring import score_lengths
from lrbench.protocols.lengths.trial import LengthsTrial
from lrbench.runs.train.validate import validated
from lrbench.statistics import guessing_best_of
from lrbench.training.examination import Kept
from lrbench.training.procedure import procedure_for
from lrbench.training.trial import unwatched

Make = Callable[..., Config]
LENGTHS = [5, 9, 5, 7, 6, 9, 5, 8]


@pytest.mark.parametrize(
    "settings",
    [
        ("task=nnch_parity_check",),
        ("task=nnch_reverse_string",),
        ("task=group", "protocol=walker2025_short"),
    ],
)
def test_mixed_lengths_are_scored_as_each_string_alone(small: Make, settings: str) -> None:
    trial = LengthsTrial(small(*settings), 1)
    task, stream = trial.task, trial.stream("test")
    scores, loss = score_lengths(trial.model, task, stream, LENGTHS, "cpu")
    right, scored, losses = dict.fromkeys(LENGTHS, 0), dict.fromkeys(LENGTHS, 0), []
    batch = task.of_lengths(stream, 0, sorted(LENGTHS), "cpu")
    for row, length in enumerate(sorted(LENGTHS)):
        end = int(batch.lengths[row])
        tokens, answers = batch.tokens[row, :end], batch.targets[row, :end]
        assert task.oracle(tokens.tolist()) == answers.tolist()
        with torch.no_grad():
            logits = trial.model(tokens[None])[0][0]
        asked = answers >= 0
        losses += torch.nn.functional.cross_entropy(
            logits[asked], answers[asked], reduction="none"
        ).tolist()
        if not task.averaged:
            asked = torch.arange(end) == end - 1
        right[length] += int((logits.argmax(-1) == answers)[asked].sum())
        scored[length] += int(asked.sum())
    assert loss == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert [one.length for one in scores] == sorted(set(LENGTHS))
    assert [one.value for one in scores] == pytest.approx(
        [right[length] / scored[length] for length in sorted(set(LENGTHS))]
    )


@pytest.mark.parametrize("key", ["train_lengths", "look.lengths", "band", "test.lengths"])
def test_a_range_that_begins_below_the_shortest_string_is_refused(small: Make, key: str) -> None:
    config = small("task=xlstm_parity", "protocol=walks", "protocol.train_lengths=[2,6]")
    node, _, last = key.rpartition(".")
    setattr(getattr(config.protocol, node) if node else config.protocol, last, [1, 9])
    with pytest.raises(UserError, match=rf"protocol.{key} \[1, 9\].*as short as 1.*\nbegin at 2"):
        procedure_for(config).validate()


def test_a_suite_refuses_a_length_below_the_shortest_string() -> None:
    words = ["task=flip_flop", "model=lstm", "protocol=suite_v1"]
    procedure_for(composed(words)).validate()
    with pytest.raises(UserError, match="no strings as short as 2"):
        procedure_for(composed([*words, "protocol.test.lengths=[2,40]"])).validate()


def test_the_number_of_a_mean_is_that_of_its_lengths(small: Make) -> None:
    trial = LengthsTrial(small(), 0)
    trial.rules.consider(trial.look(unwatched))
    rows, horizons = final_tests(trial, Kept(lambda _: trial.model.state_dict()), unwatched)
    last = [row for row in rows if row["which"] == "last" and row["kind"] == "test"]
    each = [row["value"] for row in last if row["metric"] == "at_length"]
    (number,) = (row for row in last if row["split"] == "test")
    assert lengths_tested(trial) == [7, 9, 11] and len(each) == 3 and horizons == {}
    assert (number["length"], number["n"]) == (11, 48)
    assert number["value"] == pytest.approx(sum(each) / 3)


def test_scaled_has_chance_at_zero(small: Make) -> None:
    assert scaled(0.2, 0.2) == 0 and scaled(1.0, 0.5) == 1
    assert scaled(0.8296, 0.2) == pytest.approx(0.787)
    config = small("protocol=grazzi2025_short", "protocol.test.strings=40")
    trial = LengthsTrial(config, 0)
    trial.rules.consider(trial.look(unwatched))
    rows, _ = final_tests(trial, Kept(lambda _: trial.model.state_dict()), unwatched)
    found = {row["metric"]: row["value"] for row in rows if row["split"] == "test"}
    assert found["scaled"] == pytest.approx(2 * found["accuracy"] - 1)  # parity: chance 0.5


@pytest.mark.parametrize(
    ("protocol", "at_half", "at_fifth"),
    [
        ("deletang2022", 0.502, 0.202),
        ("grazzi2025", 0.505, 0.204),
        ("walker2025", 0.510, 0.208),
    ],
)
def test_a_guesser_by_each_rule_has_the_figures_of_the_specification(
    small: Make, protocol: str, at_half: float, at_fifth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of a full run; chance is put at what the table says."""
    from lrbench.cli.hydra.compose import composed
    from lrbench.protocols.lengths import examination

    trial = LengthsTrial(
        composed(["task=nnch_cycle_navigation", "model=lstm", f"protocol={protocol}"]), 0
    )
    for chance, expected in ((0.5, at_half), (0.2, at_fifth)):
        known = [{"baseline": "uniform", "length": 1, "value": chance, "n": 1}]
        monkeypatch.setattr(examination, "baselines_at", lambda *_, known=known: known)
        (guess,) = chance_levels(trial, unwatched)[1]
        assert guess["value"] == pytest.approx(expected, abs=6e-4)
        assert guess["value"] == guessing_best_of(chance, guess["strings"], guess["looks"])


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["task=sum", "protocol=deletang2022"], "sum is not trained by protocol deletang2022"),
        (["task=group", "task.ask=last", "protocol=siems2025"], "right at every position"),
        (
            ["task=group", "protocol=siems2025", "protocol.test.mix=row"],
            "score=sequence is of strings of one length",
        ),
        (["task=nnch_reverse_string", "protocol.ask=last"], "nnch_reverse_string has several"),
        (["protocol.stop_at=0.5"], "stop_at=0.5 is for protocol.stop=threshold; leave it out"),
        (["protocol.chance=0.5"], "chance=0.5 is for protocol.score=scaled; leave it out"),
        (["model=transformer", "protocol.carry=0.5"], "keeps all that it has read"),
        (["model=elman", "model.mixer.noise=0.1", "protocol.carry=0.5"], "noise of its mixers"),
        (["model=elman", "optim.saturate=0.1", "protocol.state_noise=0.1"], "optim.saturate does"),
    ],
)
def test_what_does_not_go_together_is_refused(
    small: Make, overrides: list[str], words: str, tmp_path: object
) -> None:
    with pytest.raises(UserError, match=words):
        validated(small(f"output_dir={tmp_path}/none", *overrides))


def test_nothing_is_scaled_where_chance_is_right_everywhere(small: Make) -> None:
    one_letter = ("task=group", "task.group=Z2", "task.identity=false", "protocol=walks")
    trial = LengthsTrial(small(*one_letter, "protocol.score=scaled"), 0)
    trial.rules.consider(trial.look(unwatched))
    rows, _ = final_tests(trial, Kept(lambda rule: trial.model.state_dict()), unwatched)
    assert "accuracy" in {row["metric"] for row in rows}
    assert "scaled" not in {row["metric"] for row in rows}


@pytest.mark.parametrize("protocol", ["grazzi2025", "grazzi2025_short"])
def test_the_papers_chance_is_that_of_its_own_tasks(protocol: str) -> None:
    """Of others it is measured: a fifth of a task with two answers is no chance."""
    from lrbench.cli.hydra.compose import composed

    known = {"xlstm_parity": 0.5, "xlstm_modular_arithmetic": 0.2, "nnch_modular_arithmetic": 0.2}
    known["xlstm_modular_arithmetic_brackets"] = 0.2
    others = dict.fromkeys(("xlstm_even_pairs", "xlstm_cycle_navigation", "nnch_reverse_string"))
    for task, chance in {**known, **others}.items():
        config = composed([f"task={task}", "model=lstm", f"protocol={protocol}"])
        assert config.protocol.chance == chance, task
