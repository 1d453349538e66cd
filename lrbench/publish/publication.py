"""Publishing a table's runs: choosing them, and copying their small files without machine paths."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import pandas as pd

from lrbench.certificates import check
from lrbench.errors import UserError
from lrbench.publish.changes import Changes
from lrbench.publish.layout import RECORDS, Files
from lrbench.report.grids.selection import matching_runs, select
from lrbench.report.output.display import plural
from lrbench.report.runs.certificates import AGAIN, certificate_names
from lrbench.report.runs.certificates import FOLDER as CERTIFICATES
from lrbench.report.runs.collect import collect
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.files import shown
from lrbench.report.runs.record import evaluation_files
from lrbench.report.suite.entries import folders_of, refuse_fingerprints, suite_of
from lrbench.report.suite.lock import read_lock
from lrbench.runs.folder.environment import FOLDERS
from lrbench.tables import SUITE, TableCell, TableSpec, load_table


def publish(
    spec: TableSpec,
    runs_dir: Path,
    output: Path,
    choose: Sequence[str] = (),
    force: bool = False,
    certificates: bool = False,
) -> Copy:
    """Copy the small files of the runs of `spec` to its folder below `output`; return what it did.

    With `certificates`, those of runs that are published already, and nothing else.

    Raises UserError, before anything is written, where no run belongs to the table, none of it has
    ended, there or among those published, configurations compete for a cell, a file of a run is
    damaged, or a run is there with other content and it is not by `force`.
    """
    if (runs_dir / RECORDS).is_dir():  # a published table
        runs_dir = runs_dir / RECORDS
    records = output / spec.name / RECORDS
    collection = collect(runs_dir)
    chosen = chosen_runs(collection, spec, choose)
    folders = {folder for _, runs in chosen for folder in runs.values()}
    if not folders:
        raise UserError(
            f"no run in '{runs_dir}' belongs to the table {spec.name}\n"
            f"make them with: lrbench sweep --table {spec.name}; or name another with --runs DIR"
        )
    _refuse_damaged(collection, runs_dir, folders, certificates)
    published = collect(records) if records.is_dir() else None
    if folders.isdisjoint(collection.runs["folder"]) and (
        published is None or published.runs.empty
    ):
        raise UserError(
            f"no run of the table {spec.name} in '{runs_dir}' has ended:"
            f" {plural(len(folders), 'run')} under way\n"
            "a page has at least one that has ended; --runs DIR names another folder\n"
            f"how far they are: lrbench report --table {spec.name} --runs {quote(str(runs_dir))}"
        )
    if published is not None:
        _refuse(records, rivals(published, spec, chosen))
    if certificates:
        copy = planned_certificates(runs_dir, chosen, records)
    else:
        copy = planned_copy(runs_dir, chosen, records, force)
    # In this order a kill leaves no run that is half of one and half of another.
    Changes(removed=[records / name for name in (*copy.replaced, *copy.stale)]).apply()
    Changes(written={records / name: content for name, content in copy.files.items()}).apply()
    copy.problems.extend(f"not used: {path}: {reason}" for path, reason in collection.problems)
    return copy


def _refuse_damaged(
    collection: Collection, runs_dir: Path, folders: set[str], certificates: bool
) -> None:
    """Raise UserError where a run has a damaged file that is to be published."""
    chosen = {shown(runs_dir / folder) for folder in folders}
    for folder in sorted(collection.looks.keys() & folders) if not certificates else ():
        collection.looks[folder](collection.problems)
    for path, reason in collection.problems:
        copied = path.parent.name == CERTIFICATES or not certificates
        if copied and not chosen.isdisjoint(path.parents):
            raise UserError(
                f"a run cannot be published: {path}: {reason}\n"
                "mend or remove that file, or choose other cells with task= and model="
            )


def _refuse(records: Path, competing: Iterable[str]) -> None:
    for rival in competing:
        raise UserError(
            f"{records / rival} has another configuration of the same cell\n"
            "a page has one of them: remove that folder, or leave these runs out"
        )


ENVIRONMENT = "environment.json"
OF_CELL = ("config.json", ENVIRONMENT)
OF_RUN = ("result.json", "failure.json", "metrics.jsonl")
ENDED = "result.json"
SCORE = ("which", "kind", "split", "length", "metric", "value", "n")  # of an evaluation
PROVED = "certified"  # the verdict
NUMBERS = re.compile(r"\[[\s\d,]+\]")
SAME, OTHER = "same scores", "other scores"  # of a run that was trained again
Place = tuple[str, ...]  # task, model, protocol, fingerprint, s<seed>: a run below records/
Chosen = tuple[TableCell, dict[Place, str]]  # a cell, and where its runs lie


@dataclass(frozen=True)
class Copy:
    """What is to be written below records/, what is to go, and what was new or there already.

    `replaced` are results that go before what replaces them is written; `kept` are runs that have
    ended there and not here; `unsearched` are runs of which no certificate could be copied, and
    `problems` say which files among the runs could not be used.
    """

    files: Files = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    unsearched: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def chosen_runs(
    collection: Collection, spec: TableSpec, choose: Sequence[str] = ()
) -> list[Chosen]:
    """Return each cell's runs, those under way too, with their folder below that of the runs.

    Raises UserError where configurations compete for a cell and `choose` does not say which.
    """
    refuse_fingerprints(spec, choose)
    if spec.kind == SUITE:
        return [(spec.cells[0], _suite_runs(collection, spec))]
    found = []
    for cell, filled in zip(spec.cells, select(collection, spec, choose), strict=True):
        if filled.contested:
            raise UserError(
                f"{len(filled.rivals)} configurations compete for {filled.task} x {filled.label}: "
                f"{', '.join(filled.rivals)[:200]}\n"
                f"a page has one of them: --fingerprint {filled.rivals[0]}"
            )
        folders = {_place(run): str(run.folder) for run in filled.runs.itertuples()}
        for run in filled.under_way:
            folders.setdefault(_place(run), run.folder)
        found.append((cell, folders))
    return found


def _suite_runs(collection: Collection, spec: TableSpec) -> dict[Place, str]:
    """Every entry's runs, of any model and either division, and those of their searches.

    Where only some of the suite's cells are wanted, those of their tasks and models.
    """
    suite = suite_of(collection, spec, read_lock(spec.name), spec.rule)
    rows = collection.runs[collection.runs["folder"].isin(folders_of(suite))]
    if spec.cells != load_table(spec.name).cells:
        wanted = {(cell.task, cell.model) for cell in spec.cells}
        places = zip(rows["task"], rows["model"], strict=True)
        rows = rows[pd.Series([place in wanted for place in places], rows.index, dtype=bool)]
    return {_place(run): str(run.folder) for run in rows.itertuples()}


def planned_copy(
    runs_dir: Path, chosen: Iterable[Chosen], records: Path, force: bool = False
) -> Copy:
    """Return what copying the chosen runs would do; nothing is written.

    A run without a result goes on: what was published of it is replaced. Certificates are replaced
    by newer ones. A run that has not ended replaces none that has. Raises UserError for a run that
    ended and is there with other content, unless `force`.
    """
    copy = Copy()
    runs = {place: folder for _, folders in chosen for place, folder in folders.items()}
    for place, folder in sorted(runs.items()):
        below = "/".join(place)
        own = _read(runs_dir / folder, OF_RUN)
        own |= _evaluations(runs_dir / folder) | _own_certificates(runs_dir / folder)
        if ENDED in own:
            own.pop("failure.json", None)  # of an earlier try
        there = _there(records / below)
        _keep_later(own, there)
        if ENDED in there and ENDED not in own:
            copy.kept.append(below)
            continue
        changed = {name for name in own if own[name] != there.get(name)}
        clash = sorted(name for name in changed if name in there and not _is_certificate(name))
        if clash and ENDED in there and not force:
            raise UserError(
                f"{records / below} is there already, with another {clash[0]}\n"
                f"the run in {runs_dir / folder} has the same configuration and seed\n"
                "--force replaces what is there"
            )
        (copy.added if changed else copy.same).append(below)
        _add_cell(copy, runs_dir / folder, records, place, bool(changed))
        copy.files.update({f"{below}/{name}": own[name] for name in sorted(changed)})
        if clash and ENDED in changed & set(there):
            copy.replaced.append(f"{below}/{ENDED}")
        if clash or (changed and ENDED not in there):
            copy.stale.extend(f"{below}/{name}" for name in sorted(set(there) - set(own)))
        else:
            copy.stale.extend(f"{below}/{name}" for name in _idle_boxes(there, own))
    return copy


def planned_certificates(runs_dir: Path, chosen: Iterable[Chosen], records: Path) -> Copy:
    """Return what copying nothing but certificates of published runs would do.

    A run that was trained again is not the published one: its certificates say so, and whether its
    scores are the same. They replace none of the published run's own weights. Raises UserError
    where none of the runs is published and has one.
    """
    copy = Copy()
    runs = {place: folder for _, folders in chosen for place, folder in folders.items()}
    for place, folder in sorted(runs.items()):
        below = "/".join(place)
        published, own = (_result(path) for path in (records / below, runs_dir / folder))
        if published is None:
            copy.problems.append(f"not published, so no certificate either: {runs_dir / folder}")
            continue
        if own is None:
            copy.kept.append(below)
            continue
        scores = SAME if _scores(own) == _scores(published) else OTHER
        again = "" if own == published else scores
        there, mine = _there(records / below), _own_certificates(runs_dir / folder)
        if not mine:
            copy.unsearched.append(str(runs_dir / folder))
            continue
        if again:
            mine = {name: mine[name] for name in mine if not _is_of_own_weights(name, there)}
        _keep_later(mine, there)
        files = {}
        for name, content in mine.items():
            if again and name.endswith(".json"):
                content = _compact(json.loads(content) | {AGAIN: again})
            if there.get(name) != content:
                files[f"{below}/{name}"] = content
        copy.stale.extend(f"{below}/{name}" for name in _idle_boxes(there, mine))
        (copy.added if files else copy.same).append(below)
        copy.files.update(files)
    if not copy.added and not copy.same and not copy.unsearched:
        raise UserError(
            f"none of the runs in '{runs_dir}' is published in {records}, with its result\n"
            f"publish the runs themselves: leave out --certificates"
        )
    return copy


def _idle_boxes(there: Files, own: Files) -> list[str]:
    """The published boxes of proofs whose certificate is replaced by one that is no proof."""
    boxes = [name for name in there if name.endswith(".npz") and name not in own]
    return [name for name in boxes if Path(name).with_suffix(".json").as_posix() in own]


def _keep_later(own: Files, there: Files) -> None:
    """Put published certificates in the place of a run's older ones of the same weights.

    A copy of the run may have been searched for longer elsewhere.
    """
    for name in [name for name in own if _is_certificate(name) and name.endswith(".json")]:
        mine, published = json.loads(own[name]), json.loads(there.get(name, b"{}"))
        if AGAIN in published or mine.get("weights_sha256") != published.get("weights_sha256"):
            continue
        dates = [str(one.get("date", "")) for one in (mine, published)]
        if "" not in dates and dates[0] < dates[1]:
            boxes = Path(name).with_suffix(".npz").as_posix()
            own.pop(boxes, None)
            own.update({one: there[one] for one in (name, boxes) if one in there})


def _is_of_own_weights(name: str, there: Files) -> bool:
    """Tell whether the published certificate of a name is of the published run's own weights."""
    json_name = Path(name).with_suffix(".json").as_posix()
    return json_name in there and AGAIN not in json.loads(there[json_name])


