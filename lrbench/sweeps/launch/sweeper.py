"""Our own Hydra sweeper: it hands lists of jobs to whichever launcher is configured.

Hydra's sweeper makes a rectangle of all values; a table is a list of cells, and most of them may
be finished. Hydra wants its plugins below `hydra_plugins`; the class is put there by name alone,
when a sweep begins, so that workers can still unpickle it from where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper

from lrbench.sweeps.launch import submission
from lrbench.sweeps.launch.submission import is_submitit

TARGET = "hydra_plugins.lrbench_sweeper.JobSweeper"

# overrides of jobs, what to call when one is queued -> JobReturns or JobEnds
Launch = Callable[[Sequence[Sequence[str]], Callable[[int, str], None]], Sequence[Any]]
Body = Callable[[Launch], None]


class JobSweeper(Sweeper):
    """Runs `body`, which gets a function that launches jobs, as often as it needs it."""

    body: ClassVar[Body]

    def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        launched = 0

        def launch(
            jobs: Sequence[Sequence[str]], on_queued: Callable[[int, str], None]
        ) -> Sequence[Any]:
            nonlocal launched
            first, launched = launched, launched + len(jobs)
            if is_submitit(self.launcher):
                return submission.launch(self.launcher, jobs, first, on_queued)
            assert self.launcher is not None
            return self.launcher.launch([list(job) for job in jobs], initial_job_idx=first)

        type(self).body(launch)


def register(body: Body) -> str:
    """Make the sweeper known to Hydra, to run `body`; return the override that chooses it."""
    Plugins.instance().class_name_to_class[TARGET] = JobSweeper
    JobSweeper.body = staticmethod(body)
    ConfigStore.instance().store(group="hydra/sweeper", name="lrbench", node={"_target_": TARGET})
    return "hydra/sweeper=lrbench"


def launchers() -> list[str]:
    """Return the names that hydra/launcher= may take: those of the plugins installed here."""
    Plugins.instance()  # reading them puts their names into the store
    names = ConfigStore.instance().list("hydra/launcher")
    return sorted(name.removesuffix(".yaml") for name in names)
