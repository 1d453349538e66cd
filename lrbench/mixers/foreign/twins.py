"""Twins: our models with the weights of a library's layer, which must compute the same.

A map gives each of our parameters from theirs by name, and is differentiable, so that gradients of
their parameters come out of our model as well. Settings are read off the layer's arguments; a
setting that we do not have is a reason, and there is nothing to compare.

    mamba            mambapy, mamba-ssm         mlstm, slstm     xlstm
    mamba2           mamba-ssm                  mamba3           mamba-ssm, flash-linear-attention
    deltanet, gated_deltanet (and KDA), gated_deltaproduct, rwkv7     flash-linear-attention

Where a product of two maps of theirs is one map of ours (KDA's gates of low rank), the map
multiplies them; where ours has a rank for all and they one for each, the smaller are filled up with
zeros; where they order the numbers of a key in another way, rows are put into our order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import pad

from lrbench.mixers.base import Mixer
from lrbench.mixers.foreign.foreign import ForeignMixer
from lrbench.mixers.foreign.libraries import layer_of
from lrbench.mixers.rwkv.rwkv7 import EPSILON
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
    make = MAKERS.get(layer.target)
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


def _mamba2(args: Mapping[str, Any], layer: Any) -> Made:
    plain = {"bias": False, "conv_bias": True, "ngroups": 1, "D_has_hdim": False, "d_ssm": None}
    if unlike := _unlike(args, {**plain, "rmsnorm": True, "norm_before_gate": False}):
        return unlike
    if (limit := args.get("dt_limit", (0.0, math.inf))) and tuple(limit) != (0.0, math.inf):
        return f"dt_limit={limit}"
    settings = {
        "expand": args["expand"],
        "heads": layer.A_log.numel(),
        "state_size": args["d_state"],
        "conv_size": args["d_conv"],
    }

    def weights(theirs: Weights) -> Weights:
        return {
            "project.weight": theirs["in_proj.weight"],  # z, x, B, C, dt
            "convolution.weight": theirs["conv1d.weight"][:, 0],
            "convolution.bias": theirs["conv1d.bias"],
            "time_bias": theirs["dt_bias"],
            "log_rate": theirs["A_log"],
            "skip": theirs["D"],
            "norm.weight": theirs["norm.weight"],
            "out.weight": theirs["out_proj.weight"],
        }

    return settings, weights


def _mamba3(args: Mapping[str, Any], layer: Any) -> Made:
    plain = {"is_mimo": False, "is_outproj_norm": False, "A_floor": 1e-4, "norm_eps": 1e-5}
    if unlike := _unlike(args, {**plain, "use_bias": False, "ngroups": 1, "n_groups": 1}):
        return unlike
    size, heads = layer.B_bias.shape[-1], layer.D.numel()
    settings = {
        "expand": args["expand"],
        "heads": heads,
        "state_size": size,
        "rotated": "all" if args["rope_fraction"] == 1 else "half",
    }
    inner = layer.out_proj.in_features
    turning = 2 * (layer.in_proj.out_features - 2 * inner - 2 * size - 3 * heads)
    one, other = torch.arange(turning).view(-1, 2).unbind(1)  # they turn neighbours, we halves
    order = torch.cat([one, other, torch.arange(turning, size)])

    def weights(theirs: Weights) -> Weights:
        channels, rest = theirs["in_proj.weight"].split(
            [2 * inner, 2 * size + 3 * heads + turning // 2]
        )
        b, c, others = rest.split([size, size, 3 * heads + turning // 2])
        return {
            "project.weight": torch.cat([channels, b[order], c[order], others]),
            "time_bias": theirs["dt_bias"],
            "key_norm.weight": theirs["B_norm.weight"][order],
            "query_norm.weight": theirs["C_norm.weight"][order],
            "key_bias": theirs["B_bias"][:, 0, order],
            "query_bias": theirs["C_bias"][:, 0, order],
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
    return _delta_settings(args, layer, "use_gate"), _delta_weights


def _gated_deltanet(args: Mapping[str, Any], layer: Any) -> Made:
    plain = {"conv_bias": False, "norm_eps": 1e-5, "num_v_heads": None}
    if unlike := _unlike(args, plain):
        return unlike
    if args.get("output_gate_activation", "silu") not in ("swish", "silu"):
        return f"output_gate_activation={args['output_gate_activation']}"
    return _delta_settings(args, layer, "use_gate"), _delta_weights


def _gated_deltaproduct(args: Mapping[str, Any], layer: Any) -> Made:
    plain = {"conv_bias": False, "norm_eps": 1e-5, "num_v_heads": None}
    if unlike := _unlike(args, plain):
        return unlike
    count, heads = args["num_householder"], args["num_heads"]
    settings = _delta_settings(args, layer, "use_output_gate")
    settings["key_size"] = layer.q_proj.out_features // heads
    settings["value_size"] = layer.o_norm.weight.numel()
    settings["householders"] = count
    settings["decay"] = "scalar" if args["use_forget_gate"] else "none"

    def by_head(rows: Tensor) -> Tensor:  # theirs are (n, H, ..), ours (H, n, ..)
        split: Tensor = rows.unflatten(0, (count, heads, -1))
        return split.transpose(0, 1).flatten(0, 2)

    def weights(theirs: Weights) -> Weights:
        layers = ("k_proj", "v_proj", "b_proj", "k_conv1d", "v_conv1d")
        several = {f"{name}.weight" for name in layers} & set(theirs)
        return _delta_weights({**theirs, **{name: by_head(theirs[name]) for name in several}})

    return settings, weights


def _kda(args: Mapping[str, Any], layer: Any) -> Made:
    plain = {"conv_bias": False, "norm_eps": 1e-5, "num_v_heads": None, "safe_gate": False}
    if unlike := _unlike(args, {**plain, "lower_bound": None}):
        return unlike
    settings = _delta_settings(args, layer, "") | {"decay": "channel", "gate": "sigmoid"}

    def weights(theirs: Weights) -> Weights:
        decay, gate = (theirs[f"{x}_proj.1.weight"] @ theirs[f"{x}_proj.0.weight"] for x in "fg")
        one_map = {"a_proj.weight": decay, "g_proj.weight": gate}
        return _delta_weights({**theirs, **one_map}) | {"gate.bias": theirs["g_proj.1.bias"]}

    return settings, weights


def _delta_settings(args: Mapping[str, Any], layer: Any, gate: str) -> dict[str, Any]:
    """Return what the layers have in common; gate: the argument that chooses one, if there is."""
    heads = args["num_heads"]
    return {
        "heads": heads,
        "key_size": layer.k_proj.out_features // heads,
        "value_size": layer.v_proj.out_features // heads,
        "range": "signed" if args["allow_neg_eigval"] else "positive",
        "conv_size": args["conv_size"] if args["use_short_conv"] else 0,
        "output_gate": args[gate] if gate else True,
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


def _rwkv7(args: Mapping[str, Any], layer: Any) -> Made:
    width, heads = layer.r_proj.in_features, layer.r_k.shape[0]
    if unlike := _unlike(args, {"elementwise_affine": True}):
        return unlike
    if layer.o_proj.in_features != width:
        return f"value_dim={layer.o_proj.in_features}"
    if not math.isclose(layer.g_norm.eps, EPSILON):
        return f"norm_eps={args['norm_eps']} of heads of {width // heads}: {EPSILON} in all"
    maps = [getattr(layer, f"{x}_lora").lora[0] for x in "wag"]
    rank = max(one.out_features for one in maps)

    def low_rank(theirs: Weights, name: str) -> tuple[Tensor, Tensor]:
        first, second = theirs[f"{name}_lora.lora.0.weight"], theirs[f"{name}_lora.lora.2.weight"]
        missing = rank - len(first)
        return pad(first, (0, 0, 0, missing)), pad(second, (0, missing))

    def weights(theirs: Weights) -> Weights:
        found = {
            "shares": torch.cat([theirs[f"x_{x}"].flatten(0, 1) for x in "rwkvag"]),
            "receptance.weight": theirs["r_proj.weight"],
            "key.weight": theirs["k_proj.weight"],
            "value.weight": theirs["v_proj.weight"],
            "out.weight": theirs["o_proj.weight"],
            "decay": theirs["w_lora.lora.2.bias"],
            "erase": theirs["a_lora.lora.2.bias"],
            "removal": theirs["k_k"],
            "replacement": theirs["k_a"],
            "bonus": theirs["r_k"],
            "norm.weight": theirs["g_norm.weight"],
            "norm.bias": theirs["g_norm.bias"],
        }
        for name, ours in (("w", "decay"), ("a", "erase"), ("g", "gate")):
            found[f"{ours}_in.weight"], found[f"{ours}_out.weight"] = low_rank(theirs, name)
        return found

    return {"heads": heads, "rank": rank}, weights


def _unlike(args: Mapping[str, Any], plain: Mapping[str, Any]) -> str:
    """Return the first argument that is not as our model has it, as NAME=VALUE."""
    found = (f"{k}={args[k]}" for k, value in plain.items() if args.get(k, value) != value)
    return next(found, "")


MAKERS: dict[str, Callable[[Mapping[str, Any], Any], Made]] = {
    "mambapy.mamba.MambaBlock": _mamba,
    "mamba_ssm.Mamba": _mamba,
    "mamba_ssm.Mamba2": _mamba2,
    "mamba_ssm.modules.mamba3.Mamba3": _mamba3,
    "xlstm.blocks.mlstm.layer.mLSTMLayer": _mlstm,
    "xlstm.blocks.slstm.layer.sLSTMLayer": _slstm,
    "fla.layers.DeltaNet": _deltanet,
    "fla.layers.GatedDeltaNet": _gated_deltanet,
    "fla.layers.GatedDeltaProduct": _gated_deltaproduct,
    "fla.layers.KimiDeltaAttention": _kda,
    "fla.layers.Mamba3": _mamba3,
    "fla.layers.RWKV7Attention": _rwkv7,
}
