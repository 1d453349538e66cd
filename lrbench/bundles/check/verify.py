"""The check of a bundle: hashes, fingerprints, data, the table, and fresh scores.

It also reports what is not scored again (splits, with the reason, and what was added later), and
puts wrong strings and proofs to the weights (failures.py).
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from lrbench.bundles import layout
from lrbench.bundles.archive import sha256, unpacked
from lrbench.bundles.check.entry import built_otherwise, by_own_table, is_entry, judged
from lrbench.bundles.check.failures import (
    NOT_ONE,
    other_answers,
    put_again,
    searched_runs,
    suite_extent,
)
from lrbench.bundles.check.findings import BAD, GOOD, OPEN, BundleFinding, finding
from lrbench.bundles.check.identity import config_complaint, differences, versions_complaint
from lrbench.bundles.check.rescore import (
    ScoreComparison,
    differing,
    levels_differ,
    recorded_on_splits,
    rescore,
    rescore_splits,
)
from lrbench.bundles.check.stated import later_scores, misplaced, not_read, range_of
from lrbench.bundles.check.weights import shared_weights, sizes
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.contents import DAMAGED, libraries_of, plugins_of, refuse_other
from lrbench.bundles.data import (
    SplitState,
    obstacle,
    over_corpus,
    split_states,
    string_hashes,
)
from lrbench.bundles.pack import tables, unpack
from lrbench.errors import UserError
from lrbench.plugins import trust_plugin
from lrbench.plugins.sources import source_files, source_hash
from lrbench.records import Result
from lrbench.report.output.display import plural
from lrbench.report.runs.certificates import FOLDER as ANSWERS
from lrbench.report.runs.schema import result_complaint
from lrbench.report.suite.lock import has_lock
from lrbench.runs.folder import checkpoints
from lrbench.runs.folder.files import UnreadableFile
from lrbench.runs.train.display import ExaminationDisplay

__all__ = ["BAD", "GOOD", "OPEN", "BundleFinding", "Opened", "Options", "open_bundle", "verify"]

COMPILED = re.compile(r"__pycache__|\.(pyc|pyo|pyd|so|dll|dylib)$")  # code without source

States = dict[str, SplitState]  # by split


@dataclass
class Opened:
    """A bundle whose files have the hashes that its manifest names."""

    files: dict[str, bytes]
    manifest: dict[str, Any]
    choice: TableChoice
    results: dict[str, Result] = field(default_factory=dict)
    differs: tuple[str, ...] = ()  # of an entry of a suite: in what its choice is not the suite's

    @property
    def entry(self) -> bool:
        """Whether it is of a suite."""
        return is_entry(self.choice)


@dataclass(frozen=True)
class Options:
    """How checkpoints are scored again, and whether the bundle's own code may run."""

    strings: int = 1000
    seed: int = 0
    device: str = "auto"
    trust_plugins: bool = False


def open_bundle(path: Path) -> Opened:
    """Read an archive whole. Raises UserError for one that is damaged or was tampered with."""
    files = unpacked(path)
    manifest = layout.parsed(layout.MANIFEST, files.pop(layout.MANIFEST, None))
    layout.check_manifest(manifest)
    recorded = manifest["files"]
    wrong = [f"'{name}' is missing" for name in recorded if name not in files]
    wrong += [f"'{name}' is not in the manifest" for name in files if name not in recorded]
    wrong += [
        f"'{name}' is not what was packed: its sha256 differs"
        for name, data in files.items()
        if name in recorded and sha256(data) != recorded[name]["sha256"]
    ]
    if wrong:
        more = [f"and {len(wrong) - 3} more"] if len(wrong) > 3 else []
        first = [line[:200] for line in wrong[:3]]
        raise UserError("\n".join([f"bundle '{path}' is damaged or was changed:", *first, *more]))
    missing = [name for name in (layout.TABLE, layout.CSV, layout.STRINGS) if name not in files]
    if missing:
        raise UserError(f"bundle '{path}' has no {', '.join(missing)}")
    choice, differs = TableChoice.from_json(manifest["choice"]), list[str]()
    if is_entry(choice):
        choice, differs = by_own_table(choice)
    opened = Opened(files, manifest, choice, differs=tuple(differs))
    for name in sorted(files):
        if name.startswith(f"{layout.RUNS}/") and name.endswith("/result.json"):
            result = layout.parsed(name, files[name])
            complaint = (
                result_complaint(result)
                or config_complaint(result["config"])
                or versions_complaint(result.get("versions") or {})
            )
            if complaint:
                raise UserError(f"bundle '{path}': {name}: {complaint}")
            opened.results[name.removeprefix(f"{layout.RUNS}/").removesuffix("/result.json")] = (
                cast(Result, result)
            )
    if not opened.results:
        raise UserError(f"bundle '{path}' has no run that ended")
    return opened


