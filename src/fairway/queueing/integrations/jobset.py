"""JobSet as Kueue sees it: one pod set for each replicated job.

Source: pkg/controller/jobs/jobset/jobset_controller.go.
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.actions import View
from fairway.kube.objects import Obj, spec_of, status_of
from fairway.queueing.integrations.integration import Finish, Reclaimable
from fairway.queueing.integrations.job import COMPLETION_INDEX
from fairway.queueing.integrations.templated import (
    TemplatedIntegration,
    TemplateSet,
    finish_by_condition,
    replicas_of,
)

JOBSET = "JobSet.jobset.x-k8s.io"
_JOB_INDEX = "jobset.sigs.k8s.io/job-index"


class JobSet(TemplatedIntegration):
    """Suspended by `spec.suspend`; its Jobs follow."""

    name, gk, api_version = "jobset.x-k8s.io/jobset", JOBSET, "jobset.x-k8s.io/v1alpha2"

    def sets_of(self, job: Obj) -> list[TemplateSet]:
        return [
            TemplateSet(
                replicated["name"].lower(),
                replicas_of(replicated) * pods_per_replica(replicated),
                ("spec", "replicatedJobs", index, "template", "spec", "template"),
                COMPLETION_INDEX,
                _JOB_INDEX,
                replicas_of(replicated),
            )
            for index, replicated in enumerate(spec_of(job).get("replicatedJobs") or ())
        ]

    def is_active(self, view: View, job: Obj) -> bool:
        return any(s.get("active") for s in _statuses(job))

    def finished(self, view: View, job: Obj) -> Finish | None:
        for succeeded, failed in (("Completed", ""), ("", "Failed")):
            found = finish_by_condition(job, succeeded, failed)
            if found is not None:
                return found
        return None

    def pods_ready(self, view: View, job: Obj) -> bool:
        wanted = sum(replicas_of(r) for r in spec_of(job).get("replicatedJobs") or ())
        ready: int = sum(s.get("ready", 0) + s.get("succeeded", 0) for s in _statuses(job))
        return wanted == ready

    def reclaimable(self, view: View, job: Obj) -> list[Reclaimable] | None:
        """The pods of Jobs that have succeeded."""
        of_name = {s["name"]: s for s in _statuses(job)}
        found = []
        for replicated in spec_of(job).get("replicatedJobs") or ():
            succeeded = of_name.get(replicated["name"], {}).get("succeeded", 0)
            if 0 < succeeded <= replicas_of(replicated):
                count = succeeded * pods_per_replica(replicated)
                found.append(Reclaimable(replicated["name"].lower(), count))
        return found


def _statuses(job: Obj) -> list[dict[str, Any]]:
    return status_of(job).get("replicatedJobsStatus") or []


def pods_per_replica(replicated: dict[str, Any]) -> int:
    """The pods one of its Jobs runs at a time."""
    spec = spec_of(replicated.get("template") or {})
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    pods = 1 if parallelism is None else int(parallelism)
    return pods if completions is None else min(pods, int(completions))
