"""Nodes and pods in few words: `node("n1").cpu(8).gpu(4).zone("a")`, `pod("p").cpu(1).spread("zone")`.

Every method returns the builder; `build()` is the object. What is not said is generous: 110 pods, 64 CPUs.
"""

from __future__ import annotations

from typing import Any, Self

Obj = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeBuilder:
    def __init__(self, name: str) -> None:
        self.name = name
        self._labels = {HOSTNAME: name}
        self._spec: Obj = {}
        self._allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        self._images: list[Obj] = []

    def build(self) -> Obj:
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": dict(self._labels)},
            "spec": dict(self._spec),
            "status": {"allocatable": dict(self._allocatable), "images": list(self._images)},
        }

    def has(self, resource: str, amount: object) -> Self:
        self._allocatable[resource] = str(amount)
        return self

    def lacks(self, resource: str) -> Self:
        self._allocatable.pop(resource, None)
        return self

    def cpu(self, amount: object) -> Self:
        return self.has("cpu", amount)

    def memory(self, amount: object) -> Self:
        return self.has("memory", amount)

    def pods(self, amount: int) -> Self:
        return self.has("pods", amount)

    def gpu(self, amount: int) -> Self:
        return self.has(GPU, amount)

    def label(self, **labels: str) -> Self:
        self._labels.update(labels)
        return self

    def zone(self, zone: str) -> Self:
        self._labels[ZONE] = zone
        return self

    def unlabelled(self) -> Self:
        self._labels.clear()
        return self

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        taint = {"key": key, "effect": effect, **({"value": value} if value else {})}
        self._spec.setdefault("taints", []).append(taint)
        return self

    def cordoned(self) -> Self:
        self._spec["unschedulable"] = True
        return self

    def image(self, *names: str, mib: int) -> Self:
        self._images.append({"names": list(names), "sizeBytes": mib * 2**20})
        return self


class PodBuilder:
    def __init__(self, name: str, namespace: str = "default") -> None:
        self.name = name
        self._meta: Obj = {"name": name, "namespace": namespace}
        self._spec: Obj = {"containers": [{"name": "c", "image": "app", "resources": {}}]}
        self._status: Obj = {}
        self.is_terminating = False

    def build(self) -> Obj:
        pod: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": dict(self._meta), "spec": dict(self._spec)}
        if self._status:
            pod["status"] = dict(self._status)
        return pod

    def asks(self, resource: str, amount: object, *, container: int = 0) -> Self:
        resources = self._spec["containers"][container]["resources"]
        resources.setdefault("requests", {})[resource] = str(amount)
        return self

    def limit(self, resource: str, amount: object) -> Self:
        self._spec["containers"][0]["resources"].setdefault("limits", {})[resource] = str(amount)
        return self

    def cpu(self, amount: object) -> Self:
        return self.asks("cpu", amount)

    def memory(self, amount: object) -> Self:
        return self.asks("memory", amount)

    def gpu(self, amount: int) -> Self:
        return self.limit(GPU, amount)

    def image(self, name: str) -> Self:
        self._spec["containers"][0]["image"] = name
        return self

    def container(self, **requests: object) -> Self:
        asked = {"requests": {k: str(v) for k, v in requests.items()}}
        self._spec["containers"].append({"name": f"c{len(self._spec['containers'])}", "resources": asked})
        return self

    def init(self, *, sidecar: bool = False, **requests: object) -> Self:
        raw: Obj = {"name": "i", "resources": {"requests": {k: str(v) for k, v in requests.items()}}}
        if sidecar:
            raw["restartPolicy"] = "Always"
        self._spec.setdefault("initContainers", []).append(raw)
        return self

    def port(self, number: int, *, protocol: str = "TCP", ip: str = "", init: bool = False) -> Self:
        port: Obj = {"containerPort": number, "hostPort": number, "protocol": protocol}
        if ip:
            port["hostIP"] = ip
        container = self._spec["initContainers" if init else "containers"][-1]
        container.setdefault("ports", []).append(port)
        return self

    def spec(self, **fields: Any) -> Self:
        """Any field of the spec as it stands."""
        self._spec.update(fields)
        return self

    def label(self, **labels: str) -> Self:
        self._meta.setdefault("labels", {}).update(labels)
        return self

    def meta(self, **fields: Any) -> Self:
        self._meta.update(fields)
        return self

    def priority(self, value: int) -> Self:
        return self.spec(priority=value)

    def started(self, second: int) -> Self:
        """Running since that second of a minute."""
        self._status = {"phase": "Running", "startTime": f"2026-01-01T00:00:{second:02d}Z"}
        return self

    def terminating(self) -> Self:
        """Its deletion has begun (tests delete it once it is there)."""
        self.is_terminating = True
        return self

    def select(self, **labels: str) -> Self:
        return self.spec(nodeSelector=labels)

    def tolerate(self, key: str = "", value: str = "", *, effect: str = "", operator: str = "Equal") -> Self:
        raw = {"key": key, "operator": operator, "value": value, "effect": effect}
        self._spec.setdefault("tolerations", []).append({k: v for k, v in raw.items() if v})
        return self

    def node_affinity(self, *terms: Obj) -> Self:
        self._affinity("nodeAffinity")[REQUIRED] = {"nodeSelectorTerms": list(terms)}
        return self

    def prefer_node(self, weight: int, term: Obj) -> Self:
        preferred = {"weight": weight, "preference": term}
        self._affinity("nodeAffinity").setdefault(PREFERRED, []).append(preferred)
        return self

    def near(self, key: str, **term: Any) -> Self:
        self._affinity("podAffinity").setdefault(REQUIRED, []).append(pod_term(key, **term))
        return self

    def apart(self, key: str, **term: Any) -> Self:
        self._affinity("podAntiAffinity").setdefault(REQUIRED, []).append(pod_term(key, **term))
        return self

    def prefer_near(self, weight: int, key: str, **term: Any) -> Self:
        return self._weighted("podAffinity", weight, key, term)

    def prefer_apart(self, weight: int, key: str, **term: Any) -> Self:
        return self._weighted("podAntiAffinity", weight, key, term)

    def spread(self, key: str, skew: int = 1, *, hard: bool = True, **fields: Any) -> Self:
        raw = {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
            **fields,
        }
        self._spec.setdefault("topologySpreadConstraints", []).append(raw)
        return self

    def _weighted(self, kind: str, weight: int, key: str, term: Obj) -> Self:
        raw = {"weight": weight, "podAffinityTerm": pod_term(key, **term)}
        self._affinity(kind).setdefault(PREFERRED, []).append(raw)
        return self

    def _affinity(self, kind: str) -> Obj:
        affinity: Obj = self._spec.setdefault("affinity", {})
        found: Obj = affinity.setdefault(kind, {})
        return found


def node(name: str) -> NodeBuilder:
    return NodeBuilder(name)


def pod(name: str, namespace: str = "default") -> PodBuilder:
    return PodBuilder(name, namespace)


def pod_term(key: str, *, app: str = "web", **fields: Any) -> Obj:
    """A pod affinity term for pods labelled `app`; `labelSelector=…` says otherwise."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **fields}


def has(key: str, operator: str, *values: str) -> Obj:
    """One label expression."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def labels_where(*expressions: Obj) -> Obj:
    """A node selector term on labels."""
    return {"matchExpressions": list(expressions)}


def named(operator: str, *names: str) -> Obj:
    """A node selector term on the node's name."""
    return {"matchFields": [has("metadata.name", operator, n) for n in names]}


def budget(name: str, allowed: int, namespace: str = "default", **labels: str) -> Obj:
    """A PodDisruptionBudget over pods with these labels."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }
