"""Kinds whose object holds its pod templates, one for each pod set: where they are, and writing into them.

A kind says which pod sets it has (`sets_of`) and where its switch is (`suspend_path`); injection and restoring
follow from that.

Source: what the RunWithPodSetsInfo and RestorePodSetsInfo of pkg/controller/jobs have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fairway.cluster.actions import View
from fairway.kube.objects import Obj, dig, spec_of, status_of
from fairway.queueing.integrations.integration import Finish, Integration, PodSetObj
from fairway.queueing.integrations.podsetinfo import PodSetInfo, into_template, with_info, wrong_number
from fairway.queueing.integrations.topologyrequest import topology_request

Where = tuple[str | int, ...]


class TemplateSet(NamedTuple):
    """One pod set: its name, its pods, where its template is, and by which labels pods say their rank."""

    name: str
    pods: int
    where: Where
    pod_index_label: str = ""
    sub_group_label: str = ""
    sub_group_count: int | None = None


class TemplatedIntegration(Integration):
    """A kind with templates inside."""

    suspend_path: Where = ("spec", "suspend")

    def sets_of(self, job: Obj) -> list[TemplateSet]:
        raise NotImplementedError

    def pod_sets(self, view: View, job: Obj) -> list[PodSetObj]:
        return [self._pod_set(job, one) for one in self.sets_of(job)]

    def _pod_set(self, job: Obj, one: TemplateSet) -> PodSetObj:
        template = self.template_at(job, one.where)
        pod_set: dict[str, Any] = {"name": one.name, "count": one.pods, "template": template}
        if self.gates.topology_aware_scheduling:
            request = topology_request(
                template,
                pod_index_label=one.pod_index_label,
                sub_group_label=one.sub_group_label,
                sub_group_count=one.sub_group_count,
            )
            if request is not None:
                pod_set["topologyRequest"] = request
        return pod_set

    def template_at(self, job: Obj, where: Where) -> Obj:
        """The template, or what stands in for one that was left out."""
        found = dig(job, *where)
        return found if isinstance(found, dict) else {}

    def is_suspended(self, job: Obj) -> bool:
        return bool(dig(job, *self.suspend_path))

    def with_suspend(self, job: Obj, on: bool) -> Obj:
        changed: Obj = put(job, self.suspend_path, on)
        return changed

    def with_infos(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        sets = self.sets_of(job)
        if len(sets) != len(infos):
            raise wrong_number(len(sets), len(infos))
        for one, info in zip(sets, infos, strict=True):
            job = put(job, one.where, into_template(self.template_at(job, one.where), info))
        return job

    def restored(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        """Left as it is where the Workload has another number of pod sets."""
        sets = self.sets_of(job)
        if len(sets) != len(infos):
            return job
        for one, info in zip(sets, infos, strict=True):
            job = put(job, one.where, with_info(self.template_at(job, one.where), info))
        return job


def put(obj: Any, where: Where, value: Any) -> Any:
    """A copy with this value at that place; mappings on the way are made, lists must be there."""
    if not where:
        return value
    step, rest = where[0], where[1:]
    if isinstance(step, int):
        return [put(item, rest, value) if i == step else item for i, item in enumerate(obj)]
    found = obj or {}
    return {**found, step: put(found.get(step), rest, value)}


def finish_by_condition(job: Obj, succeeded: str, failed: str) -> Finish | None:
    """By the first of two conditions that is true."""
    for condition in status_of(job).get("conditions") or ():
        if condition.get("type") in (succeeded, failed) and condition.get("status") == "True":
            return Finish(condition.get("message") or "", condition["type"] == succeeded)
    return None


def replicas_of(spec: dict[str, Any], default: int = 1) -> int:
    given = spec.get("replicas")
    return default if given is None else int(given)


def first_priority_class(job: Obj, sets: Sequence[TemplateSet]) -> str:
    """The first template's that names one."""
    for one in sets:
        name = spec_of(dig(job, *one.where) or {}).get("priorityClassName")
        if name:
            return str(name)
    return ""
