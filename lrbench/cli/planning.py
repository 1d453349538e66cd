"""A Config from overrides without running Hydra: for benchmarks, tests and planning."""

from __future__ import annotations

from collections.abc import Sequence

from lrbench.cli.compose import completed, prepare, to_config, told_in_our_words
from lrbench.config import Config
from lrbench.locations import conf_dir


def composed(overrides: Sequence[str]) -> Config:
    """Return what `lrbench train` would be given for these overrides. Raises UserError."""
    from hydra import compose, initialize_config_dir

    typed = prepare(overrides)
    with (
        told_in_our_words(typed),
        initialize_config_dir(config_dir=str(conf_dir()), version_base="1.3"),
    ):
        words = completed(overrides, [conf_dir()])
        return to_config(compose(config_name="config", overrides=words), typed)
