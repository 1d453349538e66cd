"""The time and memory of `lrbench certify`'s search for every mixer, where it finds nothing.

    python -m benchmarks.certify_speed [--models lstm,mamba] [--task parity] [--write]

The search ends at the first string that cannot be shortened, so what it costs at most is what a
model without a wrong string costs. Here each model (one layer of width 64 in its usual stack) has
its first weights. The right answer is put above its others by 10 logits (`Right`), so that its own
numbers still order what the beam keeps. Each is a process of its own; memory is what the search
adds to it at its peak. The proof that follows for tanh networks is not part of it. `--write` keeps
what the file says of other models, if these had the same task and budget.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lrbench.bench.timing import forget_peak, keep, status
from lrbench.certificates.witness import SearchBudget, search
from lrbench.cli.hydra.compose import composed
from lrbench.plugins import load_plugins
from lrbench.registry import FOREIGN, MIXERS
from lrbench.runs.folder.environment import ROOT, commit
from lrbench.tasks import make_task
from lrbench.tasks.machine import Machine
from lrbench.training.trial import model_for

RESULTS = Path(__file__).resolve().parent / "results"
LEAD = 10.0  # logits
SAME = ("task", "complete", "families", "beam", "longest")  # of rows that stand together


class Right(nn.Module):
    """A model that is never wrong: its own logits between -1 and 1, the right one `LEAD` above.

    The state of the task's automaton is carried beside the model's own.
    """

    def __init__(self, model: nn.Module, machine: Machine) -> None:
        super().__init__()
        self.model, self.machine = model, machine
        self.table = torch.from_numpy(machine.table.copy())
        self.targets = torch.from_numpy(machine.targets.copy())
        self.state_size: Any = model.state_size

    def forward(self, tokens: Tensor, state: Any = None, read: Any = None) -> tuple[Tensor, Any]:
        """Return logits (B, C) after tokens (B, T), and both states."""
        at, mine = (
            (torch.full((len(tokens),), self.machine.start), None) if state is None else state
        )
        logits, mine = self.model(tokens, mine, read=read)
        for symbols in tokens.unbind(1):
            at = self.table[at, symbols]
        right = self.targets[at].clamp(min=0)[:, None]
        lead = torch.zeros_like(logits).scatter_(1, right, LEAD)
        return logits.tanh() + lead, (at, mine)


def measured(name: str, task_words: Sequence[str], budget: SearchBudget) -> dict[str, Any]:
    """Return seconds, bytes and how far the search went, of a mixer in this process."""
    load_plugins()
    torch.set_num_threads(1)
    config = composed([*task_words, f"model={name}", "model.width=64", "model.layers=1"])
    task = make_task(config.task)
    machine = task.machine()
    assert machine is not None
    model = Right(model_for(config, task, 0), machine)
    search(model, machine, SearchBudget(complete=100, families=10, beam=5, longest=5))  # compiles
    before, began = forget_peak(), time.process_time()
    found = search(model, machine, budget)
    assert found.witness is None and not found.unconfirmed, "a model that is never wrong"
    return {
        "seconds": round(time.process_time() - began, 2),
        "peak_bytes": max(0, status("VmHWM") - before),
        "strings": found.strings,
        "complete_to": found.complete_to,
        "families_to": found.families_to,
        "beam_to": found.beam_to,
    }


def kept(record: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the rows of a file that are of the same task and budget; each tells its commit."""
    alike = all(record["options"].get(key) == options[key] for key in SAME)
    models = record["models"] if alike else {}
    return {
        name: {"commit": record["environment"]["commit"], **row} for name, row in models.items()
    }


def main(words: Sequence[str] | None = None) -> None:
    """Measure each model in a process of its own, print, and with `--write` keep the numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", default=",".join(n for n in MIXERS.names() if n != FOREIGN))
    parser.add_argument("--task", nargs="+", default=["task=parity"], help="words of the task")
    parser.add_argument("--complete", type=int, default=SearchBudget.complete)
    parser.add_argument("--families", type=int, default=SearchBudget.families)
    parser.add_argument("--beam", type=int, default=SearchBudget.beam)
    parser.add_argument("--longest", type=int, default=SearchBudget.longest)
    parser.add_argument("--here", action="store_true", help="in this process; prints JSON")
    parser.add_argument("--write", action="store_true", help="keep it in benchmarks/results/")
    told = parser.parse_args(words)
    budget = SearchBudget(told.complete, told.families, told.beam, told.longest)
    names = told.models.split(",")
    if told.here:
        print(json.dumps(measured(names[0], told.task, budget)))
        return
    found: dict[str, Any] = {}
    file = RESULTS / "certify_speed.json"
    if told.write and file.exists():
        found = kept(json.loads(file.read_text()), vars(told))
    print(f"{'model':22s} {'seconds':>8s} {'MiB':>7s} {'symbols read':>13s}")
    for name in names:
        sizes = {key: value for key, value in asdict(budget).items() if key != "seconds"}
        options = [f"--{key}={value}" for key, value in sizes.items()]
        command = [sys.executable, "-m", "benchmarks.certify_speed", "--here", "--models", name]
        ended = subprocess.run(
            [*command, *options, "--task", *told.task],
            capture_output=True,
            text=True,
            check=True,
        )
        row = found[name] = json.loads(ended.stdout)
        row["commit"] = commit(ROOT)["commit"]
        mib = row["peak_bytes"] / (1 << 20)
        print(f"{name:22s} {row['seconds']:8.1f} {mib:7.0f} {row['strings']:13,d}", flush=True)
        if told.write:  # after each: some take minutes
            what = "processor seconds and bytes of a search that finds nothing, width 64"
            keep(file, what, vars(told), {"models": dict(sorted(found.items()))})


if __name__ == "__main__":
    main()
