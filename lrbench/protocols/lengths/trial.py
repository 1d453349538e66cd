"""A run on strings of several lengths: its batches, its looks, and the states strings begin with.

Everything an update needs is a function of its number and of what a checkpoint keeps, so an
interrupted run resumes as if it had not been interrupted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from lrbench.config import Config
from lrbench.kernels.cross_entropy import mean_cross_entropy
from lrbench.mixers.states import changed
from lrbench.protocols.base import declared
from lrbench.protocols.fan2024.rules import LengthRules
from lrbench.protocols.lengths.scoring import final_targets, score_each, score_lengths
from lrbench.records import Look
from lrbench.tasks.base import Batch, LabelledTask
from lrbench.tasks.lengths import drawn_lengths, mixed_batch
from lrbench.tasks.stream import Stream
from lrbench.training.scoring import Score, pooled
from lrbench.training.trial import BatchTrial, Check


class LengthsTrial(BatchTrial):
    """A model in training on strings of several lengths."""

    one_by_one: ClassVar[str] = "the strings of an update have lengths of their own in each run"
    task: LabelledTask
    rules: LengthRules

    def __init__(self, config: Config, seed: int, device: torch.device | str = "cpu") -> None:
        super().__init__(config, seed, device)
        self.carried: list[Any] | None = None  # the states that the last update ended in
        self.order = (-1, torch.empty(0))  # of fixed strings: a pass, and its rows in order
        self.rules = self._new_rules()

    @property
    def steps(self) -> int:
        most: int = self.config.protocol.max_steps
        return most

    @property
    def look_due(self) -> bool:
        return self.step % self.config.protocol.look_every == 0 or self.step == self.steps

    @property
    def only_last(self) -> bool:
        """Whether the last answer of a string is all that is trained on."""
        return bool(self.config.protocol.ask == "last" and not self.task.averaged)

    def span(self, step: int) -> tuple[int, int]:
        """Return the shortest and the longest length of update `step`."""
        low, high = self.config.protocol.train_lengths
        growing = self.config.protocol.curriculum
        if step < growing:
            high = low + (high - low) * step // growing
        return low, high

    def batch(self, step: int) -> Batch:
        protocol = self.config.protocol
        size, stream = protocol.batch_size, self.stream("train")
        if protocol.train_strings:
            stream, at = replace(stream, rows=self._rows(step)), 0
        else:
            at = step
        batch = mixed_batch(self.task, stream, at, size, self.span(step), protocol.mix, self.device)
        if not self.only_last:
            return batch
        return Batch(batch.tokens, final_targets(batch), batch.lengths, batch.scored)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy over the supervised positions of a batch."""
        by_class = logits.flatten(0, 1).T.contiguous()
        smoothing = self.config.optim.label_smoothing
        return mean_cross_entropy(by_class, targets.flatten(), smoothing)

    def descend(self) -> Tensor:
        protocol = self.config.protocol
        if not (protocol.carry or protocol.state_noise):
            return super().descend()
        batch = self.batch(self.step)
        state = self._beginnings(len(batch.tokens))
        logits, after = self.model(batch.tokens, state, generator=self.generator)
        if protocol.carry:
            self.carried = changed(lambda tensor: tensor.detach().clone(), after)
        loss = self.loss(logits, batch.targets)
        loss.backward()
        return loss.detach()

    def look(self, check: Check) -> Look:
        """Score it at the lengths of looks, of training and, where a rule asks for it, the band."""
        protocol = self.config.protocol
        at = 0 if protocol.look.fixed else self.step
        scores, _ = self.scored(
            self.stream("look", at), protocol.look.lengths, protocol.look.strings, check
        )
        found: Look = {
            "step": self.step,
            "test_length": protocol.look.lengths[1],
            "test_accuracy": self._value(scores, check),
            "test_n": sum(one.n for one in scores),
        }
        spans = {"validation": protocol.train_lengths}
        if "band" in self.rules.names:
            spans["band"] = protocol.band
        for name, span in spans.items():
            scores, loss = self.scored(
                self.stream("validation", *span), span, protocol.validation_size, check
            )
            found |= {
                f"{name}_accuracy": pooled(scores),
                f"{name}_loss": loss,
                f"{name}_n": sum(one.n for one in scores),
            }
        return found | {"seconds": self.seconds}

    def scored(
        self, stream: Stream, span: list[int], strings: int, check: Check
    ) -> tuple[list[Score], float]:
        """Score strings with a drawn length each; return the scores by length and the loss."""
        lengths = drawn_lengths(self.task, stream, 0, strings, (span[0], span[1]), "row")
        return score_lengths(
            *(self.model, self.task, stream, lengths, self.device),
            only_last=self.only_last,
            check=check,
        )

    def ending(self, look: Look) -> str | None:
        protocol = self.config.protocol
        if protocol.stop == "threshold" and look["test_accuracy"] >= protocol.stop_at:
            return "perfect"
        return super().ending(look)

    def state(self) -> dict[str, Any]:
        return super().state() | ({} if self.carried is None else {"carried": self.carried})

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        kept = state.get("carried")
        self.carried = kept and changed(lambda tensor: tensor.to(self.device), kept)
        self.rules = self._new_rules(state["rules"])

    def _new_rules(self, kept: dict[str, Look] | None = None) -> LengthRules:
        names = declared(self.config.protocol.name).rules
        return LengthRules(kept, self.task.metric, names)

    def _value(self, scores: list[Score], check: Check) -> float:
        """Return what a look goes by: the accuracy, or the share that is right throughout."""
        protocol = self.config.protocol
        if protocol.score != "sequence" or not self.task.by_position:
            return pooled(scores)
        length = self.task.nearest_length(protocol.look.lengths[1])
        at = 0 if protocol.look.fixed else self.step
        whole = score_each(
            *(self.model, self.task, lambda _: self.stream("look", at), [length]),
            *(protocol.look.strings, self.device, check),
        )
        positions = whole[0].positions
        assert positions is not None
        return positions.sequence

    def _rows(self, step: int) -> tuple[int, ...]:
        """Return which of the fixed strings update `step` has: each once a pass, in a new order."""
        there, size = self.config.protocol.train_strings, self.config.protocol.batch_size
        rows: list[int] = []
        while len(rows) < size:
            turn, at = divmod((step - 1) * size + len(rows), there)
            if self.order[0] != turn:
                generator = torch.Generator().manual_seed(self.stream("order", turn).key)
                self.order = turn, torch.randperm(there, generator=generator)
            rows += self.order[1][at : at + size - len(rows)].tolist()
        return tuple(rows)

    def _beginnings(self, rows: int) -> list[Any]:
        """Return the states that the strings of an update begin with, of every layer."""
        protocol, model = self.config.protocol, self.model
        state = [mixer.initial_state(rows) for mixer in model.stateful]  # type: ignore[union-attr]
        if self.carried is not None:
            on = torch.rand(rows, generator=self.generator, device=self.device) < protocol.carry
            state = changed(lambda new, old: _where(on, old, new), state, self.carried)
        if protocol.state_noise:
            state = changed(self._noisy, state)
        return state

    def _noisy(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point() and not tensor.is_complex():
            return tensor
        noise = torch.randn(
            tensor.shape, generator=self.generator, device=tensor.device, dtype=tensor.dtype
        )
        deviation: float = self.config.protocol.state_noise
        return tensor + deviation * noise


def _where(on: Tensor, old: Tensor, new: Tensor) -> Tensor:
    """Return the rows of `old` where `on` (B,), else those of `new`."""
    return torch.where(on.view(-1, *[1] * (new.dim() - 1)), old, new)
