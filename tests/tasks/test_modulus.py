import pytest
from omegaconf import MISSING, OmegaConf

from lrbench.registry import TASKS
from lrbench.tasks.modulus import LARGEST

NAMES = ("sum", "even_pair", "mod_arith", "parity")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("modulus", [1, 0, -5, 2.5, "five", True, None])
def test_only_integers_from_two_are_moduli(name, modulus):
    with pytest.raises(ValueError, match=rf"task\.modulus must be an integer >= 2, not {modulus}"):
        TASKS.get(name).config(modulus=modulus)


def test_the_largest_modulus_is_stated():
    assert TASKS.get("sum").config(modulus=LARGEST).modulus == 10_000
    with pytest.raises(ValueError, match=r"task\.modulus must be at most 10000, not 10001"):
        TASKS.get("sum").config(modulus=LARGEST + 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_modulus_passes_and_omegaconf_can_build_the_config(name):
    config = TASKS.get(name).config
    assert config(modulus=MISSING).modulus == MISSING
    node = OmegaConf.structured(config)
    assert OmegaConf.to_object(node) == config()
    assert node.name == name
