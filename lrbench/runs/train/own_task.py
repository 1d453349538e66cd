"""A short check of a task of one's own before it is trained on: a wrong one trains as well."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.plugins import named_before
from lrbench.records import recorded
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE, LabelledTask, Task
from lrbench.training.procedure import procedure_for


def check_own_task(config: Config) -> None:
    """Refuse a task of a plugin whose strings or answers are not what a task promises.

    Once a process for the same settings. A task whose strings stand in files or are numbers has no
    oracle to ask. Raises UserError with the words of `lrbench check`.
    """
    entry = TASKS.get(config.task.name)
    if entry.builtin or not issubclass(entry.cls, LabelledTask):
        return
    used = sorted({length for _, _, length, _ in procedure_for(config).first_strings(0)})
    if found := _broken(entry.cls, _Settings(config.task), tuple(used)):
        raise UserError(
            f"task '{entry.name}' does not keep what a training relies on\n{found}\n"
            f"all checks: {_command(config.task)}"
        )


def check_own_machine(config: Any) -> None:
    """Refuse a plugin's task whose automaton does not give its oracle's answers.

    What is said of every string would be said of another task. Raises UserError with the words of
    `lrbench check`.
    """
    entry = TASKS.get(config.name)
    if entry.builtin or not issubclass(entry.cls, LabelledTask):
        return
    if found := _broken_machine(entry.cls, _Settings(config)):
        raise _other_machine(config, found)


def check_own_answer(task: Task, tokens: Sequence[int], right: int) -> None:
    """Refuse a wrong string of a plugin's task whose oracle has another right answer at its end.

    Its automaton may be the task on short strings, which are all that is compared beforehand, and
    another one on longer strings. Raises UserError.
    """
    if TASKS.get(task.name).builtin or not isinstance(task, LabelledTask):
        return
    asked = list(task.oracle(tokens))[-1]
    if asked != right:
        answer = "nothing" if asked == IGNORE else task.class_names[asked]
        raise _other_machine(
            task.config,
            f"it asks for {task.class_names[right]} at the end of a string of {len(tokens):,}"
            f" symbols, its oracle for {answer}: {task.describe_string(tokens):.200}",
        )


def _other_machine(config: Any, found: str) -> UserError:
    return UserError(
        f"task '{config.name}': its machine() is not the task, so nothing can be told of every"
        f" string\n{found}\nall checks: {_command(config)}"
    )


class _Settings:
    """The settings of a task, which are the same if they say the same."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Settings) and repr(self.config) == repr(other.config)

    def __hash__(self) -> int:
        return hash(repr(self.config))


@lru_cache(maxsize=256)
def _broken(task_class: type[Any], settings: _Settings, used: tuple[int, ...]) -> str:
    """Return the line of the first check that fails, '' where none does."""
    from lrbench.contract.tasks import first_broken  # with all models, which a plugin needs not

    task = make_task(settings.config)
    assert isinstance(task, task_class)
    finding = first_broken(task, used)
    return "" if finding is None else str(finding)


@lru_cache(maxsize=256)
def _broken_machine(task_class: type[Any], settings: _Settings) -> str:
    """Return the line of the check of a task's automaton, '' where it agrees or there is none."""
    from lrbench.contract.tasks import broken_machine

    finding = broken_machine(make_task(settings.config))
    return "" if finding is None else str(finding)


def _command(config: Any) -> str:
    """Return the command that makes all checks of a task with these settings."""
    plain = recorded(type(config)())
    changed = {key: value for key, value in recorded(config).items() if value != plain.get(key)}
    words = [f"task={config.name}"]
    words += [f"task.{key}={_typed(value)}" for key, value in changed.items() if key != "name"]
    return named_before(shlex.join(["lrbench", "check", *words]))


def _typed(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
