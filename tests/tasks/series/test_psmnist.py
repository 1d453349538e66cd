"""psMNIST on made-up images: what is read, in which order, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lrbench.errors import UserError
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE
from lrbench.tasks.baselines import measure_baselines
from lrbench.tasks.series.psmnist import Psmnist
from tests import made_up_mnist
from tests.made_up_mnist import NAMES, idx, sample

PLACE = 94  # where the scrambled order has the 28th pixel, which numbers the made-up images


def task() -> Psmnist:
    made = make_task(TASKS.get("psmnist").config())
    assert isinstance(made, Psmnist)
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path / "data"))
    return made_up_mnist.write(tmp_path / "data") / "mnist"


def test_images_are_all_scrambled_in_one_order(folder: Path) -> None:
    made = task()
    batch = made.sample(made.stream(0, "test"), 0, 20, 784, "cpu")
    images, labels = sample(20, first=3)
    pixels = torch.from_numpy(images.reshape(20, 784).astype(np.float32) / 255)
    assert batch.tokens.shape == (20, 784, 1) and batch.tokens.dtype == torch.float32
    scrambled = batch.tokens[..., 0]
    assert not torch.equal(scrambled, pixels)
    assert torch.equal(scrambled.sort(1).values, pixels.sort(1).values)
    columns = sorted(map(tuple, pixels.T.tolist()))
    assert sorted(map(tuple, scrambled.T.tolist())) == columns
    assert batch.targets[:, -1].tolist() == labels.tolist()
    assert (batch.targets[:, :-1] == IGNORE).all()


def test_the_order_never_changes(folder: Path) -> None:
    """With another order old results would be of another task."""
    made = task()
    tokens = made.sample(made.stream(0, "test"), 0, 20, 784, "cpu").tokens[..., 0]
    [place] = ((tokens.T * 255).round() == torch.arange(3.0, 23.0)).all(1).nonzero()[:, 0].tolist()
    assert place == PLACE


def test_the_last_sixth_of_training_is_for_validation(folder: Path) -> None:
    made = task()
    assert [made.count(split) for split in ("train", "validation", "test")] == [50, 10, 20]
    numbers = {}
    for split, count in (("train", 50), ("validation", 10)):
        tokens = made.sample(made.stream(0, split), 1, count, 784, "cpu").tokens
        numbers[split] = sorted((tokens[:, PLACE, 0] * 255).round().int().tolist())
    assert numbers == {"train": list(range(50)), "validation": list(range(50, 60))}


def test_pieces_and_beginnings_ask_at_their_last_position(folder: Path) -> None:
    made = task()
    stream = made.stream(0, "test")
    whole = made.sample(stream, 0, 4, 30, "cpu")
    assert (whole.targets != IGNORE).sum(1).tolist() == [1] * 4
    assert (whole.targets[:, -1] != IGNORE).all()
    pieces = list(made.segments(stream, 4, 30, 7, "cpu"))
    assert torch.equal(torch.cat([piece.tokens for piece in pieces], 1), whole.tokens)
    assert torch.equal(torch.cat([piece.targets for piece in pieces], 1), whole.targets)


def test_baselines_know_no_image(folder: Path) -> None:
    made = task()
    rows = measure_baselines(made, made.stream(0, "baseline"), 784, 100, "cpu")
    assert {row["baseline"]: row["value"] for row in rows} == {"uniform": 0.1, "majority": 0.1}


def test_compressed_files_are_read_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    plain = task().sample(task().stream(0, "test"), 0, 20, 784, "cpu")
    monkeypatch.setenv("LRBENCH_DATA", str(made_up_mnist.write(tmp_path / "gz", compressed=True)))
    packed = task().sample(task().stream(0, "test"), 0, 20, 784, "cpu")
    assert torch.equal(plain.tokens, packed.tokens)


def test_without_files_both_ways_to_get_them_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LRBENCH_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        task()
    reported = str(error.value)
    assert (
        "data/mnist" in reported
        and "lrbench data fetch psmnist" in reported
        and "LRBENCH_DATA" in reported
    )
    assert len(reported.splitlines()) <= 6


@pytest.mark.parametrize(
    ("name", "array", "why"),
    [
        (NAMES[2], np.zeros((20, 27, 28), np.uint8), "images of \\(27, 28\\) pixels"),
        (NAMES[3], np.zeros(19, np.uint8), "20 images, .* 19 labels"),
        (NAMES[3], np.full(20, 10, np.uint8), "a label of 10"),
        (NAMES[3], np.zeros((20, 1), np.uint8), "begins with 00000802"),
    ],
    ids=["pixels", "labels", "digit", "dimensions"],
)
def test_files_that_are_no_mnist_are_refused(
    folder: Path, name: str, array: np.ndarray, why: str
) -> None:
    (folder / name).write_bytes(idx(array))
    made = task()
    with pytest.raises(UserError, match=why):
        made.sample(made.stream(0, "test"), 0, 1, 784, "cpu")
