"""One look of the controller at one autoscaler: what it does, writes down and says.

    decision = decide(autoscaler, scale, world, memory, settings, now_us)

The caller rescales, or tells of the refusal with `refused`; then it writes the status, keeps the memory and says
the events. HPAScaleToZero is off, as by default.

Source: horizontal.go reconcileAutoscaler, computeReplicasForMetrics, validateAndParseSelector (v1.36).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from fairway.autoscaling.hpa import limits
from fairway.autoscaling.hpa.memory import Memory, Recommendation
from fairway.autoscaling.hpa.proposals import Proposal, Question, propose
from fairway.autoscaling.hpa.replicas import Tolerances
from fairway.autoscaling.hpa.settings import Settings
from fairway.autoscaling.hpa.wording import approximate
from fairway.autoscaling.scales import Scale
from fairway.autoscaling.source import MetricsSource
from fairway.kube.labelparsing import parse_selector
from fairway.kube.labels import Selector, SelectorError
from fairway.kube.objects import Obj
from fairway.kube.timestamps import rfc3339

COMPONENT: Final = "horizontal-pod-autoscaler"
_GOT_SCALE: Final = (
    "SucceededGetScale",
    "the HPA controller was able to get the target's current scale",
)
_DISABLED: Final = (
    "ScalingDisabled",
    "scaling is disabled since the replica count of the target is zero",
)


class World(Protocol):
    """What an autoscaler may read."""

    @property
    def metrics(self) -> MetricsSource: ...

    def pods(self, namespace: str, selector: Selector) -> Sequence[Obj]: ...

    def autoscalers_of(self, pods: Sequence[Obj], key: tuple[str, str], selector: Selector) -> Sequence[str]:
        """Which autoscalers (`namespace/name`, in order) select any of these pods, this one with this selector."""
        ...


class Event(NamedTuple):
    """A core/v1 Event about the autoscaler."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """`replicas`: to scale to, or None. `trail`: what each metric asked for, in the order of the specification."""

    replicas: int | None
    status: dict[str, Any]
    events: tuple[Event, ...]
    memory: Memory
    reason: str = ""
    trail: tuple[Proposal, ...] = ()


class _Draft:
    """A status that is being written."""

    def __init__(self, autoscaler: Obj, now_us: int) -> None:
        self.before: dict[str, Any] = autoscaler.get("status") or {}
        self.conditions: list[dict[str, Any]] = list(self.before.get("conditions") or ())
        self.events: list[Event] = []
        self.now_us = now_us

    def set(self, kind: str, is_true: bool, reason: str, message: str) -> None:
        """A condition; its time is that of the last change of its status."""
        status = "True" if is_true else "False"
        place = next((i for i, c in enumerate(self.conditions) if c["type"] == kind), None)
        new = {"type": kind, "status": status, "reason": reason, "message": message}
        if place is None:
            self.conditions.append({**new, "lastTransitionTime": rfc3339(self.now_us)})
            return
        old = self.conditions[place]
        since = old.get("lastTransitionTime") if old["status"] == status else rfc3339(self.now_us)
        self.conditions[place] = {**new, "lastTransitionTime": since}

    def warn(self, reason: str, message: str) -> None:
        self.events.append(Event("Warning", reason, message))

    def status(
        self, current: int, desired: int, metrics: Sequence[dict[str, Any]] | None, *, rescaled: bool = False
    ) -> dict[str, Any]:
        status: dict[str, Any] = {"currentReplicas": current, "desiredReplicas": desired}
        at = rfc3339(self.now_us) if rescaled else self.before.get("lastScaleTime")
        if at:
            status["lastScaleTime"] = at
        status["currentMetrics"] = None if metrics is None else list(metrics)
        return {**status, "conditions": self.conditions}


class _Computed(NamedTuple):
    """What all metrics together ask for; `fault` with None replicas: nothing can be done."""

    replicas: int | None
    name: str
    statuses: tuple[dict[str, Any], ...] | None
    fault: str
    trail: tuple[Proposal, ...] = ()


def decide(
    autoscaler: Obj, scale: Scale | str, world: World, memory: Memory, settings: Settings, now_us: int
) -> Decision:
    """`scale`: or why there is none, in the API server's words."""
    draft = _Draft(autoscaler, now_us)
    if isinstance(scale, str):
        return _without_scale(draft, scale, memory)
    draft.set("AbleToScale", True, *_GOT_SCALE)
    if memory.recommendations is None:
        memory = replace(memory, recommendations=(Recommendation(scale.wanted, now_us),))
    spec = autoscaler["spec"]
    low, high = _minimum(spec), spec["maxReplicas"]
    current = scale.wanted
    if current == 0:
        draft.set("ScalingActive", False, *_DISABLED)
        return Decision(None, draft.status(0, 0, None), (), memory)
    if current > high:
        why = "Current number of replicas above Spec.MaxReplicas"
        return _rescale(draft, spec, current, high, why, None, memory)
    if current < low:
        why = "Current number of replicas below Spec.MinReplicas"
        return _rescale(draft, spec, current, low, why, None, memory)
    computed = _compute(autoscaler, scale, world, settings, draft)
    if computed.replicas is None:
        draft.warn("FailedComputeMetricsReplicas", computed.fault)
        desired = draft.before.get("desiredReplicas") or 0
        status = draft.status(current, desired, computed.statuses)
        return Decision(None, status, tuple(draft.events), memory, trail=computed.trail)
    return _normalized(draft, spec, current, computed, memory, settings)


def _minimum(spec: Mapping[str, Any]) -> int:
    low = spec.get("minReplicas")
    return 1 if low is None else int(low)


