"""The commands from Python: a configuration, its training, a run's folder, results as a frame.

Everything is what the command of that name does: the same composing, fingerprints, folders, leases
and resuming. What a command refuses with a message is raised here as `lrbench.errors.UserError`
with that message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lrbench.cli.hydra.compose import as_typed, composed, run_hydra
from lrbench.cli.hydra.overrides import BACKBONE, GROUPS, check_folder
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.plugins import load_plugins
from lrbench.records import Evaluation, Result

if TYPE_CHECKING:
    import pandas as pd

    from lrbench.runs.evaluate.reading import TrainedModel


def config(*overrides: str, config_dir: str | Path | None = None, **settings: Any) -> Config:
    """Return the checked configuration that `lrbench train` would be given.

    overrides: as they are typed, "optim.lr=3e-4". settings: the same as keywords, task="sum"; of a
    key with dots, **{"optim.lr": 3e-4}. They come after the overrides, and of a key that is given
    twice the last counts. config_dir: a folder of presets and groups of your own.

    Raises UserError for whatever the command does not accept.
    """
    words = [_word(text) for text in overrides]
    for key, value in settings.items():
        if isinstance(value, dict) and key in (*GROUPS, BACKBONE):
            dotted, its = key, value
            while isinstance(its, dict):
                one, its = [*its.items(), ("KEY", "VALUE")][0]
                dotted = f"{dotted}.{one}"
            raise UserError(
                f"settings of {key} are not given as a dict\n"
                f'write each with its dots: "{dotted}={its}", or **{{"{dotted}": {its!r}}}'
            )
        # The name of a group's choice stands without quotes.
        words.append(f"{key}={value if key in (*GROUPS, BACKBONE) else as_typed(value)}")
    if config_dir is None:
        return composed(words)
    folder = Path(config_dir)
    check_folder(folder)
    found: list[Config] = []
    run_hydra(["--config-dir", str(folder), *words], found.append)
    return found[0]


def train(
    *overrides: str | Config, config_dir: str | Path | None = None, **settings: Any
) -> list[TrainedRun]:
    """Train one cell and return its runs, one for each of `trials`, by seed.

    Takes what `config` takes, or a Config alone. What is finished is not done again, what is begun
    goes on from its checkpoint. Progress is on stderr; torch works with `threads` threads from then
    on.

    Raises UserError for a configuration that cannot run and, after all trials have ended, where one
    of them failed; Interrupted on Ctrl-C, with everything on disk that resuming needs.
    """
    if any(isinstance(one, Config) for one in overrides):
        if len(overrides) > 1 or settings or config_dir is not None:
            raise UserError(
                "train takes a Config alone, or overrides and settings\n"
                "give the settings to lrbench.config(...) instead"
            )
        chosen = cast(Config, overrides[0])
    else:
        chosen = config(*cast(tuple[str, ...], overrides), config_dir=config_dir, **settings)

    from lrbench.runs.evaluate.ending import search_after_training
    from lrbench.runs.train.job import run_cell

    outcomes = run_cell(chosen)
    search_after_training(chosen, outcomes)
    if failed := [one for one in outcomes if one.status == "failed"]:
        raise UserError("\n".join(one.message for one in failed))
    return [TrainedRun(outcome.folder) for outcome in outcomes]


def load(folder: str | Path) -> TrainedRun:
    """Return the run of a folder s<seed>, which may still be under way.

    Raises UserError where the folder holds neither a result nor checkpoints.
    """
    run = TrainedRun(Path(folder))
    if not (run.folder / "result.json").is_file() and not (run.folder / "checkpoints").is_dir():
        raise UserError(
            f"{run.folder} is not a run: it has no result.json and no checkpoints\n"
            "name the folder of a run, such as outputs/sum/blockdiag/fan2024/.../s0"
        )
    return run


def results(*folders: str | Path, looks: bool = False) -> pd.DataFrame:
    """Return every run below the folders as a tidy frame: a row for each run and evaluation.

    Columns are those of runs.csv: task, model, protocol, fingerprint, seed, length, split, metric,
    value, n, which and so on, then a column for each setting on which the runs differ. A folder
    holds runs, or is a published table (results/fan2024_table2). looks: rows of unfinished runs and
    of looks during training as well, as runs.csv has them. Without folders: outputs.

    Files that could not be used are named on stderr. Raises UserError for a folder that is not
    there.
    """
    from lrbench.console import messages
    from lrbench.report.runs.collect import collect

    load_plugins()
    found = collect(*(Path(folder) for folder in folders or ("outputs",)))
    for path, reason in found.problems:
        messages().print(f"not used: {path}: {reason}", markup=False)
    if looks:
        return found.every_row
    return found.with_settings(found.frame)


@dataclass(frozen=True)
class TrainedRun:
    """One run on disk: what was written of it, its model, and further evaluations."""

    folder: Path

    @property
    def result(self) -> Result:
        """The content of result.json, checked. Raises UserError without a whole one."""
        from lrbench.runs.evaluate.trained import result_of
        from lrbench.runs.folder.files import UnreadableFile

        try:
            return result_of(self.folder)
        except UnreadableFile as error:
            raise UserError(
                f"{self.folder} has no result: {error}\n"
                "the command that trains it goes on where it stopped"
            ) from error

    def model(self, which: str = "", device: str = "cpu") -> TrainedModel:
        """Return the model of the checkpoint that rule `which` kept, in eval mode.

        It maps tokens (B, T), int64, or a signal (B, T, F), to logits (B, T, C); see
        `lrbench.runs.evaluate.reading.TrainedModel` for states and for models of whole strings.
        which: best, id, band or last; of other protocols, as `lrbench protocols` lists them. Empty:
        the protocol's usual one.

        Raises UserError for an unknown rule or device, for a rule that kept nothing, and where the
        run was trained with other code.
        """
        from lrbench.runs.evaluate.reading import model_of

        load_plugins()
        return model_of(self.folder, which, device)

    def evaluate(
        self,
        lengths: int | Iterable[int] = (),
        which: str = "",
        strings: int | None = None,
        splits: str | Iterable[str] = (),
        device: str = "auto",
    ) -> list[Evaluation]:
        """Score a checkpoint on fresh strings, as `lrbench evaluate` does; return its rows.

        lengths: one or several; none for those of the protocol. strings: number for each length,
        by default 1,000. splits: one or several; a run over a corpus takes them instead of lengths.
        The rows are written to evaluations/ in the folder; `pandas.DataFrame(rows)` is a table.

        Raises UserError for a length or split that the task does not have, and for a number of
        strings that is not whole.
        """
        from lrbench.runs.evaluate.evaluation import evaluate_run

        load_plugins()
        try:
            number = None if strings is None else index(strings)  # numpy's whole numbers, too
        except TypeError:
            raise UserError(f"strings must be a whole number, not {strings!r}") from None
        wanted = _listed(lengths), _listed(splits)
        return evaluate_run(self.folder, wanted[0], which, number, device, wanted[1])


def _listed(values: Any) -> str:
    """Return one value or several as they are typed, with commas between them."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        return str(values)
    return ",".join(str(value) for value in values)


def _word(text: Any) -> str:
    if isinstance(text, str) and not text.startswith("-"):
        return text
    raise UserError(
        f"an override is text such as 'optim.lr=3e-4', not {text!r}\n"
        "presets and groups of your own: config_dir=FOLDER"
    )
