"""Layers of known libraries: where each is, what installs it, what it needs, and our twin of it.

Read in flash-linear-attention 0.5 and 0.6, mamba-ssm 2.2 (its Mamba3 as of 2026), xlstm 2.0.6 and
mambapy 1.2.0. Layers that take one object with all settings name the class of that object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Library:
    """A package: what `pip install` calls it, and whether its kernels run on a CPU."""

    install: str
    cuda: bool


@dataclass(frozen=True)
class LibraryLayer:
    """A layer of a library, by the dotted path of its class.

    settings: the dataclass it is made from, if its constructor takes one. width: what it calls the
    width, where that is not the first usual name. fixed: arguments that go with a single layer.
    twin: the model here that computes the same function. double: whether it computes in float64.
    """

    target: str
    settings: str = ""
    width: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    twin: str = ""
    double: bool = False


LIBRARIES = {
    "fla": Library("'flash-linear-attention[cuda]'", cuda=True),
    "mamba_ssm": Library("mamba-ssm causal-conv1d", cuda=True),
    "mambapy": Library("mambapy", cuda=False),
    "xlstm": Library("xlstm mlstm_kernels", cuda=False),
}

LAYERS = {
    "fla_delta_net": LibraryLayer("fla.layers.DeltaNet", twin="deltanet"),
    "fla_gated_deltanet": LibraryLayer("fla.layers.GatedDeltaNet", twin="gated_deltanet"),
    "fla_gated_deltaproduct": LibraryLayer(
        "fla.layers.GatedDeltaProduct", twin="gated_deltaproduct"
    ),
    "fla_kda": LibraryLayer("fla.layers.KimiDeltaAttention", twin="gated_deltanet"),
    "fla_mamba3": LibraryLayer("fla.layers.Mamba3", twin="mamba3"),
    "fla_rwkv7": LibraryLayer(
        "fla.layers.RWKV7Attention",
        fixed={"num_hidden_layers": 2},  # its initial values divide by one less
        twin="rwkv7",
    ),
    "mamba_ssm_mamba": LibraryLayer("mamba_ssm.Mamba", twin="mamba"),
    "mamba_ssm_mamba2": LibraryLayer("mamba_ssm.Mamba2", twin="mamba2"),
    "mamba_ssm_mamba3": LibraryLayer("mamba_ssm.modules.mamba3.Mamba3", twin="mamba3"),
    "mambapy_mamba": LibraryLayer(
        "mambapy.mamba.MambaBlock",
        settings="mambapy.mamba.MambaConfig",
        fixed={"n_layers": 1},
        twin="mamba",
    ),
    "xlstm_mlstm": LibraryLayer(
        "xlstm.blocks.mlstm.layer.mLSTMLayer",
        settings="xlstm.blocks.mlstm.layer.mLSTMLayerConfig",
        width="embedding_dim",
        fixed={"context_length": 5003},
        twin="mlstm",
    ),
    "xlstm_slstm": LibraryLayer(
        "xlstm.blocks.slstm.layer.sLSTMLayer",
        settings="xlstm.blocks.slstm.layer.sLSTMLayerConfig",
        width="embedding_dim",
        fixed={"backend": "vanilla"},
        twin="slstm",
        double=True,
    ),
}


def layer_of(target: str) -> LibraryLayer:
    """Return the layer that a short name or a dotted path stands for."""
    if target in LAYERS:
        return LAYERS[target]
    known = (layer for layer in LAYERS.values() if layer.target == target)
    return next(known, LibraryLayer(target, double=library_of(target) is None))


def module_of(target: str) -> str:
    """Return the module that a short name or a dotted path is in."""
    return layer_of(target).target.rpartition(".")[0]


def library_of(target: str) -> Library | None:
    """Return the known library that a dotted path begins with; None for any other code."""
    return LIBRARIES.get(target.partition(".")[0])
