"""The products of an update are all noted, with their sizes, and made again as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import product_floor


def update() -> torch.Tensor:
    """Two products forward and the two of their gradients, besides what is no product."""
    x, w, bias = torch.ones(7, 3), torch.ones(5, 3, requires_grad=True), torch.ones(5)
    z = torch.addmm(bias, x, w.T).relu()
    out = torch.empty(7, 2)
    torch.mm(z.detach(), torch.ones(5, 2), out=out)
    z.sum().backward()
    return out


def test_products_are_counted_and_made_again() -> None:
    products, count, multiplications = product_floor.products_of(update)
    assert count == 3
    assert multiplications == 7 * 3 * 5 + 7 * 5 * 2 + 5 * 7 * 3
    with product_floor.Watched() as watched:
        products()
    shapes = [[tuple(value.shape) for value in args] for _, args, _ in watched.products]
    assert shapes == [[(5,), (7, 3), (3, 5)], [(7, 5), (5, 2)], [(5, 7), (7, 3)]]
    assert watched.multiplications == multiplications


def test_operands_lie_as_they_did() -> None:
    turned = product_floor.alike(torch.ones(4, 6).T)
    assert turned.shape == (6, 4) and turned.stride() == (1, 6)
    assert product_floor.alike(2.5) == 2.5


def test_sides_go_both_ways_round() -> None:
    calls: list[str] = []
    sides = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    measured = product_floor.compare(sides, rounds=3, seconds=0.0)
    assert "".join(calls) == "abc" * 4 + "cba" * 4  # the first of each four is not timed
    assert [len(seconds) for seconds in measured.seconds.values()] == [6, 6, 6]


def test_numbers_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Released:
        def __init__(self, task: str) -> None:
            self.update = update

    monkeypatch.setattr(product_floor, "RESULTS", tmp_path)
    monkeypatch.setattr(product_floor, "our_update", lambda *_: update)
    monkeypatch.setattr(product_floor, "ReleasedStep", Released)
    product_floor.main(["--tasks", "sum", "--rounds", "3", "--seconds", "0", "--write"])
    assert "sum: 3 products" in capsys.readouterr().out
    kept = json.loads((tmp_path / "product_floor.json").read_text())
    assert kept["tasks"]["sum"]["products"] == 3
    assert len(kept["tasks"]["sum"]["seconds"]["products"]) == 6


def test_an_encoder_reads_strings_forward_and_backward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(product_floor, "RESULTS", tmp_path)
    sizes = ["--lengths", "12-16", "--strings", "3", "--rounds", "3", "--seconds", "0"]
    product_floor.main(["--encoders", "bbt_grc", *sizes, "--write"])
    printed = capsys.readouterr().out
    assert "ours / products" in printed and "released" not in printed
    kept = json.loads((tmp_path / "product_floor_encoders.json").read_text())
    assert kept["encoders"]["bbt_grc"]["multiplications"] > 1e6
