"""Files like those of MNIST, with strokes instead of digits: a column of ink for each label."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
NAMES += ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: NDArray[np.uint8]) -> bytes:
    """The bytes of an IDX file."""
    head = struct.pack(">HBB", 0, 8, array.ndim)
    return head + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def sample(count: int, first: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (count, 28, 28) and labels: image i has its own first pixel and ink where it says."""
    labels = ((np.arange(count) + first) % 10).astype(np.uint8)
    images = np.zeros((count, 28, 28), np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:, 2 * label : 2 * label + 3] = 255
    images[:, 0, 27] = np.arange(count) + first
    return images, labels


def write(folder: Path, train: int = 60, test: int = 20, compressed: bool = False) -> Path:
    """Write the four files into folder/mnist; return the folder (LRBENCH_DATA)."""
    place = folder / "mnist"
    place.mkdir(parents=True)
    arrays = (*sample(train), *sample(test, first=3))
    for name, array in zip(NAMES, arrays, strict=True):
        data = idx(array)
        path = place / (f"{name}.gz" if compressed else name)
        path.write_bytes(gzip.compress(data) if compressed else data)
    return folder
