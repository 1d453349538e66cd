"""Checks of training mode: the function that is trained is causal, and is the one that is tested.

Every other check reads a mixer in evaluation, where dropout and batch statistics are off.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.contract.finding import Comparison, Finding, alike
from lrbench.contract.subject import SAME, Context, MixerFactory, finest, tolerance, whole
from lrbench.mixers.base import Mixer

LENGTH, EVERY = 13, 4
PUSH = 10.0  # in standard deviations of the inputs
SEEDS = 4, 5


def trains_what_is_tested(make: MixerFactory, context: Context) -> Finding:
    """Perturb positions and one string in training mode, then compare with evaluation.

    A mixer that draws by a counter of its own may differ from evaluation; any other that does has
    to declare the reason, `trains_otherwise`.
    """
    name, dtype = "training", finest(make)
    mixer = make(dtype=dtype)
    kept = _kept(mixer)
    u = context.inputs(whole(LENGTH, mixer), dtype)
    evaluated = mixer(u)[0].detach()
    trained = _trained(mixer, kept, u)
    again = mixer(u)[0].detach()  # whatever it counted goes on
    comparison = Comparison(SAME.get(dtype, 1e-2))
    for position in range(1, u.shape[1], EVERY):
        pushed = u.clone()
        pushed[:, position] += PUSH
        found = _trained(mixer, kept, pushed)
        comparison.add(f"input {position + 1}", found[:, :position], trained[:, :position])
    causal = comparison.finding(name, "outputs before a perturbed input, in training mode")
    if not causal.passed:
        return causal
    apart = Comparison(comparison.tolerance)
    pushed = u.clone()
    pushed[0] += PUSH
    apart.add("string 1", _trained(mixer, kept, pushed)[1:], trained[1:])
    beside = apart.finding(name, "outputs beside a perturbed string, in training mode")
    if not beside.passed:
        return beside
    told = "causal, strings apart"
    if mixer.trains_otherwise:
        return Finding(name, True, f"{told}; not as in evaluation: {mixer.trains_otherwise}")
    if not torch.equal(trained, again):
        return Finding(name, True, f"{told}; not as in evaluation: draws anew at each call")
    same = Comparison(tolerance(mixer, dtype))
    same.add("training mode", trained, evaluated)
    return same.finding(name, f"{told}; outputs in training mode against evaluation")


def draws_nothing_global(make: MixerFactory, context: Context) -> Finding:
    """Train on one string after two seeds of torch's global generator: every bit is the same.

    No run checkpoints that generator. A mixer that draws keeps a counter in a buffer, and draws by
    it.
    """
    name, dtype = "randomness", finest(make)
    mixer = make(dtype=dtype)
    kept = _kept(mixer)
    u = context.inputs(whole(LENGTH, mixer), dtype)
    results = [_trained(mixer, kept, u, seed) for seed in SEEDS]
    with torch.random.fork_rng(devices=[]):
        before = torch.get_rng_state()
        mixer(u)
        drawn = not torch.equal(torch.get_rng_state(), before)
    if drawn or not alike(*results):
        what = "draws" if drawn else "depends on what is drawn"
        return Finding(
            name,
            False,
            f"{what} from torch's global generator in training mode, which no run checkpoints:"
            " draw by a counter in a buffer, or leave dropout to the stack",
        )
    return Finding(name, True, "nothing from torch's global generator in training mode")


def _kept(mixer: Mixer) -> dict[str, Tensor]:
    return {key: tensor.clone() for key, tensor in mixer.state_dict().items()}


def _trained(mixer: Mixer, kept: dict[str, Tensor], u: Tensor, seed: int = SEEDS[0]) -> Tensor:
    """Return the outputs of an update's forward, with all that is kept or drawn as at its start."""
    mixer.load_state_dict(kept)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        y: Tensor = mixer.train()(u)[0]
    return y.detach()
