"""Compile kernels for a GPU that need not be here and print, as JSON, what they became.

    python -m tests.scan.fused.compile_kernels [capability, such as 90]

Sizes are those of T = 512, batch 1024, h = 8, tables of nine symbols; numbers are float32.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from lrbench.scan.fused import block_kernels, diagonal_kernels
from lrbench.scan.fused.tiles import (
    STAGES,
    THREADS,
    block_grid,
    diagonal_grid,
    padded,
    sums_fit,
)

BATCH, HEADS, WIDTH, SYMBOLS = 1024, 8, 64, 9


def compiled(kernel: Any, constants: dict[str, Any], capability: int, warps: int = 1) -> Any:
    """Compile a kernel whose pointers are aligned to 16 bytes, as torch's are."""
    kinds = {"batch": "i32", "length": "i32", "index": "*i64"}
    names = kernel.arg_names
    signature = {n: "constexpr" if n in constants else kinds.get(n, "*fp32") for n in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if "*" in signature[n]}
    given = {n: constants[n] for n in names if n in constants}
    source = ASTSource(fn=kernel, signature=signature, constexprs=given, attrs=aligned)
    target = GPUTarget("cuda", capability, 32)
    return triton.compile(source, target=target, options={"num_warps": warps})


def described(made: Any, kernel: Any) -> dict[str, int]:
    """Return what counts in a compiled kernel: registers, bytes spilled, wide loads and stores.

    A global that is not equal to itself, as NaN, is taken for changed at the next launch.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(made.asm["cubin"])
        tool = triton.knobs.nvidia.cuobjdump.path
        listing = subprocess.run([tool, "-res-usage", path], capture_output=True, check=True).stdout
    registers, stack = map(int, re.findall(rb" (?:REG|STACK):(\d+)", listing)[:2])
    ptx = made.asm["ptx"]
    return {
        "registers": registers,
        "spilled": stack,
        "globals that change": sum(
            bool(val != names.get(name))
            for (name, _), (val, names) in kernel.used_global_vals.items()
        ),
        "asynchronous loads of 16 bytes": len(re.findall(r"cp\.async\.cg[^;]*, 0x10", ptx)),
        "stores of 16 bytes": len(re.findall(r"st\.global\.v4", ptx)),
    }


def kernels() -> dict[str, tuple[Any, dict[str, Any], int]]:
    """Return kernel, constants and warps of what is compiled, as the scans launch them."""
    found: dict[str, tuple[Any, dict[str, Any], int]] = {}
    table = {"SYMBOLS": SYMBOLS, "PADDED": padded(SYMBOLS), "STAGES": STAGES, "HEADS": HEADS}
    for size in (2, 8, 16):
        each = sums_fit(SYMBOLS, 4)
        for name, per_thread in (("forward", 8), ("backward", 8), ("table_backward", each)):
            chains = block_grid(1, BATCH, HEADS, size, per_thread)[1]
            constants = {**table, "KIND": "step", "SIZE": size, "CHAINS": chains}
            warps = max(size**2 * chains // (THREADS * each), 1) if "table" in name else 1
            found[f"blocks {size} {name}"] = getattr(block_kernels, name), constants, warps
    for kind, parts in (("real", 1), ("complex", 2)):
        for name in ("forward", "backward", "table_backward"):
            each = 1 if "table" in name else 4
            _, strings, channels = diagonal_grid(1, BATCH, WIDTH, each)
            constants = {**table, "KIND": "step", "PARTS": parts, "WIDTH": WIDTH}
            constants |= {"STRINGS": strings, "CHANNELS": channels}
            found[f"{kind} diagonal {name}"] = getattr(diagonal_kernels, name), constants, 1
    return found


def main() -> None:
    """Compile, and print."""
    capability = int(sys.argv[1]) if len(sys.argv) > 1 else 90
    reported = {
        name: described(compiled(kernel, constants, capability, warps), kernel)
        for name, (kernel, constants, warps) in kernels().items()
    }
    print(json.dumps(reported, indent=1))


if __name__ == "__main__":
    main()
