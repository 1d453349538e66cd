"""One run's update on several cores: the gradients of a batch's parts, each from its own process.

Threads gain little where an update is thousands of short operations. So a batch is divided into
parts, and the processes of `worker.py` compute the gradients of all but the first. Each process
gets the weights with every order, and this one adds the gradients in the order of the parts. So
the sum has the same bits however many processes there are, if each has the same number of threads.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from lrbench.records import Look
from lrbench.training.group.processes import Crew, Failed, receive, send
from lrbench.training.trial import Trial


@dataclass(frozen=True)
class Order:
    """What a process computes: some parts of the batch of update `step`, with these weights."""

    seed: int
    step: int
    parts: tuple[int, ...]
    weights: dict[str, Tensor]


@dataclass(frozen=True)
class Share:
    """What a part adds to an update: its loss, and a gradient for each parameter that has one."""

    loss: Tensor
    gradients: list[Tensor | None]


class PartTrial(Trial):
    """A trial whose batches can be divided into parts. Its modules keep nothing from an update."""

    _together: Together | None = None

    @abstractmethod
    def descend_part(self, part: int) -> Tensor:
        """Add the gradients of a part to the weights'; return its share of the loss, detached.

        The shares of all parts add up to the loss of the batch. What is drawn at random depends on
        the seed, the update and the part alone.
        """

    def share(self, part: int) -> Share:
        """Return what a part adds; the weights have no gradients before and after."""
        loss = self.descend_part(part)
        gradients = [weight.grad for weight in self.model.parameters()]
        self.optimiser.zero_grad(set_to_none=True)
        return Share(loss, gradients)

    def descend_in_parts(self, parts: int) -> Tensor:
        """Set the gradients of the whole batch; return its loss, detached.

        Raises what a process raises, and RuntimeError where one has died.
        """
        processes = min(parts, self.config.threads) if self.device.type == "cpu" else 1
        if processes == 1:
            shares = [self.share(part) for part in range(parts)]
        else:
            if self._together is None:
                self._together = Together(self, processes)
            shares = self._together.shares(self, parts)
        for at, weight in enumerate(self.model.parameters()):
            found = [share.gradients[at] for share in shares]
            weight.grad = _sum([one for one in found if one is not None])
        return torch.stack([share.loss for share in shares]).sum()

    def heed(self, look: Look) -> list[str]:
        believed = super().heed(look)
        if self.stopped is not None and self._together is not None:
            self._together.close()
            self._together = None
        return believed


class Together:
    """This process and others, which compute parts of a trial's batches at once."""

    def __init__(self, trial: PartTrial, processes: int) -> None:
        self.threads = trial.config.threads // processes
        self.crew = Crew([trial], processes - 1, self.threads)
        self.others = list(self.crew.processes)
        self.close = weakref.finalize(trial, self.crew.end)  # at the latest when the trial is gone

    def shares(self, trial: PartTrial, parts: int) -> list[Share]:
        """Return what each part adds to the update that `trial` is at, in the order of the parts.

        Raises what a process raised, and RuntimeError where one has died.
        """
        places = len(self.others) + 1
        weights = {name: weight.detach() for name, weight in trial.model.state_dict().items()}
        for place, other in enumerate(self.others, 1):
            order = Order(trial.seed, trial.step, tuple(range(place, parts, places)), weights)
            self._reach(other, partial(send, message=order))
        found: dict[int, Share] = {}
        with _threads(self.threads):
            for part in range(0, parts, places):
                found[part] = trial.share(part)
        for place, other in enumerate(self.others, 1):
            shares = self._reach(other, receive)
            found |= zip(range(place, parts, places), shares, strict=True)
        return [found[part] for part in range(parts)]

    def _reach(self, other: Connection, do: Callable[[Connection], Any]) -> Any:
        """Send to, or hear from, another process."""
        try:
            answer = do(other)
            if answer == "ready":  # it said so once, when it had started
                answer = do(other)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            how = self.crew.gone(other)
            raise RuntimeError(
                f"a process that computes parts of updates ended with {how}"
            ) from None
        if isinstance(answer, Failed):
            raise answer.error
        return answer


def answer(trial: PartTrial, order: Order) -> list[Share]:
    """Return what the parts of an order add, with the weights of the order."""
    trial.step = order.step
    trial.model.load_state_dict(order.weights)
    return [trial.share(part) for part in order.parts]


def _sum(gradients: Sequence[Tensor]) -> Tensor | None:
    """Add gradients in their order; None of none."""
    if not gradients:
        return None
    total = gradients[0]
    for gradient in gradients[1:]:
        total = total + gradient
    return total


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
