"""Start from another run's weights instead of a seed: `protocol.start_from=RUN`.

The weights are those that the rule `last` kept of a finished run. The cell's name and its files
hold the sha256 of the weights (names, shapes and numbers), not the folder. So the cell stays the
same when that run is moved, or trained again to the same numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from lrbench.certificates.record import weights_digest
from lrbench.checks import shown
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.records import recorded
from lrbench.runs.evaluate.trained import trained
from lrbench.runs.folder.fingerprint import differing_keys

RULE = "last"
NAMED = re.compile("sha256:[0-9a-f]{64}")  # what stands for the folder in what is written
MAY_DIFFER = {"mixer.noise", "mixer.init"}  # of the models: neither changes what weights compute


@dataclass(frozen=True)
class Start:
    """The weights that a run begins with, and the folder they are from."""

    folder: Path
    weights: dict[str, Tensor]
    model: dict[str, Any]

    @property
    def digest(self) -> str:
        """What stands for the folder in a configuration that is written or hashed."""
        return f"sha256:{weights_digest(self.weights)}"

    def check(self, config: Config, model: nn.Module) -> None:
        """Raise UserError unless the weights are of the model of `config`, of the same shapes."""
        keys = set(differing_keys(self.model, recorded(config.model))) - MAY_DIFFER
        if keys:
            raise UserError(
                f"protocol.start_from: {self.folder} trained another model; these differ:"
                f" {', '.join(f'model.{key}' for key in sorted(keys)[:8])}\n"
                "set them as that run did (its config is in result.json)"
            )
        own = {name: tuple(value.shape) for name, value in model.state_dict().items()}
        theirs = {name: tuple(value.shape) for name, value in self.weights.items()}
        if wrong := sorted(name for name in own | theirs if own.get(name) != theirs.get(name)):
            raise UserError(
                f"protocol.start_from: the weights of {self.folder} do not fit: {wrong[0]} is"
                f" {theirs.get(wrong[0], 'not there')} and must be {own.get(wrong[0], 'not there')}"
                f" (of {len(wrong)})\nit must be a run of the same symbols and classes"
            )


def start_of(config: Config) -> Start | None:
    """Read what `protocol.start_from` names; None where it names nothing.

    Raises UserError for a folder that holds no finished run, and for a digest alone, which says
    which weights are meant but not where they are.
    """
    given = config.protocol.start_from
    if given is None:
        return None
    if NAMED.fullmatch(given):
        raise UserError(
            f"protocol.start_from={shown(given, 80)} names weights by what they are\n"
            "to begin with them, write the folder of the run that has them"
        )
    folder = Path(given)
    run = trained(folder, RULE)
    if not run.finished:
        raise UserError(f"protocol.start_from: {folder} is not finished; train it to its end first")
    return Start(folder, run.weights, recorded(run.config.model))


def named_start(config: Config) -> str | None:
    """Return what stands for `protocol.start_from` in files and fingerprints."""
    given = config.protocol.start_from
    if given is not None and NAMED.fullmatch(given):
        return str(given)
    start = start_of(config)
    return start.digest if start else None
