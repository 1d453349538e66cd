"""The splits of Text and Retrieval: what is in them, and what is said where there are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lrbench.errors import NoData, UserError
from lrbench.locations import GIVEN, not_at_hand
from lrbench.tasks.corpus.recipe import load as load_split
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.lra import load, released
from lrbench.tasks.lra.released import FEELINGS, LINKS, VOCABULARY, Documents
from lrbench.tasks.lra.splits import CORPORA, for_dev, shortened
from tests.tasks.lra.conftest import EACH, STARS, review


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def store(name: str, folder: Path) -> list[str]:
    return CORPORA[name].store(folder, lambda what, done, all_: None, lambda text: None)


def texts(strings: Strings) -> list[bytes]:
    return [bytes(strings.row(row)) for row in range(len(strings))]


def expected(half: str, numbers: range) -> list[bytes]:
    return [review(half, name, number) for name in STARS for number in numbers]


def test_dev_is_the_last_tenth_of_each_class(reviews: Path) -> None:
    assert store("lra_text", reviews) == ["train", "dev", "test"]
    train, dev, test = (load("lra_text", name) for name in ("train", "dev", "test"))
    assert texts(train) == expected("train", range(18))
    assert texts(dev) == expected("train", range(18, EACH))
    assert texts(test) == expected("test", range(EACH))
    assert not {*texts(train)} & {*texts(dev)} and not {*texts(test)} & {*texts(train)}
    assert dev.labels.tolist() == [0, 0, 1, 1]
    whole = load("lra_text", "train_all")
    assert texts(whole) == texts(train) + texts(dev)
    assert store("lra_text", reviews) == []  # what is there stays


def test_of_the_release_dev_is_2500() -> None:
    labels = np.repeat(np.array([0, 1], dtype=np.uint8), released.REVIEWS)
    n = len(labels)
    strings = Strings(np.zeros(n, np.uint8), np.arange(n + 1), labels, VOCABULARY, FEELINGS)
    chosen = for_dev(strings)
    assert (n, chosen.sum(), strings.take(chosen).labels.mean()) == (25_000, 2_500, 0.5)


def test_dev_is_the_same_when_it_is_made_alone(reviews: Path, own_data: Path) -> None:
    store("lra_text", reviews)
    before = texts(load("lra_text", "dev"))
    (own_data / "lra_text" / "dev" / "tokens.npy").unlink()
    assert store("lra_text", reviews) == ["dev"]
    assert texts(load("lra_text", "dev")) == before


def test_retrieval_has_a_file_for_each_split(write_pairs: Callable[..., Path]) -> None:
    folder = write_pairs()
    (folder / "new_aan_pairs.eval.tsv").write_bytes(b"1\ti\tj\tonly\tone\n")
    assert store("lra_retrieval", folder) == ["train", "dev", "test"]
    dev = load("lra_retrieval", "dev")
    assert (len(dev), dev.sides, dev.class_names) == (1, 2, LINKS)
    assert [len(load("lra_retrieval", name)) for name in ("train", "test")] == [4, 4]
    assert dev.made["settings"] == {"source": "released", "longest": 4096}


@pytest.mark.parametrize("name", sorted(CORPORA))
def test_missing_data_are_told_with_the_way_to_get_them(name: str, own_data: Path) -> None:
    assert name in GIVEN and not_at_hand(name)
    with pytest.raises(NoData) as refused:
        load(name, "train")
    said = str(refused.value).splitlines()
    assert said[0] == (f"{name}: no data at hand: there is no split 'train' in {own_data / name}")
    assert said[1].startswith("take ") and " from https://" in said[1]
    assert said[2] == (
        f"put it into {own_data / 'released' / name}, then type: lrbench data fetch {name}"
    )
    assert said[3].endswith("LRBENCH_DATA") and len(said) == 4
    with pytest.raises(UserError, match=r"split 'tset' unknown\. Did you mean 'test'"):
        load(name, "tset")
    with pytest.raises(NoData, match=f"{name}: no data at hand: there is no "):
        store(name, own_data)
    assert not_at_hand(name)  # though there is a folder now
    (own_data / name / "train").mkdir()
    assert not not_at_hand(name) and not not_at_hand("logic")


def test_part_of_the_files_is_not_enough(write_pairs: Callable[..., Path]) -> None:
    folder = write_pairs()
    (folder / "new_aan_pairs.test.tsv").unlink()
    with pytest.raises(NoData, match=r"there is no new_aan_pairs\.test\.tsv in") as refused:
        store("lra_retrieval", folder)
    assert f"lrbench data fetch lra_retrieval --folder {folder}" in str(refused.value)


def test_a_damaged_split_is_told(reviews: Path, own_data: Path) -> None:
    store("lra_text", reviews)
    (own_data / "lra_text" / "test" / "labels.npy").write_bytes(b"")
    with pytest.raises(UserError, match="lrbench data make lra_text --splits test"):
        load("lra_text", "test")
    assert load_split(CORPORA["lra_text"].recipe(), "train").sides == 1


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("longest", [1, 3, 7, 4096])
def test_shortened_strings_are_their_beginnings(sides: int, longest: int) -> None:
    random, documents = np.random.default_rng(sides), Documents(LINKS, sides)
    for row in range(50):
        documents.add(row % 2, *(random.bytes(random.integers(0, 12)) for _ in range(sides)))
    strings = documents.strings()
    short = shortened(strings, longest)
    for row in range(50):
        for side in range(sides):
            assert bytes(short.row(row, side)) == bytes(strings.row(row, side))[:longest]
    assert (short.labels == strings.labels).all() and short.sides == sides
    assert (short is strings) == (longest >= 12)


def test_more_than_a_piece_is_shortened() -> None:
    documents = Documents(FEELINGS, 1)
    for row in range(700):  # 2.8 million bytes, a piece has one
        documents.add(row % 2, bytes([row % 256]) * 4000)
    short = shortened(documents.strings(), 2)
    assert short.tokens.tolist() == [row % 256 for row in range(700) for _ in range(2)]
    assert short.made == {"cut": 2}
