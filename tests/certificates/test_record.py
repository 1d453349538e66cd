"""What files and lines say of strings and weights."""

from __future__ import annotations

import torch

from lrbench.certificates import check
from lrbench.certificates.record import joined, shortened, weights_digest, witness_record
from lrbench.certificates.witness import Witness, rarity
from lrbench.registry import TASKS
from lrbench.tasks import make_task


def test_strings_are_written_as_a_line_can_hold_them() -> None:
    task = make_task(TASKS.get("sum").config(modulus=5))
    assert joined(task, (3, 0, 2)) == "302"
    assert shortened(task, (1,) * 60) == "1" * 60
    assert shortened(task, (1, *[0] * 130)) == "1 0×130"
    assert shortened(task, (2, 3, *[0] * 8, 3, 3, *[0] * 300, 4)) == "23 0×8 33 0×300 4"
    assert shortened(task, (*[1] * 5, *[0] * 6, *[2] * 60)) == "11111 0×6  2×60"
    mixed = (0, 1, 2, 3, 4) * 40
    assert shortened(task, mixed) == f"{'01234' * 6} ... {'01234' * 6}"
    wide = make_task(TASKS.get("sum").config(modulus=11))
    assert joined(wide, (3, 10, 2)) == "3 10 2"


def test_a_digest_is_of_names_shapes_and_numbers() -> None:
    weights = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(2)}
    digest = weights_digest(weights)
    assert digest == weights_digest(dict(reversed(weights.items())))
    assert digest == check.digest({name: value.numpy() for name, value in weights.items()})
    turned = torch.arange(6.0).reshape(3, 2).T.contiguous().T
    assert weights_digest({**weights, "b": turned}) != digest  # another shape
    assert weights_digest({**weights, "b": weights["b"] + 1e-6}) != digest
    assert weights_digest({"c": weights["b"], "a": weights["a"]}) != digest
    assert weights_digest({**weights, "b": weights["b"].double()}) != digest
    assert weights_digest({"z": torch.ones(2, dtype=torch.complex64)}) != digest


def test_a_string_rarer_than_floats_is_named_by_a_power_of_ten() -> None:
    task = make_task(TASKS.get("sum").config(modulus=5))
    machine = task.machine()
    assert machine is not None
    uneven = make_task(TASKS.get("flip_flop").config())
    told = witness_record(uneven, Witness((0, 1), 0, 1, "beam", False, 4))
    assert (told["one_in"], told["one_in_log10"]) == (None, None)  # symbols are not drawn evenly
    for length, one_in, power in ((12, 5.0**12, 8.388), (442, None, 308.945)):
        word = (1,) * length
        claim = witness_record(task, Witness(word, 0, 1, "beam", False, rarity(machine, word)))
        assert (claim["one_in"], claim["one_in_log10"]) == (one_in, power)
