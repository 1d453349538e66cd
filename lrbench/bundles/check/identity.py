"""What a run is: its folder, configuration, result and fingerprint, which must tell the same."""

from __future__ import annotations

from typing import Any

from lrbench.records import Result
from lrbench.runs.folder.fingerprint import fingerprint

PARTS = ("task", "model", "protocol")
NAMED = (*PARTS, "optim")
MOST = {"layers": 256, "width": 65_536, "threads": 256}  # that a stranger's file may ask for


def config_complaint(config: dict[str, Any]) -> str | None:
    """Return what is wrong with the shape of a stranger's configuration, None where nothing is."""
    for part in NAMED:
        content = config.get(part)
        if not isinstance(content, dict) or not isinstance(content.get("name"), str):
            return f"its configuration has no {part} with a name"
    model = config["model"]
    for part in ("mixer", "backbone"):
        if part in model and not isinstance(model[part], dict):
            return f"its configuration's model.{part} holds no settings"
    name = (model.get("backbone") or {}).get("name", "")
    if not isinstance(name, str):
        return f"its configuration's model.backbone.name is {name!r:.40}, no text"
    for name, most in MOST.items():
        value = config.get(name) if name == "threads" else model.get(name)
        if value is not None and not (type(value) is int and 0 < value <= most):
            return f"its configuration's {name} is {value!r:.40}, none of 1 to {most:,}"
    return None


def versions_complaint(versions: Any) -> str | None:
    """Return what is wrong with the versions of a stranger's run, None where nothing is."""
    if not isinstance(versions, dict):
        return "its versions are no object"
    for name in ("plugins", "libraries"):
        told = versions.get(name) or {}
        if not isinstance(told, dict) or not all(isinstance(one, str) for one in told.values()):
            return f"its versions' {name} are no names with texts"
    return None


def differences(run: str, result: Result, config: dict[str, Any]) -> list[str]:
    """Return where a run's folder, `config.json` and result tell different things.

    run: its folder, task/model/protocol/fingerprint/s<seed>.
    """
    versions = result.get("versions") or {}
    recorded, folder = result["fingerprint"], run.split("/")[-5:]
    wrong = []
    for told, content in (("its configuration", config), ("result.json", result["config"])):
        made = fingerprint(content, versions)
        if not (made == recorded == folder[-2]):
            wrong.append(f"{run}: {recorded} is recorded, {told} gives {made}")
    for at, part in enumerate(PARTS):
        names = {str(result.get(part)), result["config"][part]["name"], folder[at]}
        if len(names) > 1:
            wrong.append(f"{run}: its {part} is told as {' and as '.join(sorted(names))}")
    if folder[-1] != f"s{result['seed']}":
        wrong.append(f"{run}: its result is of seed {result['seed']}")
    data_seed = result["config"].get("data_seed")
    used = result["seed"] if data_seed is None else data_seed
    if result.get("data_seed") not in (None, used):
        wrong.append(
            f"{run}: data seed {result['data_seed']} is told, its configuration's is {used}"
        )
    return wrong
