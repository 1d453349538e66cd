"""JSON on stdout, for other programs: one value, and nothing else (docs/json.md)."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON, as docs/json.md has it, and nothing else.")
]


def print_json(content: Any) -> None:
    """Print a value as JSON; NaN and infinities are null."""
    from lrbench.runs.folder.files import finite

    typer.echo(json.dumps(finite(content), ensure_ascii=False, allow_nan=False, indent=2))
