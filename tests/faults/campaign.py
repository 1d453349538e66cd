"""Many faults in real programs, drawn from a seed: `make faults` meets 1,000 of them.

An attempt takes a command, lets faults of one kind happen to it, gives it again undisturbed, and
compares all that is on disk then with an undisturbed run's. Nothing may be lost or differ in a bit,
no program may print a traceback, leave an unfinished file or outlive the one that started it.

Attempts are lines of a file, so that a campaign goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import random
import re
import shutil
import signal
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lrbench.runs.folder.files import UnreadableFile
from tests import made_up_corpora, programs

from .bits import content, differences
from .conftest import Laboratory, Program
from .scenarios import SCENARIOS, Scenario

DIED = -signal.SIGALRM
LONGEST = 120.0  # seconds that a program may take on a busy machine
MOST_KILLS = 5  # of one command, before it is left to end
SLOW = 15.0  # seconds: a command that takes longer is killed once an attempt
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)
KINDS = {
    "kill": "killed",
    "write": "a write failed",
    "damage": "a file damaged",
    "rename": "killed in a rename",
    "clock": "a clock jumped",
    "hosts": "killed on one of two hosts",
}
LEASED = ("train", "group", "corpus")  # two hosts may be given these at once
SOON = ["lease_times", {"expiry": 1.0, "beat": 0.1}]
LOST_STEP = re.compile(r"\.step-\d+\.pt: None != ")
NO_HOSTS = "no namespaces of one's own on this system"
JUMPS = (-3e7, -3600.0, -31.0, 31.0, 3600.0, 3e7)  # seconds


@dataclass
class Known:
    """What a command does undisturbed: all that it leaves, its seconds, what it writes, renames."""

    state: dict[str, Any]
    seconds: float
    writes: int
    renames: int


@dataclass
class Attempt:
    """What happened to a command, and what was wrong afterwards, which should be nothing."""

    number: int
    scenario: str
    kind: str
    faults: int = 0
    told: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class Campaign:
    """Attempts in one laboratory, below one scratch folder."""

    def __init__(self, lab: Laboratory, scratch: Path, seed: int) -> None:
        self.lab, self.scratch, self.seed = lab, scratch, seed
        self._known: dict[str, Known] = {}
        self._finished: Path | None = None
        made_up_corpora.write(lab.folder / "data")  # programs of the laboratory start there

    def attempt(self, number: int, scenario: Scenario, kind: str) -> Attempt:
        """Let faults happen to a command, then give it undisturbed and look at what there is."""
        made = Attempt(number, scenario.name, kind)
        known = self._undisturbed(scenario)
        draw = random.Random(f"{self.seed} {number}")
        out = self._folder(scenario)
        meet = {
            "kill": self._kill,
            "write": self._fail_write,
            "damage": self._damage,
            "rename": self._tear_rename,
            "clock": self._clock,
            "hosts": self._hosts,
        }[kind]
        try:
            meet(made, scenario, out, known, draw)
            end = self._start(scenario, out)
            if self._code(end, made, (scenario.code,)) != scenario.code:
                made.wrong.append(f"the command did not end well afterwards: {end.err[-400:]}")
            else:
                found = differences(state(out), known.state)
                if kind == "damage":  # a step file that was lost is not made again: last.pt is it
                    found = [one for one in found if not LOST_STEP.search(one)]
                made.wrong += [f"differs: {one}" for one in found[:3]]
            made.wrong += [f"unfinished file {path.name}" for path in out.rglob("*.tmp")]
        except UnreadableFile as error:
            made.wrong.append(f"left damaged: {error}")
        finally:
            shutil.rmtree(out)
        return made

    @cached_property
    def has_hosts(self) -> bool:
        """Whether this system lets a program have process ids and a host name of its own."""
        program = self.lab.start("--version", sabotage=[["elsewhere", {"host": "one"}]])
        return program.wait(LONGEST) == 0

    def _kill(
        self, made: Attempt, scenario: Scenario, out: Path, known: Known, draw: random.Random
    ) -> None:
        for _ in range(MOST_KILLS if known.seconds < SLOW else 1):
            moment = {"seconds": draw.uniform(0.01, known.seconds)}
            program = self._start(scenario, out, [["die_after", moment]])
            if self._code(program, made, (scenario.code, DIED)) != DIED:
                break
            made.faults += 1

    def _fail_write(
        self, made: Attempt, scenario: Scenario, out: Path, known: Known, draw: random.Random
    ) -> None:
        error, number = draw.choice(ERRORS), draw.randrange(known.writes)
        fault = {"below": str(out), "number": number, "error": error}
        program = self._start(scenario, out, [["fail_write", fault]])
        self._code(program, made, (scenario.code, 1))
        made.faults += 1
        made.told.append(f"{errno.errorcode[error]} at {number}: {_last_line(program.err)}")

    def _damage(
        self, made: Attempt, scenario: Scenario, out: Path, known: Known, draw: random.Random
    ) -> None:
        """Damage a file of a command killed on its way; a run's own that is needed stays whole."""
        moment = {"seconds": draw.uniform(known.seconds / 2, known.seconds)}
        self._code(self._start(scenario, out, [["die_after", moment]]), made, (scenario.code, DIED))
        chosen = [path for path in sorted(out.rglob("*")) if _may_be_damaged(path, scenario)]
        if not chosen:
            return
        path = draw.choice(chosen)
        how = draw.choice(DAMAGES)
        path.write_bytes(how(path.read_bytes(), draw))
        made.faults += 1
        made.told.append(f"{how.__name__} {path.name}")

    def _tear_rename(
        self, made: Attempt, scenario: Scenario, out: Path, known: Known, draw: random.Random
    ) -> None:
        if not known.renames:
            return
        torn = {"below": str(out), "number": draw.randrange(known.renames)}
        program = self._start(scenario, out, [["tear_rename", torn]])
        if self._code(program, made, (scenario.code, DIED)) == DIED:
            made.faults += 1
            made.told.append(f"rename {torn['number']} of {known.renames}")

    def _clock(
        self, made: Attempt, scenario: Scenario, out: Path, known: Known, draw: random.Random
    ) -> None:
        jumps = [
            [draw.uniform(0, known.seconds), draw.choice(JUMPS)] for _ in range(draw.randint(1, 4))
        ]
        program = self._start(scenario, out, [["clock_jumps", {"jumps": jumps}]])
        self._code(program, made, (scenario.code,))
        made.faults += len(jumps)

    def _hosts(
        self, made: Attempt, scenario: Scenario, out: Path, known: Known, draw: random.Random
    ) -> None:
        """Give a command on two hosts at once; one dies, and the other takes over or has ended."""
        if not self.has_hosts:
            made.told.append(NO_HOSTS)
            return
        dying = [["elsewhere", {"host": "one"}], SOON]
        dying.append(["die_after", {"seconds": draw.uniform(0.01, 1.5 * known.seconds)}])
        first = self._start(scenario, out, dying)
        second = self._start(scenario, out, [["elsewhere", {"host": "two"}], SOON])
        # A beat may come late on a busy machine: who lost the run to the other says so and ends.
        ended = (
            self._code(first, made, (scenario.code, DIED, 1)),
            self._code(second, made, (scenario.code, 1)),
        )
        made.faults += ended[0] == DIED
        for program, code in zip((first, second), ended, strict=True):
            if code == 1 and "another process has taken over" not in program.err:
                made.wrong.append(f"exit code 1: {_last_line(program.err)}")

    def _code(self, program: Program, made: Attempt, allowed: Iterable[int] = (0,)) -> int:
        """Wait for a program, note what it must not do, and return its exit code."""
        code = program.wait(LONGEST)
        if "Traceback" in program.err + program.out:
            made.wrong.append(f"traceback: {_last_line(program.err)}")
        if code not in allowed:
            made.wrong.append(f"exit code {code}: {_last_line(program.err)}")
        if code == 1 and not program.err.strip():
            made.wrong.append("exit code 1 without a word")
        if left := survivors(program.pid):
            made.wrong.append(f"processes left: {left}")
        return code

    def _undisturbed(self, scenario: Scenario) -> Known:
        if scenario.name not in self._known:
            self._warm(scenario)
            out = self._folder(scenario)
            log = self.scratch / f"{scenario.name}.writes"
            begin = time.monotonic()
            program = self._start(
                scenario, out, [["fail_write", {"below": str(out), "log": str(log)}]]
            )
            assert program.wait(LONGEST) == scenario.code, program.err
            took = time.monotonic() - begin
            written = log.read_text().splitlines()
            renames = sum(line.startswith("os.rename ") for line in written)
            known = Known(state(out), took, len(written), renames)
            self._known[scenario.name] = known
            shutil.rmtree(out)
        return self._known[scenario.name]

    def _warm(self, scenario: Scenario) -> None:
        """Compile what the command compiles: that is no part of its later runs."""
        out = self._folder(scenario)
        program = self._start(scenario, out)
        assert program.wait(2 * LONGEST) == scenario.code, program.out + program.err
        shutil.rmtree(out)

    def _folder(self, scenario: Scenario) -> Path:
        """Make the folder that a command begins with."""
        out = Path(tempfile.mkdtemp(dir=self.scratch))
        if scenario.begun:
            if self._finished is None:
                self._finished = self.scratch / "finished"
                program = self.lab.train(self._finished)
                assert program.wait(2 * LONGEST) == 0, program.err
            shutil.copytree(self._finished, out, dirs_exist_ok=True)
        return out

    def _start(self, scenario: Scenario, out: Path, faults: list[Any] | None = None) -> Program:
        arranged = [["lead_session", {}], *scenario.arrangement(out), *(faults or [])]
        return self.lab.start(*scenario.argv(out), sabotage=arranged)


