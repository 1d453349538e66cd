"""One run's folder: what is kept of a trial while it trains, and what it comes back from.

Order of writing at a look: step-N.pt, then the copies the rules keep (best.pt, ...). A checkpoint
names the looks its rules believe, so whichever of these writes a crash prevents, the newest valid
step file can restore the others: a rule that believes update N is that very file.
"""

from __future__ import annotations

import shutil
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lrbench.runs import checkpoints, files
from lrbench.runs.cell import Cell
from lrbench.runs.files import UnreadableFile
from lrbench.training.trial import Trial

SCHEMA = 1


class Run:
    """The folder s<seed> of a cell. With `fresh` it works in s<seed>.new until it is whole."""

    def __init__(self, cell: Cell, seed: int, fresh: bool = False) -> None:
        self.cell, self.seed, self.fresh = cell, seed, fresh
        self.final_folder = cell.folder / f"s{seed}"
        self.folder = cell.folder / f"s{seed}.new" if fresh else self.final_folder
        self.checkpoints = self.folder / "checkpoints"
        self.metrics = self.folder / "metrics.jsonl"
        self.saved_step = -1

    def open(self) -> None:
        """Make the folders; clear what dead processes left half written."""
        self._finish_swap()
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        for folder in (self.folder, self.checkpoints):
            files.sweep_temporary(folder)

    def result(self) -> dict[str, Any] | None:
        """Return the whole result of this run, or None if it has none.

        A damaged or foreign result.json is set aside, never overwritten.
        """
        path = self.final_folder / "result.json"
        if not path.exists():
            return None
        try:
            result = files.read_json(path)
        except UnreadableFile as error:
            self._set_aside(path, error.reason)
            return None
        if result.get("schema") != SCHEMA or result.get("fingerprint") != self.cell.fingerprint:
            self._set_aside(path, "it is of another schema or configuration")
            return None
        return result

    def restore(self, trial: Trial) -> bool:
        """Load the newest valid checkpoint into `trial`; tell whether there was one."""
        found = checkpoints.newest_valid(
            self.checkpoints,
            is_valid=self._has_what_rules_keep,
            on_bad=lambda path, reason: self.log(f"checkpoint {path.name} passed over: {reason}"),
        )
        if found is None:
            files.keep_lines_until(self.metrics, 0)
            return False
        path, state = found
        trial.load(state)
        self.saved_step = trial.step
        for rule, step in trial.rules.steps().items():
            if step == trial.step and not self._keeps(rule, step):
                checkpoints.save(self.checkpoints / f"{rule}.pt", state)
        files.keep_lines_until(self.metrics, trial.step)
        self.log(f"went on from {path.name}")
        return True

    def save(self, trial: Trial, believed: list[str] | None = None) -> None:
        """Keep the trial as it is, for resuming and for each rule that believes its last look."""
        state = trial.state()
        checkpoints.save(self.checkpoints / checkpoints.step_name(trial.step), state)
        for rule in believed or []:
            checkpoints.save(self.checkpoints / f"{rule}.pt", state)
        checkpoints.prune(self.checkpoints)
        self.saved_step = trial.step

    def kept(self, rule: str) -> dict[str, Any]:
        """Return the model weights that a rule kept."""
        weights: dict[str, Any] = checkpoints.load(self.checkpoints / f"{rule}.pt")["model"]
        return weights

    def record(self, line: dict[str, Any]) -> None:
        """Append one object to metrics.jsonl."""
        files.append_line(self.metrics, line)

    def log(self, text: str) -> None:
        """Append a dated line to run.log."""
        stamp = datetime.now(UTC).isoformat(timespec="seconds")
        with open(self.folder / "run.log", "a", encoding="utf-8") as out:
            out.write(f"{stamp} {text}\n")

    def finish(self, result: dict[str, Any]) -> None:
        """Write result.json, which is what makes a run finished, and put a fresh run in place."""
        (self.folder / "failure.json").unlink(missing_ok=True)
        files.write_json(self.folder / "result.json", result)
        self.log(f"{result['status']} after {result['steps']} updates")
        if self.fresh:
            self._swap()

    def fail(self, error: BaseException, step: int) -> None:
        """Write failure.json; the run is tried again at the next call."""
        text = "".join(traceback.format_exception(error))
        self.log(f"failed at update {step}\n{text}")
        failure = {
            "schema": SCHEMA,
            "task": self.cell.config.task.name,
            "model": self.cell.config.model.name,
            "protocol": self.cell.config.protocol.name,
            "fingerprint": self.cell.fingerprint,
            "seed": self.seed,
            "error": str(error),
            "type": type(error).__name__,
            "traceback": text,
            "step": step,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        files.write_json(self.folder / "failure.json", failure)

    def _has_what_rules_keep(self, state: dict[str, Any]) -> bool:
        """Whether every look a checkpoint's rules believe still has its weights."""
        kept = {rule: look["step"] for rule, look in state["rules"].items()}
        return all(step == state["step"] or self._keeps(rule, step) for rule, step in kept.items())

    def _keeps(self, rule: str, step: int) -> bool:
        try:
            return bool(checkpoints.load(self.checkpoints / f"{rule}.pt")["step"] == step)
        except UnreadableFile:
            return False

    def _set_aside(self, path: Path, reason: str) -> None:
        target = path.with_name(f"result.json.unreadable-{int(time.time())}")
        path.rename(target)
        self.log(f"result.json could not be used ({reason}); set aside as {target.name}")

    def _swap(self) -> None:
        """Put s<seed>.new in the place of s<seed>; a crash between the renames is mended later."""
        old = self.final_folder.with_name(f"{self.final_folder.name}.old")
        if self.final_folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            self.final_folder.rename(old)
        self.folder.rename(self.final_folder)
        shutil.rmtree(old, ignore_errors=True)

    def _finish_swap(self) -> None:
        """Mend a crash inside `_swap`: the old result is back, or the new one is in place."""
        name = self.final_folder.name
        old, new = (self.final_folder.with_name(f"{name}.{end}") for end in ("old", "new"))
        if not self.final_folder.exists():
            for candidate in (new, old):
                if (candidate / "result.json").exists():
                    candidate.rename(self.final_folder)
                    break
        if old.exists() and (self.final_folder / "result.json").exists():
            shutil.rmtree(old)
