"""What the Cluster Autoscaler makes of drawn worlds, as it is on file in `histories/`: who sits where, which group
grows for whom, why no group helps the rest; which nodes nobody needs, why others stay, and which go now.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

from tests.histories import check_history

from fairway.kube.objects import Obj, name_of
from fairway.kube.taints import parse_taints
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US, rfc3339
from fairway.provisioning.clusterautoscaler.expanders import Option, price_score, waste
from fairway.provisioning.clusterautoscaler.groups import EXPANDERS, NodeGroup, NodeView, Options, Seat
from fairway.provisioning.clusterautoscaler.scaledown import Unneeded, due, unneeded
from fairway.provisioning.clusterautoscaler.scaleup import ScaleUp, scale_up
from fairway.provisioning.clusterautoscaler.snapshot import Snapshot
from fairway.provisioning.karpenter.disruption.evictions import budgets_of
from fairway.provisioning.karpenter.podfacts import PodFacts, Shapes, facts_of, host_ports, requests_of

_HERE = Path(__file__).parent / "histories"
_NOW_US = 100 * HOUR_US
_GIB = 2**30
_GPU, _DEVICES = "nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu"
_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def _pod(draw: Random, name: str, template: dict[str, Any]) -> Obj:
    amounts = dict(template["requests"])
    container = {"name": "c", "resources": {"requests": amounts}, "ports": template["ports"]}
    spec = {"containers": [container], **template["spec"]}
    owners = (
        [{"kind": template["owner"], "name": "o", "controller": True, "uid": "u"}]
        if template["owner"]
        else []
    )
    meta = {
        "name": name,
        "namespace": template["namespace"],
        "uid": name,
        "labels": {"app": template["app"]},
        "annotations": template["annotations"],
        "ownerReferences": owners,
        "creationTimestamp": rfc3339(_NOW_US - draw.choice((10, 90)) * MINUTE_US),
    }
    if template["is_ending"]:
        meta["deletionTimestamp"] = rfc3339(_NOW_US - draw.choice((60, 61, 300)) * SECOND_US)
    return {"metadata": meta, "spec": spec, "status": {"phase": template["phase"]}}


def _template(draw: Random, *, is_bound: bool) -> dict[str, Any]:
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    spec: dict[str, Any] = draw.choice(
        (
            {},
            {},
            {},
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}},
            {"nodeSelector": {"zone": "a"}},
            {"tolerations": [{"operator": "Exists"}]},
        )
    )
    if draw.random() < 0.1:
        spec = {
            **spec,
            "volumes": [
                draw.choice(({"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {"medium": "Memory"}}))
            ],
        }
    requests = {"cpu": draw.choice(("250m", "500m", "1", "2")), "memory": draw.choice(("1Gi", "1Gi", "5Gi"))}
    if draw.random() < 0.15:
        requests[_GPU] = "1"
    if draw.random() < 0.05:
        requests[_DEVICES] = "1"
    return {
        "requests": requests,
        "ports": [{"hostPort": 80}] if draw.random() < 0.1 else [],
        "spec": spec,
        "app": draw.choice("xxy"),
        "namespace": draw.choice(("default",) * 6 + ("kube-system",)),
        "owner": draw.choice(("ReplicaSet",) * 6 + ("DaemonSet", "Custom", "")) if is_bound else "Job",
        "annotations": draw.choice(({},) * 6 + ({_SAFE: "true"}, {_SAFE: "false"})),
        "is_ending": is_bound and draw.random() < 0.08,
        "phase": draw.choice(("Running",) * 8 + ("Failed", "Succeeded")) if is_bound else "Pending",
    }


def _seat(draw: Random, name: str, pods: list[Obj]) -> Seat:
    cpu, memory, gpus = draw.choice(
        ((4000, 16, 0), (4000, 16, 0), (8000, 16, 0), (2000, 4, 0), (8000, 32, 2))
    )
    capacity = {"cpu": cpu, "memory": memory * _GIB, "pods": draw.choice((3, 110, 110))}
    if gpus:
        capacity[_GPU] = gpus
    used: dict[str, int] = {}
    for one in pods:
        for resource, amount in requests_of(one["spec"]).items():
            used[resource] = used.get(resource, 0) + amount
    return Seat(
        name,
        {"zone": draw.choice("ab"), "topology.kubernetes.io/zone": draw.choice("ab")},
        parse_taints(
            draw.choice(
                (
                    [],
                    [],
                    [],
                    [{"key": "k", "effect": "NoSchedule"}],
                    [{"key": "s", "effect": "PreferNoSchedule"}],
                )
            )
        ),
        capacity,
        {**capacity, "cpu": cpu - draw.choice((0, 100))},
        used,
        tuple(port for one in pods for port in host_ports(one["spec"])),
    )


def _groups(draw: Random) -> list[NodeGroup]:
    return [
        NodeGroup(
            name,
            draw.choice((0, 0, 1)),
            draw.choice((1, 3, 6)),
            draw.choice((0, 1, 2)),
            _seat(draw, name, []),
            draw.choice((None, 200_000, 350_000, 350_000)),
            draw.choice(("",) * 8 + ("in backoff after failed scale-up",)),
        )
        for name in ("g", "h", "i", "j")[: draw.randint(1, 4)]
    ]


def _nodes(draw: Random, groups: list[NodeGroup]) -> list[NodeView]:
    templates = [_template(draw, is_bound=True) for _ in range(3)]
    made = []
    for i in range(draw.choice((0, 2, 4, 5))):
        pods = [_pod(draw, f"n{i}p{k}", draw.choice(templates)) for k in range(draw.choice((0, 1, 1, 2)))]
        made.append(
            NodeView(
                _seat(draw, f"n{i}", pods),
                draw.choice((*(g.name for g in groups), "g", "g", "")),
                tuple(pods),
                is_ready=draw.random() < 0.9,
                is_going=draw.random() < 0.07,
                no_scale_down=draw.random() < 0.07,
            )
        )
    return made


def _options(draw: Random) -> Options:
    return Options(
        expanders=draw.choice(
            ((), *((e,) for e in EXPANDERS), ("most-pods", "least-waste"), ("price", "random"))
        ),
        max_nodes_total=draw.choice((0, 0, 0, 4, 7)),
        balance_similar=draw.random() < 0.5,
        utilization_threshold=draw.choice((0.25, 0.5, 0.8)),
        gpu_utilization_threshold=draw.choice((0.0, 0.5)),
        most_at_once=draw.choice((1, 2, 10)),
        most_drained_at_once=draw.choice((1, 2)),
        ignore_daemon_sets=draw.random() < 0.3,
        skip_system_pods=draw.random() < 0.8,
        skip_local_storage=draw.random() < 0.8,
        skip_custom_controllers=draw.random() < 0.8,
        most_new_nodes=draw.choice((2, 1000, 1000)),
    )


def _names(pods: tuple[PodFacts, ...] | list[PodFacts]) -> str:
    return " ".join(p.name for p in pods) or "nobody"


def _placed(snapshot: Snapshot, nodes: list[NodeView], waiting: list[Obj]) -> Iterator[str]:
    shapes = Shapes(respects_preferences=False)
    before = snapshot.copy()
    left = snapshot.place([facts_of(p, shapes.of(p)) for p in waiting])
    sits = [f"{pod.name}:{node or 'coming'}" for node, pod in snapshot.placed]
    yield f"sit {' '.join(sits)}; left {_names(left)}"
    seen = snapshot.seen(nodes, {p["metadata"]["uid"]: p for p in waiting})
    for was, now in zip(nodes, seen, strict=True):
        if was is not now:
            ports = " ".join(str(p.port) for p in now.seat.ports)
            yield f"  {now.name}: {' '.join(name_of(p) for p in now.pods)}; {now.seat.used['cpu']}m; ports {ports}"
    assert not before.placed


def _grown(found: ScaleUp) -> Iterator[str]:
    yield f"grow {' '.join(map(str, found.resizes))} for {_names(found.triggered)}; later {_names(found.awaiting)}"
    for why, pods in groupby(found.unhelped, lambda pair: pair[1]):
        yield f"  no help for {_names([p for p, _ in pods])}: {why}"


def _shrunk(found: Unneeded) -> Iterator[str]:
    for one in found.removable:
        yield f"unneeded {one.node} of {one.group}: {one.utilization}; {' '.join(name_of(p) for p in one.pods)}"
    for name, (reason, message) in sorted(found.kept.items()):
        yield f"kept {name}: {reason} {message}"


def _scan(seed: int) -> Iterator[str]:
    draw = Random(seed)
    groups, options = _groups(draw), _options(draw)
    nodes = _nodes(draw, groups)
    templates = [_template(draw, is_bound=False) for _ in range(draw.randint(1, 3))]
    waiting = [_pod(draw, f"w{i}", draw.choice(templates)) for i in range(draw.randint(1, 8))]
    upcoming = [_seat(draw, "coming", [])] * draw.choice((0, 0, 1))
    yield from _placed(Snapshot(nodes, upcoming), nodes, waiting)
    shapes = Shapes(respects_preferences=False)
    pods = [facts_of(p, shapes.of(p)) for p in waiting]
    yield from _grown(
        scale_up(
            pods,
            groups,
            options,
            draw.random(),
            nodes_total=len(nodes),
            all_or_nothing=draw.random() < 0.2,
        )
    )
    option = Option(groups[0], draw.randint(1, 4), tuple(pods[:2]))
    yield f"waste {waste(option):.6f}, price {price_score(option, draw.choice((2, 7, 300))):.4f}"
    guard = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": draw.choice("xyz")}}},
        "status": {"disruptionsAllowed": draw.choice((0, 1))},
    }
    found = unneeded(nodes, budgets_of([guard]), options, _NOW_US)
    yield from _shrunk(found)
    since = {one.node: _NOW_US - draw.choice((0, 10, 10, 20)) * MINUTE_US for one in found.removable}
    ready = {n.name: n.is_ready for n in nodes}
    going = draw.choice(({}, {}, {"g": 1}))
    gone = due(found.removable, since, groups, ready, options, _NOW_US, going=going, draining=len(going))
    yield f"go {' '.join(one.node for one in gone)}"


def test_nothing_else_grows_or_goes_than_did() -> None:
    lines = (line for seed in range(200) for line in (f"== {seed}", *_scan(seed)))
    check_history(_HERE / "autoscaling.txt", lines)
