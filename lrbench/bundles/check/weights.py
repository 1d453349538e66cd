"""The weights of a bundle's runs: each run has its own, and a model as large as is told.

One set of weights under five seeds would be five runs, and each of them would score as it tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from lrbench.bundles.check.findings import OPEN, BundleFinding, finding
from lrbench.bundles.contents import DAMAGED, digest_of
from lrbench.certificates.record import weights_digest
from lrbench.errors import UserError
from lrbench.models.build import count_parameters
from lrbench.records import Result
from lrbench.report.output.display import plural
from lrbench.runs.train.validate import check_fits, resolve_device
from lrbench.schema import config_from
from lrbench.training.procedure import procedure_for
from lrbench.training.trial import model_for


def shared_weights(results: Mapping[str, Result], runs: Path, rule: str) -> Iterator[BundleFinding]:
    """Yield whether each seed of a configuration has weights of its own.

    Another configuration may train to the same ones, such as one with more updates of which a rule
    kept an early one. Nothing is said where no configuration has two checkpoints.
    """
    seen: dict[tuple[str, str], str] = {}
    wrong: list[str] = []
    alike: list[str] = []
    there = 0
    for run, result in sorted(results.items()):
        path = runs / run / "checkpoints" / f"{rule}.pt"
        if not path.is_file():
            continue
        try:
            key = run.rpartition("/")[0], digest_of(path)
        except UserError:
            continue  # the scores tell that it cannot be scored
        there += 1
        first = seen.setdefault(key, run)
        if first == run:
            continue
        text = f"{run} has the weights of {first}"
        (alike if _begin_alike(result, results[first]) else wrong).append(text)
    if alike and not wrong:
        yield BundleFinding("weights", OPEN, f"{alike[0]}; both begin training with the same ones")
    elif wrong or there > len({cell for cell, _ in seen}):
        yield finding("weights", wrong, f"{plural(there, 'run')}, each with its own")


def _begin_alike(one: Result, other: Result) -> bool:
    """Whether two runs begin with the same weights, and so may end with the same ones.

    That is so where no seed draws them: they are right by construction, or another run's.
    """
    if one["config"]["protocol"].get("start_from"):
        return True
    try:
        first, second = (
            weights_digest(model_for(config, procedure_for(config).task, seed).state_dict())
            for config, seed in ((config_from(run["config"]), run["seed"]) for run in (one, other))
        )
    except (UserError, *DAMAGED):
        return False
    return first == second


def sizes(results: Mapping[str, Result]) -> Iterator[BundleFinding]:
    """Yield whether the models of runs have as many parameters and as large a state as is told.

    Those of a task or a model that is not here are left out.
    """
    built: dict[str, dict[str, int | None] | None] = {}
    wrong: list[str] = []
    there = 0
    for run, result in sorted(results.items()):
        cell = run.rpartition("/")[0]
        if cell not in built:
            built[cell] = _sizes_of(result)
        here = built[cell]
        if here is None:
            continue
        there += 1
        told: Mapping[str, object] = result
        wrong += [
            f"{run}: {name} {told[name]} is told, and its model has {found}"
            for name, found in here.items()
            if name in told and told[name] != found
        ]
    if there:
        yield finding("models", wrong, f"of {plural(there, 'run')} as large as is told")


def _sizes_of(result: Result) -> dict[str, int | None] | None:
    try:
        config = config_from(result["config"])
        check_fits(config, resolve_device("cpu"))
        model = model_for(config, procedure_for(config).task, result["seed"])
    except (UserError, *DAMAGED):
        return None  # the scores tell that it cannot be built
    return {
        "parameters": count_parameters(model),
        "state_size": getattr(model, "state_size", None),
    }
