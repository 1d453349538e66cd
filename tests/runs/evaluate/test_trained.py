"""Weights are read with the code and the settings that they were trained with, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.runs.evaluate.trained import trained
from lrbench.runs.train.job import run_cell
from lrbench.runs.train.validate import validated
from lrbench.schema import config_from
from tests.bundles.conftest import TINY


def test_a_run_under_way_is_read_with_its_own_code_alone(output_dir: Path) -> None:
    """Its checkpoint tells the fingerprint, which no longer is that of the configuration."""
    (folder,) = (end.folder for end in run_cell(composed([*TINY, f"output_dir={output_dir}"])))
    (folder / "result.json").unlink()
    assert trained(folder, "last").step > 0
    path = folder.parent / "config.json"
    settings = json.loads(path.read_text())
    settings["task"]["modulus"] = 3
    path.write_text(json.dumps(settings))
    with pytest.raises(UserError, match="was begun with other code"):
        trained(folder, "last")


def test_a_checkpoint_that_cannot_be_read(output_dir: Path) -> None:
    (folder,) = (end.folder for end in run_cell(composed([*TINY, f"output_dir={output_dir}"])))
    (folder / "checkpoints" / "best.pt").write_bytes(b"no weights")
    with pytest.raises(UserError, match="not a checkpoint") as raised:
        trained(folder, "best")
    assert "best.pt is no checkpoint that can be read: cut short, damaged" in str(raised.value)
    assert "\nthe run has those of the rules id, band, last: --which RULE" in str(raised.value)
    assert "runs below it" not in str(raised.value)
    for path in (folder / "checkpoints").iterdir():
        path.unlink()
    (folder / "checkpoints" / "best.pt").mkdir()
    with pytest.raises(UserError, match=r"\nthe run has no other checkpoint; .* trains it again"):
        trained(folder, "best")
    with pytest.raises(UserError, match=r"is not a run with a 'last' checkpoint: .*no such file"):
        trained(folder, "last")
    with pytest.raises(UserError, match=f"runs below it: {folder}; name one of them"):
        trained(folder.parent)


def test_a_run_that_lacks_a_file_is_told_which_and_what_to_do(output_dir: Path) -> None:
    """It was told to name another folder, or another rule, which fails in the same way."""
    (folder,) = (end.folder for end in run_cell(composed([*TINY, f"output_dir={output_dir}"])))
    result = (folder / "result.json").read_bytes()
    for damaged in (b"", b"{"):
        (folder / "result.json").write_bytes(damaged)
        with pytest.raises(UserError, match=r"\ngive the command that began the run again"):
            trained(folder, "best")
    (folder / "result.json").unlink()
    moved = folder.rename(folder.parent.parent / "alone")
    with pytest.raises(UserError, match=r"\na run without a result needs the config.json beside"):
        trained(moved, "last")
    (moved / "result.json").write_bytes(result)
    (moved / "checkpoints" / "last.pt").unlink()
    with pytest.raises(UserError, match=r"\nthe run has those of the rules best, id, band: --whi"):
        trained(moved, "last")
    for path in (moved / "checkpoints").iterdir():
        path.unlink()
    (moved / "checkpoints").rmdir()
    with pytest.raises(
        UserError, match=r"\nthe run has no checkpoint; .*, with force=true, trains"
    ):
        trained(moved, "last")
    back = moved.rename(folder)
    (back / "result.json").unlink()
    (back / "checkpoints").mkdir()
    with pytest.raises(
        UserError, match=r"no checkpoint; the command that began it goes on with it"
    ):
        trained(back, "last")


def test_settings_that_nothing_reads_are_refused_as_typed_and_read_in_a_run(
    output_dir: Path,
) -> None:
    """A run of an older version may have them: its weights are what they were."""
    words = [word for word in TINY if not word.startswith("model")]
    words += ["model=rwkv4", "model.width=8", "model.layers=1", f"output_dir={output_dir}"]
    (folder,) = (end.folder for end in run_cell(composed(words)))
    path = folder / "result.json"
    result = json.loads(path.read_text())
    result["config"]["model"]["backbone"] |= {"expansion": 0, "channel": "swiglu"}
    path.write_text(json.dumps(result))
    assert trained(folder, "best").step > 0
    config = config_from(result["config"])
    with pytest.raises(UserError, match="expansion=0 is for other mixers: Rwkv4Mixer has a second"):
        validated(config)
    with pytest.raises(UserError, match=r"channel=swiglu is for perceptrons"):
        composed([*words, "model.backbone.expansion=0", "model.backbone.channel=swiglu"])
