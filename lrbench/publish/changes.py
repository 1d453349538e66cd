"""Changes that a rebuild would make to published files, and their application."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lrbench.errors import UserError
from lrbench.publish.layout import CERTIFICATES, FIGURES, NOTES, NUMBERS, SETTINGS, Files
from lrbench.runs.folder.files import write_bytes


@dataclass
class Changes:
    """Files to write and to remove, files that belong to no page, and what a person should see.

    `done` says what was written and removed, a line a file; `measured` are tables of measurements,
    whose pages are made elsewhere.
    """

    written: dict[Path, bytes] = field(default_factory=dict)
    removed: list[Path] = field(default_factory=list)
    strangers: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    measured: list[Path] = field(default_factory=list)

    def add(self, folder: Path, files: Files) -> None:
        """Take note of those files that are not there with this content."""
        for name, content in files.items():
            path = folder / name
            if not path.is_file() or path.read_bytes() != content:
                self.written[path] = content

    def add_page(self, folder: Path, files: Files, is_record: Callable[[str], bool]) -> None:
        """Take note of a table's files that differ, and of others that do not belong there."""
        self.add(folder, files)
        known = {*files, NUMBERS, SETTINGS, CERTIFICATES, NOTES}
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder).as_posix()
            if name in known or is_record(name):
                continue
            generated = name.startswith(f"{FIGURES}/") and path.suffix == ".svg"
            (self.removed if generated else self.strangers).append(path)

    def findings(self) -> Iterator[str]:
        """Yield what differs from what would be made."""
        for path in self.written:
            yield f"{path}: {'differs' if path.exists() else 'is missing'}"
        for path in self.removed:
            what = "figure" if path.suffix == ".svg" else "file"
            yield f"{path}: is no {what} of these runs"
        for path in self.strangers:
            yield f"{path}: is no file of a published table"

    def apply(self) -> None:
        """Write and remove, each file whole or not at all. Raises UserError where it cannot."""
        try:
            for path, content in self.written.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(path, content)
                self.done.append(f"wrote {path}")
            for path in self.removed:
                path.unlink(missing_ok=True)
                self.done.append(f"removed {path}")
        except OSError as error:
            raise UserError(
                f"cannot write '{path}': {(error.strerror or str(error)).lower()}\n"
                "name a folder that you may write to"
            ) from error
        self.written, self.removed = {}, []
