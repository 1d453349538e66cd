"""JSON on stdout, for other programs: one value, and nothing else (docs/json.md)."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON, as docs/json.md has it, and nothing else.")
]


def print_json(content: Any) -> None:
    """Print a value as JSON, in UTF-8 whatever the terminal has; NaN and infinities are null.

    What UTF-8 has no character for (half a surrogate pair, of a file name or an error) is escaped.
    """
    from lrbench.runs.folder.files import finite

    text = json.dumps(finite(content), ensure_ascii=False, allow_nan=False, indent=2)
    typer.echo(text.encode(errors="backslashreplace"))
