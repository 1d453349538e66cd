"""Tasks: what a model is trained and tested on. Nothing here knows about models or training."""

from __future__ import annotations

from typing import Any

from lrbench.errors import UserError
from lrbench.registry import TASKS

PAGE = "a whole one to start from: docs/adding-a-task.md"


def make_task(config: Any) -> Any:
    """Return the task that `config.name` names, configured by `config`: a `TaskBase`.

    Its shape is known to whoever asks: a protocol that trains on it, say.

    Raises UserError for a name that no task has, and for a class that is no task, or not whole.
    """
    from lrbench.tasks.base import TaskBase

    cls = TASKS.get(config.name).cls
    if not issubclass(cls, TaskBase):
        raise UserError(
            f"task '{config.name}': {cls.__name__} is not a subclass of lrbench.tasks.base.Task\n"
            f"{PAGE}"
        )
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise UserError(
            f"task '{config.name}': {cls.__name__} does not define {', '.join(missing)}\n{PAGE}"
        )
    return cls(config)
