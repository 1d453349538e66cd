"""How many updates a run is allowed: a setting, or so many epochs of a corpus."""

from __future__ import annotations

from lrbench.config import Config
from lrbench.protocols.rir2023.declaration import Rir2023Config
from lrbench.tasks import make_task
from lrbench.tasks.corpus.task import CorpusTask


def updates(config: Config) -> int:
    """Return how many updates a run has at most; reads the training split of a corpus.

    The same number as `steps` of the trial. Raises UserError where that split is not on disk.
    """
    protocol = config.protocol
    if not isinstance(protocol, Rir2023Config):
        most: int = protocol.max_steps
        return most
    task = make_task(config.task)
    assert isinstance(task, CorpusTask)
    return protocol.updates(len(task.load(protocol.train_split)))


def epochs(config: Config) -> int | None:
    """Return for how many epochs a run is trained, None where updates are what is counted."""
    protocol = config.protocol
    if not isinstance(protocol, Rir2023Config) or protocol.max_steps is not None:
        return None
    return protocol.epochs
