"""The model that a run trained, from its folder: its settings, and weights that were kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from lrbench.config import Config
from lrbench.disk import is_root
from lrbench.errors import UserError, unknown
from lrbench.plugins import load_plugins
from lrbench.protocols.base import declared, rule_names
from lrbench.records import Result
from lrbench.report.runs.files import run_folders
from lrbench.report.runs.schema import result_complaint
from lrbench.runs.folder import checkpoints, files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.runs.folder.fingerprint import fingerprint
from lrbench.runs.folder.versions import versions_of
from lrbench.schema import config_from

REDO = (
    "its weights say nothing about today's model: restore that source, or train again with this one"
)


@dataclass(frozen=True)
class Trained:
    """A checkpoint of a run, by the `rule` that kept it.

    `config` and `seed` are the run's, `weights` the model's at update `step`; `finished` is whether
    the run has a result.
    """

    config: Config
    seed: int
    weights: dict[str, Tensor]
    step: int
    finished: bool
    rule: str


def trained(folder: Path, which: str = "") -> Trained:
    """Read the checkpoint that rule `which` kept of a run, which may still be under way.

    No rule: the usual one of the run's protocol. Raises UserError for an unknown rule, for a folder
    that holds no such checkpoint, and where a model or a task is not the code that the run was
    trained with.
    """
    if which and which not in rule_names():
        raise unknown("rule", which, rule_names(), exit_code=2)
    finished, named = (folder / "result.json").exists(), f"'{which}' " if which else ""
    try:
        result = result_of(folder) if finished else None
        settings = _settings(folder) if result is None else dict(result["config"])
        _refuse_without_plugins(folder, {} if result is None else result.get("versions") or {})
        config = config_from(settings)
        protocol = declared(config.protocol.name)
        which = which or protocol.usual_rule
        if which not in protocol.rules:
            where = " (of a run over a corpus)" if protocol.by_split else f" of {protocol.name}"
            raise unknown(f"rule{where}", which, protocol.rules, exit_code=2)
        state = checkpoints.load(folder / "checkpoints" / f"{which}.pt")
    except UnreadableFile as error:
        reason = error.reason if error.path == folder else str(error)
        if error.path.parent == folder / "checkpoints" and error.path.exists():
            text = f"{error.path} is no checkpoint that can be read: {error.reason}"
            raise UserError(f"{text}\n{_beside(folder, error.path.stem)}") from error
        raise UserError(
            f"{folder} is not a run with a {named}checkpoint: {reason}\n"
            f"{_instead(folder, error.path)}"
        ) from error
    if result is not None:
        _refuse_other_code(folder, result.get("versions") or {}, versions_of(config))
    elif state.get("fingerprint", "") not in ("", fingerprint(settings, versions_of(config))):
        raise UserError(
            f"{folder} was begun with other code or settings than those of today\n{REDO}"
        )
    seed = (state if result is None else result).get("seed", config.seed)
    weights, step = state.get("model", {}), int(state.get("step", 0))
    return Trained(config, int(seed), weights, step, finished, which)


def _refuse_without_plugins(folder: Path, then: dict[str, Any]) -> None:
    there = {module.__name__ for module in load_plugins().values()}
    if away := [name for name in then.get("plugins") or {} if name not in there]:
        one = len(away) == 1
        which = f"plugin {away[0]}, which is" if one else f"plugins {', '.join(away)}, which are"
        raise UserError(
            f"{folder} was trained with {which} not loaded\n"
            f"write LRBENCH_PLUGINS={','.join(away)} before the command, in the folder that holds"
            f" {'it' if one else 'them'}"
        )


def _refuse_other_code(folder: Path, then: dict[str, Any], now: dict[str, Any]) -> None:
    """Old weights in new code are another model: raise UserError where versions differ."""
    changed = [
        f"{part} {then[part]} is {now.get(part)} now"
        for part in ("task", "model", "backbone")
        if part in then and then[part] != now.get(part)
    ]
    changed += [
        f"{part} {then.get(part, 1)} is {now.get(part, 1)} now"
        for part in ("inner_mixer", "inner_backbone")
        if then.get(part, 1) != now.get(part, 1)
    ]
    was, present = then.get("plugins") or {}, now["plugins"]
    changed += [
        f"the source of plugin '{name}' was changed"
        for name in sorted({*was, *present})
        if was.get(name) != present.get(name)
    ]
    was, present = then.get("libraries") or {}, now.get("libraries") or {}
    changed += [
        f"{name} {was.get(name, 'none')[:16]} is {present.get(name, 'none')[:16]} now"
        for name in sorted({*was, *present})
        if was.get(name) != present.get(name)
    ]
    if changed:
        raise UserError(f"{folder} was trained with other code: {'; '.join(changed)}\n{REDO}")


def result_of(folder: Path) -> Result:
    """Return the content of a run's result.json; UnreadableFile if it is not one."""
    result = files.read_json(folder / "result.json")
    if complaint := result_complaint(result):
        raise UnreadableFile(folder / "result.json", complaint)
    return cast(Result, result)


def _settings(folder: Path) -> dict[str, Any]:
    """Return the configuration of a run that has no result yet: that of its cell."""
    if not folder.exists():
        raise UnreadableFile(folder, "the folder does not exist")
    if not (folder / "checkpoints").is_dir():
        raise UnreadableFile(folder, "no result.json and no checkpoints")
    return files.read_json(folder.parent / "config.json")


def _instead(folder: Path, bad: Path) -> str:
    """Return the line that says what to name: the first two runs below the folder, if any.

    Of a folder that is a run, what to do about its `bad` file.
    """
    if bad == folder / "result.json":
        return (
            "give the command that began the run again: it puts that file aside and finishes the"
            " run from its checkpoints"
        )
    if bad == folder.parent / "config.json":
        return "a run without a result needs the config.json beside it: copy the whole cell"
    if bad.parent == folder / "checkpoints":
        return _beside(folder)
    below = run_folders(folder, []) if not is_root(folder) else ()
    runs = [str(path) for path, names in below if "checkpoints" in names]
    if not runs:
        return "name the folder of a run, such as outputs/sum/blockdiag/fan2024/.../s0"
    more = f", and {len(runs) - 2} more" if len(runs) > 2 else ""
    return f"runs below it: {', '.join(runs[:2])}{more}; name one of them"


def _beside(run: Path, bad: str = "") -> str:
    """Return the line that says which checkpoints a run has, but for the `bad` one."""
    others = (rule for rule in rule_names() if rule != bad)
    there = [rule for rule in others if (run / "checkpoints" / f"{rule}.pt").is_file()]
    again = "the command that began it, with force=true, trains it again"
    if not (run / "result.json").is_file():
        again = "the command that began it goes on with it"
    if not there:
        return f"the run has no {'other ' if bad else ''}checkpoint; {again}"
    return f"the run has those of the rules {', '.join(there)}: --which RULE takes one; {again}"
