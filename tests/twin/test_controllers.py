"""The runner of pure controllers: queues, the request budget, retries, looking again."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from stepwise import lets_go_of_timers

from fairway.admission.door import Door
from fairway.admission.intree import Options
from fairway.admission.request import WebhookAnswer
from fairway.cluster.actions import Create, Emit, Reconciliation, SetStatus, View
from fairway.cluster.changes import Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.containment import Containment
from fairway.twin.controllers import Controllers
from fairway.twin.latency import NONE, Latency
from fairway.twin.standard import standard_components
from fairway.twin.twin import EPOCH_US, Twin
from fairway.workloads.controller import Controller

S = SECOND_US


def config(name: str, **data: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "d"},
        "data": data,
    }


def its_key(_view: View, change: Change) -> Sequence[Key]:
    return (change.key,) if "copy" not in change.key.name else ()


class Log:
    """Reconciliations as they happen: (second, name)."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, str]] = []


def controller(reconcile: object, **more: object) -> Controller:
    return Controller("c", "ConfigMap", ("ConfigMap",), its_key, reconcile, **more)  # type: ignore[arg-type]


def world(c: Controller, latency: Latency = NONE) -> Twin:
    return Twin(latency=latency, components=[Controllers([c])])


def second(twin: Twin) -> float:
    return (twin.now_us - EPOCH_US) / S


def test_changes_of_one_moment_are_one_look() -> None:
    log = Log()

    def reconcile(_view: View, key: Key, now_us: int) -> Reconciliation:
        log.seen.append(((now_us - EPOCH_US) / S, key.name))
        return Reconciliation()

    twin = world(controller(reconcile, delay_us=2 * S))
    twin.apply([config("a"), config("b")])
    twin.store.replace(config("a", x="1"))
    twin.run_for(S)
    twin.store.replace(config("a", x="2"))
    twin.run_for(10 * S)
    assert log.seen == [(2.0, "a"), (2.0, "b")]


def test_looking_again_is_planned_anew_by_every_look() -> None:
    log = Log()

    def reconcile(_view: View, key: Key, now_us: int) -> Reconciliation:
        at = (now_us - EPOCH_US) / S
        log.seen.append((at, key.name))
        return Reconciliation(again_at_us=now_us + 10 * S if at < 25 else None)

    twin = world(controller(reconcile))
    twin.apply([config("a")])
    twin.run_for(5 * S)
    twin.store.replace(config("a", x="1"))
    twin.run_for(100 * S)
    assert [at for at, _ in log.seen] == [0, 5, 15, 25]
    twin.store.replace(config("a", x="2"))
    twin.run_for(S)
    lets_go_of_timers(twin)


def test_requests_share_one_budget() -> None:
    def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
        if view.get(Key("ConfigMap", "d", f"{key.name}-copy-0")) is not None:
            return Reconciliation()
        return Reconciliation(tuple(Create(config(f"{key.name}-copy-{i}")) for i in range(50)))

    twin = world(controller(reconcile), replace(NONE, controller_qps=20, controller_burst=30))
    twin.apply([config("a"), config("b")])
    counts = {}
    for at in (0.0, 1.0, 2.0, 3.45, 3.55):
        twin.run(EPOCH_US + round(at * S))
        counts[at] = twin.store.count("ConfigMap") - 2
    assert counts == {0.0: 30, 1.0: 50, 2.0: 70, 3.45: 99, 3.55: 100}
    for burst, want in ((0, 1), (1, 1), (2, 2)):
        twin = world(controller(reconcile), replace(NONE, controller_qps=20, controller_burst=burst))
        twin.apply([config("a")])
        twin.run(EPOCH_US)
        assert twin.store.count("ConfigMap") - 1 == want, "a budget of no requests is one of one"
    copy = world(controller(reconcile), replace(NONE, controller_qps=20, controller_burst=30))
    copy.apply([config("a"), config("b")])
    copy.run_for(S)
    fork = copy.fork()
    fork.run_for(10 * S)
    assert fork.store.count("ConfigMap") == 102


