"""A cell: all runs that differ only in their seed, and the folder they share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.records import recorded
from lrbench.runs.folder import files
from lrbench.runs.folder.environment import environment, selfcheck
from lrbench.runs.folder.files import UnreadableFile
from lrbench.runs.folder.fingerprint import differing_keys, fingerprint, relevant
from lrbench.runs.folder.start import named_start
from lrbench.runs.folder.versions import versions_of


@dataclass(frozen=True)
class Cell:
    """A configuration with the versions that give it meaning, its fingerprint and its folder."""

    config: Config
    settings: dict[str, Any]
    versions: dict[str, Any]
    fingerprint: str
    folder: Path

    @classmethod
    def of(cls, config: Config) -> Cell:
        """Return the cell of a checked configuration; writes nothing.

        Raises UserError where the run that it starts from is not there.
        """
        settings = recorded(config)
        if config.protocol.start_from is not None:
            settings["protocol"]["start_from"] = named_start(config)
        versions = versions_of(config)
        digits = fingerprint(settings, versions)
        parts = (config.task.name, config.model.name, config.protocol.name, digits)
        return cls(config, settings, versions, digits, Path(config.output_dir).joinpath(*parts))

    @property
    def seeds(self) -> list[int]:
        """The seeds of this cell's trials."""
        return [self.config.seed + i for i in range(self.config.trials)]

    def open(self) -> None:
        """Make the folder and its config.json.

        Raises UserError if a config.json that was edited by hand is already there.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            files.sweep_temporary(self.folder)  # of a run that was killed while it wrote here
        except OSError as error:
            raise UserError(
                f"output_dir '{self.config.output_dir}' cannot be written: {error.strerror}\n"
                "choose another with output_dir=FOLDER"
            ) from error
        path = self.folder / "config.json"
        try:
            self._agree(path, files.read_json(path))
        except UnreadableFile:  # not there yet, or half a file from a crash of the machine
            files.write_json(path, self.settings)

    def describe_environment(self) -> None:
        """Write environment.json: what trains here now."""
        files.write_json(self.folder / "environment.json", environment())

    def describe_kernels(self) -> None:
        """Bring environment.json up to date about kernels that this call let prove themselves."""
        path = self.folder / "environment.json"
        try:
            files.write_json(path, {**files.read_json(path), "selfcheck": selfcheck()})
        except UnreadableFile:  # somebody took it away: the next call writes it anew
            return

    def _agree(self, path: Path, written: dict[str, Any]) -> None:
        differing = differing_keys(relevant(written), relevant(self.settings))
        if differing:
            raise UserError(
                f"{path} was changed after its runs began: {', '.join(differing[:8])}\n"
                "its folder name promises the settings it was made with;"
                " restore the file or move the folder away"
            )
