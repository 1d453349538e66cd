from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lrbench.protocols.base import declared
from lrbench.report.output.cells import duration
from lrbench.report.output.display import count, wrap
from lrbench.report.output.evaluation import evaluation_table
from lrbench.report.output.summary import run_summary
from lrbench.report.paper.reference import reference_dir

Make = Callable[..., dict[str, Any]]
FOLDER = Path("outputs/sum/blockdiag/fan2024/aaaaaaaaaaaa/s0")
SAME = {"best": 2000, "id": 2000, "band": 2000, "last": 2000}


def summary(result: dict[str, Any], references: Path, terminal: bool = False) -> str:
    console = Console(
        file=StringIO(),
        width=80,
        force_terminal=terminal,
        color_system="standard" if terminal else "auto",
    )
    run_summary(result, FOLDER, console, references)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def only(result: dict[str, Any], *rules: str) -> list[dict[str, Any]]:
    return [row for row in result["evaluations"] if row["which"] in rules]


def test_golden_end_of_a_run(result: Make, references: Path) -> None:
    content = result(checkpoints=SAME)
    content["evaluations"] = only(content, "best")  # kept once where rules coincide
    assert (
        summary(content, references)
        == """\
Holds on random strings to 500, not the rule: 0.5000 at 997
sum (mod 5) · blockdiag, 1 layer, 8 blocks of 8, 51k parameters, state 64 floats
fan2024 · seed 0 · cpu, 1 thread · 2,000 updates in 34 s

length         accuracy     95 % interval  chance  guessing  paper
    40  train    1.0000  [0.9996, 1.0000]       -         -      -
   500  test     1.0000  [0.9996, 1.0000]   0.204     0.279   0.90
   997           0.5000  [0.4691, 0.5309]       -         -      -
10,000 fresh strings a length, 1,000 at 997; accuracy at the final position
guessing: a guesser under the paper's rule, best of 40 looks at 128 strings
best, id, band, last: one checkpoint of update 2,000
perfect look  update 2,000 (34 s), 128 strings at 500; training ended there
horizon       500 < h <= 997 (float32, sequential)
              float64 fails as well (0.9300 of 1,000 at 997): not rounding
look further  lrbench evaluate outputs/sum/blockdiag/fan2024/aaaaaaaaaaaa/s0 --lengths 5003,50021
"""
    )


@pytest.mark.parametrize(
    ("part", "settings", "reason"),
    [
        ("protocol", {"start_from": "a"}, "protocol.start_from is set: training began with"),
        ("model", {"mixer": {"init": "exact"}}, "model.mixer.init is exact: training began with"),
        ("protocol", {"train_length": 400}, "protocol.train_length is 400, the paper's is 40"),
    ],
)
def test_no_number_of_the_papers_stands_beside_another_experiment(
    part: str, settings: dict[str, Any], reason: str, result: Make
) -> None:
    content = result()
    usual = content["config"]["protocol"] | {"train_length": 40}
    content["config"]["protocol"] = usual
    assert re.search(r"500 +test .* 0\.279 +1\.00$", summary(content, reference_dir()), re.M)
    content["config"][part] = content["config"][part] | settings
    text = summary(content, reference_dir())
    assert re.search(r"500 +test .* 0\.279 +-$", text, re.M)
    assert f"paper: no number beside this run; {reason}" in " ".join(text.split())
    assert ("built by hand, state" in " ".join(text.split())) == (part == "model")


def over_range(result: Make, score: str, protocol: str) -> dict[str, Any]:
    """A run that is right to 300 and not at 400 and 500, all of which its test has."""
    common = {"n": 100, "which": declared(protocol).usual_rule, "kind": "test"}
    number = {"length": 500, "split": "test", "metric": "accuracy", "value": 0.8}
    values = {100: 1.0, 200: 1.0, 300: 1.0, 400: 0.6, 500: 0.4}
    look = {"length": 500, "split": "test", "metric": "accuracy", "value": 0.9}
    rows = [
        {"length": 40, "split": "train_length", "metric": "accuracy", "value": 1.0, **common},
        number | common | {"n": 500},
        *(
            {"length": t, "split": "by_length", "metric": "at_length", "value": one, **common}
            for t, one in values.items()
        ),
        look | common | {"n": 128, "kind": "look"},
    ]
    settings = {"name": protocol, "score": score, "look": {"lengths": [41, 500]}}
    content = result(protocol=protocol, evaluations=rows, perfect_look=None, horizon={})
    return content | {"config": content["config"] | {"protocol": settings}, "checkpoints": SAME}


