"""Which strings are in which split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.listops_statistics import statistics
from lrbench.errors import UserError
from lrbench.tasks import listops
from lrbench.tasks.corpus.recipe import make
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.splits import (
    FAMILIES,
    LRA_SPLITS,
    NANGIA_SPLITS,
    RECIPE,
    VIEWS,
    cut,
    family_of,
)

from .oracle import value


def texts(strings: Strings) -> list[bytes]:
    return [strings.row(row).tobytes() for row in range(len(strings))]


def quiet(*shown: object) -> None:
    pass


def test_names() -> None:
    assert RECIPE.splits == (
        *("train", "dev", "train_long", "near_iid"),
        *(f"len_{low}_{low + 100}" for low in range(200, 1000, 100)),
        *("args_10", "args_15", "args_iid", "lra_train", "lra_dev", "lra_test"),
    )
    assert set(VIEWS) == {"mix_train", "mix_dev", "mix_test"}


def test_train_dev_and_test(saturated: Strings, nangia: dict[str, Strings]) -> None:
    assert len(nangia["dev"]) == 1_000 and len(nangia["near_iid"]) == 10_000
    assert len(nangia["train"]) + len(nangia["train_long"]) == 89_000
    assert len(nangia["train"]) == pytest.approx(79_500, abs=300)
    assert nangia["train"].lengths.max() == 100 and nangia["train_long"].lengths.min() == 101
    assert nangia["dev"].lengths.max() > 300
    together = [text for strings in nangia.values() for text in texts(strings)]
    assert len(set(together)) == 100_000
    assert set(together) == set(texts(saturated))
    for strings in nangia.values():
        for row in range(0, len(strings), 500):
            assert value(strings.text(row).split()) == strings.labels[row]


def test_the_order_is_random(saturated: Strings, nangia: dict[str, Strings]) -> None:
    """Strings drawn early are short; every split must have as many of them."""
    first = set(texts(saturated.part(0, 20_000)))
    for name, n in (("dev", 1_000), ("near_iid", 10_000)):
        share = np.mean([text in first for text in texts(nangia[name])])
        assert share == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / n))


def test_lra_is_cut_in_order() -> None:
    family = replace(LRA_SPLITS, size=5_000)
    strings = family.draw(0, quiet)
    splits = dict(cut(family, strings, 0))
    assert [len(splits[name]) for name in family.splits] == [1_000, 2_000, 2_000]
    joined = Strings.join([splits[name] for name in family.splits])
    assert np.array_equal(joined.tokens, strings.tokens)
    assert np.array_equal(joined.labels, strings.labels)
    found = statistics(strings)
    assert len(set(texts(strings))) == 5_000
    assert found["length min"] >= 501 and found["length max"] <= 1999
    assert found["length mean"] == pytest.approx(1035, abs=4 * 394 / 5_000**0.5)
    assert found["length std"] == pytest.approx(394, abs=12)
    assert found["depth mean"] == pytest.approx(9.0, abs=0.01)
    assert found["operators mean"] == pytest.approx(147, abs=3.5)
    wanted = {0: 0.171, 9: 0.169, 7: 0.07}
    for label, share in wanted.items():
        assert found[f"label {label}"] == pytest.approx(share, abs=0.02)


ARGUMENTS = {
    "args_iid": (134.8, 33.9, 28.9, {}),
    "args_10": (452.2, 241.5, 64.3, {0: 0.166, 9: 0.157}),
    "args_15": (585.6, 252.4, 62.8, {0: 0.176, 9: 0.162, 7: 0.06}),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_argument_splits(name: str) -> None:
    mean, std, operators, labels = ARGUMENTS[name]
    family = family_of(name)
    [(split, strings)] = cut(family, family.draw(0, quiet), 0)
    found = statistics(strings)
    assert split == name and len(set(texts(strings))) == 2_000
    assert found["length min"] >= 100 and found["length max"] <= 1000
    assert found["length mean"] == pytest.approx(mean, abs=4 * std / 2_000**0.5)
    assert found["length std"] == pytest.approx(std, rel=0.1)
    assert found["operators mean"] == pytest.approx(operators, rel=0.05)
    most = family.grammar.max_arguments
    assert found[f"arguments {most}"] > 0.01 and f"arguments {most + 1}" not in found
    assert f"depth {9}" not in found
    for label, share in labels.items():
        assert found[f"label {label}"] == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("low", [200, 500])
def test_length_splits(low: int) -> None:
    family = family_of(f"len_{low}_{low + 100}")
    strings = family.draw(0, quiet)
    assert len(set(texts(strings))) == 2_000
    assert strings.lengths.min() == low + 1 and strings.lengths.max() == low + 99
    mean = {200: 243.54, 500: 543.20}[low]
    assert strings.lengths.mean() == pytest.approx(mean, abs=4 * 28.1 / 2_000**0.5)
    found = statistics(strings)
    assert found["depth mean"] == pytest.approx({200: 16.7, 500: 18.85}[low], abs=0.25)
    if low == 200:
        assert found["label 0"] == pytest.approx(0.117, abs=0.03)
        assert found["label 9"] == pytest.approx(0.127, abs=0.03)


def test_every_split_says_what_it_depends_on() -> None:
    assert RECIPE.settings("len_900_1000") == {
        "max_arguments": 5,
        "max_depth": 20,
        "unique": 2_000,
        "lengths": [901, 999],
    }
    assert RECIPE.settings("args_15")["lengths"] == [100, 1000]
    assert RECIPE.settings("lra_dev")["lengths"] == [501, 1999]
    assert RECIPE.settings("dev") == {
        "max_arguments": 5,
        "max_depth": 20,
        "unique": 100_000,
        "lengths": None,
    }


def test_mix_is_the_whole_training_file_and_lra(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="lrbench data make listops"):
        listops.load("mix_train")
    with pytest.raises(UserError, match="listops: split 'tarin' unknown"):
        listops.load("tarin")

    def draw(splits: list[str], seed: int, progress: object):  # type: ignore[no-untyped-def]
        for family in FAMILIES:
            small = replace(family, size=12_000 if family is NANGIA_SPLITS else 4_100)
            if wanted := set(splits) & set(family.splits):
                cuts = cut(small, small.draw(seed, quiet), seed)
                yield from ((split, strings) for split, strings in cuts if split in wanted)

    recipe = replace(RECIPE, draw=draw)
    make(recipe, ["mix_train", "mix_test"], 0, False, quiet, quiet)
    mix = listops.load("mix_train")
    assert len(mix) == 2_000 + 100
    assert mix.lengths.max() > 1000
    assert np.array_equal(mix.part(2_000, 2_100).tokens, listops.load("lra_train").tokens)
    assert np.array_equal(mix.part(0, 1_000).tokens, listops.load("dev").tokens)
    assert np.array_equal(listops.load("mix_test").tokens, listops.load("lra_test").tokens)
