"""The tables of `lrbench report`: a row a cell, from the tidy frames.

One a protocol; of cells that were scored at every position, a second one of that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lrbench.metrics import ACCURACY, METRICS, metric_among
from lrbench.protocols.base import Protocol, declared
from lrbench.records import POSITIONS
from lrbench.report.grids.selection import marked_model, settings_of
from lrbench.report.grids.splits import (
    TRAIN_SPLIT,
    baseline_notes,
    baseline_rows,
    cut_short,
    paper_notes,
    split_column,
    splits_there,
)
from lrbench.report.output.cells import MISSING, Column, PrintedCell, Table, span, spread
from lrbench.report.paper.recipe import faithful, faithful_on
from lrbench.report.paper.reference import (
    Reference,
    Split,
    ablation,
    lookup,
    lookup_on,
    reference_dir,
)
from lrbench.report.runs.collection import Collection, groups
from lrbench.report.runs.columns import CELL, RUN_COLUMNS, Columns
from lrbench.report.tables.horizons import (
    certified_cells,
    certified_columns,
    certified_legend,
    of_rule,
)
from lrbench.report.tables.notes import (
    competition,
    differences,
    statuses,
    table_notes,
    unsuccessful,
    without_number,
)
from lrbench.statistics import expected_maximum, mean, sample_std

CELL_HEAD = tuple(Column(name, right=False) for name in ("task", "model", "configuration"))
HEAD = (
    *CELL_HEAD,
    Column("runs", right=False),
    Column("updates"),
    Column("parameters"),
    Column("state"),
    Column("lengths"),
)
RULE_ADDS = ("rule adds",)  # of a protocol whose rule, or best run, can flatter an unsteady model
GUESSING_AND_PAPER = ("guessing", "paper")  # of a protocol that is a paper's

POSITIONS_RULE = "last"
POSITIONS_NOTE = (
    "every position of fresh strings, the last checkpoint, mean ± sample std (n) over n runs;"
    " token: the share of positions that are right; sequence: of strings that are right at all of"
    " them; prefix t: of strings that are right at all up to position t"
)
EXACT_NOTE = (
    "strings that are right at every scored position, the last checkpoint, mean ± sample std (n)"
    " over n runs; accuracies above are the share of scored positions"
)


def _columns(protocol: Protocol) -> tuple[Column, ...]:
    """The columns of a protocol that tests at lengths: by the rules that it declares.

    Guessing and the paper's number are of the rule of a paper's, where the protocol is one's.
    """
    titles = [f"train: {protocol.usual_rule}", *(f"test: {rule}" for rule in protocol.rules)]
    titles += [f"{protocol.usual_rule} look", *RULE_ADDS * _adds(protocol), "chance"]
    return (*HEAD, *map(Column, titles), *map(Column, GUESSING_AND_PAPER * bool(protocol.paper)))


def _adds(protocol: Protocol) -> bool:
    """Whether the paper takes the best of several runs, or of looks by a protocol that says so."""
    return protocol.unlike_paper({}, 1) is not None


def rule_adds(
    protocol: Protocol, looked: list[float], last: list[float]
) -> tuple[PrintedCell, ...]:
    """Return what the rule adds to runs that are as unsteady as these: nothing for other protocols.

    Of a best look, how far its mean is above that of the last checkpoints; of the best of a paper's
    runs, what their number of normal numbers with this standard deviation is above their mean.
    """
    if not _adds(protocol):
        return ()
    best = protocol.usual_rule == "best" and looked and last
    added = mean(looked) - mean(last) if best else 0.0
    if protocol.paper_runs > 1 and len(last) > 1:
        added += expected_maximum(protocol.paper_runs) * sample_std(last)
    known = best or (protocol.paper_runs > 1 and len(last) > 1)
    return (PrintedCell(f"{added:+.3f}", (added,)) if known else PrintedCell(),)


class EvaluationCell(NamedTuple):
    """One evaluation of a run, plain: a filter of a frame costs a thousand times as much."""

    folder: str
    length: Any
    split: str
    metric: str
    value: Any
    which: str
    kind: str
    chance: Any
    guessing: Any


SCORE = list(EvaluationCell._fields)  # the columns of a frame that tables read


def report_tables(collection: Collection, references: Path | None = None) -> list[Table]:
    """Return one table for each protocol: rows are cells, which never mix fingerprints.

    Runs over a corpus have one for each task and training split.
    """
    tables: list[Table] = []
    # Without the settings, which `collection.settings` has: a slice of a column takes as long as
    # the rest of a row.
    for protocol, runs in collection.runs[[*RUN_COLUMNS]].groupby("protocol", sort=True):
        if declared(str(protocol)).by_split:
            tables += split_report_tables(collection, str(protocol), references)
            continue
        declaration = declared(str(protocol))
        frame = collection.scores_of(str(protocol), [*SCORE, "n"])
        scores = _scores(frame)
        of_papers = references or reference_dir()
        rule = _searched_rule(runs, collection, declaration)
        rows = []
        for rivals in groups(runs, ["task", "model"]):
            keys = differences(rivals, collection)
            for cell in groups(rivals, CELL):
                evaluations = [score for f in cell["folder"] for score in scores.get(f, [])]
                paper = _paper(cell, collection, of_papers)
                head = PrintedCell(_configuration(cell, keys, collection))
                answers = of_rule(collection.answers, cell["folder"], rule)
                known = certified_cells(answers) if rule else ()
                made = _rows(cell, evaluations, head, paper, declaration)
                rows += [(*row, *known) for row in made]
        columns = _columns(declaration)
        columns += certified_columns(rule) if rule else ()
        legend = certified_legend(of_rule(collection.answers, runs["folder"], rule))
        notes = [*table_notes(runs, frame, collection, declaration), *legend]
        tables.append(Table(str(protocol), columns, tuple(rows), tuple(notes)))
        tables += positions_table(str(protocol), runs, frame)
    return tables


def _searched_rule(runs: pd.DataFrame, collection: Collection, protocol: Protocol) -> str:
    """The rule whose checkpoints something is known of on all strings; empty where nothing is.

    Of several, `last`, which chose nothing, else the protocol's first.
    """
    rules = {rule for folder in runs["folder"] for rule in collection.answers.get(folder, {})}
    return next((rule for rule in ("last", *protocol.rules) if rule in rules), "")


def _scores(frame: pd.DataFrame) -> dict[str, list[EvaluationCell]]:
    """Each run's evaluations at the two lengths; the rows of a run stand together."""
    wanted = frame["length"].notna() & frame["split"].isin(["train_length", "test"])
    known = frame.loc[wanted, SCORE]
    rows = map(
        EvaluationCell._make,
        zip(*(known[name].tolist() for name in EvaluationCell._fields), strict=True),
    )
    return {folder: list(scores) for folder, scores in groupby(rows, lambda row: row.folder)}


