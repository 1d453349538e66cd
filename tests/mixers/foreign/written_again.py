"""Layers of libraries that need a GPU, written again as loops, with their names of everything.

flash-linear-attention 0.6.0 and mamba-ssm as of 2026: what their layers compute, a position after
another, with the names and shapes of their parameters and the arguments of their constructors.
Initial values are drawn where theirs begin at zero and would hide a weight. Mamba-3's recurrence is
that of the reference which mamba-ssm tests its kernels with.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, normalize, pad, rms_norm, silu, softplus


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


class GatedDeltaProduct(nn.Module):
    """What `fla.layers.GatedDeltaProduct` computes: keys and values are (n, H, ..)."""

    def __init__(
        self,
        hidden_size: int = 2048,
        expand_v: float = 2,
        head_dim: int = 256,
        num_heads: int = 6,
        num_v_heads: int | None = None,
        use_output_gate: bool = True,
        use_short_conv: bool = True,
        conv_size: int = 4,
        conv_bias: bool = False,
        layer_idx: int | None = None,
        norm_eps: float = 1e-5,
        use_forget_gate: bool = True,
        allow_neg_eigval: bool = True,
        num_householder: int = 2,
    ) -> None:
        super().__init__()
        self.heads, self.count, self.range = num_heads, num_householder, 1 + allow_neg_eigval
        keys, values = num_heads * head_dim, int(num_heads * head_dim * expand_v)
        sizes = {"q": keys, "k": keys * num_householder, "v": values * num_householder}
        for name, size in sizes.items():
            setattr(self, f"{name}_proj", nn.Linear(hidden_size, size, bias=False))
            if use_short_conv:
                setattr(self, f"{name}_conv1d", ShortConvolution(size, conv_size))
        self.b_proj = nn.Linear(hidden_size, num_heads * num_householder, bias=False)
        self.forgets, self.gated = use_forget_gate, use_output_gate
        if use_forget_gate:
            self.a_proj = nn.Linear(hidden_size, num_heads, bias=False)
            self.A_log = nn.Parameter(torch.empty(num_heads).uniform_(1, 16).log())
            self.dt_bias = nn.Parameter(torch.randn(num_heads) - 3)
        if use_output_gate:
            self.g_proj = nn.Linear(hidden_size, values, bias=False)
        self.o_norm = Norm(values // num_heads)
        self.o_proj = nn.Linear(values, hidden_size, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, None, None]:
        batch, length, _ = x.shape
        several = batch, length, self.count, self.heads
        q, k, v = (self._part(name, x) for name in "qkv")
        q, k, v = q.unflatten(-1, (self.heads, -1)), k.view(*several, -1), v.view(*several, -1)
        q, k = unit(q) * q.shape[-1] ** -0.5, unit(k)
        beta = self.range * self.b_proj(x).sigmoid().view(several)
        state = x.new_zeros(batch, self.heads, v.shape[-1], k.shape[-1])
        outputs = []
        for t in range(length):
            if self.forgets:
                log = -self.A_log.exp() * softplus(self.a_proj(x[:, t]) + self.dt_bias)
                state = state * log.exp()[..., None, None]
            for j in range(self.count):
                error = v[:, t, j] - torch.einsum("bhvk,bhk->bhv", state, k[:, t, j])
                state = state + torch.einsum("bh,bhv,bhk->bhvk", beta[:, t, j], error, k[:, t, j])
            outputs.append(torch.einsum("bhvk,bhk->bhv", state, q[:, t]))
        y = torch.stack(outputs, 1)
        y = rms_norm(y, y.shape[-1:], self.o_norm.weight, 1e-5)
        if self.gated:
            y = y * silu(self.g_proj(x)).unflatten(-1, (self.heads, -1))
        return self.o_proj(y.flatten(2)), None, None

    _part = DeltaNet._part


class KimiDeltaAttention(nn.Module):
    """What `fla.layers.KimiDeltaAttention` computes: a decay for each feature of a key."""

    def __init__(
        self,
        hidden_size: int = 2048,
        expand_v: float = 1,
        head_dim: int = 128,
        num_heads: int = 16,
        num_v_heads: int | None = None,
        use_short_conv: bool = True,
        allow_neg_eigval: bool = False,
        safe_gate: bool = False,
        lower_bound: float | None = None,
        conv_size: int = 4,
        conv_bias: bool = False,
        layer_idx: int | None = None,
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.heads, self.range = num_heads, 1 + allow_neg_eigval
        keys, size = num_heads * head_dim, int(head_dim * expand_v)
        values = num_heads * size
        for name, features in (("q", keys), ("k", keys), ("v", values)):
            setattr(self, f"{name}_proj", nn.Linear(hidden_size, features, bias=False))
            if use_short_conv:
                setattr(self, f"{name}_conv1d", ShortConvolution(features, conv_size))
        self.f_proj = nn.Sequential(
            nn.Linear(hidden_size, size, bias=False), nn.Linear(size, keys, bias=False)
        )
        self.b_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.A_log = nn.Parameter(torch.empty(num_heads).uniform_(1, 16).log())
        self.dt_bias = nn.Parameter(torch.randn(keys) - 3)
        self.g_proj = nn.Sequential(
            nn.Linear(hidden_size, size, bias=False), nn.Linear(size, values)
        )
        self.o_norm = Norm(size)
        self.o_proj = nn.Linear(values, hidden_size, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, None, None]:
        q, k, v = (self._part(name, x).unflatten(-1, (self.heads, -1)) for name in "qkv")
        q, k = unit(q) * q.shape[-1] ** -0.5, unit(k)
        beta = self.range * self.b_proj(x).sigmoid()
        time = softplus(self.f_proj(x) + self.dt_bias).unflatten(-1, (self.heads, -1))
        decay = (-self.A_log.exp()[:, None] * time).exp()
        state = x.new_zeros(len(x), self.heads, v.shape[-1], k.shape[-1])
        outputs = []
        for t in range(x.shape[1]):
            state = state * decay[:, t, :, None]
            error = v[:, t] - torch.einsum("bhvk,bhk->bhv", state, k[:, t])
            state = state + torch.einsum("bh,bhv,bhk->bhvk", beta[:, t], error, k[:, t])
            outputs.append(torch.einsum("bhvk,bhk->bhv", state, q[:, t]))
        y = torch.stack(outputs, 1)
        y = rms_norm(y, y.shape[-1:], self.o_norm.weight, 1e-5)
        y = y * self.g_proj(x).sigmoid().unflatten(-1, (self.heads, -1))
        return self.o_proj(y.flatten(2)), None, None

    _part = DeltaNet._part


class LoRA(nn.Module):
    def __init__(
        self, inputs: int, outputs: int, rank: int, activation: nn.Module, bias: bool
    ) -> None:
        super().__init__()
        first, second = nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=bias)
        self.lora = nn.Sequential(first, activation, second)

    def forward(self, x: Tensor) -> Tensor:
        return self.lora(x)


class RWKV7Attention(nn.Module):
    """What `fla.layers.RWKV7Attention` computes as the first layer, which has no v_first."""

    def __init__(
        self,
        hidden_size: int = 1024,
        head_dim: int | None = 64,
        num_heads: int | None = None,
        decay_low_rank_dim: int | None = None,
        gate_low_rank_dim: int | None = None,
        a_low_rank_dim: int | None = None,
        elementwise_affine: bool = True,
        norm_eps: float = 1e-5,
        layer_idx: int | None = None,
        value_dim: int | None = None,
        num_hidden_layers: int | None = None,
    ) -> None:
        super().__init__()
        self.heads, width = hidden_size // head_dim, hidden_size
        for name in "rwkvag":
            setattr(self, f"x_{name}", nn.Parameter(torch.rand(1, 1, width)))
        self.k_k, self.k_a = (nn.Parameter(0.5 + torch.rand(width)) for _ in range(2))
        self.r_k = nn.Parameter(torch.randn(self.heads, head_dim))
        self.r_proj, self.k_proj, self.v_proj, self.o_proj = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.w_lora = LoRA(width, width, decay_low_rank_dim or 32, nn.Tanh(), True)
        self.a_lora = LoRA(width, width, a_low_rank_dim or 32, nn.Identity(), True)
        self.g_lora = LoRA(width, width, gate_low_rank_dim or 32, nn.Sigmoid(), False)
        self.g_norm = nn.GroupNorm(self.heads, width, head_dim * norm_eps)

    def forward(
        self, x: Tensor, v_first: Tensor | None = None
    ) -> tuple[Tensor, None, None, Tensor]:
        change = pad(x, (0, 0, 1, 0))[:, :-1] - x
        r, w, k, v, a, g = (x + change * getattr(self, f"x_{name}") for name in "rwkvag")
        r, k, v = self.r_proj(r), self.k_proj(k), self.v_proj(v)
        decay = (-math.exp(-0.5) * self.w_lora(w).sigmoid()).exp()
        a, g = self.a_lora(a).sigmoid(), self.g_lora(g)
        kk = k * self.k_k
        k = k * (1 + (a - 1) * self.k_a)
        r, decay, k, v, kk, a = (
            one.unflatten(-1, (self.heads, -1)) for one in (r, decay, k, v, kk, a)
        )
        kk = normalize(kk, dim=-1)
        size = k.shape[-1]
        state, outputs = x.new_zeros(len(x), self.heads, size, size), []
        for t in range(x.shape[1]):
            erased = torch.einsum("bhvk,bhk->bhv", state, -kk[:, t])
            state = state * decay[:, t, :, None]
            state = state + torch.einsum("bhv,bhk->bhvk", erased, kk[:, t] * a[:, t])
            state = state + torch.einsum("bhv,bhk->bhvk", v[:, t], k[:, t])
            outputs.append(torch.einsum("bhvk,bhk->bhv", state, r[:, t]))
        y = torch.stack(outputs, 1)
        y = layer_norm(y, y.shape[-1:], eps=self.g_norm.eps).flatten(2)
        y = y * self.g_norm.weight + self.g_norm.bias
        y = (y + ((r * k * self.r_k).sum(-1, keepdim=True) * v).flatten(2)) * g
        return self.o_proj(y), None, None, v


class Mamba2(nn.Module):
    """What `mamba_ssm.Mamba2` computes."""

    def __init__(
        self,
        d_model: int,
        d_state: int = 128,
        d_conv: int = 4,
        expand: int = 2,
        headdim: int = 64,
        d_ssm: int | None = None,
        ngroups: int = 1,
        D_has_hdim: bool = False,
        rmsnorm: bool = True,
        norm_before_gate: bool = False,
        dt_limit: tuple[float, float] = (0.0, math.inf),
        bias: bool = False,
        conv_bias: bool = True,
        layer_idx: int | None = None,
    ) -> None:
        super().__init__()
        self.inner, self.size = expand * d_model, d_state
        self.heads, mixed = self.inner // headdim, self.inner + 2 * d_state
        self.in_proj = nn.Linear(d_model, self.inner + mixed + self.heads, bias=False)
        self.conv1d = nn.Conv1d(mixed, mixed, d_conv, groups=mixed, padding=d_conv - 1)
        self.dt_bias = nn.Parameter(torch.randn(self.heads) - 3)
        self.A_log = nn.Parameter(torch.empty(self.heads).uniform_(1, 16).log())
        self.D = nn.Parameter(torch.ones(self.heads))
        self.norm = Norm(self.inner)
        self.out_proj = nn.Linear(self.inner, d_model, bias=False)

    def forward(self, u: Tensor) -> Tensor:
        inner, size, length = self.inner, self.size, u.shape[1]
        z, mixed, dt = self.in_proj(u).split([inner, inner + 2 * size, self.heads], -1)
        mixed = silu(self.conv1d(mixed.mT)[..., :length].mT)
        x, b, c = mixed.split([inner, size, size], -1)
        x, dt = x.unflatten(-1, (self.heads, -1)), softplus(dt + self.dt_bias)
        decay = (-self.A_log.exp() * dt).exp()
        state, outputs = u.new_zeros(len(u), self.heads, x.shape[-1], size), []
        for t in range(length):
            state = state * decay[:, t, :, None, None]
            state = state + torch.einsum("bh,bn,bhp->bhpn", dt[:, t], b[:, t], x[:, t])
            y = torch.einsum("bhpn,bn->bhp", state, c[:, t]) + self.D[:, None] * x[:, t]
            outputs.append(y.flatten(1))
        y = rms_norm(torch.stack(outputs, 1) * silu(z), (inner,), self.norm.weight, 1e-5)
        return self.out_proj(y)


class Mamba3(nn.Module):
    """What `mamba_ssm.modules.mamba3.Mamba3` computes: neighbours are turned, by pairs."""

    def __init__(
        self,
        d_model: int,
        d_state: int = 128,
        expand: int = 2,
        headdim: int = 64,
        ngroups: int = 1,
        rope_fraction: float = 0.5,
        A_floor: float = 1e-4,
        is_outproj_norm: bool = False,
        is_mimo: bool = False,
        layer_idx: int | None = None,
    ) -> None:
        super().__init__()
        self.inner, self.size = expand * d_model, d_state
        self.heads, self.angles = self.inner // headdim, int(d_state * rope_fraction) // 2
        self.parts = [self.inner] * 2 + [d_state] * 2 + [self.heads] * 3 + [self.angles]
        self.in_proj = nn.Linear(d_model, sum(self.parts), bias=False)
        self.dt_bias = nn.Parameter(torch.randn(self.heads) - 3)
        self.B_bias, self.C_bias = (
            nn.Parameter(torch.ones(self.heads, 1, d_state)) for _ in range(2)
        )
        self.B_norm, self.C_norm = Norm(d_state), Norm(d_state)
        self.D = nn.Parameter(torch.ones(self.heads))
        self.out_proj = nn.Linear(self.inner, d_model, bias=False)

    def forward(self, u: Tensor) -> Tensor:
        z, x, b, c, dt, fall, trap, turn = self.in_proj(u).split(self.parts, -1)
        x, dt, trap = x.unflatten(-1, (self.heads, -1)), softplus(dt + self.dt_bias), trap.sigmoid()
        decay = (-softplus(fall).clamp_min(1e-4) * dt).exp()
        b, c = (
            rms_norm(one, (self.size,), norm.weight, 1e-5)[:, :, None] + bias[:, 0]
            for one, norm, bias in ((b, self.B_norm, self.B_bias), (c, self.C_norm, self.C_bias))
        )
        shape = len(u), self.heads, x.shape[-1], self.size
        state, angle, outputs = u.new_zeros(shape), u.new_zeros(*shape[:2], self.angles), []
        before = u.new_zeros(shape)
        for t in range(u.shape[1]):
            angle = angle + math.pi * turn[:, t, None].tanh() * dt[:, t, :, None]
            k, q = self._turned(b[:, t], angle), self._turned(c[:, t], angle)
            written = torch.einsum("bhp,bhn->bhpn", x[:, t], k)
            a, d, now = (one[:, t, :, None, None] for one in (decay, dt, trap))
            state = a * (state + (1 - now) * d * before) + now * d * written
            y = torch.einsum("bhpn,bhn->bhp", state, q) + self.D[:, None] * x[:, t]
            outputs.append(y.flatten(1))
            before = written
        return self.out_proj(torch.stack(outputs, 1) * silu(z))

    def _turned(self, x: Tensor, angle: Tensor) -> Tensor:
        pairs, rest = x[..., : 2 * self.angles].unflatten(-1, (-1, 2)), x[..., 2 * self.angles :]
        one, other = pairs.unbind(-1)
        turned = one * angle.cos() - other * angle.sin(), one * angle.sin() + other * angle.cos()
        return torch.cat([torch.stack(turned, -1).flatten(-2), rest], -1)


class FlaMamba3(Mamba3):
    """The same by flash-linear-attention's names of arguments."""

    def __init__(
        self,
        hidden_size: int = 2048,
        state_size: int = 128,
        expand: int = 2,
        head_dim: int = 64,
        n_groups: int = 1,
        rope_fraction: float = 0.5,
        A_floor: float = 1e-4,
        is_outproj_norm: bool = False,
        is_mimo: bool = False,
        use_bias: bool = False,
        norm_eps: float = 1e-5,
        layer_idx: int | None = None,
    ) -> None:
        super().__init__(hidden_size, state_size, expand, head_dim, rope_fraction=rope_fraction)
