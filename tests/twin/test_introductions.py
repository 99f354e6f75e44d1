"""What components hear of a cluster that was there before them: everything once, nodes first, pods by age."""

from __future__ import annotations

from fairway.cluster.changes import Change
from fairway.cluster.store import Store
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.components import EVERY_KIND, Host
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
