"""Which line does each kind get? The printers, and the Table made of them.

Source: pkg/printers/internalversion/printers.go; apiserver registry/rest/table.go, endpoints/handlers/response.go
(v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from fairway.apiserver.tables import cluster, custom, networking, pods, policies, storage, workloads
from fairway.apiserver.tables.columns import columns
from fairway.apiserver.tables.wording import name
from fairway.kube.objects import Obj, meta_of

NO_OBJECT, METADATA, WHOLE = "None", "Metadata", "Object"


class Printer(NamedTuple):
    definitions: list[dict[str, Any]]
    cells: Callable[[Obj, int], list[Any]]


def _printers() -> dict[str, Printer]:
    found: dict[str, Printer] = {}
    for text, cells, gks in _ROWS:
        printer = Printer(columns(text), cells)
        found.update(dict.fromkeys(gks.split(), printer))
    return found


_ROWS: tuple[tuple[str, Callable[[Obj, int], list[Any]], str], ...] = (
    (pods.COLUMNS, pods.cells, "Pod"),
    (workloads.POD_TEMPLATE, workloads.pod_template, "PodTemplate"),
    (workloads.REPLICAS, workloads.replication_controller, "ReplicationController"),
    (workloads.REPLICAS, workloads.replica_set, "ReplicaSet.apps"),
    (workloads.DEPLOYMENT, workloads.deployment, "Deployment.apps"),
    (workloads.STATEFUL_SET, workloads.stateful_set, "StatefulSet.apps"),
    (workloads.DAEMON_SET, workloads.daemon_set, "DaemonSet.apps"),
    (workloads.CONTROLLER_REVISION, workloads.controller_revision, "ControllerRevision.apps"),
    (workloads.JOB, workloads.job, "Job.batch"),
    (workloads.CRON_JOB, workloads.cron_job, "CronJob.batch"),
    (networking.SERVICE, networking.service, "Service"),
    (networking.ENDPOINTS, networking.endpoints, "Endpoints"),
    (networking.ENDPOINT_SLICE, networking.endpoint_slice, "EndpointSlice.discovery.k8s.io"),
    (networking.INGRESS, networking.ingress, "Ingress.networking.k8s.io"),
    (networking.INGRESS_CLASS, networking.ingress_class, "IngressClass.networking.k8s.io"),
    (networking.NETWORK_POLICY, networking.network_policy, "NetworkPolicy.networking.k8s.io"),
    (networking.SERVICE_CIDR, networking.service_cidr, "ServiceCIDR.networking.k8s.io"),
    (networking.IP_ADDRESS, networking.ip_address, "IPAddress.networking.k8s.io"),
    (cluster.NODE, cluster.node, "Node"),
    (cluster.COMPONENT_STATUS, cluster.component_status, "ComponentStatus"),
    (cluster.API_SERVICE, cluster.api_service, "APIService.apiregistration.k8s.io"),
    (cluster.NAMESPACE, cluster.namespace, "Namespace"),
    (cluster.EVENT, cluster.event, "Event Event.events.k8s.io"),
    (cluster.RESOURCE_QUOTA, cluster.resource_quota, "ResourceQuota"),
    (cluster.CONFIG_MAP, cluster.config_map, "ConfigMap"),
    (cluster.SECRET, cluster.secret, "Secret"),
    (
        cluster.PLAIN,
        cluster.plain,
        "ServiceAccount DeviceClass.resource.k8s.io ResourceClaimTemplate.resource.k8s.io",
    ),
    (cluster.PRIORITY_CLASS, cluster.priority_class, "PriorityClass.scheduling.k8s.io"),
    (cluster.RUNTIME_CLASS, cluster.runtime_class, "RuntimeClass.node.k8s.io"),
    (cluster.LEASE, cluster.lease, "Lease.coordination.k8s.io"),
    (cluster.BUDGET, cluster.budget, "PodDisruptionBudget.policy"),
    (cluster.AUTOSCALER, cluster.autoscaler, "HorizontalPodAutoscaler.autoscaling"),
    (cluster.SCALE, cluster.scale, "Scale.autoscaling"),
    (cluster.SIGNING_REQUEST, cluster.signing_request, "CertificateSigningRequest.certificates.k8s.io"),
    (cluster.RESOURCE_CLAIM, cluster.resource_claim, "ResourceClaim.resource.k8s.io"),
    (cluster.RESOURCE_SLICE, cluster.resource_slice, "ResourceSlice.resource.k8s.io"),
    (storage.VOLUME, storage.volume, "PersistentVolume"),
    (storage.CLAIM, storage.claim, "PersistentVolumeClaim"),
    (storage.CLASS, storage.storage_class, "StorageClass.storage.k8s.io"),
    (storage.ATTRIBUTES_CLASS, storage.attributes_class, "VolumeAttributesClass.storage.k8s.io"),
    (storage.ATTACHMENT, storage.attachment, "VolumeAttachment.storage.k8s.io"),
    (storage.CSI_NODE, storage.csi_node, "CSINode.storage.k8s.io"),
    (storage.CSI_DRIVER, storage.csi_driver, "CSIDriver.storage.k8s.io"),
    (storage.CSI_CAPACITY, storage.csi_capacity, "CSIStorageCapacity.storage.k8s.io"),
    (
        policies.BINDING,
        policies.binding,
        "RoleBinding.rbac.authorization.k8s.io ClusterRoleBinding.rbac.authorization.k8s.io",
    ),
    (
        policies.WEBHOOKS,
        policies.webhooks,
        "MutatingWebhookConfiguration.admissionregistration.k8s.io"
        " ValidatingWebhookConfiguration.admissionregistration.k8s.io",
    ),
    (
        policies.VALIDATING_POLICY,
        policies.validating_policy,
        "ValidatingAdmissionPolicy.admissionregistration.k8s.io",
    ),
    (
        policies.MUTATING_POLICY,
        policies.mutating_policy,
        "MutatingAdmissionPolicy.admissionregistration.k8s.io",
    ),
    (
        policies.POLICY_BINDING,
        policies.policy_binding,
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io"
        " MutatingAdmissionPolicyBinding.admissionregistration.k8s.io",
    ),
    (policies.FLOW_SCHEMA, policies.flow_schema, "FlowSchema.flowcontrol.apiserver.k8s.io"),
    (
        policies.PRIORITY_LEVEL,
        policies.priority_level,
        "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
    ),
)
PRINTERS: dict[str, Printer] = _printers()

# Kinds of Kubernetes without printers (roles, limit ranges, definitions): when they were created.
_CREATED_AT = columns("Name:name | Created At:date")


def column_definitions(gk: str, columns: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """The columns of a kind; `columns` are a definition's additionalPrinterColumns."""
    return _printer(gk, columns).definitions


