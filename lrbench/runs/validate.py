"""What can only be checked once the parts are known: found before any folder is made."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from lrbench.checks import nearest
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.registry import BACKBONES, MIXERS, TASKS
from lrbench.tasks import make_task
from lrbench.training.trial import Trial


def validated(config: Config) -> torch.device:
    """Check a configuration whole; return the device it runs on. Raises UserError."""
    device = resolve_device(config.device)
    _check_names(config)
    _check_lengths(config)
    _check_folder(config.output_dir)
    try:
        Trial(config, config.seed)  # shapes that do not fit show when the model is built
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from error
    except (RuntimeError, MemoryError) as error:
        raise UserError(
            f"model '{config.model.name}' with these settings cannot be built:"
            f" {str(error).splitlines()[0]}\nmake it smaller: model.width, model.layers, model.mixer"
        ) from error
    return device


def resolve_device(name: str) -> torch.device:
    """Return the device `name` stands for; auto is CUDA if there is one, else CPU."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cuda:0" if count else "cpu")
    known = ["auto", "cpu", *(["cuda"] if count else []), *(f"cuda:{i}" for i in range(count))]
    if name not in known:
        raise UserError(
            f"device '{name}' is not there.{nearest(name, known)}\nhere: {', '.join(known)}"
        )
    return torch.device("cuda:0" if name == "cuda" else name)


def _check_names(config: Config) -> None:
    """The name inside a node must be that of the node: settings of one task fit no other."""
    task, model = TASKS.get(config.task.name), MIXERS.get(config.model.name)
    mixer, backbone = config.model.mixer, config.model.backbone  # type: ignore[attr-defined]
    BACKBONES.get(backbone.name)
    for kind, entry, given in (("task", task, config.task), ("model", model, mixer)):
        if not isinstance(given, entry.config):
            raise UserError(
                f"{kind}.name={entry.name} contradicts {kind}=...; write {kind}={entry.name}"
            )


def _check_lengths(config: Config) -> None:
    task, protocol = make_task(config.task), config.protocol
    asked = [("train_length", protocol.train_length)]
    asked += [("test_lengths", length) for length in protocol.test_lengths]
    for key, length in asked:
        if not task.valid_length(length):
            raise UserError(
                f"protocol.{key} {length}: task {task.name} has only {task.length_rule}\n"
                f"the nearest below is {task.nearest_length(length)}"
            )
    for length in [*protocol.further_lengths, protocol.band[1]]:
        task.nearest_length(length)


def _check_folder(output_dir: str) -> None:
    folder = Path(output_dir).absolute()
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise UserError(f"output_dir '{output_dir}': {folder} is a file, not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(
            f"output_dir '{output_dir}': {folder} cannot be written to\n"
            "choose another with output_dir=FOLDER"
        )
