"""One GPU a run: which devices were named, and a worker's hold on one of them.

A worker holds its device until it ends, because a process cannot change devices once CUDA is up.
The lock is a file of this machine, so that two sweeps of one user do not meet on a device either.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lrbench.checks import shown
from lrbench.disk import locked
from lrbench.errors import UserError

VISIBLE = "CUDA_VISIBLE_DEVICES"
NAME = re.compile(r"\d+|(GPU|MIG)-[\w-]+")

_held: dict[int, str] = {}  # process id -> device: a forked child holds nothing
_until_the_end = ExitStack()


def named_devices(text: str, visible: str | None = None) -> tuple[str, ...]:
    """Return the devices that devices=0,1 names; numbers count among those that are `visible`.

    Raises UserError for what is no device, is named twice or is not visible.
    """
    names = [name.strip() for name in text.strip("[]").split(",")]
    wrong = [name for name in names if not NAME.fullmatch(name)]
    if wrong:
        raise UserError(
            f"devices='{shown(text)}': '{shown(wrong[0])}' is no device\n"
            "write numbers or GPU-... names, such as devices=0,1,2,3"
        )
    devices = [str(int(name)) if name.isdecimal() else name for name in names]
    if visible is not None:
        there = [name.strip() for name in visible.split(",") if name.strip()]
        for name in devices:
            if int(name) >= len(there) if name.isdecimal() else name not in there:
                raise UserError(
                    f"devices: there is no device {name}; {VISIBLE} is '{shown(visible)}',"
                    " and numbers count among those"
                )
        devices = [there[int(name)] if name.isdecimal() else name for name in devices]
    if len(set(devices)) < len(devices):
        raise UserError(f"devices='{shown(text)}' names a device twice; each takes one run")
    return tuple(devices)


@dataclass(frozen=True)
class Placement:
    """Where jobs may run: on these devices, one each; without any, on what the sweep itself sees.

    `visible` is the sweep's own CUDA_VISIBLE_DEVICES, which submitit hides from local workers.
    """

    devices: tuple[str, ...] = ()
    visible: str | None = None

    def settle(self, give_up: Callable[[], bool]) -> bool:
        """Let CUDA see this worker's device, once one is free; False if `give_up` came first."""
        if not self.devices:
            if os.environ.get("SUBMITIT_EXECUTOR") == "local":
                _show(self.visible)
            return True
        while os.getpid() not in _held:
            device = _take(self.devices)
            if device is not None:
                _held[os.getpid()] = device
            elif give_up():
                return False
            else:
                time.sleep(0.2)
        _show(_held[os.getpid()])
        return True


def _take(devices: Sequence[str]) -> str | None:
    folder = Path(tempfile.gettempdir()) / f"lrbench-devices-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for device in devices:
        try:
            _until_the_end.enter_context(locked(folder / f"{device}.lock", patience=0))
        except TimeoutError:
            continue
        return device
    return None


def _show(devices: str | None) -> None:
    if devices is None:
        os.environ.pop(VISIBLE, None)
    else:
        os.environ[VISIBLE] = devices
