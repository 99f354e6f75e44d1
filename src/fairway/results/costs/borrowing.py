"""Which queue of a run used quota of others, and what that cost it.

Quotas come from the ClusterQueues and LocalQueues of the run, which `RunInfo.queues` keeps. A pod's queue is the
LocalQueue its label names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairway.cluster.gpurequests import DEFAULT_GPUS
from fairway.cluster.store import Store
from fairway.kube.quantity import QuantityError, milli_ceil
from fairway.metering.borrowing import Borrowed, Holdings, Lender, borrowed
from fairway.results.costs.costing import Costed

GROUP = ".kueue.x-k8s.io"
# Cohorts nest; a cycle must not hang us.
_DEPTH_MOST = 50


def queues_in(store: Store) -> tuple[dict[str, Any], ...]:
    """LocalQueues with the ClusterQueue behind each: its root cohort and GPU quota, in milli-GPU."""
    parents = {
        cohort["metadata"]["name"]: _first(cohort.get("spec"), "parentName", "parent")
        for cohort in store.objects("Cohort" + GROUP)
    }
    behind = {
        queue["metadata"]["name"]: (
            _root(_first(queue.get("spec"), "cohortName", "cohort"), parents),
            _gpu_quota(queue.get("spec") or {}),
        )
        for queue in store.objects("ClusterQueue" + GROUP)
    }
    found = []
    for local in store.objects("LocalQueue" + GROUP):
        name = (local.get("spec") or {}).get("clusterQueue") or ""
        if name in behind:
            cohort, gpu_milli = behind[name]
            found.append(
                {
                    "namespace": local["metadata"]["namespace"],
                    "name": local["metadata"]["name"],
                    "cluster_queue": name,
                    "cohort": cohort,
                    "gpu_milli": gpu_milli,
                }
            )
    return tuple(sorted(found, key=lambda q: (q["namespace"], q["name"])))


def _first(spec: Any, *names: str) -> str:
    """A field by its name of v1beta2, or of v1beta1."""
    return next((str(spec[n]) for n in names if isinstance(spec, Mapping) and spec.get(n)), "")


def _root(cohort: str, parents: Mapping[str, str]) -> str:
    for _ in range(_DEPTH_MOST):
        above = parents.get(cohort, "")
        if not above:
            break
        cohort = above
    return cohort


def _gpu_quota(spec: Mapping[str, Any]) -> int:
    """Milli-GPU over all flavors; what cannot be read counts as none."""
    total: dict[str, int] = {}
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                try:
                    amount = -(-milli_ceil(resource.get("nominalQuota") or 0) // 1000)
                except QuantityError:
                    continue
                total[resource.get("name") or ""] = total.get(resource.get("name") or "", 0) + amount
    return DEFAULT_GPUS.asked(total)


def borrowed_in(run: Costed) -> tuple[Borrowed, ...]:
    """By ClusterQueue, by name; nothing where the run has no queues."""
    told = run.run.info.queues
    if not told:
        return ()
    quotas = {
        q["cluster_queue"]: Lender(q["cluster_queue"], q["cohort"], q["gpu_milli"] / 1000) for q in told
    }
    names = sorted(quotas)
    number = {name: i for i, name in enumerate(names)}
    local = {(q["namespace"], q["name"]): number[q["cluster_queue"]] for q in told}
    columns = run.metered.owners.columns
    of_owner = np.array(
        [local.get(key, -1) for key in zip(columns["namespace"], columns["queue"], strict=True)], np.int64
    )
    ledger = run.metered.ledger
    mine = np.flatnonzero(ledger.owner >= 0)
    queue = of_owner[ledger.owner[mine]] if len(of_owner) else np.zeros(0, np.int64)
    mine, queue = mine[queue >= 0], queue[queue >= 0]
    stays, cells = run.metered.stays, ledger.cells
    stay, cell = ledger.stay[mine], ledger.cell[mine]
    held = Holdings(
        queue=queue,
        start_us=np.maximum(stays.start_us[stay], cells.start_us[cell]),
        end_us=np.minimum(stays.end_us[stay], cells.end_us[cell]),
        gpus=stays.gpus[stay],
        micros=ledger.debits[mine],
    )
    return borrowed([quotas[name] for name in names], held)
