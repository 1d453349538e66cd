"""Wrong command lines, tables and files at random: `python -m tests.faults.fuzz --lines 5000`.

A line is a sound command with one to three mutations; a file is one of a finished run, a table or a
bundle with some bytes changed. Each program may refuse it in a few lines or do what it says. It may
not print a traceback, run for 20 s of processor time, write beside its folder or run what it reads.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import programs

from .conftest import SMALL, Laboratory

CODES = (0, 1, 2, 3, 130)
SECONDS = 20  # of processor time
WALL = 240.0
TINY = (*SMALL, "protocol.max_steps=2", "protocol.look_every=1", "protocol.certify=never")
CANARY = "canary"  # nobody may make a file of that name
VALUES = (
    *("0", "-1", "1e9", "nan", "inf", "-inf", "null", "true", "''", '""', "3.5", "1e400", "0x10"),
    *("[]", "{}", "[1,2", "{a: 1}", "[[1]]", "[5,5,5]", "${task.name}", "${oc.env:HOME}", "???"),
    *(
        "${nothing}",
        "${task",
        "{_target_: os.mkdir, path: canary}",
        "../../canary",
        "/",
        "a,b",
        ",",
    ),
    *(
        "é",
        "模型",
        "\u202e",
        "\t",
        "\x07",
        "a" * 3000,
        "range(0,3)",
        "choice(1,2)",
        "glob(*)",
        "%s",
    ),
    *("sum", "blockdiag", "fan2024", "cpu", "cuda", "cuda:99", "9" * 30, "-0", "1_0", "lstm", "~"),
)
KEYS = (
    *("hydra.run.dir", "hydra.sweeper._target_", "hydra.mode", "_target_", "+x", "++task.name"),
    *("~task", "model.mixer", "model", "protocol", "optim", "output_dir", "defaults", "a.b.c", ""),
    *("task@x", "trials", "threads", "n_jobs", "devices", "hydra/launcher", "force", "data_seed"),
)
LINES: tuple[tuple[str, ...], ...] = (
    ("train", *TINY, "device=cpu", "output_dir=runs"),
    ("sweep", *TINY, "optim.lr=0.1,0.2", "output_dir=runs", "--dry-run"),
    ("sweep", "--table", "TABLE", "--dry-run", "output_dir=runs"),
    ("sweep", "--table", "fan2024_table2", "task=sum", "--dry-run"),
    ("tune", "task=sum", "model=lstm", "--grid", "optim.lr=0.1,0.2", "--dry-run"),
    ("show", "task=group", "task.group=S3", "length=5", "count=2", "seed=1"),
    ("report", "--runs", "RUNS", "--digits", "3", "--format", "csv", "--rule", "last"),
    ("report", "--runs", "RUNS", "--table", "TABLE", "--part", "main"),
    ("report", "--runs", "RUNS", "--rows", "blockdiag", "--columns", "sum", "--fingerprint", "a"),
    ("evaluate", "RUN", "--lengths", "6,7", "--strings", "5", "--which", "last"),
    ("certify", "RUN", "--complete", "100", "--foretell", "20", "--longest", "9", "--nodes", "9"),
    ("status", "RUNS"),
    ("bundle", "--rows", "blockdiag", "--runs", "RUNS", "--output", "b.zip", "--rule", "last"),
    ("check", "task=sum", "task.modulus=3"),
    ("models", "blockdiag", "--json"),
    ("tables", "fan2024_table2", "--yaml"),
)
READERS: tuple[tuple[str, ...], ...] = (
    ("report", "--runs", "RUNS"),
    ("report", "--runs", "RUNS", "--table", "TABLE"),
    ("status", "RUNS"),
    ("evaluate", "RUN", "--lengths", "6", "--strings", "5"),
    ("certify", "RUN", "--complete", "100", "--foretell", "20", "--longest", "9", "--nodes", "9"),
    ("bundle", "--rows", "blockdiag", "--runs", "RUNS", "--output", "b.zip"),
    ("verify", "BUNDLE", "--strings", "5"),
    ("sweep", "--table", "TABLE", "--dry-run", "output_dir=runs"),
    ("train", *TINY, "device=cpu", "output_dir=RUNS"),
)
TABLE = """\
title: Some
source: somewhere
protocol: fan2024
rule: last
columns: [length 6]
cells:
  - overrides: [task=sum, model=blockdiag, optim.lr=0.1]
    reference: blockdiag
