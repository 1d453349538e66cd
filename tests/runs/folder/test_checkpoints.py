"""A checkpoint is whole, harmless and equal to what was saved, or it is refused."""

from __future__ import annotations

import os
import pickle
import random
import resource
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lrbench.runs.folder import checkpoints, files
from lrbench.runs.folder.files import UnreadableFile


def small_state(step: int = 7) -> dict[str, Any]:
    model = nn.Linear(2, 3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    return {
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "step": step,
        "rng": {"torch": torch.get_rng_state()[:16], "python": random.getstate()[0]},
        "best": np.float64(0.5),
        "looks": [(1, None), {"value": float("nan")}],
    }


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b or (a != a and b != b))


class Payload:
    """Pickled code that leaves a file behind if anything runs it."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.witness),)


def test_round_trip_and_plain_torch_load(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    state = small_state()
    checkpoints.save(path, state)
    assert same(checkpoints.load(path), state)
    assert same(torch.load(path, weights_only=True), state)
    assert type(checkpoints.load(path)["best"]) is float


def test_optimiser_continues_bit_for_bit(tmp_path: Path) -> None:
    def train(model: nn.Module, optimiser: torch.optim.Optimizer, updates: int) -> None:
        for _ in range(updates):
            optimiser.zero_grad()
            model(torch.linspace(0, 1, 8).view(4, 2)).square().sum().backward()
            optimiser.step()

    torch.manual_seed(0)
    straight = nn.Linear(2, 3)
    optimiser = torch.optim.AdamW(straight.parameters(), lr=0.1)
    train(straight, optimiser, 5)
    state = {"model": straight.state_dict(), "optimiser": optimiser.state_dict()}
    checkpoints.save(tmp_path / "a.pt", state)
    train(straight, optimiser, 5)

    resumed = nn.Linear(2, 3)
    optimiser = torch.optim.AdamW(resumed.parameters(), lr=0.1)
    state = checkpoints.load(tmp_path / "a.pt")
    resumed.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    train(resumed, optimiser, 5)
    assert same(resumed.state_dict(), straight.state_dict())


@pytest.mark.slow
def test_flipped_bit_is_found_or_harmless(tmp_path: Path) -> None:
    """Every bit of the zip's directory, which no checksum covers, one of each other byte."""
    path = tmp_path / "a.pt"
    state = {"model": {"weight": torch.arange(12.0).view(3, 4)}, "step": 3}
    checkpoints.save(path, state)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        directory = archive.start_dir
    rng = random.Random(0)
    flips = [(position, rng.randrange(8)) for position in range(directory)]
    flips += [(position, bit) for position in range(directory, len(data)) for bit in range(8)]
    refused = 0
    for position, bit in flips:
        damaged = bytearray(data)
        damaged[position] ^= 1 << bit
        path.write_bytes(damaged)
        try:
            assert same(checkpoints.load(path), state), f"bit {bit} of byte {position}"
        except UnreadableFile:
            refused += 1
    assert refused > len(flips) // 4  # the rest is padding between the entries


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"step": float("nan")}, "its step is a float"),
        ({"step": True}, "its step is a bool"),
        ({"step": torch.tensor([1, 2])}, "its step is a Tensor"),
        ({"model": [1]}, "its model is a list"),
        ({"model": {"w": torch.eye(3).to_sparse()}}, "its weight 'w' is not all there"),
        ({"model": {"w": torch.zeros(1).expand(10**5, 10**5)}}, "its weight 'w' is not all there"),
    ],
)
def test_parts_of_another_kind_are_found(state: Any, reason: str, tmp_path: Path) -> None:
    """A stranger's file may say that it is an update, or hold a terabyte, and be neither."""
    path = tmp_path / "a.pt"
    torch.save(state, path)
    with pytest.raises(UnreadableFile, match=reason):
        checkpoints.load(path)


