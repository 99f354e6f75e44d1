"""Which rules does a kind have: created, changed, and its subresources?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import NamedTuple

from fairway.kube.objects import Obj
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import (
    admissions,
    autoscaling,
    claims,
    data,
    flows,
    jobs,
    jobstatus,
    networking,
    nodes,
    persistentvolumes,
    pods,
    podupdates,
    policies,
    quotas,
    rbac,
    services,
    workloads,
)

Created = Callable[[Obj, Faults], None]
Changed = Callable[[Obj, Obj, Faults], None]


class Rules(NamedTuple):
    """`status`, `finalize`, …: what is said of an update through that subresource; None: only its metadata."""

    created: Created
    changed: Changed
    status: Changed | None = None
    ephemeralcontainers: Changed | None = None
    finalize: Changed | None = None


def _later(name: str, *objects: Obj | Faults) -> None:
    """A rule of devices, loaded by whoever has such objects."""
    module, _, function = name.partition(":")
    getattr(import_module(f"fairway.kube.validation.devices.{module}"), function)(*objects)


def _device(created: str, changed: str) -> Rules:
    return Rules(partial(_later, created), partial(_later, changed))


_RBAC, _ADMISSION, _FLOW = (
    "rbac.authorization.k8s.io",
    "admissionregistration.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)
_DEVICES = "resource.k8s.io"
_ROLE = Rules(rbac.role, rbac.role_update)
_BINDING = Rules(rbac.binding, rbac.binding_update)
_HOOKS = Rules(admissions.webhooks, admissions.webhooks_update)
_POLICY = Rules(admissions.policy, admissions.policy_update)
_POLICY_BINDING = Rules(admissions.policy_binding, admissions.policy_binding_update)
_STATUS = workloads.controller_status

RULES: dict[str, Rules] = {
    "Pod": Rules(pods.pod, podupdates.pod_update, podupdates.pod_status, podupdates.ephemeral_update),
    "PodTemplate": Rules(pods.pod_template, pods.pod_template_update),
    "ReplicationController": Rules(
        workloads.replication_controller, workloads.replication_controller_update, _STATUS
    ),
    "Service": Rules(services.service, services.service_update, services.service_status),
    "Endpoints": Rules(services.endpoints, services.endpoints_update),
    "Node": Rules(nodes.node, nodes.node_update, nodes.node_update),
    "Namespace": Rules(
        nodes.namespace, nodes.plain_update, nodes.namespace_status, finalize=nodes.namespace_finalize
    ),
    "ServiceAccount": Rules(nodes.plain, nodes.named_update),
    "ConfigMap": Rules(data.config_map, data.config_map_update),
    "Secret": Rules(data.secret, data.secret_update),
    "LimitRange": Rules(quotas.limit_range, lambda new, _old, out: quotas.limit_range(new, out)),
    "ResourceQuota": Rules(quotas.resource_quota, quotas.resource_quota_update, quotas.resource_quota_status),
    "PersistentVolume": Rules(persistentvolumes.volume, persistentvolumes.volume_update),
    "PersistentVolumeClaim": Rules(claims.claim, claims.claim_update, claims.claim_status),
    "Event": Rules(policies.event, policies.event_update),
    "Event.events.k8s.io": Rules(policies.event, policies.event_update),
    "Deployment.apps": Rules(workloads.deployment, workloads.deployment_update, _STATUS),
    "ReplicaSet.apps": Rules(workloads.replica_set, workloads.replica_set_update, _STATUS),
    "StatefulSet.apps": Rules(workloads.stateful_set, workloads.stateful_set_update, _STATUS),
    "DaemonSet.apps": Rules(workloads.daemon_set, workloads.daemon_set_update, _STATUS),
    "ControllerRevision.apps": Rules(workloads.controller_revision, workloads.controller_revision_update),
    "Job.batch": Rules(jobs.job, jobs.job_update, jobstatus.job_status),
    "CronJob.batch": Rules(jobs.cron_job, jobs.cron_job_update),
    "HorizontalPodAutoscaler.autoscaling": Rules(
        autoscaling.autoscaler, autoscaling.autoscaler_update, autoscaling.autoscaler_status
    ),
    "PodDisruptionBudget.policy": Rules(policies.budget, policies.budget_update, policies.budget_status),
    "PriorityClass.scheduling.k8s.io": Rules(policies.priority_class, policies.priority_class_update),
    "RuntimeClass.node.k8s.io": Rules(policies.runtime_class, policies.runtime_class_update),
    "Lease.coordination.k8s.io": Rules(policies.lease, policies.lease_update),
    "Ingress.networking.k8s.io": Rules(
        networking.ingress, networking.ingress_update, networking.ingress_status
    ),
    "IngressClass.networking.k8s.io": Rules(networking.ingress_class, networking.ingress_class_update),
    "NetworkPolicy.networking.k8s.io": Rules(networking.network_policy, networking.network_policy_update),
    "ServiceCIDR.networking.k8s.io": Rules(networking.service_range, networking.service_range_update),
    "IPAddress.networking.k8s.io": Rules(networking.ip_address, networking.ip_address_update),
    "EndpointSlice.discovery.k8s.io": Rules(networking.endpoint_slice, networking.endpoint_slice_update),
    "StorageClass.storage.k8s.io": Rules(
        persistentvolumes.storage_class, persistentvolumes.storage_class_update
    ),
    "VolumeAttributesClass.storage.k8s.io": Rules(
        persistentvolumes.attributes_class, persistentvolumes.attributes_class_update
    ),
    "VolumeAttachment.storage.k8s.io": Rules(
        persistentvolumes.attachment, persistentvolumes.attachment_update
    ),
    "CSINode.storage.k8s.io": Rules(persistentvolumes.csi_node, persistentvolumes.csi_node_update),
    "CSIDriver.storage.k8s.io": Rules(persistentvolumes.csi_driver, persistentvolumes.csi_driver_update),
    "CSIStorageCapacity.storage.k8s.io": Rules(
        persistentvolumes.storage_capacity, persistentvolumes.storage_capacity_update
    ),
    f"Role.{_RBAC}": _ROLE,
    f"ClusterRole.{_RBAC}": _ROLE,
    f"RoleBinding.{_RBAC}": _BINDING,
    f"ClusterRoleBinding.{_RBAC}": _BINDING,
    f"ValidatingWebhookConfiguration.{_ADMISSION}": _HOOKS,
    f"MutatingWebhookConfiguration.{_ADMISSION}": _HOOKS,
    f"ValidatingAdmissionPolicy.{_ADMISSION}": _POLICY,
    f"MutatingAdmissionPolicy.{_ADMISSION}": _POLICY,
    f"ValidatingAdmissionPolicyBinding.{_ADMISSION}": _POLICY_BINDING,
    f"MutatingAdmissionPolicyBinding.{_ADMISSION}": _POLICY_BINDING,
    f"ResourceClaim.{_DEVICES}": _device("requests:claim", "updates:fixed_update"),
    f"ResourceClaimTemplate.{_DEVICES}": _device("requests:template", "updates:fixed_update"),
    f"DeviceClass.{_DEVICES}": _device("requests:device_class", "updates:device_class_update"),
    f"ResourceSlice.{_DEVICES}": _device("slices:new_slice", "updates:slice_update"),
    f"FlowSchema.{_FLOW}": Rules(flows.flow_schema, flows.flow_schema_update),
    f"PriorityLevelConfiguration.{_FLOW}": Rules(flows.priority_level, flows.priority_level_update),
}