def state(out: Path) -> dict[str, Any]:
    """Return all that a command left, without times, places and what only logs or locks."""
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        where = str(path.relative_to(out))
        if path.name == "result.json":
            found[where] = content(path.parent)
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                assert archive.testzip() is None
                found[where] = sorted(archive.namelist())
        elif path.suffix == ".tmp":
            continue  # what is left of these is looked at apart
        elif path.parent.name == "evaluations":  # named by their times, and one more does no harm
            found.setdefault(str(path.parent.relative_to(out)), set()).add(
                json.dumps(_timeless(path, out))
            )
        elif path.is_file() and _is_an_answer(path, out):
            found[where] = _timeless(path, out)
    return found


def _is_an_answer(path: Path, out: Path) -> bool:
    """Whether a file is what a command was asked for, besides results of runs."""
    kinds = ("counterexample", "certificate", "split.json")
    named = any(part.startswith(kinds) for part in path.relative_to(out).parts)
    return path.suffix in (".md", ".yaml", ".csv", ".npy") or (named and path.suffix == ".json")


def _timeless(path: Path, out: Path) -> Any:
    """Return a file's content without the times and the folder in it."""
    if path.suffix == ".npy":
        return path.read_bytes()
    text = path.read_text().replace(str(out), "OUT")
    if path.suffix != ".json":
        return text
    return _without_times(json.loads(text))


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_times(v) for k, v in value.items() if k not in TIMES}
    return [_without_times(one) for one in value] if isinstance(value, list) else value


