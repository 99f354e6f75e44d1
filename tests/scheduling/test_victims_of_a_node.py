"""Who would have to go from one node, against the rule in plain words: everybody below goes, the important come back as
long as the pod still fits, those whom a budget protects first. By arithmetic and by trying it comes to the same, and
the accounts stand afterwards as they stood before."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from judging import Cluster

from accountstate import account_state
from builders import GPU, HOSTNAME, PodBuilder, budget, node, pod
from fairway.kube.labels import EVERYTHING, label_selector
from fairway.kube.objects import Obj, key_of
from fairway.scheduling.cycle import Diagnosis
from fairway.scheduling.evictions import NEVER_STARTED, Budget, Candidate, victims_on
from fairway.scheduling.preemption import budgets_of

CPUS, GPUS, PRIORITY = 8, 4, 50
FULL, NO_CPU, NO_GPU = "Too many pods", "Insufficient cpu", f"Insufficient {GPU}"
NO_PORT = "node(s) didn't have free ports for the requested pod ports"
NOBODY = "No preemption victims found for incoming pod"


@dataclass(frozen=True)
class _There:
    """A pod of the node, in the order in which they came."""

    name: str
    priority: int
    second: int
    cpu: int
    gpu: int
    port: int
    app: str

    def built(self) -> PodBuilder:
        made = pod(self.name).priority(self.priority).cpu(self.cpu)
        made = made.gpu(self.gpu) if self.gpu else made
        made = made.port(self.port) if self.port else made
        made = made.label(app=self.app) if self.app else made
        return made.started(self.second) if self.second else made


@dataclass
class _World:
    there: list[_There]
    slots: int
    asks: _There
    budgets: list[tuple[str, int, frozenset[str]]]
    """App, evictions allowed, names already counted; no app: of everybody, which is nobody to a budget."""

    def problems(self, others: list[_There]) -> list[str]:
        if self.asks.port and any(o.port == self.asks.port for o in others):
            return [NO_PORT]
        cpu = CPUS - sum(o.cpu for o in others) < self.asks.cpu
        gpu = self.asks.gpu > GPUS - sum(o.gpu for o in others)
        full = len(others) >= self.slots
        return [FULL] * full + [NO_CPU] * cpu + [NO_GPU] * gpu

    def victims(self) -> tuple[list[str], int] | list[str]:
        lower = [o for o in self.there if o.priority < PRIORITY]
        stay = [o for o in self.there if o.priority >= PRIORITY]
        if not lower:
            return [NOBODY]
        problems = self.problems(stay)
        if problems:
            return problems
        # Of those that have not started the latest to come is the most important: upstream's sort turns them round.
        place = {o.name: i for i, o in enumerate(self.there)}
        lower.sort(
            key=lambda o: (
                -o.priority,
                o.second or NEVER_STARTED,
                place[o.name] if o.second else -place[o.name],
            )
        )
        left = [allowed for _, allowed, _ in self.budgets]
        protected: set[str] = set()
        for o in lower:
            for i, (app, _, counted) in enumerate(self.budgets):
                if app and o.app == app and o.name not in counted:
                    left[i] -= 1
                    if left[i] < 0:
                        protected.add(o.name)
        gone, violations = {o.name for o in lower}, 0
        for o in sorted(lower, key=lambda o: o.name not in protected):
            if self.problems([*stay, o]):
                violations += o.name in protected
            else:
                stay.append(o)
                gone.discard(o.name)
        return [o.name for o in lower if o.name in gone], violations


def _drawn(seed: int) -> _World:
    draw = Random(seed)
    has_ports = seed % 3 == 1
    there: list[_There] = []
    for i in range(draw.randint(1, 6)):
        cpu = min(draw.randint(0, 4), CPUS - sum(o.cpu for o in there))
        gpu = min(draw.choice((0, 0, 1, 2)), GPUS - sum(o.gpu for o in there))
        port = draw.choice((0, 80, 81)) if has_ports else 0
        port = 0 if any(o.port == port for o in there) else port
        second = draw.choice((0, 1, 1, 2, 3))
        priority = draw.choice((0, 0, 10, 10, 49, 49, 50, 90))
        there.append(_There(f"r{i}", priority, second, cpu, gpu, port, draw.choice(("a", "b", ""))))
    asks = _There("p", PRIORITY, 0, draw.randint(2, 7), draw.randint(0, 3), 80 if has_ports else 0, "")
    budgets: list[tuple[str, int, frozenset[str]]] = []
    for _ in range(draw.randint(0, 2)):
        counted = frozenset(o.name for o in there if draw.random() < 0.2)
        budgets.append((draw.choice(("a", "b", "")), draw.choice((-1, 0, 1)), counted))
    return _World(there, len(there) + draw.choice((0, 0, 1)), asks, budgets)


def _found(world: _World, *, by_trying: bool) -> tuple[list[str], int] | list[str] | None:
    """None: the pod fits as it is."""
    of_node = node("n").cpu(CPUS).gpu(GPUS).pods(world.slots)
    cluster = Cluster([of_node])
    made = [(o, cluster.store.create(o.built().build())) for o in world.there]
    # Who came first is told by when it was made, not by when it came to the node.
    for o, of in reversed(made):
        status = o.built().build().get("status", {"phase": "Running"})
        cluster.store.bind(key_of(of), "n", {**of["status"], **status})
    accounts = cluster.store.accounts
    wants = world.asks.built()
    # A port that nobody else has changes nothing but the way.
    stored = cluster.store.create((wants.port(9999) if by_trying else wants).build())
    diagnosis = cluster.scheduler.place(accounts.record(stored, key_of(stored)), 0)
    if not isinstance(diagnosis, Diagnosis):
        return None
    assert diagnosis.filters is not None
    assert diagnosis.filters.is_about_room(0) is not (by_trying or bool(world.asks.port))
    budgets = [
        Budget(
            "default", label_selector({"matchLabels": {"app": app}}) if app else EVERYTHING, allowed, counted
        )
        for app, allowed, counted in world.budgets
    ]
    before: Any = account_state(accounts)
    codes = diagnosis.filters.codes.tolist()
    found = victims_on(accounts, diagnosis.filters, 0, budgets)
    assert account_state(accounts) == before
    assert diagnosis.filters.codes.tolist() == codes
    if isinstance(found, Candidate):
        assert found.row == 0
        return [v.key.name for v in found.victims], found.violations
    return list(found)


@pytest.mark.parametrize("seed", range(120))
def test_the_least_important_go_until_the_pod_fits(seed: int) -> None:
    world = _drawn(seed)
    fits = not world.problems(world.there)
    for by_trying in (False, True):
        assert _found(world, by_trying=by_trying) == (None if fits else world.victims())


def test_a_budget_of_another_namespace_protects_nobody() -> None:
    cluster = Cluster([node("n")], {"n": [pod("r").label(app="a"), pod("bare")]})
    web, bare = (
        cluster.store.accounts.records[k] for k in sorted(cluster.store.accounts.records, reverse=True)
    )
    selector = label_selector({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]})
    assert Budget("default", selector, 0).covers(web)
    assert not Budget("other", selector, 0).covers(web)
    assert not Budget("default", selector, 0, frozenset({"r"})).covers(web)
    assert not Budget("default", EVERYTHING, 0).covers(web)
    # A pod without labels is nobody's.
    assert not Budget("default", selector, 0).covers(bare)


@pytest.mark.parametrize(
    ("status", "allowed", "disrupted"),
    [
        (None, 0, set()),
        ({}, 0, set()),
        ({"disruptionsAllowed": 0}, 0, set()),
        ({"disruptionsAllowed": 3}, 3, set()),
        ({"disruptionsAllowed": None, "disruptedPods": None}, 0, set()),
        ({"disruptionsAllowed": 1, "disruptedPods": {"b": "2026-01-01T00:00:00Z", "a": ""}}, 1, {"a", "b"}),
    ],
)
def test_a_budget_as_it_is_written(status: Obj | None, allowed: int, disrupted: set[str]) -> None:
    """One whose status nobody wrote yet allows nothing."""
    written: Obj = {**budget("b", 0, "team", app="a"), "status": status}
    bare: Obj = {"metadata": {"name": "none", "namespace": "team"}, "spec": {}}
    selector = label_selector({"matchLabels": {"app": "a"}})
    found = budgets_of([written, bare])
    assert found == [
        Budget("team", selector, allowed, frozenset(disrupted)),
        Budget("team", label_selector(None), 0, frozenset()),
    ]
    assert found[0].selector.matches({"app": "a"}) and not found[0].selector.matches({"app": "b"})


def _asked(cluster: Cluster, wants: PodBuilder) -> Diagnosis:
    stored = cluster.store.create(wants.build())
    found = cluster.scheduler.place(cluster.store.accounts.record(stored, key_of(stored)), 0)
    assert isinstance(found, Diagnosis)
    return found


@pytest.mark.parametrize("by_trying", [False, True])
def test_where_nobody_has_to_go_there_is_no_candidate(*, by_trying: bool) -> None:
    """Upstream: \"expected at least one victim pod on node\", which is no reason that a user hears."""
    cluster = Cluster([node("n").cpu(4)], {"n": [pod("low").cpu(1), pod("equal").cpu(3).priority(PRIORITY)]})
    wants = pod("p").cpu(3).priority(PRIORITY)
    filters = _asked(cluster, wants.port(9999) if by_trying else wants).filters
    assert filters is not None
    accounts = cluster.store.accounts
    assert victims_on(accounts, filters, 0, []) == (NO_CPU,)
    cluster.delete("equal", grace_s=0)
    filters.local.refresh()
    assert victims_on(accounts, filters, 0, []) == ()


