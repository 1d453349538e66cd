"""Layers of flash-linear-attention against our models with their weights.

That library needs a GPU. Its layers are written again here, a position after another, with its
names of parameters and arguments, as its 0.6.0 has them. Others: tests/oracles/test_foreign.py.
"""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, silu, softplus

from lrbench import plugins
from lrbench.contract import run_contract
from lrbench.contract.subject import device_for
from lrbench.mixers.foreign import libraries
from lrbench.schema import model_node


class ShortConvolution(nn.Conv1d):
    def __init__(self, hidden_size: int, kernel_size: int) -> None:
        super().__init__(
            hidden_size,
            hidden_size,
            kernel_size,
            groups=hidden_size,
            bias=False,
            padding=kernel_size - 1,
        )

    def forward(self, x: Tensor) -> Tensor:
        return silu(super().forward(x.mT)[..., : x.shape[1]]).mT


def unit(x: Tensor) -> Tensor:
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


class Norm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))


class DeltaNet(nn.Module):
    """What `fla.layers.DeltaNet` computes; its default is without a gate at the output."""

    gated = False

    def __init__(
        self,
        hidden_size: int = 1024,
        num_heads: int = 4,
        use_gate: bool = False,
        use_short_conv: bool = True,
        conv_size: int = 4,
        allow_neg_eigval: bool = False,
        norm_eps: float = 1e-5,
        layer_idx: int | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.range = num_heads, 2 if allow_neg_eigval else 1
        for name in "qkv":
            setattr(self, f"{name}_proj", nn.Linear(hidden_size, hidden_size, bias=False))
            if use_short_conv:
                setattr(self, f"{name}_conv1d", ShortConvolution(hidden_size, conv_size))
        self.b_proj = nn.Linear(hidden_size, num_heads, bias=False)
        if self.gated:
            self.a_proj = nn.Linear(hidden_size, num_heads, bias=False)
            self.A_log = nn.Parameter(torch.empty(num_heads).uniform_(1, 16).log())
            self.dt_bias = nn.Parameter(torch.randn(num_heads) - 3)
        self.g_proj = nn.Linear(hidden_size, hidden_size, bias=False) if use_gate else None
        self.o_norm = Norm(hidden_size // num_heads)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, None, None]:
        q, k, v = (self._part(name, x).unflatten(-1, (self.heads, -1)) for name in "qkv")
        q, k = unit(q) * q.shape[-1] ** -0.5, unit(k)
        beta = self.range * self.b_proj(x).sigmoid()
        decay = torch.ones_like(beta)
        if self.gated:
            decay = (-self.A_log.exp() * softplus(self.a_proj(x) + self.dt_bias)).exp()
        state = x.new_zeros(len(x), self.heads, v.shape[-1], k.shape[-1])
        outputs = []
        for t in range(x.shape[1]):
            state = state * decay[:, t, :, None, None]
            error = v[:, t] - torch.einsum("bhvk,bhk->bhv", state, k[:, t])
            state = state + torch.einsum("bh,bhv,bhk->bhvk", beta[:, t], error, k[:, t])
            outputs.append(torch.einsum("bhvk,bhk->bhv", state, q[:, t]))
        y = torch.stack(outputs, 1)
        y = rms_norm(y, y.shape[-1:], self.o_norm.weight, 1e-5)
        if self.g_proj is not None:
            y = y * silu(self.g_proj(x)).unflatten(-1, (self.heads, -1))
        return self.o_proj(y.flatten(2)), None, None

    def _part(self, name: str, x: Tensor) -> Tensor:
        made = getattr(self, f"{name}_proj")(x)
        if hasattr(self, f"{name}_conv1d"):
            return getattr(self, f"{name}_conv1d")(made)
        return silu(made)


class GatedDeltaNet(DeltaNet):
    gated = True


@pytest.fixture
def fla(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `fla.layers` be the layers above, as a package that runs on a CPU."""
    package, layers = ModuleType("fla"), ModuleType("fla.layers")
    for name, module in (("fla", package), ("fla.layers", layers)):
        module.__file__ = __file__
        module.__spec__ = None
        monkeypatch.setitem(sys.modules, name, module)
    layers.DeltaNet, layers.GatedDeltaNet = DeltaNet, GatedDeltaNet
    monkeypatch.setitem(libraries.LIBRARIES, "fla", libraries.Library("fla", cuda=False))
    monkeypatch.setattr(plugins, "_loaded", {"fla": package})
    for name in ("_check_installed", "_outermost"):
        monkeypatch.setattr(f"lrbench.mixers.foreign.target.{name}", lambda name: "fla")


def twin(*words: str) -> tuple[bool | None, str]:
    findings = {one.name: one for one in run_contract("foreign", words)}
    print(findings["twin"])
    assert [str(one) for one in findings.values() if one.passed is False] == []
    return findings["twin"].passed, findings["twin"].detail


@pytest.mark.parametrize("name", ["fla_delta_net", "fla_gated_deltanet"])
@pytest.mark.parametrize(
    "args",
    [
        "{num_heads: 2, conv_size: 4}",
        "{num_heads: 4, allow_neg_eigval: true, use_short_conv: false}",
    ],
)
def test_fla(fla: None, name: str, args: str) -> None:
    extra = "{use_gate: true, " if name == "fla_gated_deltanet" else "{use_gate: false, "
    passed, detail = twin(f"model.mixer.target={name}", "model.mixer.args=" + extra + args[1:])
    assert passed and "DeltaNetMixer with its weights" in detail


@pytest.mark.parametrize(("target", "device"), [("fla_kda", "cuda"), ("xlstm_slstm", "cpu")])
def test_where_a_layer_is_checked(target: str, device: str) -> None:
    node = model_node("foreign")()
    node.mixer.target = target
    assert device_for(node) == device
