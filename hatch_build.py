"""What a wheel has that a checkout has elsewhere: published tables, and a page for an index.

- The numbers of published tables (`results/*/runs.csv` and the small files beside it), without
  pictures and records. `lrbench report --published NAME` reads them.
- README.md as the page of a package index, which has no other file of the checkout. A link to such
  a file leads to `project.urls.Source` where pyproject.toml names one; otherwise its words stay
  and the link goes. A picture is treated alike.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PUBLISHED = ("runs.csv", "settings.json", "certificates.csv")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|#)([^)\s]+)\)")


class PublishedTables(BuildHookInterface):
    """Puts the numbers of published tables into the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        for name in PUBLISHED:
            for path in sorted(root.glob(f"results/*/{name}")):
                inside = Path("lrbench") / path.relative_to(root)
                build_data["force_include"][str(path)] = str(inside)


class IndexPage(MetadataHookInterface):
    """Gives the metadata README.md without links that lead nowhere."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source", "")
        metadata["readme"] = {"content-type": "text/markdown", "text": index_page(text, source)}


def index_page(text: str, source: str = "") -> str:
    """Return a page whose relative links lead to `source`, or are words where that is ''."""
    kept = [line for line in text.splitlines(keepends=True) if source or not _only_picture(line)]
    return LINK.sub(lambda link: _absolute(link, source), "".join(kept))


def _only_picture(line: str) -> bool:
    link = LINK.fullmatch(line.strip())
    return link is not None and link[1] == "!"


def _absolute(link: re.Match[str], source: str) -> str:
    mark, words, path = link.groups()
    if not source:
        return words
    kind = "raw" if mark else "blob"
    return f"{mark}[{words}]({source.rstrip('/')}/{kind}/main/{path})"
