"""Text and Retrieval of Long Range Arena as tasks: documents of bytes, and pairs of them.

Source: Tay et al. 2021, "Long Range Arena: a benchmark for efficient transformers"; cut as in Ray
Chowdhury & Caragea 2023 (arXiv:2311.04449), Table 4. The files are not shipped and not downloaded:
lrbench/tasks/lra/splits.py says which there have to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lrbench.checks import between
from lrbench.errors import UserError
from lrbench.registry import register_task
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.corpus.task import CorpusTask
from lrbench.tasks.lra.released import FEELINGS, LINKS, LONGEST, VOCABULARY
from lrbench.tasks.lra.splits import load, shortened


@dataclass
class LraTextConfig:
    """Settings of `lra_text`.

    longest: bytes of a review that are read, at most; 4096 as in Ray Chowdhury & Caragea 2023.
    """

    name: str = "lra_text"
    longest: int = 4096  # LONGEST, written out for completion, which reads the source

    def __post_init__(self) -> None:
        between("task.longest", self.longest, 1, LONGEST)


@dataclass
class LraRetrievalConfig:
    """Settings of `lra_retrieval`.

    longest: bytes of a document that are read, at most; 4096 as in Ray Chowdhury & Caragea 2023,
    4000 in Long Range Arena.
    """

    name: str = "lra_retrieval"
    longest: int = 4096  # LONGEST, written out for completion, which reads the source

    def __post_init__(self) -> None:
        between("task.longest", self.longest, 1, LONGEST)


class Bytes(CorpusTask):
    """Documents of bytes with answers that people gave, so that no rule computes them."""

    def __init__(self, config: LraTextConfig | LraRetrievalConfig) -> None:
        super().__init__(config)
        self.vocabulary = VOCABULARY

    def read(self, split: str) -> Strings:
        return shortened(load(self.name, split), self.config.longest)

    def tokens_of(self, text: str) -> list[int]:
        """Return the bytes of a text, UTF-8, as many as are read; UserError for an empty one."""
        if not text:
            raise UserError(f"an empty string; {self.name} reads any text, byte by byte")
        return list(text.encode("utf-8", "surrogateescape")[: self.config.longest])

    def answer(self, *sides: Sequence[int]) -> None:
        """Return nothing: what a document means is not computed."""


@register_task("lra_text", LraTextConfig, "byte-level film reviews (Long Range Arena, 2021)")
class LraText(Bytes):
    """Text of Long Range Arena: is a film review, read byte by byte, negative or positive?

    Splits: train, dev, test; train_all is train and dev. The reviews are those of Maas et al. 2011,
    which whoever trains on them has to get (`lrbench data fetch lra_text` says where).
    """

    def __init__(self, config: LraTextConfig) -> None:
        super().__init__(config)
        self.class_names = FEELINGS


@register_task(
    "lra_retrieval", LraRetrievalConfig, "byte-level pairs of papers (Long Range Arena, 2021)"
)
class LraRetrieval(Bytes):
    """Retrieval of Long Range Arena: are two papers, read byte by byte, linked by a citation?

    Splits: train, dev, test. The papers are those of the ACL Anthology Network as Long Range Arena
    released them (`lrbench data fetch lra_retrieval` says where).
    """

    sides = 2

    def __init__(self, config: LraRetrievalConfig) -> None:
        super().__init__(config)
        self.class_names = LINKS
