"""Checks of a whole configuration, its task, model and device, before any folder is made.

Memory is checked by a lower bound: a run that is refused here could not have worked.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from lrbench.checks import from_a_user, nearest, shown
from lrbench.config import Config, FrameworkConfig
from lrbench.errors import UserError
from lrbench.mixers.base import Mixer
from lrbench.mixers.foreign.foreign import try_out
from lrbench.models.build import count_parameters
from lrbench.protocols.base import declared
from lrbench.registry import BACKBONES, ENCODERS, FOREIGN, MIXERS, TASKS
from lrbench.runs.folder.cell import Cell
from lrbench.runs.folder.start import start_of
from lrbench.runs.track.tracker import require_tracker
from lrbench.runs.train.own_task import check_own_task
from lrbench.tasks import make_task
from lrbench.tasks.base import TaskBase
from lrbench.training.hardening import Hardening
from lrbench.training.memory import NUMBER
from lrbench.training.precision import FLOAT32, precision_of
from lrbench.training.procedure import procedure_for
from lrbench.training.trial import model_for

GIB = 2**30
KEPT_PER_PARAMETER = 4  # the weight, its gradient and Adam's two moments
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
FILLINGS = {"normal_", "uniform_", "trunc_normal_", "kaiming_uniform_", "kaiming_normal_"}
FILLINGS |= {"xavier_uniform_", "xavier_normal_"}
SMALLER = (
    "make protocol.batch_size, protocol.train_length, model.width, model.layers or trials smaller"
)


def validated(config: Config, folder: Path | None = None) -> torch.device:
    """Check a configuration whole; return the device it runs on. Raises UserError.

    folder: that of its cell, where it is known.
    """
    device = resolve_device(config.device)
    if config.track is not None:
        require_tracker(config.track)
    _check_names(config)
    _check_protocol(config)
    _check_folder(config, folder or Cell.of(config).folder)
    _check_model(config, device)
    check_own_task(config)
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
    for group, entry, settings in (("task", task, config.task), ("model", model, given)):
        if not isinstance(settings, entry.config):
            raise UserError(
                f"{group}.name={entry.name} contradicts {group}=...; write {group}={entry.name}"
            )


def _check_protocol(config: Config) -> None:
    """Tasks, models and protocols go together, and there are strings to train on and to test on."""
    procedure, protocol = procedure_for(config), config.protocol.name
    task = procedure.task
    if not procedure.takes(task):
        own = ", ".join(declared(protocol).tasks)
        raise UserError(
            f"task {task.name} is not trained by protocol {protocol}"
            f"{own and f', which has {own}'}\nwrite protocol={task.protocols[0]}"
        )
    name = config.model.name
    if task.one_answer != (name in ENCODERS):
        raise UserError(_wrong_model(task, name))
    if name in ENCODERS:
        _check_framework(config, task)
    if config.optim.schedule == "plateau" and not declared(protocol).by_split:
        raise UserError(
            f"optim.schedule=plateau goes by the dev score of a corpus;"
            f" protocol {protocol} has none\nwrite optim.schedule=cosine, linear or constant"
        )
    if config.optim.label_smoothing and not task.metric.counts:
        raise UserError(
            f"optim.label_smoothing is for classes; task {task.name} asks for a number\n"
            "leave it at 0"
        )
    procedure.validate()


def _wrong_model(task: TaskBase, name: str) -> str:
    if name in ENCODERS:
        return (
            f"model {name} reads strings whole; task {task.name} asks at each position\n"
            "`lrbench models` lists those for that as mixers, such as blockdiag and lstm"
        )
    return (
        f"model {name} answers at each position; task {task.name} has one answer a string\n"
        f"write model=pooled model.encoder.mixer={name}, or take one of"
        f" {', '.join(ENCODERS.names())}"
    )


def _check_framework(config: Config, task: TaskBase) -> None:
    """A head's setting that nothing would read makes a cell that says what it is not."""
    given: Any = config.model.framework  # type: ignore[attr-defined]
    if task.sides == 2 and given.head == "linear":
        raise UserError(
            f"model.framework.head=linear is for single strings; task {task.name} has pairs, whose"
            " head has two layers\nleave it out; model.framework.hidden says how wide it is"
        )
    if task.sides == 1 and given.hidden != FrameworkConfig.hidden:
        raise UserError(
            f"model.framework.hidden={given.hidden} is for pairs; task {task.name} has single"
            " strings, whose head is as wide as the model\nleave it out, or set model.width"
        )


