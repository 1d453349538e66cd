"""A trial of the kind that its protocol needs."""

from __future__ import annotations

import torch

from lrbench.config import Config
from lrbench.protocols.rir2023.declaration import Rir2023Config
from lrbench.training.epochs import EpochTrial
from lrbench.training.trial import Trial


def make_trial(config: Config, seed: int, device: torch.device | str = "cpu") -> Trial:
    """Return the run of a cell with this seed, at its beginning."""
    corpus = isinstance(config.protocol, Rir2023Config)
    return (EpochTrial if corpus else Trial)(config, seed, device)
