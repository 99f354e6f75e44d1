"""A world small enough to read: a store, a clock that tests move, every controller, and a pretend kubelet.

`settle` runs controllers, garbage collection and the kubelet until nothing happens any more at this moment;
`advance` moves the clock from one timer to the next. Pods bind and become ready by themselves unless the test
holds them back; they end only when the test says so.
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.actions import Create, Emit, perform
from fairway.cluster.changes import Change
from fairway.cluster.garbage import collect
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads.concerned import affected
from fairway.workloads.registry import CONTROLLERS

START_US = parse_rfc3339("2026-01-05T08:00:00Z")
_ROUNDS = 400


class World:
    """`kubelet` off: pods stay as they are. `hold` lists images whose pods never become ready."""

    def __init__(self, *, seed: int = 1, nodes: int = 3, kubelet: bool = True) -> None:
        self.store = Store(seed=seed, now_us=START_US)
        self.kubelet = kubelet
        self.hold: tuple[str, ...] = ()
        self.refuse: str = ""
        self.refuse_after: int | None = None
        self.events: list[Emit] = []
        self.watchers: list[Any] = []
        self.reconciles = 0
        self._seen = 0
        self._timers: dict[tuple[str, Key], int] = {}
        self._garbage_seen = 0
        for i in range(nodes):
            self.add_node(f"n{i + 1}")

    # What a test does

    @property
    def now_us(self) -> int:
        return self.store.now_us

    def add_node(self, name: str, **spec: Any) -> Obj:
        return self.store.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "spec": spec,
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        )

    def apply(self, obj: Obj) -> Key:
        stored = self.store.create(obj)
        self.settle()
        api = stored["apiVersion"].rpartition("/")[0]
        gk = f"{stored['kind']}.{api}" if api else stored["kind"]
        return Key(gk, stored["metadata"].get("namespace", ""), stored["metadata"]["name"])

    def patch(self, key: Key, patch: Any, form: str = "merge") -> None:
        self.store.patch(key, patch, form=form)
        self.settle()

    def delete(self, key: Key, propagation: str = "Background", grace_s: int | None = None) -> None:
        self.store.delete(key, propagation=propagation, grace_s=grace_s)
        self.settle()

    def finish(self, pod: Obj | Key, exit_code: int = 0, *, seconds_ago: int = 0) -> None:
        """The pod's containers end, and with them the pod."""
        key = pod if isinstance(pod, Key) else pod_key(pod)
        at = rfc3339(self.now_us - seconds_ago * SECOND_US)
        obj = self.store.require(key)
        names = [c["name"] for c in obj["spec"]["containers"]]
        terminated = {"exitCode": exit_code, "finishedAt": at}
        self.set_pod(
            key,
            phase="Failed" if exit_code else "Succeeded",
            conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": at}],
            containerStatuses=[
                {"name": n, "restartCount": 0, "state": {"terminated": terminated}} for n in names
            ],
        )

    def set_pod(self, pod: Obj | Key, **fields: Any) -> None:
        key = pod if isinstance(pod, Key) else pod_key(pod)
        obj = self.store.require(key)
        self.store.set_status(key, {**(obj.get("status") or {}), **fields})
        self.settle()

    def make_ready(self, pod: Obj | Key, *, ready: bool = True) -> None:
        state = "True" if ready else "False"
        conditions = [{"type": "Ready", "status": state, "lastTransitionTime": rfc3339(self.now_us)}]
        self.set_pod(pod, phase="Running", conditions=conditions)

    def advance(self, seconds: float) -> None:
        """Move the clock on, stopping at every timer in between."""
        until = self.now_us + round(seconds * SECOND_US)
        for _ in range(_ROUNDS):
            due = min((t for t in self._timers.values() if t <= until), default=None)
            if due is None:
                break
            self.store.now_us = max(due, self.now_us)
            self.settle()
        self.store.now_us = until
        self.settle()

    # What a test looks at

    def get(self, key: Key) -> Obj:
        return self.store.require(key)

    def status(self, key: Key) -> dict[str, Any]:
        return self.get(key).get("status") or {}

    def condition(self, key: Key, type_: str) -> dict[str, Any] | None:
        return next((c for c in self.status(key).get("conditions") or () if c["type"] == type_), None)

    def pods(self, **labels: str) -> list[Obj]:
        found = self.store.objects("Pod")
        return [
            p
            for p in found
            if all((p["metadata"].get("labels") or {}).get(k) == v for k, v in labels.items())
        ]

    def pods_of(self, key: Key) -> list[Obj]:
        uid = self.get(key)["metadata"]["uid"]
        return [p for k in self.store.dependents(uid) if k.gk == "Pod" and (p := self.store.get(k))]

    def told(self, reason: str = "") -> list[str]:
        """Messages of the events with this reason, or `reason: message` of all."""
        if reason:
            return [e.message for e in self.events if e.reason == reason]
        return [f"{e.reason}: {e.message}" for e in self.events]

    # How it moves

    def settle(self) -> None:
        for _ in range(_ROUNDS):
            if not self._round():
                return
        raise AssertionError(f"did not settle: {self.told()[-12:]}")

    def _round(self) -> bool:
        changes = self.store.log.since(self._seen)
        self._seen = self.store.version
        if changes:
            collect(self.store, changes)
            for watcher in self.watchers:
                watcher(self)
        if self.kubelet:
            for change in changes:
                self._kubelet(change)
        due = [at for at, t in self._timers.items() if t <= self.now_us]
        work: dict[tuple[str, Key], None] = dict.fromkeys(sorted(due))
        for change in changes:
            for controller, key in affected(self.store, change):
                work[(controller.name, key)] = None
        for name, key in work:
            self._reconcile(name, key)
        return bool(changes or work or self.store.version != self._seen)

    def _reconcile(self, name: str, key: Key) -> None:
        controller = next(c for c in CONTROLLERS if c.name == name)
        self.reconciles += 1
        decided = controller.reconcile(self.store, key, self.now_us)
        for action in decided.actions:
            if isinstance(action, Create) and (why := self._refusal(action.obj)):
                if controller.refused is not None:
                    decided = controller.refused(self.store, key, self.now_us, why)
                    for later in decided.actions:
                        self._perform(later)
                break
            self._perform(action)
        self._timers.pop((name, key), None)
        if decided.again_at_us is not None:
            self._timers[(name, key)] = decided.again_at_us

    def _perform(self, action: Any) -> None:
        if isinstance(action, Emit):
            self.events.append(action)
        else:
            perform(self.store, action)

    def _refusal(self, obj: Obj) -> str:
        """`refuse` is the sentence creations of pods fail with, once `refuse_after` pods exist."""
        if not self.refuse or obj["kind"] != "Pod":
            return ""
        limit = self.refuse_after or 0
        active = [p for p in self.store.objects("Pod") if not is_over(p)]
        return "" if len(active) < limit else self.refuse

    def _kubelet(self, change: Change) -> None:
        if change.key.gk != "Pod":
            return
        pod = self.store.get(change.key)
        if pod is None:
            return
        if "deletionTimestamp" in pod["metadata"]:
            if not pod["metadata"].get("finalizers") and pod["metadata"].get("deletionGracePeriodSeconds"):
                self.store.delete(change.key, grace_s=0)
            return
        if not pod["spec"].get("nodeName") and not pod["spec"].get("schedulingGates"):
            node = self._node_for(pod)
            if node:
                self.store.bind(change.key, node, pod["status"])
                pod = self.store.require(change.key)
        held = pod["spec"]["containers"][0].get("image", "") in self.hold
        if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending" and not held:
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(self.now_us)}
            self.store.set_status(change.key, {**pod["status"], "phase": "Running", "conditions": [ready]})

    def _node_for(self, pod: Obj) -> str:
        required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        ) or {}
        for term in required.get("nodeSelectorTerms") or ():
            for field in term.get("matchFields") or ():
                return str(field["values"][0])
        nodes = [n["metadata"]["name"] for n in self.store.objects("Node")]
        if not nodes:
            return ""
        load = {n: sum(p["spec"].get("nodeName") == n for p in self.store.objects("Pod")) for n in nodes}
        return min(nodes, key=lambda n: (load[n], n))


def pod_key(pod: Obj) -> Key:
    return Key("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])


def is_over(pod: Obj) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]


def names(pods: list[Obj]) -> list[str]:
    return [p["metadata"]["name"] for p in pods]


def template(image: str = "app:1", *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"spec": {"containers": [{"name": "c", "image": image}], **spec}}
    if labels:
        made["metadata"] = {"labels": labels}
    return made


def job(name: str = "train", **spec: Any) -> Obj:
    spec.setdefault("template", template(restartPolicy="Never"))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def deployment(name: str = "web", *, image: str = "app:1", **spec: Any) -> Obj:
    labels = {"app": name}
    spec.setdefault("selector", {"matchLabels": labels})
    spec.setdefault("template", template(image, labels=labels))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
