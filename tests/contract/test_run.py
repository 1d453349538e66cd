"""The contract tells good mixers from broken ones, and says which part is broken."""

from __future__ import annotations

import re

import pytest
import torch

from lrbench.contract import CHECKS, run_contract
from lrbench.contract.run import FURTHER
from lrbench.errors import UserError
from lrbench.registry import MIXERS
from tests.named_layers import settings

from . import broken
from .conftest import Examine


def failed(findings: dict) -> set[str]:
    return {name for name, finding in findings.items() if finding.passed is False}


@pytest.mark.parametrize("name", [n for n in MIXERS.names() if MIXERS.get(n).builtin])
def test_every_built_in_mixer_passes(name: str) -> None:
    findings = run_contract(name, settings(name))
    assert [str(finding) for finding in findings if finding.passed is False] == []
    assert [finding.name for finding in findings] == ["build", *CHECKS, *FURTHER.get(name, {})]


@pytest.mark.parametrize("cls", [broken.Leaky, broken.Gated, broken.DiagonalLeaky])
def test_a_good_mixer_passes(examine: Examine, cls: type) -> None:
    findings = examine(cls)
    assert failed(findings) == set()
    assert findings["symbols"].passed is (True if cls is broken.DiagonalLeaky else None)


BROKEN = {
    broken.PeeksAhead: {
        "modes",
        "modes, single",
        "split",
        "gradients",
        "causality",
        "training",
        "long strings",
    },
    broken.MixesStrings: {"strings apart", "training"},
    broken.Remembers: {"state size", "parameters"},  # it uses none
    broken.WrongStateSize: {"state size"},
    broken.IgnoresState: {"modes", "modes, single", "split", "gradients", "long strings"},
    broken.ModesDisagree: {"modes", "gradients"},
    broken.CoarseInSingle: {"modes, single"},
    broken.WrongGradientInOneMode: {"gradients"},
    broken.WrongGradientInEveryMode: {"derivative"},
    broken.GradientNotANumber: {"gradients", "derivative", "long strings", "finite", "vmap"},
    broken.WrongDtype: {"shape, dtype", "derivative"},  # it rounds to float32 as well
    broken.Unseeded: {"determinism"},
    broken.HidesATensor: {"checkpoint"},
    broken.LooksAtValues: {"vmap"},
    broken.WrongTable: {"symbols"},
    broken.ReversedInTraining: {"training"},
    broken.NormOverTime: {"training"},
    broken.NormOverStrings: {"training"},
    broken.ScaledInTraining: {"training"},
    broken.LeaksWhenLong: {"long strings"},
    broken.CutsTheGradient: {"long strings"},
    broken.CutsWithoutAState: {"long strings"},
    broken.DropsByTheGlobalGenerator: {"randomness"},
    broken.HasASpareParameter: {"parameters"},
    broken.CountsThreads: {"threads"},
}


@pytest.mark.parametrize("cls", BROKEN, ids=lambda cls: cls.__name__)
def test_a_broken_mixer_fails_the_right_checks(examine: Examine, cls: type) -> None:
    findings = examine(cls)
    assert failed(findings) == BROKEN[cls], "\n".join(map(str, findings.values()))


def test_nan_in_the_output_is_found(examine: Examine) -> None:
    findings = examine(broken.NotANumber)
    assert {"finite", "modes", "split", "gradients", "checkpoint"} <= failed(findings)
    assert not failed(findings) & {"randomness", "determinism"}  # it has the same ones again
    assert "the output is not finite in float32" in findings["finite"].detail


def test_growth_is_reported_and_overflow_fails(examine: Examine) -> None:
    calm = examine(broken.Leaky)["growth"]
    assert calm.passed and "after 100, " in calm.detail and "after 1,000 random" in calm.detail
    growing = examine(broken.Leaky, ("model.mixer.keep=1.01",))["growth"]
    assert growing.passed and "e+0" in growing.detail
    beyond = examine(broken.Leaky, ("model.mixer.keep=1.05",))
    assert failed(beyond) == {"growth"}
    assert "within 1,000 random inputs" in beyond["growth"].detail
    assert "allowed 1e+06 times as much" in beyond["growth"].detail
    declared = examine(broken.SaysItGrows, ("model.mixer.keep=1.05",))["growth"]
    assert declared.passed and "may grow: a sum of all" in declared.detail
    overflowing = examine(broken.Leaky, ("model.mixer.keep=1.5",))["growth"]
    assert overflowing.passed is False and "not finite 300 positions in" in overflowing.detail


