"""Our models with the weights of a library's layer: what the two compute must be the same.

A map gives each of our parameters from theirs by name, and is differentiable, so that gradients of
their parameters come out of our model as well. Settings are read off the layer's arguments; a
setting that we do not have is a reason, and there is nothing to compare.

    mamba            mambapy, mamba-ssm         mlstm, slstm     xlstm
    deltanet, gated_deltanet                    flash-linear-attention
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from lrbench.mixers.base import Mixer
from lrbench.mixers.foreign.foreign import ForeignMixer
from lrbench.mixers.foreign.libraries import layer_of
from lrbench.registry import MIXERS

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Twin:
    """A model of ours, and where its parameters are found among those of a layer."""

    mixer: Mixer
    weights: Callable[[Weights], Weights]

    def outputs(self, theirs: Weights, u: Tensor) -> Tensor:
        """Map u (B, T, D) to y (B, T, D) with the parameters of their layer, by name."""
        mine = self.weights(theirs)
        zero = {name: torch.zeros_like(p) for name, p in self.mixer.named_parameters()}
        y: Tensor = functional_call(self.mixer, {**zero, **mine}, (u,))[0]
        return y


def twin_of(foreign: ForeignMixer) -> Twin | str:
    """Return the twin of a layer, or why there is none."""
    layer = layer_of(foreign.config.target)
    make = MAKERS.get(layer.twin)
    if make is None:
        return f"no map of weights to a model of ours is known for {foreign.config.target}"
    found = make(foreign.config.args, foreign.layer)
    if isinstance(found, str):
        return f"model={layer.twin} has no {found}"
    settings, weights = found
    entry = MIXERS.get(layer.twin)
    return Twin(entry.cls(entry.config(**settings), foreign.width), weights)


Made = tuple[dict[str, Any], Callable[[Weights], Weights]] | str


def _mamba(args: Mapping[str, Any], layer: Any) -> Made:
    plain = {"bias": False, "conv_bias": True, "inner_layernorms": False, "mup": False}
    if unlike := _unlike(args, plain):
        return unlike
    rank = layer.dt_proj.in_features
    settings = {
        "expand": args.get("expand_factor", args.get("expand")),
        "state_size": args["d_state"],
        "conv_size": args["d_conv"],
        "rank": rank,
    }

    def weights(theirs: Weights) -> Weights:
        return {
            "project.weight": theirs["in_proj.weight"],
            "convolution.weight": theirs["conv1d.weight"][:, 0],
            "convolution.bias": theirs["conv1d.bias"],
            "selection.weight": theirs["x_proj.weight"],
            "step_size.weight": theirs["dt_proj.weight"],
            "step_size.bias": theirs["dt_proj.bias"],
            "log_rate": theirs["A_log"].T,
            "skip": theirs["D"],
            "out.weight": theirs["out_proj.weight"],
        }

    return settings, weights


def _mlstm(args: Mapping[str, Any], layer: Any) -> Made:
    if unlike := _unlike(args, {"bias": False, "dropout": 0.0}):
        return unlike
    inner, width = layer.proj_down.in_features, layer.proj_down.out_features
    if inner % width:
        return f"proj_factor={args['proj_factor']}"
    heads = args["num_heads"]
    settings = {
        "expand": inner // width,
        "heads": heads,
        "conv_size": args["conv1d_kernel_size"],
        "block_size": layer.q_proj.weight.shape[-1],
    }

    def weights(theirs: Weights) -> Weights:
        cell = "mlstm_cell."
        gates, biases = (
            torch.cat([theirs[f"{cell}{gate}.{part}"] for gate in ("igate", "fgate")])
            for part in ("weight", "bias")
        )
        return {
            "up.weight": theirs["proj_up.weight"],
            "conv.weight": theirs["conv1d.conv.weight"][:, 0],
            "conv.bias": theirs["conv1d.conv.bias"],
            "query": theirs["q_proj.weight"],
            "key": theirs["k_proj.weight"],
            "value": theirs["v_proj.weight"],
            "gates.weight": gates,
            "gates.bias": biases,
            "norm.weight": 1 + theirs[f"{cell}outnorm.weight"].view(heads, -1),
            "skip": theirs["learnable_skip"],
            "down.weight": theirs["proj_down.weight"],
        }

    return settings, weights


def _slstm(args: Mapping[str, Any], layer: Any) -> Made:
    if unlike := _unlike(args, {"dropout": 0.0}):
        return unlike
    heads, size = args["num_heads"], args["conv1d_kernel_size"]

    def weights(theirs: Weights) -> Weights:
        gates = [theirs[f"{name}.weight"].mT for name in ("fgate", "igate", "zgate", "ogate")]
        units = gates[0].shape[-1]
        recurrent = theirs["slstm_cell._recurrent_kernel_"].view(heads, 4, units, units)
        found = {
            "weight": torch.stack(gates, 2),
            "recurrent": recurrent.permute(0, 3, 1, 2),
            "bias": theirs["slstm_cell._bias_"].view(4, heads, units).transpose(0, 1),
            "norm.weight": 1 + theirs["group_norm.weight"].view(heads, units),
        }
        if size:
            found["conv.weight"] = theirs["conv1d.conv.weight"][:, 0]
            found["conv.bias"] = theirs["conv1d.conv.bias"]
        return found

    return {"heads": heads, "conv_size": size}, weights


def _deltanet(args: Mapping[str, Any], layer: Any) -> Made:
    plain = {"use_beta": True, "conv_bias": False, "qk_activation": "silu", "qk_norm": "l2"}
    if unlike := _unlike(args, {**plain, "norm_eps": 1e-5}):
        return unlike
    return _delta_settings(args, layer), _delta_weights


def _gated_deltanet(args: Mapping[str, Any], layer: Any) -> Made:
    plain = {"conv_bias": False, "norm_eps": 1e-5, "num_v_heads": None}
    if unlike := _unlike(args, plain):
        return unlike
    if args.get("output_gate_activation", "silu") not in ("swish", "silu"):
        return f"output_gate_activation={args['output_gate_activation']}"
    return _delta_settings(args, layer), _delta_weights


def _delta_settings(args: Mapping[str, Any], layer: Any) -> dict[str, Any]:
    heads = args["num_heads"]
    return {
        "heads": heads,
        "key_size": layer.k_proj.out_features // heads,
        "value_size": layer.v_proj.out_features // heads,
        "range": "signed" if args["allow_neg_eigval"] else "positive",
        "conv_size": args["conv_size"] if args["use_short_conv"] else 0,
        "output_gate": args["use_gate"],
    }


def _delta_weights(theirs: Weights) -> Weights:
    parts = [theirs[f"{name}_proj.weight"] for name in "qkv"]
    found = {
        "project.weight": torch.cat(parts),
        "strength.weight": theirs["b_proj.weight"],
        "norm.weight": theirs["o_norm.weight"],
        "out.weight": theirs["o_proj.weight"],
    }
    if "q_conv1d.weight" in theirs:
        kernels = [theirs[f"{name}_conv1d.weight"].flatten(1) for name in "qkv"]
        found["convolution.weight"] = torch.cat(kernels)
    if "g_proj.weight" in theirs:
        found["gate.weight"] = theirs["g_proj.weight"]
    if "a_proj.weight" in theirs:
        found["decay.weight"] = theirs["a_proj.weight"]
        found["log_rate"], found["time_bias"] = theirs["A_log"], theirs["dt_bias"]
    return found


def _unlike(args: Mapping[str, Any], plain: Mapping[str, Any]) -> str:
    """Return the first argument that is not as our model has it, as NAME=VALUE."""
    found = (f"{k}={args[k]}" for k, value in plain.items() if args.get(k, value) != value)
    return next(found, "")


MAKERS: dict[str, Callable[[Mapping[str, Any], Any], Made]] = {
    "mamba": _mamba,
    "mlstm": _mlstm,
    "slstm": _slstm,
    "deltanet": _deltanet,
    "gated_deltanet": _gated_deltanet,
}
