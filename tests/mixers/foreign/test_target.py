"""Which code a target is; nothing is imported that the user did not name."""

from __future__ import annotations

import sys
from hashlib import sha256
from importlib import metadata
from pathlib import Path

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.mixers.foreign.libraries import LAYERS, LIBRARIES, library_of
from lrbench.mixers.foreign.settings import ForeignConfig
from lrbench.mixers.foreign.target import code_of, named_by_user, target_class
from lrbench.runs.folder.cell import Cell
from lrbench.runs.folder.versions import versions_of
from lrbench.schema import config_from
from tests.named_layers import WORDS

from .conftest import Named

TRACE = "open('imported', 'w').close()\n"


def cell(*words: str) -> Config:
    return composed(["model=foreign", "model.mixer.target=layers_here.Recurrent", *words])


def test_a_configuration_from_disk_imports_nothing(tmp_path: Path, named: Named) -> None:
    """Only what is typed is imported; of a stranger's run not even to look at it."""
    settings = Cell.of(cell()).settings
    settings["model"]["mixer"]["target"] = "strangers_layers.Layer"
    (tmp_path / "strangers_layers.py").write_text(TRACE)
    read = config_from(settings)
    for look in (versions_of, lambda config: target_class(config.model.mixer)):
        with pytest.raises(
            UserError, match=r"does not name it\nfix, if you trust it: LRBENCH_PLUGINS="
        ):
            look(read)
    assert not Path("imported").exists() and "strangers_layers" not in sys.modules


@pytest.mark.slow
def test_source_and_defaults_are_in_the_fingerprint(tmp_path: Path, named: Named) -> None:
    """A changed default, a changed line, and a changed file beside it: each is another cell."""
    path, beside = tmp_path / "layers_here.py", tmp_path / "beside_layers.py"
    beside.write_text("SIZE = 1\n")
    path.write_text("import beside_layers\n" + path.read_text())
    first = Cell.of(cell())
    assert first.versions["plugins"].keys() == {"layers_here"}
    assert Cell.of(cell("model.mixer.args={hidden: 8}")).fingerprint == first.fingerprint
    assert Cell.of(cell("model.mixer.args={hidden: 9}")).fingerprint != first.fingerprint
    assert Cell.of(cell("model.mixer.args.hidden=9")).fingerprint != first.fingerprint
    beside.write_text("SIZE = 2\n")
    second = Cell.of(cell())
    assert second.settings == first.settings and second.fingerprint != first.fingerprint
    path.write_text(path.read_text().replace("hidden=8", "hidden=7"))
    del sys.modules["layers_here"]
    third = Cell.of(cell())
    assert third.settings["model"]["mixer"]["args"]["hidden"] == 7


def test_a_library_is_its_version_and_the_file_of_the_class() -> None:
    import torch.nn.modules.rnn as source

    config = composed(["model=foreign", *WORDS]).model.mixer
    digest = sha256(Path(str(source.__file__)).read_bytes()).hexdigest()
    assert code_of(config) == {"libraries": {"torch": f"{metadata.version('torch')} {digest}"}}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "names no class yet"),
        ("Recurrent", "'Recurrent' is not MODULE.CLASS"),
        ("layers_here.Recurent", r"(?s)has no 'Recurent'.*torch modules: .*Recurrent"),
        ("layers_here.made", "is an object of Recurrent, not a class"),
        ("layers_here.torch", "is a module, not a class of torch.nn.Module"),
        ("layers_nowhere.Recurrent", r"plugin 'layers_nowhere' \(model.mixer.target\) not found"),
        ("lrbench.mixers.base.Mixer", "is not MODULE.CLASS"),
    ],
)
def test_what_is_no_layer(named: Named, target: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        named_by_user(ForeignConfig(target))


def test_a_package_without_an_init_file(tmp_path: Path, named: Named) -> None:
    folder = tmp_path / "my_research"
    folder.mkdir()
    (folder / "layers.py").write_text((tmp_path / "layers_here.py").read_text())
    config = named_by_user(ForeignConfig("my_research.layers.Recurrent"))
    assert code_of(config)["plugins"].keys() == {"my_research.layers"}


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_a_layer_of_a_library_says_what_it_needs(name: str) -> None:
    layer, library = LAYERS[name], library_of(LAYERS[name].target)
    assert library is not None and library in LIBRARIES.values()
    if library.cuda and not torch.cuda.is_available():
        with pytest.raises(UserError) as refused:
            named_by_user(ForeignConfig(name))
        twin = f"{name} needs a CUDA device and triton; the same function on a CPU: model="
        assert str(refused.value) == f"{twin}{layer.twin}"


def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lrbench.mixers.foreign.target.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"not installed\nfix: pip install xlstm mlstm_kernels"):
        named_by_user(ForeignConfig("xlstm_slstm"))