def _compact(certificate: Mapping[str, Any]) -> bytes:
    """Return it as json with lists of numbers in a line: a string has a thousand symbols."""
    text = json.dumps(certificate, indent=1)
    return NUMBERS.sub(lambda found: re.sub(r"\s+", "", found[0]), text).encode() + b"\n"


def _result(folder: Path) -> Any:
    """The content of a run's result.json as it may be published, None where there is none."""
    path = folder / ENDED
    return _object(path) if path.is_file() else None


def _object(path: Path) -> dict[str, Any]:
    """The object in a file as it may be published; UserError where it holds none."""
    found: dict[str, Any] = json.loads(public(path))
    return found


def _scores(result: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    rows = result.get("evaluations") or []
    return [tuple(row.get(key) for key in SCORE) for row in rows]


def rivals(published: Collection, spec: TableSpec, chosen: Iterable[Chosen]) -> Iterator[str]:
    """Yield the folders of published runs that would compete for a cell with the chosen ones."""
    if spec.kind == SUITE:  # a row has a rate of its own on each task, and those that were tried
        return
    for cell, folders in chosen:
        new = {place[:4] for place in folders}
        there = (_place(run)[:4] for run in matching_runs(published, spec, cell).itertuples())
        yield from sorted({"/".join(place) for place in there if new and place not in new})


def _add_cell(copy: Copy, folder: Path, records: Path, place: Place, changed: bool) -> None:
    """The files beside the seeds; the environment is that of the last run that was added."""
    for name, content in _read(folder.parent, OF_CELL).items():
        path = "/".join((*place[:4], name))
        if not (records / path).exists() or (changed and name == ENVIRONMENT):
            copy.files[path] = content


def _place(run: object) -> Place:
    names = (str(getattr(run, key)) for key in ("task", "model", "protocol", "fingerprint"))
    return (*names, f"s{getattr(run, 'seed')}")  # noqa: B009 - the row of a frame has any fields


def _read(folder: Path, names: Iterable[str]) -> Files:
    return {name: public(folder / name) for name in names if (folder / name).is_file()}


def _evaluations(folder: Path) -> Files:
    return {name: public(folder / name) for name in evaluation_files(folder)}


def _own_certificates(folder: Path) -> Files:
    """The certificates of a run that is to be published. UserError for a proof that is none."""
    files = _certificates(folder)
    for name in files:
        if name.endswith(".json") and json.loads(files[name]).get("verdict") == PROVED:
            try:
                check.check(folder / name)
            except check.Refused as why:
                raise UserError(
                    f"a run cannot be published: the proof {folder / name} is refused: {why}\n"
                    f"lrbench certify {folder} --which {Path(name).stem} seeks it again;"
                    " or remove that file"
                ) from why
    return files


def _certificates(folder: Path) -> Files:
    """The certificates of a run, and the boxes of those that are proofs: without them none is.

    The boxes come first, so that a kill leaves no proof without them.
    """
    files: Files = {}
    try:
        for name in certificate_names(folder):
            certificate = _object(folder / name)
            boxes = Path(name).with_suffix(".npz").as_posix()
            if certificate.get("verdict") == PROVED and (folder / boxes).is_file():
                files[boxes] = (folder / boxes).read_bytes()
            files[name] = _compact(certificate)
    except OSError as error:
        raise UserError(f"the certificates in {folder} cannot be read: {error.strerror}") from error
    return files


def _is_certificate(name: str) -> bool:
    return name.startswith(f"{CERTIFICATES}/")


def _there(folder: Path) -> Files:
    """What is published of a run, as it is."""
    paths = [folder / name for name in OF_RUN if (folder / name).is_file()]
    paths += [folder / name for name in evaluation_files(folder)]
    paths += [folder / name for name in _certificates(folder)]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


ABSOLUTE = re.compile(r"(?<![\w.])~?/[\w.-]+/")
OUTPUT_DIR = "outputs"  # its default; where a run once lay says nothing about it
NOT_PUBLISHED = ("traceback",)  # holds the folders of an installation


def public(path: Path) -> bytes:
    """Return the content of a json or jsonl file as it may be published.

    A file that tells of no folder stays as it is, byte for byte. Raises UserError where it cannot
    be read, and where a json file holds no object.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".jsonl":
            lines = content.decode().splitlines(keepends=True)
            return "".join(_line(line) for line in lines).encode()
        data = json.loads(content)
        if not isinstance(data, dict):
            raise UserError(f"{path} cannot be published: holds a JSON {type(data).__name__}")
        cleaned = _cleaned(data)
        return content if cleaned == data else json.dumps(cleaned, indent=2).encode() + b"\n"
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"is damaged: {error}"
        raise UserError(f"{path} cannot be published: {reason}") from error


def _line(line: str) -> str:
    """A torn last line, of a run that was killed, is left out."""
    if not line.endswith("\n"):
        return ""
    if not ABSOLUTE.search(line):
        return line
    return json.dumps(_cleaned(json.loads(line))) + "\n"


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _cleaned(item) for key, item in value.items() if key not in NOT_PUBLISHED}
        return kept | ({"output_dir": OUTPUT_DIR} if "output_dir" in value else {})
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, str) and ABSOLUTE.search(value):
        return FOLDERS.sub("", value)
    return value
