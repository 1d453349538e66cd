"""What the runs of a search came to, as their folders say."""

from __future__ import annotations

from lrbench.sweeps.plan.plan import Plan
from lrbench.sweeps.tune.study import studies


def ends(plan: Plan) -> list[str]:
    protocols = {str(run.cell.folder): "fan2024" for run in plan.runs}
    (study,) = studies(plan, ["optim.lr"], protocols)
    return [attempt.status for point in study.points() for attempt in point.attempts]


def test_a_forced_run_that_failed_is_not_judged_by_the_result_before_it(plan_of, train) -> None:
    train(plan_of("seed=0").jobs[0].overrides)
    assert ends(plan_of("seed=0,1")) == ["finished", "failed"]
    forced = plan_of("seed=0", "force=true")
    assert ends(forced) == ["failed"]
    train(forced.jobs[0].overrides)
    assert ends(forced) == ["finished"]
