"""What a mixer returns is held against what it promises, before a loss or a loop believes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.errors import UserError
from lrbench.mixers.base import Mixer
from lrbench.models.bare import Bare, BareConfig
from lrbench.models.gpt import Gpt, GptConfig
from lrbench.models.lrnn_release import LrnnRelease, LrnnReleaseConfig
from lrbench.models.s4 import S4Stack, S4StackConfig

B, T, D = 4, 6, 8

WRONG: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "one position too few": lambda y, state: (y[:, :-1], state),
    "one position too many": lambda y, state: (torch.cat((y, y[:, :1]), 1), state),
    "the last position alone": lambda y, state: (y[:, -1], state),
    "one string of the batch": lambda y, state: (y[:1], state),
    "positions before strings": lambda y, state: (y.transpose(0, 1), state),
    "output and state exchanged": lambda y, state: (state, y),
    "no state": lambda y, state: y,
    "another precision": lambda y, state: (y.to(torch.bfloat16), state),
    "a number a position": lambda y, state: (y[..., :1], state),
}

# `Mixer.last` has unpacked the pair, and taken one of the positions, by the time it is looked at
SEEN_BY_THE_MIXER = {"one position too few", "one position too many", "no state"}


class _Wrong(Mixer):
    """The input as it is, made wrong."""

    def __init__(self, width: int, spoil: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__(None, width)
        self.spoil = spoil

    @property
    def state_size(self) -> int:
        return self.width

    def initial_state(self, batch: int) -> Tensor:
        return torch.zeros(batch, self.width)

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        made: tuple[Tensor, Any] = self.spoil(u, self.initial_state(len(u)))
        return made


@pytest.mark.parametrize(
    "stack",
    [(Bare, BareConfig), (Gpt, GptConfig), (LrnnRelease, LrnnReleaseConfig),
     (S4Stack, S4StackConfig)],
    ids=lambda stack: stack[0].__name__,
)  # fmt: skip
def test_an_output_of_another_form_is_refused(stack: Any) -> None:
    backbone, settings = stack
    tokens = torch.zeros(B, T, dtype=torch.long)
    generator = torch.Generator().manual_seed(0)
    for what, spoil in WRONG.items():
        model = backbone(
            settings(), symbols=3, classes=2, width=D, layers=1,
            make_mixer=lambda width=D, spoil=spoil: _Wrong(width, spoil),
        )  # fmt: skip
        for arguments in ({}, {"read": "last"}, {"generator": generator}):
            if "read" in arguments and what in SEEN_BY_THE_MIXER:
                continue
            with pytest.raises(UserError, match="mixer _Wrong returned"):
                model(tokens, **arguments)


def test_an_output_as_promised_passes() -> None:
    model = Bare(
        BareConfig(), symbols=3, classes=2, width=D, layers=2,
        make_mixer=lambda width=D: _Wrong(width, lambda y, state: (y, state)),
    )  # fmt: skip
    logits, states = model(torch.zeros(B, T, dtype=torch.long))
    assert logits.shape == (B, T, 2) and len(states) == 2
