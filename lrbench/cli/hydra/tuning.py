"""Tuning from the command line: a sweep over the grid, then a table and a preset per model."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lrbench.checks import shown
from lrbench.cli.hydra.compose import as_typed
from lrbench.cli.hydra.grid import cells, grid_keys, key_of, protocol_of
from lrbench.cli.hydra.launchers import is_launcher
from lrbench.cli.hydra.sweeping import SweepRequest, run_plan
from lrbench.cli.written import check_place, write
from lrbench.config import Config
from lrbench.console import messages, results
from lrbench.errors import UserError
from lrbench.plugins import named_before
from lrbench.report.output.display import say
from lrbench.sweeps.plan.plan import Plan, make_plan
from lrbench.sweeps.tune.choice import Point, winner
from lrbench.sweeps.tune.preset import (
    FOLDER,
    chosen_values,
    existing,
    is_provisional,
    preset_text,
)
from lrbench.sweeps.tune.study import Study, setting, studies
from lrbench.sweeps.tune.table import note, study_table, validation

NOT_IN_A_PRESET = ("task", "model", "protocol", "output_dir", "threads", "device", "force")


@dataclass(frozen=True)
class Search:
    """What is to be tried, for which models, and where a single winner is to go."""

    request: SweepRequest
    plan: Plan
    studies: list[Study]
    typed: list[str]
    output: Path | None

    @classmethod
    def read(
        cls, grid: Sequence[str], arguments: Sequence[str], folder: Path | None, output: Path | None
    ) -> Search:
        """Check everything that was typed. Raises UserError."""
        keys = grid_keys(grid, arguments)
        request = SweepRequest.read(arguments, None, folder)
        rest = [argument for argument in arguments if not is_launcher(argument)]
        request = dataclasses.replace(request, cells=cells(grid, rest))
        protocols: dict[str, str] = {}
        plan = make_plan(request.cells, lambda overrides: _noted(request, overrides, protocols))
        found = studies(plan, keys, protocols)
        if output is not None and len(found) > 1:
            raise UserError(
                f"--output names one file, but {len(found)} presets are to be written:"
                f" {shown(', '.join(study.name() for study in found), 200)}\n"
                "leave --output out, or tune one task and one model",
                exit_code=2,
            )
        if output is not None:
            check_place(output)
        kept = [argument for argument in rest if key_of(argument) not in NOT_IN_A_PRESET]
        return cls(request, plan, found, kept, output)

    def explain(self) -> None:
        """Print what there is to do."""
        from lrbench.sweeps.plan.report import plan_table

        plan_table(self.plan)
        self._say_budgets()

    def run(self, force: bool) -> int:
        """Train, print, write; return the exit code, 1 if a run failed or a search has no winner.

        Raises UserError where a preset of the same name says something else, after the rest.
        """
        code = run_plan(self.plan, self.request, validation)
        kept: list[Path] = []
        for study in self.studies:
            points = study.points()
            best = winner(points)
            study_table(results(), study, points, best)
            if best is None:
                say(results(), "no winner: no run ended well, so no preset is written")
                code = 1
            else:
                kept += self._write(study, points, best, force)
        for text in dict.fromkeys(note(study) for study in self.studies):
            say(results(), text)
        if kept:
            raise UserError(
                f"{shown(kept[0], 200)} is there and says something else\n"
                + (f"and {len(kept) - 1} more\n" if len(kept) > 1 else "")
                + "the same command with --force replaces it and trains nothing again;"
                " --output FILE writes elsewhere"
            )
        return code

    def _write(self, study: Study, points: Sequence[Point], best: int, force: bool) -> list[Path]:
        """Write the preset of a winner; return the file instead if one was there and is kept."""
        name = study.name(best)
        base, origin = existing(name, self.request.folders)
        plain = self.request.compose(study.words(best))
        values = chosen_values(study, study.config(best), plain)
        says = f"the values of {_short(origin)}, the choice on top." if origin else "the choice."
        text = preset_text(study, points, best, values, base, says, self.typed).encode()
        tuned = Path(study.config().output_dir) / "tuned"
        path = self.output or tuned / FOLDER / f"{name}.yaml"
        same = path.is_file() and path.read_bytes() == text
        if path.is_file() and not same and not (force or is_provisional(path)):
            return [path]
        if self.output is None:
            _make(path.parent)
        if not same:
            write(path, text)
        messages().print(f"{'unchanged:' if same else 'wrote'} {path}", markup=False)
        if self.output is None:
            words = [*study.words(best), *self._of_task(study, best)]
            messages().print(f"use it: {_command(words, tuned)}", markup=False)
        return []

    def _of_task(self, study: Study, index: int) -> list[str]:
        """The settings of the task that were typed, which a preset does not have."""
        keys = dict.fromkeys(key_of(word) for word in self.typed)
        settings = study.groups[index][0].cell.settings
        values = {key: setting(settings, key) for key in keys if key.startswith("task.")}
        return [
            f"{key}={value if isinstance(value, str) else as_typed(value)}"
            for key, value in values.items()
        ]

    def _say_budgets(self) -> None:
        for study in self.studies:
            say(results(), f"{study.task} · {study.model}: {study.budget()}")
        for argument in dict.fromkeys(one.whole_budget for one in self.studies if one.over_corpus):
            say(results(), f"over a corpus with {argument}: no run ends before its budget is used")


def _noted(request: SweepRequest, overrides: Sequence[str], protocols: dict[str, str]) -> Config:
    """Compose, and note by the cell's folder which protocol was typed: presets are named by it."""
    from lrbench.runs.folder.cell import Cell

    config = request.compose(overrides)
    named = {key_of(argument): argument.partition("=")[2] for argument in overrides}
    protocols[str(Cell.of(config).folder)] = named.get("protocol", config.protocol.name)
    return config


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot make '{shown(folder, 200)}': {(error.strerror or str(error)).lower()}\n"
            "name another place with --output FILE"
        ) from error


def _command(words: Sequence[str], folder: Path) -> str:
    """Return the command that trains with the preset, with the plug-ins that are named now.

    words: the choices that it belongs to. Its protocol is left out where the task alone implies it.
    """
    protocol, *arguments = words
    if protocol != f"protocol={protocol_of(arguments).name}":
        arguments.append(protocol)
    return named_before(shlex.join(["lrbench", "train", *arguments, "--config-dir", str(folder)]))


def _short(path: Path) -> str:
    """A built-in preset is named without the folder of this installation."""
    from lrbench.locations import conf_dir

    return f"lrbench's own {path.stem}" if conf_dir() in path.parents else path.name
