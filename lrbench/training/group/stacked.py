"""A group of trials as one program: the weights of K runs stacked, one update for all of them.

A model here leaves a GPU idle, and K of them launched one after the other leave it as idle: what
counts is how many kernels are launched, not how large they are. So parameters, optimiser state and
strings of a group have a leading axis K, `torch.func.vmap` evaluates all members at once, and on
CUDA the whole update is captured as a graph and replayed.

Each trial keeps its model, optimiser and sums: their tensors are rows of the stacked ones, so that
looks, checkpoints and results are made from them as if the trial were alone. A trial that leaves
the group takes copies with it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from lrbench.mixers.base import Mixer
from lrbench.models.randomness import Generators
from lrbench.training.hardening import ONE_BY_ONE
from lrbench.training.optim import set_learning_rate
from lrbench.training.trial import BatchTrial, Trial

WARM_UP = 3  # updates before a graph is captured: allocations and lazy initialisation are theirs


def stackable(trial: Trial) -> str:
    """Return why a trial cannot be one of a stack, nothing if it can."""
    if trial.one_by_one:
        return trial.one_by_one
    if isinstance(trial, BatchTrial) and trial.hardening:
        return ONE_BY_ONE
    for module in trial.model.modules():
        if isinstance(module, Mixer) and not module.vmap:
            return f"{type(module).__name__} cannot be evaluated for several trials at once"
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            return "batch normalisation keeps statistics that cannot be stacked"
    return ""


class Stacked:
    """K trials of one cell that are at the same update."""

    def __init__(self, trials: Sequence[BatchTrial]) -> None:
        self.trials = list(trials)
        first = self.trials[0]
        self.base = copy.deepcopy(first.model)
        self.names = [name for name, _ in first.model.named_parameters()]
        models = [dict(trial.model.named_parameters()) for trial in self.trials]
        self.weights: dict[str, Tensor] = {}
        for name in self.names:
            whole = torch.stack([model[name].detach() for model in models])
            self.weights[name] = whole.requires_grad_(models[0][name].requires_grad)
            for model, row in zip(models, whole.detach(), strict=True):
                model[name].data = row
        self.buffers = {
            name: torch.stack([dict(trial.model.named_buffers())[name] for trial in self.trials])
            for name, _ in first.model.named_buffers()
        }
        self.loss_sums = torch.stack([trial.loss_sum for trial in self.trials])
        for trial, row in zip(self.trials, self.loss_sums, strict=True):
            trial.loss_sum = row
        self.generators = Generators([trial.generator for trial in self.trials])
        self.optimiser = self._optimiser()
        self._share_state()
        self.made = 0
        self.graph: Any = None

    def update(self) -> None:
        """Do the next update of every trial."""
        for trial in self.trials:
            trial.step += 1
        set_learning_rate(self.optimiser, self.trials[0].rate)
        batches = [trial.batch(trial.step) for trial in self.trials]
        tokens = torch.stack([batch.tokens for batch in batches])
        targets = torch.stack([batch.targets for batch in batches])
        if tokens.is_cuda and self.made >= WARM_UP:
            self._replay(tokens, targets)
        else:
            self._compute(tokens, targets)
        self.made += 1
        for trial in self.trials:
            trial.loss_count += 1

    def dissolve(self) -> None:
        """Give every trial tensors of its own."""
        for trial in self.trials:
            trial.loss_sum = trial.loss_sum.clone()
            for parameter in trial.model.parameters():
                parameter.data = parameter.data.clone()
            for state in trial.optimiser.state.values():
                state.update({key: _own(value) for key, value in state.items()})

    def _compute(self, tokens: Tensor, targets: Tensor) -> None:
        losses = vmap(self._loss)(self.weights, self.buffers, tokens, targets)
        self.optimiser.zero_grad(set_to_none=True)
        losses.sum().backward()
        clip = self.trials[0].config.optim.clip
        if clip is not None:
            clip_each([w for w in self.weights.values() if w.grad is not None], clip)
        self.optimiser.step()
        if self.made == 0:
            self._share_state()
        self.loss_sums += losses.detach()

    def _loss(
        self,
        weights: dict[str, Tensor],
        buffers: dict[str, Tensor],
        tokens: Tensor,
        targets: Tensor,
    ) -> Tensor:
        trial = self.trials[0]
        settings = {"read": trial.read, "generator": self.generators}
        logits, _ = functional_call(self.base, (weights, buffers), (tokens,), settings)
        return trial.loss(logits, targets)

    def _replay(self, tokens: Tensor, targets: Tensor) -> None:
        """Replay the update as a CUDA graph; capture it the first time, which computes nothing."""
        if self.graph is None:
            self.inputs = tokens.clone(), targets.clone()
            self.graph = torch.cuda.CUDAGraph()
            for generator in self.generators.members:
                self.graph.register_generator_state(generator)
            with torch.cuda.graph(self.graph):
                self._compute(*self.inputs)
        for static, now in zip(self.inputs, (tokens, targets), strict=True):
            static.copy_(now)
        self.graph.replay()

    def _optimiser(self) -> torch.optim.Optimizer:
        """Return one like each trial's, for the stacked weights; a graph needs its rate on CUDA."""
        theirs = self.trials[0].optimiser
        place = {id(p): name for name, p in self.trials[0].model.named_parameters()}
        groups = []
        for group in theirs.param_groups:
            mine = {key: value for key, value in group.items() if key != "params"}
            mine["params"] = [self.weights[place[id(p)]] for p in group["params"]]
            if self.loss_sums.is_cuda:
                mine["lr"] = torch.tensor(float(group["lr"]), device=self.loss_sums.device)
                mine["capturable"] = True
            groups.append(mine)
        return type(theirs)(groups)  # type: ignore[call-arg]

    def _share_state(self) -> None:
        """Make the state of each trial's optimiser rows of the stacked one.

        An optimiser makes its state at the first step; trials that were at work bring theirs.
        Parameters that are not trained have none.
        """
        parameters = [dict(trial.model.named_parameters()) for trial in self.trials]
        for name, weight in self.weights.items():
            if not weight.requires_grad:
                continue
            states = [
                trial.optimiser.state[mine[name]]
                for trial, mine in zip(self.trials, parameters, strict=True)
            ]
            whole = self.optimiser.state[weight]
            if not whole and all(states):
                whole.update({key: _together([s[key] for s in states]) for key in states[0]})
            for k, state in enumerate(states):
                state.update(
                    {key: value[k] if value.dim() else value for key, value in whole.items()}
                )


def clip_each(weights: Sequence[Tensor], most: float) -> None:
    """Scale the gradients (K, ...) of each member to a norm of at most `most`."""
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    squares = [gradient.flatten(1).square().sum(1) for gradient in gradients]
    norms = torch.stack(squares).sum(0).sqrt()
    scale = (most / (norms + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.dim() - 1)))


def _together(values: list[Tensor]) -> Tensor:
    """Stack what each member has; a count of steps is one number for all."""
    return values[0].clone() if values[0].dim() == 0 else torch.stack(values)


def _own(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
