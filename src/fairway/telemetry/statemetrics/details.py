"""Metrics of objects that take more than a path: containers, owners, taints, quotas.

Source: kube-state-metrics 2.20, internal/store (labels and when there is a series at all).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fairway.kube.objects import Obj, controller_of, labels_of, meta_of, spec_of, status_of
from fairway.kube.resourceclaims import pod_claims
from fairway.telemetry.statemetrics.rules import Rule, Samples, amounts, at, conditions_of, quantity, seconds

_NOT_RUNNING: Final = ("Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError")


def _pod_info(pod: Obj) -> Samples:
    by = controller_of(pod) or {}
    spec, status = spec_of(pod), status_of(pod)
    said = {
        "host_ip": status.get("hostIP"),
        "pod_ip": status.get("podIP"),
        "node": spec.get("nodeName"),
        "created_by_kind": by.get("kind"),
        "created_by_name": by.get("name"),
        "priority_class": spec.get("priorityClassName"),
        "host_network": str(bool(spec.get("hostNetwork"))).lower(),
    }
    return [({name: str(value or "") for name, value in said.items()}, 1.0)]


def _owner(obj: Obj) -> Samples:
    owners = meta_of(obj).get("ownerReferences") or ()
    if not owners:
        return [({"owner_kind": "", "owner_name": "", "owner_is_controller": ""}, 1.0)]
    return [
        (
            {
                "owner_kind": str(o.get("kind")),
                "owner_name": str(o.get("name")),
                "owner_is_controller": str(bool(o.get("controller"))).lower(),
            },
            1.0,
        )
        for o in owners
    ]


def _statuses(pod: Obj) -> Iterator[tuple[str, dict[str, Any]]]:
    for told in status_of(pod).get("containerStatuses") or ():
        yield str(told.get("name")), told


def _in_state(state: str) -> Rule:
    return lambda pod: [
        ({"container": name}, float(state in (told.get("state") or {}))) for name, told in _statuses(pod)
    ]


def _reason(state: str, of: str = "state") -> Rule:
    def read(pod: Obj) -> Samples:
        return [
            ({"container": name, "reason": str(why)}, 1.0)
            for name, told in _statuses(pod)
            if (why := ((told.get(of) or {}).get(state) or {}).get("reason"))
        ]

    return read


def _started(pod: Obj) -> Samples:
    found: Samples = []
    for name, told in _statuses(pod):
        state = told.get("state") or {}
        now = state.get("running") or state.get("terminated") or {}
        if (when := seconds(now.get("startedAt"))) is not None:
            found.append(({"container": name}, when))
    return found


def _last_exit(pod: Obj) -> Samples:
    return [
        ({"container": name}, float(ended.get("exitCode") or 0))
        for name, told in _statuses(pod)
        if (ended := (told.get("lastState") or {}).get("terminated"))
    ]


def _resources(which: str) -> Rule:
    def read(pod: Obj) -> Samples:
        node = str(spec_of(pod).get("nodeName") or "")
        return [
            ({"container": str(c.get("name")), "node": node, **labels}, value)
            for c in spec_of(pod).get("containers") or ()
            for labels, value in amounts((c.get("resources") or {}).get(which))
        ]

    return read


def _container_info(pod: Obj) -> Samples:
    told = dict(_statuses(pod))
    return [
        (
            {
                "container": c["name"],
                "image_spec": str(c.get("image") or ""),
                "image": str(now.get("image") or ""),
                "image_id": str(now.get("imageID") or ""),
                "container_id": str(now.get("containerID") or ""),
            },
            1.0,
        )
        for c in spec_of(pod).get("containers") or ()
        if (now := told.get(c["name"])) is not None
    ]


def _completed(pod: Obj) -> Samples:
    """When the last of its containers ended, if none goes on."""
    ends = [
        seconds(((told.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for _, told in _statuses(pod)
    ]
    known = [end for end in ends if end is not None]
    return [({}, max(known))] if known and len(known) == len(ends) else []


def _status_reason(pod: Obj) -> Samples:
    reason = status_of(pod).get("reason")
    if not reason:
        return []
    return [({"reason": reason if reason in _NOT_RUNNING else "Other"}, 1.0)]


def _unschedulable(pod: Obj) -> Samples:
    is_so = any(c.get("type") == "PodScheduled" and c.get("status") == "False" for c in conditions_of(pod))
    return [({}, 1.0)] if is_so else []


def _claims(pod: Obj) -> Samples:
    return [
        (
            {
                "volume": str(v.get("name")),
                "persistentvolumeclaim": str(v["persistentVolumeClaim"].get("claimName")),
                "ephemeral": "false",
            },
            1.0,
        )
        for v in spec_of(pod).get("volumes") or ()
        if v.get("persistentVolumeClaim")
    ]


def _node_info(node: Obj) -> Samples:
    info = status_of(node).get("nodeInfo") or {}
    addresses = status_of(node).get("addresses") or ()
    said = {
        "kernel_version": info.get("kernelVersion"),
        "os_image": info.get("osImage"),
        "container_runtime_version": info.get("containerRuntimeVersion"),
        "kubelet_version": info.get("kubeletVersion"),
        "kubeproxy_version": "deprecated",
        "provider_id": spec_of(node).get("providerID"),
        "pod_cidr": spec_of(node).get("podCIDR"),
        "system_uuid": info.get("systemUUID"),
        "internal_ip": next((a.get("address") for a in addresses if a.get("type") == "InternalIP"), ""),
    }
    return [({name: str(value or "") for name, value in said.items()}, 1.0)]


def _addresses(node: Obj) -> Samples:
    return [
        ({"type": str(a.get("type")), "address": str(a.get("address"))}, 1.0)
        for a in status_of(node).get("addresses") or ()
    ]


def _roles(node: Obj) -> Samples:
    prefix = "node-role.kubernetes.io/"
    return [({"role": n.removeprefix(prefix)}, 1.0) for n in labels_of(node) if n.startswith(prefix)]


def _taints(node: Obj) -> Samples:
    return [
        ({name: str(t.get(name) or "") for name in ("key", "value", "effect")}, 1.0)
        for t in spec_of(node).get("taints") or ()
    ]


def _cronjob_info(job: Obj) -> Samples:
    said = {"schedule": "schedule", "concurrency_policy": "concurrencyPolicy", "timezone": "timeZone"}
    found = {name: str(spec_of(job).get(field) or "") for name, field in said.items()}
    return [(found | {"timezone": found["timezone"] or "local"}, 1.0)]


def _hpa_info(hpa: Obj) -> Samples:
    ref = spec_of(hpa).get("scaleTargetRef") or {}
    said = {"api_version": "apiVersion", "kind": "kind", "name": "name"}
    return [({f"scaletargetref_{name}": str(ref.get(field) or "") for name, field in said.items()}, 1.0)]


def _quota(quota: Obj) -> Samples:
    return [
        ({"resource": resource, "type": kind}, size)
        for field, kind in (("hard", "hard"), ("used", "used"))
        for resource, value in (status_of(quota).get(field) or {}).items()
        if (size := quantity(value)) is not None
    ]


def _claim_info(claim: Obj) -> Samples:
    said = {"storageclass": "storageClassName", "volumename": "volumeName", "volumemode": "volumeMode"}
    return [({name: str(spec_of(claim).get(field) or "") for name, field in said.items()}, 1.0)]


def _access_modes(claim: Obj) -> Samples:
    return [({"access_mode": str(mode)}, 1.0) for mode in spec_of(claim).get("accessModes") or ()]


def _service_info(service: Obj) -> Samples:
    said = {
        "cluster_ip": "clusterIP",
        "external_name": "externalName",
        "load_balancer_ip": "loadBalancerIP",
        "external_traffic_policy": "externalTrafficPolicy",
    }
    return [({name: str(at(service, f"spec.{field}") or "") for name, field in said.items()}, 1.0)]


def _resource_claims(pod: Obj) -> Samples:
    """`resourceclaim_name`: empty as long as a template's claim is not made."""
    return [
        (
            {
                "claim_name": entry.name,
                "resourceclaim_name": entry.claim or "",
                "resourceclaim_template_name": entry.template,
            },
            1.0,
        )
        for entry in pod_claims(pod)
        if entry.template or not entry.is_made
    ]


