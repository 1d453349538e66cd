"""The four files of MNIST: their names, mirrors and reader.

LeCun, Cortes & Burges, "The MNIST database of handwritten digits". An IDX file is two zero bytes,
the type (8: unsigned bytes), the number of dimensions, each size as four bytes, the highest first,
then the numbers.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lrbench.errors import UserError
from lrbench.tasks.corpus.downloads import Download

FOLDER = "mnist"  # in the folder of data
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)
FILES = (
    Download(
        "train-images-idx3-ubyte.gz",
        9_912_422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    Download(
        "train-labels-idx1-ubyte.gz",
        28_881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    Download(
        "t10k-images-idx3-ubyte.gz",
        1_648_877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    Download(
        "t10k-labels-idx1-ubyte.gz",
        4_542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
)


UNSIGNED_BYTES = 8


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Return the array in an IDX file of unsigned bytes, which may be compressed (.gz).

    Raises UserError for a file that is damaged, cut short, too long or of other dimensions.
    """
    data = _content(path)
    head = 4 + 4 * dimensions
    if len(data) < head:
        raise _damaged(path, f"it ends after {len(data)} bytes, before its sizes do")
    magic = struct.unpack(">HBB", data[:4])
    if magic != (0, UNSIGNED_BYTES, dimensions):
        wanted = bytes((0, 0, UNSIGNED_BYTES, dimensions)).hex()
        raise _damaged(path, f"it begins with {data[:4].hex()}, not {wanted}")
    sizes = struct.unpack(f">{dimensions}I", data[4:head])
    there, stated = len(data) - head, math.prod(sizes)
    if there != stated:
        raise _damaged(path, f"its sizes {sizes} ask for {stated:,} bytes, it has {there:,}")
    return np.frombuffer(data, np.uint8, offset=head).reshape(sizes)


def _content(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(path, f"it cannot be unpacked: {error}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def _damaged(path: Path, why: str) -> UserError:
    return UserError(
        f"{path} is no IDX file as it should be: {why}\nremove it and get it again, or another copy"
    )
