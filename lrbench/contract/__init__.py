"""The contracts of mixers and encoders, as checks on any registered one: `lrbench check`."""

from lrbench.contract.finding import Finding
from lrbench.contract.run import CHECKS, ENCODER_CHECKS, run_contract

__all__ = ["CHECKS", "ENCODER_CHECKS", "Finding", "run_contract"]
