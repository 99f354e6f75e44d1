"""Lines of nodes, namespaces, events, quotas, budgets, autoscalers, classes and leases.

Source: pkg/printers/internalversion/printers.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.apiserver.tables.ages import human_duration, since
from fairway.apiserver.tables.wording import NONE, UNSET, age, condition_status, name
from fairway.kube import quantity
from fairway.kube.objects import Obj, labels_of, meta_of, spec_of, status_of
from fairway.kube.timestamps import SECOND_US

NODE = (
    "Name:name | Status | Roles | Age | Version | Internal-IP* | External-IP* | OS-Image* | Kernel-Version* |"
    " Container-Runtime*"
)
NAMESPACE = "Name:name | Status | Age"
EVENT = (
    "Last Seen | Type | Reason | Object | Subobject* | Source* | Message | First Seen* | Count* | Name:name*"
)
COMPONENT_STATUS = "Name:name | Status | Message | Error"
API_SERVICE = "Name:name | Service | Available | Age"
RESOURCE_QUOTA = "Name:name | Request | Limit | Age"
CONFIG_MAP = "Name:name | Data | Age"
SECRET = "Name:name | Type | Data | Age"
PLAIN = "Name:name | Age"
PRIORITY_CLASS = "Name:name | Value:integer | Global-Default:boolean | Age | PreemptionPolicy*"
RUNTIME_CLASS = "Name:name | Handler | Age"
LEASE = "Name:name | Holder | Age"
BUDGET = "Name:name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age"
AUTOSCALER = "Name:name | Reference | Targets | MinPods | MaxPods | Replicas | Age"
SCALE = "Name | Desired:integer | Available:integer | Age"
SIGNING_REQUEST = "Name:name | Age | SignerName | Requestor | RequestedDuration | Condition"
RESOURCE_CLAIM = "Name:name | State | Age"
RESOURCE_SLICE = "Name:name | Node | Driver | Pool | Age"

_ROLE_PREFIX = "node-role.kubernetes.io/"
_UNKNOWN = "<unknown>"


def node(obj: Obj, now_us: int) -> list[Any]:
    status = status_of(obj)
    info = status.get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or _UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name(obj),
        _node_status(obj),
        ",".join(_node_roles(obj)) or NONE,
        age(obj, now_us),
        info.get("kubeletVersion") or "",
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or _UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or _UNKNOWN,
    ]


def _node_status(obj: Obj) -> str:
    ready = condition_status(status_of(obj).get("conditions"), "Ready")
    word = "Unknown" if not ready else "Ready" if ready == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if spec_of(obj).get("unschedulable") else word


def _node_roles(obj: Obj) -> list[str]:
    roles = set()
    for key, value in labels_of(obj).items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == "kubernetes.io/role":
            roles.add(value)
    return sorted(roles - {""})


def _address(status: Obj, kind: str) -> str:
    return next((a.get("address", "") for a in status.get("addresses") or () if a.get("type") == kind), NONE)


def namespace(obj: Obj, now_us: int) -> list[Any]:
    return [name(obj), status_of(obj).get("phase") or "", age(obj, now_us)]


def event(obj: Obj, now_us: int) -> list[Any]:
    first = since(obj.get("firstTimestamp") or obj.get("eventTime"), now_us)
    last = since(obj["lastTimestamp"], now_us) if obj.get("lastTimestamp") else first
    count = obj.get("count") or 1
    series = obj.get("series")
    if series is not None:
        last = since(series.get("lastObservedTime"), now_us)
        count = series.get("count") or 0
    about = obj.get("involvedObject") or {}
    kind = (about.get("kind") or "").lower()
    return [
        last,
        obj.get("type") or "",
        obj.get("reason") or "",
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath") or "",
        _source(obj),
        (obj.get("message") or "").strip(),
        first,
        count,
        name(obj),
    ]


def _source(obj: Obj) -> str:
    source = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


def resource_quota(obj: Obj, now_us: int) -> list[Any]:
    status = status_of(obj)
    used, hard = status.get("used") or {}, status.get("hard") or {}
    requests: list[str] = []
    limits: list[str] = []
    for resource in sorted(hard):
        text = f"{resource}: {_amount(used.get(resource, '0'))}/{_amount(hard[resource])}"
        (limits if resource.startswith("limits.") else requests).append(text)
    return [name(obj), ", ".join(requests), ", ".join(limits), age(obj, now_us)]


def _amount(value: Any) -> str:
    try:
        return quantity.canonical(value)
    except quantity.QuantityError:
        return str(value)


def config_map(obj: Obj, now_us: int) -> list[Any]:
    size = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return [name(obj), size, age(obj, now_us)]


def secret(obj: Obj, now_us: int) -> list[Any]:
    return [name(obj), obj.get("type") or "", len(obj.get("data") or ()), age(obj, now_us)]


def plain(obj: Obj, now_us: int) -> list[Any]:
    return [name(obj), age(obj, now_us)]


def priority_class(obj: Obj, now_us: int) -> list[Any]:
    return [
        name(obj),
        obj.get("value") or 0,
        bool(obj.get("globalDefault")),
        age(obj, now_us),
        obj.get("preemptionPolicy") or "",
    ]


def runtime_class(obj: Obj, now_us: int) -> list[Any]:
    return [name(obj), obj.get("handler") or "", age(obj, now_us)]


def lease(obj: Obj, now_us: int) -> list[Any]:
    return [name(obj), spec_of(obj).get("holderIdentity") or "", age(obj, now_us)]


def budget(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    bounds = [
        "N/A" if spec.get(key) is None else str(spec[key]) for key in ("minAvailable", "maxUnavailable")
    ]
    return [name(obj), *bounds, status_of(obj).get("disruptionsAllowed") or 0, age(obj, now_us)]


def autoscaler(obj: Obj, now_us: int) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    target = spec.get("scaleTargetRef") or {}
    minimum = spec.get("minReplicas")
    return [
        name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(spec.get("metrics") or [], status.get("currentMetrics") or []),
        UNSET if minimum is None else str(minimum),
        spec.get("maxReplicas") or 0,
        status.get("currentReplicas") or 0,
        age(obj, now_us),
    ]


_METRIC_FIELDS = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _targets(metrics: list[Obj], current: list[Obj]) -> str:
    if not metrics:
        return NONE
    texts = [_metric(m, current[i] if i < len(current) else {}) for i, m in enumerate(metrics)]
    if len(texts) > 2:
        return f"{', '.join(texts[:2])} + {len(texts) - 2} more..."
    return ", ".join(texts)


def _metric(metric: Obj, current: Obj) -> str:
    kind = metric.get("type", "")
    field = _METRIC_FIELDS.get(kind)
    if field is None:
        return "<unknown type>"
    source = metric.get(field) or {}
    target, held = source.get("target") or {}, (current.get(field) or {}).get("current") or {}
    average = target.get("averageValue")
    if kind in ("Resource", "ContainerResource"):
        if average is not None:
            return f"{source.get('name')}: {held.get('averageValue', _UNKNOWN)}/{average}"
        wanted = target.get("averageUtilization")
        used = held.get("averageUtilization")
        wanted_text = "<auto>" if wanted is None else f"{wanted}%"
        return f"{source.get('name')}: {_UNKNOWN if used is None else f'{used}%'}/{wanted_text}"
    if kind == "Pods":
        return f"{held.get('averageValue', _UNKNOWN)}/{average}"
    if average is not None:
        return f"{held.get('averageValue', _UNKNOWN)}/{average} (avg)"
    return f"{held.get('value', _UNKNOWN)}/{target.get('value')}"


def scale(obj: Obj, now_us: int) -> list[Any]:
    return [
        name(obj),
        spec_of(obj).get("replicas") or 0,
        status_of(obj).get("replicas") or 0,
        age(obj, now_us),
    ]


def signing_request(obj: Obj, now_us: int) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    kinds = {c.get("type") for c in status.get("conditions") or ()}
    words = ["Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"]
    words += ["Failed"] if "Failed" in kinds else []
    words += ["Issued"] if status.get("certificate") else []
    seconds = spec.get("expirationSeconds")
    return [
        name(obj),
        age(obj, now_us),
        spec.get("signerName") or NONE,
        spec.get("username") or "",
        NONE if seconds is None else human_duration(seconds * SECOND_US),
        ",".join(words),
    ]


def component_status(obj: Obj, _now_us: int) -> list[Any]:
    healthy: dict[str, Any] = next((c for c in obj.get("conditions") or () if c.get("type") == "Healthy"), {})
    word = {"True": "Healthy", "False": "Unhealthy"}.get(healthy.get("status", ""), "Unknown")
    return [name(obj), word, healthy.get("message") or "", healthy.get("error") or ""]


def api_service(obj: Obj, now_us: int) -> list[Any]:
    """Source: kube-aggregator pkg/registry/apiservice/etcd/etcd.go."""
    service = spec_of(obj).get("service")
    where = "Local" if service is None else f"{service.get('namespace')}/{service.get('name')}"
    found = next((c for c in status_of(obj).get("conditions") or () if c.get("type") == "Available"), None)
    word = "Unknown" if found is None else found.get("status") or "Unknown"
    if found is not None and word != "True":
        word = f"{word} ({found.get('reason')})"
    return [name(obj), where, word, age(obj, now_us)]


def resource_claim(obj: Obj, now_us: int) -> list[Any]:
    status = status_of(obj)
    is_deleted = "deletionTimestamp" in meta_of(obj)
    states = ["deleted"] if is_deleted else []
    if status.get("allocation") is None:
        states += [] if is_deleted else ["pending"]
    else:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    return [name(obj), ",".join(states), age(obj, now_us)]


def resource_slice(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    pool = (spec.get("pool") or {}).get("name") or ""
    return [name(obj), spec.get("nodeName") or "", spec.get("driver") or "", pool, age(obj, now_us)]
