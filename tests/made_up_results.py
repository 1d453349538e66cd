"""What result.json says of a run over a corpus, and what a paper prints, both made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lrbench.tables import TableSpec, load_table

Result = dict[str, Any]
SIZES = {"near_iid": 10_000}
LEVELS = {
    "listops": {"uniform": 0.1, "majority": 0.12, "root_operator": 0.25, "root_digits": 0.4},
    "logic": {"uniform": 1 / 7, "majority": 0.5},
    "lra_text": {"uniform": 0.5, "majority": 0.5},
}
REFERENCE = """\
paper,table,task,split,model,metric,value,spread,unit,aggregation
rir2023,2,listops-o,near-iid,BBT-GRC,accuracy,59,,percent,median of 3 runs
rir2023,2,listops-o,near-iid,MEGA,accuracy,75.45,0.26,percent,median of 3 runs
rir2023,2,listops-o,args10,BBT-GRC,accuracy,12.3,,percent,median of 3 runs
rir2023,2,listops-o,lra,S4D,accuracy,17.4,,percent,median of 3 runs
rir2023,5,listops-o,near-iid,BBT-GRC,accuracy,1.5,,percent,median of 3 runs
rir2023,5,listops-o,near-iid,RIR-GRC,accuracy,78.33,,percent,median of 3 runs
rir2023,3,proplogic,ops8,BBT-GRC,accuracy,77.7,1.5,percent,mean of 3 runs +- std
rir2023,4,listops-lra,test,BBT-GRC,accuracy,55.15,0.1,percent,mean of 2 runs +- std
rir2023,4,listops-lra,test,S4D (copied),accuracy,60.18,0.35,percent,copied
rir2023,4,text-lra,test,BBT-GRC,accuracy,85.69,0.07,percent,mean of 2 runs +- std
rir2023,4,listopsmix,test,BBT-GRC,accuracy,55.7,1.5,percent,mean of 2 runs +- std
lrbench,Measured baselines,listops-o,near-iid,uniform,accuracy,0.1,,fraction,all 10000 strings
lrbench,Measured baselines,listops-o,near-iid,root_digits,accuracy,0.54,,fraction,all 10000 strings
"""


def open_table(name: str) -> TableSpec:
    """Return a built-in table that does not know its runs: made-up ones have other settings."""
    table = load_table(name)
    return replace(table, cells=tuple(replace(cell, fingerprint="") for cell in table.cells))


def make_split_result(
    scores: Mapping[str, float],
    task: str = "listops",
    model: str = "bbt_grc",
    seed: int = 0,
    fingerprint: str = "a" * 12,
    source: str = "train",
    last: float = -0.05,
    **changes: Any,
) -> Result:
    """The content of a result.json: `scores` by best, and `last` more by last."""
    dev = source.replace("train", "dev")
    steps = {"best": 800, "last": 1000}
    evaluations = []
    for rule, more in (("best", 0.0), ("last", last)):
        for metric, value in (("accuracy", 0.6), ("loss", 1.25)):
            evaluations.append(_row(dev, metric, value, 1_000, rule, "look"))
        for split, value in scores.items():
            n = SIZES.get(split, 2_000)
            evaluations.append(_row(split, "accuracy", value + more, n, rule, "test"))
    settings: dict[str, Any] = {"name": task} | ({"source": "released"} if task == "logic" else {})
    protocol = {
        **{"name": "rir2023", "train_split": source, "dev_split": dev},
        **{"test_splits": list(scores), "epochs": 100, "max_steps": None, "patience": 4},
        **{"select_by": "loss", "batch_size": 128, "micro_batch": None, "bucket": 5},
    }
    result: Result = {
        "schema": 1,
        "task": task,
        "task_title": task,
        "model": model,
        "protocol": "rir2023",
        "seed": seed,
        "data_seed": seed,
        "fingerprint": fingerprint,
        "config": {
            "seed": seed,
            "task": settings,
            "model": {"name": model, "width": 128, "framework": {"hidden": 200}, "encoder": {}},
            "protocol": protocol,
            "optim": {"name": "ranger", "lr": 1e-3},
        },
        "versions": {"task": 1},
        "status": "finished",
        "steps": 1000,
        "epochs": 1.609,
        "stopped": "patience",
        "train_seconds": 125.0,
        "parameters": 431_370,
        "state_size": None,
        "device": "cpu",
        "dtype": "float32",
        "mode": None,
        "threads": 1,
        "checkpoints": steps,
        "perfect_look": None,
        "evaluations": evaluations,
        "baselines": [
            {"baseline": name, "split": split, "value": value, "n": SIZES.get(split, 2_000)}
            for split in scores
            for name, value in LEVELS[task].items()
        ],
        "guessing": [],
        "horizon": {},
    }
    return result | changes


def _row(split: str, metric: str, value: float, n: int, rule: str, kind: str) -> Result:
    row = {"length": 900, "split": split, "metric": metric, "value": round(value, 4), "n": n}
    return {**row, "which": rule, "kind": kind}
