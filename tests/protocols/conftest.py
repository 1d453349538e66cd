"""A configuration small enough to train in a moment."""

from tests.training.conftest import tiny

__all__ = ["tiny"]