def verify(opened: Opened, options: Options) -> tuple[list[BundleFinding], list[ScoreComparison]]:
    """Look at everything; return what was found, and the scores side by side."""
    with tempfile.TemporaryDirectory(prefix="lrbench-") as place:
        folder = Path(place)
        findings = [BundleFinding("hashes", GOOD, f"{len(opened.files)} files")]
        findings += [_fingerprints(opened), *_tables(opened)]
        unpack(opened.files, folder, layout.RUNS)
        by_rules, open_runs = _suite_rules(opened, folder / layout.RUNS)
        findings += by_rules  # before a plugin's code can run
        findings.append(_run_plugins(opened, folder) if options.trust_plugins else _plugins(opened))
        states = _splits(opened)
        findings.append(_strings(opened, states))
        findings += _models(opened, options, open_runs)
        if not opened.entry:
            findings += shared_weights(opened.results, folder / layout.RUNS, opened.choice.rule)
        findings += _chance(opened, options, states)
        comparisons, unscored = _scores(opened, folder / layout.RUNS, options, states)
        later = [*misplaced(opened.results, opened.files), *later_scores(opened.files, layout.RUNS)]
        later += _on_all_strings(opened, folder / layout.RUNS, options)
    not_scored = list(unscored_splits(opened.results, opened.choice.rule, states))
    scored = _scored(opened, comparisons, bool(not_scored or unscored))
    return [*findings, scored, *later, *not_scored, *unscored], comparisons


def _plugins(opened: Opened) -> BundleFinding:
    names = sorted({*plugins_of(opened.results), *libraries_of(opened.results).values()})
    if not names:
        return BundleFinding("plugins", GOOD, "none")
    text = (
        f"{', '.join(names)}: code that the bundle's maker chose, not run; --trust-plugins runs it"
    )
    return BundleFinding("plugins", OPEN, text)


def _run_plugins(opened: Opened, folder: Path) -> BundleFinding:
    """Import the plugins of the bundle, if their source is what the runs recorded."""
    libraries = libraries_of(opened.results).values()  # scoring refuses another version of one
    used = dict.fromkeys(libraries) | plugins_of(opened.results)
    compiled = [name for name in _plugin_files(opened) if COMPILED.search(name)]
    if compiled:
        return BundleFinding("plugins", BAD, f"{compiled[0]} is compiled: nobody can read it")
    unpack(opened.files, folder, layout.PLUGINS)
    read: set[str] = set()
    # a library is what is installed here: it comes first, and no file of the bundle stands for it
    for name, hashes in sorted(used.items(), key=lambda one: (one[1] is not None, one[0])):
        try:
            module = _imported(name, None if hashes is None else folder / layout.PLUGINS)
        except Exception as error:
            text = f"{name} does not import: {type(error).__name__}: {error}"
            return BundleFinding("plugins", BAD, text)
        if hashes is not None:
            if {source_hash(module)} != hashes:
                text = f"{name} is not the source that the runs recorded"
                return BundleFinding("plugins", BAD, text)
            read |= {f"{layout.PLUGINS}/{path}" for path in source_files(module)}
        trust_plugin(module)
    if beside := sorted({*_plugin_files(opened)} - read):
        return BundleFinding("plugins", BAD, f"{beside[0]} is no part of the plugins' source")
    return BundleFinding("plugins", GOOD, f"{', '.join(sorted(used)) or 'none'}: run, as you asked")


