"""Text and Retrieval of Long Range Arena (Tay et al. 2021): documents read byte by byte."""

from __future__ import annotations

from lrbench.tasks.lra.splits import load

__all__ = ["load"]
