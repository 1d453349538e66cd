"""The delta rule on one core: our modes against flash-linear-attention's plain forms, and updates.

    python -m benchmarks.delta_speed [--rounds 5] [--seconds 1] [--updates] [--write]

One call is forward and backward from queries, keys, values and strengths of 64 strings of 40, four
heads of 16 x 16 (width 64). Their chunks of 32 get the strings padded to 64, which they ask for.
Their files are those of the extra `oracles` (tests/oracles/test_delta.py). `--updates` times whole
training updates of each model of the family at its defaults, task group S3.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from lrbench.bench.timing import Rounds, alternate, keep
from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.scan.matrix.householder import MODES, HouseholderProducts, delta_rule

RESULTS = Path(__file__).resolve().parent / "results"
STRINGS, HEADS, LENGTH, SIZE = 64, 4, 40, 16
CHUNK = 32  # theirs
MODELS = ("deltanet", "gated_deltanet", "deltaproduct", "gated_deltaproduct", "rwkv7", "lstm")
Call = Callable[[], Any]


def references() -> ModuleType:
    """Return flash-linear-attention's plain delta rule; UserError where it is not installed."""
    package = importlib.util.find_spec("fla")
    if package is None or not package.submodule_search_locations:
        raise UserError("fla-core is not installed: pip install --no-deps fla-core einops")
    path = Path(package.submodule_search_locations[0]) / "ops" / "delta_rule" / "naive.py"
    spec = importlib.util.spec_from_file_location("fla_naive", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaves() -> list[Tensor]:
    """Return q, k (.., 16), v (.., 16) and beta (..) of (64, 4, 40)."""
    generator = torch.Generator().manual_seed(0)
    shape = STRINGS, HEADS, LENGTH
    q, k, v = (torch.randn(*shape, SIZE, generator=generator) for _ in range(3))
    beta = torch.rand(shape, generator=generator)
    return [x.requires_grad_() for x in (q, normalize(k, dim=-1), v, beta)]


def ours(mode: str, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """Return y, (64, 4, 40, 16)."""
    strength = beta[..., None]
    keys, erased, values = (x.flatten(0, 1)[:, :, None] for x in (k, strength * k, strength * v))
    start = q.new_zeros(STRINGS * HEADS, SIZE, SIZE)
    queries = q.flatten(0, 1) * SIZE**-0.5
    y, _ = delta_rule(HouseholderProducts(keys, erased), values, queries, start, mode)
    return y.view_as(v)


def theirs_in_chunks(module: ModuleType, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """Return y, (64, 4, 40, 16), of strings padded to whole chunks."""
    missing = -LENGTH % CHUNK
    padded = [pad(x, (0, 0, 0, missing)) for x in (q, k, v)]
    y, _ = module.delta_rule_chunkwise(*padded, pad(beta, (0, missing)), chunk_size=CHUNK)
    whole: Tensor = y[:, :, :LENGTH]
    return whole


def functions() -> dict[str, Callable[..., Tensor]]:
    """Return what is compared: functions of q, k, v, beta."""
    module = references()
    found: dict[str, Callable[..., Tensor]] = {
        "their chunks": lambda *x: theirs_in_chunks(module, *x),
        "their recurrence": lambda *x: module.delta_rule_recurrence(*x)[0],
    }
    for mode in MODES:
        found[f"ours, {mode}"] = lambda *x, mode=mode: ours(mode, *x)  # type: ignore[misc]
    return found


def check(all_of_them: dict[str, Callable[..., Tensor]]) -> None:
    """Refuse to time functions that do not compute the same."""
    inputs = leaves()
    results = {name: function(*inputs).detach() for name, function in all_of_them.items()}
    expected = results["their recurrence"]
    for name, y in results.items():
        torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5, msg=name)


def both_ways(function: Callable[..., Tensor]) -> Call:
    """Return a call of forward and backward."""
    inputs = leaves()

    def call() -> None:
        torch.autograd.grad(function(*inputs).sum(), inputs)

    return call


def updates() -> dict[str, Call]:
    """Return a training update of each model."""
    words = ["task=group", "task.group=S3", f"protocol.batch_size={STRINGS}", "model.width=64"]
    words.append(f"protocol.train_length={LENGTH}")
    return {name: LengthTrial(composed([*words, f"model={name}"]), 0).update for name in MODELS}


def lines(measured: Rounds, to: str | None) -> list[str]:
    """Return what a person reads: the median milliseconds, and ratios of rounds."""
    found = []
    for name in measured.seconds:
        line = f"{name:20} {1e3 * measured.time(name):8.1f} ms"
        if to is not None:
            ratios = sorted(measured.ratios(name, to))
            line += f"   {measured.ratio(name, to):6.2f} times {to}"
            line += f" ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        found.append(line)
    return found


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="at least 3")
    parser.add_argument("--seconds", type=float, default=1.0, help="per side and round")
    parser.add_argument("--updates", action="store_true", help="whole updates of each model too")
    parser.add_argument("--write", action="store_true", help="write results/delta_speed.json")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    compared = functions()
    check(compared)
    calls = {name: both_ways(function) for name, function in compared.items()}
    rule = alternate(calls, options.rounds, options.seconds)
    print("\n".join(lines(rule, "ours, chunked")))
    content = {"rule": rule.seconds}
    if options.updates:
        whole = alternate(updates(), options.rounds, options.seconds)
        print("\n".join(lines(whole, None)))
        content["updates"] = whole.seconds
    if options.write:
        settings = {"rounds": options.rounds, "seconds": options.seconds, "threads": 1}
        what = "seconds of the delta rule, forward and backward, and of updates"
        keep(RESULTS / "delta_speed.json", what, settings, content)


if __name__ == "__main__":
    main()