def _imported(name: str, folder: Path | None) -> ModuleType:
    sys.path[:0] = first = [str(folder)] if folder else []
    try:
        return import_module(name)
    finally:
        for path in first:
            sys.path.remove(path)


def _plugin_files(opened: Opened) -> list[str]:
    return [name for name in opened.files if name.startswith(f"{layout.PLUGINS}/")]


def _fingerprints(opened: Opened) -> BundleFinding:
    """A fingerprint is a hash of configuration and versions, and the name of the folder."""
    wrong = []
    for run, result in opened.results.items():
        path = f"{layout.RUNS}/{run.rpartition('/')[0]}/config.json"
        wrong += differences(run, result, layout.parsed(path, opened.files.get(path)))
    return finding("fingerprints", wrong, plural(len(opened.results), "run"))


def _splits(opened: Opened) -> dict[str, States]:
    """Return of each run over a corpus how its splits here compare with those told of."""
    recorded = layout.parsed(layout.STRINGS, opened.files[layout.STRINGS])
    states = {}
    for run, result in opened.results.items():
        if over_corpus(result):
            try:
                states[run] = split_states(result, recorded.get(run))
            except (UserError, KeyError, TypeError, AttributeError):
                continue  # a task of a plugin, or of another version: _strings counts it
    return states


def _strings(opened: Opened, states: dict[str, States]) -> BundleFinding:
    recorded = layout.parsed(layout.STRINGS, opened.files[layout.STRINGS])
    wrong, unknown = [], 0
    for run, result in opened.results.items():
        if run in states:
            wrong += [f"{run}: {name}: {one.why}" for name, one in states[run].items() if one.fault]
            continue
        try:
            here = string_hashes(result)
        except (UserError, KeyError, TypeError, AttributeError):
            unknown += 1  # a task of a plugin, or of another version
            continue
        except OSError as error:  # a file that a plugin reads, and that nobody packed
            wrong.append(f"{run}: its strings cannot be drawn here: {error}")
            continue
        if here != recorded.get(run):
            wrong.append(f"{run}: this lrbench draws other strings")
    if unknown and not wrong:
        text = f"{plural(unknown, 'run')} of a task or a model that is not here"
        return BundleFinding("data", OPEN, text)
    every = [one for found in states.values() for one in found.values()]
    away = sum(bool(one.why) for one in every)
    if away and not wrong:
        return BundleFinding(
            "data", OPEN, f"{away} of {len(every)} splits are not here as they were"
        )
    how = "are here" if states else "are drawn here"
    return finding("data", wrong, f"the same strings and answers {how}")


def _tables(opened: Opened) -> Iterator[BundleFinding]:
    made = tables(opened.files, opened.choice)
    for name in (layout.TABLE, layout.CSV):
        yield finding(name, _lines_that_differ(opened.files[name], made[name]), "rebuilt")


def _suite_rules(opened: Opened, runs: Path) -> tuple[list[BundleFinding], set[str]]:
    """Return what the rules of a suite say of each row, and which runs are of the division open.

    Nothing of other tables.
    """
    choice = opened.choice
    if choice.table is None or not opened.entry:
        names = {result["protocol"] for result in opened.results.values()}
        suites = [name for name in sorted(names) if has_lock(name)]
        text = "runs of it that are no entry: its rules were not looked at"
        return [BundleFinding(name, OPEN, text) for name in suites], set()
    found = judged(choice, runs, opened.results, opened.files)
    text = f"{', '.join(found.rows)}: every rule of {choice.table.name} is kept"
    return [finding("suite", [*opened.differs, *found.broken], text)], found.open_runs


def _models(opened: Opened, options: Options, open_runs: set[str]) -> list[BundleFinding]:
    """Build models, and compare them with what is told of them; of an entry with more.

    open_runs: those whose model may know the rule before it is trained.
    """
    results = {
        run: result
        for run, result in opened.results.items()
        if options.trust_plugins or not plugins_of({run: result})
    }
    if not opened.entry:
        return [*sizes(results)]
    searched = f"{ANSWERS}/{opened.choice.rule}.json"
    results = {
        run: one
        for run, one in results.items()
        if f"{layout.RUNS}/{run}/{searched}" in opened.files
    }
    wrong = built_otherwise(results, open_runs)
    return [finding("models", wrong, f"{plural(len(results), 'run')} as built before training")]


