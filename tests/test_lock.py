"""The lock of the run-time dependencies: versions as CI ran them, with hashes, without hosts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PINNED = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)


def test_a_lock_has_the_versions_that_ci_ran_each_with_hashes(root: Path) -> None:
    text = (root / "requirements.lock").read_text()
    locked = dict(PINNED.findall(text))
    ran = {name.lower(): version for name, version in _pins(root / "constraints.txt").items()}
    known = {name: version for name, version in locked.items() if name in ran}
    assert known == {name: ran[name] for name in known}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    direct = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}  # type: ignore[index]
    assert direct <= set(known)
    requirements = re.split(r"\n(?=[\w.-]+==)", text)[1:]
    assert len(requirements) == len(locked)
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}\b", one) for one in requirements)
    assert "://" not in text and " @ " not in text


def _pins(path: Path) -> dict[str, str]:
    return dict(PINNED.findall(path.read_text()))