def _printer(gk: str, printer_columns: list[dict[str, Any]] | None) -> Printer:
    if printer_columns is None:
        printer = PRINTERS.get(gk)
        if printer is not None:
            return printer
        if not _is_foreign(gk):
            return Printer(_CREATED_AT, _created_at)
    shown = printer_columns or []
    return Printer(custom.definitions(shown), lambda obj, now_us: custom.cells(obj, shown, now_us))


def _is_foreign(gk: str) -> bool:
    """A kind some other project defines: its group is a domain that is not Kubernetes' own."""
    group = gk.partition(".")[2]
    return "." in group and not group.endswith(".k8s.io")


def _created_at(obj: Obj, _now_us: int) -> list[Any]:
    return [name(obj), meta_of(obj).get("creationTimestamp") or "<unknown>"]


def table(
    gk: str,
    objects: Iterable[Obj],
    now_us: int,
    *,
    list_meta: dict[str, Any] | None = None,
    include_object: str = METADATA,
    columns: list[dict[str, Any]] | None = None,
    headers: bool = True,
) -> dict[str, Any]:
    """The Table of some objects. `headers` False: a later event of a watch, whose columns were sent already."""
    printer = _printer(gk, columns)
    rows = []
    for obj in objects:
        row: dict[str, Any] = {"cells": printer.cells(obj, now_us)}
        if gk == "Pod" and (conditions := pods.row_conditions(obj)):
            row["conditions"] = conditions
        row["object"] = _embedded(obj, include_object)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta or {},
        "columnDefinitions": printer.definitions if headers else None,
        "rows": rows,
    }


def _embedded(obj: Obj, include_object: str) -> Any:
    if include_object == WHOLE:
        return obj
    if include_object == NO_OBJECT:
        return None
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata") or {},
    }
