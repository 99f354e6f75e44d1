"""What a scale-up comes to, as a whole, against the rule in plain words: who is skipped, what an empty node would hold,
how many nodes the pods fill, which group is taken, how it is spread, and what everybody else is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from fairway.kube.objects import Obj
from fairway.kube.taints import Taint
from fairway.provisioning.clusterautoscaler.groups import NodeGroup, Options, Seat
from fairway.provisioning.clusterautoscaler.scaleup import scale_up
from fairway.provisioning.karpenter.podfacts import Shapes, facts_of

ZONE, GPU, GIB = "topology.kubernetes.io/zone", "nvidia.com/gpu", 2**30
FULL, TOTAL = "max node group size reached", "max total nodes in cluster reached"
ALL_OR_NOTHING = "not all pods would fit and scale-up is using all-or-nothing strategy"


@dataclass(frozen=True)
class _Kind:
    number: int
    cpu: int
    memory: int
    gpu: int = 0
    zone: str = ""
    port: int = 0
    tolerates: bool = False
    is_alone: bool = False

    def pod(self, name: str) -> Obj:
        asks = {"cpu": f"{self.cpu}m", "memory": f"{self.memory}Gi", **({GPU: self.gpu} if self.gpu else {})}
        container: Obj = {"name": "c", "resources": {"requests": asks}}
        if self.port:
            container["ports"] = [{"hostPort": self.port, "containerPort": 1}]
        spec: Obj = {"containers": [container]}
        if self.zone:
            spec["nodeSelector"] = {ZONE: self.zone}
        if self.tolerates:
            spec["tolerations"] = [{"key": "own", "operator": "Exists"}]
        if self.is_alone:
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"k": "alone"}}}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        labels = {"k": "alone" if self.is_alone else "any", "number": f"{self.number}"}
        return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec}


@dataclass(frozen=True)
class _Group:
    name: str
    cpu: int
    memory: int
    gpu: int
    pods: int
    used: int
    zone: str
    effect: str
    port: int
    most: int
    target: int
    unsafe: str

    def built(self) -> NodeGroup:
        there = {"cpu": self.cpu, "memory": self.memory * GIB, "pods": self.pods}
        there |= {GPU: self.gpu} if self.gpu else {}
        taints = (Taint("own", "", self.effect),) if self.effect else ()
        # What DaemonSets take of each new node: room, and a port.
        used = {"cpu": self.used, "pods": 1} if self.used else {}
        ports = facts_of(
            (daemon := _Kind(99, 0, 0, port=self.port).pod("d")), Shapes().of(daemon)
        ).shape.ports
        seat = Seat(self.name, {ZONE: self.zone}, taints, there, there, used, ports)
        return NodeGroup(self.name, 0, self.most, self.target, seat, 100, self.unsafe)

    @property
    def may_grow(self) -> int:
        return 0 if self.unsafe else max(self.most - self.target, 0)

    @property
    def why_skipped(self) -> str:
        return self.unsafe or (FULL if self.target >= self.most else "")

    def is_like(self, other: _Group) -> bool:
        same = ("cpu", "memory", "gpu", "pods", "used")
        return self.name != other.name and all(getattr(self, n) == getattr(other, n) for n in same)


@dataclass
class _Node:
    """A new one of a group."""

    group: _Group
    kinds: list[_Kind] = field(default_factory=list)

    def why_not(self, kind: _Kind) -> list[str]:
        of, here = self.group, self.kinds
        if of.effect in ("NoSchedule", "NoExecute") and not kind.tolerates:
            return ["node(s) had untolerated taint(s)"]
        if kind.zone not in ("", of.zone):
            return ["node(s) didn't match Pod's node affinity/selector"]
        if kind.port and kind.port in (of.port, *(k.port for k in here)):
            return ["node(s) didn't have free ports for the requested pod ports"]
        short = ["Too many pods"] * (len(here) + 1 + (of.used > 0) > of.pods)
        short += ["Insufficient cpu"] * (
            kind.cpu > 0 and sum(k.cpu for k in here) + of.used + kind.cpu > of.cpu
        )
        short += ["Insufficient memory"] * (
            kind.memory > 0 and sum(k.memory for k in here) + kind.memory > of.memory
        )
        short += [f"Insufficient {GPU}"] * (kind.gpu > 0 and sum(k.gpu for k in here) + kind.gpu > of.gpu)
        if short:
            return short
        return ["node(s) didn't match pod anti-affinity rules"] * (kind.is_alone and kind in here)


Waiting = dict[_Kind, list[str]]


def _filled(group: _Group, waiting: Waiting, most: int) -> tuple[int, list[str]]:
    """Kinds by the shares of CPU and memory they ask for, the largest first. Each tries the nodes that others
    opened, never one before a node that refused it; then the last, then new ones."""
    nodes: list[_Node] = []
    placed: list[str] = []
    is_capped = False
    for kind in sorted(waiting, key=lambda k: (-(k.cpu / group.cpu + k.memory / group.memory), k.number)):
        left = list(waiting[kind])
        for node in nodes:
            while left and not node.why_not(kind):
                node.kinds.append(kind)
                placed.append(left.pop(0))
        while left and not is_capped:
            if not nodes or nodes[-1].why_not(kind):
                if len(nodes) >= most:
                    is_capped = True
                    break
                nodes.append(_Node(group))
            nodes[-1].kinds.append(kind)
            placed.append(left.pop(0))
    return len(nodes), placed


@dataclass
class _World:
    groups: list[_Group]
    pods: list[tuple[str, _Kind]]
    options: Options
    nodes_total: int
    draw: float
    all_or_nothing: bool

    @property
    def waiting(self) -> Waiting:
        found: Waiting = {}
        for name, kind in self.pods:
            found.setdefault(kind, []).append(name)
        return found

    def outcome(self) -> tuple[list[str], list[str], list[str], list[tuple[str, str]]]:
        """Resizes, whom they are for, who waits for another look, and who is told what."""
        most_total = self.options.max_nodes_total
        left = most_total - self.nodes_total if most_total else self.options.most_new_nodes
        if left <= 0:
            return [], [], [], [(name, TOTAL) for name, _ in self.pods]
        reasons: dict[_Kind, list[str]] = {kind: [] for kind in self.waiting}
        fits: dict[str, Waiting] = {}
        found: list[tuple[_Group, int, list[str]]] = []
        for group in self.groups:
            if group.why_skipped:
                for kind in reasons:
                    reasons[kind].append(group.why_skipped)
                continue
            fits[group.name] = {k: ps for k, ps in self.waiting.items() if not _Node(group).why_not(k)}
            kin = [g for g in self.groups if g.is_like(group)] if self.options.balance_similar else []
            most = min(sum(g.may_grow for g in (group, *kin)), self.options.most_new_nodes)
            count, placed = _filled(group, fits[group.name], most)
            if not self.all_or_nothing or len(placed) == len(self.pods):
                found += [(group, count, placed)] if count else []
            for kind in reasons:
                reasons[kind] += _Node(group).why_not(kind)
                if self.all_or_nothing and len(placed) < len(self.pods) and kind in fits[group.name]:
                    reasons[kind].append(ALL_OR_NOTHING)
        best = self._chosen(found)
        helped = {name for _, _, placed in found for name in placed}
        told = []
        for kind, names in self.waiting.items():
            if best is None or helped.isdisjoint(names):
                counts = {why: reasons[kind].count(why) for why in reasons[kind]}
                ordered = sorted(counts, key=lambda why: (-counts[why], why))
                told += [(name, ", ".join(f"{counts[w]} {w}" for w in ordered)) for name in names]
        if best is None:
            return [], [], [], told
        group, count, placed = best
        if self.all_or_nothing and count > left:
            return [], [], [], [(name, TOTAL) for name, _ in self.pods]
        waits = [n for n, _ in self.pods if n not in placed and n not in dict(told)]
        return self._spread(group, min(count, left), placed, fits), placed, waits, told

    def _chosen(self, found: list[tuple[_Group, int, list[str]]]) -> tuple[_Group, int, list[str]] | None:
        kind_of = dict(self.pods)

        def waste(option: tuple[_Group, int, list[str]]) -> float:
            group, count, placed = option
            cpu = sum(kind_of[n].cpu for n in placed)
            memory = sum(kind_of[n].memory for n in placed)
            return (group.cpu * count - cpu) / (group.cpu * count) + (group.memory * count - memory) / (
                group.memory * count
            )

        for name in self.options.expanders:
            if name == "random":
                break
            worth = [waste(o) if name == "least-waste" else float(-len(o[2])) for o in found]
            found = [o for o, each in zip(found, worth, strict=True) if each == min(worth)]
        return found[int(self.draw * len(found))] if found else None

    def _spread(self, group: _Group, count: int, placed: list[str], fits: dict[str, Waiting]) -> list[str]:
        kinds = {kind for name, kind in self.pods if name in placed}
        one_of = [group]
        if self.options.balance_similar:
            one_of += [g for g in self.groups if g.is_like(group) and kinds <= set(fits.get(g.name, ()))]
        sizes = {g.name: g.target for g in one_of}
        for _ in range(count):
            open_ = [g for g in one_of if sizes[g.name] < g.most]
            if open_:
                sizes[min(open_, key=lambda g: (sizes[g.name], g.name)).name] += 1
        return [
            f"{{{g.name} {g.target}->{sizes[g.name]} (max: {g.most})}}"
            for g in one_of
            if sizes[g.name] != g.target
        ]


def _drawn(seed: int) -> _World:
    draw = Random(seed)
    groups = []
    machines = [(4000, 16, 0), (8000, 16, 0), (8000, 64, 2)]
    # Half of the time all are of one kind of machine, and may grow together.
    sorts = draw.sample(machines, 1) if draw.random() < 0.5 else machines
    slots, used = draw.choice((110, 110, 3)), draw.choice((0, 0, 500))
    for name in draw.sample("abcd", draw.randint(1, 4)):
        cpu, memory, gpu = draw.choice(sorts)
        groups.append(
            _Group(
                name,
                cpu,
                memory,
                gpu,
                slots,
                used,
                draw.choice("xy"),
                draw.choice(("", "", "NoSchedule", "NoExecute", "PreferNoSchedule")),
                draw.choice((0, 0, 80)),
                draw.choice((1, 2, 5)),
                draw.choice((0, 0, 0, 1, 2)),
                draw.choice(("", "", "", "", "", "in backoff after failed scale-up")),
            )
        )
    kinds = [
        _Kind(
            number,
            draw.choice((0, 500, 1000, 2000, 4000, 5000)),
            draw.choice((0, 1, 4, 17)),
            draw.choice((0, 0, 0, 1, 3)),
            draw.choice(("", "", "", "x", "z")),
            draw.choice((0, 0, 0, 80, 81)),
            draw.random() < 0.6,
            draw.random() < 0.2,
        )
        for number in range(draw.randint(1, 4))
    ]
    pods = [(f"p{i}", draw.choice(kinds)) for i in range(draw.randint(1, 12))]
    # Kinds are numbered as their pods come.
    order = {kind: i for i, kind in enumerate(dict.fromkeys(kind for _, kind in pods))}
    pods = [(name, _Kind(**{**kind.__dict__, "number": order[kind]})) for name, kind in pods]
    options = Options(
        expanders=draw.choice((("least-waste",), ("most-pods",), ("most-pods", "least-waste"), ("random",))),
        max_nodes_total=draw.choice((0, 0, 6)),
        balance_similar=draw.random() < 0.5,
        most_new_nodes=draw.choice((1000, 1000, 2)),
    )
    return _World(groups, pods, options, draw.choice((0, 4, 5, 6)), draw.random(), draw.random() < 0.2)


@pytest.mark.parametrize("start", range(0, 400, 20))
def test_a_scale_up_is_what_its_rules_say(start: int) -> None:
    for seed in range(start, start + 20):
        world, shapes = _drawn(seed), Shapes()
        objects = [kind.pod(name) for name, kind in world.pods]
        found = scale_up(
            [facts_of(o, shapes.of(o)) for o in objects],
            [g.built() for g in world.groups],
            world.options,
            world.draw,
            nodes_total=world.nodes_total,
            all_or_nothing=world.all_or_nothing,
        )
        said = (
            [str(r) for r in found.resizes],
            [p.name for p in found.triggered],
            [p.name for p in found.awaiting],
            [(p.name, why) for p, why in found.unhelped],
        )
        assert said == world.outcome(), seed
