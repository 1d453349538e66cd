"""Text and Retrieval as tasks: what is read, typed and guessed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.errors import UserError
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.lra.released import LONGEST
from lrbench.tasks.lra.splits import CORPORA
from lrbench.tasks.lra.task import LraRetrievalConfig, LraTextConfig
from tests.tasks.lra.conftest import PAIRS


@pytest.fixture(autouse=True)
def stored(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reviews: Path,
    write_pairs: Callable[..., Path],
) -> None:
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path / "data"))
    for name, folder in (("lra_text", reviews), ("lra_retrieval", write_pairs())):
        CORPORA[name].store(folder, lambda what, done, all_: None, lambda text: None)


@pytest.mark.parametrize(
    ("config", "classes", "sides"),
    [
        (LraTextConfig(), ("negative", "positive"), 1),
        (LraRetrievalConfig(), ("unlinked", "linked"), 2),
    ],
)
def test_what_a_task_says_is_what_its_strings_say(
    config: Any, classes: tuple[str, ...], sides: int
) -> None:
    task: Any = make_task(config)
    for split in ("train", "dev", "test"):
        strings = task.load(split)
        assert (strings.class_names, strings.sides) == (task.class_names, task.sides)
        assert strings.vocabulary == task.vocabulary
    assert (task.class_names, task.sides, len(task.vocabulary)) == (classes, sides, 256)
    assert task.protocols == ("rir2023",) and task.one_answer
    assert task.answer([1], [2]) is None


def test_longest_cuts_what_is_read() -> None:
    whole: Any = make_task(LraRetrievalConfig())
    short: Any = make_task(LraRetrievalConfig(longest=10))
    assert whole.load("train").lengths.max() == 4096
    assert short.load("train").lengths.max() == 10
    assert bytes(short.load("train").row(0, 1)) == PAIRS[0][2][:10]
    assert short.tokens_of("longer than that") == list(b"longer tha")


@pytest.mark.parametrize("longest", [0, 4097, -1])
@pytest.mark.parametrize("config", [LraTextConfig, LraRetrievalConfig])
def test_longest_has_limits(config: type, longest: int) -> None:
    with pytest.raises(ValueError, match=r"task\.longest must be (at least 1|at most 4,?096)"):
        config(longest=longest)


def test_a_typed_text_is_its_bytes() -> None:
    task: Any = make_task(LraTextConfig())
    assert task.tokens_of("caf\u00e9 (!") == list("caf\u00e9 (!".encode())
    assert task.tokens_of("  ") == [32, 32]
    assert task.brackets(task.tokens_of("((")) == []
    with pytest.raises(UserError, match="an empty string; lra_text reads any text"):
        task.tokens_of("")


def test_baselines_see_no_letter() -> None:
    task: Any = make_task(LraTextConfig())
    assert task.baselines("test", "train") == {"uniform": 0.5, "majority": 0.5}
    linked: Any = make_task(LraRetrievalConfig())
    assert linked.baselines("test", "train") == {"uniform": 0.5, "majority": 0.5}


def test_both_are_registered() -> None:
    assert {"lra_text", "lra_retrieval"} <= {*TASKS}
    assert LraTextConfig().longest == LraRetrievalConfig().longest == LONGEST
