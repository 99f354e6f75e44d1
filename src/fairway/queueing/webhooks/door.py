"""What does Kueue make of an object at the door of the API, and why does it not let it in?

    settled = defaulted("CREATE", obj, view)          # v1beta2, with every default
    for refusal in refusals("CREATE", obj, None, view): ...

In the API server's order: the schema's defaults, mutating webhooks, the schema, validating webhooks. Both functions
are pure; objects that are neither Kueue's nor jobs pass at the cost of a dictionary lookup.

Source: config/components/webhook/manifests.yaml; apiextensions-apiserver customresource_handler.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from fairway.cluster.actions import View
from fairway.kube.objects import Obj, annotations_of, gk_of, labels_of, meta_of
from fairway.queueing.webhooks.batchjobs import batch_job_faults
from fairway.queueing.webhooks.clusterqueues import cluster_queue_faults, cohort_faults
from fairway.queueing.webhooks.compositejobs import composite_faults
from fairway.queueing.webhooks.conversion import HUB, converted
from fairway.queueing.webhooks.faults import Fault, Refusal, denied, schema_invalid, undecodable
from fairway.queueing.webhooks.flavors import resource_flavor_faults
from fairway.queueing.webhooks.jobdefaults import SERVING, defaulted_job
from fairway.queueing.webhooks.jobshapes import SHAPES, Shape
from fairway.queueing.webhooks.pods import pod_faults
from fairway.queueing.webhooks.schema import PATTERNS
from fairway.queueing.webhooks.serving import serving_faults
from fairway.queueing.webhooks.settings import DEFAULTS, Settings
from fairway.queueing.webhooks.structure import schema_faults, unknown_fields, with_defaults
from fairway.queueing.webhooks.tables import GROUP, KINDS, schema_of
from fairway.queueing.webhooks.workloads import workload_faults

CREATE, UPDATE = "CREATE", "UPDATE"

_IN_USE = "kueue.x-k8s.io/resource-in-use"
_PREFIX = "kueue.x-k8s.io/"
_KUEUE_KINDS = frozenset(f"{kind}.{GROUP}" for kind in KINDS)
# What Go's decoder says. Source: apimachinery pkg/api/resource/quantity.go.
_FORM = re.compile(r"[+-]?(\d++(\.\d*+)?|\.\d++)[eEinumkKMGTP]*+[-+]?\d*+")
_BAD_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_BAD_SUFFIX = "unable to parse quantity's suffix"
_MUTATED = frozenset({"ClusterQueue", "ResourceFlavor", "Workload"})
_NO_QUANTITY = f"should match '{PATTERNS['quantity']}'"
_FINALIZED = frozenset({"ClusterQueue", "ResourceFlavor"})

_VALIDATING: dict[str, tuple[str, Callable[[Obj, Obj | None, Settings], list[Fault]]]] = {
    "ClusterQueue": ("vclusterqueue.kb.io", cluster_queue_faults),
    "Cohort": ("vcohort.kb.io", cohort_faults),
    "ResourceFlavor": ("vresourceflavor.kb.io", resource_flavor_faults),
    "Workload": ("vworkload.kb.io", workload_faults),
}


def is_kueue_kind(obj: Obj) -> bool:
    return gk_of(obj) in _KUEUE_KINDS


def defaulted(operation: str, obj: Obj, view: View, settings: Settings | None = DEFAULTS) -> Obj:
    """The object as it is stored. `settings` None: Kueue's kinds are known, but no Kueue runs."""
    gk = gk_of(obj)
    if gk in _KUEUE_KINDS:
        return _defaulted_kind(operation, obj, settings)
    shape = SHAPES.get(gk)
    if shape is None or settings is None or not settings.defaults_and_checks(gk):
        return obj
    if operation == CREATE or shape.name in SERVING:
        return defaulted_job(shape, obj, view, settings)
    return obj


def _defaulted_kind(operation: str, obj: Obj, settings: Settings | None) -> Obj:
    kind, version = str(obj.get("kind")), str(obj.get("apiVersion")).rpartition("/")[2]
    node = schema_of(kind, version)
    if node is None:
        return obj
    out: Obj = converted(with_defaults(node, obj))
    if version != "v1beta2":
        node = schema_of(kind, "v1beta2")
        assert node is not None
        out = with_defaults(node, out)
    if operation != CREATE or settings is None:
        return out
    if kind in _FINALIZED:
        out = _finalized(out)
    if kind == "Workload" and not settings.is_on("PartialAdmission"):
        out = _without_min_counts(out)
    return out


