"""What components hear: of a cluster that was there before them everything once, nodes first, pods by age; of what
comes later every change, in order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairway.admission.door import Door
from fairway.admission.intree import Options
from fairway.cluster.changes import Change
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.components import CHANGES_KEPT, EVERY_KIND, Feed, Host
from fairway.twin.distributions import parse_distribution
from fairway.twin.latency import NONE
from fairway.twin.twin import Twin


class Hears:
    def __init__(self, name: str, *kinds: str) -> None:
        self.name, self.kinds = name, kinds
        self.heard: list[tuple[str, str, str, bool]] = []

    def attach(self, host: Host) -> None: ...

    def start(self) -> None:
        assert self.heard == []

    def observe(self, change: Change) -> None:
        version = int(change.obj["metadata"]["resourceVersion"])
        assert change.version == version
        self.heard.append((change.type, change.key.gk, change.key.name, change.old is None))

    def fork(self) -> Hears:
        return Hears(self.name, *self.kinds)


def thing(kind: str, name: str) -> Obj:
    meta = {"name": name, **({} if kind in ("Node", "Namespace") else {"namespace": "d"})}
    spec = {"spec": {"containers": [{"name": "c", "image": "i"}]}} if kind == "Pod" else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **spec}


def test_nodes_first_then_kinds_by_name_and_pods_by_age() -> None:
    store = Store()
    order = [
        *(("Pod", "z"), ("ConfigMap", "z"), ("Node", "m"), ("Pod", "m")),
        *(("ConfigMap", "a"), ("Namespace", "d"), ("Pod", "a"), ("Node", "b")),
    ]
    for kind, name in order:
        store.create(thing(kind, name))
        store.now_us += SECOND_US
    store.create(thing("Pod", "same-b"))
    store.create(thing("Pod", "same-a"))
    every, pods, nothing = Hears("every", EVERY_KIND), Hears("pods", "Pod", "Node"), Hears("nothing")
    twin = Twin(latency=NONE, components=[every, pods, nothing], store=store, start_us=store.now_us)
    nodes, aged = ["b", "m"], ["z", "m", "a", "same-a", "same-b"]
    whole = [("Node", n) for n in nodes]
    whole += [("ConfigMap", "a"), ("ConfigMap", "z"), ("Namespace", "d"), *(("Pod", n) for n in aged)]
    assert every.heard == [("ADDED", kind, name, True) for kind, name in whole]
    assert pods.heard == [("ADDED", k, n, True) for k, n in whole if k in ("Pod", "Node")]
    assert nothing.heard == []
    # What comes later is heard once, and what was there is not told again.
    before = len(every.heard)
    store.create(thing("ConfigMap", "late"))
    twin.wake()
    twin.run_for(SECOND_US)
    assert every.heard[before:] == [("ADDED", "ConfigMap", "late", True)] and len(pods.heard) == 7


def test_who_asks_for_other_kinds_hears_of_those_from_then_on() -> None:
    part, every = Hears("part", "ConfigMap"), Hears("every", EVERY_KIND)
    twin = Twin(latency=NONE, components=[part, every])
    twin.apply([thing("ConfigMap", "a"), thing("Secret", "a")])
    twin.run(twin.now_us)
    part.kinds = ("Secret",)
    assert twin.host.rewatch is not None
    twin.host.rewatch()
    twin.apply([thing("ConfigMap", "b"), thing("Secret", "b")])
    twin.run(twin.now_us)
    assert [(gk, name) for _, gk, name, _ in part.heard] == [("ConfigMap", "a"), ("Secret", "b")]
    assert len(every.heard) == 4


def test_changes_that_everybody_has_heard_of_are_kept_for_who_comes_late() -> None:
    """Twice as many at most, then as many as are kept."""
    assert Feed().changes_kept == CHANGES_KEPT == 10_000
    twin = Twin(latency=NONE, components=[Hears("every", EVERY_KIND)])
    twin._feed.changes_kept = 3
    lengths = []
    for number in range(9):
        twin.apply([thing("ConfigMap", f"c-{number}")])
        twin.run(twin.now_us)
        lengths.append((len(twin.store.log), twin.store.log.first))
    assert lengths == [*((n, 1) for n in range(1, 7)), (3, 5), (4, 5), (5, 5)]


def test_changes_come_in_their_order_however_long_each_takes_also_in_a_copy() -> None:
    latency = replace(NONE, watch=parse_distribution("uniform(0s, 9s)"))
    part = Hears("part", "ConfigMap")
    twin = Twin(latency=latency, components=[part])
    for number in range(20):
        twin.apply([thing("ConfigMap", f"c-{number:02}")])
        twin.run_for(SECOND_US)
        fork = twin.fork()
        copied = fork.component("part")
        assert isinstance(copied, Hears)
        heard = len(part.heard)
        # At the same moment, and later: what is under way comes first.
        for one, seen in ((fork, copied.heard), (twin.fork(), [])):
            one.apply([thing("ConfigMap", "d")])
            for _ in range(12):
                one.run_for(SECOND_US)
            assert one.loop.queued == 0 and seen in ([], copied.heard)
        assert [name for _, _, name, _ in copied.heard] == [
            *(f"c-{n:02}" for n in range(heard, number + 1)),
            "d",
        ]


@pytest.mark.parametrize("seed", range(8))
def test_in_a_copy_they_come_when_they_would_have_come(seed: int) -> None:
    latency = replace(NONE, watch=parse_distribution("uniform(0s, 9s)"))
    part = Hears("part", "ConfigMap")
    twin = Twin(seed=seed, latency=latency, components=[part])
    for number in range(4):
        twin.apply([thing("ConfigMap", f"c-{number}")])
        twin.run_for(SECOND_US)
    twin.apply([thing("ConfigMap", "d")])
    fork = twin.fork()
    copied = fork.component("part")
    assert isinstance(copied, Hears)
    heard = len(part.heard)
    for one in (twin, fork):
        # Within the same moment it travels with what was written just before.
        one.apply([thing("ConfigMap", "e")])
    counts = []
    for one, its in ((twin, part), (fork, copied)):
        seen = [one.loop.queued]
        for _ in range(20):
            one.run_for(SECOND_US // 2)
            seen.append(len(its.heard))
        counts.append(seen)
    assert counts[0][1:] == [heard + n for n in counts[1][1:]] and counts[0][0] == counts[1][0]


OWNERS: dict[str, bool] = {
    "": False,
    "v1": False,
    "apps/v1": False,
    "batch/v1": False,
    "ray.io/v1": True,
    "kubeflow.org/v1": True,
    "batch.volcano.sh/v1alpha1": True,
    "apps/v1 ray.io/v1": True,
}


@pytest.mark.parametrize("is_served", [True, False])
@pytest.mark.parametrize("owners", OWNERS)
def test_what_operators_make_is_checked_where_a_server_is(owners: str, is_served: bool) -> None:
    """Nobody has checked their templates by the rules of pods; those of Kubernetes' own kinds somebody has."""
    twin = Twin(latency=NONE, components=[])
    if is_served:
        twin.host.served_door = Door(twin.store, options=Options(is_served=False))
    made = [{"apiVersion": v, "kind": "X", "name": "x", "uid": "u"} for v in owners.split()]
    pod = thing("Pod", "p")
    pod["metadata"]["ownerReferences"] = made
    pod["spec"]["containers"][0]["name"] = "No Name"
    if is_served and OWNERS[owners]:
        with pytest.raises(ApiError, match="No Name"):
            twin.host.create(pod, lambda: None)
    else:
        assert twin.host.create(pod, lambda: None) and twin.store.count("Pod") == 1