"""


@dataclass
class Case:
    """A program that was started, what it was given, and what is wrong with how it ended."""

    number: int
    argv: list[str]
    told: str = ""
    wrong: list[str] = field(default_factory=list)


class Fuzz:
    """Programs on one finished run, a table and a bundle, copied for each of them."""

    def __init__(self, lab: Laboratory, scratch: Path, seed: int) -> None:
        self.lab, self.scratch, self.seed = lab, scratch, seed
        self.sound = scratch / "sound"
        runs = self.sound / "runs"
        program = lab.start("train", *TINY, "device=cpu", f"output_dir={runs}")
        assert program.wait(WALL) == 0, program.err
        (self.sound / "table.yaml").write_text(TABLE)
        words = ("bundle", "--rows", "blockdiag", "--runs", str(runs))
        program = lab.start(*words, "--output", str(self.sound / "bundle.zip"))
        assert program.wait(WALL) == 0, program.err

    def line(self, number: int) -> Case:
        """Start one wrong command line."""
        draw = random.Random(f"{self.seed} line {number}")
        words = list(draw.choice(LINES))
        for _ in range(draw.randint(1, 3)):
            words = mutated(words, draw)
        return self._run(number, words, lambda folder: "")

    def file(self, number: int) -> Case:
        """Start a sound command on a wrong file."""
        draw = random.Random(f"{self.seed} file {number}")

        def damage(folder: Path) -> str:
            chosen = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            path = draw.choice([one for one in chosen if ".leases" not in one.parts])
            path.write_bytes(damaged(path.read_bytes(), draw))
            return str(path.relative_to(folder))

        return self._run(number, list(draw.choice(READERS)), damage)

    def _run(self, number: int, words: list[str], prepare: Callable[[Path], str]) -> Case:
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        inside = folder / "outer" / "inside"
        shutil.copytree(self.sound, inside)
        places = {
            "RUNS": str(inside / "runs"),
            "RUN": str(next(inside.glob("runs/*/*/*/*/s2"))),
            "TABLE": str(inside / "table.yaml"),
            "BUNDLE": str(inside / "bundle.zip"),
        }
        told = prepare(inside)
        argv = [places.get(word, word.replace("=RUNS", f"={inside / 'runs'}")) for word in words]
        argv = [word.replace("\0", "") for word in argv]  # no program can be given that
        case = Case(number, argv, told)
        program = self.lab.start(
            *argv, sabotage=[["confine", {"folder": str(inside), "seconds": SECONDS}]]
        )
        code = program.wait(WALL)
        text = program.err + program.out
        if "Traceback" in text:
            case.wrong.append("traceback: " + text.strip().splitlines()[-1][:300])
        trains = words[:1] in (["sweep"], ["tune"]) and "--dry-run" not in words
        if code == -signal.SIGXCPU and trains:
            code = 0  # what it says takes hours
        elif code == -signal.SIGXCPU:
            case.wrong.append(f"over {SECONDS} s of processor time")
        elif code not in CODES:
            case.wrong.append(f"exit code {code}: {text[-300:]}")
        if code and not text.strip():
            case.wrong.append(f"exit code {code} without a word")
        outside = [path for path in folder.rglob("*") if inside not in (path, *path.parents)]
        if outside != [folder / "outer"]:
            case.wrong.append(f"written outside: {outside}")
        if [path for path in folder.rglob(CANARY) if path.parent == inside]:
            case.wrong.append("what was read was run")
        shutil.rmtree(folder)
        return case


def mutated(words: list[str], draw: random.Random) -> list[str]:
    """Return a command line with one thing changed."""
    words = list(words)
    place = draw.randrange(1, len(words)) if len(words) > 1 else 0
    key, sign, _ = words[place].partition("=")
    kind = draw.randrange(7)
    if kind <= 2:  # another value
        words[place] = f"{key}={draw.choice(VALUES)}" if sign else draw.choice(VALUES)
    elif kind == 3:  # another key
        words.insert(place, f"{draw.choice(KEYS)}={draw.choice(VALUES)}")
    elif kind == 4:  # another's value
        words[place] = f"{key}{sign}{draw.choice(words).partition('=')[2]}"
    elif kind == 5:
        del words[place]
        words = words or [""]
    else:  # a letter
        word = words[place]
        at = draw.randrange(len(word)) if word else 0
        words[place] = word[:at] + draw.choice("=,.[]{}'\"\\:$~+@-0 é\n") + word[at + 1 :]
    return words


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Return a file's content with one thing changed."""
    at = draw.randrange(len(data)) if data else 0
    kind = draw.randrange(7)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + draw.randbytes(8) + data[at:]
    if kind == 3:
        return b""
    if kind == 4:
        return data[:at] + data[at + draw.randrange(1, 40) :]
    if kind == 5:
        return _other_value(data, draw)
    return data + data[: draw.randrange(200)]


def _other_value(data: bytes, draw: random.Random) -> bytes:
    """Return a JSON object with one value, however deep, of another type or size."""
    try:
        obj = json.loads(data)
    except ValueError:
        return data[::-1]
    places = list(_places(obj))
    if not places:
        return b"[]"
    owner, key = draw.choice(places)
    odd: tuple[Any, ...] = (
        None,
        -1,
        7.5,
        10**30,
        "",
        "x" * 5000,
        [],
        {},
        [[1]],
        True,
        "../../canary",
    )
    owner[key] = draw.choice(odd)
    return json.dumps(obj).encode()


def _places(obj: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(obj, dict | list):
        for key in obj if isinstance(obj, dict) else range(len(obj)):
            yield obj, key
            yield from _places(obj[key])


def main() -> int:
    """Start as many programs as were asked for; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--lines", type=int, default=5000, help="Wrong command lines.")
    parser.add_argument("--files", type=int, default=2000, help="Damaged files.")
    parser.add_argument("--first", type=int, default=0, help="The number to begin with.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="Stop after that many.")
    given = parser.parse_args()
    counts, codes = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "programs").mkdir()
        lab = Laboratory(Path(scratch) / "programs")
        fuzz = Fuzz(lab, Path(scratch), given.seed)
        deadline = time.monotonic() + given.seconds
        for number in range(given.first, max(given.files, given.lines)):
            if number % 100 == 0:
                print(f"at {number}: {dict(counts)}", file=sys.stderr, flush=True)
            for kind, start, end in (
                ("file", fuzz.file, given.files),
                ("line", fuzz.line, given.lines),
            ):
                if number >= end or time.monotonic() > deadline:
                    continue
                case = start(number)
                counts[kind] += 1
                codes[kind] += bool(case.wrong)
                for words in case.wrong:
                    argv = [word[:80] for word in case.argv if word not in TINY]
                    print(f"{kind} {number} {argv} {case.told}: {words}", flush=True)
        programs.close()
    for kind in counts:
        print(f"seed {given.seed}: {counts[kind]} {kind}s, {codes[kind]} with a fault")
    return int(any(codes.values()))


if __name__ == "__main__":
    raise SystemExit(main())
