"""The short lane of `make faults`: an attempt of each kind, and that a broken promise is found."""

from __future__ import annotations

import pytest

from .campaign import DIED, NO_HOSTS, Attempt, Campaign, drawn, table
from .conftest import Laboratory
from .scenarios import SCENARIOS

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@pytest.fixture(scope="module")
def campaign(lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """The campaign of seed 0."""
    return Campaign(lab, tmp_path_factory.mktemp("campaign"), seed=0)


@pytest.mark.parametrize(
    ("number", "name", "kind"),
    [
        *((0, "train", "kill"), (1, "train", "write"), (2, "train", "damage")),
        *((3, "report", "write"), (3, "evaluate", "rename"), (3, "publish", "rename")),
        *((3, "data", "clock"), (1, "train", "hosts")),
    ],
)
def test_a_fault_costs_nothing(number: int, name: str, kind: str, campaign: Campaign) -> None:
    made = campaign.attempt(number, BY_NAME[name], kind)
    while kind == "damage" and not made.faults and not made.wrong and number < 100:
        number += 10  # it ended before it was killed: on a busy machine times say little
        made = campaign.attempt(number, BY_NAME[name], kind)
    if NO_HOSTS in made.told:
        pytest.skip(NO_HOSTS)
    assert made.wrong == []
    assert made.faults > 0 or kind in ("kill", "hosts")  # a program may end before it is killed


def test_a_program_on_another_host_dies_there(campaign: Campaign) -> None:
    """The first process of a namespace would ignore such a signal: then no fault would happen."""
    if not campaign.has_hosts:
        pytest.skip(NO_HOSTS)
    sabotage = [["elsewhere", {"host": "one"}], ["send", {"numbers": [-DIED]}]]
    assert campaign.lab.start("--version", sabotage=sabotage).wait() == DIED


def test_what_differs_afterwards_is_found(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a report that goes on growing in the place of one that is written whole."""
    scenario = BY_NAME["report"]
    campaign._undisturbed(scenario)
    real = campaign._start

    def meddle(*arguments: object) -> object:
        program = real(*arguments)  # type: ignore[arg-type]
        program.wait()
        for path in arguments[1].glob("table.md"):  # type: ignore[attr-defined]
            path.write_text(path.read_text() + "x")
        return program

    monkeypatch.setattr(campaign, "_start", meddle)
    (wrong,) = campaign.attempt(5, scenario, "write").wrong
    assert wrong.startswith("differs: ")
    assert "table.md" in wrong


def test_attempts_are_drawn_from_seed_and_number_alone() -> None:
    assert [drawn(3, number) for number in range(50)] == [drawn(3, number) for number in range(50)]
    assert {drawn(3, number)[0].name for number in range(200)} == set(BY_NAME)
    assert not any(drawn(3, n)[1] == "damage" and drawn(3, n)[0].begun for n in range(200))


def test_the_table_counts_faults_and_what_went_wrong() -> None:
    attempts = [
        Attempt(0, "train", "kill", faults=5),
        Attempt(1, "train", "write", faults=1, wrong=["traceback", "differs"]),
    ]
    lines = table(attempts)
    assert "| train | 5 | 1 | 0 | 0 | 0 | 0 | 1 |" in lines
    assert lines[-1] == "| all | 5 | 1 | 0 | 0 | 0 | 0 | 1 |"