@pytest.mark.parametrize(
    ("leaving", "staying", "elsewhere", "want"),
    [
        (0, 1, 0, ["s0"]),
        (0, 2, 0, ["s0", "s1"]),
        (0, 2, 1, ["s1"]),
        # Below, n counts one less than it has pods that stay for each that is taken off: with two leaving, -2.
        (1, 0, 0, ["g0"]),
        (2, 0, 0, ["g1"]),
        (1, 1, 0, ["g0"]),
        (1, 1, 1, ["g0"]),
        (2, 1, 0, ["g1"]),
    ],
)
def test_who_is_leaving_is_taken_off_the_spread(
    leaving: int, staying: int, elsewhere: int, want: list[str]
) -> None:
    """Such a pod is not counted while it is there, and yet taken off when it goes: filtering.go, updateWithPod."""

    def of(prefix: str, count: int, second: int) -> list[PodBuilder]:
        return [pod(f"{prefix}{i}").label(app="web").cpu(1).started(second + i) for i in range(count)]

    on_n = [*of("s", staying, 1), *(p.terminating() for p in of("g", leaving, 5))]
    nodes = [node("n").cpu(len(on_n)), node("o").cpu(4).cordoned()]
    cluster = Cluster(nodes, {"n": on_n, "o": of("o", elsewhere, 1)})
    filters = _asked(cluster, pod("p").label(app="web").cpu(1).priority(PRIORITY).spread(HOSTNAME)).filters
    assert filters is not None
    accounts = cluster.store.accounts
    before: Any = account_state(accounts)
    found = victims_on(accounts, filters, accounts.row_of["n"], [])
    assert isinstance(found, Candidate)
    assert [v.key.name for v in found.victims] == want
    assert account_state(accounts) == before
