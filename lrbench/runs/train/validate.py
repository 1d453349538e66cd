"""What can only be checked once the parts are known: found before any folder is made."""

from __future__ import annotations

import os

import torch

from lrbench.checks import nearest, shown
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.registry import BACKBONES, ENCODERS, MIXERS, TASKS
from lrbench.runs.folder.cell import Cell
from lrbench.runs.train.capacity import SMALLER, check_fits, out_of_memory
from lrbench.tasks.base import TaskBase
from lrbench.training.procedure import procedure_for


def validated(config: Config) -> torch.device:
    """Check a configuration whole; return the device it runs on. Raises UserError."""
    device = resolve_device(config.device)
    _check_names(config)
    _check_protocol(config)
    _check_folder(config)
    _check_model(config, device)
    return device


def resolve_device(name: str) -> torch.device:
    """Return the device `name` stands for; auto is CUDA if there is one, else CPU."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cuda:0" if count else "cpu")
    known = ["auto", "cpu", *(["cuda"] if count else []), *(f"cuda:{i}" for i in range(count))]
    if name not in known:
        raise UserError(
            f"device '{shown(name)}' is not there.{nearest(name, known)}\nhere: {', '.join(known)}"
        )
    return torch.device("cuda:0" if name == "cuda" else name)


def _check_names(config: Config) -> None:
    """The name inside a node must be that of the node: settings of one task fit no other."""
    task, name, node = TASKS.get(config.task.name), config.model.name, config.model
    model = ENCODERS.get(name) if name in ENCODERS else MIXERS.get(name)
    if name in MIXERS:
        BACKBONES.get(node.backbone.name)  # type: ignore[attr-defined]
    given = getattr(node, "encoder" if name in ENCODERS else "mixer", None)
    for kind, entry, settings in (("task", task, config.task), ("model", model, given)):
        if not isinstance(settings, entry.config):
            raise UserError(
                f"{kind}.name={entry.name} contradicts {kind}=...; write {kind}={entry.name}"
            )


def _check_protocol(config: Config) -> None:
    """Tasks, models and protocols go together, and there are strings to train on and to test on."""
    procedure, protocol = procedure_for(config), config.protocol.name
    task = procedure.task
    if not procedure.takes(task):
        raise UserError(
            f"task {task.name} is not trained by protocol {protocol}\n"
            f"write protocol={task.protocols[0]}"
        )
    name = config.model.name
    if task.one_answer != (name in ENCODERS):
        raise UserError(_wrong_model(task, name))
    procedure.validate()


def _wrong_model(task: TaskBase, name: str) -> str:
    if name in ENCODERS:
        return (
            f"model {name} reads strings whole; task {task.name} asks at each position\n"
            f"models for that: {', '.join(MIXERS.names())}"
        )
    return (
        f"model {name} answers at each position; task {task.name} has one answer a string\n"
        f"write model=pooled model.encoder.mixer={name}, or take one of"
        f" {', '.join(ENCODERS.names())}"
    )


def _check_folder(config: Config) -> None:
    """The cell's folder, or what is there of the way to it, must be a folder to write to."""
    folder = Cell.of(config).folder.absolute()
    given = f"output_dir '{shown(config.output_dir)}'"
    try:
        while not folder.exists():
            folder = folder.parent
        is_folder = folder.is_dir()
    except OSError as error:
        raise UserError(f"{given}: {(error.strerror or str(error)).lower()}") from error
    if not is_folder:
        raise UserError(
            f"{given}: {folder} is a file, not a folder\nchoose another with output_dir=FOLDER"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(
            f"{given}: {folder} cannot be written to\nchoose another with output_dir=FOLDER"
        )


def _check_model(config: Config, device: torch.device) -> None:
    """Shapes that do not fit together, and sizes that fit nowhere, show when a model is built."""
    try:
        check_fits(config, device)
    except ValueError as error:
        raise UserError(str(error)) from error
    except (TypeError, OverflowError, RuntimeError, MemoryError) as error:
        reason = out_of_memory(error) or str(error).partition("\n")[0]
        raise UserError(
            f"model '{config.model.name}' with these settings cannot be built\n"
            f"{shown(reason, 200)}\n{SMALLER}"
        ) from error
