"""The GPU Operator on the loop: its DaemonSets, what its operands do on each node, its verdict.

It wakes with a ClusterPolicy, or with a DaemonSet of the device plugin that somebody deploys by himself; without either
it watches nothing else. Where the chart's Deployment `gpu-operator` is there, it acts once that is available.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final

import msgspec

from fairway.catalog.nodegpus import INSTANCES, NO_GPUS, gpus_of_node
from fairway.cluster.actions import Action, Delete, Patch, Replace, perform
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.devices import GPU_FAULT, GPU_INDEX_ANNOTATION
from fairway.cluster.errors import ApiError
from fairway.devices.assigning import assigned
from fairway.devices.migapplying import WHOLE, Held
from fairway.devices.migmanager import RUN
from fairway.devices.nodeview import DEPLOY, RESOURCES, NodeView, PodFacts, Step
from fairway.devices.numa.machines import KUBELET
from fairway.devices.operating import next_steps, registered
from fairway.devices.policy import NAMESPACE, POLICY, Policy, daemonset, operands, read_policy
from fairway.devices.upgrading import DONE, REQUIRED, upgrade_steps
from fairway.devices.upgrading import STATE as UPGRADE
from fairway.kube.conditions import set_condition
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    labels_of,
    meta_of,
    spec_of,
    status_of,
)
from fairway.kube.quantity import whole_ceil
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.twin.components import Host
from fairway.twin.faults import plan_fault
from fairway.twin.loop import CONTROLLERS

NAME: Final = "gpu-operator"
_DAEMONSET, _DEPLOYMENT = "DaemonSet.apps", "Deployment.apps"
_ASLEEP: Final = (POLICY, _DAEMONSET)
_AWAKE: Final = (*_ASLEEP, "Node", "Pod", "ConfigMap", _DEPLOYMENT)
_APPS: Final = {o.app: o for o in operands()}
_PLUGIN_IMAGES: Final = ("k8s-device-plugin", "nvidia-device-plugin")
_HASH: Final = "nvidia.com/last-applied-hash"
_CHART: Final = {"app": "gpu-operator"}


class GpuOperator:
    """The Operator's controllers and the operands of every node in one component."""

    name = NAME
    skips_pod_status = False

    def __init__(self) -> None:
        self.kinds: tuple[str, ...] = _ASLEEP
        self._pods: dict[str, dict[Key, str]] = {}
        """Operands' pods by node, with their operand's key."""
        self._held: dict[str, dict[Key, tuple[str, ...]]] = {}
        """Devices that pods have, by node: of nodes whose plugin is of the Operator's kind."""
        self._due: dict[str, None] = {}
        """Nodes to look at; the empty name: the policy."""
        self._since: dict[tuple[str, str], int] = {}
        """Since when a step of a node is due, as far as it is not done."""

    def attach(self, host: Host) -> None:
        self.host, self.store = host, host.store
        self._look = host.loop.register("gpuoperator.look", self._on_look)
        self._wake = host.loop.register("gpuoperator.wake", self._on_wake)

    def start(self) -> None:
        """A policy comes as a change."""

    def fork(self) -> GpuOperator:
        twin = GpuOperator()
        twin.kinds = self.kinds
        twin._pods = {node: dict(pods) for node, pods in self._pods.items()}
        twin._held = {node: dict(pods) for node, pods in self._held.items()}
        twin._due = dict(self._due)
        twin._since = dict(self._since)
        return twin

    # Watching

    def observe(self, change: Change) -> None:
        gk = change.key.gk
        if self.kinds is _ASLEEP:
            if gk == POLICY or _deploys_plugin(change.obj):
                self._awake()
            return
        if gk == "Pod":
            self._observe_pod(change)
        elif gk == "Node":
            if change.type == DELETED:
                self._pods.pop(change.key.name, None)
                self._held.pop(change.key.name, None)
                self._since = {at: us for at, us in self._since.items() if at[0] != change.key.name}
            else:
                self._look_at(change.key.name)
        elif gk == "ConfigMap" and not self._concerns(change.key):
            return
        else:
            is_for_all = gk in (POLICY, "ConfigMap") or _is_chart(change.obj) or _discovers(change.obj)
            self._look_at("", *(self._all_nodes() if is_for_all else ()))

    def _awake(self) -> None:
        self.kinds = _AWAKE
        if self.host.rewatch is not None:
            self.host.rewatch()
        for pod in self.store.objects("Pod"):
            node = spec_of(pod).get("nodeName")
            if not self._note_pod(pod) and node:
                self._assign(Key("Pod", meta_of(pod)["namespace"], meta_of(pod)["name"]), node)
        self._look_at("", *self._all_nodes())

    def _all_nodes(self) -> list[str]:
        return [meta_of(node)["name"] for node in self.store.objects("Node")]

    def _concerns(self, key: Key) -> bool:
        policy = self._policy()
        if policy is None:
            return any(pods for pods in self._pods.values())
        return key.namespace == policy.namespace and key.name in (policy.plugin_config, policy.mig_config)

    def _observe_pod(self, change: Change) -> None:
        node = spec_of(change.obj).get("nodeName")
        if not node:
            return
        if change.type == DELETED or status_of(change.obj).get("phase") in ("Succeeded", "Failed"):
            self._held.get(node, {}).pop(change.key, None)
        if change.type == DELETED:
            if self._pods.get(node, {}).pop(change.key, None) is not None or self._runs(node):
                self._look_at(node)
        elif self._note_pod(change.obj):
            self._look_at(node)
        elif change.key not in self._held.get(node, {}):
            self._assign(change.key, node)

    def _runs(self, node: str) -> bool:
        """Whether MIG Manager waits for something there."""
        return RUN in annotations_of(self.store.get(Key("Node", "", node)) or {})

    def _assign(self, key: Key, node_name: str) -> None:
        """The devices of a pod that was bound, as the kubelet allocates them: written on the pod."""
        pod, node = self.store.get(key), self.store.get(Key("Node", "", node_name))
        if pod is None or node is None or status_of(pod).get("phase") in ("Succeeded", "Failed"):
            return
        notes = annotations_of(pod)
        wanted = _devices_wanted(pod)
        if not wanted or RESOURCES not in annotations_of(node):
            return
        held = self._held.setdefault(node_name, {})
        said = notes.get(INSTANCES) or notes.get(GPU_INDEX_ANNOTATION)
        if said:
            held[key] = tuple(said.split(","))
            return
        if KUBELET in annotations_of(node):
            return  # The kubelet's managers choose, and write it on the pod.
        capacity, _ = registered(annotations_of(node))
        strategy = labels_of(node).get("nvidia.com/mig.strategy", "")
        taken = [device for devices in held.values() for device in devices]
        held[key] = found = tuple(assigned(gpus_of_node(node), wanted, capacity, strategy, taken))
        cut = ",".join(d for d in found if "/" in d)
        whole = ",".join(sorted({d for d in found if "/" not in d}, key=int))
        annotations = {name: v for name, v in ((INSTANCES, cut), (GPU_INDEX_ANNOTATION, whole)) if v}
        if annotations:
            perform(self.store, Patch(key, {"metadata": {"annotations": annotations}}))

    def _note_pod(self, pod: Obj) -> bool:
        key = _operand_of(pod)
        node = spec_of(pod).get("nodeName")
        if not key or not node:
            return False
        meta = meta_of(pod)
        self._pods.setdefault(node, {})[Key("Pod", meta["namespace"], meta["name"])] = key
        return True

    def _look_at(self, *nodes: str) -> None:
        if nodes and not self._due:
            self.host.loop.at(self.host.loop.now_us, self._look, None, CONTROLLERS)
        self._due.update(dict.fromkeys(nodes))

    def _on_wake(self, node: str) -> None:
        self._look_at(node)

    # Acting

    def _on_look(self, _data: None) -> None:
        due, self._due = self._due, {}
        policy = self._policy()
        if policy is not None and "" in due:
            self._deploy(policy)
            self._judge(policy)
        for name in due:
            node = self.store.get(Key("Node", "", name)) if name else None
            if node is not None:
                self._work(node, policy)

    def _policy(self) -> Policy | None:
        """The oldest ClusterPolicy, once the Operator runs."""
        found = sorted(
            self.store.objects(POLICY),
            key=lambda o: (meta_of(o).get("creationTimestamp") or "", meta_of(o)["name"]),
        )
        if not found:
            return None
        charts = [d for d in self.store.objects(_DEPLOYMENT) if _is_chart(d)]
        if charts and not status_of(charts[0]).get("availableReplicas"):
            return None
        return read_policy(found[0], meta_of(charts[0])["namespace"] if charts else NAMESPACE)

    def _deploy(self, policy: Policy) -> None:
        """DaemonSets as the policy has them, the namespace and the runtime class they need."""
        self._make(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": policy.namespace}}, "Namespace", ""
        )
        faults = annotations_of(self.store.get(Key(POLICY, "", policy.name)) or {}).get(GPU_FAULT, "")
        runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": policy.runtime_class}
        meta = {"metadata": {"name": policy.runtime_class}}
        if "runtime-class" not in faults.split(","):
            self._make({**runtime, **meta}, "RuntimeClass.node.k8s.io", "")
        for operand in operands():
            key = Key(_DAEMONSET, policy.namespace, operand.name)
            there = self.store.get(key)
            if operand.key in policy.off:
                if there is not None and controller_of(there):
                    perform(self.store, Delete(key))
                continue
            wanted = daemonset(operand, policy)
            digest = blake2b(msgspec.json.encode(wanted, order="sorted"), digest_size=8).hexdigest()
            wanted["metadata"]["annotations"] = {_HASH: digest}
            if there is None:
                self._make(wanted, _DAEMONSET, policy.namespace)
            elif annotations_of(there).get(_HASH) != digest:
                metadata = {**meta_of(there), "labels": wanted["metadata"]["labels"]}
                metadata["annotations"] = {**annotations_of(there), _HASH: digest}
                perform(self.store, Replace({**there, "metadata": metadata, "spec": self._defaulted(wanted)}))

    def _defaulted(self, wanted: Obj) -> Any:
        from fairway.kube.defaults import apply_defaults

        return spec_of(apply_defaults(wanted))

    def _make(self, obj: Obj, gk: str, namespace: str) -> None:
        if self.store.get(Key(gk, namespace, meta_of(obj)["name"])) is None:
            try:
                self.host.create(obj, lambda: self._look_at(""))
            except ApiError as refused:
                self._say(
                    Key(gk, namespace, meta_of(obj)["name"]), "", "Warning", "FailedCreate", str(refused)
                )

    def _judge(self, policy: Policy) -> None:
        """The policy's state and conditions by its DaemonSets. Source: isDaemonSetReady."""
        waiting = []
        for operand in policy.deployed():
            status = status_of(self.store.get(Key(_DAEMONSET, policy.namespace, operand.name)) or {})
            desired = status.get("desiredNumberScheduled") or 0
            if desired and status.get("numberAvailable", 0) != desired:
                waiting.append(operand.state)
        key = Key(POLICY, "", policy.name)
        obj = self.store.get(key)
        if obj is None:
            return
        message = "ClusterPolicy is ready as all resources have been successfully reconciled"
        if waiting:
            message = f"ClusterPolicy is not ready; states not ready: [{' '.join(waiting)}]"
        now = rfc3339(self.host.loop.now_us)
        verdict = ("False", "True", "OperandNotReady") if waiting else ("True", "False", "Reconciled")
        ready, error, reason = verdict
        conditions = set_condition(
            status_of(obj).get("conditions"), "Ready", ready, reason, "" if waiting else message, now
        )
        conditions = set_condition(conditions, "Error", error, reason, message if waiting else "", now)
        state = "notReady" if waiting else "ready"
        status = {"state": state, "namespace": policy.namespace, "conditions": conditions}
        if status != status_of(obj):
            self.store.set_status(key, status)

    # One node

    def _work(self, node: Obj, policy: Policy | None) -> None:
        name = meta_of(node)["name"]
        now_us = self.host.loop.now_us
        view = self._view(node, policy)
        steps = next_steps(view)
        if policy is not None and view.gpus.count:
            steps += upgrade_steps(view, others=self._upgrading(name))
        standing = {step.what for step in steps}
        for at in [at for at in self._since if at[0] == name and at[1] not in standing]:
            del self._since[at]
        for step in steps:
            at = (name, step.what)
            due_us = self._since.setdefault(at, now_us) + round(step.after_s * SECOND_US)
            if due_us > now_us:
                if self._since[at] == now_us:
                    self.host.loop.at(due_us, self._wake, name, CONTROLLERS)
                continue
            del self._since[at]
            self._do(step, view, node)

    def _upgrading(self, but: str) -> int:
        """Nodes whose driver is being exchanged."""
        states = (labels_of(n).get(UPGRADE) for n in self.store.objects("Node") if meta_of(n)["name"] != but)
        return sum(state not in (None, "", REQUIRED, DONE) for state in states)

    def _view(self, node: Obj, policy: Policy | None) -> NodeView:
        name = meta_of(node)["name"]
        gpus = gpus_of_node(node)
        if gpus is NO_GPUS:
            return NodeView(name, {}, {}, gpus, {})
        pods, flags, files = dict[str, PodFacts](), dict[str, str](), None
        for key, operand in self._pods.get(name, {}).items():
            pod = self.store.get(key)
            if pod is None or ("deletionTimestamp" in meta_of(pod) and operand in pods):
                continue
            pods[operand] = _facts(pod)
            if policy is None and operand == "devicePlugin":
                flags, files = _flags(pod), self._mounted(pod)
        labels = labels_of(node)
        mig_file = None
        if policy is not None:
            files = self._data(policy.namespace, policy.plugin_config)
            mig_file = (self._data(policy.namespace, policy.mig_config) or {}).get("config.yaml")
        runs = RUN in annotations_of(node)
        return NodeView(
            name,
            labels,
            annotations_of(node),
            gpus,
            pods,
            policy,
            self._nfd_runs(),
            files,
            mig_file,
            self._holders(name) if runs or UPGRADE in labels else (),
            flags,
            self._in_use(name, gpus.count) if runs else frozenset(),
            self._third_parties(name) if runs else 0,
        )

    def _data(self, namespace: str, name: str) -> dict[str, str] | None:
        found = self.store.get(Key("ConfigMap", namespace, name)) if name else None
        return None if found is None else {k: str(v) for k, v in (found.get("data") or {}).items()}

    def _mounted(self, pod: Obj) -> dict[str, str] | None:
        """The ConfigMap that a plugin of one's own mounts; None without."""
        namespace = meta_of(pod)["namespace"]
        for volume in spec_of(pod).get("volumes") or ():
            name = (volume.get("configMap") or {}).get("name")
            if name and (data := self._data(namespace, name)) is not None:
                return data
        return None

    def _nfd_runs(self) -> bool:
        """Node Feature Discovery's workers; without the chart somebody's else are taken to be there."""
        workers = [d for d in self.store.objects(_DAEMONSET) if _discovers(d)]
        if workers:
            return any(status_of(d).get("numberReady") for d in workers)
        return not any(map(_is_chart, self.store.objects(_DEPLOYMENT)))

    def _holders(self, node: str) -> tuple[str, ...]:
        """Pods, other than operands, that have GPUs of this node."""
        found = []
        for pod in self.store.objects("Pod"):
            spec = spec_of(pod)
            if spec.get("nodeName") != node or status_of(pod).get("phase") in ("Succeeded", "Failed"):
                continue
            if _devices_wanted(pod):
                meta = meta_of(pod)
                found.append(f"{meta['namespace']}/{meta['name']}")
        return tuple(sorted(found))

    def _in_use(self, node: str, cards: int) -> Held:
        """What of the cards pods have; all, where nobody wrote down which."""
        found: set[tuple[int, int]] = set()
        for name in self._holders(node):
            devices = self._held.get(node, {}).get(Key("Pod", *name.split("/")), ())
            for device in devices or [str(i) for i in range(cards)]:
                card, _, instance = device.partition("/")
                start = instance.rpartition("@")[2]
                if card.isdecimal():
                    found.add((int(card), int(start) if start.isdecimal() else WHOLE))
        return frozenset(found)

    def _third_parties(self, node: str) -> int:
        """Pods of DaemonSets that go by the label for clients of the GPUs."""
        found = [p for p in self.store.objects("Pod") if spec_of(p).get("nodeName") == node]
        sets = [p for p in found if (controller_of(p) or {}).get("kind") == "DaemonSet"]
        return sum(f"{DEPLOY}client" in (spec_of(p).get("nodeSelector") or {}) for p in sets)

    def _do(self, step: Step, view: NodeView, node: Obj) -> None:
        key = Key("Node", "", view.name)
        about, uid = key, meta_of(node)["uid"]
        if step.pod:
            about = next((k for k in self._pods.get(view.name, {}) if k.name == step.pod), key)
            pod = self.store.get(about)
            uid = meta_of(pod)["uid"] if pod is not None else uid
        if step.says is not None:
            self._say(about, uid, *step.says)
        if step.cordon is not None:
            perform(self.store, Patch(key, {"spec": {"unschedulable": step.cordon or None}}))
        if step.reboots_s:
            plan_fault(self.host, "crash", view.name)
            plan_fault(self.host, "recover", view.name, after_us=step.reboots_s * SECOND_US)
        for evicted in step.evict:
            plan_fault(self.host, "delete", Key("Pod", *evicted.split("/")), None)
        if step.container or (step.pod and not (step.labels or step.annotations or step.devices)):
            plan_fault(self.host, "kill", about, step.container, step.code)
        actions: list[Action] = []
        if step.labels or step.annotations:
            metadata = {"labels": dict(step.labels), "annotations": dict(step.annotations)}
            actions.append(Patch(key, {"metadata": {k: v for k, v in metadata.items() if v}}))
        if step.delete:
            actions += [Delete(k) for k in self._pods[view.name] if k.name == step.delete]
        for action in actions:
            perform(self.store, action)
        if step.devices is not None:
            self._write_devices(key, view, *step.devices)
        self.host.log.record(self.host.loop.now_us, NAME, "Node", "", view.name, step.what, step.pod)
        self._look_at(view.name, *(self._all_nodes() if step.labels.get(UPGRADE) == DONE else ()))

    def _write_devices(self, key: Key, view: NodeView, capacity: Any, healthy: Any) -> None:
        """As the kubelet reports: resources that were and are no longer stand at 0."""
        node = self.store.get(key)
        if node is None:
            return
        status = status_of(node)
        gone = [n for n in status.get("capacity") or {} if n.startswith("nvidia.com/") and n not in capacity]
        zero = dict.fromkeys(gone, "0")
        whole = {**(status.get("capacity") or {}), **zero, **{n: str(v) for n, v in capacity.items()}}
        free = {**(status.get("allocatable") or {}), **zero, **{n: str(v) for n, v in healthy.items()}}
        self.store.set_status(key, {**status, "capacity": whole, "allocatable": free})

    def _say(self, about: Key, uid: str, kind: str, reason: str, message: str) -> None:
        self.host.events.emit(self.host.loop.now_us, about, uid, kind, reason, message, NAME)