def test_the_number_of_a_range_is_no_accuracy_at_its_longest_length(
    result: Make, references: Path
) -> None:
    text = summary(over_range(result, "mean", "deletang2022"), references)
    assert text.startswith("Holds on random strings to 300, not the rule: 0.4000")
    assert "\n100 fresh strings a length; accuracy at the final position\n" in text
    assert "test at 500: mean over 5 lengths, 100 to 500, of 500 fresh strings" in text
    assert "0.9000 at update 2,000, 128 strings of 41 to 500" in text
    text = summary(over_range(result, "scaled", "walker2025"), references)
    assert "test at 500: all strings of 5 lengths, 100 to 500, of 500 fresh strings" in text


def test_the_number_of_whole_strings_is_said_to_be_that(result: Make, references: Path) -> None:
    text = summary(over_range(result, "sequence", "siems2025"), references)
    assert text.startswith("Learnt length 40, not the rule: 0.8000")
    assert "test at 500: strings that are right at every position, of 500 fresh strings" in text


def test_a_large_state_is_said(result: Make, references: Path) -> None:
    at_most, more = (
        " ".join(summary(result(state_size=size), references).split()) for size in (4096, 4160)
    )
    assert "state 4,096 floats fan2024" in at_most.replace(" · ", " ")
    assert "state 4,160 floats, a large one: 65 a unit of width" in more


def test_distinct_checkpoints_have_columns_of_their_own(result: Make, references: Path) -> None:
    text = summary(result(accuracy=0.75), references)
    assert re.search(r"length +best=last +95 % interval +id +band +chance", text)
    assert "95 % interval: of best=last" in text
    assert "checkpoints, by update: best=last 2,000, id 1,500, band 1,000" in text
    assert "best look     0.7500 at update 2,000, 128 strings at 500" in text
    assert "perfect look" not in text


def test_everything_but_the_command_fits_80_columns(result: Make, references: Path) -> None:
    four = {"best": 40_000, "id": 30_000, "band": 20_000, "last": 10_000}
    text = summary(result(accuracy=0.9, checkpoints=four, steps=40_000), references)
    lines = text.splitlines()
    assert max(len(line) for line in lines[:-1]) <= 80
    assert "…" not in text
    assert lines[-1].endswith(f"lrbench evaluate {FOLDER} --lengths 5003,50021")
    # four values, an interval, chance, guessing, paper
    assert re.search(
        r"500 +test( +0\.9000)( +\[.*\])( +0\.9000){3} +0.204 +0.279 +0.90$", text, re.M
    )


def test_a_terminal_sees_the_same_words(result: Make, references: Path) -> None:
    plain = summary(result(), references)
    styled = summary(result(), references, terminal=True)
    assert "\x1b" not in plain
    assert "\x1b[" in styled

    def words(text: str) -> list[str]:
        return re.sub(r"\x1b\[[\d;]*m", "", text).split()

    assert words(styled) == words(plain)


def test_a_diverged_run_says_so(result: Make, references: Path) -> None:
    content = result(
        status="diverged", stopped="diverged", steps=1234, perfect_look=None, horizon={}
    )
    text = summary(content, references)
    assert "diverged at update 1,234: training was no longer finite; below:" in text
    assert "length" in text
    text = summary(content | {"evaluations": [], "checkpoints": {}}, references)
    assert "nothing to test" in text
    assert "evaluate" not in text
    assert "length" not in text


def test_a_bare_result_is_enough(result: Make, references: Path) -> None:
    content = result()
    optional = "task_title stopped train_seconds parameters state_size device dtype mode threads"
    emptied = ["checkpoints", "perfect_look", "baselines", "guessing", "horizon"]
    bare = {k: v for k, v in content.items() if k not in [*optional.split(), *emptied]}
    bare |= {"config": {}, "task": "mine"}
    text = summary(bare, references)
    assert text.splitlines(keepends=True)[1].startswith(
        "mine · blockdiag · fan2024 · seed 0 · 2,000 updates\n"
    )
    assert re.search("^ *500 +test ", text, re.M)


def test_horizons_that_differ_are_both_reported(result: Make, references: Path) -> None:
    horizon = {
        "best": {"text": "> 997", "dtype": "float32", "mode": "sequential", "float64": None},
        "last": {
            "text": "h <= 40",
            "float64": {"length": 500, "value": 0.999, "n": 1000, "verdict": "rounding"},
        },
    }
    text = summary(result(horizon=horizon), references)
    assert re.search(r"horizon +> 997 \(float32, sequential\)\nhorizon of last +h <= 40\n", text)
    assert "float64 passes (0.9990 of 1,000 at 500): rounding or overflow of float32" in text


def test_a_horizon_says_what_weights_were_rounded_to(result: Make, references: Path) -> None:
    horizon = {"best": {"text": "> 997", "dtype": "float32", "mode": "sequential"}}
    content = result(horizon=horizon)
    content["config"]["protocol"]["precision"] = "bfloat16"
    text = summary(content, references)
    assert re.search(r"horizon +> 997 \(float32, rounded to bfloat16, sequential\)\n", text)


