"""What `lrbench check` says of encoders by settings other than the defaults: chunks, beams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lrbench.checks import from_a_user
from lrbench.contract import ENCODER_CHECKS
from lrbench.contract.encoders.gradients import gradients_reach_everything
from lrbench.contract.encoders.padding import ignores_padding, reads_strings_alone
from lrbench.contract.subject import PaddedStrings, encoder_factory, model_settings, seeded
from lrbench.encoders.base import Encoder
from lrbench.encoders.rir.rir_ebt_grc import RirEbtGrcConfig
from lrbench.encoders.trees.bt_grc import BtGrcConfig
from lrbench.errors import UserError

Case = tuple[Callable[..., Encoder], PaddedStrings]
CHUNKS = ("chunk=4", "inference=rir", "s4d_detach_backward=false")
BEAMS = [
    (name, beam) for name in ("bt_grc", "bt_grc_os", "ebt_grc", "rir_ebt_grc") for beam in (1, 3, 7)
]


def case_of(name: str, *settings: str, lengths: tuple[int, ...] = PaddedStrings.lengths) -> Case:
    model = model_settings(name, [f"model.encoder.{one}" for one in settings])
    return encoder_factory(model), PaddedStrings(model.width, lengths)


@pytest.mark.parametrize("name", ["rir_grc", "rir_ebt_grc", "rir_crvnn", "rir_om"])
def test_all_checks_pass_where_there_are_chunks(name: str) -> None:
    make, strings = case_of(name, *CHUNKS, lengths=(5, 1, 9))  # three chunks of a string
    checks = {title: check for title, check in ENCODER_CHECKS.items() if title != "by heart"}
    findings = {title: check(make, strings) for title, check in checks.items()}
    assert {title for title, one in findings.items() if one.passed is False} == set()
    assert findings["derivative"].passed, "with nothing detached, slopes are derivatives"
    assert findings["padding"].passed is None and "chunks" in findings["padding"].detail


@pytest.mark.parametrize("name", ["rir_grc", "rir_ebt_grc", "rir_crvnn", "rir_om"])
def test_whole_strings_alone_are_as_beside_others_or_it_is_said(name: str) -> None:
    found = reads_strings_alone(*case_of(name, "inference=full", lengths=(5, 1, 9)))
    assert found.passed is not False, found.detail


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("crvnn", "released=true", "a step more beside longer ones"),
        ("rir_crvnn", "released=true inference=full", "a step more beside longer ones"),
        ("rir_ebt_grc", "chunk=4 inference=rir chunk_decision=row", "how many beams"),
    ],
)
def test_what_depends_on_its_company_by_design_says_so(name: str, settings: str, why: str) -> None:
    """`check model=crvnn model.encoder.released=true` failed by what its page says."""
    found = reads_strings_alone(*case_of(name, *settings.split(), lengths=(5, 1, 9)))
    assert found.passed is None and why in found.detail


@pytest.mark.parametrize("name", ["rir_grc", "rir_ebt_grc", "rir_crvnn", "rir_om"])
def test_strings_that_are_cut_by_their_own_length_are_alone(name: str) -> None:
    settings = ("chunk=8", "chunk_decision=row", "inference=rir")
    make, strings = case_of(name, *settings, lengths=(5, 1, 9, 33))
    for check in (reads_strings_alone, ignores_padding):
        found = check(make, strings)
        assert found.passed, found.detail


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (BtGrcConfig, {"dropout": 0.0, "reuse_dropout": True}),
        (RirEbtGrcConfig, {"chunk": 2, "inference": "rir", "align": "random"}),
    ],
)
def test_settings_that_nothing_reads_are_refused(config: Any, settings: dict[str, Any]) -> None:
    with from_a_user(), pytest.raises(ValueError, match=r"is for model\.encoder\.(dropout|chunk)"):
        config(**settings)


def test_a_chunk_that_no_machine_counts_to_is_refused() -> None:
    with pytest.raises((UserError, ValueError), match=r"model\.encoder\.chunk must be at most"):
        case_of("rir_grc", "chunk=1000000000000000000000")


@pytest.mark.parametrize(("name", "beam"), BEAMS)
def test_gradients_reach_everything_whatever_the_beam(name: str, beam: int) -> None:
    """A scorer's bias has a gradient of rounding errors, zero or not."""
    found = gradients_reach_everything(*case_of(name, f"beam={beam}"))
    assert found.passed, found.detail


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, f"beam={beam}") for name, beam in BEAMS),
        ("rir_ebt_grc", "chunk=2 inference=rir"),
        ("ordered_memory", "slots=1"),
        ("ordered_memory", "slots=4"),
        ("rir_om", "slots=1"),
        ("rir_om", "chunk=4"),
        ("rir_om", "chunk=2 inference=rir"),
    ],
)
def test_parameters_said_to_be_without_gradient_are(name: str, settings: str) -> None:
    make, strings = case_of(name, *settings.split())
    encoder = make(dtype=torch.float64)
    encoder(strings.inputs(torch.float64), strings.mask(), seeded()).square().sum().backward()
    sizes = {
        name: 0.0 if parameter.grad is None else float(parameter.grad.norm())
        for name, parameter in encoder.named_parameters()
    }
    dust = 1e-14 * max(sizes.values())
    assert {name for name, size in sizes.items() if size <= dust} == encoder.without_gradient