def _configuration(cell: Columns, keys: list[str], collection: Collection) -> str:
    """The fingerprint and, where another competes for the cell, what is different about it."""
    settings = settings_of(cell, collection)
    values = [f"{key}={settings.get(key)}" for key in keys if settings]
    return " ".join([str(cell["fingerprint"][0]), *values])


def _rows(
    runs: Columns,
    scores: list[EvaluationCell],
    configuration: PrintedCell,
    paper: Reference | None,
    protocol: Protocol,
) -> list[tuple[PrintedCell, ...]]:
    """One row for each test length (most protocols have one), of looks where nothing was tested."""
    head = (
        PrintedCell(_title(runs) + _scored_by(scores)),
        PrintedCell(marked_model(str(runs["model"][0]))),
        configuration,
        PrintedCell(statuses(runs)),
        *(span(_whole(runs, name)) for name in ("steps", "parameters", "state_size")),
    )
    trained = [score for score in scores if score.split == "train_length"]
    tested = [score for score in scores if score.split == "test"]
    tests = [score for score in tested if score.kind == "test"]
    rows = []
    for length in sorted({score.length for score in tests or tested}) or [0]:
        there = [score for score in tested if score.length == length]
        rows.append((*head, *_accuracy_cells(runs, trained, there, paper, protocol)))
    return rows


