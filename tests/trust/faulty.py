"""Layer normalisation with a fault for each width; as sitecustomize.py, in a child as well."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

WRONG, SLOPE, RAISES, NAN, CRASHES, HANGS = FAULTS = (16, 32, 48, 64, 80, 96)

Loop = Callable[..., Any]


def install() -> None:
    from lrbench.kernels import normalisation as norm

    forward, backward = norm.forward_loop, norm.backward_loop

    def faulty_forward(features: int, dtype: str) -> Loop:
        if features == HANGS:  # as a compiler that finds no end
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
            while True:
                time.sleep(1)
        if features == RAISES:
            raise RuntimeError("no such instruction")
        if features == CRASHES:
            os.kill(os.getpid(), signal.SIGSEGV)
        loop = forward(features, dtype)

        def run(*arguments: Any) -> None:
            loop(*arguments)
            if features in (WRONG, NAN):
                arguments[3][0, 1] = float("nan") if features == NAN else 1.5

        return run

    def faulty_backward(features: int, dtype: str) -> Loop:
        loop = backward(features, dtype)

        def run(*arguments: Any) -> None:
            loop(*arguments)
            if features == SLOPE:
                arguments[-2][:] *= 1.001  # the weight's

        return run

    norm.forward_loop, norm.backward_loop = faulty_forward, faulty_backward  # type: ignore[assignment]


if __name__ == "sitecustomize":
    install()
