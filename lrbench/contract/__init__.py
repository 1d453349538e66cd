"""The contracts of mixers and encoders, as checks on any registered one: `lrbench check`."""

from lrbench.contract.encoder_run import ENCODER_CHECKS, run_encoder_contract
from lrbench.contract.finding import Finding
from lrbench.contract.run import CHECKS, run_contract

__all__ = ["CHECKS", "ENCODER_CHECKS", "Finding", "run_contract", "run_encoder_contract"]