def _accuracy_cells(
    runs: Columns,
    trained: list[EvaluationCell],
    tested: list[EvaluationCell],
    paper: Reference | None,
    protocol: Protocol,
) -> tuple[PrintedCell, ...]:
    lengths = [span([score.length for score in scores]).text for scores in (trained, tested)]
    missing, usual = without_number(runs), protocol.usual_rule
    by_rule = [score for score in tested if score.which == usual]
    of_paper = (
        _level(by_rule, lambda score: score.guessing),
        PrintedCell(paper.at(tested[0].length) if paper and tested else MISSING),
    )
    return (
        PrintedCell(" → ".join(lengths) if set(lengths) != {MISSING} else MISSING),
        spread(_accuracies(trained, usual, "test"), missing=missing),
        *(spread(_accuracies(tested, rule, "test"), missing=missing) for rule in protocol.rules),
        spread(_accuracies(tested, usual, "look"), missing=missing),
        *rule_adds(
            protocol, _accuracies(tested, usual, "look"), _accuracies(tested, "last", "test")
        ),
        _level(tested, lambda score: score.chance),
        *(of_paper if protocol.paper else ()),
    )


def _accuracies(scores: list[EvaluationCell], rule: str, kind: str) -> list[float]:
    chosen = [score for score in scores if (score.which, score.kind) == (rule, kind)]
    known = [score for score in chosen if score.metric in METRICS]
    return [float(score.value) for score in known if not isnan(score.value)]


def _scored_by(scores: list[EvaluationCell]) -> str:
    """What the numbers of a row are, where they are no accuracies."""
    metric = metric_among(score.metric for score in scores)
    return "" if metric == ACCURACY else f", {metric.title}"


def _level(scores: list[EvaluationCell], read: Callable[[EvaluationCell], Any]) -> PrintedCell:
    """A level measured once a run: its mean over runs (the spread of chance says nothing)."""
    known = {score.folder: read(score) for score in reversed(scores) if not isnan(read(score))}
    values = tuple(float(known[folder]) for folder in sorted(known))
    return PrintedCell(f"{mean(values):.3f}", values) if values else PrintedCell()


def _whole(runs: Columns, name: str) -> list[int]:
    return [int(value) for value in runs[name] if pd.notna(value)]


def _title(runs: Columns) -> str:
    titles = (title for title in runs["task_title"] if pd.notna(title))
    return str(next(titles, runs["task"][0]))


def _paper(runs: Columns, collection: Collection, references: Path) -> Reference | None:
    task, model, protocol = (runs[name][0] for name in ("task", "model", "protocol"))
    settings = settings_of(runs, collection)
    modulus = settings.get("task.modulus")
    if not faithful(str(task), settings, references):
        return None
    reach = settings.get("model.mixer.range")
    return lookup(task, modulus, model, protocol, references, reach=reach)


SPLIT_HEAD = ("model", "configuration", "runs", "updates", "parameters", "number", "dev")
BLANK = (PrintedCell(""),) * (SPLIT_HEAD.index("number") - 1)
RIGHT = ("updates", "parameters", "dev")
SplitScores = dict[tuple[str, str, str, str], float]  # folder, rule, kind, split


def split_report_tables(
    collection: Collection, protocol: str, references: Path | None = None
) -> list[Table]:
    """Return a table for each task and training split of a protocol over corpora."""
    collection = replace(collection, under_way=[])  # what has not ended has no row
    runs = collection.runs[collection.runs["protocol"] == protocol]
    scores = _split_scores(collection.scores_of(protocol, SCORE))
    # A run that failed before it told its settings stands with those on the usual split.
    sources = runs["folder"].map(
        lambda folder: str(collection.settings[folder].get(TRAIN_SPLIT, "train"))
    )
    return [
        _split_table(collection, there, Split(task, "", source), protocol, scores, references)
        for task, source in sorted(
            set(zip(runs["task"], sources, strict=True)),
            key=lambda place: (place[0], place[1] != "train", place[1]),
        )
        for there in [runs[(runs["task"] == task) & (sources == source)]]
    ]