def _finalized(obj: Obj) -> Obj:
    meta = meta_of(obj)
    finalizers = meta.get("finalizers") or []
    if _IN_USE in finalizers:
        return obj
    return {**obj, "metadata": {**meta, "finalizers": [*finalizers, _IN_USE]}}


def _without_min_counts(workload: Obj) -> Obj:
    spec = workload.get("spec") or {}
    pod_sets = [{k: v for k, v in p.items() if k != "minCount"} for p in spec.get("podSets") or ()]
    return {**workload, "spec": {**spec, "podSets": pod_sets}}


def refusals(
    operation: str,
    obj: Obj,
    old: Obj | None,
    view: View,
    settings: Settings | None = DEFAULTS,
    *,
    strict: bool = False,
) -> tuple[Refusal, ...]:
    """Why the object, as it was sent, is refused; empty: it is not.

    `old`: what is stored, on update. `strict`: unknown fields are refused, as kubectl asks for.
    """
    gk = gk_of(obj)
    if gk in _KUEUE_KINDS:
        return _of_kind(operation, obj, old, settings, strict)
    shape = SHAPES.get(gk)
    if shape is None or settings is None or not settings.defaults_and_checks(gk):
        return ()
    if shape.name == "pod" and not _speaks_of_kueue(obj) and (old is None or not _speaks_of_kueue(old)):
        return ()
    job = defaulted(operation, obj, view, settings)
    found = _CHECKS.get(shape.name, composite_faults)(shape, job, old, view, settings)
    return (denied(shape.validating, found),) if found else ()


_CHECKS: dict[str, Callable[[Shape, Obj, Obj | None, View, Settings], list[Fault]]] = {
    "job": batch_job_faults,
    "pod": pod_faults,
    "deployment": serving_faults,
    "statefulset": serving_faults,
    "leaderworkerset": serving_faults,
}


def _speaks_of_kueue(pod: Obj) -> bool:
    return any(k.startswith(_PREFIX) for k in (*labels_of(pod), *annotations_of(pod)))


def _of_kind(
    operation: str, obj: Obj, old: Obj | None, settings: Settings | None, strict: bool
) -> tuple[Refusal, ...]:
    kind, api_version = str(obj.get("kind")), str(obj.get("apiVersion"))
    node = schema_of(kind, api_version.rpartition("/")[2])
    if node is None:
        message = f'no matches for kind "{kind}" in version "{api_version}"'
        return (Refusal(404, "NotFound", message),)
    unknown = unknown_fields(node, obj) if strict else []
    if unknown:
        return (undecodable(api_version, kind, unknown),)
    found = _schema_faults(kind, obj, old, api_version)
    if found:
        broken = _undecoded(kind, found) if settings is not None else None
        if broken is not None:
            return (broken,)
        name = str(meta_of(obj).get("name") or "")
        return (schema_invalid(gk_of(obj), name, found),)
    check = _VALIDATING.get(kind)
    if check is None or settings is None:
        return ()
    webhook, faults_of = check
    found = faults_of(_defaulted_kind(operation, obj, settings), old, settings)
    return (denied(webhook, found),) if found else ()


def _undecoded(kind: str, found: Sequence[Fault]) -> Refusal | None:
    """Mutating webhooks read an object before its schema is asked: no quantity is no object to them."""
    amounts = [fault for fault in found if fault.detail.endswith(_NO_QUANTITY)]
    if kind not in _MUTATED or not amounts:
        return None
    why = _BAD_SUFFIX if _FORM.fullmatch(str(amounts[0].value)) else _BAD_FORM
    message = f'admission webhook "m{kind.lower()}.kb.io" denied the request: {why}'
    return Refusal(400, "BadRequest", message, tuple(amounts), f"m{kind.lower()}.kb.io")


def _schema_faults(kind: str, obj: Obj, old: Obj | None, api_version: str) -> list[Fault]:
    """By the schema of the version that was sent. What looks back is asked in the version that is stored."""
    node, hub = schema_of(kind, api_version.rpartition("/")[2]), schema_of(kind, "v1beta2")
    assert node is not None
    assert hub is not None
    sent = with_defaults(node, obj)
    if api_version == HUB or old is None:
        return schema_faults(node, sent, old)
    return schema_faults(node, sent) or schema_faults(hub, with_defaults(hub, converted(sent)), old)


def new_refusals(obj: Obj, settings: Settings = DEFAULTS) -> tuple[Refusal, ...]:
    """What is wrong with a new object of Kueue's own kinds as somebody wrote it: nothing else needs to be known."""
    return _of_kind(CREATE, obj, None, settings, strict=True) if is_kueue_kind(obj) else ()