@pytest.mark.parametrize(
    ("model", "named", "told"),
    [
        ("mine", "", "lrbench evaluate outputs"),
        ("mine", "my tasks", "LRBENCH_PLUGINS='my tasks' lrbench evaluate outputs"),
        ("foreign", "", "LRBENCH_PLUGINS=my_layers lrbench evaluate outputs"),
    ],
)
def test_to_look_further_names_the_plugins_that_it_needs(
    result: Make,
    references: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    named: str,
    told: str,
) -> None:
    monkeypatch.setenv("LRBENCH_PLUGINS", named)
    content = result(model=model)
    content["versions"]["plugins"] = {"my_layers": "0" * 64}
    assert f"look further  {told}" in summary(content, references)


@pytest.mark.parametrize(
    ("lengths", "told"),
    [
        ([40, 500], "5002,50020"),
        ([40, 43, 500], "5003,50021"),
        ([39, 499], "5003,50021"),
        ([600_000], "6000000"),
        ([600_001], "6000011"),
    ],
)
def test_to_look_further_has_lengths_of_the_tested_parity(
    result: Make, references: Path, lengths: list[int], told: str
) -> None:
    """Strings of flip_flop have even lengths, those of mod_arith odd ones."""
    content = result()
    row = next(one for one in content["evaluations"] if one["kind"] == "test")
    content["evaluations"] = [row | {"length": length} for length in lengths]
    assert f"--lengths {told}\n" in summary(content, references)


def test_too_few_strings_tell_no_horizon(result: Make, references: Path) -> None:
    content = result(horizon={"best": {"text": "< 40", "upper": 40, "float64": None}})
    assert "horizon       < 40\n" in summary(content, references)
    for row in content["evaluations"]:
        row |= {"n": 200, "value": 1.0}
    told = "horizon       unknown: 200 strings at 40 are too few (protocol.test_size=381 or more)"
    assert told in summary(content, references)


def test_further_is_beyond_what_was_tested(result: Make, references: Path) -> None:
    content = result()
    for row in content["evaluations"]:
        row["length"] = {997: 50_021}.get(row["length"], row["length"])
    assert "--lengths 500009" in summary(content, references)


def test_names_are_printed_as_they_are(result: Make, references: Path) -> None:
    text = summary(result(model="[bold]mine[/bold]"), references)
    assert "[bold]mine[/bold]" in text


def test_an_ascii_console_is_no_error(result: Make, references: Path) -> None:
    raw = BytesIO()
    file = TextIOWrapper(raw, encoding="ascii")
    run_summary(result(), FOLDER, Console(file=file, width=80), references)
    file.flush()
    assert raw.getvalue().splitlines()[1].startswith(b"sum (mod 5) - blockdiag, 1 layer")


def test_evaluation_table() -> None:
    rows = [
        {"length": 5003, "n": 1000, "value": 0.99, "chance": 0.2, "peak_mib": 412.4, "seconds": 3},
        {"length": 50021, "n": 100, "value": 1.0, "which": "best", "checkpoint_step": 2000},
    ]
    console = Console(file=StringIO(), width=80)
    evaluation_table(rows, console)
    assert isinstance(console.file, StringIO)
    assert (
        console.file.getvalue()
        == """\
length  strings  accuracy     95 % interval  chance  memory MiB  seconds
 5,003    1,000    0.9900  [0.9817, 0.9946]   0.200         412      3.0
50,021      100    1.0000  [0.9630, 1.0000]       -           -        -
the checkpoint of rule best, of update 2,000
"""
    )


def test_evaluation_table_tells_what_every_position_scores() -> None:
    curve = [(t, 1 / t) for t in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40)]
    row = {"length": 40, "n": 1000, "value": 0.5, "token": 0.75, "sequence": 0.025}
    console = Console(file=StringIO(), width=80)
    evaluation_table([{**row, "prefix": curve}], console)
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue().splitlines()[2:] == [
        "positions     token 0.7500, sequence 0.0250 at 40",
        "prefix        0.500 to 2, 0.250 to 4, 0.125 to 8, 0.062 to 16, 0.031 to 32, 0.025 to 40",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.96, "10 s"),
        (34.4, "34 s"),
        (59.7, "1 min 0 s"),
        (7_199, "2 h 0 min"),
        (12_000, "3 h 20 min"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_count() -> None:
    numbers = (812, 999, 1000, 1_240, 9_949, 9_950, 50_885, 999_499, 999_500, 1_234_567)
    assert " ".join(map(count, numbers)) == "812 999 1.0k 1.2k 9.9k 10k 51k 999k 1.0M 1.2M"


def test_wrap_breaks_between_parts_only() -> None:
    assert wrap(["aaa", "bbb", "a b c d e"], " · ", 9) == ["aaa · bbb", "a b c d e"]