def _split_table(
    collection: Collection,
    runs: pd.DataFrame,
    place: Split,
    protocol: str,
    scores: SplitScores,
    references: Path | None,
) -> Table:
    splits = tuple(
        split
        for split in splits_there(collection)
        if (split.task, split.trained_on) == (place.task, place.trained_on)
    )
    folders = [str(folder) for folder in runs["folder"]]
    columns = [split_column(split, collection, folders, "", references) for split in splits]
    rows: list[tuple[PrintedCell, ...]] = []
    for rivals in groups(runs[[*RUN_COLUMNS]], ["model"]):
        model = rivals["model"][0]
        keys = differences(rivals, collection)
        theirs = {}
        for cell in groups(rivals, CELL):
            rows += _split_rows(collection, cell, keys, splits, scores)
            settings = settings_of(cell, collection)
            theirs[ablation(str(model), settings)] = settings
        for row, settings in theirs.items():
            rows += _paper_row(str(model), row, splits, settings, references)
    rows += [
        (first, *BLANK, name, PrintedCell(""), *rest)
        for first, name, *rest in baseline_rows(columns)
    ]
    numbers = _printed_numbers(runs, splits, references)
    title = f"{protocol}: {place.task}"
    title += "" if place.trained_on == "train" else f", trained on {place.trained_on}"
    notes = [
        "dev, splits: accuracy on all their strings, mean ± sample std (n) over n runs; "
        + "; ".join(f"{rule} = {legend}" for rule, legend in declared(protocol).rules.items()),
        *paper_notes(numbers, marks=False),
        *baseline_notes(columns),
        *cut_short(runs),
        *competition(runs, collection),
        *unsuccessful(runs),
    ]
    return Table(title, _split_columns(splits), tuple(rows), tuple(notes))


def _split_rows(
    collection: Collection,
    cell: Columns,
    keys: list[str],
    splits: tuple[Split, ...],
    scores: SplitScores,
) -> list[tuple[PrintedCell, ...]]:
    """A row for each rule."""
    settings = settings_of(cell, collection)
    model = str(cell["model"][0])
    apart = [f"{key}={settings.get(key)}" for key in keys if settings]
    head = (
        PrintedCell(model),
        PrintedCell(" ".join([str(cell["fingerprint"][0]), *apart])),
        PrintedCell(statuses(cell)),
        *(span(_whole(cell, name)) for name in ("steps", "parameters")),
    )
    dev = str(settings.get("protocol.dev_split", "dev"))
    folders, missing = [str(folder) for folder in cell["folder"]], without_number(cell)
    rows = []
    for first, rule in enumerate(declared(str(cell["protocol"][0])).rules):
        scored_on = [("look", dev), *(("test", split.name) for split in splits)]
        found = [
            [scores[key] for f in folders if (key := (f, rule, kind, name)) in scores]
            for kind, name in scored_on
        ]
        if not first or any(found):
            rows.append(
                (*head, PrintedCell(rule), *(spread(each, missing=missing) for each in found))
            )
    return rows


def _paper_row(
    model: str,
    row: str | None,
    splits: tuple[Split, ...],
    settings: Mapping[str, Any],
    references: Path | None,
) -> list[tuple[PrintedCell, ...]]:
    """The paper's numbers where it has such a model; `row` is its name there if it lacks a part."""
    theirs = [
        lookup_on(split, model, row=row, folder=references)
        if faithful_on(split, settings)
        else None
        for split in splits
    ]
    names = [each.model for each in theirs if each]
    if not names:
        return []
    printed = [PrintedCell(each.shown if each else MISSING) for each in theirs]
    return [
        (PrintedCell(model), *BLANK, PrintedCell(f"paper: {names[0]}"), PrintedCell(""), *printed)
    ]


