"""Devices of fused kernels: a GPU with triton, or triton's slow interpreter anywhere.

CUDA builds of torch bring triton. The interpreter (TRITON_INTERPRET=1, set before the first kernel
is imported) computes with numpy what the compiled kernel would. Kernels are tested in this way on
machines without a GPU.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

from torch import Tensor

from lrbench.kernels.compiler import wanted

INTERPRETER = "TRITON_INTERPRET"


def runs(tensor: Tensor) -> bool:
    """Tell whether kernels can run where `tensor` is, and LRBENCH_COMPILED does not forbid it."""
    here = tensor.device.type == "cuda" or (tensor.device.type == "cpu" and interpreted())
    return here and wanted() and installed()


def interpreted() -> bool:
    """Tell whether the environment asks for triton's interpreter."""
    return os.environ.get(INTERPRETER) == "1"


@cache
def installed() -> bool:
    """Tell whether there is a triton to import."""
    return find_spec("triton") is not None
