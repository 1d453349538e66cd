"""Records of a run: the rows of result.json, metrics.jsonl and evaluations/*.json.

Each has a `TypedDict`, and a builder where more than one place makes such rows. Files of unknown
origin are checked before they are read as these (lrbench/report/runs/schema.py).
"""

from __future__ import annotations

from collections.abc import Hashable
from copy import deepcopy
from dataclasses import asdict, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, NotRequired, TypedDict, Unpack, cast, get_args

SCHEMA = 1  # of result.json, failure.json and evaluations/*.json

# Settings that cannot change the meaning of a number: no fingerprint has them
IRRELEVANT = frozenset(
    {
        "seed",
        "trials",
        "device",
        "threads",
        "force",
        "output_dir",
        "logging",
        "table",
        "progress",
        "tuning_runs",
    }
)

RECORDED = "recorded"  # of a field's metadata: "if set" or "never"; without it, always


def added(default: Any) -> Any:
    """Return the field of a setting that came after results were published.

    At its default, which must mean what there was before it, it is left out of what is written of
    a run, and so out of the fingerprint: old cells keep their names. The default is immutable.
    """
    return field(default=default, metadata={RECORDED: "if set"})


def unrecorded(default: Any) -> Any:
    """Return the field of a setting that changes no number of a run: no file and no name has it."""
    return field(default=default, metadata={RECORDED: "never"})


def recorded(settings: Any) -> dict[str, Any]:
    """Return what is written of a dataclass of settings: a dictionary of all but the above."""
    kept = {}
    for name, rule, default in _rules(cast(Hashable, type(settings))):
        value = getattr(settings, name)
        if rule == "never" or (rule == "if set" and value == default):
            continue
        kept[name] = recorded(value) if is_dataclass(value) else _copied(value)
    return kept


@cache
def _rules(settings: Any) -> tuple[tuple[str, str | None, Any], ...]:
    return tuple((one.name, one.metadata.get(RECORDED), one.default) for one in fields(settings))


