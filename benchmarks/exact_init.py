"""Whether training keeps a solution that is written by hand: verdicts before it and after it.

    python -m benchmarks.exact_init [--updates 300] [--folder FOLDER] [--write]

`model.mixer.init=exact` gives `rnn`, `slstm`, `blockdiag`, `pdssm` and `sdssm`, where it is a
group's `deltaproduct`, and where it is a cycle the Mambas the weights of the task's automaton. A
run of one update at a rate that changes no weight is certified first; then runs by each of
SETTINGS, from the same weights, are searched for a string they get wrong, or proved right.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lrbench.bench.timing import keep
from lrbench.certificates.witness import SearchBudget
from lrbench.cli.hydra.compose import composed
from lrbench.runs.evaluate.certify import certify_run
from lrbench.runs.train.job import run_cell

TASKS = ("sum", "parity", "even_pair")
HALVES = [
    *("model.backbone.name=bare", "model.mixer.range=signed"),
    *("model.mixer.conv_size=0", "model.mixer.learn_x0=true"),
]
ONE_HOT = [
    *("model.backbone.name=bare", "model.mixer.dictionary=8", "model.mixer.state_size=12"),
    "model.mixer.learn_x0=true",
]
MODELS = {
    "rnn": [],
    "blockdiag": ["model.mixer.block_size=16", "model.backbone.name=bare"],
    "deltaproduct": [
        *("model.backbone.name=bare", "model.mixer.heads=1", "model.mixer.householders=4"),
        *("model.mixer.key_size=8", "model.mixer.value_size=8", "model.mixer.learn_x0=true"),
        *("model.mixer.conv_size=0", "model.mixer.qk_activation=identity"),
    ],
    "mamba": HALVES,
    "mamba2": HALVES,
    "mamba3": ["model.backbone.name=bare", "model.mixer.learn_x0=true"],
    "pdssm": ONE_HOT,
    "sdssm": ONE_HOT,
    "slstm": ["model.backbone.name=bare", "model.mixer.heads=1", "model.mixer.conv_size=0"],
}
LEFT_OUT = {
    *(("even_pair", model) for model in ("deltaproduct", "mamba", "mamba2", "mamba3")),  # no group
    *(("sum", model) for model in ("mamba", "mamba2")),  # real numbers turn by half a circle
}
SETTINGS = {
    "Adam, 1e-3": ["optim.lr=1e-3"],
    "Adam, 1e-3, labels smoothed by 0.1": ["optim.lr=1e-3", "optim.label_smoothing=0.1"],
    "AdamW, 1e-3, decay 0.1": ["optim.lr=1e-3", "optim.name=adamw", "optim.weight_decay=0.1"],
}
COMMON = [
    *("model.mixer.init=exact", "model.width=64", "optim.name=adam", "optim.label_smoothing=0"),
    *("optim.weight_decay=0", "optim.clip=1", "optim.schedule=constant", "optim.warmup=0"),
    *("protocol.stop=never", "protocol.certify=never", "protocol.test_size=1000"),
    "protocol.further_lengths=[4999]",
]
UNCHANGED = ["protocol.max_steps=1", "optim.lr=1e-60"]  # zero in float32
BUDGET = SearchBudget(complete=50_000, families=2_000, longest=500)
RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Verdict:
    """What is known of a run on all strings, and what it scores on random ones of 500 and 4,999."""

    task: str
    model: str
    trained: str
    updates: int
    verdict: str
    string: str | None
    length: int | None
    margin: float | None
    obstacle: str
    at_500: float
    at_4999: float

    def __str__(self) -> str:
        summary = self.verdict
        if self.string is not None:
            summary += f" on {self.string} ({self.length} symbols)"
        elif self.margin is not None:
            summary += f", least margin {self.margin:.3g}"
        elif self.obstacle:
            summary += f": {self.obstacle}"
        scores = f"{self.at_500:.4f} at 500, {self.at_4999:.4f} at 4,999"
        return f"{self.task} {self.model}, {self.trained}, {self.updates:,}: {summary}; {scores}"


def verdict(task: str, model: str, trained: str, words: list[str], folder: Path) -> Verdict:
    """Train one run by `words` and say what is known of its last weights."""
    own = [f"task={task}", f"model={model}", *MODELS[model], *COMMON, f"output_dir='{folder}'"]
    typed = dict(word.split("=", 1) for word in [*own, *words])
    (outcome,) = run_cell(composed([f"{key}={value}" for key, value in typed.items()]))
    assert outcome.result is not None, outcome.message
    scores = {
        row["length"]: row["value"]
        for row in outcome.result["evaluations"]
        if row.get("which") == "last" and row["kind"] == "test"
    }
    record = certify_run(outcome.folder, budget=BUDGET, foretell_to=0).record
    witness, proof = record["witness"], record.get("proof")
    return Verdict(
        task,
        model,
        trained,
        outcome.result["steps"],
        record["verdict"],
        None if witness is None else witness["string"],
        None if witness is None else witness["length"],
        None if proof is None else proof["margin"],
        "" if proof is None else proof["refusal"] or proof["obstacle"],
        scores[500],
        scores[4999],
    )


def parse(words: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--folder", help="where runs stay; by default they are removed")
    parser.add_argument("--write", action="store_true", help="write results/FILE")
    parser.add_argument("--file", default="exact_init.json", help="what --write writes")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Train, search, print, and with `--write` keep the verdicts."""
    options = parse(words)
    after = [f"protocol.max_steps={options.updates}"]
    found = []
    with TemporaryDirectory(prefix="lrbench-") as scratch:
        folder = Path(options.folder or scratch)
        for model in options.models.split(","):
            for task in options.tasks.split(","):
                if (task, model) in LEFT_OUT:
                    continue
                found.append(verdict(task, model, "as written", UNCHANGED, folder))
                print(found[-1], flush=True)
                for name, settings in SETTINGS.items():
                    found.append(verdict(task, model, name, [*settings, *after], folder))
                    print(found[-1], flush=True)
    if options.write:
        settings = {"updates": options.updates, "budget": asdict(BUDGET)}
        what = "verdicts on networks written by hand, before training and after it"
        rows = {"verdicts": [asdict(one) for one in found]}
        keep(RESULTS / options.file, what, settings, rows)


if __name__ == "__main__":
    main()
