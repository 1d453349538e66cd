"""The navigation of the site names every page of docs/."""

from __future__ import annotations

import re
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


def slug(heading: str) -> str:
    """The anchor that both GitHub and the site give a heading."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain))


def anchors(page: Path) -> set[str]:
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+)$", page.read_text(), re.M):
        name, again = slug(heading), 0
        while (numbered := name if not again else f"{name}-{again}") in found:
            again += 1
        found.add(numbered)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', page.read_text()))


def test_links_between_pages_lead_to_a_file_and_a_heading() -> None:
    written = [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "results").glob("*/README.md")),
    ]
    broken, seen = [], 0
    for page in written:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for link in re.findall(r"\]\(([^()\s]+)\)", text):
            if re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            seen += 1
            if not target.exists() or (
                anchor and target.suffix == ".md" and anchor not in anchors(target)
            ):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert seen > 100
    assert broken == []
