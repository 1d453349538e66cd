"""Permuted sequential MNIST: the digit after its 784 pixels, read in a scrambled order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrbench.errors import UserError
from lrbench.locations import data_dir
from lrbench.registry import register_task
from lrbench.tasks.base import IGNORE
from lrbench.tasks.series.base import SeriesTask, permutation
from lrbench.tasks.series.mnist import FOLDER, read_idx
from lrbench.tasks.stream import Stream

SIDE, DIGITS = 28, 10
PIXELS = SIDE * SIDE

FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
VALIDATION = 6  # the last sixth of the training file: 10,000 of 60,000
PERMUTATION_SEED = 0


@dataclass
class PsmnistConfig:
    """`psmnist` has no settings; where its files are is no part of a configuration."""

    name: str = "psmnist"


@register_task("psmnist", PsmnistConfig, "permuted sequential MNIST (Chilkuri & Eliasmith 2021)")
class Psmnist(SeriesTask):
    """psMNIST: 784 pixels from 0 to 1, all in one scrambled order; the digit is asked at the end.

    50,000 images for training, 10,000 for validation (the last of the training file) and the 10,000
    of the test file. Read from IDX files, .gz or not, in mnist/ of the folder of data: data/ of the
    current folder, or LRBENCH_DATA. A shorter string is the beginning of the scrambled pixels.

    Source: Chilkuri & Eliasmith 2021 (arXiv:2102.11417), section 4.1. Their permutation, that of
    Chandar et al. 2019 and Voelker et al. 2019, is not printed; ours is another, drawn once from a
    seed of its own, the same for every run. No permutation is known to be easier than others.
    """

    features = 1
    longest = PIXELS

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.class_names = tuple(str(digit) for digit in range(DIGITS))
        self.folder = data_dir() / FOLDER
        for name in (*FILES["train"], *FILES["test"]):
            _file(self.folder, name)

    def count(self, split: str) -> int:
        return len(self._split(split)[1])

    def _split(self, split: str) -> tuple[Tensor, Tensor]:
        """Return (scrambled pixels (N, 784) as bytes, digits (N,))."""
        images, labels = scrambled(self.folder, "test" if split == "test" else "train")
        kept = len(labels) // VALIDATION
        part = {"train": slice(0, -kept), "validation": slice(-kept, None)}.get(split, slice(None))
        return images[part], labels[part]

    def _inputs(self, split: str, rows: Tensor, start: int, stop: int) -> Tensor:
        return self._split(split)[0][rows, start:stop, None].float() / 255

    def _targets(self, split: str, rows: Tensor, start: int, stop: int, length: int) -> Tensor:
        targets = torch.full((len(rows), stop - start), IGNORE)
        if stop == length:
            targets[:, -1] = self._split(split)[1][rows]
        return targets

    def baselines(self, length: int) -> dict[str, float]:
        """Guess any digit, and the commonest of the training split."""
        commonest = Counter(self._split("train")[1].tolist()).most_common(1)[0][0]
        hits = self._split("test")[1] == commonest
        return {"uniform": 1 / DIGITS, "majority": float(hits.double().mean())}


@lru_cache(maxsize=4)
def scrambled(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    """Return (pixels in the scrambled order (N, 784) uint8, digits (N,) int64) of a pair of files.

    Raises UserError for files that are missing, damaged or do not belong together.
    """
    images_file, labels_file = (_file(folder, name) for name in FILES[part])
    images, labels = read_idx(images_file, 3), read_idx(labels_file, 1)
    if images.shape[1:] != (SIDE, SIDE):
        raise UserError(f"{images_file}: images of {images.shape[1:]} pixels, not {(SIDE, SIDE)}")
    if len(images) != len(labels) or len(labels) < VALIDATION:
        raise UserError(
            f"{images_file} has {len(images):,} images, {labels_file.name} {len(labels):,} labels\n"
            f"there must be as many, and at least {VALIDATION}"
        )
    if labels.max() >= DIGITS:
        raise UserError(f"{labels_file}: a label of {labels.max()}, not 0 to {DIGITS - 1}")
    order = permutation(Stream.named(PERMUTATION_SEED, "psmnist", "permutation").key, 0, PIXELS)
    pixels = torch.from_numpy(np.array(images).reshape(len(images), PIXELS))
    return pixels[:, order], torch.from_numpy(labels.astype(np.int64))


def _file(folder: Path, name: str) -> Path:
    """Return the file, plain or compressed; UserError where there is neither."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise UserError(
        f"task psmnist: there is no {name}[.gz] in {folder}\n"
        "get the four files with: lrbench data fetch psmnist\n"
        f"or put the IDX files of MNIST there, or name the folder that holds {FOLDER}/ with"
        " LRBENCH_DATA"
    )
