"""Changed places of the package, and whether the tests notice: `make mutants` tries 200 of them.

A mutant has one sign, index, comparison or constant changed, by the operators of cosmic-ray, in a
clone of this checkout. Its tests are those of its file, of the files that import it, of its folder,
of its package, then the quick half of the suite; the first that fails has caught it. A mutant that
survives is for a person to judge: it may compute the same.

Outcomes are lines of a file, so that a campaign goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("tasks", "kernels", "scan", "mixers", "training", "statistics.py", "report")
OPERATORS = (
    "NumberReplacer",
    *("ReplaceBinaryOperator_Add_Sub", "ReplaceBinaryOperator_Sub_Add"),
    *("ReplaceBinaryOperator_Mul_Div", "ReplaceBinaryOperator_Div_Mul"),
    *("ReplaceBinaryOperator_FloorDiv_Mul", "ReplaceBinaryOperator_Mod_FloorDiv"),
    *("ReplaceComparisonOperator_Lt_LtE", "ReplaceComparisonOperator_LtE_Lt"),
    *("ReplaceComparisonOperator_Gt_GtE", "ReplaceComparisonOperator_GtE_Gt"),
    *("ReplaceComparisonOperator_Eq_NotEq", "ReplaceComparisonOperator_NotEq_Eq"),
    *("ReplaceUnaryOperator_USub_UAdd", "ReplaceUnaryOperator_Delete_Not"),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
)
NOT_SLOW = ("-m", "not slow")
QUICK = ("tests", "-m", "unit and not slow", "-n", "2")  # the last resort
USERS = 8  # of a file, whose tests are its own tests too
SECONDS = 900  # for the tests of a mutant; one that makes them hang is caught
HANGS = 120  # seconds of one test
IMPORTED = (
    *("torch", "torch._dynamo", "torch.func", "numba", "llvmlite.binding", "pandas"),
    *("scipy.special", "scipy.stats", "hydra", "hydra.utils", "omegaconf", "typer", "rich.console"),
)


@dataclass(frozen=True)
class Mutant:
    """One change: the `occurrence`-th place in `file` where `operator` applies, and its line."""

    file: str
    operator: str
    occurrence: int
    line: int


@dataclass
class Outcome:
    """A mutant, the tests that caught it (empty where none did) and the first that failed."""

    number: int
    mutant: Mutant
    was: str
    now: str
    caught: str
    test: str = ""


def mutants(root: Path, places: Sequence[str] = PLACES) -> list[Mutant]:
    """Return every mutant of the places looked at, in a fixed order."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator

    files = [path for place in places for path in sorted((root / "lrbench").glob(f"{place}*"))]
    files = [
        path for one in files for path in ([one] if one.is_file() else sorted(one.rglob("*.py")))
    ]
    found = []
    for path in files:
        tree = get_ast(path.read_text())
        for name in OPERATORS:
            operator = get_operator(f"core/{name}")()
            starts = [
                start[0]
                for node in ast_nodes(tree)
                for start, _ in operator.mutation_positions(node)
            ]
            where = path.relative_to(root).as_posix()
            found += [Mutant(where, name, index, line) for index, line in enumerate(starts)]
    return found


def drawn(every: Sequence[Mutant], seed: int) -> Iterator[Mutant]:
    """Yield mutants at random: a file first, so that long ones have no more of them."""
    draw = random.Random(seed)
    by_file: dict[str, list[Mutant]] = {}
    for one in every:
        by_file.setdefault(one.file, []).append(one)
    seen: set[Mutant] = set()
    while len(seen) < len(every):
        chosen = draw.choice(by_file[draw.choice(sorted(by_file))])
        if chosen not in seen:
            seen.add(chosen)
            yield chosen


