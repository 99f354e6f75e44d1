"""All kinds of jobs Kueue runs.

A module per kind adds its class here; `integrations` gives the instances that a configuration enables.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.queueing.facts.gates import DEFAULT_GATES, FeatureGates
from fairway.queueing.integrations.integration import Integration
from fairway.queueing.integrations.job import BatchJob
from fairway.queueing.integrations.jobset import JobSet
from fairway.queueing.integrations.kubeflow import MPIJob, PyTorchJob, TFJob, XGBoostJob
from fairway.queueing.integrations.leaderworkerset import LeaderWorkerSet
from fairway.queueing.integrations.pod import Pod
from fairway.queueing.integrations.ray import RayCluster, RayJob
from fairway.queueing.integrations.serving import StatefulSet

ALL: tuple[type[Integration], ...] = (
    BatchJob,
    JobSet,
    PyTorchJob,
    TFJob,
    XGBoostJob,
    MPIJob,
    RayCluster,
    RayJob,
    Pod,
    StatefulSet,
    LeaderWorkerSet,
)


def integrations(
    frameworks: Iterable[str] | None = None, gates: FeatureGates = DEFAULT_GATES
) -> dict[str, Integration]:
    """Enabled kinds by group kind. `frameworks`: their names; None: all of them."""
    names = None if frameworks is None else list(frameworks)
    return {kind.gk: kind(gates) for kind in ALL if names is None or kind.name in names}
