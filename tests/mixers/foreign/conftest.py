"""Layers in a file beside the user, as they would be written, and what is typed for them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lrbench import plugins
from lrbench.mixers.foreign.settings import ForeignConfig
from lrbench.mixers.foreign.target import named_by_user

LAYERS = '''
import torch
from torch import nn
from torch.nn.functional import dropout


class Recurrent(nn.Module):
    """Returns its state as well, as most layers do."""

    def __init__(self, dim, hidden=8, bias=True, kind=nn.GRU, layer_idx=None):
        super().__init__()
        self.layer_idx = layer_idx
        self.rnn = kind(dim, hidden, bias=bias, batch_first=True)
        self.out = nn.Linear(hidden, dim)

    def forward(self, x):
        y, h = self.rnn(x)
        return self.out(y), h


class InSingle(Recurrent):
    def forward(self, x):
        h = torch.zeros(1, len(x), 8)
        return self.out(self.rnn(x, h)[0])


class Backwards(Recurrent):
    def forward(self, x):
        return super().forward(x.flip(1))[0].flip(1)


class BatchSecond(nn.Module):
    """As torch reads unless told otherwise: (T, B, D), so that strings follow each other."""

    def __init__(self, dim):
        super().__init__()
        self.rnn = nn.GRU(dim, dim)

    def forward(self, x):
        return self.rnn(x)


class Shorter(Recurrent):
    def forward(self, x):
        return super().forward(x)[0][:, 1:]


class Double(Recurrent):
    def forward(self, x):
        return super().forward(x)[0].double()


class Dropping(Recurrent):
    def forward(self, x):
        return dropout(super().forward(x)[0], 0.5, self.training)


class Remembering(Recurrent):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)[0] * self.calls


class Sharing(Recurrent):
    def forward(self, x, v_first=None):
        return super().forward(x)[0]


class Strange(nn.Module):
    def __init__(self, breite, heads):
        super().__init__()
        self.map = nn.Linear(breite, breite)

    def forward(self, x):
        return self.map(x)


class Failing(nn.Module):
    def __init__(self, dim):
        super().__init__()
        raise RuntimeError("dim must be prime")


made = Recurrent(4)
'''

Named = Callable[..., ForeignConfig]


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Named]:
    """Return named(class, width_as, **args): settings as a user's, of a layer of that file."""
    (tmp_path / "layers_here.py").write_text(LAYERS)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(plugins, "_loaded", {})

    def settings(name: str, width_as: tuple[str, ...] = (), **args: object) -> ForeignConfig:
        return named_by_user(ForeignConfig(f"layers_here.{name}", args, list(width_as)))

    yield settings
    sys.modules.pop("layers_here", None)
