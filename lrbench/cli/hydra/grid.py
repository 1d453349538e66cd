"""Overrides typed after `lrbench tune`: a grid, and settings that all of its points share."""

from __future__ import annotations

from collections.abc import Sequence

from lrbench.checks import shown
from lrbench.errors import UserError
from lrbench.protocols.base import Protocol, declared
from lrbench.registry import DEFAULT_PROTOCOL, PROTOCOLS, TASKS
from lrbench.sweeps.plan.expansion import Overrides, expand

EXAMPLE = "--grid optim.lr=1e-4,3e-4,1e-3"
SEVERAL = ("task", "model", "protocol", "seed")  # may have several values outside the grid
TUNED_PARTS = ("model.", "optim.")
NOT_LEARNING = ("data_seed", "output_dir", "force", "device", "threads", "tuning_runs", "track")
TUNED = ("optim", "protocol.batch_size", "protocol.max_steps", "protocol.supervision")


def grid_keys(grid: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Check the grid and what was typed beside it; return the keys of the grid in order.

    Raises UserError for a key that cannot be tuned, has no value or is there twice.
    """
    for override in overrides:
        if override.startswith("-"):
            raise UserError(
                f"tune does not take {shown(override)}\nflags: --grid KEY=V1,V2, --output FILE,"
                " --force, --dry-run, --config-dir FOLDER; all else is KEY=VALUE",
                exit_code=2,
            )
    if not grid:
        raise UserError(f"tune needs settings to choose from\nwrite {EXAMPLE}", exit_code=2)
    keys: list[str] = []
    for override in grid:
        key, values = key_of(override), override.partition("=")[2]
        if not key.strip() or not values.strip():
            raise UserError(
                f"--grid '{shown(override)}' has no values\nwrite {EXAMPLE}", exit_code=2
            )
        _refuse_key(key)
        if key in keys:
            raise UserError(f"--grid names {shown(key)} twice\nwrite all its values in one list")
        keys.append(key)
    typed = {key_of(override) for override in overrides}
    for key in keys:
        if key in typed:
            raise UserError(
                f"{shown(key)} is in the grid and is typed as well\nkeep one of the two"
            )
    return keys


def cells(grid: Sequence[str], overrides: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the overrides of every cell: what was typed, a point of the grid, all updates.

    Of tests at the end it has as few as can be.

    Raises UserError where a setting outside the grid has several values, or lets the test length
    decide.
    """
    for override in overrides:
        if key_of(override) not in SEVERAL and len(expand([override])) > 1:
            raise UserError(f"'{shown(override)}' names several values\n{_one_value(override)}")
    whole = [_whole(cell, len(overrides), grid) for cell in expand([*overrides, *grid])]
    return [_untested(cell) for cell in whole]


def _one_value(override: str) -> str:
    """Say what to write in the place of several values that were typed outside the grid."""
    key, only = key_of(override), f"only {', '.join(SEVERAL)} may have several outside the grid"
    try:
        _refuse_key(key)
    except UserError:  # so the grid takes no values of it either
        instead = "trials=3" if key == "trials" else f"{shown(key)}=VALUE"
        return f"write one, {instead}; {only}"
    return f"to choose between them write --grid {shown(override)}; {only}"


def _untested(cell: Overrides) -> Overrides:
    """Leave out tests at the end, which have no say, unless they were typed."""
    typed = {key_of(override) for override in cell}
    return (*cell, *(one for one in protocol_of(cell).untested if key_of(one) not in typed))


def protocol_of(overrides: Sequence[str]) -> Protocol:
    """Return how a cell is trained: what is typed of its protocol or its task says so."""
    typed = {key_of(override): override.partition("=")[2] for override in overrides}
    protocol, task = typed.get("protocol", ""), typed.get("task", "")
    if protocol not in PROTOCOLS:  # not typed, or a file of the user's: then its task decides
        known = getattr(TASKS.get(task).cls, "protocols", ()) if task in TASKS else ()
        protocol = next(iter(known), DEFAULT_PROTOCOL)
    return declared(protocol)


def key_of(override: str) -> str:
    """Return the key of an override."""
    return override.lstrip("+").partition("=")[0]


def _whole(cell: Overrides, typed: int, grid: Sequence[str]) -> Overrides:
    """Let no run of a cell end early: what its protocol needs for that, after what was typed.

    Raises UserError for another value that was typed, and for a grid of budgets where the protocol
    has none.
    """
    protocol = protocol_of(cell)
    whole = protocol.whole_budget
    for override in cell:
        if override != whole and key_of(override) == key_of(whole):
            raise UserError(f"'{shown(override)}' {protocol.ends_early}")
    if protocol.fixed_budget and any(key_of(override) == "protocol.max_steps" for override in grid):
        raise UserError(f"--grid cannot vary protocol.max_steps {protocol.fixed_budget}")
    every = {declared(name).whole_budget for name in PROTOCOLS}  # another cell may have needed it
    overrides = [override for override in cell[:typed] if override not in every]
    return (*overrides, *([whole] if whole else []), *cell[typed:])


def _refuse_key(key: str) -> None:
    if key in SEVERAL or key in ("trials", "model.name"):
        raise UserError(
            f"--grid cannot vary {shown(key)}: every one is tuned, or counts, by itself\n"
            f"write {'seed=0,1,2 or trials=3' if key == 'trials' else f'{key}=V1,V2'}"
            " without --grid"
        )
    if key.startswith("protocol.test_"):
        tested = "a test split" if key == "protocol.test_splits" else "the test length"
        raise UserError(
            f"--grid cannot vary {shown(key)}: nothing is chosen by {tested}\n"
            f"write {shown(key)}=VALUE without --grid"
        )
    if key in NOT_LEARNING:
        raise UserError(
            f"--grid cannot vary {shown(key)}: it changes nothing that a model learns\n"
            f"it may vary model.*, optim.* and {', '.join(TUNED[1:])};"
            f" write {shown(key)}=VALUE without --grid"
        )
    # a key without a dot that is no group is left to the configuration, which knows all names
    group = key.partition(".")[0]
    if key not in TUNED and not key.startswith(TUNED_PARTS) and group in ("task", "protocol"):
        raise UserError(
            f"--grid cannot vary {shown(key)}: validation scores would not compare\n"
            f"it may vary model.*, optim.* and {', '.join(TUNED[1:])}"
        )
