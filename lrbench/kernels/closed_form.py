"""A function with a backward of its own, for autograd and torch.func alike.

Autograd through a loop over time keeps and walks far more than the adjoint recurrence needs, so
each scan states its gradient in closed form: two plain functions on tensors, which name what they
are called with in their first line where it is much. This file is all the plumbing between them and
torch. The backward is a `Function` too, because under `vmap(grad(f))` it is the backward that is
mapped, and its in-place loops need the same rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

Tensors = tuple[Tensor, ...]
Mapped = Callable[[Callable[..., Tensors], int, tuple[int | None, ...], Tensors], Tensors]


@dataclass(frozen=True)
class ClosedForm:
    """Call it as `forward(*inputs)[0]`; differentiable once.

    forward: inputs -> (result, *kept), where kept is what only the backward needs.
    backward: (*inputs, result, *kept, gradient of result) -> gradients of the floating inputs.
    mapped: how K calls are made at once, `fold` or `one_by_one`.
    needs_result: False where backward is to be called without the result, which whoever gets it
        may then change in place.
    """

    forward: Callable[..., Tensors]
    backward: Callable[..., Tensors]
    mapped: Mapped
    needs_result: bool = True

    def saved(self, inputs: Tensors, results: Tensors) -> Tensors:
        """Return what of the inputs and of (result, *kept) the backward is called with."""
        return inputs + (results if self.needs_result else results[1:])

    def __call__(self, *inputs: Tensor) -> Tensor:
        if torch._C._are_functorch_transforms_active():
            result: Tensor = _Forward.apply(self, *inputs)[0]
        elif torch.is_grad_enabled():
            result = _Plain.apply(self, *inputs)
        else:
            result = self.forward(*inputs)[0]
        return result


def fold(
    call: Callable[..., Tensors], size: int, dims: tuple[int | None, ...], tensors: Tensors
) -> Tensors:
    """Make one call on K B rows of K calls on B: for functions of tensors with the batch first."""
    folded = []
    for tensor, dim in zip(tensors, dims, strict=True):
        moved = tensor.unsqueeze(0) if dim is None else tensor.movedim(dim, 0)
        folded.append(moved.expand(size, *moved.shape[1:]).flatten(0, 1))
    return tuple(result.unflatten(0, (size, -1)) for result in call(*folded))


def one_by_one(
    call: Callable[..., Tensors], size: int, dims: tuple[int | None, ...], tensors: Tensors
) -> Tensors:
    """Make K calls: for functions that weights of their own tie to one member of a group."""
    calls = []
    for k in range(size):
        pairs = zip(tensors, dims, strict=True)
        calls.append(call(*(t if dim is None else t.select(dim, k) for t, dim in pairs)))
    return tuple(torch.stack(results) for results in zip(*calls, strict=True))


def _for_each(inputs: Tensors, gradients: Tensors) -> list[Tensor | None]:
    """Put None in the places of inputs that have no gradient: integers."""
    left = iter(gradients)
    return [next(left) if t.is_floating_point() or t.is_complex() else None for t in inputs]


class _Plain(Function):
    """Outside of torch.func: the same, for a third of the time that is spent on python."""

    @staticmethod
    def forward(ctx: Any, form: ClosedForm, *inputs: Tensor) -> Tensor:
        results = form.forward(*inputs)
        ctx.form, ctx.inputs = form, len(inputs)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*form.saved(inputs, results))
        return results[0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> Any:
        if gradient is None:
            return None, *(None for _ in range(ctx.inputs))
        saved = ctx.saved_tensors
        if torch.is_grad_enabled():  # so that whoever differentiates twice is told
            gradients = _Backward.apply(ctx.form, *saved, gradient)
        else:
            gradients = ctx.form.backward(*saved, gradient)
        return None, *_for_each(saved[: ctx.inputs], gradients)


class _Forward(Function):
    @staticmethod
    def forward(form: ClosedForm, *inputs: Tensor) -> Tensors:
        return form.forward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensors) -> None:
        ctx.form, ctx.inputs = inputs[0], len(inputs) - 1
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs[0].saved(inputs[1:], output))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, *_: Any) -> Any:
        if gradient is None:
            return None, *(None for _ in range(ctx.inputs))
        saved = ctx.saved_tensors
        gradients = _Backward.apply(ctx.form, *saved, gradient)
        return None, *_for_each(saved[: ctx.inputs], gradients)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], form: ClosedForm, *inputs: Tensor) -> Any:
        def call(*tensors: Tensor) -> Tensors:
            results: Tensors = _Forward.apply(form, *tensors)
            return results

        results = form.mapped(call, info.batch_size, in_dims[1:], inputs)
        return results, (0,) * len(results)


class _Backward(Function):
    @staticmethod
    def forward(form: ClosedForm, *saved: Tensor) -> Tensors:
        return form.backward(*saved)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensors) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], form: ClosedForm, *saved: Tensor) -> Any:
        results = form.mapped(form.backward, info.batch_size, in_dims[1:], saved)
        return results, (0,) * len(results)