def test_a_refused_creation_is_told_and_retried_ever_later() -> None:
    log = Log()
    nameless: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "d"}}

    def reconcile(_view: View, key: Key, now_us: int) -> Reconciliation:
        log.seen.append(((now_us - EPOCH_US) / S, key.name))
        return Reconciliation((Create(nameless), SetStatus(key, {"never": True})))

    def refused(_view: View, key: Key, _now_us: int, message: str) -> Reconciliation:
        return Reconciliation((Emit(key, "Warning", "FailedCreate", message, "c"),))

    twin = world(controller(reconcile, refused=refused))
    twin.apply([config("a")])
    twin.run_for(S)
    assert [at for at, _ in log.seen] == [0, 0.005, 0.015, 0.035, 0.075, 0.155, 0.315, 0.635]
    other = twin.fork()
    other.run_for(6000 * S)
    waits = [
        round(after - before, 3) for (before, _), (after, _) in zip(log.seen, log.seen[1:], strict=False)
    ]
    assert waits[16:20] == [327.68, 655.36, 1000, 1000]
    del log.seen[8:]
    told = twin.host.events.about(Key("ConfigMap", "d", "a"))
    assert told[0].reason == "FailedCreate" and told[0].times == 8
    found = twin.store.get(Key("ConfigMap", "d", "a"))
    assert found is not None and "status" not in found


def test_a_new_object_of_a_name_that_was_refused_is_looked_at_at_once() -> None:
    log = Log()
    nameless: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "d"}}

    def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
        obj = view.get(key)
        if obj is None or "mended" in obj["data"]:
            log.seen.append(((now_us - EPOCH_US) / S, key.name))
            return Reconciliation()
        return Reconciliation((Create(nameless),))

    twin = world(controller(reconcile))
    twin.apply([config("a")])
    twin.run_for(100 * S)
    twin.store.delete(Key("ConfigMap", "d", "a"))
    twin.apply([config("a", mended="1")])
    twin.run_for(S)
    assert log.seen and log.seen[0][0] == 100, "the next try was to be at 163.835 s"


def test_a_key_that_is_stumbled_over_under_way_is_left_out_and_comes_again() -> None:
    """Whether it is looked at, or goes on when the budget allows: the others have their turn."""
    broken = {"b"}
    nameless: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "d"}}

    def reconcile(view: View, key: Key, _now_us: int) -> Reconciliation:
        if view.get(Key("ConfigMap", "d", f"{key.name}-copy")) is not None:
            return Reconciliation()
        odd = (Create(nameless),) if key.name in broken else ()
        return Reconciliation(
            (
                *(Create(config(f"{key.name}-copy-{i}")) for i in range(2)),
                *odd,
                Create(config(f"{key.name}-copy")),
            )
        )

    def refused(_view: View, key: Key, _now_us: int, message: str) -> Reconciliation:
        raise ValueError(f"{key.name}: {message}")

    contains = Containment(tell=lambda _message, _error: None)
    parts = [Controllers([controller(reconcile, refused=refused)])]
    latency = replace(NONE, controller_qps=1, controller_burst=1)
    twin = Twin(latency=latency, components=parts, containment=contains)
    twin.apply([config("a"), config("b"), config("c")])
    twin.run_for(20 * S)
    (failure,) = contains.standing()
    assert (failure.component, failure.doing, failure.about) == (
        "kube-controller-manager",
        "c",
        Key("ConfigMap", "d", "b"),
    )
    names = [o["metadata"]["name"] for o in twin.store.objects("ConfigMap")]
    assert [n for n in names if "copy" in n] == [
        "a-copy",
        "a-copy-0",
        "a-copy-1",
        "b-copy-0",
        "b-copy-1",
        "c-copy",
        "c-copy-0",
        "c-copy-1",
    ]
    broken.clear()
    twin.run_for(100 * S)
    assert contains.standing() == [] and twin.store.get(Key("ConfigMap", "d", "b-copy")) is not None


