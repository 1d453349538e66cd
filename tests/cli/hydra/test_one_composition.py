"""A run is composed once: Hydra's own look whether there are several costs a second time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.hydra import Hydra

RUN = ["task=parity", "model=lrnn_diag", "model.width=4", "protocol.max_steps=1", "output_dir=runs"]


def test_train_composes_once(
    lrbench: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed: list[Any] = []
    real = ConfigLoaderImpl.load_configuration

    def noted(self: Any, *arguments: Any, **named: Any) -> Any:
        composed.append(named.get("overrides") or arguments)
        return real(self, *arguments, **named)

    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", noted)
    monkeypatch.setattr("lrbench.cli.hydra.choices._kept", {})  # another test may have made it
    sizes = [f"protocol.{name}=4" for name in ("test_size", "look_size", "validation_size")]
    ended = lrbench("train", *RUN, *sizes, "protocol.further_lengths=[]", "protocol.certify=never")
    assert ended.code == 0, ended.err
    assert len(composed) == 1 and len(list(tmp_path.rglob("result.json"))) == 1
    assert Hydra.get_mode.__module__ == "hydra._internal.hydra", "others in this process need it"