def _is_chart(obj: Obj) -> bool:
    """Whether a Deployment is the chart's."""
    labels = ((spec_of(obj).get("template") or {}).get("metadata") or {}).get("labels") or {}
    return obj["kind"] == "Deployment" and bool(_CHART.items() <= labels.items())


def _discovers(obj: Obj) -> bool:
    """Whether a DaemonSet is Node Feature Discovery's."""
    name = labels_of(obj).get("app.kubernetes.io/name", "")
    return obj["kind"] == "DaemonSet" and "node-feature-discovery" in name


def _containers(spec: Obj) -> list[Obj]:
    return [c for c in spec.get("containers") or () if isinstance(c, dict)]


def _is_plugin(container: Obj) -> bool:
    return any(image in str(container.get("image") or "") for image in _PLUGIN_IMAGES)


def _deploys_plugin(obj: Obj) -> bool:
    return any(_is_plugin(c) for c in _containers((spec_of(obj).get("template") or {}).get("spec") or {}))


def _devices_wanted(pod: Obj) -> dict[str, int]:
    found: dict[str, int] = {}
    for container in _containers(spec_of(pod)):
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if name.startswith("nvidia.com/"):
                found[name] = found.get(name, 0) + whole_ceil(amount)
    return found


def _operand_of(pod: Obj) -> str:
    """Which operand's pod this is; of plugins deployed by hand, by image and command. Empty: none."""
    owner = controller_of(pod)
    if owner is None or owner.get("kind") != "DaemonSet":
        return ""
    operand = _APPS.get(labels_of(pod).get("app", ""))
    if operand is not None:
        return operand.key
    for container in _containers(spec_of(pod)):
        if _is_plugin(container):
            words = " ".join(
                str(w) for w in (*(container.get("command") or ()), *(container.get("args") or ()))
            )
            return (
                "gfd"
                if "feature-discovery" in words
                else "mps"
                if "mps-control-daemon" in words
                else "devicePlugin"
            )
    return ""


def _facts(pod: Obj) -> PodFacts:
    status = status_of(pod)
    init = next(
        (
            s["name"]
            for s in status.get("initContainerStatuses") or ()
            if (s.get("state") or {}).get("running")
        ),
        "",
    )
    running = any((s.get("state") or {}).get("running") for s in status.get("containerStatuses") or ())
    ready = any(
        c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ()
    )
    image = next((str(c.get("image") or "") for c in _containers(spec_of(pod))), "")
    return PodFacts(
        meta_of(pod)["name"], init, running, ready and "deletionTimestamp" not in meta_of(pod), image
    )


def _flags(pod: Obj) -> dict[str, str]:
    """Of a plugin that somebody deploys by himself: its environment, and what its arguments say."""
    found: dict[str, str] = {}
    for container in filter(_is_plugin, _containers(spec_of(pod))):
        found |= {e["name"]: str(e.get("value") or "") for e in container.get("env") or () if e.get("name")}
        words = [str(w) for w in (*(container.get("command") or ()), *(container.get("args") or ()))]
        for word, after in pairwise([*words, ""]):
            if word.startswith("--mig-strategy"):
                found["MIG_STRATEGY"] = word.partition("=")[2] or after
    return found