def _chance(opened: Opened, options: Options, states: dict[str, States]) -> list[BundleFinding]:
    """Measure chance again; not of an entry, whose models are looked at with it."""
    wrong, measured = [], 0
    for run, result in sorted(opened.results.items()):
        away = not options.trust_plugins and plugins_of({run: result})
        absent = any(state.why for state in states.get(run, {}).values())
        if opened.entry or absent or not _tells_scores(result, opened.choice.rule):
            continue  # what was not scored again is told with the scores
        try:
            if levels_differ(result):
                wrong.append(f"{run}: chance is not what is measured here")
        except (UserError, *DAMAGED) as error:
            if away:
                continue  # `_scores` names this run as one that needs its plugin
            wrong.append(f"{run}: chance cannot be measured: {_first_line(error)}")
        measured += 1
    text = f"of {plural(measured, 'run')} measured again"
    return [finding("chance", wrong, text)] if measured else []


def _lines_that_differ(recorded: bytes, made: bytes) -> list[str]:
    if recorded == made:
        return []
    pairs = zip(
        recorded.decode("utf-8", "replace").splitlines(), made.decode().splitlines(), strict=False
    )
    lines = [f"told {a[:120]!r}, rebuilt {b[:120]!r}" for a, b in pairs if a != b]
    return lines or ["one is longer than the other"]


def _scores(
    opened: Opened, runs: Path, options: Options, states: dict[str, States]
) -> tuple[list[ScoreComparison], list[BundleFinding]]:
    rule = opened.choice.rule
    comparisons: list[ScoreComparison] = []
    unscored = []
    for number, (run, result) in enumerate(sorted(opened.results.items()), 1):
        if f"{layout.RUNS}/{run}/checkpoints/{rule}.pt" not in opened.files:
            if _tells_scores(result, rule):
                text = f"not scored again: no checkpoints/{rule}.pt of it in the bundle"
                unscored.append(BundleFinding(run, OPEN, text))
            continue
        try:
            path = runs / run / "checkpoints" / f"{rule}.pt"
            refuse_other(_loaded(path), result, rule, path)
            if over_corpus(result) and run not in states:
                raise UserError("its task or its model is not here")
            place = f"{run} ({number} of {len(opened.results)})"
            with ExaminationDisplay("scoring again", [place], passing=True) as display:
                comparisons += _of_run(runs / run, run, opened, options, states.get(run), display)
            if not over_corpus(result) and (left := not_read(result, rule)):
                text = f"not scored again: its scores {', '.join(left)}, which nobody reads"
                unscored.append(BundleFinding(run, OPEN, text))
        except (UserError, OSError, *DAMAGED) as error:
            first = _first_line(error).replace(f"{runs}/", "")
            away = [] if options.trust_plugins else sorted(plugins_of({run: result}))
            if away:
                first = f"{', '.join(away)} was not run; read it, then add --trust-plugins"
            unscored.append(BundleFinding(run, OPEN if away else BAD, f"not scored again: {first}"))
    return comparisons, unscored


def _of_run(
    folder: Path,
    run: str,
    opened: Opened,
    options: Options,
    found: States | None,
    display: ExaminationDisplay,
) -> list[ScoreComparison]:
    """Score a run again: on fresh strings, or on the splits `found` here as they were."""
    result, rule, device = opened.results[run], opened.choice.rule, options.device
    if found is None:
        counts = options.strings, options.seed
        return rescore(folder, run, result, rule, *counts, device, opened.entry, display)
    here = [name for name in found if not obstacle(result, found, name).why]
    return rescore_splits(folder, run, result, rule, here, device, display)


