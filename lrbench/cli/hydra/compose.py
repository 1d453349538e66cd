"""Composition of a Config from typed words by Hydra, and its errors in our words."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from omegaconf import OmegaConf

from lrbench.checks import from_a_user, is_of_kind, kind_of, shown
from lrbench.cli.hydra.choices import composed_node
from lrbench.cli.hydra.overrides import BACKBONE, bare_name, checked, parsed, split, superseded
from lrbench.cli.hydra.translate import translated, unknown_setting
from lrbench.config import Config
from lrbench.console import messages
from lrbench.errors import UserError
from lrbench.locations import conf_dir
from lrbench.plugins import load_plugins
from lrbench.registry import DEFAULT_PROTOCOL, ENCODERS, FOREIGN, MIXERS, TASKS
from lrbench.schema import in_backbone, register_schema

# Whatever a user's --config-dir says: Hydra makes no folder and no file, and goes nowhere.
QUIET = (
    "hydra.run.dir=.",
    "hydra.output_subdir=null",
    "hydra.job.chdir=false",
    "hydra/job_logging=none",
    "hydra/hydra_logging=none",
)

DEFAULT_TASK, DEFAULT_MODEL = "sum", "blockdiag"  # conf/config.yaml says so too
TUNING = "tuning_runs"


def run_hydra(arguments: Sequence[str], job: Callable[[Config], None]) -> None:
    """Compose the configuration from `arguments` and hand it, checked, to `job`.

    Overrides and the flags of `cli/words.py` go to `hydra.main`. Raises UserError for whatever
    they, Hydra or the schema do not accept.
    """
    said = split(arguments)
    typed = prepare(said.overrides)
    for line in superseded(said.overrides):
        messages().print(line, markup=False)
    if not said.flags and said.folder is None and not any("${" in one for one in said.overrides):
        job(_composed(said.overrides, typed))
        return
    raised: list[BaseException] = []

    def task(composed: Any) -> None:
        try:  # kept until Hydra is done, which would print a line of its own about it
            job(to_config(composed, typed))
        except Exception as error:
            raised.append(error)

    folders = [folder for folder in (said.folder, conf_dir()) if folder]
    with translated_errors(typed):
        hydra_main(task, [*said.flags, *completed(said.overrides, folders)], said.folder)
    if raised:
        raise raised[0]


def hydra_main(task: Callable[[Any], Any], arguments: Sequence[str], folder: Path | None) -> None:
    """Let Hydra read `arguments` and call `task`; `folder` holds the user's own files, if any."""
    import hydra

    # Hydra looks first where `main` says, then in --config-dir: the user's files win over ours.
    ours = ["--config-dir", str(conf_dir())] if folder else []
    version = {} if hydra.__version__ >= "1.4" else {"version_base": "1.3"}
    first = str(folder or conf_dir())
    main = hydra.main(config_path=first, config_name="config", **version)(task)
    with _called_as([*ours, *arguments, *QUIET]), _mode_is_known():
        main()


def prepare(overrides: Sequence[str]) -> dict[str, str]:
    """Check the overrides and make what they name known to Hydra; return them by key."""
    typed = checked(overrides)
    load_plugins()
    once = Counter(override.lstrip("+").partition("=")[0] for override in overrides)
    register_schema({key: value for key, value in typed.items() if once[key] == 1})
    return typed


def completed(overrides: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Return the overrides and what they imply; `folders` hold the files of groups.

    Presets come after the groups, so that they win over what a group's file says by default. A
    group that was typed has to win over them, so what its file says is typed once more. A backbone
    that was typed decides which settings the model has.
    """
    words = (word.lstrip("+").partition("=")[::2] for word in overrides)
    typed = {key: bare_name(key, value) for key, value in words}
    implied = [*_protocol_of_the_task(typed), *_model_in_its_backbone(typed)]
    for group in ("protocol", "optim"):
        inside = [folder / group / f"{typed.get(group)}.yaml" for folder in folders]
        file = next((file for file in inside if file.is_file()), None)
        for key, value in _values(file) if file else ():
            if f"{group}.{key}" not in typed:
                implied.append(f"{group}.{key}={value}")
    said = typed | dict(word.partition("=")[::2] for word in implied)
    implied += _untuned(said, folders)
    return [*_merged(overrides, typed.get("model", DEFAULT_MODEL)), *implied]


def _untuned(said: Mapping[str, str], folders: Sequence[Path]) -> list[str]:
    """Return that no search chose the settings, where another value than a preset's was typed."""
    names = {"protocol": DEFAULT_PROTOCOL, "task": DEFAULT_TASK, "model": DEFAULT_MODEL}
    name = "_".join(said.get(part, usual) for part, usual in names.items())
    inside = [folder / "preset" / "model" / f"{name}.yaml" for folder in folders]
    file = next((file for file in inside if file.is_file()), None)
    if file is None or TUNING in said:
        return []
    preset = OmegaConf.load(file)
    if OmegaConf.is_dict(preset) and TUNING in preset:
        for key, typed in said.items():
            kept = OmegaConf.select(preset, key) if "." in key else None
            if kept is not None and kept != parsed(f"{key}={typed}").value():
                return [f"{TUNING}=null"]
    return []


def _merged(overrides: Sequence[str], model: str) -> list[str]:
    """Return the overrides, those of a dictionary with any keys as Hydra wants them: with `++`."""
    registry, part = (MIXERS, "mixer") if model in MIXERS else (ENCODERS, "encoder")
    if model not in registry:  # Hydra will say what there is
        return list(overrides)
    hints = get_type_hints(registry.get(model).config)
    free = [f"model.{part}.{name}" for name, kind in hints.items() if get_origin(kind) is dict]
    return [
        f"++{word.lstrip('+')}" if any(_is_of(word, key) for key in free) else word
        for word in overrides
    ]


def _is_of(word: str, key: str) -> bool:
    given = word.lstrip("+").partition("=")[0]
    return given == key or given.startswith(f"{key}.")


def _protocol_of_the_task(typed: Mapping[str, str]) -> list[str]:
    """Return the choice of the protocol that a task is usually trained by, where none was typed."""
    task = typed.get("task", "")
    if "protocol" in typed or task not in TASKS:
        return []
    usual = getattr(TASKS.get(task).cls, "protocols", (DEFAULT_PROTOCOL,))[0]
    return [] if usual == DEFAULT_PROTOCOL else [f"protocol={usual}"]


def _model_in_its_backbone(typed: Mapping[str, str]) -> list[str]:
    backbone, model = typed.get(BACKBONE), typed.get("model", DEFAULT_MODEL)
    if backbone is None or model not in MIXERS:  # Hydra will say what there is
        return []
    return [f"model={in_backbone(model, backbone)}"]


def _values(file: Path) -> Iterator[tuple[str, str]]:
    """Yield what a group's file sets, key and value as they are typed."""
    content = OmegaConf.to_container(OmegaConf.load(file))
    for key, value in content.items() if isinstance(content, dict) else ():
        if key != "defaults" and not isinstance(value, dict):
            yield str(key), as_typed(value)


def as_typed(value: Any) -> str:
    """Return a value as one types it after KEY=, text in quotes.

    Hydra takes backslashes as they are, but for those before a quote.
    """
    if isinstance(value, list | tuple):
        return f"[{','.join(map(as_typed, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{as_typed(one)}" for key, one in value.items()) + "}"
    if isinstance(value, str | Path):
        doubled = re.sub(r"(\\+)(?='|\Z)", r"\1\1", str(value))
        return "'" + doubled.replace("'", "\\'") + "'"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value)


