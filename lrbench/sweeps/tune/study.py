"""Studies of a tuning run: for each protocol, task and model the points of one grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.protocols.base import declared
from lrbench.records import Result
from lrbench.report.output.display import plural
from lrbench.schema import in_backbone
from lrbench.sweeps.plan.plan import Plan, PlannedRun, stamp
from lrbench.sweeps.tune.choice import Point, attempt
from lrbench.training.procedure import procedure_for


@dataclass
class Study:
    """The planned runs of one protocol (as it was typed), task and model, by point of the grid."""

    protocol: str
    task: str
    model: str
    keys: tuple[str, ...]
    groups: list[list[PlannedRun]] = field(default_factory=list)

    def words(self, index: int = 0) -> list[str]:
        """Return the choices that a preset for a point belongs to, as they are typed."""
        words = [f"protocol={self.protocol}", f"task={self.task}", f"model={self.model}"]
        stack = self._stack(index)
        usual = stack is None or in_backbone(self.model, stack) == self.model
        return words if usual else [*words, f"model.backbone.name={stack}"]

    def name(self, index: int = 0) -> str:
        """Return what a preset for a point is called: in another stack a model has others."""
        stack = self._stack(index)
        model = self.model if stack is None else in_backbone(self.model, stack)
        return f"{self.protocol}_{self.task}_{model}"

    @property
    def whole_budget(self) -> str:
        """The override with which none of its runs ended early."""
        return declared(self.config().protocol.name).whole_budget

    @property
    def over_corpus(self) -> bool:
        """Whether it is chosen by the dev split of a corpus."""
        return declared(self.config().protocol.name).by_split

    @property
    def runs(self) -> list[PlannedRun]:
        return [run for group in self.groups for run in group]

    def config(self, index: int = 0) -> Config:
        """Return the configuration of a point."""
        return self.groups[index][0].cell.config

    def points(self) -> list[Point]:
        """Return the points with what their runs came to, as the folders say now."""
        return [
            Point(self._values(group), tuple(attempt(run.seed, _ended(run)) for run in group))
            for group in self.groups
        ]

    def budget(self) -> str:
        """Return '3 settings x 2 seeds x 2,000 updates = 6 runs, 12,000 updates'.

        Of epochs over a corpus '.. x 20 epochs of 621 updates = ..'.
        """
        spent = [procedure_for(run.cell.config).updates for run in self.runs]
        seeds = {len(group) for group in self.groups}
        parts = [plural(len(self.groups), "setting")]
        if len(seeds) == 1 and len(set(spent)) == 1:
            parts += [plural(seeds.pop(), "seed"), _length(self.config())]
        total = f"{plural(len(spent), 'run')}, {plural(sum(spent), 'update')}"
        return f"{' x '.join(parts)} = {total}"

    def _stack(self, index: int) -> str | None:
        """The backbone of a point; None of an encoder, which has none."""
        backbone = getattr(self.config(index).model, "backbone", None)
        return None if backbone is None else str(backbone.name)

    def _values(self, group: Sequence[PlannedRun]) -> tuple[tuple[str, Any], ...]:
        return tuple((key, setting(group[0].cell.settings, key)) for key in self.keys)


def _ended(run: PlannedRun) -> Result | None:
    """What a run came to; nothing where it was forced, and the result there is the one before."""
    old = run.cell.config.force and stamp(run.run, "result.json") == run.old_result
    return None if old else run.run.result()


def _length(config: Config) -> str:
    """Say how long a run is trained: '2,000 updates', '20 epochs of 621 updates'."""
    procedure = procedure_for(config)
    passes, every = procedure.epochs, procedure.updates
    if passes is None:
        return plural(every, "update")
    return f"{plural(passes, 'epoch')} of {plural(every // passes, 'update')}"


def setting(settings: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key; of a group, such as optim, its name."""
    value: Any = settings
    for part in key.split("."):
        value = value[part]
    return value["name"] if isinstance(value, dict) else value


def studies(plan: Plan, keys: Sequence[str], protocols: Mapping[str, str]) -> list[Study]:
    """Sort the runs of a plan; `keys` are the grid's, `protocols` what was typed, by cell folder.

    Marks every job with the number of runs its study has, which the runs keep in their
    configuration. Raises UserError where two models of a task would get different budgets.
    """
    found: dict[tuple[str, str, str], Study] = {}
    groups: dict[str, list[PlannedRun]] = {}
    owners: dict[PlannedRun, Study] = {}
    for run in plan.runs:
        config, folder = run.cell.config, str(run.cell.folder)
        place = (protocols[folder], config.task.name, config.model.name)
        study = found.setdefault(place, Study(*place, tuple(keys)))
        if folder not in groups:
            study.groups.append(groups.setdefault(folder, []))
        groups[folder].append(run)
        owners[run] = study
    _refuse_unequal(list(found.values()))
    for job in plan.jobs:
        job.overrides = (*job.overrides, f"tuning_runs={len(owners[job.runs[0]].runs)}")
    return list(found.values())


def _refuse_unequal(every: Sequence[Study]) -> None:
    """The same search for every model means the same updates of the same number of strings."""
    for place, rivals in _by_task(every):
        budgets = {study.model: _spent(study) for study in rivals}
        if len({tuple(map(tuple, spent)) for spent in budgets.values()}) == 1:
            continue
        unequal = [
            f"{model} {steps:,} updates of {size}" for model, ((steps, size), *_) in budgets.items()
        ]
        length = "epochs" if rivals[0].over_corpus else "max_steps"
        raise UserError(
            f"on {place[1]} the models would get different budgets\n{', '.join(unequal)[:300]}\n"
            f"protocol.{length}=N protocol.batch_size=128 gives every model the same"
        )


def _by_task(every: Sequence[Study]) -> Iterator[tuple[tuple[str, str], list[Study]]]:
    groups = dict.fromkeys((study.protocol, study.task) for study in every)
    for group in groups:
        yield group, [study for study in every if (study.protocol, study.task) == group]


def _spent(study: Study) -> list[tuple[int, int]]:
    configs = [run.cell.config for run in study.runs]
    return sorted((procedure_for(one).updates, one.protocol.batch_size) for one in configs)
