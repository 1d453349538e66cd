"""The choice before every fast path: numba's loops, triton's kernels, oneDNN's products, or torch.

There is one question, `usable`, and one switch: LRBENCH_COMPILED=0 leaves everything to torch. A
kernel is used for numbers that it is made for, where what it needs is installed, and once it has
proved itself on this machine (`lrbench.trust`).

CUDA builds of torch bring triton. Its interpreter (TRITON_INTERPRET=1, set before the first kernel
is imported) computes with numpy what the compiled kernel would: in this way kernels are tested on
machines without a GPU. torch multiplies by MKL, which takes AVX2 on every processor that is not
Intel's; oneDNN, a part of torch as well, takes AVX-512 where it is.
"""

from __future__ import annotations

import os
from enum import Enum
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from lrbench.machine import processor_says
from lrbench.trust import trusted

SWITCH = "LRBENCH_COMPILED"
INTERPRETER = "TRITON_INTERPRET"
DTYPES = {torch.float32: "float32", torch.float64: "float64"}  # that numba's loops are made for


class Means(Enum):
    """What kernels are made by."""

    NUMBA = "numba"
    TRITON = "triton"
    ONEDNN = "oneDNN"


def usable(tensor: Tensor, name: str, *layout: int | str, by: Means = Means.NUMBA) -> bool:
    """Tell whether the kernel `name` is to be used for numbers such as `tensor`'s.

    layout: the constants it is compiled with, as its self-check takes them
    (`lrbench/trust/cases.py`).
    """
    return covers(by, tensor) and trusted(name, tensor.dtype, tensor.device, layout)


def heard(*layers: nn.Module) -> bool:
    """Tell whether a hook waits for what one of some layers is given or returns.

    Such layers have to be called. Kernels read their weights, and no hook would hear of it.
    """
    return any(layer._forward_hooks or layer._forward_pre_hooks for layer in layers)


def covers(by: Means, tensor: Tensor) -> bool:
    """Tell whether kernels by such means run where `tensor` is, and on numbers such as its."""
    on_cpu = tensor.device.type == "cpu"
    if by is Means.NUMBA:
        here = on_cpu and tensor.dtype in DTYPES
    elif by is Means.TRITON:
        here = tensor.device.type == "cuda" or (on_cpu and interpreted())
    else:
        here = on_cpu and tensor.dtype == torch.float32
    return here and available(by)


def available(by: Means) -> bool:
    """Tell whether the environment leaves fast paths on, and there is what these need."""
    return wanted() and installed(by)


def wanted() -> bool:
    """Tell whether the environment leaves fast paths on: LRBENCH_COMPILED is not 0."""
    return os.environ.get(SWITCH, "1") != "0"


@cache
def installed(by: Means = Means.NUMBA) -> bool:
    """Tell whether there is a package to import; of oneDNN, whether it beats torch's own choice."""
    if by is Means.ONEDNN:
        return _has_more_than_mkl_takes()
    return find_spec(by.value) is not None


def interpreted() -> bool:
    """Tell whether the environment asks for triton's interpreter."""
    return os.environ.get(INTERPRETER) == "1"


def _has_more_than_mkl_takes() -> bool:
    """Tell whether this processor has AVX-512 and is none that MKL would use it on."""
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()):
        return False
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    maker = processor_says("vendor_id") or "GenuineIntel"  # unknown: leave it to torch
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and maker != "GenuineIntel"
