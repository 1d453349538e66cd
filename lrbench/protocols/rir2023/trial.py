"""A run over a corpus: epochs in batches of similar length, and a dev score that decides.

Source: Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), appendix, and their released code:
the strings of an epoch are shuffled; of every 5 batches in a row (a bucket) the strings are sorted
by length and cut into batches. A pair counts as the tokens of both and a separator.

Differences: all batches of an epoch are shuffled together. In the released code those of a bucket
are, and buckets follow one another, so that 5 updates in a row have a batch of each fifth of the
lengths (`protocol.order=bucket`). A string in a short last piece of a batch weighs as much as any
other; there it does not. With `protocol.micro_batch` a batch, of one length or nearly, is cut into
pieces. There a bucket is 5 pieces, sorted and shuffled as batches are otherwise, and an update has
the next pieces, of any two fifths of the lengths.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from lrbench.config import Config
from lrbench.protocols.rir2023.rules import DevRules
from lrbench.protocols.rir2023.scores import Rows, score_split, strings_at
from lrbench.records import Look
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.corpus.task import CorpusTask, shuffled
from lrbench.tasks.stream import Stream
from lrbench.training.group.parts import PartTrial
from lrbench.training.trial import Check

LONG_PAIR = 70  # tokens of a side: from there on a piece of pairs is halved


class EpochTrial(PartTrial):
    """A model in training on the splits of a corpus.

    Which strings an update has is a function of the data seed and the update: a run that resumes in
    the middle of an epoch goes on with the next batch.
    """

    task: CorpusTask
    rules: DevRules
    one_by_one = "runs over a corpus are trained one by one"

    def __init__(self, config: Config, seed: int, device: torch.device | str = "cpu") -> None:
        super().__init__(config, seed, device)
        self.train = self.task.load(config.protocol.train_split)
        self.rules = DevRules(select_by=config.protocol.select_by)

    @property
    def updates_per_epoch(self) -> int:
        """How many updates go through the training split once."""
        updates: int = self.config.protocol.updates_per_epoch(len(self.train))
        return updates

    @property
    def epoch(self) -> float:
        return round(self.step / self.updates_per_epoch, 3)

    @property
    def steps(self) -> int:
        most: int = self.config.protocol.updates(len(self.train))
        return most

    @property
    def look_due(self) -> bool:
        return self.step % self.updates_per_epoch == 0 or self.step == self.steps

    @property
    def rate(self) -> float:
        """The learning rate of the current update, as often reduced as the dev score asked for."""
        if self.config.optim.schedule == "plateau":
            return self.config.optim.lr * self.rules.reduction
        return super().rate

    def rows(self, step: int) -> Rows:
        """Return the strings of update `step` (1, 2, ..), as rows of the training split."""
        epoch, place = divmod(step - 1, self.updates_per_epoch)
        protocol = self.config.protocol
        stream = self.stream("train", protocol.train_split)
        cut = protocol.batch_size, protocol.bucket, protocol.order
        return _epoch(stream, epoch, _Sized(self.train), *cut)[place]

    def look(self, check: Check) -> Look:
        """Examine it on its dev split as it is now."""
        dev = self.task.load(self.config.protocol.dev_split)
        score = score_split(self.model, dev, self.device, check)
        return {
            "step": self.step,
            "epoch": self.epoch,
            "validation_accuracy": score.accuracy,
            "validation_loss": score.loss,
            "validation_n": score.n,
            "seconds": self.seconds,
        }

    def descend(self) -> Tensor:
        """Go through the batch of the update, in parts or whole, piece by piece."""
        parts: int = self.config.protocol.parts
        if parts > 1:
            return self.descend_in_parts(parts)
        rows = self.rows(self.step)
        return self._descend(rows, len(rows), self.generator)

    def descend_part(self, part: int) -> Tensor:
        """Go through every so many-th string of the batch: all parts are as long."""
        rows = self.rows(self.step)
        noise = self.task.stream(self.seed, "noise", self.step, part).key
        generator = torch.Generator(self.device).manual_seed(noise)
        return self._descend(rows[part :: self.config.protocol.parts], len(rows), generator)

    def _descend(self, rows: Rows, batch: int, generator: torch.Generator) -> Tensor:
        total = torch.zeros((), device=self.device)
        for piece in self._pieces(rows):
            loss = self.piece_loss(piece, generator) * (len(piece) / batch)
            loss.backward()
            total += loss.detach()
        return total

    def piece_loss(self, rows: Rows, generator: torch.Generator) -> Tensor:
        """Return the mean cross-entropy of some training strings, with dropout."""
        inputs, labels = strings_at(self.train, rows, self.device)
        logits = self.model(*inputs, generator=generator)
        return cross_entropy(logits, labels, label_smoothing=self.config.optim.label_smoothing)

    def _pieces(self, rows: Rows) -> list[Rows]:
        """Cut a batch, or a part of one, into what is held in memory at once."""
        size = self.config.protocol.micro_batch or len(rows) or 1
        pieces = [rows[start : start + size] for start in range(0, len(rows), size)]
        if self.train.sides == 1:
            return pieces
        halved: list[Rows] = []
        for piece in pieces:
            longest = self.train.lengths[piece].max()
            halved += np.array_split(piece, 2 if longest >= LONG_PAIR and len(piece) > 1 else 1)
        return halved

    def ending(self, look: Look) -> str | None:
        if self.rules.waited > self.config.protocol.patience:
            return "patience"
        return super().ending(look)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "selection": self.rules.selection()}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        select_by = self.config.protocol.select_by
        self.rules = DevRules.restored(state["rules"], state["selection"], select_by)


class _Sized:
    """The sizes of strings that batches are sorted by; equal for the same arrays."""

    def __init__(self, strings: Strings) -> None:
        self.strings = strings

    def __hash__(self) -> int:
        return id(self.strings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sized) and other.strings is self.strings

    @property
    def sizes(self) -> Rows:
        """Tokens of each string; of a pair, of both and a separator."""
        lengths = self.strings.lengths
        return lengths if lengths.ndim == 1 else lengths.sum(1) + 1


@lru_cache(maxsize=32)
def _epoch(
    stream: Stream, epoch: int, sized: _Sized, batch: int, bucket: int, order: str
) -> list[Rows]:
    """Return the batches of an epoch in order."""
    sizes = sized.sizes
    drawn = shuffled(stream, 2 * epoch, len(sizes)).numpy()
    batches: list[Rows] = []
    for start in range(0, len(drawn), bucket * batch):
        together = drawn[start : start + bucket * batch]
        together = together[np.argsort(sizes[together], kind="stable")]
        batches += [together[at : at + batch] for at in range(0, len(together), batch)]
    places = shuffled(stream, 2 * epoch + 1, len(batches)).numpy()
    if order == "bucket":
        places = places[np.argsort(places // bucket, kind="stable")]
    return [batches[at] for at in places]