def _tells_scores(result: Mapping[str, Any], rule: str) -> bool:
    """Whether a result has a score on fresh strings, or a split, of the checkpoint of a rule."""
    rows = result.get("evaluations") or []
    return any(
        (row.get("which"), row.get("kind")) == (rule, "test") and row.get("value") is not None
        for row in rows
    )


def _on_all_strings(opened: Opened, runs: Path, options: Options) -> list[BundleFinding]:
    """Put the wrong strings and proofs of the bundle to its weights; nothing where it has none."""
    rule, extent = opened.choice.rule, suite_extent(opened.choice)
    searched = searched_runs(opened.files, layout.RUNS, opened.results, rule)
    wrong, away, unchecked = other_answers(opened.files, rule), set(), Counter[str]()
    for run in searched:
        plugins = set() if options.trust_plugins else {*plugins_of({run: opened.results[run]})}
        away |= plugins
        if plugins:
            continue
        try:
            problem, left = put_again(runs / run, run, rule, extent)
        except (UserError, UnreadableFile, OSError, *DAMAGED) as error:
            problem, left = f"{run}: {_first_line(error)}".replace(f"{runs}/", ""), ""
        wrong += [problem] if problem else []
        unchecked.update([left] if left else [])
    if away and not wrong:
        text = f"{', '.join(sorted(away))} was not run; read it, then add --trust-plugins"
        return [BundleFinding("all strings", OPEN, text)]
    held = len(searched) - unchecked[NOT_ONE]
    text = f"{plural(held, 'answer')} of lrbench certify held against the weights"
    found = [finding("all strings", wrong, text)] if held or wrong else []
    return found + [
        BundleFinding("all strings", OPEN, f"of {plural(count, 'answer')} {what}")
        for what, count in unchecked.items()
    ]


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _loaded(path: Path) -> dict[str, Any]:
    """Return a checkpoint, of which nothing is executed; UserError where it is none."""
    try:
        return checkpoints.load(path)
    except UnreadableFile as error:
        raise UserError(str(error)) from error


def _scored(opened: Opened, comparisons: list[ScoreComparison], not_scored: bool) -> BundleFinding:
    scored = len({one.run for one in comparisons})
    over_corpora = {over_corpus(result) for result in opened.results.values()}
    where = {frozenset({True}): "on their splits", frozenset({False}): "on fresh strings"}
    on = where.get(frozenset(over_corpora), "on fresh strings or on their splits")
    text = f"{scored} of {len(opened.results)} runs scored again {on}"
    text += _of_ranges(opened, comparisons)
    far = [f"{one.run} {one.place}" for one in (differing(comparisons) if comparisons else [])]
    if not far and not_scored:
        return BundleFinding("scores", OPEN, f"{text}; why not on all of them is told below")
    if not far and scored < len(opened.results):
        return BundleFinding("scores", OPEN, f"{text}; of the others there is nothing to score")
    return finding("scores", far, text)


def _of_ranges(opened: Opened, comparisons: list[ScoreComparison]) -> str:
    """Say at how many lengths of a range runs were scored, where that is not at all of them."""
    looked: dict[str, set[int]] = {}
    for one in comparisons:
        looked.setdefault(one.run, set()).add(one.length)
    parts = {
        (len(lengths), len(every))
        for run, lengths in looked.items()
        if len(lengths) < len(every := range_of(opened.results[run], opened.choice.rule))
    }
    told = ", ".join(f"{some} of {every}" for some, every in sorted(parts)[:3])
    return f", at {told} lengths" if parts else ""


def unscored_splits(
    results: dict[str, Result], rule: str, states: dict[str, States]
) -> Iterator[BundleFinding]:
    """Yield which splits could not be scored again and why, each once for all runs."""
    left: dict[tuple[str, str, bool], dict[str, None]] = {}
    for run, found in states.items():
        result = results[run]
        for name in recorded_on_splits(result, rule):
            state = obstacle(result, found, name)
            if state.why:
                key = result["task"], state.why, state.fault
                left.setdefault(key, {})[name] = None
    for (task, why, fault), names in left.items():
        text = f"{', '.join(names)} not scored again: {why}"
        yield BundleFinding(task, BAD if fault else OPEN, text)
