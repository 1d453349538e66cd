"""Two runs trained in a moment, and the bundle of them."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lrbench.bundles import layout
from lrbench.bundles.archive import packed, sha256, unpacked
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.pack import pack
from lrbench.cli.hydra.compose import composed
from lrbench.runs.folder.fingerprint import fingerprint
from lrbench.runs.train.job import run_cell

TINY = [
    "task=sum",
    "model=blockdiag",
    "model.width=8",
    "model.mixer.block_size=4",
    "model.mixer.hidden=8",
    "model.backbone.noise=0",
    "optim.warmup=0",
    "optim.label_smoothing=0",
    "optim.schedule=constant",
    "protocol.train_length=6",
    "protocol.test_lengths=[9]",
    "protocol.further_lengths=[12]",
    "protocol.band=[7,8]",
    "protocol.batch_size=8",
    "protocol.look_every=4",
    "protocol.look_size=8",
    "protocol.validation_size=16",
    "protocol.test_size=2000",
    "protocol.max_steps=8",
    "protocol.stop=never",
]

Change = Callable[[dict[str, bytes]], None]


def one(files: dict[str, bytes], ending: str) -> str:
    """Return the first name that ends so."""
    return min(name for name in files if name.endswith(ending))


def name_a_plugin(files: dict[str, bytes], source: bytes) -> None:
    """Let the one cell of a bundle's files say that it was made with `told_plugin`."""
    used = {"told_plugin": hashlib.sha256(source).hexdigest()}
    config = json.loads(files[one(files, "config.json")])
    result = json.loads(files[one(files, "result.json")])
    old = result["fingerprint"]
    new = fingerprint(config, result["versions"] | {"plugins": used})
    for name in [name for name in files if name.startswith("runs/")]:
        data = files.pop(name)
        if not (name.endswith(".pt") or "/certificates/" in name):  # these have hashes
            data = data.replace(b'"plugins": {}', b'"plugins": ' + json.dumps(used).encode())
            data = data.replace(old.encode(), new.encode())
        files[name.replace(old, new)] = data
    files["plugins/told_plugin.py"] = source


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Forget `told_plugin` after the test, as the next process would."""
    yield
    sys.modules.pop("told_plugin", None)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one cell; to be read only."""
    folder = tmp_path_factory.mktemp("trained")
    run_cell(composed([*TINY, "trials=2", f"output_dir={folder}"]))
    return folder


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    """A copy of those runs."""
    return Path(shutil.copytree(trained, tmp_path / "runs"))


@pytest.fixture(scope="session")
def original(trained: Path) -> dict[str, bytes]:
    """The files of their bundle."""
    folder = trained.parent / f"{trained.name}.zip"
    folder.write_bytes(pack(trained, TableChoice(), "a.zip").data)
    return unpacked(folder)


@pytest.fixture
def bundle(original: dict[str, bytes], tmp_path: Path) -> Callable[..., Path]:
    """Write a bundle whose files were changed; with `honest` the manifest tells the new hashes."""

    def write(change: Change = lambda files: None, honest: bool = True) -> Path:
        files = dict(original)
        change(files)
        if honest:
            manifest = json.loads(files.pop(layout.MANIFEST))
            manifest["files"] = {name: {"sha256": sha256(data)} for name, data in files.items()}
            files[layout.MANIFEST] = json.dumps(manifest).encode()
        path = tmp_path / "bundle.zip"
        path.write_bytes(packed(files, path.name))
        return path

    return write


@pytest.fixture
def edit() -> Callable[[Path, Callable[[dict[str, Any]], object]], None]:
    """Change a json file in place."""

    def change(path: Path, how: Callable[[dict[str, Any]], object]) -> None:
        content = json.loads(path.read_text())
        how(content)
        path.write_text(json.dumps(content))

    return change
