"""Where money went, who owes it, what one of something cost, and when a budget was reached."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from costworld import CATALOG, LABELS, bill

from fairway.errors import InvalidInput, UserError
from fairway.kube.timestamps import rfc3339
from fairway.metering.bill import IDLE, NO_LABEL, SYSTEM_OWNER, Basis
from fairway.metering.distribution import SharingRule
from fairway.metering.split import SplitRule
from fairway.results.costs.answers import Question, cost_report
from fairway.results.costs.borrowing import borrowed_in, queues_in
from fairway.results.costs.breakdown import UNUSED_LINE, Shared, breakdown
from fairway.results.costs.budgetreading import read_budgets
from fairway.results.costs.budgets import Budget, Period, budget_states, decisions
from fairway.results.costs.costing import Costed, CostRules, costed
from fairway.results.costs.figures import cost_figures
from fairway.results.costs.lessons import empty_machines, load_curve
from fairway.results.costs.showback import showback, trend
from fairway.results.costs.unitcosts import Asked, unit_costs
from recorded import Recorded

DOLLAR = 1_000_000
P4D = 32_770_000
HOUR = 3_600_000_000
BY_GPU = CostRules(split=SplitRule.GPU)


def ten_hours() -> Recorded:
    """One p4d for ten hours: `train` holds four GPUs for five of them, `nb` one for ten, without a team."""
    world = Recorded()
    world.node("n", gpus=8, cpu="96", memory="1152Gi", **{LABELS: "p4d.24xlarge"})
    job = world.workload("Job", "train", "ml")
    labels = {"team": "vision", "experiment": "lr", "fairway.dev/epochs": "10", "tier": "gold"}
    world.pod("t", "ml", gpus=4, owner=job, labels=labels, use="50%").bind("t", "n", "ml").run("t", "ml")
    serve = {"fairway.dev/requests-per-second": "2"}
    world.pod("nb", "home", gpus=1, labels=serve).bind("nb", "n", "home").run("nb", "home")
    world.at(5 * 3600).succeed("t", "ml")
    world.store.patch(
        _key("Job.batch", "ml", "train"), {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    )
    return world.at(10 * 3600)


def _key(gk: str, namespace: str, name: str) -> object:
    from fairway.kube.objects import Key

    return Key(gk, namespace, name)


GPU_HOUR = P4D // 8


def owed(run: Costed, by: str, *shared: Shared, weights: dict[str, float] | None = None) -> dict[str, int]:
    return {line.name: line.owed for line in breakdown(run, (by,), shared, weights).lines}


def test_every_dollar_is_somebodys_or_nobodys() -> None:
    run = bill(ten_hours(), BY_GPU)
    assert owed(run, "team") == {"vision": 20 * GPU_HOUR, NO_LABEL: 10 * GPU_HOUR, IDLE: 50 * GPU_HOUR}
    assert owed(run, "namespace") == {"ml": 20 * GPU_HOUR, "home": 10 * GPU_HOUR, IDLE: 50 * GPU_HOUR}
    figures = cost_figures(run)
    assert (figures.total_micros, figures.held_micros) == (10 * P4D, 30 * GPU_HOUR)
    assert figures.unused_micros == pytest.approx(10 * GPU_HOUR, abs=20)
    assert figures.efficiency == pytest.approx(20 / 80, abs=1e-6)
    assert figures.told_share == pytest.approx(20 / 30)
    assert figures.idle_hour_micros == pytest.approx(GPU_HOUR)
    assert figures.held_hour_micros == pytest.approx(P4D * 10 / 30)
    assert figures.spot_share == 0.0


def test_by_any_label() -> None:
    run = bill(ten_hours(), CostRules(split=SplitRule.GPU, labels=("tier",)))
    assert owed(run, "label:tier") == {"gold": 20 * GPU_HOUR, NO_LABEL: 10 * GPU_HOUR, IDLE: 50 * GPU_HOUR}


def test_an_unknown_column_is_named_with_its_neighbours() -> None:
    with pytest.raises(UserError, match=r"--by namespaces: did you mean namespace\? expected some of kind"):
        breakdown(bill(ten_hours()), ("namespaces",))


SHARES = [
    ("in proportion", Shared("idle"), None, {"vision": 20 + 50 * 2 / 3, NO_LABEL: 10 + 50 / 3}),
    ("evenly", Shared("idle", SharingRule.EVEN), None, {"vision": 45, NO_LABEL: 35}),
    ("by weight", Shared("idle", SharingRule.WEIGHTED), {"vision": 1.0}, {"vision": 70, NO_LABEL: 10}),
    ("a namespace", Shared("namespace/home"), None, {"vision": 30, IDLE: 50}),
]


@pytest.mark.parametrize(("shared", "weights", "want"), [c[1:] for c in SHARES], ids=[c[0] for c in SHARES])
def test_common_costs_find_bearers_and_nothing_is_lost(
    shared: Shared, weights: dict[str, float] | None, want: dict[str, float]
) -> None:
    run = bill(ten_hours(), BY_GPU)
    found = owed(run, "team", shared, weights=weights)
    assert sum(found.values()) == 10 * P4D
    assert {k: v for k, v in found.items() if v} == {
        k: pytest.approx(v * GPU_HOUR, abs=2) for k, v in want.items()
    }


def test_what_was_held_in_vain_can_be_shared_too() -> None:
    run = bill(ten_hours(), CostRules(Basis.USAGE, split=SplitRule.GPU))
    assert owed(run, "team")[UNUSED_LINE] == pytest.approx(10 * GPU_HOUR, abs=20)
    found = owed(run, "team", Shared("unused"))
    assert UNUSED_LINE not in found or not found[UNUSED_LINE]
    assert sum(found.values()) == 10 * P4D


@pytest.mark.parametrize(
    ("shared", "by", "says"),
    [
        (Shared("idel"), ("team",), "expected idle, system, booting, unused or namespace/NAME"),
        (Shared("namespace/nowhere"), ("team",), "no pod of that namespace held anything"),
        (Shared("idle"), ("team", "queue"), "--by names 2: team, queue"),
        (Shared("idle"), ("gpu_model",), "it has no line of its own"),
    ],
)
def test_sharing_what_cannot_be_shared(shared: Shared, by: tuple[str, ...], says: str) -> None:
    with pytest.raises(UserError, match=says):
        breakdown(bill(ten_hours()), by, (shared,))


def test_what_one_cost() -> None:
    run = bill(ten_hours(), BY_GPU)
    found = {(u.unit, u.name): u for u in unit_costs(run, cost_figures(run))}
    assert found["epoch", "ml/Job/train"].each_micros == pytest.approx(2 * GPU_HOUR)
    requests = found["1,000 requests", "home/Pod/nb"]
    assert requests.count == 2 * 36_000
    assert requests.each_micros == pytest.approx(10 * GPU_HOUR / 72)
    assert found["experiment", "lr"].micros == 20 * GPU_HOUR
    assert found["idle GPU-hour", ""].count == pytest.approx(50)


def test_counts_of_whoever_asks_win_and_are_checked() -> None:
    run = bill(ten_hours(), BY_GPU)
    asked = Asked(epochs={"ml/Job/train": 5.0})
    found = {u.unit: u for u in unit_costs(run, cost_figures(run), asked)}
    assert found["epoch"].each_micros == pytest.approx(4 * GPU_HOUR)
    with pytest.raises(UserError, match=r"did you mean ml/Job/train\?"):
        unit_costs(run, cost_figures(run), Asked(epochs={"ml/Job/trian": 5.0}))
    with pytest.raises(UserError, match="expected more than 0"):
        unit_costs(run, cost_figures(run), Asked(requests={"home/Pod/nb": 0.0}))


def test_a_job_that_has_not_finished_has_no_price_per_epoch() -> None:
    world = Recorded()
    world.node("n", gpus=8, **{LABELS: "p4d.24xlarge"})
    job = world.workload("Job", "train", "ml")
    world.pod("t", "ml", gpus=4, owner=job, labels={"fairway.dev/epochs": "10"}).bind("t", "n", "ml")
    run = bill(world.run("t", "ml").at(3600))
    unit = next(u for u in unit_costs(run, cost_figures(run)) if u.unit == "epoch")
    assert unit.each_micros is None
    assert unit.note == "Running: no price per epoch yet"


# Without prices


def test_hours_without_a_price_are_told_and_not_free() -> None:
    world = Recorded()
    world.node("known", gpus=8, **{LABELS: "p4d.24xlarge"}).node("unknown", gpus=4)
    world.node("typo", gpus=2, **{LABELS: "p4d.24xlrge"})
    world.pod("p", gpus=4).bind("p", "unknown").at(2 * 3600)
    run = bill(world)
    figures = cost_figures(run)
    assert figures.total_micros == 2 * P4D
    assert figures.unpriced_gpu_hours == pytest.approx(12)
    told = {u.instance_type: (u.machines, u.machine_hours, u.why) for u in figures.unpriced}
    assert told[""] == (1, 2.0, "set the label node.kubernetes.io/instance-type")
    assert told["p4d.24xlrge"][2].startswith("no such instance type in the catalog")
    line = next(x for x in breakdown(run, ("namespace",)).lines if x.name == "a")
    assert (line.owed, line.unpriced_gpu_hours) == (0, pytest.approx(8))


# Budgets


BUDGET = Budget("all", {}, 200 * DOLLAR, Period.RUN, (50, 80, 100), enforce_at=80, action="hold")


def test_thresholds_are_reached_by_the_hour() -> None:
    run = bill(ten_hours())
    (state,) = budget_states(run, [BUDGET])
    began = run.run.outcome.began_us
    # $32.77 an hour: $100 in the fourth, $160 in the fifth, $200 in the seventh.
    assert [(c.percent, (c.at_us - began) // HOUR) for c in state.crossings] == [(50, 4), (80, 5), (100, 7)]
    assert state.is_over
    (decision,) = decisions((state,))
    assert (decision.percent, decision.action, decision.at) == (80, "hold", rfc3339(began + 5 * HOUR))


def test_a_budget_speaks_for_what_matches_it() -> None:
    run = bill(ten_hours(), BY_GPU)
    mine = replace(BUDGET, name="mine", for_={"team": "vision"}, period=Period.DAY)
    (state,) = budget_states(run, [mine])
    assert (state.spent_micros, state.is_over, state.period) == (20 * GPU_HOUR, False, "2026-01-05")
    assert not decisions((state,))


BAD_BUDGETS = [
    ("a negative amount", "spec: {amount: -5}", "spec.amount: -5: expected US dollars, more than 0"),
    ("no amount", "spec: {period: month}", "spec.amount: required"),
    ("an unknown period", "spec: {amount: 5, period: mont}", 'spec.period: "mont": did you mean month'),
    ("a threshold of nothing", "spec: {amount: 5, alerts: [0]}", "spec.alerts[0]: 0: expected an integer, 1"),
    ("an unknown field", "spec: {amount: 5, limit: 7}", "spec.limit: 7: unknown field"),
]


@pytest.mark.parametrize(("spec", "says"), [c[1:] for c in BAD_BUDGETS], ids=[c[0] for c in BAD_BUDGETS])
def test_wrong_budgets_are_located(spec: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    file.write_text(f"apiVersion: fairway.dev/v1alpha1\nkind: Budget\nmetadata: {{name: b}}\n{spec}\n")
    with pytest.raises(InvalidInput) as wrong:
        read_budgets([file])
    assert any(f"{file}:4: {says}" in str(p) for p in wrong.value.problems), wrong.value.problems


def test_a_budget_for_a_column_nobody_knows_is_located(tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    file.write_text(
        "apiVersion: fairway.dev/v1alpha1\nkind: Budget\nmetadata: {name: b}\nspec:\n"
        "  amount: 5\n  for:\n    squad: x\n"
    )
    with pytest.raises(InvalidInput) as wrong:
        budget_states(bill(ten_hours()), read_budgets([file]))
    assert f"{file}:7: spec.for[squad]" in str(wrong.value.problems[0])


# Months, trends, and what a run teaches


def test_months_add_up_also_when_common_costs_are_shared() -> None:
    world = Recorded()
    # The run begins at midnight of 2026-01-05: 27 days later is February.
    world.node("n", gpus=8, cpu="96", memory="1152Gi", **{LABELS: "p4d.24xlarge"})
    world.at(26 * 86400).pod("p", gpus=8, labels={"team": "a"}).bind("p", "n").run("p").at(28 * 86400)
    world.succeed("p").pod("q", gpus=4, labels={"team": "b"}).bind("q", "n").run("q").at(29 * 86400)
    run = bill(world, BY_GPU)
    months = showback(run, "team", (Shared("idle"),))
    assert [m.name for m in months] == ["2026-01", "2026-02"]
    assert sum(m.total_micros for m in months) == run.metered.ledger.total
    report = cost_report(run, Question(by=("team",), shared=(Shared("idle"),)))
    for name in ("a", "b"):
        of_months = sum(line.owed for m in months for line in m.lines if line.name == name)
        assert of_months == next(line.owed for line in report.breakdown.lines if line.name == name)


def test_a_trend_adds_up_to_the_bill() -> None:
    run = bill(ten_hours())
    found = trend(run, "team")
    assert found is not None
    assert found.step_us == HOUR
    assert sum(map(sum, found.values)) == run.metered.ledger.total
    assert set(found.names) == {"vision", NO_LABEL, IDLE}


def test_the_load_a_run_had() -> None:
    world = Recorded()
    world.node("n", gpus=8, **{LABELS: "p4d.24xlarge"}).node("m", gpus=8, **{LABELS: "p4d.24xlarge"})
    world.at(3600).pod("p", gpus=8).bind("p", "n").at(5400).pod("q", gpus=1).bind("q", "m")
    world.at(7200).succeed("p").succeed("q").at(4 * 3600)
    run = bill(world)
    assert load_curve(run, "p4d.24xlarge") == [0.0, 2.0, 0.0, 0.0]
    with pytest.raises(UserError, match=r"p5\.48xlarge: no machine of this type in the run; it has p4d"):
        load_curve(run, "p5.48xlarge")
    (empty,) = empty_machines(run, 2 * HOUR)
    # n is empty for an hour and two hours; m for an hour and a half and two: shorter ones do not count.
    assert (empty.machines, empty.stretches, empty.hours) == (2, 2, 4.0)
    assert empty.micros == 4 * P4D


# Quota


def test_whoever_borrows_quota_owes_what_it_costs() -> None:
    world = Recorded()
    world.node("n", gpus=8, cpu="96", memory="1152Gi", **{LABELS: "p4d.24xlarge"})
    for i, queue in enumerate(("qa", "qa", "qb")):
        world.pod(f"p{i}", f"ns-{queue}", gpus=2, labels={"kueue.x-k8s.io/queue-name": queue})
        world.bind(f"p{i}", "n", f"ns-{queue}")
    queues = tuple(
        {"namespace": f"ns-{q}", "name": q, "cluster_queue": f"c{q}", "cohort": "all", "gpu_milli": milli}
        for q, milli in (("qa", 2000), ("qb", 6000))
    )
    run = bill(world.at(3600), BY_GPU, queues=queues)
    a, b = borrowed_in(run)
    assert (a.queue, a.owed_micros, a.borrowed_micros) == ("cqa", 4 * GPU_HOUR, 2 * GPU_HOUR)
    assert (b.owed_micros, b.borrowed_micros, b.lent_micros) == (2 * GPU_HOUR, 0, 2 * GPU_HOUR)


def test_quotas_are_read_from_the_cluster() -> None:
    store = Recorded().store
    group = "kueue.x-k8s.io/v1beta2"
    flavors = [
        {"name": f, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": q}]}
        for f, q in (("x", 3), ("y", "5"))
    ]
    spec = {
        "cohortName": "leaf",
        "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}],
    }
    store.create(
        {"apiVersion": group, "kind": "Cohort", "metadata": {"name": "leaf"}, "spec": {"parentName": "root"}}
    )
    store.create({"apiVersion": group, "kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": spec})
    local = {"name": "lq", "namespace": "team"}
    store.create(
        {"apiVersion": group, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": "cq"}}
    )
    assert queues_in(store) == (
        {"namespace": "team", "name": "lq", "cluster_queue": "cq", "cohort": "root", "gpu_milli": 8000},
    )


def test_terms_change_on_demand_prices_and_leave_spot_alone() -> None:
    world = Recorded()
    world.node("a", gpus=8, **{LABELS: "p5.48xlarge"})
    world.node("b", gpus=8, **{LABELS: "p4d.24xlarge", "karpenter_sh__capacity-type": "spot"})
    run = costed(bill(world.at(3600)).run, CATALOG, CostRules(commitment="1y"))
    assert cost_figures(run).total_micros == 65_930_000 + 12_500_000
    assert cost_figures(run).spot_micros == 12_500_000
    assert SYSTEM_OWNER not in owed(run, "namespace")


def test_a_month_without_a_bearer_keeps_its_common_cost() -> None:
    world = Recorded()
    world.node("n", gpus=8, **{LABELS: "p4d.24xlarge"})
    world.at(28 * 86400).pod("p", "ops", gpus=8, labels={"team": "a"}).bind("p", "n", "ops").at(29 * 86400)
    run = bill(world, BY_GPU)
    shared = (Shared("idle"), Shared("namespace/ops", SharingRule.WEIGHTED))
    months = showback(run, "team", shared[:1])
    assert [[line.name for line in m.lines] for m in months] == [[IDLE], ["a", IDLE]]
    assert cost_report(run, Question(by=("team",), shared=shared)).breakdown.total_micros == 29 * 24 * P4D
