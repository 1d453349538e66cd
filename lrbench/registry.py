"""Names of tasks, mixers, encoders, backbones and protocols, and how a plugin adds one.

Built-ins are listed by module and imported when first asked for, so that `lrbench models`,
shell completion and `--help` need not import torch.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from lrbench.checks import shown
from lrbench.errors import UserError, unknown, where_written

C = TypeVar("C", bound=type)

DEFAULT_BACKBONE = "lrnn_release"
DEFAULT_PROTOCOL = "fan2024"  # conf/config.yaml says so too
NAME = re.compile(r"\w[\w.-]{0,99}")  # names are typed after `model=`, and are names of folders
FOREIGN = "foreign"  # the model that is a torch module by its dotted path
OWN = "one of your own: LRBENCH_PLUGINS=mine, where mine.py is the module that registers it"


@dataclass(frozen=True)
class Entry:
    """One registered class with the dataclass that configures it and its one-line description.

    `backbone` is the stack a mixer stands in unless told otherwise: {"name": ..., settings}.
    """

    name: str
    cls: type
    config: type
    source: str
    backbone: Mapping[str, Any] = field(default_factory=dict)

    @property
    def module(self) -> str:
        return self.cls.__module__

    @property
    def builtin(self) -> bool:
        return self.module.partition(".")[0] == "lrbench"


class Registry:
    """Maps a name to an `Entry`; `builtin` maps names to the modules that register them."""

    def __init__(self, kind: str, builtin: dict[str, str]) -> None:
        self.kind = kind
        self._builtin = builtin
        self._entries: dict[str, Entry] = {}

    def names(self) -> list[str]:
        """Every known name, without importing anything."""
        return sorted({*self._builtin, *self._entries})

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._builtin

    def builtin_modules(self) -> dict[str, str]:
        """Return {name: module} of the built-ins, without importing anything."""
        return dict(self._builtin)

    def get(self, name: str) -> Entry:
        """Return the entry called `name`, importing its module if it is a built-in one."""
        if name not in self._entries and name in self._builtin:
            import_module(self._builtin[name])
        if name not in self._entries:
            raise unknown(self.kind, name, self.names(), fix=OWN)
        return self._entries[name]

    def add(
        self, name: str, config: type, source: str, backbone: Mapping[str, Any] | None = None
    ) -> Callable[[C], C]:
        """Register the decorated class under `name`; `config` is the dataclass of its settings.

        Raises UserError for a name that is none or is taken, and for a config of another kind.
        """
        check_name(self.kind, name)
        if not is_dataclass(config):
            raise UserError(
                f"{self.kind} '{name}': its configuration {config!r} is not a dataclass"
            )

        def register(cls: C) -> C:
            self._check_free(name, cls)
            if not cls.__module__.startswith("lrbench."):
                _check_defaults(self.kind, name, config)
            text = source or (cls.__doc__ or "").strip().partition("\n")[0]
            self._entries[name] = Entry(name, cls, config, text, backbone or {})
            return cls

        return register

    def _check_free(self, name: str, cls: type) -> None:
        taken = self._entries.get(name)
        owner = taken.module if taken else self._builtin.get(name)
        same = taken is not None and taken.cls.__qualname__ == cls.__qualname__
        if owner is None or (owner == cls.__module__ and (taken is None or same)):
            return
        raise UserError(
            f"{self.kind} '{name}' is already registered by {owner};"
            f" {cls.__module__}.{cls.__qualname__} must choose another name"
        )


def _check_defaults(kind: str, name: str, config: type) -> None:
    """Raise UserError for settings of a plug-in that cannot be made, or not be composed."""
    from omegaconf import OmegaConf  # of which a process without plugins may have no need

    try:
        OmegaConf.structured(config())
    except Exception as error:
        first = (str(error) or type(error).__name__).partition("\n")[0]
        raise UserError(
            f"{kind} '{name}': {config.__name__}() cannot be made: {first}{where_written(error)}\n"
            "each field needs a default that its checks accept, and a type such as int, float,"
            " bool, str or list[int]"
        ) from error


def check_name(kind: str, name: object) -> None:
    """Raise UserError for what no task, model, protocol or table can be called."""
    if isinstance(name, str) and NAME.fullmatch(name):
        return
    raise UserError(
        f"{kind} '{shown(name)}' cannot be registered: that is no name\n"
        "a name is of letters, digits and _, after the first also - and .; of 100 at most\n"
        f"fix: choose one such as my_{kind}; runs go into a folder of that name"
    )


class FolderRegistry(Registry):
    """A registry whose built-ins are in the folders of a package, each in its `declaration.py`.

    They are imported together, when first asked for: they load no torch. So what is registered
    there has no line elsewhere, and a folder may register several.
    """

    def __init__(self, kind: str, package: str) -> None:
        super().__init__(kind, {})
        self._package: str | None = package

    def names(self) -> list[str]:
        """Every known name."""
        self._import()
        return super().names()

    def __contains__(self, name: object) -> bool:
        self._import()
        return super().__contains__(name)

    def get(self, name: str) -> Entry:
        """Return the entry called `name`."""
        self._import()
        return super().get(name)

    def add(
        self, name: str, config: type, source: str, backbone: Mapping[str, Any] | None = None
    ) -> Callable[[C], C]:
        """Register the decorated class, after the built-ins: their names are taken."""
        check_name(self.kind, name)
        self._import()
        return super().add(name, config, source, backbone)

    def _import(self) -> None:
        package, self._package = self._package, None
        if package is not None:
            folder = Path(__file__).parent / package.rpartition(".")[2]
            for path in sorted(folder.glob("*/declaration.py")):
                import_module(f"{package}.{path.parent.name}.declaration")


TASKS = Registry(
    "task",
    {
        "sum": "lrbench.tasks.symbols.cyclic",
        "parity": "lrbench.tasks.symbols.cyclic",
        "even_pair": "lrbench.tasks.symbols.even_pair",
        "mod_arith": "lrbench.tasks.symbols.mod_arith",
        "mod_arith_ltr": "lrbench.tasks.symbols.mod_arith_ltr",
        "group": "lrbench.tasks.groups.task",
        "dfa": "lrbench.tasks.automata.dfa",
        "regular": "lrbench.tasks.automata.regular",
        "dyck": "lrbench.tasks.automata.dyck",
        "flip_flop": "lrbench.tasks.automata.flip_flop",
        "nnch_parity_check": "lrbench.tasks.chomsky.regular",
        "nnch_even_pairs": "lrbench.tasks.chomsky.regular",
        "nnch_cycle_navigation": "lrbench.tasks.chomsky.regular",
        "nnch_modular_arithmetic": "lrbench.tasks.chomsky.regular",
        "nnch_modular_arithmetic_brackets": "lrbench.tasks.chomsky.expressions",
        "nnch_solve_equation": "lrbench.tasks.chomsky.expressions",
        "nnch_stack_manipulation": "lrbench.tasks.chomsky.strings",
        "nnch_reverse_string": "lrbench.tasks.chomsky.strings",
        "nnch_duplicate_string": "lrbench.tasks.chomsky.strings",
        "nnch_missing_duplicate_string": "lrbench.tasks.chomsky.strings",
        "nnch_odds_first": "lrbench.tasks.chomsky.strings",
        "nnch_bucket_sort": "lrbench.tasks.chomsky.strings",
        "nnch_binary_addition": "lrbench.tasks.chomsky.binary",
        "nnch_binary_multiplication": "lrbench.tasks.chomsky.binary",
        "nnch_compute_sqrt": "lrbench.tasks.chomsky.binary",
        "xlstm_parity": "lrbench.tasks.chomsky.variants",
        "xlstm_even_pairs": "lrbench.tasks.chomsky.variants",
        "xlstm_cycle_navigation": "lrbench.tasks.chomsky.variants",
        "xlstm_modular_arithmetic": "lrbench.tasks.chomsky.variants",
        "xlstm_modular_arithmetic_brackets": "lrbench.tasks.chomsky.variants",
        "slice_parity": "lrbench.tasks.chomsky.variants",
        "slice_even_pairs": "lrbench.tasks.chomsky.variants",
        "slice_cycle_nav": "lrbench.tasks.chomsky.variants",
        "slice_modular_arithmetic": "lrbench.tasks.chomsky.variants",
        "mackey_glass": "lrbench.tasks.series.mackey_glass",
        "psmnist": "lrbench.tasks.series.psmnist",
        "listops": "lrbench.tasks.listops.task",
        "logic": "lrbench.tasks.logic.task",
        "lra_text": "lrbench.tasks.lra.task",
        "lra_retrieval": "lrbench.tasks.lra.task",
    },
)
MIXERS = Registry(
    "model",
    {
        "blockdiag": "lrbench.mixers.block_diagonal.blockdiag",
        "blockdiag_release": "lrbench.mixers.block_diagonal.blockdiag_release",
        "lru": "lrbench.mixers.state_space.lru",
        "s5": "lrbench.mixers.state_space.s5",
        "lrnn_diag": "lrbench.mixers.block_diagonal.lrnn_diag",
        "lrnn_vanilla": "lrbench.mixers.block_diagonal.lrnn_vanilla",
        "rnn": "lrbench.mixers.nonlinear.cells",
        "gru": "lrbench.mixers.nonlinear.cells",
        "lstm": "lrbench.mixers.nonlinear.cells",
        "elman": "lrbench.mixers.nonlinear.elman",
        "gru_seed": "lrbench.mixers.nonlinear.gru_seed",
        "elman_plain_solve": "lrbench.mixers.nonlinear.elman",
        "elman_taylor_solve": "lrbench.mixers.nonlinear.elman",
        "elman_newton_solve": "lrbench.mixers.nonlinear.elman",
        "elman_quasi_solve": "lrbench.mixers.nonlinear.elman",
        "gru_plain_solve": "lrbench.mixers.nonlinear.gru_seed",
        "gru_newton_solve": "lrbench.mixers.nonlinear.gru_seed",
        "elman_plain_iter": "lrbench.mixers.nonlinear.elman",
        "elman_taylor_iter": "lrbench.mixers.nonlinear.elman",
        "elman_pq_iter": "lrbench.mixers.nonlinear.elman_pq_iter",
        "gru_plain_iter": "lrbench.mixers.nonlinear.gru_seed",
        "liquid_s4": "lrbench.mixers.state_space.liquid_s4",
        "s4": "lrbench.mixers.state_space.s4",
        "s4d": "lrbench.mixers.state_space.s4d",
        "lmu": "lrbench.mixers.legendre.lmu",
        "lmu_parallel": "lrbench.mixers.legendre.lmu_parallel",
        "lmu_gated": "lrbench.mixers.legendre.lmu_gated",
        "rwkv4": "lrbench.mixers.rwkv.rwkv4",
        "rwkv7": "lrbench.mixers.rwkv.rwkv7",
        "deltanet": "lrbench.mixers.delta.deltanet",
        "gated_deltanet": "lrbench.mixers.delta.deltanet",
        "deltaproduct": "lrbench.mixers.delta.deltanet",
        "gated_deltaproduct": "lrbench.mixers.delta.deltanet",
        "mamba": "lrbench.mixers.mamba.mamba",
        "mamba2": "lrbench.mixers.mamba.mamba2",
        "mamba3": "lrbench.mixers.mamba.mamba3",
        "pdssm": "lrbench.mixers.structured.pdssm",
        "sdssm": "lrbench.mixers.structured.sdssm",
        "slice": "lrbench.mixers.structured.slice",
        "m2rnn": "lrbench.mixers.nonlinear.m2rnn",
        "mlstm": "lrbench.mixers.xlstm.mlstm",
        "slstm": "lrbench.mixers.xlstm.slstm",
        "transformer": "lrbench.mixers.attention.transformer",
        "foreign": "lrbench.mixers.foreign.foreign",
    },
)
ENCODERS = Registry(
    "encoder",
    {
        "rnn_grc": "lrbench.encoders.grc.rnn_grc",
        "bbt_grc": "lrbench.encoders.grc.bbt_grc",
        "bt_grc": "lrbench.encoders.trees.bt_grc",
        "bt_grc_os": "lrbench.encoders.trees.bt_grc_os",
        "ebt_grc": "lrbench.encoders.trees.ebt_grc",
        "rir_ebt_grc": "lrbench.encoders.rir.rir_ebt_grc",
        "rir_grc": "lrbench.encoders.rir.rir_grc",
        "rir_crvnn": "lrbench.encoders.rir.rir_crvnn",
        "rir_om": "lrbench.encoders.rir.rir_om",
        "crvnn": "lrbench.encoders.soft.crvnn",
        "mega": "lrbench.encoders.sequence.mega",
        "ordered_memory": "lrbench.encoders.soft.ordered_memory",
        "s4d_stack": "lrbench.encoders.sequence.s4d_stack",
        "pooled": "lrbench.models.pooled",
    },
)
BACKBONES = Registry(
    "backbone",
    {
        "bare": "lrbench.models.bare",
        "gpt": "lrbench.models.gpt",
        "gpt_rms": "lrbench.models.gpt",
        "lrnn_release": "lrbench.models.lrnn_release",
        "mamba": "lrbench.models.gpt",
        "slice": "lrbench.models.slice",
        "s4": "lrbench.models.s4",
        "xlstm": "lrbench.models.xlstm",
    },
)
PROTOCOLS = FolderRegistry("protocol", "lrbench.protocols")


def register_task(name: str, config: type, source: str = "") -> Callable[[C], C]:
    """Class decorator: make a `Task` known as `task=name`.

    `config` has a field `name`, whose default is the task's.
    """
    _check_says_its_name(TASKS.kind, name, config)
    return TASKS.add(name, config, source)


def _check_says_its_name(kind: str, name: str, config: type) -> None:
    """Refuse settings that a run would keep under the name of another task or protocol."""
    named = (
        [one.default for one in fields(config) if one.name == "name"]
        if is_dataclass(config)
        else [name]
    )
    if named != [name]:
        check_name(kind, name)
        raise UserError(
            f"{kind} '{name}': its configuration {config.__name__} does not say its name\n"
            f'fix: name: str = "{name}" as the first field of {config.__name__}'
        )


def register_mixer(
    name: str, config: type, source: str = "", backbone: str | Mapping[str, Any] = DEFAULT_BACKBONE
) -> Callable[[C], C]:
    """Class decorator: make a `Mixer` known as `model=name`.

    `backbone` is the stack it stands in by default: a name, or {"name": ..., "setting": value}.
    """
    stack = {"name": backbone} if isinstance(backbone, str) else backbone
    return MIXERS.add(name, config, source, stack)


def register_encoder(name: str, config: type, source: str = "") -> Callable[[C], C]:
    """Class decorator: make a whole-string `Encoder` known as `model=name`."""
    return ENCODERS.add(name, config, source)


def register_backbone(name: str, config: type, source: str = "") -> Callable[[C], C]:
    """Class decorator: make a backbone known as `model.backbone.name=name`."""
    return BACKBONES.add(name, config, source)


def register_protocol(name: str, config: type, source: str = "") -> Callable[[C], C]:
    """Class decorator: make a `Protocol` known as `protocol=name`.

    `config` is a ProtocolConfig with a field `name`, whose default is the protocol's.
    """
    _check_says_its_name(PROTOCOLS.kind, name, config)
    return PROTOCOLS.add(name, config, source)


def source_module(entry: Entry) -> Any:
    """The module object that defines an entry (used to hash a plugin's source)."""
    return sys.modules[entry.module]