def _copied(value: Any) -> Any:
    """A copy of a setting's value, as `dataclasses.asdict` makes it."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    if isinstance(value, dict):
        return {_copied(key): _copied(inner) for key, inner in value.items()}
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else deepcopy(value)


def never_recorded(settings: type) -> frozenset[str]:
    """Return the fields of a dataclass that no file of a run names, whatever they are."""
    return frozenset(name for name, rule, _ in _rules(cast(Hashable, settings)) if rule == "never")


def left_out(settings: type) -> dict[str, Any]:
    """Return the defaults of a dataclass that no file of a run names."""
    return {
        one.name: one.default for one in fields(settings) if one.metadata.get(RECORDED) == "if set"
    }


Status = Literal["finished", "diverged"]
EvaluationKind = Literal["look", "test", "trees"]
KINDS: tuple[str, ...] = get_args(EvaluationKind)
TREES: EvaluationKind = "trees"  # how a tree encoder's trees follow the brackets, not a score

POSITIONS = "positions"  # the split of what is scored at every position: token, sequence, prefix
BY_LENGTH = "by_length"  # the split of what each length of a range gave
FURTHER = "further"  # the split of lengths beside those of training and test


class _EvaluationDetails(TypedDict, total=False):
    """What only some evaluations tell.

    which: the rule that kept the checkpoint. interval: 95 %, of an accuracy. chance: the best
    baseline there, whose name is `baseline` on a split. checkpoint_step: the update of the
    checkpoint, told where a run may still go on. exact: the share of strings that are right
    everywhere, of a task with several answers, in evaluations/*.json; token, sequence and prefix,
    of a task that is asked at every position, there as well: prefix is (t, prefix(t)) at some t.
    """

    kind: EvaluationKind
    which: str
    interval: list[float] | None
    chance: float | None
    baseline: str | None
    peak_mib: float
    seconds: float
    checkpoint_step: int
    exact: float
    token: float
    sequence: float
    prefix: list[tuple[int, float]]


class Evaluation(_EvaluationDetails):
    """A score of a checkpoint: of a look during training, a test on fresh strings, or of trees.

    length: of a split, that of its longest string. split: test, train_length, band, further,
    positions, or the name of a corpus' split. metric: a name of lrbench/metrics.py, or loss; of
    positions token, sequence, exact or prefix, whose length is that of the prefix; of trees those
    of lrbench/protocols/rir2023/trees.py, whose n are strings.
    """

    length: int
    split: str
    metric: str
    value: float
    n: int


def evaluation(
    length: int,
    split: str,
    metric: str,
    value: float,
    n: int,
    **details: Unpack[_EvaluationDetails],
) -> Evaluation:
    """Return a row of `evaluations`; details stay in the order in which they are given."""
    row: Evaluation = {"length": length, "split": split, "metric": metric, "value": value, "n": n}
    row.update(details)  # type: ignore[typeddict-item]
    return row


class Baseline(TypedDict):
    """What a predictor that knows next to nothing scores at a length, or on a split.

    n: strings that it was measured on; 0 where the value is exact.
    answers: of a task with several answers a string, how many independent ones vary as much.
    """

    baseline: str
    length: NotRequired[int]
    split: NotRequired[str]
    value: float
    n: int
    answers: NotRequired[float]


class Guessing(TypedDict):
    """What guessing would give under a rule that takes the best of `looks` at `strings` strings."""

    rule: str
    length: int
    value: float
    looks: int
    strings: int


class LookStep(TypedDict):
    """When something happened: the update, and the seconds that updates had taken."""

    step: int
    seconds: float


# A short examination during training. It has `step` and `seconds`, and `validation_loss`, which
# says whether training diverged; what else is up to the protocol. At lengths: test_length, test_n,
# validation_n, band_n, band_loss, and test_, validation_ and band_ of the task's metric; names that
# are made of another name have no TypedDict. Over a corpus: epoch, validation_n and accuracy.
Look = dict[str, Any]


class LookRecord(TypedDict):
    """A line of metrics.jsonl: a look, and the rules that believe it."""

    step: int
    look: Look
    believed: list[str]


class Float64(TypedDict):
    """The first failing length once more in float64: is it the rule or rounding?"""

    length: int
    value: float
    n: int
    verdict: Literal["rule", "rounding"]


class Horizon(TypedDict, total=False):
    """Up to which tested length a checkpoint still knows the rule; None is open on that side."""

    lower: int | None
    upper: int | None
    text: str
    dtype: str
    mode: str
    float64: Float64 | None


class SplitData(TypedDict):
    """What tells the data of a split from other data."""

    n: int
    made: dict[str, Any]
    sha256: dict[str, str]


class SplitIdentity(SplitData):
    """The same in strings.json of a bundle, with the first strings to look at."""

    sides: int
    rows: list[Any]


class DrawnAutomaton(TypedDict):
    """A random automaton: table[q][a] is the state after letter a in state q."""

    start: int
    table: list[list[int]]
    accepting: list[int]
    letter_chances: list[float]
    synchronisation: float | None  # mean letters until the state does not depend on the first one
    tables_drawn: int


class Result(TypedDict):
    """The content of result.json: everything a report needs of one run."""

    schema: int
    task: str
    task_title: str
    model: str
    protocol: str
    seed: int
    data_seed: int
    fingerprint: str
    config: dict[str, Any]
    versions: dict[str, Any]
    status: Status
    steps: int
    epochs: NotRequired[float]  # of a run that goes through a corpus
    stopped: str | None  # perfect, patience, budget, diverged
    train_seconds: float  # spent in updates only
    examination_seconds: NotRequired[float]  # at the end, proofs and baselines included
    # {iterations: mean an update, converged: share of updates, failed_at: update of the first log
    # with one that had not}, only of models that are solved by iteration
    telemetry: NotRequired[dict[str, Any]]
    parameters: int
    state_size: int | None
    device: str
    dtype: str
    mode: str | None
    threads: int
    data: NotRequired[dict[str, SplitData]]
    not_hashed: NotRequired[dict[str, list[str]]]  # plugin: what it read that no fingerprint has
    automaton: NotRequired[DrawnAutomaton]
    checkpoints: dict[str, int]  # rule: the update that it kept
    perfect_look: LookStep | None
    evaluations: list[Evaluation]
    baselines: list[Baseline]
    guessing: list[Guessing]
    horizon: dict[str, Horizon]  # by rule