def _check_folder(config: Config, folder: Path) -> None:
    """The cell's folder, or what is there of the way to it, must be a folder to write to."""
    folder = folder.absolute()
    given = f"output_dir '{shown(config.output_dir)}'"
    if Path(config.output_dir).resolve() == Path(folder.anchor):
        raise UserError(
            f"{given} is the root of the file system\nchoose a folder with output_dir=FOLDER"
        )
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
        with from_a_user():
            check_fits(config, device)
        _check_lengths(config)
        _check_hardening(config)
        _check_precision(config)
        if config.model.name == FOREIGN:
            mixer: Any = config.model.mixer  # type: ignore[attr-defined]
            try_out(mixer, config.model.width, device)
        if start := start_of(config):
            start.check(config, _unallocated(config, make_task(config.task)))
    except ValueError as error:
        raise UserError(str(error)) from error
    except (TypeError, OverflowError, RuntimeError, MemoryError) as error:
        reason = out_of_memory(error) or str(error).partition("\n")[0]
        raise UserError(
            f"model '{config.model.name}' with these settings cannot be built\n"
            f"{shown(reason, 200)}\n{SMALLER}"
        ) from error


def check_fits(config: Config, device: torch.device) -> None:
    """Refuse a run that needs more memory than there is; UserError with both numbers.

    Also raises what building the model raises: ValueError for shapes that do not fit together.
    """
    task = make_task(config.task)
    weights = config.trials * parameters(config, task) * NUMBER * KEPT_PER_PARAMETER
    batch = procedure_for(config).batch_bytes()
    needed, there = weights + batch, memory_of(device)
    if needed <= there:
        return
    sizes = {key: getattr(config.model, key, None) for key in ("layers", "width")}
    batches = {key: getattr(config.protocol, key, None) for key in ("batch_size", "train_length")}
    raise UserError(
        f"this needs at least {_readable(needed)} of memory; {device} has {_readable(there)}\n"
        f"weights and optimiser: {_readable(weights)} for trials={config.trials},"
        f" {_named('model', sizes)}\n"
        f"one update: {_readable(batch)} for {_named('protocol', batches)}\n{SMALLER}"
    )


def _check_lengths(config: Config) -> None:
    """A model that reads so many symbols at most must not meet longer strings after training."""
    procedure = procedure_for(config)
    model = _unallocated(config, procedure.task)
    mixers = (module for module in model.modules() if isinstance(module, Mixer))
    limits = [mixer.longest_read for mixer in mixers if mixer.longest_read is not None]
    if not limits:
        return
    most, setting = min(limits)
    symbols = {key: procedure.task.positions(one) for key, one in procedure.longest.items()}
    beyond = {key: needed for key, needed in symbols.items() if needed > most}
    if beyond:
        asked = ", ".join(f"{key} has {needed:,}" for key, needed in beyond.items())
        advice = f"raise {setting} to at least {max(beyond.values())}"
        if setting.endswith("longest"):
            advice += ", model.mixer.position_range to no less,"
        raise UserError(
            f"model {config.model.name} reads {most:,} symbols of a string at most ({setting});"
            f" {asked}\n{advice} or take shorter lengths"
        )


def _check_hardening(config: Config) -> None:
    """What hardens a model needs one that has it, and a protocol that trains by it."""
    hardening = Hardening(config.optim, _unallocated(config, make_task(config.task)))
    if hardening and not procedure_for(config).hardens:
        raise UserError(
            f"protocol {config.protocol.name} does not train with {hardening.setting}\n"
            "protocol=fan2024 does; leave it out here"
        )