def _printed_numbers(
    runs: pd.DataFrame, splits: tuple[Split, ...], references: Path | None
) -> list[Reference]:
    """What the paper prints for these models."""
    models = sorted(set(runs["model"]))
    found = (lookup_on(split, model, folder=references) for model in models for split in splits)
    return [number for number in found if number]


def _split_scores(frame: pd.DataFrame) -> SplitScores:
    rows = frame[(frame["metric"] == "accuracy") & frame["value"].notna()]
    names = ("folder", "which", "kind", "split", "value")
    columns = zip(*(rows[name].tolist() for name in names), strict=True)
    return {(folder, rule, kind, split): float(v) for folder, rule, kind, split, v in columns}


def _split_columns(splits: tuple[Split, ...]) -> tuple[Column, ...]:
    head = (Column(title, right=title in RIGHT) for title in SPLIT_HEAD)
    return (*head, *(Column(split.name) for split in splits))


def positions_table(protocol: str, runs: pd.DataFrame, frame: pd.DataFrame) -> list[Table]:
    """Return tables of the cells that were scored at every position, none where none was."""
    known = frame[
        (frame["split"] == POSITIONS) & (frame["which"] == POSITIONS_RULE) & frame["value"].notna()
    ]
    whole = known["metric"] == "exact"
    tables = []
    if not known[~whole].empty:
        tables.append(_prefixes(f"{protocol}: every position", runs, known[~whole]))
    if not known[whole].empty:
        tables.append(_exact(f"{protocol}: several answers", runs, known[whole]))
    return tables


def _prefixes(title: str, runs: pd.DataFrame, known: pd.DataFrame) -> Table:
    """Tokens, sequences and prefixes, of tasks that ask at every position."""
    prefixes = known[known["metric"] == "prefix"]
    curve = sorted({int(length) for length in prefixes["length"]})
    rows = []
    for names, values in _scored_cells(runs, known):
        end = max(length for metric, length in values if metric == "prefix")
        strings = [length for metric, length in values if metric == "token" and length <= end]
        longest = max(strings, default=end)  # a start symbol was once counted in prefixes
        whole = [spread(values[metric, longest]) for metric in ("token", "sequence")]
        steps = [spread(values["prefix", length]) for length in curve]
        rows.append((*names, PrintedCell(f"{longest:,}"), *whole, *steps))
    titles = ["length", "token", "sequence", *(f"prefix {length:,}" for length in curve)]
    return Table(title, (*CELL_HEAD, *map(Column, titles)), tuple(rows), (POSITIONS_NOTE,))


def _exact(title: str, runs: pd.DataFrame, known: pd.DataFrame) -> Table:
    """Strings right at every scored position, of tasks with several answers, by length."""
    lengths = sorted({int(length) for length in known["length"]})
    rows = [
        (*names, *(spread(values["exact", length]) for length in lengths))
        for names, values in _scored_cells(runs, known)
    ]
    titles = (Column(f"exact {length:,}") for length in lengths)
    return Table(title, (*CELL_HEAD, *titles), tuple(rows), (EXACT_NOTE,))


def _scored_cells(
    runs: pd.DataFrame, known: pd.DataFrame
) -> Iterator[tuple[tuple[PrintedCell, ...], defaultdict[tuple[str, int], list[float]]]]:
    """Yield what names each cell that has scores among `known`, and these by metric and length."""
    scores = defaultdict(list)
    columns = (known[name].tolist() for name in ("folder", "metric", "length", "value"))
    for folder, metric, length, value in zip(*columns, strict=True):
        scores[folder].append(((metric, int(length)), float(value)))
    columns_shown = [*CELL, "task_title", "folder"]
    for cell in groups(runs.loc[runs["folder"].isin(scores), columns_shown], CELL):
        names = [str(cell[name][0]) for name in ("task_title", "model", "fingerprint")]
        values = defaultdict(list)
        for folder in cell["folder"]:
            for what, value in scores[folder]:
                values[what].append(value)
        yield tuple(map(PrintedCell, names)), values
