"""A twin with Karpenter, a scheduler, kubelets and nothing else that moves; and what Karpenter knows, as text."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from tests.twin.stepwise import Watched

from fairway.kube.objects import Key, Obj
from fairway.kube.resources import CPU, MEMORY, PODS
from fairway.kube.timestamps import SECOND_US
from fairway.provisioning.karpenter.instancetypes import GIB, InstanceType, Offering
from fairway.provisioning.karpenter.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    ON_DEMAND,
    OS,
    SPOT,
    ZONE,
)
from fairway.provisioning.karpenter.requirement import one_of
from fairway.provisioning.karpenter.requirements import Requirements
from fairway.twin.components import Component
from fairway.twin.distributions import constant
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.latency import NONE
from fairway.twin.nodelifecycle import NodeLifecycle
from fairway.twin.provisioner import gauges
from fairway.twin.provisioner.cloud import Cloud, Shortage
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.twin import EPOCH_US, Twin

GPU = "nvidia.com/gpu"
S = SECOND_US
NODE_CLAIM, NODE_POOL = "NodeClaim.karpenter.sh", "NodePool.karpenter.sh"


def kind(name: str, cpu: int, price: int, gpu: int = 0, zones: Sequence[str] = ("z1",)) -> InstanceType:
    """Half the price at the spot market; each zone is a little dearer than the one before."""
    offers = [(zone, price + number) for number, zone in enumerate(zones)]
    offerings = tuple(
        o for zone, at in offers for o in (Offering(zone, SPOT, at // 2), Offering(zone, ON_DEMAND, at))
    )
    wanted = [one_of(k, (v,)) for k, v in {INSTANCE_TYPE: name, ARCH: "amd64", OS: "linux"}.items()]
    wanted += [one_of(ZONE, tuple(zones)), one_of(CAPACITY_TYPE, (SPOT, ON_DEMAND))]
    capacity = {CPU: cpu * 1000, MEMORY: cpu * 4 * GIB, PODS: 110, **({GPU: gpu} if gpu else {})}
    return InstanceType(name, Requirements(wanted), offerings, capacity)


KINDS = (kind("small", 4, 100_000), kind("large", 16, 500_000), kind("cards", 8, 2_000_000, gpu=2))


def pool(name: str = "p", of: Obj | None = None, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    """On-demand machines that rest for 30 s and may all go at once, unless told otherwise. `of`: of its nodes."""
    on_demand = [{"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]}]
    reference = {"group": "karpenter.fairway.dev", "kind": "FairwayNodeClass", "name": "default"}
    template = {
        "metadata": {"labels": labels or {}},
        "spec": {"requirements": on_demand, "nodeClassRef": reference, **(of or {})},
    }
    disruption = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}], **spec.pop("disruption", {})}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, "disruption": disruption, **spec},
    }


def pod(name: str, cpu: str = "3", *, run: str = "forever", owner: str = "ReplicaSet", **spec: Any) -> Obj:
    gpu = spec.pop("gpu", 0)
    requests = {"cpu": cpu, **({GPU: str(gpu)} if gpu else {})}
    container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}
    meta = {
        "name": name,
        "namespace": "default",
        "labels": {"app": name},
        "annotations": {"fairway.dev/run-time": run, **spec.pop("annotations", {})},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}
        ],
    }
    base = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**base, **spec}}


def guard(app: str) -> Obj:
    """A budget that lets no pod of this name go."""
    meta = {"name": f"guard-{app}", "namespace": "default"}
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}


class World(Watched):
    def __init__(
        self,
        *objects: Obj,
        kinds: Sequence[InstanceType] = KINDS,
        shortages: Sequence[Shortage] = (),
        boot_s: int = 30,
        **cloud: Any,
    ) -> None:
        self.part = Provisioner(
            Cloud(tuple(kinds), boot=constant(boot_s * S), shortages=tuple(shortages), **cloud)
        )
        self._due = ("never", "none")
        super().__init__(Twin(seed=1, latency=NONE, components=_parts(self.part)))
        self.apply(*objects)

    def apply(self, *objects: Obj) -> World:
        self.twin.apply(objects)
        return self

    def delete(self, name: str, gk: str = "Pod", grace_s: int | None = None) -> World:
        namespace = "default" if gk in ("Pod", "PodDisruptionBudget.policy") else ""
        self.twin.store.delete(Key(gk, namespace, name), grace_s=grace_s)
        self.twin.wake()
        return self

    def patch(self, name: str, change: Obj, gk: str = "Pod") -> World:
        self.twin.store.patch(Key(gk, "default" if gk == "Pod" else "", name), change)
        self.twin.wake()
        return self

    def status(self, name: str, gk: str = "Pod", **parts: Any) -> World:
        key = Key(gk, "default" if gk == "Pod" else "", name)
        self.twin.store.set_status(key, {**(self.twin.store.require(key).get("status") or {}), **parts})
        self.twin.wake()
        return self

    def names(self, gk: str = NODE_CLAIM) -> list[str]:
        """Sorted by when they came."""
        return [o["metadata"]["name"] for o in self.twin.store.objects(gk)]

    def forked(self) -> World:
        """A copy of the twin, told from now on."""
        return self._other(self.twin.fork(), self.twin.store.version)

    def begun_anew(self) -> World:
        """The same cluster with a Karpenter that knows nothing yet, told from now on."""
        made = _parts(Provisioner(self.part.cloud))
        store = self.twin.store.fork()
        begun = Twin(seed=2, latency=NONE, components=made, store=store, start_us=self.twin.now_us)
        return self._other(begun, self.twin.store.version)

    def _other(self, twin: Twin, seen: int) -> World:
        other = copy.copy(self)
        Watched.__init__(other, twin)
        other._seen = seen
        part = twin.component("karpenter")
        assert isinstance(part, Provisioner)
        other.part = part
        return other

    def rest(self) -> Iterator[str]:
        """What was said, what Karpenter still remembers, and its metrics."""
        yield from self.said()
        yield from self.remembered()
        for one in gauges.samples(self.part):
            if one.value:
                yield f"{one.name.removeprefix('karpenter_')} {','.join(one.labels)} {one.value:.9g}"
        for many in gauges.observed(self.part):
            if any(many.counts):
                yield f"{many.name.removeprefix('karpenter_')} {','.join(many.labels)} {many.counts} {many.total:g}"

    def remembered(self) -> Iterator[str]:
        part, disruption = self.part, self.part.disruption
        yield f"pending {[key.name for key in part.pending]}; batch {part.batch is not None}"
        yield f"promised {_times(part.promised)}"
        yield f"unavailable {_times({'/'.join(offered): at for offered, at in part.unavailable.items()})}"
        yield f"draining {_times(part.termination.since_us)}; under way {[u.nodes for u in disruption.underway]}"
        yield f"ripe {list(disruption.marks.ripe)}; stale {list(disruption.marks.stale)}"

    def said(self) -> Iterator[str]:
        return (line for line in super().said() if line.startswith("karpenter "))

    def _news(self) -> Iterator[str]:
        """All of claims and pools and what Karpenter noted; of nodes and pods what is not their kubelet's."""
        held: list[str] = []
        is_brief = False
        for line in super()._news():
            if line.startswith("== "):
                held = [line]
                continue
            if line.startswith("noted "):
                held = [h for h in held if h.startswith("== ")]
                if not line.startswith("noted karpenter "):
                    continue
            elif not line.startswith("  "):
                is_brief = line.startswith(("modified Node ", "modified Pod "))
                held = [*(h for h in held if h.startswith("== ")), line]
                if is_brief:
                    continue
            elif is_brief and line.startswith("  status.") and not line.startswith("  status.phase"):
                continue
            yield from held
            if line not in held:
                yield line
            held = []
        batch, due_us = self.part.batch, self.part.disruption._tick_at_us
        due = (_s(due_us) if due_us >= 0 else "never", "none" if batch is None else _s(batch.ends_us()))
        if due != self._due:
            yield f"-- {_s(self.twin.now_us)}: next look {due[0]}, batch {due[1]}"
        self._due = due


def _parts(karpenter: Provisioner) -> list[Component]:
    return [Faults(), Kubelet(), NodeLifecycle(), SchedulerComponent(), karpenter]


def _s(at_us: int) -> str:
    return f"{(at_us - EPOCH_US) / S:.15g} s"


def _times(of: dict[str, int]) -> list[str]:
    return [f"{name} {_s(at_us)}" for name, at_us in of.items()]
