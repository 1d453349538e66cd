"""Words typed after `lrbench train`: overrides, and the Hydra flags that are accepted here.

They are checked before Hydra composes anything. Hydra removes a key without a message, and its own
settings and --multirun make files before the configuration is checked.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from lrbench.checks import shown
from lrbench.errors import UserError

GROUPS = ("task", "model", "protocol", "optim")
BACKBONE = "model.backbone.name"
NAME = re.compile(r"[\w.-]{1,100}")
QUOTED = re.compile(rf"(['\"])({NAME.pattern})\1")

REFUSED = {
    ("-m", "--multirun"): (
        "it trains one cell; `lrbench sweep` trains many\nfor several seeds write trials=5"
    ),
    ("-cn", "--config-name", "-cp", "--config-path"): (
        "the configuration starts from lrbench's own\n"
        "write --config-dir FOLDER for presets and groups of your own"
    ),
    ("--experimental-rerun",): "write the settings again: what is finished is not done twice",
    ("-sc", "--shell-completion"): "lrbench --install-completion sets up the shell",
}


class _Flags(argparse.ArgumentParser):
    """Raises UserError instead of printing a usage of many lines."""

    def error(self, message: str) -> NoReturn:
        raise UserError(
            f"train: {shown(message, 200)}\n"
            "flags: --cfg job, --resolve, --package, --config-dir FOLDER, --info, --hydra-help,"
            " --help; all else is KEY=VALUE",
            exit_code=2,
        )


@dataclass(frozen=True)
class CommandLine:
    """Hydra's flags, the overrides, and the folder of the user's own configuration files."""

    flags: list[str]
    overrides: list[str]
    folder: Path | None


def split(arguments: Sequence[str]) -> CommandLine:
    """Tell flags and overrides apart. Raises UserError for a flag that does not fit here."""
    for names, reason in REFUSED.items():
        for argument in arguments:
            if argument.partition("=")[0] in names:
                raise UserError(f"train does not take {shown(argument)}: {reason}", exit_code=2)
    flags = vars(_parser().parse_intermixed_args(list(arguments)))
    overrides, folder = flags.pop("overrides"), flags.pop("config_dir")
    if (flags["resolve"] or flags["package"]) and not flags["cfg"]:
        raise UserError("train: --resolve and --package go with --cfg job", exit_code=2)
    if folder is not None:
        check_folder(Path(folder))
    given = []
    for name, value in flags.items():
        if value not in (None, False):
            given += [f"--{name.replace('_', '-')}", *([] if value is True else [value])]
    return CommandLine(
        given,
        [] if flags["hydra_help"] else overrides,
        Path(folder).absolute() if folder is not None else None,
    )


def check_folder(folder: Path) -> None:
    """Refuse a --config-dir that is no folder, or that would hide our config.yaml."""
    if not folder.is_dir():
        raise UserError(f"--config-dir '{shown(folder)}' is not a folder", exit_code=2)
    if (folder / "config.yaml").exists():
        raise UserError(
            f"--config-dir '{shown(folder)}' holds a config.yaml, which would replace lrbench's\n"
            "put presets into preset/model/PROTOCOL_TASK_MODEL.yaml, or a file FOO/BAR.yaml that"
            " begins with '# @package _global_' and write +FOO=BAR",
            exit_code=2,
        )


def _parser() -> argparse.ArgumentParser:
    parser = _Flags(prog="lrbench train", add_help=False, allow_abbrev=False)
    parser.add_argument("--cfg", "-c", choices=("job", "hydra", "all"))
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("--package", "-p")
    parser.add_argument("--run", "-r", action="store_true")
    parser.add_argument("--config-dir", "-cd")
    parser.add_argument("--info", "-i", nargs="?", const="all", choices=INFO)
    parser.add_argument("--hydra-help", action="store_true")
    parser.add_argument("overrides", nargs="*")
    return parser


INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


def checked(overrides: Sequence[str]) -> dict[str, str]:
    """Return the value typed for each key, as text. Raises UserError for what cannot be meant."""
    typed: dict[str, str] = {}
    for text in overrides:
        override = parsed(text)
        _refuse_what_hydra_alone_reads(text, override)
        key, value = override.key_or_group, override.get_value_string()
        if key in GROUPS:
            _check_choice(key, value, override)
        typed[key] = bare_name(key, value)
    return typed


def bare_name(key: str, value: str) -> str:
    """Return the value typed for a key without the quotes that a name may stand in."""
    inside = QUOTED.fullmatch(value) if key in (*GROUPS, BACKBONE) else None
    return inside[2] if inside else value


def superseded(overrides: Sequence[str]) -> list[str]:
    """Return a line for each group that is chosen twice, and differently: the last one counts.

    Of settings the last one counts as well, but scripts rely on that: nothing is said.
    """
    lines = []
    for group in GROUPS:
        given = (text.partition("=") for text in overrides)
        names = [bare_name(group, name) for key, _, name in given if key == group]
        if len(set(names)) > 1:
            lines.append(f"{group} is given {len(names)} times; the last, {names[-1]}, counts")
    return lines


def parsed(text: str) -> Any:
    """Return Hydra's reading of a word. Raises UserError for one that Hydra cannot read."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(text)
        override.value()
        if not override.key_or_group:
            raise ValueError("no key")
    except (HydraException, ValueError, RecursionError) as error:
        raise UserError(f"cannot read the override '{shown(text)}'\n{_how(text)}") from error
    return override


def _how(text: str) -> str:
    key, sign, value = text.partition("=")
    if not sign or not key:
        return "write KEY=VALUE, such as task=sum or optim.lr=3e-4"
    if key != key.strip() or not re.fullmatch(r"[~+@\w./-]+", key):
        return "a key is words and dots, without blanks or brackets, such as optim.lr=3e-4"
    if "\n" in value or not value.isprintable():
        return "a value is one line of text without control characters"
    return "quote a value that is more than a word or a number: \"output_dir='my runs (2)'\""


def _refuse_what_hydra_alone_reads(text: str, override: Any) -> None:
    key = override.key_or_group
    if override.is_delete():
        raise UserError(
            f"cannot read '{shown(text)}': a setting cannot be taken away\n"
            "leave it out for its default, or write KEY=null where that means none"
        )
    if override.package is not None:
        raise UserError(
            f"cannot read '{shown(text)}': what stands where is fixed\n"
            f"write {', '.join(f'{group}=NAME' for group in GROUPS)}"
        )
    if re.split(r"[./]", key)[0] == "hydra":
        raise UserError(
            f"'{shown(key)}' is one of Hydra's own settings, which are fixed here\n"
            "output_dir=FOLDER says where runs go, --config-dir FOLDER where presets are"
        )
    if override.is_sweep_override():
        raise UserError(
            f"'{shown(text)}' names several values; train takes one\n"
            "write a list as key=[1,2], and quote a value with commas: \"key='a,b'\"\n"
            "for several seeds write trials=5; for other values there is lrbench sweep"
        )


def _check_choice(group: str, value: str, override: Any) -> None:
    """A group is chosen by one name; a dict of its settings is merged as if each were typed."""
    chosen = override.value()
    if isinstance(chosen, dict) or (isinstance(chosen, str) and NAME.fullmatch(chosen)):
        return
    raise UserError(
        f"{group} must be one name, not '{shown(value)}'\n"
        f"write {group}=NAME; settings of it are {group}.KEY=VALUE"
    )
