"""Which kinds own pods? Those whose objects are work from their creation on; any other kind is one as soon as a pod
names it as its owner."""

from __future__ import annotations

from typing import Final

KINDS: Final = frozenset(
    {
        "Job.batch",
        "CronJob.batch",
        "ReplicaSet.apps",
        "Deployment.apps",
        "StatefulSet.apps",
        "DaemonSet.apps",
        "ReplicationController",
        "JobSet.jobset.x-k8s.io",
        "LeaderWorkerSet.leaderworkerset.x-k8s.io",
        "Job.batch.volcano.sh",
    }
)
_GROUPS: Final = (".kubeflow.org", ".ray.io")


def is_workload(gk: str) -> bool:
    return gk in KINDS or gk.endswith(_GROUPS)
