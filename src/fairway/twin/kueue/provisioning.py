"""When does Kueue look at checks that are answered by ProvisioningRequests?

Source: provisioning/controller.go SetupWithManager, acHandler, prcHandler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj, controller_of, key_of, name_of, namespace_of, spec_of, status_of
from fairway.kube.provisioningrequests import REQUEST
from fairway.queueing.admissionchecks.configs import ADMISSION_CHECK, CONFIG, is_ours
from fairway.queueing.integrations.ownership import WORKLOAD

if TYPE_CHECKING:
    from fairway.twin.kueue.component import Kueue

WATCHED: Final = (CONFIG, REQUEST)
PROVISIONING: Final = "provisioning"
CHECK: Final = "check"


def hear_workload(kueue: Kueue, change: Change) -> None:
    checks = status_of(change.obj).get("admissionChecks")
    if not checks or change.type == DELETED:
        return
    store = kueue.host.store
    if any(is_ours(store.get(Key(ADMISSION_CHECK, "", c["name"]))) for c in checks):
        kueue.enqueue((PROVISIONING, change.key))


def hear_request(kueue: Kueue, change: Change) -> None:
    """A request that changes, or goes, is the business of the Workload it was made for."""
    owner = controller_of(change.obj)
    if owner is not None and owner.get("kind") == "Workload":
        kueue.enqueue((PROVISIONING, Key(WORKLOAD, namespace_of(change.obj), owner["name"])))


def hear_configuration(kueue: Kueue, change: Change) -> None:
    if change.key.gk == ADMISSION_CHECK:
        if is_ours(change.obj) or is_ours(change.old):
            if change.type != DELETED:
                kueue.enqueue((CHECK, change.key))
            if change.old is None or change.type == DELETED or spec_of(change.old) != spec_of(change.obj):
                _look_at_users(kueue, change.key.name)
    elif change.key.gk == CONFIG:
        for check in kueue.host.store.objects(ADMISSION_CHECK):
            if is_ours(check) and _config_name(check) == change.key.name:
                kueue.enqueue((CHECK, key_of(check)))
                _look_at_users(kueue, name_of(check))


def _config_name(check: Obj) -> str:
    return str((spec_of(check).get("parameters") or {}).get("name") or "")


def _look_at_users(kueue: Kueue, check: str) -> None:
    """O(Workloads): only where a check or its config changes."""
    for workload in kueue.host.store.objects(WORKLOAD):
        if any(c["name"] == check for c in status_of(workload).get("admissionChecks") or ()):
            kueue.enqueue((PROVISIONING, key_of(workload)))
