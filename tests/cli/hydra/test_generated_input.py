"""Overrides made at random: a checked configuration comes out, or a mistake told in a few lines.

LRBENCH_EXAMPLES=2000 makes the long campaign of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from lrbench.cli.guard import complain
from lrbench.cli.hydra.compose import composed
from lrbench.cli.hydra.overrides import split
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.runs.train.validate import validated

EXAMPLES = int(os.environ.get("LRBENCH_EXAMPLES", "200"))
FLAGS = ["--cfg", "job", "--multirun", "-m", "--config-dir", "--resolve", "--info", "-x", "--", "-"]


def leaves(node: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key with its default; a group of settings is a key as well."""
    for key, value in node.items():
        yield prefix + key, value
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")


DEFAULTS = dict(leaves(OmegaConf.to_container(OmegaConf.structured(composed([])))))
KEYS = list(DEFAULTS)
# Where a value fits, the model and its batch must stay small: no numbers between 100 and 10^9
VALUES = [
    *(
        "0",
        "-1",
        "1",
        "2",
        "7",
        "64",
        "1000000000000",
        "-0",
        "007",
        "1_0",
        "0x10",
        "99999999999999999999",
    ),
    *(
        "0.5",
        "-0.5",
        "1e-3",
        "1e3",
        "1e400",
        "-1e400",
        "nan",
        "-nan",
        "inf",
        "-inf",
        ".",
        "1.",
        "1e",
    ),
    *(
        "null",
        "true",
        "False",
        "none",
        "???",
        "",
        "''",
        '""',
        " ",
        "'",
        '"',
        "\\",
        "\\,",
        "a b",
        "a,b",
    ),
    *(
        "[]",
        "[1]",
        "[60,120]",
        "[500,0]",
        "[1,[2]]",
        "[null]",
        "[a]",
        "[0.9,0.999]",
        "[",
        "]",
        "[1,",
        "{}",
    ),
    *(
        "{a:1}",
        "{name:sum}",
        "{",
        "}",
        "(1)",
        "int(3)",
        "range(1,3)",
        "choice(1,2)",
        "glob(*)",
        "foo(1)",
    ),
    *(
        "${seed}",
        "${nope}",
        "${oc.env:HOME}",
        "${oc.env:NOPE_}",
        "${a:b}",
        "${",
        "$",
        "${task}",
        "@",
        "%",
    ),
    *("sum", "parity", "mod_arith", "even_pair", "blockdiag", "blockdiag_release", "adam", "adamw"),
    *(
        "cosine",
        "last",
        "never",
        "cpu",
        "cuda:7",
        "fan2024",
        "linear",
        "x" * 300,
        "9" * 5000,
        "[" * 200,
    ),
    *(
        "../sum",
        "/sum",
        "~",
        "größe",
        "\x00",
        "\x1b[1m",
        "\n",
        "\u2028",
        "\ud800",
        "a=b",
        "=",
        ":",
        "#",
    ),
]


@st.composite
def misspelt(draw: st.DrawFn) -> str:
    key = draw(st.sampled_from(KEYS))
    at = draw(st.integers(0, len(key) - 1))
    return key[:at] + draw(st.sampled_from(["", "x", ".", key[at] * 2])) + key[at + 1 :]


NASTY = st.one_of(
    st.sampled_from(VALUES),
    st.integers(min_value=10**9).map(str),
    st.lists(st.integers(-1, 99)).map(str),
    st.text(max_size=20),
)
NAMES = [value for value in VALUES if value.isidentifier()]
OF_TYPE = {
    bool: st.sampled_from(["true", "false"]),
    int: st.integers(0, 99).map(str),
    float: st.floats(0, 2).map(str),
    list: st.lists(st.integers(0, 99), max_size=3).map(str),
    str: st.sampled_from(NAMES),
    dict: st.sampled_from(NAMES),
    type(None): st.sampled_from(["null", "1", "8"]),
}
PLAIN = st.one_of(*OF_TYPE.values())


@st.composite
def likely(draw: st.DrawFn) -> str:
    key = draw(st.sampled_from(KEYS))
    return f"{key}={draw(OF_TYPE[type(DEFAULTS[key])])}"


SIGN = st.sampled_from(["", "", "", "", "", "", "+", "++", "~"])
KEY = st.one_of(st.sampled_from(KEYS), st.sampled_from(KEYS), misspelt(), st.text(max_size=8))
UNLIKELY = st.builds("{}{}={}".format, SIGN, KEY, st.one_of(PLAIN, NASTY))
OVERRIDE = st.one_of(UNLIKELY, UNLIKELY, UNLIKELY, st.text(max_size=12))
# One odd word is enough: of two, only the first would be seen
OVERRIDES = st.builds(
    lambda arguments, odd, at: [*arguments[:at], *odd, *arguments[at:]],
    st.lists(likely(), max_size=2),
    st.lists(OVERRIDE, max_size=1),
    st.integers(0, 2),
)


def reported(error: UserError, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that an error is told in a few printable lines."""
    complain(str(error))
    said = capsys.readouterr().err
    assert error.exit_code in (1, 2)
    assert said.startswith("lrbench: ") and len(said) > len("lrbench: \n")
    assert 1 <= len(said.splitlines()) <= 6
    assert all(line.isprintable() for line in said.splitlines())
    assert len(str(error).strip().splitlines()) <= 6, "complain() cut something off"
    assert "Traceback" not in said and "full_key" not in said


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(arguments=OVERRIDES)
def test_a_configuration_or_a_few_lines(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    try:
        config = composed(arguments)
        validated(config)
    except UserError as error:
        reported(error, capsys)
    else:
        assert type(config) is Config
    assert not list(tmp_path.iterdir())
    out, err = capsys.readouterr()
    assert (out, err) == ("", "")


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(arguments=st.lists(st.one_of(st.sampled_from(FLAGS), OVERRIDE), max_size=5))
def test_flags_or_a_few_lines(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        said = split(arguments)
    except UserError as error:
        reported(error, capsys)
    else:
        assert set(said.overrides) <= set(arguments)
    assert capsys.readouterr() == ("", "")
