"""Running a scenario to its end, and judging it.

    finished = run_scenario(load_scenario(path), seed=42)
    finished.passed, finished.outcome, finished.verdicts

A scenario with a duration runs for that long. One without runs until nothing is left to happen, or, with random
faults (which never end), until all work is done; in any case no longer than `HORIZON_US` after the last thing
the scenario itself does.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fairway.autoscaling.fights import fights
from fairway.errors import BugError, UserError, WorldError
from fairway.kube.timestamps import DAY_US, MINUTE_US, parse_duration, parse_rfc3339
from fairway.recorder.recorder import Recorder
from fairway.recorder.tables import COMPLETE, INTERRUPTED, Outcome
from fairway.scenario.assertions.alertwords import AlertRow
from fairway.scenario.assertions.evidence import Evidence
from fairway.scenario.assertions.grammar import EVENTUALLY, REFUSED, Reaching
from fairway.scenario.assertions.judging import Verdict, judge_all
from fairway.scenario.assertions.terms import ALERTS
from fairway.scenario.assertions.watching import ReachingWatch, is_about
from fairway.scenario.building import build_twin
from fairway.scenario.component import ScenarioComponent, Trouble
from fairway.scenario.entering import Refusal
from fairway.scenario.model import Scenario
from fairway.traces.component import TraceComponent
from fairway.twin import invariants
from fairway.twin.actors import idle_kinds
from fairway.twin.containment import LIMITED_TRIES, Containment
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.loop import DEFAULT_LIMIT
from fairway.twin.rules.component import rules_part
from fairway.twin.twin import Progress, Twin, _between_events, _without_collector_pauses

# A week: longer than almost every job; what goes on beyond it is a service, a CronJob, or stuck.
HORIZON_US = 7 * DAY_US
# As the scheduler names the taint that a pod does not tolerate.
_UNTOLERATED = re.compile(r"untolerated taint\(?s?\)? ?\{[^}]*\}")
# How often a run with random faults looks whether all work is done.
_LOOK_EVERY_US = 10 * MINUTE_US

IDLE, SETTLED, DURATION, HORIZON, STOPPED = "idle", "settled", "duration", "horizon", "interrupted"


@dataclass(frozen=True, slots=True)
class Status:
    """How a run ended. `ended`: idle (nothing was left to happen), settled (all work was done), duration, horizon
    (it would have gone on) or interrupted (Ctrl-C)."""

    ended: str
    began_us: int
    ended_us: int
    events: int
    wall_s: float
    digest: str
    troubles: tuple[Trouble, ...] = ()
    failures: tuple[str, ...] = ()
    """Faults of ours that were contained: what was left out of the run, and why."""
    refusals: tuple[Refusal, ...] = ()
    """What the cluster did not let in."""

    @property
    def duration_us(self) -> int:
        return self.ended_us - self.began_us

    @property
    def speed_up(self) -> float:
        """Virtual seconds per second of wall time."""
        return self.duration_us / 1e6 / self.wall_s if self.wall_s else 0.0


@dataclass(frozen=True)
class Finished:
    """A run that is over, or was stopped."""

    scenario: Scenario
    seed: int
    twin: Twin
    outcome: Outcome
    status: Status
    verdicts: tuple[Verdict, ...]
    evidence: Evidence

    @property
    def alerts(self) -> list[AlertRow]:
        """What its rules raised; evaluated when first asked for."""
        return self.evidence.rows(ALERTS, None)

    @property
    def unexpected(self) -> tuple[Refusal, ...]:
        """Refusals that no assertion asks for (`eventually pod/x Refused`)."""
        goals = [a.body for a in self.scenario.assertions if isinstance(a.body, Reaching)]
        wanted = [g for g in goals if g.quantifier == EVENTUALLY and g.state == REFUSED]
        return tuple(r for r in self.status.refusals if not any(is_about(g, r.key) for g in wanted))

    @property
    def passed(self) -> bool:
        """Whether it ran to its end, nothing was left out by a fault of ours, every assertion holds, and everything
        was let in that was meant to be: `kubectl apply` ends with 1 as well where one object of many is refused."""
        ran = self.status.ended != STOPPED and not self.status.failures
        is_in = self.scenario.is_lenient or not self.unexpected
        return ran and is_in and all(v.passed for v in self.verdicts)


ProgressCallback = Callable[[Progress], None]
AlertsOf = Callable[[Twin, Outcome], Sequence[AlertRow]]
"""Evaluates the rules that a twin ended with, over its series: `results.alerting.alerts_of`."""


def run_scenario(
    scenario: Scenario,
    *,
    seed: int | None = None,
    progress: ProgressCallback | None = None,
    prepare: Callable[[Twin], None] | None = None,
    contains: bool = False,
    alerts_of: AlertsOf | None = None,
) -> Finished:
    """Build, run and judge. `prepare` sees the twin before it starts (to attach sinks to its log). `contains`: a
    component that raises over one object leaves that out instead of ending the run; `Status.failures` has it.

    Ctrl-C ends the run early; what happened until then is judged and returned.
    """
    twin = build_twin(scenario, seed=seed, containment=containment_of_run() if contains else None)
    if prepare is not None:
        prepare(twin)
    seed = scenario.seed if seed is None else seed
    return run_twin(scenario, twin, seed=seed, progress=progress, alerts_of=alerts_of)


def containment_of_run() -> Containment:
    """One odd object ends nobody's run. What makes all figures wrong does, and the world's failures."""
    ends_a_run = (BugError, UserError, WorldError, OSError, MemoryError)
    return Containment(lets_through=ends_a_run, tries=LIMITED_TRIES, tell=lambda _message, _error: None)


def run_until(scenario: Scenario, at: str | None, seed: int | None = None) -> Twin:
    """The twin at a moment: a duration since the start such as `8h`, or an RFC 3339 time; None: at its end.

    Raises: UserError.
    """
    if at is None:
        return run_scenario(scenario, seed=seed).twin
    twin = build_twin(scenario, seed=seed)
    twin.run(moment(at, scenario.start_us))
    return twin


def moment(at: str, start_us: int) -> int:
    """Raises: UserError."""
    try:
        found = parse_rfc3339(at) if "T" in at else start_us + parse_duration(at)
    except ValueError as wrong:
        raise UserError(
            f"--at {at!r}: expected a duration such as 8h, or an RFC 3339 time: {wrong}"
        ) from None
    if found < start_us:
        raise UserError(f"--at {at!r}: expected a time after the scenario's start")
    return found


def run_twin(
    scenario: Scenario,
    twin: Twin,
    *,
    seed: int,
    progress: ProgressCallback | None = None,
    alerts_of: AlertsOf | None = None,
) -> Finished:
    """Run a twin that `build_twin` made (or a fork of one) to the scenario's end."""
    began_s = time.perf_counter()
    before = twin.loop.handled
    try:
        ended = _run(scenario, twin, progress)
    except KeyboardInterrupt:
        ended = STOPPED
    if twin.host.containment is not None and twin.host.containment.counts:
        invariants.check(twin.host)
    outcome = _recorder(twin).outcome(INTERRUPTED if ended == STOPPED else COMPLETE)
    status = Status(
        ended=ended,
        began_us=scenario.start_us,
        ended_us=twin.now_us,
        events=twin.loop.handled - before,
        wall_s=time.perf_counter() - began_s,
        digest=twin.digest(),
        troubles=tuple(_player(twin).troubles),
        failures=() if twin.host.containment is None else tuple(twin.host.containment.messages),
        refusals=tuple(_player(twin).refusals),
    )
    evidence = evidence_of(twin, outcome, alerts_of)
    verdicts = judge_all(scenario.assertions, evidence)
    return Finished(scenario, seed, twin, outcome, status, verdicts, evidence)