def _check_precision(config: Config) -> None:
    """Rounding has to reach what linear maps return."""
    precision = precision_of(config)
    model = _unallocated(config, make_task(config.task))
    mixers = (module for module in model.modules() if isinstance(module, Mixer))
    if precision != FLOAT32 and not all(mixer.rounds for mixer in mixers):
        raise UserError(
            f"protocol.precision={precision} rounds what linear maps return; model"
            f" {config.model.name} reads weights of linear maps itself\n"
            "leave out protocol.precision, or take another model"
        )


def _named(group: str, sizes: dict[str, int | None]) -> str:
    return ", ".join(f"{group}.{key}={size}" for key, size in sizes.items() if size is not None)


def parameters(config: Config, task: TaskBase) -> int:
    """Return how many numbers a model trains, from those of one and of two layers, unallocated.

    All its layers are counted where its backbone says that they are not alike (`blocks_alike`).
    """

    def count(layers: int | None = None) -> int:
        depth: dict[str, Any] = {} if layers is None else {"layers": layers}
        smaller = replace(config, model=replace(config.model, **depth))
        return count_parameters(_unallocated(smaller, task))

    layers = getattr(config.model, "layers", None)
    backbone = getattr(config.model, "backbone", None)
    if layers is None or not getattr(backbone, "blocks_alike", True):
        return count()
    one = count(1)
    return one if layers == 1 else one + (layers - 1) * (count(2) - one)


def _unallocated(config: Config, task: TaskBase) -> nn.Module:
    """Return the model of a configuration, its weights without memory where that can be had.

    It is not to be changed: cells of a sweep that differ in their optimiser alone share it. One
    whose weights take memory is not kept.
    """
    name, node = config.model.name, config.model
    parts = [(ENCODERS if name in ENCODERS else MIXERS).get(name)]
    if name in MIXERS:
        parts.append(BACKBONES.get(node.backbone.name))  # type: ignore[attr-defined]
    code = type(task), *(part.cls for part in parts)  # a plug-in may register a name again
    words = repr(config.task), repr(node), precision_of(config)
    try:
        return _built(_Shape((*code, *words), config, task))
    except RuntimeError:  # a plugin that reads its weights while it makes them, or too large
        return model_for(config, task, 0)


@dataclass(frozen=True)
class _Shape:
    """What a model is made of; `key` has all of it that the model depends on."""

    key: tuple[Any, ...]
    config: Config = field(compare=False)
    task: TaskBase = field(compare=False)


@lru_cache(maxsize=64)
def _built(shape: _Shape) -> nn.Module:
    with torch.device("meta"), _Unfilled():
        return model_for(shape.config, shape.task, 0)


class _Unfilled(TorchFunctionMode):
    """No random fillings of weights that have no memory: torch would import its compiler for one.

    That import takes two seconds, a third of the plan of a small sweep.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__name__", "") in FILLINGS:
            filled = args[0] if args else named.get("tensor")
            if getattr(filled, "is_meta", False):
                return filled
        if func in (torch.rand, torch.randn):
            func, named = torch.empty, {k: v for k, v in named.items() if k != "generator"}
        return func(*args, **named)


def memory_of(device: torch.device) -> int:
    """Return the bytes of memory of a device; of this machine, or what it lets us have, for CPU."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in LIMITS:
        text = path.read_text().strip() if path.is_file() else "max"
        there = min(there, int(text)) if text.isdecimal() else there
    return there


def out_of_memory(error: BaseException) -> str | None:
    """Return "out of memory: needs 3.7 GiB more" for a failed allocation, None for another error.

    torch names bytes on CPU and GiB on CUDA, each in a line of its insides.
    """
    text = str(error)
    if found := re.search(r"[Tt]ried to allocate (\d+) bytes", text):
        return f"out of memory: needs {_readable(int(found[1]))} more"
    if found := re.search(r"[Tt]ried to allocate ([\d.]+ [KMGT]iB)", text):
        return f"out of memory: needs {found[1]} more"
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return "out of memory"
    return None


def _readable(size: int) -> str:
    if size < GIB:
        return f"{size / 2**20:,.1f} MiB"
    return f"{size / GIB:,.1f} GiB" if size < 100 * GIB else f"{size // GIB:,} GiB"
