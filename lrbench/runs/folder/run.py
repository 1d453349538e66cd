"""The folder of one run: the checkpoints, logs and result of a trial, and its resumption.

Order of writing at a look: step-N.pt, then the copies the rules keep (best.pt, ...). A checkpoint
names the looks its rules believe, so whichever of these writes a crash prevents, the newest valid
step file can restore the others: a rule that believes update N is that very file. The other way
round last.pt, the copy of the newest look, stands in for a damaged step file.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from lrbench.records import SCHEMA, Result
from lrbench.report.runs.schema import result_complaint
from lrbench.runs.folder import checkpoints, files
from lrbench.runs.folder.cell import Cell
from lrbench.runs.folder.examined import Examined
from lrbench.runs.folder.files import UnreadableFile
from lrbench.training.trial import Trial


class Run:
    """The folder s<seed> of a cell. With `fresh` it works in s<seed>.new until it is whole."""

    def __init__(self, cell: Cell, seed: int, fresh: bool = False) -> None:
        self.cell, self.seed, self.fresh = cell, seed, fresh
        self.final_folder = cell.folder / f"s{seed}"
        self.folder = cell.folder / f"s{seed}.new" if fresh else self.final_folder
        self.checkpoints = self.folder / "checkpoints"
        self.metrics = self.folder / "metrics.jsonl"
        self.lease_folder = cell.folder / ".leases" / self.final_folder.name  # never moved
        self.examined = Examined(self.kept, self.folder / "examination.jsonl")
        self.saved_step = -1
        self.passed_over: list[str] = []  # checkpoints that `restore` could not use, and why

    @property
    def swap_was_cut_off(self) -> bool:
        """Whether a forced run was killed between its result and the end of `_swap`."""
        return self._beside("old").exists() or _is_whole(self._beside("new"))

    def open(self) -> bool:
        """Make the folders and mend what dead processes left; call it under the lease.

        Returns whether a forced run was found complete and was put in its place.
        """
        swapped = self._mend_swap()
        self._set_aside_bad_result()
        if swapped and _is_whole(self.final_folder):
            return True
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        for folder in (self.folder, self.checkpoints):
            files.sweep_temporary(folder)
        return False

    def result(self) -> Result | None:
        """Return the result of this run, None unless it has a whole one; changes nothing."""
        return self._read_result()[0]

    def restore(self, trial: Trial) -> bool:
        """Load the newest valid checkpoint into `trial`; tell whether there was one."""
        found = self._newest()
        if found is None:
            files.keep_lines_until(self.metrics, 0)
            return False
        path, state = found
        trial.load(state)
        self.saved_step = trial.step
        for rule, step in trial.rules.steps().items():
            if step == trial.step and not self._keeps(rule, step):
                checkpoints.save(self.checkpoints / f"{rule}.pt", state)
        checkpoints.prune(self.checkpoints)
        files.keep_lines_until(self.metrics, trial.step)
        self.log(f"went on from {path.name}")
        return True

    def save(self, trial: Trial, believed: list[str] | None = None) -> None:
        """Keep the trial as it is, for resuming and for each rule that believes its last look."""
        state = {**trial.state(), "fingerprint": self.cell.fingerprint, "seed": self.seed}
        checkpoints.save(self.checkpoints / checkpoints.step_name(trial.step), state)
        for rule in believed or []:
            checkpoints.save(self.checkpoints / f"{rule}.pt", state)
        checkpoints.prune(self.checkpoints)
        self.saved_step = trial.step

    def kept(self, rule: str) -> dict[str, Tensor]:
        """Return the model weights that a rule kept."""
        weights: dict[str, Tensor] = checkpoints.load(self.checkpoints / f"{rule}.pt")["model"]
        return weights

    def record(self, line: dict[str, Any]) -> None:
        """Append one object to metrics.jsonl."""
        files.append_line(self.metrics, line)

    def log(self, text: str) -> None:
        """Append a dated line to run.log."""
        _log(self.folder, text)

    def finish(self, result: Result) -> None:
        """Write result.json, which is what makes a run finished, and put a fresh run in place.

        Raises ValueError for a result that nobody could read back: such a run would end for ever.
        """
        if complaint := result_complaint(json.loads(json.dumps(files.finite(result)))):
            raise ValueError(f"its result could not be read back: {complaint}")
        (self.folder / "failure.json").unlink(missing_ok=True)
        files.write_json(self.folder / "result.json", result)
        self.examined.path.unlink(missing_ok=True)
        self.log(f"{result['status']} after {result['steps']} updates")
        if self.fresh:
            self._swap()

    def fail(self, error: BaseException, step: int) -> None:
        """Write failure.json; the run is tried again at the next call."""
        text = _in_utf8("".join(traceback.format_exception(error)))
        self.log(f"failed at update {step}\n{text}")
        failure = {
            "schema": SCHEMA,
            "task": self.cell.config.task.name,
            "model": self.cell.config.model.name,
            "protocol": self.cell.config.protocol.name,
            "fingerprint": self.cell.fingerprint,
            "seed": self.seed,
            "error": _in_utf8(str(error)) or type(error).__name__,
            "type": type(error).__name__,
            "traceback": text,
            "step": step,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        files.write_json(self.folder / "failure.json", failure)

    def _newest(self) -> tuple[Path, dict[str, Any]] | None:
        """Return the newest usable checkpoint; rename those passed over, lest `prune` keep them."""
        bad: list[Path] = []

        def pass_over(path: Path, reason: str) -> None:
            self.log(f"checkpoint {path.name} passed over: {reason}")
            self.passed_over.append(f"{path.name} is passed over: {reason}")
            bad.append(path)

        found = checkpoints.newest_valid(self.checkpoints, self._is_usable, pass_over)
        last = self._load("last")
        if last and (not found or last["step"] > found[1]["step"]) and self._is_usable(last):
            found = self.checkpoints / "last.pt", last
        for path in bad:
            path.replace(path.with_name(f"{path.name}.unusable"))
        return found

    def _is_usable(self, state: dict[str, Any]) -> bool:
        """Whether a checkpoint is this run's, and every look its rules believe has its weights."""
        if (state.get("fingerprint"), state.get("seed")) != (self.cell.fingerprint, self.seed):
            return False
        kept = {rule: look["step"] for rule, look in state["rules"].items()}
        gone = [r for r, step in kept.items() if step != state["step"] and not self._keeps(r, step)]
        if gone:
            self.log(f"update {state['step']}: no longer kept: {', '.join(gone)}")
        return not gone

    def _keeps(self, rule: str, step: int) -> bool:
        state = self._load(rule)
        return state is not None and state["step"] == step

    def _load(self, rule: str) -> dict[str, Any] | None:
        """Return the checkpoint a rule kept, None unless there is a sound one."""
        try:
            state = checkpoints.load(self.checkpoints / f"{rule}.pt")
        except UnreadableFile:
            return None
        return state if "step" in state else None

    def _read_result(self) -> tuple[Result | None, str | None]:
        """Return (result, None), or (None, what is wrong with result.json if it is there)."""
        path = self.final_folder / "result.json"
        if not os.path.lexists(path):
            return None, None
        try:
            result = files.read_json(path)
        except UnreadableFile as error:
            return None, error.reason
        complaint = result_complaint(result)
        if complaint:
            return None, complaint
        if (result["fingerprint"], result["seed"]) != (self.cell.fingerprint, self.seed):
            return None, f"it is of {result['fingerprint']}, seed {result['seed']}"
        return cast(Result, result), None

    def _set_aside_bad_result(self) -> None:
        """Rename a damaged or foreign result.json; it is never overwritten."""
        reason = self._read_result()[1]
        if reason is None:
            return
        path = self.final_folder / "result.json"
        target = path.with_name(f"result.json.unreadable-{time.time_ns()}")
        path.rename(target)
        _log(self.final_folder, f"result.json not used ({reason}); set aside as {target.name}")

    def _beside(self, ending: str) -> Path:
        return self.final_folder.with_name(f"{self.final_folder.name}.{ending}")

    def _swap(self) -> None:
        """Put s<seed>.new in the place of s<seed>; a crash between the renames is mended later."""
        old = self._beside("old")
        if self.final_folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            self.final_folder.rename(old)
        self._beside("new").rename(self.final_folder)
        shutil.rmtree(old, ignore_errors=True)

    def _mend_swap(self) -> bool:
        """Do the rest of a `_swap` that was cut off; tell whether a new result took its place."""
        old = self._beside("old")
        if _is_whole(self._beside("new")):
            self._swap()
            return True
        if old.exists() and not self.final_folder.exists():
            old.rename(self.final_folder)
        elif old.exists() and _is_whole(self.final_folder):
            shutil.rmtree(old)
            return True
        return False


def _is_whole(folder: Path) -> bool:
    return (folder / "result.json").exists()


def _in_utf8(text: str) -> str:
    """Return text as a file can hold it: an error may name a file whose name is not UTF-8."""
    return text.encode(errors="backslashreplace").decode()


def _log(folder: Path, text: str) -> None:
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    with open(folder / "run.log", "a", encoding="utf-8") as out:
        out.write(f"{stamp} {text}\n")
