"""A Config from overrides without running Hydra: for benchmarks, tests and planning."""

from __future__ import annotations

from collections.abc import Sequence

from lrbench.cli.compose import to_config, translated
from lrbench.config import Config, register_schema
from lrbench.locations import conf_dir
from lrbench.plugins import load_plugins


def composed(words: Sequence[str]) -> Config:
    """Return what `lrbench train` would be given for these overrides. Raises UserError."""
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    load_plugins()
    register_schema()
    try:
        with initialize_config_dir(config_dir=str(conf_dir()), version_base="1.3"):
            return to_config(compose(config_name="config", overrides=list(words)))
    except (HydraException, OmegaConfBaseException) as error:
        raise translated(error) from error