def test_what_was_refused_is_told_to_its_own_key_when_its_batch_is_through_also_in_a_copy() -> None:
    """While it waits for the budget another has its turn, or a copy is made."""
    nameless: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "d"}, "spec": {}}
    seen: list[str] = []

    def pod(name: str) -> Obj:
        spec = {"containers": [{"name": "c", "image": "i"}]}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "d"},
            "spec": spec,
        }

    def reconcile(view: View, key: Key, _now_us: int) -> Reconciliation:
        seen.append(key.name)
        if key.name == "b":
            return Reconciliation()
        missing = [n for n in ("p-0", "p-2", "p-3") if view.get(Key("Pod", "d", n)) is None]
        pods = [Create(pod(name)) for name in missing]
        # 1, then a batch of which the first is refused, and the rest of it.
        return Reconciliation((*pods[:1], Create(nameless), *pods[1:]))

    def refused(_view: View, key: Key, _now_us: int, message: str) -> Reconciliation:
        return Reconciliation((Emit(key, "Warning", "FailedCreate", message, "c"),))

    latency = replace(NONE, controller_qps=1, controller_burst=1)
    twin = world(controller(reconcile, refused=refused, slow_start=True), latency)
    twin.apply([config("a")])
    twin.run_for(S)
    assert (twin.store.count("Pod"), twin.host.events.told()) == (1, []), "refused, and its batch goes on"
    twin.apply([config("b")])
    twin.run(twin.now_us)
    assert seen == ["a", "b"] and twin.host.events.told() == []
    fork = twin.fork()
    for one in (twin, fork):
        one.run_for(S)
        told = [(t.about.name, t.reason, t.times) for t in one.host.events.told()]
        assert (one.store.count("Pod"), told) == (2, [("a", "FailedCreate", 1)])


@pytest.mark.parametrize("tries", [0, 1, 3])
def test_where_tries_are_counted_a_key_that_is_stumbled_over_has_as_many(tries: int) -> None:
    looks: list[str] = []

    def reconcile(_view: View, key: Key, _now_us: int) -> Reconciliation:
        looks.append(key.name)
        if len(looks) < 6:
            raise TypeError
        return Reconciliation()

    contains = Containment(tell=lambda _message, _error: None, tries=tries)
    twin = Twin(latency=NONE, components=[Controllers([controller(reconcile)])], containment=contains)
    twin.apply([config("a")])
    twin.run()
    assert len(looks) == 1 + tries
    # A copy knows what stands, and what has failed; one more look, with a change, and it gets past it.
    del looks[:]
    looks += ["a"] * 5
    fork = twin.fork()
    fork.apply([config("a", x="1")])
    fork.run()
    assert len(looks) == 6 and isinstance(fork.host.containment, Containment)
    assert (len(contains.standing()), fork.host.containment.standing()) == (1, [])


def test_thirty_two_keys_of_one_moment_share_an_event() -> None:
    handled = []
    for count in (31, 32, 33, 64, 65):
        twin = world(controller(lambda *_: Reconciliation()))
        twin.apply([config(f"c-{i}") for i in range(count)])
        twin.run(twin.now_us)
        handled.append(twin.loop.handled)
    first = handled[0]
    assert [n - first for n in handled] == [0, 0, 1, 1, 2]


