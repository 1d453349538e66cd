"""The end of several runs of one cell: a sentence for those it is true of, a column a seed."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from lrbench.report.output.trials import trials_summary
from lrbench.statistics import t_interval

Make = Callable[..., dict[str, Any]]
SAME = {"best": 2000, "id": 2000, "band": 2000, "last": 2000}


def printed(results: list[dict[str, Any]], references: Path) -> str:
    console = Console(file=StringIO(), width=80)
    folder = Path("runs/sum/blockdiag/fan2024/aaaaaaaaaaaa")
    ended: Any = [(one, folder / f"s{one['seed']}") for one in results]
    trials_summary(ended, console, references)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def row(text: str, length: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [length])


def test_one_table_with_a_column_a_seed(result: Make, references: Path) -> None:
    runs = [
        result(seed=seed, accuracy=accuracy, checkpoints=SAME)
        for seed, accuracy in enumerate((1.0, 1.0, 0.6))
    ]
    text = printed(runs, references)
    assert "seeds 0, 1: Holds on random strings to 500, not the rule: 0.5000 at 997" in text
    assert "seed 2: Learnt length 40, not the rule: 0.6000 (chance 0.20) at 500" in text
    head = "length         seed 0  seed 1  seed 2    mean     95 % interval  chance  paper"
    assert head in text
    low, _ = t_interval([1.0, 1.0, 0.6])
    assert row(text, "500")[2:] == [
        *("1.0000", "1.0000", "0.6000", "0.8667", f"[{low:.4f},", "1.0000]", "0.204", "0.90")
    ]
    assert "lrbench report --runs runs\n" in text
    assert "· 3 runs" in text
    assert "seed 0 ·" not in text


def test_what_is_true_of_all_is_said_once(result: Make, references: Path) -> None:
    text = printed([result(seed=seed, checkpoints=SAME) for seed in (0, 1)], references)
    assert text.startswith("Holds on random strings to 500, not the rule: 0.5000 at 997\nsum (mod")
    assert row(text, "997")[-4:-2] == ["[0.5000,", "0.5000]"]  # two runs have an interval


def test_many_seeds_have_their_mean_alone(result: Make, references: Path) -> None:
    five, text = (
        printed([result(seed=seed, checkpoints=SAME) for seed in range(count)], references)
        for count in (5, 6)
    )
    assert "seed 4 " in five and "seed 0 " not in text
    assert row(text, "997")[1] == "0.5000"


def test_a_diverged_run_has_its_line_and_no_score(result: Make, references: Path) -> None:
    lost = result(seed=1, status="diverged", steps=12, evaluations=[], checkpoints={}, horizon={})
    text = printed([lost, result(seed=0, checkpoints=SAME)], references)
    assert "seed 1: diverged at update 12: training was no longer finite; nothing to test" in text
    assert row(text, "500")[2:5] == ["-", "1.0000", "1.0000"]
