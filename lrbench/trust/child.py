"""The process that tries kernels: a request a line on stdin, an answer a line on stdout."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lrbench.trust.cases import CASES, Case, Draw
from lrbench.trust.checker import ANSWERED
from lrbench.trust.decision import reached, trying
from lrbench.trust.outcomes import Kernel

IDLE = 60  # seconds until a child goes that nobody asks
FACTOR = 30  # units in the last place of the largest number, times the root of how many there are


def main() -> None:
    """Answer requests until there are none."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a compiler prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to heed
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    torch.set_num_threads(1)
    signal.alarm(IDLE)
    for line in sys.stdin:
        request = json.loads(line)
        signal.alarm(int(request["limit"]))
        kernel = Kernel(
            request["name"], request["dtype"], tuple(request["layout"]), request["device"]
        )
        reason = fault(kernel)
        print(json.dumps({ANSWERED: reason}), file=answers, flush=True)
        if reason and kernel.device != "cpu":
            return  # a fault may leave nothing on the GPU working for this process
        signal.alarm(IDLE)


def fault(kernel: Kernel) -> str:
    """Return what is wrong with a kernel in this process; nothing if it agrees."""
    try:
        return compare(kernel, CASES[kernel.name])
    except Exception as error:  # whatever a kernel raises is what is asked
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"[:200]


def compare(kernel: Kernel, case: Case) -> str:
    """Return the first difference between a kernel and the plain path; nothing if none."""
    with trying(None):
        plain = results(kernel, case)
    with trying(kernel):
        fast = results(kernel, case)
        if not reached():
            return "its case does not reach it"
    if len(plain) != len(fast):
        return f"{len(fast)} results for {len(plain)}"
    for (what, expected), (_, found) in zip(plain, fast, strict=True):
        if wrong := difference(found, expected):
            return f"{what}: {wrong}"
    return ""


def results(kernel: Kernel, case: Case) -> list[tuple[str, Tensor]]:
    """Return values, and gradients of a sum that weighs each of them differently."""
    draw = Draw(getattr(torch, kernel.dtype), torch.device(kernel.device))
    function, leaves = case(draw, *kernel.layout)
    values: Sequence[Tensor] = function(*leaves)
    found = [(f"value {place}", value.detach()) for place, value in enumerate(values)]
    graded: list[Any] = [value for value in values if value.requires_grad]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if graded:
        slopes = torch.autograd.grad(graded, wanted, [weights(value) for value in graded])
        found += [(f"gradient {place}", slope) for place, slope in enumerate(slopes)]
    return found


def weights(value: Tensor) -> Tensor:
    """Return an upstream gradient for a value, another number at each place."""
    drawn = torch.randn(value.shape, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    return drawn.to(value.device, value.dtype)


def difference(found: Tensor, expected: Tensor) -> str:
    """Say how two tensors differ by more than rounding; nothing if they do not."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{tuple(found.shape)} of {found.dtype}, not {tuple(expected.shape)}"
    if not (found.is_floating_point() or found.is_complex()):
        return "" if torch.equal(found, expected) else "other numbers"
    if not torch.equal(found.isfinite(), expected.isfinite()):
        return "not a finite number where the plain path has one, or the other way round"
    finite = expected.isfinite()
    gap = (found - expected)[finite].abs()
    if not gap.numel():
        return ""
    scale = max(1.0, float(expected[finite].abs().max()))
    bound = FACTOR * torch.finfo(expected.dtype).eps * (1 + gap.numel() ** 0.5) * scale
    worst = float(gap.max())
    return f"off by {worst:.3g}, and {bound:.3g} is rounding" if worst > bound else ""


if __name__ == "__main__":
    main()
