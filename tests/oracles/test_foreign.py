"""`model=foreign` with layers of mambapy and xlstm: the whole contract, and our models as twins."""

from __future__ import annotations

import pytest
from torch import nn

from lrbench.contract import run_contract
from lrbench.mixers.foreign import twins
from tests.mixers.foreign.compared import twin
from tests.oracles.pinned import pinned

PACKAGES = {
    "mambapy_mamba": [("mambapy", "1.2.0")],
    "xlstm_slstm": [("xlstm", "2.0.6"), ("mlstm_kernels", "2.0.6")],
    "xlstm_mlstm": [("xlstm", "2.0.6"), ("mlstm_kernels", "2.0.6")],
}
LAYERS = {  # the twin, and other arguments
    "mambapy_mamba": ("MambaMixer", "{d_state: 8, d_conv: 3, expand_factor: 1}"),
    "xlstm_slstm": ("SlstmMixer", "{conv1d_kernel_size: 0, num_heads: 2}"),
    "xlstm_mlstm": ("MlstmMixer", "{num_heads: 2, qkv_proj_blocksize: 8, proj_factor: 1}"),
}


@pytest.fixture(params=LAYERS)
def target(request: pytest.FixtureRequest) -> str:
    for package, version in PACKAGES[request.param]:
        pinned(package, version, {})
    return str(request.param)


@pytest.mark.slow
def test_the_contract_is_kept(target: str) -> None:
    found = {one.name: one for one in run_contract("foreign", [f"model.mixer.target={target}"])}
    assert [str(one) for one in found.values() if one.passed is False] == []
    assert found["twin"].passed
    assert f"{LAYERS[target][0]} with its weights" in found["twin"].detail
    if target == "xlstm_mlstm":  # a state is carried
        assert found["state size"].passed and found["growth"].passed


@pytest.mark.slow
def test_other_arguments(target: str) -> None:
    name, args = LAYERS[target]
    finding = twin(target, args)
    assert finding.passed and f"{name} with its weights" in finding.detail


def test_an_argument_that_our_model_has_not() -> None:
    pinned("mambapy", "1.2.0", {})
    finding = twin("mambapy_mamba", "{bias: true}")
    assert (finding.passed, finding.detail) == (None, "model=mamba has no bias=True")


@pytest.mark.slow
def test_a_wrong_map_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every weight counts: one that is scaled by a hundredth is found."""
    pinned("mambapy", "1.2.0", {})

    def scaled(args: dict, layer: nn.Module) -> object:
        settings, weights = twins._mamba(args, layer)
        return settings, lambda theirs: {**weights(theirs), "skip": 1.01 * weights(theirs)["skip"]}

    monkeypatch.setitem(twins.MAKERS, "mambapy.mamba.MambaBlock", scaled)
    assert twin("mambapy_mamba").passed is False