def test_truncation_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    checkpoints.save(path, small_state())
    data = path.read_bytes()
    for length in [*range(0, len(data), 97), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(UnreadableFile, match="empty" if length == 0 else "cut short"):
            checkpoints.load(path)


def test_flipped_weight_names_the_entry(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    checkpoints.save(path, {"weight": torch.full((64,), 1.25)})
    data = bytearray(path.read_bytes())
    data[data.index(np.full(64, 1.25, np.float32).tobytes()) + 9] ^= 1
    path.write_bytes(data)
    with pytest.raises(UnreadableFile, match=r"wrong checksum of .*data/0"):
        checkpoints.load(path)


def test_code_is_refused_and_not_run(tmp_path: Path) -> None:
    witness, path = tmp_path / "ran", tmp_path / "a.pt"
    torch.save({"model": Payload(witness)}, path)
    with pytest.raises(UnreadableFile, match="not a checkpoint"):
        checkpoints.load(path)
    path.write_bytes(pickle.dumps(Payload(witness)))
    with pytest.raises(UnreadableFile):
        checkpoints.load(path)
    assert not witness.exists()
    with pytest.raises(TypeError, match=r"state\.model is a Payload"):
        checkpoints.save(path, {"model": Payload(witness)})


def test_other_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save([1, 2], path)
    with pytest.raises(UnreadableFile, match="a list, not a dictionary"):
        checkpoints.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "not torch's")
    with pytest.raises(UnreadableFile):
        checkpoints.load(path)
    with pytest.raises(UnreadableFile, match="no such file"):
        checkpoints.load(tmp_path / "none.pt")
    with pytest.raises(UnreadableFile, match="is a directory"):
        checkpoints.load(tmp_path)


def test_plain_converts_what_it_can() -> None:
    shared = nn.Parameter(torch.ones(3))
    found = checkpoints.plain(
        {
            "numpy": [np.float32(0.5), np.int64(3), np.bool_(True)],
            "ordered": OrderedDict(a=torch.Size([2, 3])),
            0: shared,
        }
    )
    assert found["numpy"] == [0.5, 3, True]
    assert [type(value) for value in found["numpy"]] == [float, int, bool]
    assert type(found["ordered"]) is dict
    assert type(found["ordered"]["a"]) is tuple
    assert type(found[0]) is torch.Tensor
    assert not found[0].requires_grad


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, np.zeros(2)]}, r"state\.a\[1\] is a ndarray"),
        ({"a": {1, 2}}, r"state\.a is a set"),
        ({"a": Path("x")}, r"state\.a is a \w*Path"),
        ({"a": {(1, 2): 3}}, r"state\.a has the key \(1, 2\)"),
        ({"a": {True: 3}}, r"state\.a has the key True"),
        ({"a": torch.ones(2).to_sparse()}, r"state\.a is a Tensor"),
    ],
)
def test_plain_names_what_it_cannot(value: object, where: str) -> None:
    with pytest.raises(TypeError, match=where):
        checkpoints.plain(value)


def test_view_is_saved_without_its_storage(tmp_path: Path) -> None:
    """One trial of a group is a row of the stacked parameters."""
    stacked = torch.arange(40_000.0).view(4, 10_000)
    views = {"row": stacked[2], "expanded": torch.ones(1).expand(5), "transposed": stacked.T}
    checkpoints.save(tmp_path / "a.pt", {"row": views["row"]})
    assert (tmp_path / "a.pt").stat().st_size < 50_000
    checkpoints.save(tmp_path / "a.pt", views)
    back = checkpoints.load(tmp_path / "a.pt")
    assert same(back, views)
    back["expanded"][0] = 2.0
    assert back["expanded"].tolist() == [2.0, 1.0, 1.0, 1.0, 1.0]


def test_full_disk_is_an_os_error_and_keeps_the_old(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    checkpoints.save(path, {"step": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            checkpoints.save(path, {"step": 2, "weight": torch.ones(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert checkpoints.load(path) == {"step": 1}
    assert [found.name for found in tmp_path.iterdir()] == ["last.pt"]


def test_step_names_sort_by_number(tmp_path: Path) -> None:
    assert checkpoints.step_name(1000) == "step-00001000.pt"
    for step in (5, 10**8, 40, 99_999_999):
        checkpoints.save(tmp_path / checkpoints.step_name(step), {"step": step})
    for name in ("best.pt", "step-1.pt", ".step-00000001.pt.1.tmp"):
        (tmp_path / name).touch()
    found = checkpoints.steps(tmp_path)
    assert [checkpoints.load(path)["step"] for path in found] == [5, 40, 99_999_999, 10**8]
    with pytest.raises(ValueError, match="-1"):
        checkpoints.step_name(-1)


def test_newest_valid_falls_back_and_says_why(tmp_path: Path) -> None:
    assert checkpoints.newest_valid(tmp_path / "none") is None
    assert checkpoints.newest_valid(tmp_path) is None
    for step in (1, 2, 3, 4):
        checkpoints.save(tmp_path / checkpoints.step_name(step), {"step": step})
    cut = tmp_path / checkpoints.step_name(4)
    cut.write_bytes(cut.read_bytes()[:-30])
    bad: list[tuple[str, str]] = []
    found = checkpoints.newest_valid(
        tmp_path,
        is_valid=lambda state: state["step"] != 3,
        on_bad=lambda path, reason: bad.append((path.name, reason)),
    )
    assert found == (tmp_path / "step-00000002.pt", {"step": 2})
    assert [name for name, _ in bad] == ["step-00000004.pt", "step-00000003.pt"]
    assert "cut short" in bad[0][1]
    assert bad[1][1] == "of another run, or weights that its rules kept are gone"
    assert checkpoints.newest_valid(tmp_path, is_valid=lambda state: False) is None


def test_prune_keeps_the_newest_and_the_named(tmp_path: Path) -> None:
    for step in range(1, 6):
        files.write_bytes(tmp_path / checkpoints.step_name(step), b"")
    (tmp_path / "best.pt").touch()
    checkpoints.prune(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["best.pt", "step-00000004.pt", "step-00000005.pt"]
    checkpoints.prune(tmp_path, keep=5)
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(ValueError, match="keep"):
        checkpoints.prune(tmp_path, keep=0)


def test_a_pipe_in_the_place_of_a_checkpoint_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "best.pt")
    with pytest.raises(UnreadableFile, match="not a plain file"):
        checkpoints.load(tmp_path / "best.pt")
