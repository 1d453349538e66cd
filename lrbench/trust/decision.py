"""The decision before every fast path: whether a kernel is trusted on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from lrbench.trust import outcomes
from lrbench.trust.outcomes import Kernel, TrustOutcome

if TYPE_CHECKING:
    import torch

SWITCH = "LRBENCH_SELFCHECK"
HINT = "the plain path takes its place (`lrbench bench selfcheck` shows all, --again checks anew)"

Key = tuple[str, "torch.dtype", "torch.device", tuple[int | str, ...]]


@dataclass
class _Known:
    """What a process knows; `tried` is the kernel of a check that is under way, in a child."""

    outcomes: dict[Key, TrustOutcome | None] = field(default_factory=dict)
    programs: list[TrustOutcome] = field(default_factory=list)
    tried: Kernel | None = None
    is_trying: bool = False
    reached: bool = False


_process = _Known()
_lock = Lock()


def trusted(
    name: str, dtype: torch.dtype, device: torch.device, layout: tuple[int | str, ...] = ()
) -> bool:
    """Tell whether a kernel may be used; the first time on a machine, let it prove itself.

    name: in the table of cases (`cases.py`), whose entry says what the layout is.
    """
    if _process.is_trying:
        return _is_tried(_kernel(name, dtype, device, layout))
    key = name, dtype, device, layout
    known = _process.outcomes  # the way of every call but the first
    found = known[key] if key in known else _asked(key)
    return found is None or found.trusted


def told(devices: Sequence[str] = ("cpu",)) -> list[TrustOutcome]:
    """Return what is known of kernels on devices: on disk, and to this process alone."""
    mine = [outcome for outcome in _process.outcomes.values() if outcome is not None]
    mine += _process.programs
    kept = [outcome for device in devices for outcome in outcomes.all_found(device)]
    return list({outcome.kernel: outcome for outcome in (*kept, *mine)}.values())


def is_on() -> bool:
    """Tell whether the environment leaves checks on: LRBENCH_SELFCHECK is not 0."""
    return os.environ.get(SWITCH, "1") != "0"


def begin() -> None:
    """Forget the programs of the runs that this process trained before."""
    _process.programs.clear()


def tell_of(program: TrustOutcome) -> None:
    """Take note of a check that this process made of a run's own program; warn if it failed."""
    _process.programs.append(program)
    if not program.trusted:
        _warn(program, "each trial is trained by itself")


def checked(kernel: Kernel) -> TrustOutcome:
    """Let a kernel prove itself now, whatever was found before, and write the outcome down.

    Where no process could be started for it, or somebody else ended it (as the system does when
    memory runs out), nothing is known of the kernel, and nothing kept.
    """
    from lrbench.trust.checker import PASSING, check

    outcome = check(kernel)
    if not outcome.reason.startswith(PASSING):
        outcomes.keep(outcome)
    return outcome


@contextmanager
def trying(kernel: Kernel | None) -> Iterator[None]:
    """Use this kernel and no other, or none: for the two halves of a check, in one process."""
    before = _process.is_trying, _process.tried
    _process.is_trying, _process.tried, _process.reached = True, kernel, False
    try:
        yield
    finally:
        _process.is_trying, _process.tried = before


def reached() -> bool:
    """Tell whether the kernel of the last `trying` was asked for."""
    return _process.reached


def _asked(key: Key) -> TrustOutcome | None:
    with _lock:
        if key in _process.outcomes:
            return _process.outcomes[key]
        if not is_on():
            found = None
        else:
            kernel = _kernel(*key)
            found = outcomes.find(kernel) or checked(kernel)
            if not found.trusted:
                _warn(found, HINT)
        _process.outcomes[key] = found
        return found


def _is_tried(kernel: Kernel) -> bool:
    is_tried = kernel == _process.tried
    _process.reached |= is_tried
    return is_tried


def _kernel(
    name: str, dtype: torch.dtype, device: torch.device, layout: tuple[int | str, ...]
) -> Kernel:
    return Kernel(name, str(dtype).removeprefix("torch."), layout, str(device))


def _warn(outcome: TrustOutcome, instead: str) -> None:
    from lrbench.console import messages

    messages().print(
        f"not used: {outcome.kernel}: {outcome.reason}; {instead}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
