"""The contract tells good encoders from broken ones, and says which part is broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lrbench.contract import ENCODER_CHECKS, Finding, run_contract
from lrbench.errors import UserError
from lrbench.registry import ENCODERS, Entry

from . import broken

Examine = Callable[..., dict[str, Finding]]


@pytest.fixture
def examine(monkeypatch: pytest.MonkeyPatch) -> Examine:
    """Return examine(class, words): the findings of its contract, by name."""

    def run(cls: type, arguments: tuple[str, ...] = ()) -> dict[str, Finding]:
        entry = Entry("subject", cls, broken.SmoothConfig, "a test")
        monkeypatch.setitem(ENCODERS._entries, "subject", entry)
        return {one.name: one for one in run_contract("subject", arguments)}

    return run


def failed(findings: dict[str, Finding]) -> set[str]:
    return {name for name, finding in findings.items() if finding.passed is False}


STACKS = ("mega", "s4d_stack")  # of six and eight layers, all alike


@pytest.mark.parametrize("name", [n for n in ENCODERS.names() if ENCODERS.get(n).builtin])
def test_every_built_in_encoder_passes(name: str) -> None:
    findings = run_contract(name, ("model.encoder.layers=2",) if name in STACKS else ())
    assert [str(finding) for finding in findings if finding.passed is False] == []
    assert [finding.name for finding in findings] == ["build", *ENCODER_CHECKS]


def test_a_good_encoder_passes(examine: Examine) -> None:
    findings = examine(broken.Smooth)
    assert failed(findings) == set(), "\n".join(map(str, findings.values()))
    assert "drawn from the generator alone" in findings["randomness"].detail
    calm = examine(broken.Smooth, ("model.encoder.dropout=0",))
    assert failed(calm) == set() and calm["randomness"].detail == "draws nothing"


BROKEN: dict[type, set[str]] = {
    broken.CountsPadding: {"padding", "alone"},
    broken.LooksAtPadding: {"mask", "padding", "alone", "gradients"},
    broken.MixesStrings: {"alone", "strings apart"},
    broken.DropsByTheGlobalGenerator: {"randomness", "derivative"},
    broken.DrawsForNothing: {"randomness"},
    broken.HasASpareParameter: {"gradients"},
    broken.StopsTheGradient: {"derivative"},
    broken.Unseeded: {"determinism"},
    broken.HidesATensor: {"checkpoint"},
    broken.CoarseInSingle: {"single"},
    broken.SaysNothing: {"by heart"},
    broken.WrongShape: {"shape, dtype", "by heart"},
    broken.Raises: set(ENCODER_CHECKS),
    broken.NoEncoder: {"build"},
}


@pytest.mark.parametrize("cls", BROKEN, ids=lambda cls: cls.__name__)
def test_a_broken_encoder_fails_the_right_checks(examine: Examine, cls: type) -> None:
    findings = examine(cls)
    here = ENCODER_CHECKS if torch.cuda.is_available() else set(ENCODER_CHECKS) - {"cuda"}
    assert failed(findings) == BROKEN[cls] & {"build", *here}, "\n".join(
        map(str, findings.values())
    )


def test_dropout_in_evaluation_is_found(examine: Examine) -> None:
    assert {"determinism", "randomness", "padding"} <= failed(examine(broken.DropsInEvaluation))


def test_what_an_encoder_declares_is_respected(examine: Examine) -> None:
    padded = examine(broken.SaysItCountsPadding)
    assert failed(padded) == set()
    for name in ("padding", "alone"):
        assert padded[name].passed is None and "a maximum over all" in padded[name].detail
    assert examine(broken.SaysItStopsTheGradient)["derivative"].passed is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("model.encoder.dropuot=0.1",), "Did you mean 'model.encoder.dropout'"),
        (("model.encoder.dropout=x",), "model.encoder.dropout must be a number, not 'x'"),
        (("model.width=0",), "model.width must be at least 1, not 0"),
        (("model.encoder.dropout=1.5",), r"must be in \[0, 1\), not 1.5"),
    ],
)
def test_mistakes_are_reported(arguments: tuple[str, ...], text: str) -> None:
    with pytest.raises(UserError, match=text):
        run_contract("bbt_grc", arguments)


def test_settings_reach_the_encoder() -> None:
    reported: list[Any] = []
    arguments = ("model.width=8", "model.encoder.layers=2", "model.encoder.state_size=4")
    run_contract("s4d_stack", arguments, reported.append)
    assert reported[0].detail == "width 8, 608 parameters"
    assert len(reported) == 1 + len(ENCODER_CHECKS)