def _run(scenario: Scenario, twin: Twin, progress: ProgressCallback | None) -> str:
    if scenario.duration_us is not None:
        if (rules := rules_part(twin.host.parts)) is not None:
            rules.until_us = scenario.start_us + scenario.duration_us
        twin.run(scenario.start_us + scenario.duration_us, progress=progress)
        return DURATION
    horizon_us = last_input_us(scenario, twin) + HORIZON_US
    if not scenario.faults:
        _run_until_idle(twin, horizon_us, progress)
        return IDLE if twin.loop.next_time() is None else HORIZON
    while twin.now_us < horizon_us:
        twin.run(min(twin.now_us + _LOOK_EVERY_US, horizon_us), progress=progress)
        if twin.loop.next_time() is None:
            return IDLE
        if is_settled(twin):
            return SETTLED
    return HORIZON


def _run_until_idle(twin: Twin, horizon_us: int, progress: ProgressCallback | None) -> None:
    """As `Twin.run`, but where nothing is left to happen the clock stays at the last event."""
    loop = twin.loop
    twin.wake()
    with _between_events(loop), _without_collector_pauses():
        twin._run_slices(horizon_us, DEFAULT_LIMIT, progress)
    if loop.stopping:
        loop.stopping = False
        raise KeyboardInterrupt
    if loop.next_time() is not None:
        loop.advance(horizon_us)