def test_what_somebody_outside_is_asked_about_keeps_what_comes_after_it() -> None:
    """And goes on from there once there is an answer, once for all."""

    def reconcile(view: View, key: Key, _now_us: int) -> Reconciliation:
        if view.get(Key("ConfigMap", "d", f"{key.name}-copy-1")) is not None:
            return Reconciliation()
        return Reconciliation(tuple(Create(config(f"{key.name}-copy-{i}")) for i in range(2)))

    twin = world(controller(reconcile))
    asked: list[tuple[Any, Any, Any]] = []
    door = Door(twin.store, options=Options(is_served=False), later=lambda *wait: asked.append(wait))
    twin.store.followers.append(door)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    hook = {"name": "a.x.io", "rules": [rule], "clientConfig": {"url": "https://x"}, "sideEffects": "None"}
    kind = "ValidatingWebhookConfiguration"
    api = "admissionregistration.k8s.io/v1"
    twin.store.create({"apiVersion": api, "kind": kind, "metadata": {"name": "w"}, "webhooks": [hook]})
    twin.host.served_door = door
    twin.apply([config("a")])
    there = []
    twin.run_for(S)
    copy = twin.fork()
    copy.run_for(S)
    names = [o["metadata"]["name"] for o in copy.store.objects("ConfigMap")]
    assert names == ["a", "a-copy-0", "a-copy-1"], "a copy asks nobody outside"
    for _ in range(3):
        twin.run_for(S)
        there.append([o["metadata"]["name"] for o in twin.store.objects("ConfigMap")])
        if len(asked) < len(there):
            break
        steps, wanted, settle = asked[-1]
        response = {"uid": wanted.body["request"]["uid"], "allowed": True}
        try:
            steps.send(
                WebhookAnswer(
                    {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
                )
            )
        except StopIteration as end:
            settle(end.value)
    assert there == [["a"], ["a", "a-copy-0"], ["a", "a-copy-0", "a-copy-1"]]
    assert len(asked) == 2 and twin.fork().loop.next_time() is None, "nothing is left for a copy to do"


def test_without_some_of_its_controllers() -> None:
    """Who is left, in the order there was; a quicker answer than asking all is asked no more than it was."""
    made = {name: replace(controller(lambda *_: Reconciliation()), name=name) for name in ("a", "b", "c")}
    other = replace(made["b"], gk="Pod")
    asked: list[str] = []

    def affected(_view: View, change: Change) -> list[tuple[Controller, Key]]:
        asked.append(change.key.name)
        return [(one, change.key) for one in made.values()]

    whole = Controllers(list(made.values()), affected)
    change = Change(1, "ADDED", Key("ConfigMap", "d", "x"), config("x"), None)
    for parts, names, instead, called, left in (
        (whole, (), (), "", "a b c"),
        (whole, ("b",), (), "", "a c"),
        (whole, ("c",), (other,), "rest", "a b"),
        (Controllers(list(made.values())), ("a",), (), "", "b c"),
    ):
        found = parts.without(names, instead, called)
        assert found is not None
        assert (" ".join(c.name for c in found.controllers), found.name) == (
            left,
            called or "kube-controller-manager",
        )
        assert [c.gk for c in found.controllers if c.name == "b"] == (["Pod"] if instead else ["ConfigMap"])[
            : "b" in left
        ]
        asked.clear()
        concerned = found.affected(Store(), change)
        assert (" ".join(c.name for c, _ in concerned), asked) == (left, ["x"] if parts is whole else [])
    assert whole.without(("a", "b", "c")) is None
    assert Controllers([made["a"]]).without(("a",)) is None


BUSY = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
OFTEN: dict[str, Obj] = {
    "ReplicaSet.apps": {"apiVersion": "apps/v1", "spec": {"replicas": 40, "template": BUSY}},
    "DaemonSet.apps": {"apiVersion": "apps/v1", "spec": {"template": BUSY}},
    "Job.batch": {"apiVersion": "batch/v1", "spec": {"parallelism": 40, "completions": 40}},
}


def often(gk: str, namespace: str) -> Obj:
    owner = copy.deepcopy(OFTEN[gk])
    owner |= {"kind": gk.partition(".")[0], "metadata": {"name": "w", "namespace": namespace}}
    if gk == "Job.batch":
        template = {"spec": {**BUSY["spec"], "restartPolicy": "Never"}}
        owner["spec"]["template"] = template
    else:
        owner["spec"]["selector"] = {"matchLabels": {"a": "b"}}
    return owner


@pytest.mark.parametrize(
    ("room", "want_refused"),
    [(0, 1), (1, 2), (2, 1), (5, 2), (7, 8), (8, 7), (31, 9), (39, 1), (40, 0)],
)
@pytest.mark.parametrize("gk", OFTEN)
def test_pods_are_created_in_batches_that_are_tried_to_their_end(
    gk: str, room: int, want_refused: int
) -> None:
    """1, 2, 4, 8, 16, and the 9 that are left: where a quota ends, the rest of its batch is refused, pod by pod."""
    twin = Twin(latency=NONE, components=standard_components())
    owner = often(gk, "default")
    twin.apply([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n-{i}"}} for i in range(40)])
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": str(room)}}}
    twin.apply([{**quota, "metadata": {"name": "q", "namespace": "default"}}])
    twin.run_for(S)
    twin.apply([owner])
    twin.run_for(2000)
    assert twin.store.count("Pod") == room
    told = twin.host.events.about(Key(gk, "default", "w"))
    assert sum(e.times for e in told if e.reason == "FailedCreate") == want_refused
    assert sum(e.times for e in told if e.reason == "SuccessfulCreate") == room


@pytest.mark.parametrize("gk", OFTEN)
def test_nothing_is_told_of_pods_refused_because_their_namespace_goes(gk: str) -> None:
    twin = Twin(latency=NONE, components=standard_components())
    meta = {"name": "old", "finalizers": ["x.io/keeps"]}
    twin.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": meta}])
    twin.apply([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}])
    twin.store.delete(Key("Namespace", "", "old"))
    twin.apply([often(gk, "old")])
    twin.run_for(S)
    assert twin.store.count("Pod") == 0
    assert [e.reason for e in twin.host.events.about(Key(gk, "old", "w"))] == []
    owner = twin.store.get(Key(gk, "old", "w"))
    assert owner is not None and not (owner.get("status") or {}).get("conditions")


def job(name: str, **spec: object) -> Obj:
    template = {
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "c",
                    "image": "i:1",
                    "command": ["sleep", "30"],
                    "resources": {"requests": {"cpu": "1"}},
                }
            ],
        }
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template, **spec},
    }


