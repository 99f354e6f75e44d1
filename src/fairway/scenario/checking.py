"""What can be known to be wrong before anything runs: names that never were, times beyond the end, overlaps.

The timeline is walked in order with the names that are there: what was applied, what generators and controllers
may make of it. A pod of a controller is recognised by its prefix; nobody can know its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.located import nearest
from fairway.kube.manifest import Manifest, capped
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import format_duration
from fairway.scenario import actions
from fairway.scenario.actions import Choice
from fairway.scenario.assertions.grammar import Assertion, Comparison, Reaching
from fairway.scenario.entering import stored_key
from fairway.scenario.model import Scenario, Step
from fairway.scenario.profiles import template_path
from fairway.traces.arrival import Arrivals, objects_for
from fairway.traces.sources import arrivals_of

# Kinds whose objects controllers create from others; the names begin with their owner's.
_MADE = frozenset(
    {"Pod", "ReplicaSet.apps", "Job.batch", "Workload.kueue.x-k8s.io", "ControllerRevision.apps"}
)
_WILD = frozenset("*?[")


@dataclass(slots=True)
class _Known:
    """Names at one moment of the timeline. `ever` holds those that were there once, with how they went."""

    now: set[Key] = field(default_factory=set)
    ever: dict[Key, str] = field(default_factory=dict)
    owners: dict[str, list[str]] = field(default_factory=dict)
    """Names of objects that own others, by namespace, in the order of their appearance."""
    makes_nodes: bool = False

    def add(self, obj: Obj) -> None:
        key = stored_key(obj)
        self.now.add(key)
        self.ever.setdefault(key, "")
        if key.gk == "NodePool.karpenter.sh":
            self.makes_nodes = True
        if key.gk != "Pod" and template_path(obj):
            self.owners.setdefault(key.namespace, []).append(key.name)

    def may_be(self, key: Key) -> bool:
        """Whether an object of this name may be there."""
        if key in self.now:
            return True
        if key.gk == "Node":
            return self.makes_nodes
        if key.gk not in _MADE:
            return key in _ALWAYS_THERE
        return any(key.name.startswith(f"{owner}-") for owner in self.owners.get(key.namespace, ()))


_ALWAYS_THERE = frozenset(
    Key("Namespace", "", name) for name in ("default", "kube-system", "kube-public", "kube-node-lease")
)


def check_scenario(scenario: Scenario, manifest: Manifest) -> None:
    """Raises: InvalidInput with every problem."""
    arrivals = [arrivals_of(use, scenario.seed) for use in scenario.traces]
    known = _Known()
    for obj in scenario.objects:
        known.add(obj)
    problems: list[FieldProblem] = []
    problems += _nothing_to_do(scenario, manifest)
    problems += _overlaps(scenario, arrivals)
    problems += _beyond_the_end(scenario, arrivals, manifest)
    for source in arrivals:
        for job in source.trace.jobs:
            for obj in objects_for(source, job):
                known.add(obj)
    for step in sorted(scenario.steps, key=lambda s: s.at_us):
        problems += _check_step(step, known)
    for number, assertion in enumerate(scenario.assertions):
        problems += _check_assertion(assertion, known, scenario, number)
    for process in scenario.faults:
        for name in process.nodes:
            if Key("Node", "", name) not in known.ever and not known.makes_nodes:
                at = f"{scenario.file}:{manifest.line_of(('spec', 'faults'))}"
                problems.append(_located(at, "spec.faults", name, _unknown(Key("Node", "", name), known)))
    if problems:
        raise InvalidInput(capped(problems))


def _located(where: str, path: str, value: str, expected: str) -> FieldProblem:
    file, _, line = where.rpartition(":")
    return FieldProblem(file, int(line), path, value, expected)


# Times


def _nothing_to_do(scenario: Scenario, manifest: Manifest) -> list[FieldProblem]:
    groups = scenario.cloud.autoscaler if scenario.cloud is not None else None
    has_machines = groups is not None and any(g.size for g in groups.groups)
    if scenario.objects or scenario.steps or scenario.traces or has_machines:
        return []
    expected = "nothing to simulate: list manifests (such as manifests: [jobs/]), nodes, a timeline or traces"
    return [FieldProblem(manifest.file, manifest.line_of(("spec",)), "spec", "", expected)]


def _beyond_the_end(
    scenario: Scenario, arrivals: list[Arrivals], manifest: Manifest
) -> Iterable[FieldProblem]:
    end_us = scenario.duration_us
    if end_us is None:
        return
    end = f"before the scenario ends, {format_duration(end_us)} after it starts (spec.duration)"
    for step in scenario.steps:
        if step.at_us >= end_us:
            yield _located(
                step.where, f"{step.path}.at", format_duration(step.at_us), f"expected a time {end}"
            )
    for use, source in zip(scenario.traces, arrivals, strict=True):
        if source.trace.jobs and source.first_us >= end_us:
            first = format_duration(source.first_us)
            yield _located(use.where, use.path, first, f"expected its first job {end}")
    for assertion in scenario.assertions:
        body = assertion.body
        if isinstance(body, Comparison) and body.window.start_us >= end_us:
            start = format_duration(body.window.start_us)
            yield _located(assertion.where, assertion.path, start, f"expected a window that begins {end}")
        if isinstance(body, Reaching) and body.before_us is not None and body.before_us > end_us:
            before = format_duration(body.before_us)
            yield _located(assertion.where, assertion.path, before, f"expected a time {end}")


# Names


def _overlaps(scenario: Scenario, arrivals: list[Arrivals]) -> Iterable[FieldProblem]:
    """Two traces, or a trace and a manifest, that submit objects of one name: one problem for each pair."""
    owner: dict[Key, str] = {stored_key(obj): scenario.file for obj in scenario.objects}
    for use, source in zip(scenario.traces, arrivals, strict=True):
        if not source.trace.jobs:
            yield _located(use.where, use.path, "", "expected at least one job after window, load and limit")
        mine: dict[Key, str] = {}
        clashes: dict[str, list[Key]] = {}
        for job in source.trace.jobs:
            for obj in objects_for(source, job):
                key = stored_key(obj)
                if key in owner:
                    clashes.setdefault(owner[key], []).append(key)
                mine[key] = f"{use.where} ({use.path})"
        for other, keys in clashes.items():
            expected = (
                f"overlaps with {other}: {len(keys)} objects of the same name; "
                "give one of them a prefix or a namespace of its own"
            )
            yield _located(use.where, use.path, str(keys[0]), expected)
        owner.update(mine)


def _check_step(step: Step, known: _Known) -> list[FieldProblem]:
    problems = []
    for action in step.actions:
        for choice in _choices(action):
            for key in choice.keys:
                if not known.may_be(key):
                    expected = _unknown(key, known)
                    problems.append(_located(step.where, step.path, str(key), expected))
        _apply(action, known, step)
    return problems


def _choices(action: actions.Action) -> list[Choice]:
    found = [getattr(action, name, None) for name in ("chosen", "nodes", "pods")]
    return [choice for choice in found if choice is not None]


def _apply(action: actions.Action, known: _Known, step: Step) -> None:
    """What the action makes of the names."""
    if isinstance(action, actions.Apply):
        for obj in action.objects:
            known.add(obj)
    elif isinstance(action, actions.SetQuota):
        known.now.add(action.key)
        known.ever.setdefault(action.key, "")
    elif isinstance(action, (actions.Delete, actions.RemoveNode)):
        chosen = action.chosen if isinstance(action, actions.Delete) else action.nodes
        for key in chosen.keys:
            if key in known.now:
                known.now.discard(key)
                known.ever[key] = step.where


def _unknown(key: Key, known: _Known) -> str:
    """Why this name cannot be there."""
    kind = key.gk.partition(".")[0]
    gone = known.ever.get(key)
    if gone:
        return f"this {kind} is not there any more: {gone} deletes it"
    close = nearest(str(key), sorted(str(k) for k in known.now if k.gk == key.gk))
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"no {kind} of this name is ever there{hint}"


def _check_assertion(
    assertion: Assertion, known: _Known, scenario: Scenario, number: int
) -> list[FieldProblem]:
    """An object that is never there can neither reach a state nor fail to."""
    body = assertion.body
    if not isinstance(body, Reaching) or _WILD & set(body.name + body.namespace):
        return []
    key = Key(body.gk, body.namespace, body.name)
    if key in known.ever or known.may_be(key):
        return []
    where = assertion.where or f"{scenario.file}:0"
    return [_located(where, assertion.path or f"spec.assertions[{number}]", str(key), _unknown(key, known))]