# `searched`: a search after training has five seconds, and gets as far as it gets in them
TIMES = ("seconds", "train_seconds", "examination_seconds", "date", "when", "peak_mib")
TIMES += ("environment", "searched")


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))] if data else data


def _flip(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data)) if data else 0
    return (
        data[:place]
        + bytes(byte ^ 1 << draw.randrange(8) for byte in data[place : place + 1])
        + (data[place + 1 :])
    )


def _empty(data: bytes, draw: random.Random) -> bytes:
    return b""


def _zero(data: bytes, draw: random.Random) -> bytes:
    """Keep the length and lose the end, as some file systems do in a power cut."""
    place = draw.randrange(len(data)) if data else 0
    return data[:place] + bytes(len(data) - place)


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (_cut, _flip, _empty, _zero)


def _may_be_damaged(path: Path, scenario: Scenario) -> bool:
    """Whether a command has to make good this file: what it writes itself and reads again."""
    if scenario.begun or not path.is_file() or (path.parents[1] / "result.json").exists():
        return False  # of a run that has ended nothing is read again: `evaluate` refuses it
    return path.suffix == ".pt" or path.name in ("lease.json", "run.log", "environment.json")


def survivors(session: int) -> list[int]:
    """Return the processes of a session that are still there after a minute.

    A sweep's worker has so long to begin, if it has not, and to write a checkpoint.
    """
    deadline = time.monotonic() + 60
    while left := list(_members(session)):
        if time.monotonic() > deadline:
            return left
        time.sleep(0.05)
    return []


