"""Tasks: what a model is trained and tested on. Nothing here knows about models or training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lrbench.registry import TASKS

if TYPE_CHECKING:  # base imports torch, which listing the tasks must not
    from lrbench.tasks.base import TaskBase


def make_task(config: Any) -> Any:
    """Return the task that `config.name` names, configured by `config`: a `TaskBase`.

    Its shape is known to whoever asks: a protocol that trains on it, say.

    Raises UserError for a name that no task has.
    """
    task: TaskBase = TASKS.get(config.name).cls(config)
    return task
