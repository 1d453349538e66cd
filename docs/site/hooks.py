"""Pages of the site that stand in no folder of their own: cards, decisions, published tables.

`make docs` runs mkdocs, which calls the `on_...` functions below (mkdocs.yml). The site has the
paths of the repository, so links between files need no change. Cards are those of `lrbench models
NAME`, `tasks NAME`, `tables NAME` and `protocols NAME`, made anew by each build and not committed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrbench.cli.commands.look.cards import (
    Card,
    model_card,
    protocol_card,
    table_card,
    task_card,
)
from lrbench.cli.commands.look.listing import family
from lrbench.cli.completion import typed
from lrbench.registry import ENCODERS, MIXERS, PROTOCOLS, TASKS
from lrbench.tables import load_table, table_names

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[2]
DECISIONS = "docs/decisions"
CARDS = "cards"
# A page may show and link these; of the records behind a table the site has none.
SHIPPED = {".md", ".svg", ".csv", ".json"}
FOLDER = re.compile(r"\[([^\]]+)\]\((?:records|\.)/?\)")
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^>]*>")

log = logging.getLogger("mkdocs.hooks")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Extend the navigation of mkdocs.yml by what is found and generated."""
    assert config.nav is not None
    for section in config.nav:
        for title, pages in section.items():
            if isinstance(pages, list):
                pages += added(title)
    return config


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Give every page the path that it has in the repository, and add the cards."""
    from mkdocs.structure.files import File

    for file in list(files.documentation_pages()) + files.media_files():
        files.remove(file)
    for path in sources():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for path, text in cards().items():
        files.append(File.generated(config, path, content=text))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Take the links to folders off: a site has no listing of one."""
    return FOLDER.sub(r"\1", markdown)


def on_post_page(output: str, page: Any, **_: Any) -> None:
    """Warn, which ends a strict build, of a page that loads something from another host."""
    for tag in LOADED.findall(output):
        if 'rel="canonical"' not in tag:
            log.warning("%s loads from another host: %s", page.file.src_uri, tag)


def sources() -> list[str]:
    """Return the files of the repository that are in the site."""
    results = [path for path in (ROOT / "results").glob("**/*") if "records" not in path.parts]
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("**/*.md"), *results]
    shown = (path for path in pages if path.is_file() and path.suffix in SHIPPED)
    return sorted(path.relative_to(ROOT).as_posix() for path in shown)


def added(section: str) -> list[Any]:
    """Return what a section of the navigation has beside what mkdocs.yml names."""
    if section == "Decisions":
        return [path for path in sources() if path.startswith(f"{DECISIONS}/") and _inner(path)]
    if section == "Results":
        return [
            {Path(path).parent.name: path}
            for path in sources()
            if path.startswith("results/") and path.endswith(".md") and _inner(path)
        ]
    if section == "Reference":
        groups: dict[str, list[Any]] = {}
        for path, text in cards().items():
            kind, title = path.split("/")[1], text.partition("\n")[0].removeprefix("# ")
            groups.setdefault(kind.capitalize(), []).append({title: path})
        return [{kind: pages} for kind, pages in groups.items()]
    return []


def _inner(path: str) -> bool:
    return path not in {f"{DECISIONS}/README.md", "results/README.md"}


def cards() -> dict[str, str]:
    """Return the pages of cards, path to text: a page for each family of each kind."""
    pages: dict[str, list[Card]] = {}
    titles: dict[str, str] = {}
    for kind, title, card in _cards():
        path = f"{CARDS}/{kind}/{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}.md"
        pages.setdefault(path, []).append(card)
        titles[path] = title
    return {path: card_page(titles[path], pages[path]) for path in sorted(pages)}


def _cards() -> Iterator[tuple[str, str, Card]]:
    """Yield each card with its kind and its family; what stands alone is of the family `own`."""
    for registry in (MIXERS, ENCODERS):
        for name in registry.names():
            kind, _, folder = family(registry.get(name)).partition(": ")
            yield "models", f"{kind.split()[0].capitalize()}: {folder}", model_card(name)
    for name in TASKS.names():
        yield "tasks", _folder(TASKS.get(name).module), task_card(name)
    for name in table_names():
        spec = load_table(name)
        yield "tables", f"Protocol {spec.protocol}", table_card(spec)
    for name in PROTOCOLS.names():
        yield "protocols", _folder(PROTOCOLS.get(name).module), protocol_card(name)


def _folder(module: str) -> str:
    return module.split(".")[2].replace("_", " ").capitalize()


def card_page(title: str, shown: list[Card]) -> str:
    """Return the page of a family."""
    return "\n\n".join([f"# {title}", *map(card_section, shown)]) + "\n"


def card_section(card: Card) -> str:
    """Return one card: what it is, its text as it stands, settings, what it works with, examples.

    A description has equations and tables of its own in columns, so it keeps its lines.
    """
    parts = [f"## {card.name}", escaped(card.source), fence(card.text, "text")]
    if card.settings:
        rows = [
            f"| `{one.key}` | `{cell(typed(one.default))}` | {cell(escaped(one.allowed))} "
            f"| {cell(escaped(one.meaning))} |"
            for one in card.settings
        ]
        head = "| setting | default | allowed | meaning |\n| --- | --- | --- | --- |"
        parts.append("\n".join([head, *rows]))
    parts.append("\n".join(["Works with:", "", *(f"- {escaped(one)}" for one in card.works_with)]))
    parts.append(fence("\n".join(card.examples), "sh"))
    return "\n\n".join(part for part in parts if part)


def fence(text: str, language: str) -> str:
    """Return a block that shows `text` as it is, whatever backticks stand in it."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{text}\n{marks}"


def escaped(text: str) -> str:
    """Return plain text as Markdown that shows it unchanged."""
    return re.sub(r"([\\`*_\[\]<>#])", r"\\\1", text)


def cell(text: str) -> str:
    """Return Markdown that can stand in a cell of a table."""
    return text.replace("|", r"\|").replace("\n", " ")
