"""torch's Adam, AdamW and RAdam without its compiler, and Ranger: RAdam with Lookahead.

torch puts wrappers for its compiler around the methods of its optimisers. The first call of a
wrapper imports the compiler, which takes 2.4 s, nearly half of a short run. lrbench does not use
the compiler, so the classes below call the methods without their wrappers.

Ranger: Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", arXiv:1908.03265
(RAdam: while the approximated simple moving average is 5 steps long or less, an un-adapted step
along the momentum); Zhang et al., "Lookahead Optimizer: k steps forward, 1 step back",
arXiv:1907.08610. As in the released code of Ray Chowdhury & Caragea 2023, every fifth step ends
with

    p <- 0.8 p + 0.2 slow,    slow <- p

where slow is what p was after the last such step, at first its initial value. RAdam is torch's;
weight decay is decoupled: p <- (1 - rate decay) p before a step, whatever p is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim import Optimizer

EVERY = 5
SHARE = 0.8  # of the new values


class _Plain(Optimizer):
    """The methods of torch's optimisers as they are within the wrappers for its compiler."""

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    load_state_dict = inspect.unwrap(Optimizer.load_state_dict)


def _plain_step(kind: type[Optimizer]) -> Callable[..., Any]:
    """Return `step` of a class of torch's, without gradients as there."""
    step: Callable[..., Any] = torch.no_grad()(inspect.unwrap(kind.step))
    return step


class Adam(_Plain, torch.optim.Adam):
    """torch's Adam: L2 weight decay."""

    step = _plain_step(torch.optim.Adam)


class AdamW(_Plain, torch.optim.AdamW):
    """torch's AdamW: decoupled weight decay."""

    step = _plain_step(torch.optim.AdamW)


class RAdam(_Plain, torch.optim.RAdam):
    """torch's RAdam."""

    step = _plain_step(torch.optim.RAdam)


class Ranger(RAdam):
    """torch's RAdam and, every fifth step of a parameter, Lookahead.

    The slow copy is part of the parameter's state, and steps are counted by RAdam, so that
    `state_dict` has everything.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, decoupled_weight_decay=True)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Do one update; return what `closure` returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        moving = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        first = {p: p.clone() for p in moving if p not in self.state}
        super().step()
        for parameter, slow in first.items():
            self.state[parameter]["slow"] = slow
        due = [p for p in moving if int(self.state[p]["step"]) % EVERY == 0]
        if due:
            self._look_ahead(due)
        return loss

    def _look_ahead(self, parameters: list[Tensor]) -> None:
        slow = [self.state[p]["slow"] for p in parameters]
        torch._foreach_lerp_(parameters, slow, 1 - SHARE)
        torch._foreach_copy_(slow, parameters)
