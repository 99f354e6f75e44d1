"""The accounts after every change, one by one, are those that would be made of what is there now."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from queueworld import cohort, flavor, queue, running, usage_of

from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.objects import flavor_resource
from fairway.queueing.facts.workloads import WorkloadReader
from fairway.queueing.quota.accounts import Accounts

HOST = "kubernetes.io/hostname"
READER = WorkloadReader()


def _node(draw: Random, name: str) -> Any:
    labels = {"rack": draw.choice("rs"), HOST: name, "pool": draw.choice("xy")}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": draw.random() < 0.1},
        "status": {
            "allocatable": {"gpu": str(draw.choice((2, 4))), "pods": "9"},
            "conditions": [{"type": "Ready", "status": draw.choice(("True", "True", "False"))}],
        },
    }


def _queue(draw: Random, name: str) -> Any:
    amounts = {
        f: draw.choice((0, 2, 4, (4, 1), (4, None, 2))) for f in draw.sample("fgh", draw.choice((1, 2)))
    }
    spec: dict[str, Any] = {}
    if draw.random() < 0.3:
        rules = [{"name": "c", "onFlavors": draw.choice(([], ["f"]))}]
        spec["admissionChecksStrategy"] = {"admissionChecks": rules}
    if draw.random() < 0.1:
        spec["stopPolicy"] = "Hold"
    return queue(name, amounts, cohort=draw.choice(("", "k0", "k1", "k2")), spec=spec)


def _cohort(draw: Random, name: str) -> Any:
    """Its parent has a smaller number: no cycles."""
    above = [f"k{i}" for i in range(int(name[1:]))]
    return cohort(name, draw.choice(("", *above)), gpu=draw.choice((None, {"f": 2}, {"f": 4, "g": 1})))


def _held(draw: Random, name: str) -> Any:
    domains = [{"values": [draw.choice("rs"), draw.choice(("n0", "n1"))], "count": 1}]
    assigned: Any = {"topologyAssignment": {"levels": ["rack", HOST], "domains": domains}}
    of = draw.choice("fgh")
    return running(
        name, draw.choice("ab"), draw.choice((1, 2)), flavor=of, assigned=draw.choice(({}, assigned))
    )


MAKERS: dict[str, tuple[tuple[str, ...], Callable[[Random, str], Any]]] = {
    "flavor": (
        ("f", "g", "h"),
        lambda d, n: flavor(n, nodeLabels={"pool": d.choice("xy")}, topologyName=d.choice(("", "t", "t"))),
    ),
    "topology": (
        ("t",),
        lambda d, n: {
            "metadata": {"name": n},
            "spec": {
                "levels": [{"nodeLabel": k} for k in (["rack", HOST] if d.random() < 0.8 else ["rack"])]
            },
        },
    ),
    "check": (
        ("c",),
        lambda d, n: {
            "metadata": {"name": n},
            "spec": {"controllerName": f"kueue.x-k8s.io/{d.choice(('provisioning-request', 'multikueue'))}"},
            "status": {"conditions": [{"type": "Active", "status": d.choice(("True", "True", "False"))}]},
        },
    ),
    "cohort": (("k0", "k1", "k2"), _cohort),
    "queue": (("a", "b"), _queue),
    "node": (("n0", "n1", "n2"), _node),
    "foreign": (("n0", "n1"), lambda d, n: d.choice(({}, {"gpu": 1, "pods": 1}, {"gpu": 2, "pods": 1}))),
    "held": (("w0", "w1", "w2"), _held),
}
SETTERS: dict[str, Callable[[Accounts, str, Any], Any]] = {
    "flavor": lambda a, n, o: a.set_flavor(facts.resource_flavor(o)),
    "topology": lambda a, n, o: a.set_topology(facts.topology(o)),
    "check": lambda a, n, o: a.set_check(facts.admission_check(o)),
    "cohort": lambda a, n, o: a.set_cohort(facts.cohort(o)),
    "queue": lambda a, n, o: a.set_cluster_queue(facts.cluster_queue(o)),
    "node": lambda a, n, o: a.set_node(facts.topology_node(o)),
    "foreign": lambda a, n, o: a.set_foreign_usage(n, o),
    "held": lambda a, n, o: a.hold(READER.read(o)),
}
DROPPERS: dict[str, Callable[[Accounts, str], Any]] = {
    "flavor": lambda a, n: a.drop_flavor(n),
    "topology": lambda a, n: a.drop_topology(n),
    "check": lambda a, n: a.drop_check(n),
    "cohort": lambda a, n: a.drop_cohort(n),
    "queue": lambda a, n: a.drop_cluster_queue(n),
    "node": lambda a, n: a.drop_node(n),
    "foreign": lambda a, n: a.set_foreign_usage(n, {}),
    "held": lambda a, n: a.release(f"default/{n}"),
}


def _state(accounts: Accounts) -> Any:
    asked = [flavor_resource(f, "gpu") for f in "fgh"]
    nodes = {n.path(): n for n in (*accounts.cohorts.values(), *accounts.queues.values())}
    return {
        **usage_of(accounts),
        "tree": {
            path: (
                [n.available(fr) for fr in asked],
                sorted(q.name for q in n.queues),
                sorted(c.name for c in n.cohorts),
                {fr: v for fr, v in n.subtree.items() if v},
            )
            for path, n in nodes.items()
        },
        "queues": {
            name: (
                q.inactivity,
                q.is_active,
                q.in_cycle,
                q.is_topology_only,
                q.provisioned_flavors,
                q.has_multikueue_check,
                sorted(q.topologies),
                all(q.topologies[f] is accounts.topologies[f] for f in q.topologies),
            )
            for name, q in accounts.queues.items()
        },
        "leaves": {
            name: {leaf.id: {r: v for r, v in leaf.remaining().items() if v} for leaf in t.leaves.values()}
            for name, t in accounts.topologies.items()
        },
        "holders": sorted(accounts.holders),
        "names": (accounts.cohort_names().keys(), accounts.queue_specs().keys()),
        "check": accounts.controller_of_check("c"),
        "foreign": [accounts.foreign_usage(n) for n in ("n0", "n1", "n2")],
    }


@pytest.mark.parametrize("seed", range(6))
def test_accounts_follow_what_is_there(seed: int) -> None:
    draw = Random(seed)
    gates, _ = gates_from(
        {"TASHandleOverlappingFlavors": seed % 2 == 0, "TopologyAwareScheduling": seed % 5 != 4}
    )
    accounts = Accounts(gates)
    there: dict[tuple[str, str], Any] = {}

    def put(kind: str, name: str) -> None:
        there[kind, name] = MAKERS[kind][1](draw, name)
        SETTERS[kind](accounts, name, there[kind, name])

    for kind, (names, _) in MAKERS.items():
        for name in names:
            put(kind, name)
    for step in range(40):
        for _ in range(draw.choice((1, 1, 1, 2))):
            kind = draw.choice([*MAKERS, "held", "foreign", "node"])
            name = draw.choice(MAKERS[kind][0])
            if draw.random() < 0.3:
                there.pop((kind, name), None)
                DROPPERS[kind](accounts, name)
            else:
                put(kind, name)
        if draw.random() < 0.15:
            accounts = accounts.copy()
        accounts.settle()
        fresh = Accounts(gates)
        for kind in MAKERS:
            for (of, name), obj in there.items():
                if of == kind:
                    SETTERS[kind](fresh, name, obj)
        fresh.settle()
        assert _state(accounts) == _state(fresh), (seed, step)
        if step % 8 == 0:
            assert _state(accounts.copy()) == _state(fresh), (seed, step)


def test_a_generation_moves_with_its_own_tree() -> None:
    accounts = Accounts()
    accounts.set_flavor(facts.resource_flavor(flavor("default")))
    for name, of in (("a", "k"), ("b", "k"), ("c", "other"), ("d", "")):
        accounts.set_cluster_queue(facts.cluster_queue(queue(name, 4, cohort=of)))

    def after(change: Callable[[], Any]) -> str:
        """The queues whose generation moved."""
        before = {n: q.generation for n, q in accounts.queues.items()}
        change()
        accounts.settle()
        return "".join(n for n, q in accounts.queues.items() if q.generation != before.get(n, 0))

    def put(name: str, gpu: int, of: str, **more: Any) -> Callable[[], Any]:
        return lambda: accounts.set_cluster_queue(facts.cluster_queue(queue(name, gpu, cohort=of, **more)))

    accounts.settle()
    assert {q.generation for q in accounts.queues.values()} == {1}
    assert after(put("a", 4, "k")) == "", "the same again"
    assert after(put("a", 4, "k", within="Any")) == "", "no quota changed"
    assert after(put("a", 5, "k")) == "ab"
    assert after(put("d", 5, "")) == "d"
    assert after(put("a", 5, "other")) == "abc", "what it left, and where it came"
    assert after(lambda: accounts.set_cohort(facts.cohort(cohort("other", "k")))) == "abc"
    assert after(lambda: accounts.drop_cohort("other")) == "ac"
    assert after(lambda: accounts.set_check(facts.admission_check({"metadata": {"name": "c"}}))) == ""
    assert after(lambda: accounts.hold(READER.read(running("w", "b", 1)))) == ""
    assert after(lambda: accounts.release("default/w")) == "b"
    assert accounts.release("default/w") is None
    assert after(put("new", 1, "k")) == "bnew"
    accounts.drop_cluster_queue("new")
    accounts.settle()
    assert "new" not in accounts.queues


ANEW: dict[str, Callable[[Accounts], None]] = {
    "the queue": lambda accounts: accounts.set_cluster_queue(
        facts.cluster_queue(queue("late", 4, cohort="x"))
    ),
    "a flavor": lambda accounts: accounts.set_flavor(facts.resource_flavor(flavor("default"))),
    "a flavor that goes": lambda accounts: accounts.drop_flavor("spare"),
    "a check": lambda accounts: accounts.set_check(facts.AdmissionCheck("c", "x", is_active=True)),
    "a check that goes": lambda accounts: accounts.drop_check("c"),
    "another queue": lambda accounts: accounts.set_cluster_queue(facts.cluster_queue(queue("else", 4))),
    "a node": lambda accounts: accounts.drop_node("n"),
}


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("what", ANEW)
def test_a_queue_that_came_while_its_cohorts_were_a_circle_stays_inactive(what: str, copied: bool) -> None:
    """Until it, a flavor or a check changes: Kueue stopped reading it half way. One that was there before is not."""

    def cohorts(parent: str) -> None:
        accounts.set_cohort(facts.cohort(cohort("x", "y")))
        accounts.set_cohort(facts.cohort(cohort("y", parent)))
        accounts.settle()

    def states() -> dict[str, tuple[bool, bool, str]]:
        return {
            name: (of.is_active, of.in_cycle, "" if of.inactivity is None else of.inactivity.message)
            for name, of in accounts.queues.items()
        }

    accounts = Accounts()
    accounts.set_flavor(facts.resource_flavor(flavor("default")))
    accounts.set_cluster_queue(facts.cluster_queue(queue("early", 4, cohort="x")))
    cohorts("")
    cohorts("x")
    accounts.set_cluster_queue(facts.cluster_queue(queue("late", 4, cohort="x")))
    accounts.set_cluster_queue(facts.cluster_queue(queue("aside", 4, cohort="z")))
    if copied:
        accounts = accounts.copy()
    accounts.settle()
    half = (False, True, "Can admit new workloads")
    assert states() == {"early": (True, True, ""), "late": half, "aside": (True, False, "")}
    if copied:
        accounts = accounts.copy()
    cohorts("")
    well = {"early": (True, False, ""), "aside": (True, False, "")}
    assert states() == {**well, "late": (False, False, half[2])}
    ANEW[what](accounts)
    accounts.settle()
    found = states()
    found.pop("else", None)
    stays = what in ("another queue", "a node")
    assert found == {**well, "late": (not stays, False, half[2] if stays else "")}
