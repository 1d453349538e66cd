"""One thread, and the tasks that every contract test runs on."""

import pytest
import torch

from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.base import Task

torch.set_num_threads(1)

NAMES_AND_MODULI = [
    (name, modulus)
    for name in ("sum", "even_pair", "mod_arith", "mod_arith_ltr", "parity")
    for modulus in ((2,) if name == "parity" else (2, 3, 5))
]


@pytest.fixture(params=NAMES_AND_MODULI, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def task(request: pytest.FixtureRequest) -> Task:
    name, modulus = request.param
    return make_task(TASKS.get(name).config(modulus=modulus))