_C: Final = "kube_pod_container_"
DETAILS: Final[dict[str, Rule]] = {
    "kube_pod_info": _pod_info,
    "kube_pod_owner": _owner,
    "kube_pod_completion_time": _completed,
    "kube_pod_status_reason": _status_reason,
    "kube_pod_status_unschedulable": _unschedulable,
    "kube_pod_resourceclaim_info": _resource_claims,
    "kube_pod_spec_volumes_persistentvolumeclaims_info": _claims,
    f"{_C}info": _container_info,
    f"{_C}resource_requests": _resources("requests"),
    f"{_C}resource_limits": _resources("limits"),
    f"{_C}state_started": _started,
    f"{_C}status_last_terminated_reason": _reason("terminated", "lastState"),
    f"{_C}status_last_terminated_exitcode": _last_exit,
    f"{_C}status_ready": lambda p: [({"container": n}, float(bool(t.get("ready")))) for n, t in _statuses(p)],
    f"{_C}status_restarts_total": lambda p: [
        ({"container": n}, float(t.get("restartCount") or 0)) for n, t in _statuses(p)
    ],
    f"{_C}status_running": _in_state("running"),
    f"{_C}status_terminated": _in_state("terminated"),
    f"{_C}status_terminated_reason": _reason("terminated"),
    f"{_C}status_waiting": _in_state("waiting"),
    f"{_C}status_waiting_reason": _reason("waiting"),
    "kube_node_info": _node_info,
    "kube_node_role": _roles,
    "kube_node_spec_taint": _taints,
    "kube_node_status_addresses": _addresses,
    "kube_job_owner": _owner,
    "kube_cronjob_info": _cronjob_info,
    "kube_deployment_owner": _owner,
    "kube_replicaset_owner": _owner,
    "kube_horizontalpodautoscaler_info": _hpa_info,
    "kube_resourcequota": _quota,
    "kube_persistentvolumeclaim_info": _claim_info,
    "kube_persistentvolumeclaim_access_mode": _access_modes,
    "kube_service_info": _service_info,
}