def last_input_us(scenario: Scenario, twin: Twin) -> int:
    """When the timeline or a trace does something for the last time."""
    traces = twin.host.parts.get("traces")
    arrivals = traces.arrivals if isinstance(traces, TraceComponent) else ()
    return scenario.start_us + max([scenario.last_step_us, *(a.last_us for a in arrivals)])


def is_settled(twin: Twin) -> bool:
    """Whether the timeline is over and no pod that is meant to end is still waiting or running. O(pods)."""
    traces = twin.host.parts.get("traces")
    if not _player(twin).is_done or (isinstance(traces, TraceComponent) and not traces.is_done):
        return False
    for pod in twin.store.objects("Pod"):
        phase = (pod.get("status") or {}).get("phase", "Pending")
        serves = pod["spec"].get("restartPolicy", "Always") == "Always" and phase == "Running"
        if phase not in ("Succeeded", "Failed") and not serves:
            return False
    return all(_is_over(job) for job in twin.store.objects("Job.batch"))


def _is_over(job: dict[str, object]) -> bool:
    spec, status = job.get("spec"), job.get("status")
    if isinstance(spec, dict) and spec.get("suspend"):
        return True
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions or ())


def unasked_webhooks(twin: Twin) -> list[str]:
    """Users' webhooks that a cluster would have called: nobody answers for them in a simulation."""
    return [
        f"webhook {name} of {configuration} cannot be asked here: what it would change or refuse went in as it is"
        for configuration, name in twin.host.door.unasked
    ]


def idle_objects(twin: Twin) -> list[str]:
    """Kinds of which there are objects, but nobody who acts on them."""
    return [
        f"nobody acts on {gk} here: {twin.store.count(gk)} stored, without effect"
        for gk in idle_kinds(twin.store, twin.host.parts.values())
    ]


def fighting(twin: Twin, outcome: Outcome) -> list[str]:
    """Autoscalers that work against each other, or against whoever else sets replicas."""
    store = twin.store
    horizontal = store.objects("HorizontalPodAutoscaler.autoscaling")
    if not horizontal:
        return []
    took: dict[tuple[str, str, str], list[int]] = {}
    untolerated: dict[tuple[str, str, str], str] = {}
    for row in outcome.pods:
        taint = _UNTOLERATED.search(row.unschedulable)
        if row.scheduled_us is None and row.deleted_us is None and taint is not None:
            untolerated.setdefault((row.root_kind, row.namespace, row.root_name), taint[0])
        if row.scheduled_us is not None and row.started_us is not None:
            took.setdefault((row.root_kind, row.namespace, row.root_name), []).append(
                row.started_us - row.scheduled_us
            )
    by_others = Counter((r.kind, r.namespace, r.name) for r in outcome.scalings if not r.autoscaler_kind)
    return fights(
        horizontal,
        store.objects("VerticalPodAutoscaler.autoscaling.k8s.io"),
        store.objects("ScaledObject.keda.sh"),
        {target: sorted(times)[len(times) // 2] for target, times in took.items()},
        by_others,
        untolerated,
    )


def evidence_of(twin: Twin, outcome: Outcome, alerts_of: AlertsOf | None = None) -> Evidence:
    """What assertions are judged by."""
    watch, kubelet = twin.host.parts.get("assertions"), twin.host.parts.get("kubelet")
    reached = watch.reached if isinstance(watch, ReachingWatch) else {}
    for goal, found in reached.items():
        if goal.state == REFUSED:
            found.update((r.key, (r.at_us, r.at_us)) for r in _player(twin).refusals if is_about(goal, r.key))
    return Evidence(
        outcome,
        reached,
        kubelet.progress.totals.lost_us if isinstance(kubelet, Kubelet) else None,
        None if alerts_of is None else partial(alerts_of, twin, outcome),
    )


def _recorder(twin: Twin) -> Recorder:
    recorder = twin.host.parts["recorder"]
    assert isinstance(recorder, Recorder)
    return recorder


def _player(twin: Twin) -> ScenarioComponent:
    player = twin.host.parts["scenario"]
    assert isinstance(player, ScenarioComponent)
    return player
