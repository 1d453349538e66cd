"""The short search for wrong strings that ends a training, and that cannot cost a result."""

from __future__ import annotations

from collections.abc import Iterable

from lrbench.certificates.record import CertificateRecord, SearchRecord, wrong_on
from lrbench.certificates.witness import SearchBudget
from lrbench.config import Config
from lrbench.console import messages
from lrbench.errors import Interrupted, UserError
from lrbench.protocols.base import SearchExtent, declared
from lrbench.report.runs.certificates import read_answers
from lrbench.runs.evaluate.certify import certify_run
from lrbench.runs.evaluate.kept import certificate_file
from lrbench.runs.train.own_task import check_own_machine
from lrbench.runs.train.result import Outcome
from lrbench.tasks import make_task
from lrbench.tasks.base import Task

SECONDS = 5.0  # with protocol.certify=auto
SHORT = SearchBudget(complete=100_000, seconds=SECONDS)
RULE = "last"


def search_after_training(
    config: Config, outcomes: Iterable[Outcome], label: str | None = None
) -> None:
    """Search the runs that have finished for strings that they get wrong; tell of each.

    label: what a message calls the cell of these runs, if several cells are trained.

    By `protocol.certify`: auto for some seconds a run, or as far as the protocol says (a suite's);
    always for as long as `lrbench certify` does; never not at all. Only tasks that are finite
    automata have strings to search. What is found is written as `lrbench certify` writes it; no
    proof is sought. A failed search is reported, and the run keeps its result. A run that had
    finished before is searched if nobody has searched it, or not as far as the protocol says, and
    its checkpoint is there: the same command goes on where it was cut off. Raises Interrupted on
    Ctrl-C.
    """
    protocol = declared(config.protocol.name)
    which = RULE if RULE in protocol.rules else protocol.usual_rule
    ended = [one for one in outcomes if _unsearched(one, which, protocol.search)]
    if config.protocol.certify == "never" or not ended:
        return
    task = None if protocol.by_split else make_task(config.task)
    if task is not None:
        try:
            check_own_machine(config.task)
        except UserError as error:
            messages().print(f"not searched for wrong strings: {error}", markup=False)
            return
    if task is None or task.machine() is None:
        if config.protocol.certify == "always":
            why = f"task {config.task.name} is no finite automaton that lrbench knows"
            messages().print(f"not searched for wrong strings: {why}", markup=False)
        return
    budget = SearchBudget(*protocol.search) if protocol.search else SHORT
    if config.protocol.certify == "always":
        budget = SearchBudget()
    for outcome in ended:
        try:
            message = _searched(config, outcome, task, which, budget)
        except KeyboardInterrupt as insisted:
            raise Interrupted(
                f"interrupted while seed {outcome.seed} was searched for wrong strings; every run"
                " has its result\nthe same command searches on"
            ) from insisted
        name = f"{label} · seed {outcome.seed}" if label else f"seed {outcome.seed}"
        messages().print(f"{name}: {message}", markup=False)


def _unsearched(outcome: Outcome, which: str, extent: SearchExtent | None) -> bool:
    """Whether a run has just finished, or had before and was never searched so far."""
    result = outcome.result
    if outcome.status != "skipped":
        return outcome.status == "finished"
    checkpoint = outcome.folder / "checkpoints" / f"{which}.pt"
    if result is None or result["status"] != "finished" or not checkpoint.is_file():
        return False
    if not certificate_file(outcome.folder, which).exists():
        return True
    if extent is None:
        return False
    known = read_answers(outcome.folder, result["checkpoints"], []).get(which)
    return known is None or not known.covers(extent)


def _searched(
    config: Config, outcome: Outcome, task: Task, which: str, budget: SearchBudget
) -> str:
    try:
        found = certify_run(
            outcome.folder, which, budget, config.device, most_nodes=0, foretell_to=0
        )
    except Interrupted:
        raise
    except UserError as error:
        return f"not searched for wrong strings: {error}"
    except Exception as error:  # reported, and the result stays: the command of its own shows where
        return (
            f"not searched for wrong strings: {type(error).__name__}: {error}\n"
            f"lrbench certify {outcome.folder} shows where that is from"
        )
    return sentence(task, found.record)


def sentence(task: Task, record: CertificateRecord) -> str:
    """Return what a search found as one line."""
    searched, witness = record["searched"], record["witness"]
    if witness is None:
        return f"no wrong string found: {_extent(searched)}"
    return wrong_on(task, witness)


def _extent(searched: SearchRecord) -> str:
    """Return how far a search went that found nothing; a part that tried nothing is left out."""
    parts = (
        (searched["complete_to"], "all strings of up to {:,} symbols are right"),
        (searched["families_to"], "repeated patterns were tried to {:,} symbols"),
        (searched["beam_to"], "strings with narrow margins to {:,}"),
    )
    tried = "; ".join(text.format(longest) for longest, text in parts if longest)
    stopped = ", stopped by its time limit" if searched["out_of_time"] else ""
    return f"{tried or 'no length was searched whole'} ({searched['seconds']:.1f} s{stopped})"
