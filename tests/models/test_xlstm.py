"""The stack of xLSTM: which blocks are sLSTM, what stands behind them, pieces and counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.mixers.xlstm.mlstm import MlstmMixer
from lrbench.mixers.xlstm.slstm import SlstmMixer
from lrbench.models.build import build_model
from lrbench.models.xlstm import GatedPerceptron
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.runs.train.validate import parameters, validated
from lrbench.tasks import make_task

STACKS = {
    "xLSTM[1:0]": ("mlstm", "[]", [MlstmMixer] * 3),
    "xLSTM[2:1]": ("mlstm", "[2]", [MlstmMixer, MlstmMixer, SlstmMixer]),
    "xLSTM[1:2]": ("mlstm", "[0,1]", [SlstmMixer, SlstmMixer, MlstmMixer]),
    "xLSTM[0:1]": ("slstm", "[]", [SlstmMixer] * 3),
}


@pytest.mark.parametrize("ratio", STACKS)
def test_blocks_are_as_named_and_read_strings_in_pieces(ratio: str) -> None:
    name, at, mixers = STACKS[ratio]
    words = [f"model={name}", "task=parity", "model.layers=3", f"model.backbone.slstm_at={at}"]
    config = composed([*words, "model.width=16", "seed=0"])
    validated(config)
    model: Any = build_model(config, 5, 5, seed=0).double()
    assert [type(mixer) for mixer in model.mixers] == mixers
    behind = [GatedPerceptron if mixer is SlstmMixer else nn.Identity for mixer in mixers]
    assert [type(channel) for channel in model.channels] == behind
    tokens = torch.randint(5, (3, 40), generator=torch.Generator().manual_seed(0))
    whole, _ = model(tokens)
    first, state = model(tokens[:, :13])
    second, _ = model(tokens[:, 13:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=1e-9, atol=1e-10)
    assert parameters(config, make_task(config.task)) == LengthTrial(config, 0).parameters


def test_heads_that_do_not_fit_are_named_as_typed() -> None:
    words = ["model=mlstm", "task=parity", "model.width=16", "model.backbone.slstm_at=[0]"]
    with pytest.raises(UserError, match=r"model\.backbone\.slstm_heads=3"):
        validated(composed([*words, "model.backbone.slstm_heads=3", "seed=0"]))


def test_a_block_that_is_not_there_is_refused() -> None:
    words = ["model=mlstm", "task=parity", "model.layers=2", "model.backbone.slstm_at=[2]"]
    with pytest.raises(UserError, match=r"slstm_at=\[2\] of 2 blocks.*there is no block 2"):
        validated(composed([*words, "seed=0"]))


@pytest.mark.parametrize("setting", ["slstm_heads=2", "slstm_conv_size=4"])
def test_settings_of_blocks_that_are_not_there_are_refused(setting: str) -> None:
    with pytest.raises(UserError, match=rf"{setting} is for blocks named in .*slstm_at"):
        composed(["model=mlstm", "task=parity", f"model.backbone.{setting}"])
