"""`lrbench bench rir_table1`: Table 1 of Ray Chowdhury & Caragea 2023, made again.

They train on 100 strings of ListOps at a time, one by one, and report minutes and gigabytes on an
RTX A6000. Here a cell (a model at some lengths) is a process of its own, in which a string is read,
forward and backward, by the model and then by RNN-GRC: what slows the machine down slows both. The
ratio of a cell is the median over its strings. Memory is what the longest string adds, in the first
of these passes, to a process that has trained on a short one.

Strings are drawn, ListOps's own up to 1,000 tokens and Long Range Arena's beyond, as published.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lrbench.bench.timing import forget_peak, status
from lrbench.config import Config
from lrbench.errors import UserError, unknown
from lrbench.models.build import build_model
from lrbench.plugins import load_plugins
from lrbench.schema import config_from
from lrbench.tasks.listops.conditional import draw_given_length
from lrbench.tasks.listops.draw import NANGIA, Grammar, bits
from lrbench.tasks.listops.expressions import DIGITS, VOCABULARY

Compose = Callable[[Sequence[str]], Config]
ARENA = Grammar(max_arguments=10, max_depth=10)
LONGEST_OF_NANGIA = 1000
SHORT = range(12, 20)  # lengths to warm up with
GIGABYTE = 1 << 30
UNIT = "rnn_grc"


@dataclass(frozen=True)
class Row:
    """A model of the table: how it is set up, what the paper calls it, and whether it is plain.

    plain: by `reference`, the released form, instead of `forward`.
    """

    model: str
    paper: str
    overrides: tuple[str, ...] = ()
    remark: str = ""
    plain: bool = False

    @property
    def label(self) -> str:
        """Its name in the table."""
        return f"{self.model} {self.remark}".strip()


KEPT = ("model.encoder.reuse_dropout=true",)
ROWS = (
    Row(UNIT, "RNN-GRC"),
    Row("mega", "MEGA"),
    Row("s4d_stack", "S4D"),
    Row("bbt_grc", "BBT-GRC"),
    Row("rir_grc", "RIR-GRC"),
    Row("ordered_memory", "OM"),
    Row("crvnn", "CRvNN (no halt)", ("model.encoder.halt=false",), "(no halt)"),
    Row("bt_grc", "BT-GRC"),
    Row("bt_grc", "BT-GRC", KEPT, "(masks kept)"),
    Row("bt_grc_os", "BT-GRC OS"),
    Row("bt_grc_os", "BT-GRC OS", KEPT, "(masks kept)"),
    Row("ebt_grc", "EBT-GRC"),
    Row("ebt_grc", "EBT-GRC", (), "(plain reference)", plain=True),
    Row("rir_ebt_grc", "RIR-EBT-GRC"),
)
LENGTHS = ("200-250", "500-600", "900-1000", "1500-2000")


@dataclass(frozen=True)
class CellLimits:
    """How many strings a cell is measured on, for how many seconds, with how much memory."""

    strings: int
    seconds: float
    gigabytes: float


@dataclass(frozen=True)
class CellCost:
    """One cell: seconds a string (mean), times RNN-GRC (median), and bytes; or why it failed."""

    model: str
    paper: str
    lengths: str
    strings: int = 0
    seconds: float | None = None
    ratio: float | None = None
    peak_bytes: int | None = None
    failed: str = ""
    passes: list[float] = field(default_factory=list)
    unit_passes: list[float] = field(default_factory=list)


def chosen_rows(models: Sequence[str]) -> list[Row]:
    """Return the rows of some models (all by default); UserError for one that has none."""
    known = list(dict.fromkeys(row.model for row in ROWS))
    for name in models:
        if name not in known:
            raise unknown("model of this table", name, known, exit_code=2)
    return [row for row in ROWS if row.model in (models or known)]


def chosen_lengths(ranges: Sequence[str]) -> list[str]:
    """Return ranges of lengths (the paper's by default); UserError for what is none."""
    for text in ranges:
        low, _, high = text.partition("-")
        if not (low.isdecimal() and high.isdecimal() and 4 <= int(low) <= int(high)):
            raise UserError(f"--lengths must be ranges such as 200-250, not '{text}'", exit_code=2)
    return list(ranges or LENGTHS)


def measured(
    compose: Compose, row: Row, lengths: str, limits: CellLimits, device: torch.device
) -> CellCost:
    """Measure a cell in a process of its own; what needs more memory than `limits` is told so."""
    config = compose(["task=listops", f"model={row.model}", *row.overrides])
    unit = compose(["task=listops", f"model={UNIT}"])
    job = asdict(config), asdict(unit), row.plain, lengths, limits, str(device)
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            passes, units, peak = pool.submit(_measure, *job).result()
    except MemoryError:
        return CellCost(row.label, row.paper, lengths, failed="out of memory")
    except BrokenProcessPool:  # by the system, which gives no reason
        return CellCost(row.label, row.paper, lengths, failed="killed")
    ratio = median(mine / theirs for mine, theirs in zip(passes, units, strict=True))
    mean = sum(passes) / len(passes)
    cost = CellCost(row.label, row.paper, lengths, len(passes), mean, ratio, peak)
    return replace(cost, passes=passes, unit_passes=units)


def _measure(
    settings: dict[str, Any],
    unit: dict[str, Any],
    plain: bool,
    lengths: str,
    limits: CellLimits,
    device: str,
) -> tuple[list[float], list[float], int]:
    """Return seconds of each string by the model and by the unit, and the bytes of the longest."""
    load_plugins()
    where = torch.device(device)
    torch.set_num_threads(settings["threads"])
    model, other = Reading(settings, where, plain), Reading(unit, where)
    low, high = map(int, lengths.split("-"))
    short = drawn(SHORT, 1)[0]
    strings = sorted(drawn(range(low, high + 1), limits.strings), key=len)
    longest = strings[-1]
    for one in (model, other):
        one.train(short)
    if where.type == "cpu":
        room = status("VmSize") + int(limits.gigabytes * GIGABYTE)
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
    try:
        first, peak = model.weigh(longest)
    except RuntimeError as error:
        if "memory" in str(error):
            raise MemoryError(str(error)) from error
        raise
    if first > limits.seconds:
        return [first], [other.train(longest)], peak
    passes, units = [], []
    # those in the middle first: they stand for all where time does not suffice for more
    for string in sorted(strings, key=lambda s: abs(2 * len(s) - low - high)):
        passes.append(model.train(string))
        units.append(other.train(string))
        if sum(passes) + passes[-1] > limits.seconds:
            break
    return passes, units, peak


class Reading:
    """A classifier in training on one string at a time."""

    def __init__(self, settings: dict[str, Any], device: torch.device, plain: bool = False) -> None:
        config = config_from(settings)  # its classes are made at run time and cannot be sent
        self.model: nn.Module = build_model(config, len(VOCABULARY), DIGITS, config.seed)
        self.model.to(device)
        self.device = device
        self.generator = torch.Generator(device).manual_seed(0)
        if plain:
            reader: Any = self.model.get_submodule("reader.encoder")
            reader.forward = reader.reference

    def train(self, string: Tensor) -> float:
        """Do a forward and a backward pass on a string (S,); return the seconds it took."""
        tokens = string[None].to(self.device)
        lengths = torch.tensor([len(string)], device=self.device)
        label = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._wait()
        began = time.perf_counter()
        self.model.zero_grad(set_to_none=True)
        cross_entropy(self.model(tokens, lengths, self.generator), label).backward()
        self._wait()
        return time.perf_counter() - began

    def weigh(self, string: Tensor) -> tuple[float, int]:
        """Train on a string; return the seconds, and the bytes that were held at most for it."""
        self.model.zero_grad(set_to_none=True)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            seconds = self.train(string)
            return seconds, torch.cuda.max_memory_allocated() - before
        before = forget_peak()
        seconds = self.train(string)
        return seconds, max(0, status("VmHWM") - before)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def drawn(lengths: range, count: int) -> list[Tensor]:
    """Draw strings of ListOps with lengths in `lengths`, the same ones every time."""
    grammar = NANGIA if lengths.stop - 1 <= LONGEST_OF_NANGIA else ARENA
    tokens, offsets = draw_given_length(bits(0, "rir_table1"), count, grammar, lengths)
    parts = np.split(tokens.astype(np.int64), offsets[1:-1])
    return [torch.from_numpy(part) for part in parts]