def _members(session: int) -> Iterator[int]:
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            words = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if words[0] != "Z" and int(words[3]) == session:
            yield int(place.name)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else ""


def table(attempts: Iterable[Attempt]) -> list[str]:
    """Return a markdown table: commands down, faults across, how many went wrong."""
    faults, wrong = Counter[tuple[str, str]](), Counter[str]()
    for one in attempts:
        faults[one.scenario, one.kind] += one.faults
        wrong[one.scenario] += bool(one.wrong)
    lines = [f"| command | {' | '.join(KINDS.values())} | wrong afterwards |"]
    lines += [f"|---|{'---|' * len(KINDS)}---|"]
    for name in [scenario.name for scenario in SCENARIOS]:
        counts = " | ".join(str(faults[name, kind]) for kind in KINDS)
        lines.append(f"| {name} | {counts} | {wrong[name]} |")
    sums = [sum(faults[one.name, kind] for one in SCENARIOS) for kind in KINDS]
    lines.append(f"| all | {' | '.join(map(str, sums))} | {wrong.total()} |")
    return lines


def drawn(seed: int, number: int) -> tuple[Scenario, str]:
    """Return what attempt `number` of a campaign is; files are damaged where some are made."""
    draw = random.Random(f"{seed} {number} what")
    scenario = draw.choice(SCENARIOS)
    kinds = {"kill", "write", "rename", "clock"}
    if not scenario.begun:
        kinds.add("damage")
    if scenario.name in LEASED:
        kinds.add("hosts")
    return scenario, draw.choice([*sorted(kinds), "kill", "kill"])


def main() -> int:
    """Make attempts until there were enough faults; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--faults", type=int, default=1000, help="How many, of all kinds.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", choices=KINDS, help="Only these.")
    parser.add_argument("--seconds", type=float, default=1e9, help="Stop after that many.")
    parser.add_argument("--attempts", type=Path, default=Path("outputs/faults/attempts.jsonl"))
    given = parser.parse_args()

    given.attempts.parent.mkdir(parents=True, exist_ok=True)
    lines = given.attempts.read_text().splitlines() if given.attempts.exists() else []
    done = [Attempt(**json.loads(line)) for line in lines]
    deadline = time.monotonic() + given.seconds
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "programs").mkdir()
        lab = Laboratory(Path(scratch) / "programs")
        campaign = Campaign(lab, Path(scratch), given.seed)
        number = done[-1].number if done else -1
        while sum(one.faults for one in done) < given.faults and time.monotonic() < deadline:
            number += 1
            scenario, kind = drawn(given.seed, number)
            if given.kind and kind not in given.kind:
                continue
            one = campaign.attempt(number, scenario, kind)
            done.append(one)
            with open(given.attempts, "a") as out:
                print(json.dumps(asdict(one)), file=out)
            for words in one.wrong:
                print(f"{one.number} {one.scenario} {one.kind} {one.told}: {words}", flush=True)
        programs.close()
    print("\n".join([f"seed {given.seed}, {os.cpu_count()} cores", "", *table(done)]))
    return int(any(one.wrong for one in done))


if __name__ == "__main__":
    raise SystemExit(main())
