"""`model=foreign` with layers of mambapy and xlstm: the whole contract, and our models as twins."""

from __future__ import annotations

import pytest
from torch import nn

from lrbench.contract import run_contract
from lrbench.mixers.foreign import twins
from tests.oracles.pinned import pinned


def twin(*words: str) -> tuple[bool | None, str]:
    findings = {one.name: one for one in run_contract("foreign", words)}
    print(findings["twin"])
    assert [str(one) for one in findings.values() if one.passed is False] == []
    return findings["twin"].passed, findings["twin"].detail


@pytest.mark.slow
@pytest.mark.parametrize("args", ["{}", "{d_state: 8, d_conv: 3, expand_factor: 1}"])
def test_mambapy(args: str) -> None:
    pinned("mambapy", "1.2.0", {})
    words = "model.mixer.target=mambapy_mamba", f"model.mixer.args={args}"
    passed, detail = twin(*words)
    assert passed and "MambaMixer with its weights" in detail
    assert twin(words[0], "model.mixer.args={bias: true}") == (None, "model=mamba has no bias=True")


@pytest.mark.parametrize("args", ["{}", "{conv1d_kernel_size: 0, num_heads: 2}"])
def test_xlstm(args: str) -> None:
    pinned("xlstm", "2.0.6", {})
    pinned("mlstm_kernels", "2.0.6", {})
    passed, detail = twin("model.mixer.target=xlstm_slstm", f"model.mixer.args={args}")
    assert passed and "SlstmMixer with its weights" in detail


def test_mlstm_carries_a_state() -> None:
    pinned("xlstm", "2.0.6", {})
    pinned("mlstm_kernels", "2.0.6", {})
    findings = {
        one.name: one for one in run_contract("foreign", ["model.mixer.target=xlstm_mlstm"])
    }
    assert [str(one) for one in findings.values() if one.passed is False] == []
    assert findings["state size"].passed and findings["growth"].passed


@pytest.mark.parametrize("args", ["{}", "{num_heads: 2, qkv_proj_blocksize: 8, proj_factor: 1}"])
def test_xlstm_matrix_memory(args: str) -> None:
    pinned("xlstm", "2.0.6", {})
    pinned("mlstm_kernels", "2.0.6", {})
    passed, detail = twin("model.mixer.target=xlstm_mlstm", f"model.mixer.args={args}")
    assert passed and "MlstmMixer with its weights" in detail


@pytest.mark.slow
def test_a_wrong_map_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every weight counts: one that is scaled by a hundredth is found."""
    pinned("mambapy", "1.2.0", {})

    def scaled(args: dict, layer: nn.Module) -> object:
        settings, weights = twins._mamba(args, layer)
        return settings, lambda theirs: {**weights(theirs), "skip": 1.01 * weights(theirs)["skip"]}

    monkeypatch.setitem(twins.MAKERS, "mambapy.mamba.MambaBlock", scaled)
    findings = {
        one.name: one for one in run_contract("foreign", ["model.mixer.target=mambapy_mamba"])
    }
    assert findings["twin"].passed is False