def test_a_job_from_start_to_end() -> None:
    for latency in (NONE, Latency()):
        twin = Twin(latency=latency, components=standard_components())
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}},
        }
        twin.apply([node, job("j", completions=5, parallelism=5)])
        twin.run_for(600 * S)
        done = twin.store.get(Key("Job.batch", "default", "j"))
        assert done is not None
        assert done["status"]["succeeded"] == 5
        assert [c["type"] for c in done["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        twin.store.delete(Key("Job.batch", "default", "j"))
        twin.run_for(60 * S)
        assert twin.store.count("Pod") == 0


def test_a_job_goes_on_elsewhere_when_its_node_is_gone() -> None:
    from fairway.twin import faults

    twin = Twin(latency=NONE, components=standard_components())
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": n},
            "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}},
        }
        for n in ("a", "b")
    ]
    train = job("j")
    train["spec"]["template"]["metadata"] = {
        "annotations": {"fairway.dev/run-time": "1h", "fairway.dev/checkpoint-interval": "10m"}
    }
    twin.apply([*nodes, train])
    twin.run_for(S)
    (first,) = twin.store.objects("Pod")
    faults.preempt_node(twin, first["spec"]["nodeName"], twin.now_us + 25 * 60 * S)
    twin.run_for(7200 * S)
    done = twin.store.get(Key("Job.batch", "default", "j"))
    assert done is not None and done["status"].get("succeeded") == 1
    kubelet = twin.host.parts["kubelet"]
    assert kubelet.progress.totals.resumed == 1  # type: ignore[attr-defined]


def test_a_turn_that_comes_while_it_is_under_way_waits_until_that_is_done() -> None:
    """The turn that a refusal had given it, after a new object of its name was looked at before that."""
    log = Log()
    nameless: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "d"}}

    def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
        obj = view.get(key)
        if obj is None:
            return Reconciliation()
        log.seen.append(((now_us - EPOCH_US) / S, "mended" if "mended" in obj["data"] else "broken"))
        if "mended" not in obj["data"]:
            return Reconciliation((Create(nameless),))
        names = [f"copy-{i}" for i in range(4)]
        return Reconciliation(
            tuple(Create(config(n)) for n in names if view.get(Key("ConfigMap", "d", n)) is None)
        )

    twin = world(controller(reconcile), replace(NONE, controller_qps=1, controller_burst=1))
    twin.apply([config("a")])
    twin.run_for(9 * S)
    broken = [at for at, what in log.seen if what == "broken"]
    twin.store.delete(Key("ConfigMap", "d", "a"))
    twin.apply([config("a", mended="1")])
    twin.run_for(20 * S)
    mended = [at for at, what in log.seen if what == "mended"]
    assert mended[0] == 9 and len(mended) == 2, log.seen
    # Its four creations take a second each; the turn that was to come falls among them.
    assert broken[-1] + 5e-3 * 2 ** (len(broken) - 1) < mended[1]
    assert [o["metadata"]["name"] for o in twin.store.objects("ConfigMap")][1:] == [
        f"copy-{i}" for i in range(4)
    ]
