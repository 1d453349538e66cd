"""The layout of results/, and the test whether one of its folders is a table."""

from __future__ import annotations

import json
from pathlib import Path

from lrbench.errors import UserError, unknown
from lrbench.tables import TableSpec, load_table, table_names

PAGE = "README.md"
NUMBERS = "runs.csv"
SETTINGS = "settings.json"
CERTIFICATES = "certificates.csv"
NOTES = "notes.yaml"
RECORDS = "records"
FIGURES = "figures"
Files = dict[str, bytes]  # name below the folder of a table -> content


def is_table(folder: Path) -> bool:
    """Tell whether a folder is that of a published table."""
    return (folder / NUMBERS).is_file() or (folder / RECORDS).is_dir()


def is_measured(folder: Path) -> bool:
    """Tell whether a published table is of measurements, raw output of a benchmark, not of runs."""
    try:
        settings = json.loads((folder / SETTINGS).read_bytes())
    except OSError:
        return any((folder / RECORDS).glob("*.json"))
    except ValueError:
        return False
    return isinstance(settings, dict) and "measurements" in settings


def table_folders(results: Path) -> list[Path]:
    """Return the folders of published tables below `results`, by name; hidden ones are none."""
    try:
        below = sorted(path for path in results.iterdir() if path.is_dir())
    except OSError as error:
        raise UserError(
            f"no folder of published tables at '{results}': {(error.strerror or '').lower()}\n"
            "lrbench publish TABLE makes one"
        ) from error
    return [path for path in below if not path.name.startswith(".") and is_table(path)]


def named_spec(name: str) -> TableSpec:
    """Return the table of a name, a plugin's too; UserError where there is none."""
    from lrbench.plugins import load_plugins

    if name not in table_names():
        load_plugins()
    if name.endswith((".yaml", ".yml")):  # made again, a page must find its table by its name
        raise UserError(
            f"a published table has a name, and '{name}' is a file\n"
            "put it into conf/table/, or register it in a plugin, from lrbench.tables:"
            f" register_table(load_table('{name}'))"
        )
    if name not in table_names():
        raise unknown("table", name, table_names())
    return load_table(name)


def spec_of(folder: Path) -> TableSpec:
    """Return the table whose page a folder is; UserError where none has its name."""
    return named_spec(folder.absolute().name)
