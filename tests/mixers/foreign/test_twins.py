"""Layers of libraries that need a GPU against our models with their weights.

The layers are written again with their names of parameters and arguments (`written_again.py`).
Libraries that run on a CPU: tests/oracles/test_foreign.py.
"""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from lrbench import plugins
from lrbench.contract import run_contract
from lrbench.contract.subject import device_for
from lrbench.mixers.foreign import libraries
from lrbench.mixers.foreign.foreign import ForeignMixer
from lrbench.mixers.foreign.libraries import LAYERS
from lrbench.mixers.foreign.settings import ForeignConfig
from lrbench.mixers.foreign.target import named_by_user
from lrbench.mixers.foreign.twins import MAKERS, Twin, twin_of
from lrbench.schema import model_node
from tests.mixers.foreign import written_again as again
from tests.mixers.foreign.compared import twin

PACKAGES = {
    "fla.layers": {
        "DeltaNet": again.DeltaNet,
        "GatedDeltaNet": again.GatedDeltaNet,
        "GatedDeltaProduct": again.GatedDeltaProduct,
        "KimiDeltaAttention": again.KimiDeltaAttention,
        "RWKV7Attention": again.RWKV7Attention,
        "Mamba3": again.FlaMamba3,
    },
    "mamba_ssm": {"Mamba2": again.Mamba2},
    "mamba_ssm.modules.mamba3": {"Mamba3": again.Mamba3},
}

WIDTH = 16


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the packages be the layers above, and run on a CPU."""
    found = {}
    for path, classes in PACKAGES.items():
        parts = path.split(".")
        for name in (".".join(parts[:end]) for end in range(1, len(parts) + 1)):
            module = found.setdefault(name, ModuleType(name))
            module.__file__ = __file__
            module.__spec__ = None
            monkeypatch.setitem(sys.modules, name, module)
        vars(found[path]).update(classes)
    for name in ("fla", "mamba_ssm"):
        monkeypatch.setitem(libraries.LIBRARIES, name, libraries.Library(name, cuda=False))
    monkeypatch.setattr(plugins, "_loaded", {name: found[name] for name in ("fla", "mamba_ssm")})
    monkeypatch.setattr("lrbench.mixers.foreign.target._check_installed", lambda name: None)
    monkeypatch.setattr(
        "lrbench.mixers.foreign.target._outermost", lambda name: name.partition(".")[0]
    )


def layer(target: str, **args: object) -> ForeignMixer:
    torch.manual_seed(0)
    return ForeignMixer(named_by_user(ForeignConfig(target, args)), WIDTH)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fla_delta_net", "fla_gated_deltanet"])
@pytest.mark.parametrize(
    "args",
    [
        "{num_heads: 2, conv_size: 4}",
        "{num_heads: 4, allow_neg_eigval: true, use_short_conv: false}",
    ],
)
def test_delta_rule(name: str, args: str) -> None:
    extra = "{use_gate: true, " if name == "fla_gated_deltanet" else "{use_gate: false, "
    finding = twin(name, extra + args[1:])
    assert finding.passed and "DeltaNetMixer with its weights" in finding.detail


@pytest.mark.slow
def test_the_contract_of_a_layer_with_a_twin_is_kept() -> None:
    words = "model.mixer.target=fla_gated_deltanet", "model.mixer.args={num_heads: 2, conv_size: 4}"
    findings = {one.name: one for one in run_contract("foreign", words)}
    assert [str(one) for one in findings.values() if one.passed is False] == []
    assert findings["twin"].passed


CASES = [  # of up to 8 values a head: more would have loops compiled for them, in float64
    ("fla_gated_deltaproduct", {"num_heads": 2, "head_dim": 4}),
    (
        "fla_gated_deltaproduct",
        {
            "num_heads": 3,
            "head_dim": 4,
            "expand_v": 1,
            "num_householder": 3,
            "use_forget_gate": False,
            "use_output_gate": False,
            "allow_neg_eigval": False,
            "use_short_conv": False,
        },
    ),
    ("fla_kda", {"num_heads": 2, "head_dim": 3, "expand_v": 2}),
    ("fla_kda", {"num_heads": 3, "head_dim": 4, "allow_neg_eigval": True}),
    ("fla_rwkv7", {"head_dim": 8, "norm_eps": 8e-5, "gate_low_rank_dim": 5, "a_low_rank_dim": 3}),
    ("fla_rwkv7", {"head_dim": 4, "norm_eps": 16e-5, "decay_low_rank_dim": 40}),
    ("mamba_ssm_mamba2", {"d_state": 12, "headdim": 8}),
    ("mamba_ssm_mamba2", {"d_state": 5, "headdim": 4, "expand": 1, "d_conv": 2}),
    ("mamba_ssm_mamba3", {"d_state": 12, "headdim": 8}),
    ("mamba_ssm_mamba3", {"d_state": 6, "headdim": 4, "rope_fraction": 1.0}),
    ("fla_mamba3", {"state_size": 8, "head_dim": 8, "expand": 1}),
]


@pytest.mark.parametrize(("target", "args"), CASES)
def test_others(target: str, args: dict) -> None:
    """Outputs, and gradients of all of their parameters, in float64; none of them is zero."""
    mixer = layer(target, **args).double()
    found = twin_of(mixer)
    assert isinstance(found, Twin), found
    found.mixer.double()
    theirs = dict(mixer.layer.named_parameters())
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for one in theirs.values():
            one += 0.1 * torch.randn(one.shape, dtype=torch.float64, generator=generator)
    u = torch.randn(2, 19, WIDTH, dtype=torch.float64, generator=generator)
    expected, y = mixer.outputs(u), found.outputs(theirs, u)
    torch.testing.assert_close(y, expected, rtol=1e-9, atol=1e-11)
    weight = torch.randn(u.shape, dtype=torch.float64, generator=generator)
    one, other = (torch.autograd.grad((x * weight).sum(), theirs.values()) for x in (y, expected))
    torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)
    assert all(slope.abs().max() > 0 for slope in one)


@pytest.mark.parametrize(
    ("target", "args", "reason"),
    [
        ("fla_gated_deltaproduct", {"num_v_heads": 12}, "num_v_heads=12"),
        ("fla_kda", {"safe_gate": True}, "safe_gate=True"),
        ("fla_rwkv7", {"head_dim": 8}, "norm_eps=1e-05 of heads of 8: 0.00064 in all"),
        ("mamba_ssm_mamba2", {"headdim": 8, "rmsnorm": False}, "rmsnorm=False"),
        ("mamba_ssm_mamba2", {"headdim": 8, "dt_limit": [0.0, 1.0]}, "dt_limit=[0.0, 1.0]"),
        ("mamba_ssm_mamba3", {"headdim": 8, "is_mimo": True}, "is_mimo=True"),
    ],
)
def test_what_our_model_has_not_is_said(target: str, args: dict, reason: str) -> None:
    assert twin_of(layer(target, **args)) == f"model={LAYERS[target].twin} has no {reason}"


def test_every_named_layer_has_a_map() -> None:
    assert {one.target for one in LAYERS.values()} == set(MAKERS)
    assert all(one.twin for one in LAYERS.values())


@pytest.mark.parametrize(("target", "device"), [("fla_kda", "cpu"), ("xlstm_slstm", "cpu")])
def test_where_a_layer_is_checked(target: str, device: str) -> None:
    node = model_node("foreign")()
    node.mixer.target = target
    assert device_for(node) == device
