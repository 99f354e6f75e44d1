"""A twin with node groups and nothing else that moves: what the autoscaler noted, and when it looked."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from fairway.cluster.changes import ADDED
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.taints import Taint
from fairway.kube.timestamps import SECOND_US
from fairway.provisioning.clusterautoscaler import statustext
from fairway.provisioning.clusterautoscaler.groups import Options
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
from fairway.twin.distributions import constant
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.latency import latency_named
from fairway.twin.nodegroups import metrics
from fairway.twin.nodegroups.component import ClusterAutoscaler
from fairway.twin.nodegroups.grouping import AutoscalerPlan, GroupSpec
from fairway.twin.nodelifecycle import NodeLifecycle
from fairway.twin.provisioner.cloud import Cloud, Shortage
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.twin import EPOCH_US, Twin

GPU = "nvidia.com/gpu"
S = SECOND_US
_STATUS = Key("ConfigMap", "kube-system", "cluster-autoscaler-status")


def kind(name: str, cpu: int = 4, gpu: int = 0) -> InstanceType:
    labels = {INSTANCE_TYPE: name, ARCH: "amd64", OS: "linux"}
    wanted = [one_of(key, (value,)) for key, value in labels.items()]
    wanted += [one_of(ZONE, ("z1", "z2")), one_of(CAPACITY_TYPE, (ON_DEMAND, SPOT))]
    offerings = tuple(
        Offering(z, c, p) for z in ("z1", "z2") for c, p in ((SPOT, 50_000), (ON_DEMAND, 100_000))
    )
    capacity = {"cpu": cpu * 1000, "memory": cpu * 4 * GIB, "pods": 110, **({GPU: gpu} if gpu else {})}
    return InstanceType(name, Requirements(wanted), offerings, capacity, {"cpu": 500})


def group(
    name: str, of: InstanceType | None = None, least: int = 0, most: int = 3, size: int = 0, **others: Any
) -> GroupSpec:
    given: dict[str, Any] = {"zone": "z1", "capacity_type": ON_DEMAND, **others}
    return GroupSpec(name, of or kind("m"), least=least, most=most, size=size, **given)


def spot_taint() -> Taint:
    return Taint("spot", "1", "NoSchedule")


def pod(name: str, cpu: str = "3", *, gpu: int = 0, run: str = "forever", **spec: Any) -> Obj:
    requests = {"cpu": cpu, **({GPU: str(gpu)} if gpu else {})}
    container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}
    meta = {"name": name, "namespace": "default", "annotations": {"fairway.dev/run-time": run}}
    base = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**base, **spec}}


class World:
    """Times are seconds since the start."""

    def __init__(
        self,
        *groups: GroupSpec,
        shortages: Sequence[Shortage] = (),
        boot_s: int = 60,
        provider: str = "aws",
        before: Sequence[Obj] = (),
        **options: Any,
    ) -> None:
        """`before`: what was there when the autoscaler started."""
        kinds = tuple({g.kind.name: g.kind for g in groups}.values())
        cloud = Cloud(kinds, boot=constant(boot_s * S), shortages=tuple(shortages))
        self.part = ClusterAutoscaler(AutoscalerPlan(groups, cloud, provider, Options(**options)))
        parts: list[Any] = [Faults(), Kubelet(), NodeLifecycle(), SchedulerComponent(), self.part]
        store = Store(seed=1, now_us=EPOCH_US)
        for obj in before:
            store.create(obj)
        self.twin = Twin(
            seed=1, latency=latency_named("zero"), components=parts, keep_records=10_000, store=store
        )
        self._told = self._looked = 0

    def until(self, at_s: float) -> World:
        self.twin.run(EPOCH_US + round(at_s * S))
        return self

    def apply(self, *objects: Obj) -> World:
        self.twin.apply(objects)
        return self

    def delete(self, key: Key) -> World:
        self.twin.store.delete(key)
        self.twin.wake()
        return self

    def forked(self) -> World:
        copied = copy.copy(self)
        copied.twin = self.twin.fork()
        part = copied.twin.component("cluster-autoscaler")
        assert isinstance(part, ClusterAutoscaler)
        copied.part = part
        return copied

    def told(self, when: str) -> Iterator[str]:
        """All there is to tell of the autoscaler now; of what happened, what was not told before."""
        part, store = self.part, self.twin.store
        yield f"== {when}, after {_s(self.twin.now_us)}"
        yield from self._noted()
        yield f"looked at {' '.join(self._looks())}"
        came = [c.key.name for c in store.log.since(0) if c.key.gk == "Node" and c.type == ADDED]
        yield f"came {' '.join(came)}; there {' '.join(n['metadata']['name'] for n in store.objects('Node'))}"
        yield f"sizes {part.targets}; coming {list(part.coming)}; going {list(part.removals.going)}"
        unneeded = {name: _s(at_us) for name, at_us in part.since_us.items()}
        yield f"unneeded {unneeded}; kept {part.kept}"
        yield f"backoffs {[(n, _s(b.until_us), _s(EPOCH_US + b.lasts_us), b.why) for n, b in part.backoffs.items()]}"
        yield f"lost {[(one.name, _s(at_us)) for one, at_us in self.twin.host.launches.lost]}"
        for one in store.objects("ProvisioningRequest.autoscaling.x-k8s.io"):
            yield f"{one['metadata']['name']}: {_short(one.get('status'))}"
        yield from self._status()
        for s in metrics.samples(part):
            if s.value:
                yield f"{s.name.removeprefix('cluster_autoscaler_')} {','.join(s.labels)} {s.value:.15g}"

    def _noted(self) -> Iterator[str]:
        """What the autoscaler and the cloud said, in the log and as events, in order."""
        said = ("cluster-autoscaler", "cloud-node-lifecycle-controller")
        records = [r for r in self.twin.host.log.records() if r.component in said]
        for r in records[self._told :]:
            yield f"{_s(r.time_us)} {r.component} {r.kind} {r.name}: {r.reason}: {r.message}"
        self._told = len(records)
        for t in self.twin.host.events.told():
            if t.component in said:
                when = f"{t.times} times, {_s(t.first_us)} to {_s(t.last_us)}"
                yield f"event {t.type} {t.reason} of {t.about.gk} {t.about.name}, {when}"

    def _looks(self) -> list[str]:
        """When there was a loop: each writes the status."""
        written = [c.obj for c in self.twin.store.log.since(0) if c.key == _STATUS][self._looked :]
        self._looked += len(written)
        return [_short(one["metadata"]["annotations"][statustext.LAST_UPDATED]) for one in written]

    def _status(self) -> Iterator[str]:
        """A line for all, and one for each group: what is not 0."""
        status = yaml.safe_load(self.twin.store.require(_STATUS)["data"]["status"])
        for part in (status["clusterWide"], *status["nodeGroups"]):
            yield " ".join(_leaves(part))


def _s(at_us: int) -> str:
    return f"{(at_us - EPOCH_US) / S:g} s"


def _short(value: object) -> str:
    return str(value).replace("2026-01-05", "").replace("+0000 UTC", "").strip()


def _leaves(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else str(name))
    elif value and not path.endswith("lastProbeTime"):
        yield f"{path}={_short(value)}"