def mutated(source: str, mutant: Mutant) -> str:
    """Return a file's text with the change in it."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    changed = mutate_code(source, get_operator(f"core/{mutant.operator}")(), mutant.occurrence)
    assert changed is not None, mutant
    return str(changed)


def stages(file: str, root: Path, near: bool = False) -> Iterator[tuple[str, ...]]:
    """Yield the tests of a file of the package, from its own to the quick half of all.

    `near` ones are its own, its users' and what is not slow in its folders.
    """
    own = _tests_of(Path(file))
    name = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    imports = re.compile(rf"\b{re.escape(name)}\b")
    paths = sorted((root / "lrbench").rglob("*.py"))
    users = [
        _tests_of(path.relative_to(root)) for path in paths if imports.search(path.read_text())
    ]
    nearest = [str(path) for path in users if path != own and (root / path).exists()][:USERS]
    if (root / own).exists():
        yield (str(own),)
    if nearest:
        yield tuple(nearest)
    for place in own.parents:
        if place.parts[1:] and (root / place).exists():
            yield (str(place), *(NOT_SLOW if near else ()))
    if not near:
        yield QUICK


def _tests_of(file: Path) -> Path:
    parts = file.relative_to("lrbench")
    return Path("tests", parts.parent, f"test_{parts.stem}.py")


def tried(mutant: Mutant, clone: Path, near: bool = False) -> tuple[str, ...]:
    """Return the changed lines, before and after, what caught the mutant, and its first test."""
    path = clone / mutant.file
    source = path.read_text()
    text = mutated(source, mutant)
    pairs = zip(source.splitlines(), text.splitlines(), strict=False)
    was, now = next(((one, other) for one, other in pairs if one != other), ("", ""))
    try:
        path.write_text(text)
        return was.strip(), now.strip(), *_caught(mutant, clone, near)
    finally:
        path.write_text(source)


def _caught(mutant: Mutant, clone: Path, near: bool) -> tuple[str, str]:
    passed: list[str] = []
    for tests in stages(mutant.file, clone, near):
        code, text = run_tests([*tests, *passed], clone)
        if code not in (0, 5):  # 5: nothing to be run there
            lines = [one for one in text.splitlines() if one.startswith(("FAILED ", "ERROR "))]
            return shlex.join(tests), (lines or [f"exit code {code}"])[0][:300]
        passed += [f"--ignore={path}" for path in tests if path not in NOT_SLOW]
    return "", ""


def check_sound(outcome: Outcome, clone: Path) -> None:
    """Raise AssertionError where the tests that caught a mutant fail without it as well."""
    name = outcome.test.partition(" - ")[0].partition(" ")[2]
    words = [name] if "::" in name else shlex.split(outcome.caught)
    if outcome.caught:
        code, text = run_tests(words, clone)
        assert code in (0, 5), f"{words} fail without a mutant\n{text[-2000:]}"


def copy_compiled(clone: Path) -> None:
    """Give a clone the loops that this checkout has compiled; numba asks for the same times."""
    for path in (ROOT / "lrbench").rglob("*.nb[ci]"):
        place = clone / path.relative_to(ROOT)
        place.parent.mkdir(exist_ok=True)
        shutil.copy2(path, place)
    for path in (ROOT / "lrbench").rglob("*.py"):
        place = clone / path.relative_to(ROOT)
        if place.exists() and place.read_bytes() == path.read_bytes():
            shutil.copystat(path, place)


def run_tests(words: Sequence[str], clone: Path) -> tuple[int | None, str]:
    """Return the exit code of pytest in a clone, None where it had no end, and what it printed.

    It is forked from a process that has imported what is not of this project.
    """
    server = get_context("forkserver")
    server.set_forkserver_preload([*IMPORTED])
    with tempfile.NamedTemporaryFile("r", suffix=".txt") as out:
        process = server.Process(target=_test, args=(list(words), str(clone), out.name))
        process.start()
        process.join(SECONDS)
        if process.exitcode is None and process.pid is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
            return None, out.read()
        return process.exitcode, out.read()


def _test(words: list[str], clone: str, out: str) -> None:
    os.setsid()
    with open(out, "w") as written:
        os.dup2(written.fileno(), 1)
        os.dup2(written.fileno(), 2)
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "lrbench")]:
        del sys.modules[name]  # those of this checkout
    os.chdir(clone)
    os.environ["PYTHONPATH"] = clone
    sys.path.insert(0, clone)
    sys.argv = ["pytest"]
    import pytest

    imported = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # hydra is a plugin, too
    usual = ("-x", "-q", "-p", "no:cacheprovider", *imported, f"--timeout={HANGS}")
    sys.exit(int(pytest.main([*usual, *words])))


def table(outcomes: Iterable[Outcome]) -> list[str]:
    """Return a markdown table: places down, how many were tried and caught, and by which tests."""
    count, caught, own = Counter[str](), Counter[str](), Counter[str]()
    for one in outcomes:
        place = Path(one.mutant.file).parts[1]
        count[place] += 1
        caught[place] += bool(one.caught)
        own[place] += bool(one.caught) and one.caught != shlex.join(QUICK)
    lines = ["| place | mutants | caught | by the tests of its own package |", "|---|---|---|---|"]
    lines += [f"| {place} | {count[place]} | {caught[place]} | {own[place]} |" for place in count]
    return [*lines, f"| all | {count.total()} | {caught.total()} | {own.total()} |"]


def main() -> int:
    """Try mutants until there were enough; print those that survive, and a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--mutants", type=int, default=200, help="How many.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--places", default=",".join(PLACES), help="Where in the package.")
    parser.add_argument("--near", action="store_true", help="No slow tests, none of all packages.")
    parser.add_argument("--again", action="store_true", help="Try those once more that survive.")
    parser.add_argument("--outcomes", type=Path, default=Path("outputs/mutants/outcomes.jsonl"))
    given = parser.parse_args()

    given.outcomes.parent.mkdir(parents=True, exist_ok=True)
    lines = given.outcomes.read_text().splitlines() if given.outcomes.exists() else []
    done = [read(line) for line in lines]
    with tempfile.TemporaryDirectory() as scratch:
        clone = Path(scratch) / "clone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        copy_compiled(clone)
        if (ROOT.parent / "shared").is_dir():  # released data, without which tests are skipped
            (Path(scratch) / "shared").symlink_to(ROOT.parent / "shared")
        chosen = drawn(mutants(clone, given.places.split(",")), given.seed)
        for number, mutant in zip(range(given.mutants), chosen, strict=False):
            if number < len(done):
                assert done[number].mutant == mutant, "outcomes of another seed or another commit"
                if done[number].caught or not given.again:
                    continue
            one = Outcome(number, mutant, *tried(mutant, clone, given.near))
            check_sound(one, clone)
            done[number : number + 1] = [one]
            new = given.outcomes.with_suffix(".new")  # a kill while it is written loses nothing
            new.write_text("".join(f"{json.dumps(asdict(each))}\n" for each in done))
            new.replace(given.outcomes)
            if not one.caught:
                print(f"survives: {mutant}\n  {one.was}\n  {one.now}", flush=True)
    print("\n".join(table(done)))
    return 0


def read(line: str) -> Outcome:
    """Return an outcome from its line."""
    content = json.loads(line)
    return Outcome(**{**content, "mutant": Mutant(**content["mutant"])})


if __name__ == "__main__":
    raise SystemExit(main())
