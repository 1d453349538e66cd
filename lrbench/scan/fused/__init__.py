"""Scans as one GPU kernel each, written in triton: `fused`, and what it `fits`."""

from lrbench.scan.fused.algorithm import fits, fused

__all__ = ["fits", "fused"]
