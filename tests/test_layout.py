"""The house rules a machine can hold: names of files, documents that point at what exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from lrbench.records import Result

ROOT = Path(__file__).resolve().parent.parent
PYTHON_FILES = sorted(
    path for folder in ("lrbench", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONFIGURATIONS = sorted((ROOT / "conf").rglob("*.yaml"))

TOP = r"lrbench|tests|conf|data/reference|docs|benchmarks|results|\.ci"
PATH = re.compile(rf"(?:{TOP})/[\w./{{}},-]*|[\w-]+\.(?:md|toml|cff)")
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
BRANCH = re.compile(
    r"^( *)([\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|toml|txt|cff|yaml|csv|sh)))(?:\s|$)"
)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_files_are_named_after_their_idea() -> None:
    nameless = {"utils.py", "util.py", "helpers.py", "misc.py", "common.py"}
    assert [relative(path) for path in PYTHON_FILES if path.name in nameless] == []


def test_architecture_names_every_folder_of_the_package() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    folders = {path.parent.name for path in PYTHON_FILES if relative(path).startswith("lrbench/")}
    assert len(folders) > 1
    assert [name for name in sorted(folders) if f"{name}/" not in text] == []


def test_architecture_is_a_screen() -> None:
    lines = (ROOT / "docs" / "architecture.md").read_text().splitlines()
    assert len(lines) <= 100 and max(map(len, lines)) <= 100


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_document_points_at_what_exists(document: Path) -> None:
    text = document.read_text()
    links = [document.parent / target for target in LINK.findall(text)]
    named = [ROOT / path for span in code_spans(text) for path in expand(span)]
    drawn = [ROOT / path for block in fenced(text) for path in tree(block)]
    assert [relative(path) for path in {*links, *named, *drawn} if not path.exists()] == []


def test_run_folder_explains_every_key_of_a_result() -> None:
    text = (ROOT / "docs" / "run-folder.md").read_text()
    assert [key for key in Result.__annotations__ if f"`{key}`" not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGURATIONS, ids=relative)
def test_configuration_parses(path: Path) -> None:
    assert OmegaConf.is_config(OmegaConf.load(path))


def test_configurations_were_found() -> None:
    assert ROOT / "conf" / "config.yaml" in CONFIGURATIONS


def test_tree_and_spans_are_read() -> None:
    block = [
        "Makefile   what to run",
        "lrbench/   the package",
        "  cli/     commands",
        "    train.py",
        "docs/",
    ]
    assert list(tree(block)) == ["lrbench", "lrbench/cli", "lrbench/cli/train.py", "docs"]
    assert list(expand("lrbench/{errors,registry}.py")) == [
        "lrbench/errors.py",
        "lrbench/registry.py",
    ]
    assert list(expand("outputs/<task>/s0/result.json")) == []
    assert list(code_spans("see `docs/a.md` and\n`make test`")) == ["docs/a.md", "make test"]


def code_spans(text: str) -> Iterator[str]:
    """Yield the inline `code` of a document; fenced and indented blocks are left to `tree`."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    yield from re.findall(r"`([^`\n]+)`", prose)


def expand(span: str) -> Iterator[str]:
    """Yield the paths a code span names, one for each alternative in braces."""
    if not PATH.fullmatch(span):
        return
    head, brace, rest = span.partition("{")
    alternatives, _, tail = rest.partition("}")
    yield from (head + one + tail for one in alternatives.split(",")) if brace else [span]


def fenced(text: str) -> Iterator[list[str]]:
    """Yield the lines of each block, fenced or indented by four, that draws the checkout."""
    blocks = [block.splitlines() for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)]
    for block in re.findall(r"(?:^ {4}.*\n|^\n)+", text, re.M):
        blocks.append([line[4:] for line in block.splitlines()])
    yield from (
        block for block in blocks if any(re.match(r"lrbench/(?:\s|$)", line) for line in block)
    )


def tree(lines: list[str]) -> Iterator[str]:
    """Yield the path that stands first in each line of an indented tree."""
    folders: list[tuple[int, str]] = []
    for line in lines:
        found = BRANCH.match(line)
        if not found:
            continue
        indent, name = len(found[1]), found[2].rstrip("/")
        folders = [(depth, folder) for depth, folder in folders if depth < indent]
        path = "/".join([*(folder for _, folder in folders), name])
        yield path
        if found[2].endswith("/"):
            folders.append((indent, name))
