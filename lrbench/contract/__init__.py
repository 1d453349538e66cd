"""The contract of a mixer, as checks that run on any registered one: `lrbench check`."""

from lrbench.contract.finding import Finding
from lrbench.contract.run import CHECKS, run_contract

__all__ = ["CHECKS", "Finding", "run_contract"]
