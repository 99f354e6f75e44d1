"""Random small clusters and pods that use every feature placement knows, from one seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

Obj = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
GPU = "nvidia.com/gpu"
NAMESPACES = {
    "default": {"kubernetes.io/metadata.name": "default"},
    "red": {"kubernetes.io/metadata.name": "red", "team": "a"},
    "blue": {"kubernetes.io/metadata.name": "blue", "team": "b", "env": "prod"},
}
_APPS = ("web", "db", "job")
_TAINTS = (("dedicated", "gpu"), ("dedicated", "cpu"), ("spot", ""), ("flaky", "yes"))
_EFFECTS = ("NoSchedule", "NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute")
_IMAGES = ("reg/a:1", "reg/b", "reg/b:latest", "c", "c:latest", "host:5000/d", "host:5000/d:latest")


@dataclass(frozen=True)
class Mix:
    """How often features come up. `HARSH` refuses most pods; `MILD` lets them meet on nodes."""

    missing: float
    taint: float
    cordon: float
    device: float
    choosy: float
    social: float
    cpus: tuple[str, ...]
    asks: tuple[str, ...]


HARSH = Mix(
    0.15, 0.35, 0.07, 0.15, 0.2, 0.15, ("2", "4", "8", "3500m"), ("100m", "500m", "1", "1500m", "2", "0")
)
MILD = Mix(0.05, 0.1, 0.02, 0.03, 0.05, 0.3, ("8", "16", "7500m"), ("100m", "500m", "1", "0"))
CROWDED = Mix(0.05, 0.05, 0.02, 0.03, 0.05, 0.2, ("2", "2500m", "3"), ("500m", "1", "1500m", "2"))


def random_node(r: Random, i: int, mix: Mix = HARSH) -> Obj:
    labels: dict[str, str] = {}
    if r.random() >= mix.missing:
        labels[HOSTNAME] = f"n{i}"
    if r.random() >= mix.missing:
        labels[ZONE] = r.choice("abc")
    if r.random() < 0.6:
        labels["disk"] = r.choice(("ssd", "hdd"))
    if r.random() < 0.5:
        labels["rank"] = r.choice(("1", "5", "10", "x"))
    spec: Obj = {}
    if r.random() < mix.taint:
        chosen = r.sample(_TAINTS, r.choice((1, 1, 2)))
        spec["taints"] = [_clean({"key": k, "value": v, "effect": r.choice(_EFFECTS)}) for k, v in chosen]
    if r.random() < mix.cordon:
        spec["unschedulable"] = True
    capacity = {
        "cpu": r.choice(mix.cpus),
        "memory": r.choice(("4Gi", "8Gi", "16Gi", "15837Mi")),
        "pods": r.choice(("3", "6", "110", "110")),
        "ephemeral-storage": "20Gi",
    }
    if r.random() < 0.4:
        capacity[GPU] = r.choice(("1", "2", "4"))
    if r.random() < 0.1:
        capacity["hugepages-2Mi"] = "64Mi"
    status: Obj = {"capacity": capacity, "allocatable": capacity}
    if r.random() < 0.6:
        status["images"] = [
            {"names": r.sample(_IMAGES, r.choice((1, 2))), "sizeBytes": r.choice((10, 90, 700, 3000)) * 2**20}
            for _ in range(r.choice((1, 2, 3)))
        ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{i}", **({"labels": labels} if labels else {})},
        "spec": spec,
        "status": status,
    }


def random_pod(r: Random, i: int, nodes: list[str], mix: Mix = HARSH) -> Obj:
    labels = {}
    if r.random() < 0.9:
        labels["app"] = r.choice(_APPS)
    if r.random() < 0.3:
        labels["rev"] = r.choice("12")
    spec: Obj = {"containers": [_container(r, mix) for _ in range(r.choice((1, 1, 1, 2)))]}
    if r.random() < 0.15:
        spec["initContainers"] = [
            _clean({**_container(r, mix), "restartPolicy": r.choice(("Always", ""))})
            for _ in range(r.choice((1, 2)))
        ]
    if r.random() < 0.1:
        spec["overhead"] = {"cpu": "250m", "memory": "64Mi"}
    if r.random() < 0.1:
        spec["resources"] = _pod_level(r)
    if r.random() < 0.1:
        spec["volumes"] = [{"name": "v", "image": {"reference": r.choice(_IMAGES)}}]
    if r.random() < 0.05:
        spec["hostNetwork"] = True
    if r.random() < 0.6:
        spec["priority"] = r.choice((-5, 0, 0, 10, 100))
    if r.random() < 0.1:
        spec["preemptionPolicy"] = "Never"
    if r.random() < mix.choosy:
        spec["nodeSelector"] = {"disk": r.choice(("ssd", "hdd"))}
    if r.random() < 0.4:
        spec["tolerations"] = [_toleration(r) for _ in range(r.choice((1, 2)))]
    if r.random() < 2 * mix.social:
        spec["topologySpreadConstraints"] = [_spread(r) for _ in range(r.choice((1, 1, 2)))]
    affinity = _affinity(r, nodes, mix)
    if affinity:
        spec["affinity"] = affinity
    namespace = r.choice(("default", "default", "red", "blue"))
    meta = {"name": f"p{i}", "namespace": namespace, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _container(r: Random, mix: Mix) -> Obj:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if r.random() < 0.75:
        requests["cpu"] = r.choice(mix.asks)
    if r.random() < 0.75:
        requests["memory"] = r.choice(("64Mi", "512Mi", "1Gi", "3Gi", "1234567890", "100500m"))
    if r.random() < 0.1:
        requests["ephemeral-storage"] = r.choice(("1Gi", "12Gi"))
    if r.random() < mix.device:
        limits[GPU] = r.choice(("1", "2"))
    if r.random() < 0.15:
        limits["cpu"] = "2"
    if r.random() < mix.device / 3:
        limits["hugepages-2Mi"] = "32Mi"
    container: Obj = {
        "name": "c",
        "image": r.choice(_IMAGES),
        "resources": _clean({"requests": requests, "limits": limits}),
    }
    if r.random() < 0.15:
        container["ports"] = [
            _clean(
                {
                    "containerPort": r.choice((80, 81)),
                    "hostPort": r.choice((80, 81, 0)),
                    "protocol": r.choice(("", "TCP", "UDP")),
                    "hostIP": r.choice(("", "", "10.0.0.1", "0.0.0.0")),
                }
            )
        ]
    return container


def _pod_level(r: Random) -> Obj:
    return _clean(
        {
            "requests": {"cpu": r.choice(("1", "3"))} if r.random() < 0.6 else {},
            "limits": {"memory": "4Gi", **({"cpu": "4"} if r.random() < 0.5 else {})}
            if r.random() < 0.6
            else {},
        }
    )


def _toleration(r: Random) -> Obj:
    key, value = r.choice(_TAINTS)
    kind = r.random()
    if kind < 0.15:
        return {"operator": "Exists"}
    if kind < 0.25:
        return {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    effect = r.choice(("", "NoSchedule", "PreferNoSchedule", "NoExecute"))
    if kind < 0.5:
        return _clean({"key": key, "operator": "Exists", "effect": effect})
    return _clean({"key": key, "operator": r.choice(("", "Equal")), "value": value, "effect": effect})


def _spread(r: Random) -> Obj:
    raw: Obj = {
        "maxSkew": r.choice((1, 1, 2)),
        "topologyKey": r.choice((ZONE, ZONE, HOSTNAME, "disk")),
        "whenUnsatisfiable": r.choice(("DoNotSchedule", "ScheduleAnyway")),
    }
    if r.random() < 0.95:
        raw["labelSelector"] = _selector(r)
        if r.random() < 0.15:
            raw["matchLabelKeys"] = ["rev"]
    if raw["whenUnsatisfiable"] == "DoNotSchedule" and r.random() < 0.2:
        raw["minDomains"] = r.choice((2, 3, 4))
    if r.random() < 0.25:
        raw["nodeAffinityPolicy"] = r.choice(("Honor", "Ignore"))
    if r.random() < 0.25:
        raw["nodeTaintsPolicy"] = r.choice(("Honor", "Ignore"))
    return raw


def _selector(r: Random) -> Obj:
    kind = r.random()
    if kind < 0.07:
        return {}
    if kind < 0.6:
        return {"matchLabels": {"app": r.choice(_APPS)}}
    operator = r.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    expression: Obj = {"key": r.choice(("app", "rev")), "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = r.sample((*_APPS, "1"), 2)
    return {"matchExpressions": [expression]}


def _affinity(r: Random, nodes: list[str], mix: Mix) -> Obj:
    affinity: Obj = {}
    near: Obj = {}
    if r.random() < mix.choosy:
        near[REQUIRED] = {"nodeSelectorTerms": [_node_term(r, nodes) for _ in range(r.choice((1, 1, 2)))]}
    if r.random() < 0.2:
        near[PREFERRED] = [
            {"weight": r.choice((1, 30, 100)), "preference": _node_term(r, nodes)}
            for _ in range(r.choice((1, 2)))
        ]
    if near:
        affinity["nodeAffinity"] = near
    for kind, likely in (("podAffinity", mix.social / 2), ("podAntiAffinity", mix.social)):
        terms: Obj = {}
        if r.random() < likely:
            terms[REQUIRED] = [_pod_term(r) for _ in range(r.choice((1, 1, 2)))]
        if r.random() < likely:
            terms[PREFERRED] = [
                {"weight": r.choice((1, 50, 100)), "podAffinityTerm": _pod_term(r)}
                for _ in range(r.choice((1, 2)))
            ]
        if terms:
            affinity[kind] = terms
    return affinity


def _node_term(r: Random, nodes: list[str]) -> Obj:
    term: Obj = {}
    if r.random() < 0.8:
        term["matchExpressions"] = [_node_expression(r) for _ in range(r.choice((1, 1, 2)))]
    if r.random() < 0.3:
        term["matchFields"] = [
            {
                "key": "metadata.name",
                "operator": r.choice(("In", "NotIn")),
                "values": [r.choice((*nodes, "nowhere"))],
            }
            for _ in range(r.choice((1, 1, 1, 2)))
        ]
    return term


def _node_expression(r: Random) -> Obj:
    operator = r.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": "rank", "operator": operator, "values": [r.choice(("1", "4", "7"))]}
    expression: Obj = {"key": r.choice(("disk", ZONE, "rank")), "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = r.sample(("ssd", "hdd", "a", "b", "10"), 2)
    return expression


def _pod_term(r: Random) -> Obj:
    term: Obj = {"topologyKey": r.choice((ZONE, HOSTNAME, "disk"))}
    if r.random() < 0.95:
        term["labelSelector"] = _selector(r)
        if r.random() < 0.1:
            term["matchLabelKeys"] = ["rev"]
        elif r.random() < 0.1:
            term["mismatchLabelKeys"] = ["rev"]
    if r.random() < 0.15:
        term["namespaces"] = r.sample(tuple(NAMESPACES), 2)
    if r.random() < 0.2:
        term["namespaceSelector"] = r.choice(
            (
                {},
                {"matchLabels": {"team": "a"}},
                {"matchExpressions": [{"key": "env", "operator": "Exists"}]},
                {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
            )
        )
    return term


def random_services(r: Random) -> list[Obj]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"s-{app}", "namespace": "default"},
            "spec": {"selector": {"app": app}},
        }
        for app in _APPS
        if r.random() < 0.3
    ]


def random_budgets(r: Random) -> list[Obj]:
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"b{i}", "namespace": r.choice(tuple(NAMESPACES))},
            "spec": {"selector": _selector(r)},
            "status": {"disruptionsAllowed": r.choice((0, 1, 2))},
        }
        for i in range(r.choice((0, 1, 2)))
    ]


_FILTERS = (
    *("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts"),
    *("NodeResourcesFit", "PodTopologySpread", "InterPodAffinity"),
)
_SCORES = (
    *("TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation"),
    *("PodTopologySpread", "InterPodAffinity"),
)


def random_profile(r: Random, nodes: list[str]) -> Obj:
    """A profile of a KubeSchedulerConfiguration."""
    off = [{"name": name} for name in _FILTERS if r.random() < 0.08]
    args = {
        "NodeResourcesFit": _clean(
            {"scoringStrategy": _strategy(r), "ignoredResources": [GPU] if r.random() < 0.2 else []}
        ),
        "NodeResourcesBalancedAllocation": {
            "resources": [{"name": name} for name in r.sample(_RESOURCES, r.choice((2, 3, 4)))]
        },
        "InterPodAffinity": {
            "hardPodAffinityWeight": r.choice((0, 1, 3, 100)),
            "ignorePreferredTermsOfExistingPods": r.random() < 0.5,
        },
        "PodTopologySpread": {"defaultingType": "List", "defaultConstraints": _default_constraints(r)},
        "NodeAffinity": {"addedAffinity": _added(r, nodes)},
    }
    return {
        "plugins": {
            "preFilter": {"disabled": off},
            "filter": {"disabled": off},
            "score": {
                "disabled": [{"name": name} for name in _SCORES if r.random() < 0.1],
                "enabled": [{"name": name, "weight": r.choice((0, 1, 5))} for name in r.sample(_SCORES, 2)],
            },
        },
        "pluginConfig": [{"name": name, "args": args[name]} for name in args if r.random() < 0.6],
    }


_RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU)


def _strategy(r: Random) -> Obj:
    kind = r.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    chosen = r.sample(_RESOURCES, r.choice((1, 2, 3)))
    raw: Obj = {"type": kind, "resources": [{"name": n, "weight": r.choice((1, 2, 5))} for n in chosen]}
    if kind == "RequestedToCapacityRatio":
        at = sorted(r.sample(range(0, 101, 10), r.choice((1, 2, 4))))
        raw["requestedToCapacityRatio"] = {
            "shape": [{"utilization": u, "score": r.randrange(11)} for u in at]
        }
    return raw


def _default_constraints(r: Random) -> list[Obj]:
    return [
        {
            "maxSkew": r.choice((1, 2, 3)),
            "topologyKey": key,
            "whenUnsatisfiable": r.choice(("DoNotSchedule", "ScheduleAnyway")),
        }
        for key in (ZONE, HOSTNAME, "disk")
        if r.random() < 0.5
    ]


def _added(r: Random, nodes: list[str]) -> Obj:
    added: Obj = {}
    if r.random() < 0.4:
        wide = {
            "matchExpressions": [{"key": "disk", "operator": "NotIn", "values": [r.choice(("ssd", "x"))]}]
        }
        added[REQUIRED] = {"nodeSelectorTerms": [wide, *(_filled(_node_term(r, nodes)) for _ in range(1))]}
    if r.random() < 0.7:
        added[PREFERRED] = [{"weight": r.choice((1, 30, 100)), "preference": _filled(_node_term(r, nodes))}]
    return added


def _filled(term: Obj) -> Obj:
    """A profile takes no empty term."""
    return term or {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}


def _clean(raw: Obj) -> Obj:
    return {k: v for k, v in raw.items() if v not in ("", 0, {}, [])}