def test_what_a_mixer_raises_is_a_failure_of_the_check(examine: Examine) -> None:
    findings = examine(broken.Raises)
    # these two look at other things than forward
    assert failed(findings) == set(CHECKS) - {"symbols", "cuda"}
    assert findings["modes"].detail == "raised RuntimeError: no such luck"
    assert 'raise RuntimeError("no such luck' in findings["modes"].trace


def test_a_mixer_that_cannot_be_built_is_one_failure(examine: Examine) -> None:
    findings = examine(broken.CannotBeBuilt)
    assert list(findings) == ["build"]
    assert findings["build"].detail == "raised ValueError: not enough values to unpack"
    assert findings["build"].trace


def test_a_layer_that_is_no_mixer_is_one_failure(examine: Examine) -> None:
    findings = examine(broken.NoMixer)
    assert list(findings) == ["build"]
    assert "NoMixer is not a subclass of lrbench.mixers.base.Mixer" in findings["build"].detail


def test_what_a_mixer_declares_is_respected(examine: Examine) -> None:
    findings = examine(broken.InPairs)
    assert failed(findings) == set()
    assert "against mode loop in float32" in findings["modes"].detail
    for name in ("modes, single", "derivative"):
        assert findings[name].passed is None, str(findings[name])
    assert examine(broken.SaysNoVmap)["vmap"].passed is None
    scaled = examine(broken.SaysItIsScaledInTraining)
    assert failed(scaled) == set() and "as in its paper" in scaled["training"].detail
    spare = examine(broken.SaysItHasASpareParameter)
    assert failed(spare) == set() and "2 declared to have none" in spare["parameters"].detail
    straight = examine(broken.StraightThrough)
    assert failed(straight) == set() and straight["derivative"].passed is None


def test_what_a_failure_says(examine: Examine) -> None:
    def told(cls: type, check: str) -> str:
        return examine(cls)[check].detail

    reversed_in_time = told(broken.ReversedInTraining, "training")
    assert "outputs before a perturbed input, in training mode" in reversed_in_time
    beside = told(broken.NormOverStrings, "training")
    assert "outputs beside a perturbed string, in training mode" in beside
    assert re.search(
        r"\) float32; expected \(.* float64, as out_width=\d+ says$",
        told(broken.WrongDtype, "shape, dtype"),
    )
    assert "outputs before a perturbed input" in told(broken.LeaksWhenLong, "long strings")
    assert "T=400, gradients" in told(broken.CutsTheGradient, "long strings")
    assert "finite differences" in told(broken.CutsWithoutAState, "long strings")
    assert "global generator" in told(broken.DropsByTheGlobalGenerator, "randomness")
    spare = told(broken.HasASpareParameter, "parameters")
    assert "no gradient reaches spare.weight, spare.bias" in spare


@pytest.mark.parametrize("cls", [broken.DrawsByACounter, broken.HiddenByAZero])
def test_what_only_looks_wrong_passes(examine: Examine, cls: type) -> None:
    findings = examine(cls)
    # two mixers of one seed count alike; a count in place is none under vmap
    assert failed(findings) == set(), "\n".join(map(str, findings.values()))


def test_the_number_of_threads_is_put_back(examine: Examine) -> None:
    before = torch.get_num_threads()
    examine(broken.CountsThreads)
    examine(broken.Raises)
    assert torch.get_num_threads() == before


def test_complex_parameters_are_refused(examine: Examine) -> None:
    with pytest.raises(UserError, match="'angle' is complex"):
        examine(broken.ComplexParameter)


def test_findings_are_reported_as_they_are_made(examine: Examine) -> None:
    reported: list[str] = []
    findings = examine(broken.CannotBeBuilt, tell=lambda finding: reported.append(finding.name))
    assert reported == list(findings) == ["build"]
    reported.clear()
    findings = examine(broken.Leaky, tell=lambda finding: reported.append(finding.name))
    assert reported == list(findings) == ["build", *CHECKS]