def to_config(composed: Any, typed: Mapping[str, str] | None = None) -> Config:
    """Return the dataclasses of a composed configuration; a value out of range is a UserError."""
    with translated_errors(typed), from_a_user():
        _refuse_extra_keys(composed)
        config = OmegaConf.to_object(composed)
    assert isinstance(config, Config)
    return _with_named_code(config)


def _with_named_code(config: Config) -> Config:
    """Return a configuration whose model is known whole: of code that a user named, as well."""
    if config.model.name != FOREIGN:
        return config
    from lrbench.mixers.foreign.target import with_named_target  # needs torch

    return dataclasses.replace(config, model=with_named_target(config.model))


@contextmanager
def translated_errors(typed: Mapping[str, str] | None = None) -> Iterator[None]:
    """Turn what Hydra, OmegaConf or a range check refuses into a UserError."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError  # type: ignore[import-untyped]

    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise translated(error, typed) from error
    except YAMLError as error:
        raise UserError(f"a configuration file is not YAML: {_one_line(error)}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"a configuration file is not UTF-8 text: {error}") from error
    except ValueError as error:  # from a dataclass's own check of its ranges
        raise UserError(str(error)) from error


def _one_line(error: BaseException) -> str:
    return shown(" ".join(str(error).split()), 300)


@contextmanager
def _mode_is_known() -> Iterator[None]:
    """Spare Hydra the composition that only tells whether one run or several are wanted.

    Each command has its own answer. Hydra's class is left as it was, for other programs in this
    process.
    """
    from hydra._internal.hydra import Hydra

    asked = Hydra.get_mode
    Hydra.get_mode = lambda *_, **__: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode = asked  # type: ignore[method-assign]


@contextmanager
def _called_as(arguments: Sequence[str]) -> Iterator[None]:
    """Let Hydra, which reads sys.argv, read `arguments`, and let its exceptions through."""
    before = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = ["lrbench train", *arguments]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.argv = before[0]
        os.environ.pop("HYDRA_FULL_ERROR")
        if before[1] is not None:
            os.environ["HYDRA_FULL_ERROR"] = before[1]


def _refuse_extra_keys(node: Any, prefix: str = "") -> None:
    """Refuse keys that were added with +key=value, which nothing reads, and lists within lists."""
    schema: Any = OmegaConf.get_type(node)
    hints, known = get_type_hints(schema), {field.name for field in dataclasses.fields(schema)}
    for key in node:
        if key not in known:
            raise UserError(unknown_setting(f"{prefix}{key}", schema, node._get_root()))
        child = node._get_node(key)
        if OmegaConf.is_dict(child) and dataclasses.is_dataclass(OmegaConf.get_type(child)):
            _refuse_extra_keys(child, f"{prefix}{key}.")
        elif OmegaConf.is_list(child):
            _check_list(f"{prefix}{key}", hints[key], node[key])


def _check_list(key: str, hint: Any, found: Any) -> None:
    """Refuse what OmegaConf lets through: a list in a list, `${...}` that stands for no list."""
    values = OmegaConf.to_container(found, resolve=True) if OmegaConf.is_list(found) else found
    if not is_of_kind(values, hint):
        raise UserError(f"{key} must be {kind_of(hint)}, not '{shown(found)}'")


def composed(overrides: Sequence[str]) -> Config:
    """Return what `lrbench train` would be given for these overrides. Raises UserError."""
    return _composed(overrides, prepare(overrides))


def _composed(overrides: Sequence[str], typed: Mapping[str, str]) -> Config:
    with translated_errors(typed):
        return to_config(composed_node(completed(overrides, [conf_dir()])), typed)
