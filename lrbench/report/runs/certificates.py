"""Answers of `lrbench certify` on a run's checkpoints: reading its files, and a csv of them.

certificates/<rule>.json of a run folder is read without trust, as every file there is. A published
table has all of them in certificates.csv, a row for each checkpoint and rule.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lrbench.report.runs.columns import BY_CLOCK, Answer, Answers, Problems
from lrbench.report.runs.files import content, read_object, shown
from lrbench.report.runs.schema import is_integer

FOLDER = "certificates"
TABLE = "certificates.csv"  # of a published table
FORMAT = "lrbench-certificate"
VERDICTS = ("certified", "wrong", "open")
AGAIN = "trained_again"  # in a published file: of weights made anew by the same configuration
MOST_SYMBOLS = 1_000_000
EXTENT = ("complete_asked", "families_asked", "beam", "longest")
UNTOLD = (100_000, 20_000)  # the first two of a training's search, before files had them
EXTENTS = re.compile(rf"|{BY_CLOCK}|\d{{1,12}}(/\d{{1,12}}){{3}}")


def certificate_names(folder: Path) -> list[str]:
    """Return the certificates of a run as paths below its folder; OSError where it cannot be read.

    Their arrays (.npz) are none of them, nor are hidden files, which are being written.
    """
    if not os.path.lexists(folder / FOLDER):  # a link that leads nowhere is a fault
        return []
    names = sorted(os.listdir(folder / FOLDER))
    return [f"{FOLDER}/{n}" for n in names if n.endswith(".json") and not n.startswith(".")]


def read_answers(
    folder: Path, steps: Mapping[str, int | None], problems: Problems
) -> dict[str, Answer]:
    """Return what is known of the checkpoints of a run that ended, by rule.

    `steps` are the updates of the checkpoints that its rules kept. An answer on another update is
    left out; rules that kept one checkpoint share its answer, and so do rules of the same weights.
    One of a run that was trained again stands for its own rule, and for others of its weights.
    Damaged files are in `problems`.
    """
    try:
        names = certificate_names(folder)
    except OSError as error:
        problems.append((shown(folder / FOLDER), f"cannot be listed: {error.strerror}"))
        return {}
    own: dict[str, Answer] = {}
    for name in names:
        data = read_object(folder / name, problems, complaint)
        if data is not None:
            answer = _answer(data)
            if Path(name).stem != answer.which:
                problems.append((shown(folder / name), f"is of the rule {answer.which[:40]}"))
                continue
            if steps.get(answer.which) == answer.step or answer.again:
                own[answer.which] = answer
    by_step = {answer.step: answer for answer in own.values() if not answer.again}
    shared = {rule: by_step[step] for rule, step in steps.items() if step in by_step}
    return _of_weights({rule: one._replace(which=rule) for rule, one in shared.items()} | own)


def _of_weights(answers: dict[str, Answer]) -> dict[str, Answer]:
    """Give answers on the same weights the same verdict: the one that says most.

    That is the shortest wrong string, else a proof. How far each rule's own search went stays.
    """
    found = {}
    for rule, one in answers.items():
        same = [other for other in answers.values() if one.weights and other.weights == one.weights]
        most = min(same, key=_says_most, default=one)
        found[rule] = one._replace(
            verdict=most.verdict, length=most.length, shortest=most.shortest, string=most.string
        )
    return found


def _says_most(answer: Answer) -> tuple[int, int, bool]:
    """Return a key that is least for the shortest wrong string, then for a proof."""
    kind = ("wrong", "certified", "open").index(answer.verdict)
    return kind, answer.length or 0, not answer.shortest


def complaint(data: Any) -> str | None:
    """Return what is wrong with the content of a certificate, None where a report can use it."""
    if not isinstance(data, dict):
        return "holds no object"
    if data.get("format") != FORMAT or data.get("verdict") not in VERDICTS:
        return f"is no certificate: its format or verdict is none of {FORMAT}'s"
    if not (isinstance(data.get("which"), str) and is_integer(data.get("step"))):
        return "does not tell which checkpoint it is of"
    if not isinstance(data.get("searched"), dict):
        return "does not tell how far was searched"
    if not is_integer(data["searched"].get("complete_to")):
        return "'searched.complete_to' is no whole number"
    witness = data.get("witness")
    if data["verdict"] != "wrong":
        return None if witness is None else "has a witness, and is not wrong"
    if not isinstance(witness, dict):
        return "is wrong, and has no witness"
    length: Any = witness.get("length")
    if not (is_integer(length) and 0 < length <= MOST_SYMBOLS):
        return "'witness.length' is no length"
    if not (isinstance(witness.get("string"), str) and isinstance(witness.get("shortest"), bool)):
        return "'witness' lacks its string, or whether it is the shortest"
    return None


def _answer(data: Mapping[str, Any]) -> Answer:
    witness, again = data.get("witness") or {}, data.get(AGAIN)
    return Answer(
        data["which"],
        data["step"],
        data["verdict"],
        witness.get("length"),
        witness.get("shortest", False),
        witness.get("string", ""),
        data["searched"]["complete_to"],
        str(data.get("weights_sha256", "")),
        again if isinstance(again, str) else "",
        _extent(data["searched"]),
    )


def _extent(searched: Mapping[str, Any]) -> str:
    """Return how far a search went; nothing of one that does not tell it, or was cut off."""
    asked: list[Any] = [searched.get(name) for name in EXTENT]
    cut_off = searched.get("out_of_time") != []
    if "complete_asked" not in searched and searched.get("seconds_allowed") is not None:
        asked[:2] = UNTOLD
        if cut_off:
            return BY_CLOCK
    known = all(is_integer(count) and 0 <= count < 10**12 for count in asked)
    return "/".join(map(str, asked)) if known and not cut_off else ""


def answers_csv(answers: Mapping[str, Answers]) -> bytes:
    """Return certificates.csv of the answers of runs, {folder: answers}."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("folder", *Answer._fields))
    for folder in sorted(answers):
        for _, answer in sorted(answers[folder].items()):
            writer.writerow((folder, *("" if value is None else value for value in answer)))
    return stream.getvalue().encode()


def parsed_answers(path: Path) -> dict[str, Answers]:
    """Return {folder: answers} of a certificates.csv. Raises ValueError for what is none."""
    found: dict[str, Answers] = {}
    for folder, answer in _parsed(csv.reader(io.StringIO(content(path).decode()))):
        found.setdefault(folder, {})[answer.which] = answer
    return found


def _parsed(rows: Iterable[list[str]]) -> Iterator[tuple[str, Answer]]:
    header, *lines = list(rows) or [[]]
    known = ["folder", *Answer._fields]
    if header not in (known, known[:-1]):  # without the extent: of an earlier version
        raise ValueError("other columns than a certificates.csv has")
    for line in lines:
        if len(line) != len(header):
            raise ValueError(f"a row of {len(line)} columns, not {len(header)}")
        folder, which, step, verdict, length, shortest, string, complete, weights, again = line[:10]
        extent = "".join(line[10:])
        if not EXTENTS.fullmatch(extent):
            raise ValueError(f"a row of {folder} has the extent '{extent[:40]}'")
        wrong = verdict == "wrong"
        if verdict not in VERDICTS or bool(length) != wrong or shortest not in ("True", "False"):
            raise ValueError(f"a row of {folder} says '{verdict}' with the length '{length}'")
        yield (
            folder,
            Answer(
                which,
                int(step),
                verdict,
                int(length) if length else None,
                shortest == "True",
                string,
                int(complete),
                weights,
                again,
                extent,
            ),
        )
