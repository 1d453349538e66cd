"""A model's loss and gradients are the same whoever multiplies its matrices."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.cli.hydra.compose import composed
from lrbench.kernels import products
from lrbench.kernels.choice import SWITCH, installed, wanted
from lrbench.protocols.fan2024.trial import LengthTrial

MODELS = ("blockdiag", "blockdiag_release", "rwkv4", "s4d")


def update(model: str) -> dict[str, Tensor]:
    """Return the loss and the gradients of a first update, in float64 for comparison."""
    sizes = ["protocol.batch_size=16", "protocol.train_length=11"]
    trial = LengthTrial(composed(["task=mod_arith", f"model={model}", *sizes]), seed=0)
    loss = trial.update()
    gradients = {name: p.grad for name, p in trial.model.named_parameters() if p.grad is not None}
    return {name: value.double() for name, value in {"": loss, **gradients}.items()}


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")
@pytest.mark.parametrize("loops", ["torch's", "compiled"])
@pytest.mark.parametrize("model", MODELS)
def test_loss_and_gradients(model: str, loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if loops == "compiled" and not (wanted() and installed()):
        pytest.skip("no compiled loops here")
    if loops != "compiled" and model == "s4d":
        pytest.skip("its gate has a closed form only where it is compiled")
    monkeypatch.setenv(SWITCH, str(int(loops == "compiled")))
    monkeypatch.setattr(products, "LARGE", 1)
    monkeypatch.setattr(products, "FEWEST", 1)
    results, multiplied = [], []
    by_onednn = products._by_onednn
    monkeypatch.setattr(
        products, "_by_onednn", lambda a, b: multiplied.append(1) or by_onednn(a, b)
    )
    for faster in (False, True):
        monkeypatch.setattr(products, "usable", lambda *_, by, faster=faster: faster)
        assert not multiplied
        results.append(update(model))
    assert multiplied
    for name, expected in results[0].items():
        scale = float(expected.abs().max())
        torch.testing.assert_close(results[1][name], expected, rtol=1e-3, atol=1e-4 * scale)
