"""What might start a gang: its group made, or asking for no more pods than there are, or fit; room for all of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairway.answers.explanation import GANG, Link
from fairway.answers.proposal import Proposal
from fairway.answers.steps import Apply, Patch
from fairway.ground import Moment
from fairway.kube.objects import Obj, key_of, namespace_of, spec_of
from fairway.scenario.objects import as_new
from fairway.scheduling import coscheduling, gangscheduling
from fairway.twin.scheduler import SchedulerComponent

MOST_MEMBERS: Final = 256
"""Pods that are proposed and tried at once; a group that asks for more of them is not helped by more."""


def pods_short(blocker: Link, waiting: int) -> int:
    """How many pods have to find room at once."""
    numbers = blocker.numbers
    is_short = blocker.layer == GANG and "least" in numbers
    return max(waiting, numbers["least"] - numbers["placed"]) if is_short else waiting


def for_gangs(moment: Moment, job: Obj, pod: Obj, blocker: Link) -> Iterator[Proposal]:
    scheduler = moment.twin.component("default-scheduler")
    assert isinstance(scheduler, SchedulerComponent)
    company = None if scheduler.gangs is None else scheduler.gangs.company(key_of(pod), pod)
    if company is None:
        return
    group, least, members = company
    numbers, is_native = blocker.numbers, group.gk == gangscheduling.POD_GROUP
    if least < 0:
        read = gangscheduling.group_key if is_native else coscheduling.group_key
        count = sum(read(p) == group for p in moment.store.objects("Pod", namespace_of(pod)))
        made = {
            "apiVersion": f"{group.gk.partition('.')[2]}/{'v1alpha2' if is_native else 'v1alpha1'}",
            "kind": "PodGroup",
            "metadata": {"name": group.name, "namespace": group.namespace},
            "spec": {"schedulingPolicy": {"gang": {"minCount": count}}}
            if is_native
            else {"minMember": count},
        }
        yield Proposal(f"a PodGroup {group.name} of {count} pods", (Apply(made),), "group")
        return
    most = numbers["placed"] + numbers["fit"] if "least" in numbers else len(members)
    # Kubernetes' own groups keep their count. Source: scheduling.k8s.io/v1alpha2 of 1.36.
    if 0 < most < least and not is_native:
        operations = ({"op": "replace", "path": "/spec/minMember", "value": most},)
        what = f"PodGroup {group.name} asks for {most} pods instead of {least}"
        yield Proposal(what, (Patch(group, operations),), "group", loses=True)
    if 0 < least - len(members) <= MOST_MEMBERS:
        yield from _more_members(job, pod, least - len(members), group.name)


def _more_members(job: Obj, pod: Obj, missing: int, group: str) -> Iterator[Proposal]:
    """As many pods as the group asks for: of its Job, of a JobSet's only one, or beside a pod that nobody made."""
    what = f"{missing} more pod{'s' if missing > 1 else ''} in PodGroup {group}"
    spec = spec_of(job)
    if job.get("kind") == "Pod":
        asked = {k: v for k, v in spec.items() if k != "nodeName"}
        meta = as_new(pod)["metadata"]
        names = [f"{meta['name']}-{n}" for n in range(1, missing + 1)]
        more = (Apply({**as_new(pod), "metadata": {**meta, "name": name}, "spec": asked}) for name in names)
        yield Proposal(what, tuple(more), "members")
        return
    path, listed = "/spec", spec.get("replicatedJobs")
    if job.get("kind") == "JobSet" and isinstance(listed, list) and len(listed) == 1:
        path, spec = "/spec/replicatedJobs/0/template/spec", spec_of(listed[0].get("template") or {})
        missing = -(-missing // (listed[0].get("replicas") or 1))
    if job.get("kind") in ("Job", "JobSet") and isinstance(spec.get("parallelism"), int):
        fields = [f for f in ("parallelism", "completions") if isinstance(spec.get(f), int)]
        operations = tuple(
            {"op": "replace", "path": f"{path}/{f}", "value": spec[f] + missing} for f in fields
        )
        yield Proposal(what, (Patch(key_of(job), operations),), "members")
