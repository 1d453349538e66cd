"""Commands that faults happen to: what each is given, begins with and ends with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .conftest import SMALL

QUIET = "protocol.certify=never"
SEEDLESS = tuple(word for word in SMALL if word != "seed=2")
UNTUNED = tuple(word for word in SMALL if not word.startswith("optim.lr="))
TREE = ("train", "task=listops", "model=bbt_grc", "model.width=8", "seed=2", "device=cpu")
EPOCHS = (
    *("protocol.batch_size=7", "protocol.micro_batch=4", "protocol.bucket=2", "protocol.epochs=2"),
    *("protocol.patience=5", "protocol.test_splits=[near_iid]"),
)


@dataclass(frozen=True)
class Scenario:
    """A command on OUT, a folder that is empty or (`begun`) holds a finished run in RUN."""

    name: str
    words: tuple[str, ...]
    begun: bool = False
    code: int = 0  # how it ends undisturbed
    arranged: tuple[tuple[str, dict[str, Any]], ...] = ()  # by functions of sabotage.py

    def argv(self, out: Path) -> list[str]:
        """Return the words of the command in a folder."""
        run = next(out.glob("*/*/*/*/s2"), out)
        return [word.replace("OUT", str(out)).replace("RUN", str(run)) for word in self.words]

    def arrangement(self, out: Path) -> list[list[Any]]:
        """Return what is arranged in the program before it begins."""
        return [
            [name, {key: str(value).replace("OUT", str(out)) for key, value in given.items()}]
            for name, given in self.arranged
        ]


SCENARIOS = (
    Scenario("train", ("train", *SMALL, "device=cpu", "output_dir=OUT")),
    Scenario("group", ("train", *SMALL, QUIET, "trials=3", "device=cpu", "output_dir=OUT")),
    Scenario(
        "sweep",
        (
            *("sweep", *SEEDLESS, QUIET, "seed=0,1", "device=cpu", "output_dir=OUT"),
            *("hydra/launcher=joblib", "hydra.launcher.n_jobs=2"),
        ),
    ),
    Scenario("corpus", (*TREE, *EPOCHS, "output_dir=OUT")),
    Scenario(
        "data",
        ("data", "make", "listops", "--splits", "near_iid,args_10"),
        arranged=(("environment", {"LRBENCH_DATA": "OUT"}),),
    ),
    Scenario(
        "tune",
        (
            *("tune", *UNTUNED, QUIET, "--grid", "optim.lr=0.1,0.2", "device=cpu"),
            *("output_dir=OUT", "--output", "OUT/preset.yaml"),
        ),
    ),
    Scenario("evaluate", ("evaluate", "RUN", "--lengths", "7,9", "--strings", "20"), begun=True),
    Scenario("certify", ("certify", "RUN", "--complete", "3000", "--foretell", "40"), True, code=3),
    Scenario("report", ("report", "--runs", "OUT", "--output", "OUT/table.md"), begun=True),
    Scenario(
        "bundle",
        ("bundle", "--rows", "blockdiag", "--runs", "OUT", "--output", "OUT/table.zip"),
        begun=True,
    ),
    Scenario(
        "publish",
        ("publish", "small", "--runs", "OUT/sum", "--output", "OUT/results"),
        begun=True,
        arranged=(("small_table", {}),),
    ),
)
