"""Identity of the data of runs: hashes of the first strings drawn, or of the splits of a corpus."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.protocols.base import declared
from lrbench.records import Result, SplitIdentity
from lrbench.schema import config_from
from lrbench.tasks.corpus.storage import ARRAYS, identity
from lrbench.tasks.corpus.strings import Strings
from lrbench.training.procedure import procedure_for

ROWS = 16


def data_of(result: Result) -> Mapping[str, str | SplitIdentity]:
    """Return what identifies the data of a run: `string_hashes`, or `split_identities`."""
    return split_identities(result) if over_corpus(result) else string_hashes(result)


def string_hashes(result: Result) -> dict[str, str]:
    """Return {"train 40": sha256, "test 500": sha256} of a run's first 16 strings."""
    config: Config = config_from(result["config"])
    seed = result["seed"] if config.data_seed is None else config.data_seed
    procedure = procedure_for(config)
    task = procedure.task
    hashes = {}
    for name, stream, length, step in procedure.first_strings(seed):
        rows = min(ROWS, task.available(stream) or ROWS)
        batch = task.sample(stream, step, rows, length, "cpu")
        digest = hashlib.sha256()
        scored = () if batch.scored is None else (batch.scored,)
        for part in (batch.tokens, batch.targets, *scored):
            digest.update(part.to("cpu").numpy().astype(_numpy_dtype(part)).tobytes())
        hashes[f"{name} {length}"] = digest.hexdigest()
    return hashes


def _numpy_dtype(part: Tensor) -> str:
    """Return the type whose little-endian bytes are hashed."""
    return "<f4" if part.is_floating_point() else "<i8"


@dataclass(frozen=True)
class SplitState:
    """How a split here compares with what a bundle tells of it; `why` is empty if it is the same.

    `fault`: no other data explain it, for they are said to be made in the same way. `absent`: there
    is nothing here that could be read.
    """

    why: str = ""
    fault: bool = False
    absent: bool = False


def over_corpus(result: Result) -> bool:
    """Whether a result is of a run over a corpus."""
    return declared(result["protocol"]).by_split


def split_identities(result: Result) -> dict[str, SplitIdentity]:
    """Return {split: its n, sides, made, sha256 and first rows} of the splits that a run used.

    Raises UserError where one is not on disk, or is not what the run was scored on.
    """
    config = _config(result)
    task, found = _corpus(config), {}
    for split in config.protocol.splits:
        strings = task.load(split)
        _refuse_other(result, split, strings)
        found[split] = identity(strings)
    return found


def split_states(result: Result, recorded: Any) -> dict[str, SplitState]:
    """Compare the splits here with those that `split_identities` told of a run, by their sha256."""
    config = _config(result)
    task = _corpus(config)
    states = {}
    for split in config.protocol.splits:
        try:
            here = identity(task.load(split))
        except UserError as error:
            states[split] = SplitState(f"the data are not here: {_fix(error)}", absent=True)
            continue
        entry = recorded.get(split) if isinstance(recorded, dict) else None
        states[split] = _compared(here, entry if isinstance(entry, dict) else {})
    return states


def _compared(here: SplitIdentity, recorded: dict[str, Any]) -> SplitState:
    sums = recorded.get("sha256")
    if not isinstance(sums, dict) or set(sums) != set(ARRAYS):
        return SplitState("the bundle does not tell its sha256", fault=True)
    differing = [name for name in ARRAYS if sums[name] != here["sha256"][name]]
    if not differing:
        return SplitState()
    name = differing[0]
    ours, theirs = here["sha256"][name][:12], str(sums[name])[:12]
    made = recorded.get("made")
    alike = bool(made) and made == here["made"]  # a file that was read does not say how
    ways = [_way(here["made"]), _way(made)]
    how = "both said to be made alike" if alike else "made {} here, {} there"
    return SplitState(
        f"other data here: sha256 of its {name} {ours}, not {theirs}; {how.format(*ways)}",
        fault=alike,
    )


def _way(made: Any) -> str:
    """Say shortly how a split was made."""
    known = made if isinstance(made, dict) else {}
    parts = [f"{key} {known[key]}" for key in ("version", "seed") if key in known]
    return " ".join(parts)[:60] or "nobody says how"


def _refuse_other(result: Result, split: str, strings: Strings) -> None:
    """Refuse data of which there are not as many, or as long ones, as the run was scored on."""
    here = len(strings), int(np.max(strings.lengths))
    for row in result["evaluations"]:
        recorded = row["n"], row["length"]
        if row["split"] == split and recorded != here:
            raise UserError(
                f"{result['task']}: split '{split}' is not what a run ({result['fingerprint']}) was"
                f" scored on\nthen {recorded[0]:,} strings of up to {recorded[1]:,} tokens,"
                f" now {here[0]:,} of up to {here[1]:,}\n"
                "name the folder of its data with LRBENCH_DATA"
            )


def _config(result: Result) -> Config:
    config = config_from(result["config"])
    if not declared(config.protocol.name).by_split:
        raise UserError(f"protocol {result['protocol']} is recorded, its configuration has another")
    return config


def _corpus(config: Config) -> Any:
    procedure = procedure_for(config)
    if not procedure.takes(procedure.task):
        raise UserError(f"task {procedure.task.name} has no splits")
    return procedure.task


def _fix(error: UserError) -> str:
    """The line of a message that says how to get the data, else its first."""
    lines = str(error).splitlines()
    return next((line for line in lines[1:] if "lrbench data" in line), lines[0])


def obstacle(result: Result, found: Mapping[str, SplitState], split: str) -> SplitState:
    """Return what keeps a split from being scored: its own state, or no split to train on."""
    own = found.get(split, SplitState("its configuration does not name that split", fault=True))
    train = found.get(result["config"]["protocol"].get("train_split", "train"), SplitState())
    if re.search(r"[\s,]", split):
        return SplitState("a list of splits cannot name it")
    if not own.why and train.absent:
        return SplitState(f"its training split is missing: {train.why}")
    return own
