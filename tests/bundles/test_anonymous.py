from __future__ import annotations

import io
import json
import socket
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.bundles.anonymous import Identity, anonymised, identities, refuse_leaks
from lrbench.bundles.archive import unpacked
from lrbench.bundles.check.verify import BAD, Options, open_bundle, verify
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.pack import pack
from lrbench.errors import UserError

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
USER, HOST, AUTHOR = "jdoe42", "node-seven", "Jane Q Doe"
REMOTE = f"git@forge.example.org:{USER}/private.git"
ADDRESS = "jane.doe@example.org"


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody, somewhere, in a checkout with a remote; what nobody may read in a bundle."""
    home = tmp_path / "home" / USER
    checkout = home / "secret-project"
    checkout.mkdir(parents=True)
    monkeypatch.setenv("USER", USER)
    monkeypatch.setenv("LOGNAME", USER)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(socket, "gethostname", lambda: f"{HOST}.cluster.example.org")
    monkeypatch.chdir(checkout)
    settings = {"remote.origin.url": REMOTE, "user.name": AUTHOR, "user.email": ADDRESS}
    subprocess.run(["git", "init", "-q"], check=True)
    for key, value in settings.items():
        subprocess.run(["git", "config", key, value], check=True)
    return [USER, HOST, AUTHOR, REMOTE, ADDRESS, str(home), str(checkout)]


def give_away(runs: Path, private: list[str], edit: Edit) -> None:
    """Put all that is private wherever a run might have written it."""
    cell = next(runs.glob("*/*/*/*"))
    said = "; ".join([*private, f"/scratch/{USER}/runs", f"https://{USER}@example.org/x.git"])
    edit(cell / "config.json", lambda config: config.update(output_dir=f"/scratch/{USER}/runs"))
    edit(
        cell / "environment.json",
        lambda found: found.update(
            command=["lrbench train", f"output_dir=runs-of-{USER}", f"/home/{USER}/x"],
            host=HOST,
            commit="0123456789abcdef",
            note=said,
            platform=f"Linux-6.1-{HOST}-x86_64",
        ),
    )
    for folder in cell.glob("s*"):
        edit(
            folder / "result.json",
            lambda result: result["config"].update(output_dir=f"/scratch/{USER}/runs"),
        )
        with open(folder / "metrics.jsonl", "a") as log:
            log.write(json.dumps({"step": 8, "note": said}) + "\n")
            log.write(f'{{"torn by {USER}')


def everything(data: bytes) -> str:
    """Names and unpacked content of an archive, and of the archives that checkpoints are."""
    parts = []
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            parts += [name, content.decode("latin-1")]
            if name.endswith(".pt"):
                parts.append(everything(content))
    return "\n".join(parts)


def test_nothing_private_is_in_a_bundle(runs: Path, private: list[str], edit: Edit) -> None:
    give_away(runs, private, edit)
    private += [str(runs), "secret-project", "/scratch", "0123456789abcdef", "forge.example.org"]
    open_one = everything(pack(runs, TableChoice(), "a.zip").data)
    assert [word for word in private if word not in open_one] == [str(runs)]  # it was all there
    text = everything(pack(runs, TableChoice(), "a.zip", anonymous=True).data).lower()
    assert [word for word in private if word.lower() in text] == []


def test_an_anonymous_bundle_is_as_recorded(
    runs: Path, private: list[str], edit: Edit, tmp_path: Path
) -> None:
    give_away(runs, private, edit)
    path = tmp_path / "a.tar.gz"
    path.write_bytes(pack(runs, TableChoice(), path.name, anonymous=True).data)
    opened = open_bundle(path)
    findings, comparisons = verify(opened, Options(strings=200, device="cpu"))
    assert [finding for finding in findings if finding.status == BAD] == []
    assert len(comparisons) == 6  # of two runs: at the training, the test and a further length
    assert json.loads(unpacked(path)["manifest.json"])["anonymous"] is True


@pytest.mark.parametrize("name", ["outputs", "runs", "runs/", "mine"])
def test_the_folder_of_runs_may_be_called_as_it_usually_is(
    runs: Path, private: list[str], name: str
) -> None:
    runs.rename(name)
    text = everything(pack(Path(name), TableChoice(), "a.zip", anonymous=True).data)
    assert [word for word in (*private, str(Path(name).absolute())) if word in text] == []


def test_what_cannot_be_changed_is_refused() -> None:
    who = [Identity("user", USER)]
    for path, data in (
        ("plugins/mine.py", f'"""By {USER.upper()}."""'.encode()),
        (f"runs/sum/{USER}_rnn/x", b""),
        ("runs/a.json", b'"write to a.b@c.org"'),
    ):
        with pytest.raises(UserError, match=r"still tells the (user|address)"):
            refuse_leaks({path: data}, who)
    refuse_leaks({"runs/a.json": f'"{USER}0 is somebody else"'.encode()}, who)


def test_names_of_nobody_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "root")
    monkeypatch.setenv("LOGNAME", "me")
    texts = {one.text for one in identities([])}
    assert not {"root", "me"} & texts


def test_structure_is_left_alone() -> None:
    """Somebody called `sum` still gets a bundle of sum."""
    data = json.dumps({"task": "sum", "note": "by sum at /home/sum/x"}).encode()
    [changed] = anonymised({"a.json": data}, [Identity("user", "sum")]).values()
    assert json.loads(changed) == {"task": "sum", "note": "by <user> at <path>"}
