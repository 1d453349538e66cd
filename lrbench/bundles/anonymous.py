"""Removal of identities from a bundle: names, hosts, folders, remotes, addresses.

Json is rewritten text by text; plugin source is not, because its hash is part of every fingerprint.
At the end everything is searched again, and a bundle that still names its maker is refused.
"""

from __future__ import annotations

import getpass
import io
import json
import os
import re
import socket
import subprocess
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrbench.bundles.layout import PLUGINS
from lrbench.errors import UserError
from lrbench.runs.folder.environment import FOLDERS

SHORTEST = 3  # a name of two letters is in every file
NOBODY = {"root", "user", "users", "admin", "localhost", "ubuntu", "debian", "runner", "jovyan"}
EVERYWHERE = {"runs", "outputs"}  # folders of every bundle and configuration, whose ever it is
REVEALING = ("commit", "dirty", "traceback", "run_dir", "host", "hostname", "user", "author")
STRUCTURE = ("task", "model", "protocol", "fingerprint", "name", "status", "which", "kind")
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*(?::[\w./~-]+)?")
OUTPUT = re.compile(r"\boutput_dir=\S+")
URL = re.compile(r"\b(?:https?|ssh|git|file)://[^\s\"',)]+")
# Whole, with the last name: a project's folder may be called as the project is
PATHS = re.compile(rf"{FOLDERS.pattern}[^/,\s\[\]{{}}'\"]*")


@dataclass(frozen=True)
class Identity:
    """A text that tells who or where, and what it is called in a message."""

    kind: str
    text: str

    def found(self, text: str) -> bool:
        return bool(self._pattern().search(text))

    def hidden(self, text: str) -> str:
        return self._pattern().sub(f"<{self.kind}>", text)

    def _pattern(self) -> re.Pattern[str]:
        """The text as a word, whatever its case; an underscore ends a word."""
        inside = re.escape(self.text)
        return re.compile(rf"(?<![^\W_]){inside}(?![^\W_])", re.IGNORECASE)


def identities(folders: Iterable[str]) -> list[Identity]:
    """Return who and where we are, the longest first; `folders` are further places to hide."""
    found = [("user", name) for name in _user_names()]
    found += [("host", name) for name in _host_names()]
    named = [folder for folder in folders if folder.rstrip("/") not in EVERYWHERE]
    searched = [str(Path.home()), os.getcwd(), *named, *map(os.path.abspath, folders)]
    found += [("folder", path.rstrip("/")) for path in searched]
    found += _of_git()
    wanted = {
        Identity(kind, text)
        for kind, text in found
        if len(text) >= SHORTEST and text.lower() not in NOBODY
    }
    return sorted(wanted, key=lambda one: (-len(one.text), one.kind, one.text))


def anonymised(files: dict[str, bytes], who: list[Identity]) -> dict[str, bytes]:
    """Return `files` with json and its lines rewritten; other files, and plugins', as they are."""
    changed = {}
    for path, data in files.items():
        if path.startswith(f"{PLUGINS}/"):
            changed[path] = data
        elif path.endswith(".json"):
            text = json.dumps(_scrubbed(json.loads(data), who), indent=2)
            changed[path] = text.encode() + b"\n"
        elif path.endswith(".jsonl"):
            changed[path] = b"".join(_scrubbed_line(line, who) for line in data.splitlines())
        else:
            changed[path] = data
    return changed


def refuse_leaks(files: dict[str, bytes], who: list[Identity]) -> None:
    """Raise UserError naming the first file that still says who made it."""
    for path, data in sorted(files.items()):
        text = f"{path}\n{_readable(path, data)}"
        for number, line in enumerate(text.splitlines()):
            named = next((one for one in who if one.found(line)), None)
            address = ADDRESS.search(line) if path.endswith(".json") else None
            if named or address:
                what = named.kind if named else "address"
                where = f"line {number}" if number else "its name"
                raise UserError(
                    f"--anonymous: '{path}' still tells the {what}, in {where}\n"
                    "source of plugins and names of models cannot be changed here, for they are"
                    " in every fingerprint\ntake it out there and train again, or leave those"
                    " runs out with --rows and --columns"
                )


def _scrubbed(value: Any, who: list[Identity], key: str = "") -> Any:
    if isinstance(value, dict):
        return {
            name: None if name in REVEALING else _scrubbed(inside, who, name)
            for name, inside in value.items()
        }
    if isinstance(value, list):
        return [_scrubbed(inside, who) for inside in value]
    if not isinstance(value, str) or key in STRUCTURE:
        return value
    if key == "output_dir":
        return "outputs"
    return value.partition("-")[0] if key == "platform" else _scrubbed_text(value, who)


def _scrubbed_text(text: str, who: list[Identity]) -> str:
    text = OUTPUT.sub("output_dir=outputs", text)
    for one in who:
        text = one.hidden(text)
    text = ADDRESS.sub("<address>", URL.sub("<address>", text))
    return PATHS.sub("<path>", text)


def _scrubbed_line(line: bytes, who: list[Identity]) -> bytes:
    try:
        content = json.loads(line)
    except ValueError:
        return b""  # a torn last line says nothing to anybody
    return json.dumps(_scrubbed(content, who)).encode() + b"\n"


def _readable(path: str, data: bytes) -> str:
    """What of a file can be read as text: of a checkpoint the names of its tensors."""
    if path.endswith(".pt") and not path.startswith(f"{PLUGINS}/"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if name.endswith(".pkl")]
            return "\n".join(archive.read(name).decode("latin-1") for name in names)
    return data.decode("utf-8", "replace")


def _user_names() -> list[str]:
    names = [os.environ.get(key, "") for key in ("USER", "LOGNAME", "SUDO_USER")]
    try:
        import pwd

        entry = pwd.getpwuid(os.getuid())
        names += [getpass.getuser(), entry.pw_name, entry.pw_gecos.partition(",")[0]]
    except (ImportError, KeyError, OSError):
        pass  # a container's user without a name has none that could be told
    return names


def _host_names() -> list[str]:
    names = [socket.gethostname(), os.uname().nodename, os.environ.get("HOSTNAME", "")]
    return [*names, *(name.partition(".")[0] for name in names)]


def _of_git() -> list[tuple[str, str]]:
    """Name, address and remotes as git knows them here; nothing where there is no git."""
    wanted = r"^(remote\..*\.(push)?url|user\.(name|email))$"
    try:
        done = subprocess.run(
            ["git", "config", "--get-regexp", wanted],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    return [("author" if key.startswith("user.") else "remote", text) for key, _, text in lines]