def _without_scale(draft: _Draft, fault: str, memory: Memory) -> Decision:
    draft.warn("FailedGetScale", fault)
    message = f"the HPA controller was unable to get the target's current scale: {fault}"
    draft.set("AbleToScale", False, "FailedGetScale", message)
    return Decision(None, {**draft.before, "conditions": draft.conditions}, tuple(draft.events), memory)


def _normalized(
    draft: _Draft,
    spec: Mapping[str, Any],
    current: int,
    computed: _Computed,
    memory: Memory,
    settings: Settings,
) -> Decision:
    wanted = max(computed.replicas or 0, 0)
    called = computed.name if wanted > 0 else ""
    why = ""
    if wanted > current:
        why = f"{called} above target"
    elif wanted < current:
        why = "All metrics below target"
    bounds = limits.Bounds(
        current, _minimum(spec), spec["maxReplicas"], spec.get("behavior"), settings.stabilization_us
    )
    limited = limits.limit(bounds, wanted, memory, draft.now_us)
    draft.set("AbleToScale", True, *limited.able)
    draft.set("ScalingLimited", limited.limited, *limited.limit)
    if limited.replicas != current:
        return _rescale(draft, spec, current, limited.replicas, why, computed, limited.memory)
    status = draft.status(current, current, computed.statuses)
    return Decision(None, status, tuple(draft.events), limited.memory, trail=computed.trail)


def _rescale(
    draft: _Draft,
    spec: Mapping[str, Any],
    current: int,
    replicas: int,
    why: str,
    computed: _Computed | None,
    memory: Memory,
) -> Decision:
    message = f"the HPA controller was able to update the target scale to {replicas}"
    draft.set("AbleToScale", True, "SucceededRescale", message)
    draft.events.append(Event("Normal", "SuccessfulRescale", f"New size: {replicas}; reason: {why}"))
    memory = limits.remember_change(memory, spec.get("behavior"), current, replicas, draft.now_us)
    status = draft.status(current, replicas, computed.statuses if computed else None, rescaled=True)
    trail = computed.trail if computed else ()
    return Decision(replicas, status, tuple(draft.events), memory, why, trail)


def _compute(autoscaler: Obj, scale: Scale, world: World, settings: Settings, draft: _Draft) -> _Computed:
    namespace, name = autoscaler["metadata"]["namespace"], autoscaler["metadata"]["name"]
    selector = _selector(scale.selector, draft)
    if isinstance(selector, str):
        return _Computed(None, "", None, selector)
    pods = world.pods(namespace, selector)
    rivals = world.autoscalers_of(pods, (namespace, name), selector)
    if len(rivals) > 1:
        fault = f"pods by selector {scale.selector} are controlled by multiple HPAs: [{' '.join(rivals)}]"
        draft.warn("AmbiguousSelector", fault)
        draft.set("ScalingActive", False, "AmbiguousSelector", fault)
        return _Computed(None, "", None, fault)
    question = Question(
        namespace,
        scale.wanted,
        scale.there,
        selector,
        pods,
        tolerances(autoscaler["spec"].get("behavior"), settings),
        world.metrics,
        settings,
        draft.now_us,
    )
    return _largest(
        tuple(propose(question, m) for m in autoscaler["spec"].get("metrics") or ()), scale, draft
    )


# Every target's is asked for at every look.
_parsed: Final = functools.lru_cache(maxsize=65_536)(parse_selector)


def _selector(text: str, draft: _Draft) -> Selector | str:
    """Parsed, or why not."""
    if not text:
        fault = "selector is required"
        draft.warn("SelectorRequired", fault)
        message = "the HPA target's scale is missing a selector"
        draft.set("ScalingActive", False, "InvalidSelector", message)
        return fault
    try:
        return _parsed(text)
    except SelectorError as error:
        fault = f"couldn't convert selector into a corresponding internal selector object: {error}"
        draft.warn("InvalidSelector", fault)
        draft.set("ScalingActive", False, "InvalidSelector", fault)
        return fault


def tolerances(behavior: Mapping[str, Any] | None, settings: Settings) -> Tolerances:
    """The behaviour's for each direction, or the controller's."""

    def of(direction: str) -> float:
        said = limits.rules(dict(behavior or {}), direction).get("tolerance")
        return settings.tolerance if said is None else approximate(said)

    return Tolerances(of("scaleDown"), of("scaleUp"))


def _largest(proposals: tuple[Proposal, ...], scale: Scale, draft: _Draft) -> _Computed:
    """The largest proposal wins; where one is missing, nothing goes down."""
    replicas, name = 0, ""
    for proposal in proposals:
        if proposal.reason:
            draft.warn(proposal.reason, proposal.fault)
        elif replicas == 0 or proposal.replicas > replicas:
            replicas, name = proposal.replicas, proposal.name
    statuses = tuple(p.status or {"type": ""} for p in proposals)
    faults = [p for p in proposals if p.reason]
    fault = ""
    if faults:
        fault = f"invalid metrics ({len(faults)} invalid out of {len(proposals)}), first error is: {faults[0].told}"
    if len(faults) >= len(proposals) or (faults and replicas < scale.wanted):
        message = f"the HPA was unable to compute the replica count: {faults[0].fault}" if faults else ""
        draft.set("ScalingActive", False, faults[0].reason if faults else "", message)
        return _Computed(None, "", statuses, fault, proposals)
    message = f"the HPA was able to successfully calculate a replica count from {name}"
    draft.set("ScalingActive", True, "ValidMetricFound", message)
    return _Computed(replicas, name, statuses, fault, proposals)
