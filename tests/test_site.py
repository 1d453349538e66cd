"""The navigation of the site names every page of docs/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent


def pages(nav: Any) -> set[str]:
    if isinstance(nav, str):
        return {nav}
    return {
        page for part in (nav.values() if isinstance(nav, dict) else nav) for page in pages(part)
    }


def test_navigation_names_every_page() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    named = pages(settings["nav"])
    there = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert there and there <= named
    assert [page for page in sorted(named) if not (ROOT / page).is_file()] == []
    assert settings["strict"] is True
