"""Lines of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs and their kin.

Source: pkg/printers/internalversion/printers.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.apiserver.tables.ages import INVALID, human_duration, since
from fairway.apiserver.tables.wording import (
    NONE,
    age,
    condition_status,
    containers,
    labels_text,
    name,
    selector_text,
    template_spec,
    yes_or_no,
)
from fairway.kube.labels import label_selector
from fairway.kube.objects import Obj, controller_of, meta_of, spec_of, status_of
from fairway.kube.timestamps import parse_rfc3339

_WIDE = "Containers* | Images* | Selector*"
DEPLOYMENT = f"Name:name | Ready | Up-to-date | Available | Age | {_WIDE}"
REPLICAS = f"Name:name | Desired:integer | Current:integer | Ready:integer | Age | {_WIDE}"
STATEFUL_SET = "Name:name | Ready | Age | Containers* | Images*"
DAEMON_SET = (
    "Name:name | Desired:integer | Current:integer | Ready:integer | Up-to-date:integer |"
    f" Available:integer | Node Selector | Age | {_WIDE}"
)
JOB = f"Name:name | Status | Completions | Duration | Age | {_WIDE}"
CRON_JOB = (
    f"Name:name | Schedule | Timezone | Suspend:boolean | Active:integer | Last Schedule | Age | {_WIDE}"
)
CONTROLLER_REVISION = "Name:name | Controller | Revision | Age"
POD_TEMPLATE = "Name:name | Containers | Images | Pod Labels"


def deployment(obj: Obj, now_us: int) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    return [
        name(obj),
        f"{status.get('readyReplicas') or 0}/{_desired(spec)}",
        status.get("updatedReplicas") or 0,
        status.get("availableReplicas") or 0,
        age(obj, now_us),
        *containers(template_spec(spec)),
        str(label_selector(spec.get("selector"))),
    ]


def _desired(spec: Obj) -> int:
    """The replicas asked for; unset means one."""
    value = spec.get("replicas")
    return 1 if value is None else int(value)


def replica_set(obj: Obj, now_us: int) -> list[Any]:
    return [*_replicas(obj, now_us), selector_text(spec_of(obj).get("selector"))]


def replication_controller(obj: Obj, now_us: int) -> list[Any]:
    return [*_replicas(obj, now_us), labels_text(spec_of(obj).get("selector"))]


def _replicas(obj: Obj, now_us: int) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    return [
        name(obj),
        _desired(spec),
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        age(obj, now_us),
        *containers(template_spec(spec)),
    ]


def stateful_set(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    ready = status_of(obj).get("readyReplicas") or 0
    return [name(obj), f"{ready}/{_desired(spec)}", age(obj, now_us), *containers(template_spec(spec))]


def daemon_set(obj: Obj, now_us: int) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name(obj),
        *(status.get(c) or 0 for c in counts),
        labels_text(template_spec(spec).get("nodeSelector")),
        age(obj, now_us),
        *containers(template_spec(spec)),
        selector_text(spec.get("selector")),
    ]


def job(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    return [
        name(obj),
        _job_status(obj),
        _completions(spec, status_of(obj)),
        _job_duration(status_of(obj), now_us),
        age(obj, now_us),
        *containers(template_spec(spec)),
        selector_text(spec.get("selector")),
    ]


def _job_status(obj: Obj) -> str:
    conditions = status_of(obj).get("conditions")
    for kind in ("Complete", "Failed"):
        if condition_status(conditions, kind) == "True":
            return kind
    if "deletionTimestamp" in meta_of(obj):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition_status(conditions, kind) == "True":
            return kind
    return "Running"


def _completions(spec: Obj, status: Obj) -> str:
    succeeded = status.get("succeeded") or 0
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: Obj, now_us: int) -> str:
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    try:
        return human_duration((parse_rfc3339(end) if end else now_us) - parse_rfc3339(start))
    except (ValueError, TypeError):
        return INVALID


def cron_job(obj: Obj, now_us: int) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    job_spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    last = status.get("lastScheduleTime")
    return [
        name(obj),
        spec.get("schedule") or "",
        spec.get("timeZone") or NONE,
        yes_or_no(spec.get("suspend")),
        len(status.get("active") or ()),
        since(last, now_us) if last else NONE,
        age(obj, now_us),
        *containers(template_spec(job_spec)),
        selector_text(job_spec.get("selector")),
    ]


def controller_revision(obj: Obj, now_us: int) -> list[Any]:
    owner = controller_of(obj)
    controller = NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        kind = f"{owner['kind']}.{group}" if group else owner["kind"]
        controller = f"{kind.lower()}/{owner['name']}"
    return [name(obj), controller, obj.get("revision") or 0, age(obj, now_us)]


def pod_template(obj: Obj, _now_us: int) -> list[Any]:
    template = obj.get("template") or {}
    return [
        name(obj),
        *containers(template.get("spec")),
        labels_text((template.get("metadata") or {}).get("labels")),
    ]
