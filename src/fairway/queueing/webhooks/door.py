"""What do Kueue's webhooks make of an object at the door of the API, and why do they not let it in?

    settled = defaulted("CREATE", obj, view)          # v1beta2, with every default
    for refusal in refusals("CREATE", obj, None, view): ...

Objects of Kueue's own kinds have passed their definition's schema and rules (`admission.crdrules`). Both functions are
pure; objects that are neither Kueue's nor jobs pass at the cost of a dictionary lookup.

Source: config/components/webhook/manifests.yaml; apiextensions-apiserver customresource_handler.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from fairway.cluster.actions import View
from fairway.kube import published
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Obj, annotations_of, gk_of, labels_of, meta_of
from fairway.kube.problem import Problem
from fairway.queueing.webhooks.batchjobs import batch_job_faults
from fairway.queueing.webhooks.clusterqueues import cluster_queue_faults, cohort_faults
from fairway.queueing.webhooks.compositejobs import composite_faults
from fairway.queueing.webhooks.conversion import GROUP, converted
from fairway.queueing.webhooks.faults import Fault, Refusal, denied
from fairway.queueing.webhooks.flavors import resource_flavor_faults
from fairway.queueing.webhooks.jobdefaults import SERVING, defaulted_job
from fairway.queueing.webhooks.jobshapes import SHAPES, Shape
from fairway.queueing.webhooks.pods import pod_faults
from fairway.queueing.webhooks.serving import serving_faults
from fairway.queueing.webhooks.settings import DEFAULTS, Settings
from fairway.queueing.webhooks.workloads import workload_faults

CREATE, UPDATE = "CREATE", "UPDATE"

_IN_USE = "kueue.x-k8s.io/resource-in-use"
_PREFIX = "kueue.x-k8s.io/"
_KUEUE_KINDS = frozenset(gk for gk, kind in published.kinds().items() if kind.group == GROUP)
# What Go's decoder says. Source: apimachinery pkg/api/resource/quantity.go.
_FORM = re.compile(r"[+-]?(\d++(\.\d*+)?|\.\d++)[eEinumkKMGTP]*+[-+]?\d*+")
_BAD_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_BAD_SUFFIX = "unable to parse quantity's suffix"
_MUTATED = frozenset({"ClusterQueue", "ResourceFlavor", "Workload"})
_NO_QUANTITY = "should match '^(\\+|-)?"
_FINALIZED = frozenset({"ClusterQueue", "ResourceFlavor"})

_VALIDATING: dict[str, tuple[str, Callable[[Obj, Obj | None, Settings], list[Fault]]]] = {
    "ClusterQueue": ("vclusterqueue.kb.io", cluster_queue_faults),
    "Cohort": ("vcohort.kb.io", cohort_faults),
    "ResourceFlavor": ("vresourceflavor.kb.io", resource_flavor_faults),
    "Workload": ("vworkload.kb.io", workload_faults),
}


def is_kueue_kind(obj: Obj) -> bool:
    return gk_of(obj) in _KUEUE_KINDS


def is_job(obj: Obj) -> bool:
    """Whether it is of a kind that Kueue may queue."""
    return gk_of(obj) in SHAPES


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
    kind = str(obj.get("kind"))
    out = apply_defaults(converted(apply_defaults(obj)))
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
    operation: str, obj: Obj, old: Obj | None, view: View, settings: Settings | None = DEFAULTS
) -> tuple[Refusal, ...]:
    """Why the object, as it was sent, is refused; empty: it is not. `old`: what is stored, on update."""
    gk = gk_of(obj)
    if gk in _KUEUE_KINDS:
        return _of_kind(operation, obj, old, settings)
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


def _of_kind(operation: str, obj: Obj, old: Obj | None, settings: Settings | None) -> tuple[Refusal, ...]:
    check = _VALIDATING.get(str(obj.get("kind")))
    if check is None or settings is None:
        return ()
    webhook, faults_of = check
    found = faults_of(_defaulted_kind(operation, obj, settings), old, settings)
    return (denied(webhook, found),) if found else ()


def undecoded(kind: str, found: Sequence[Problem]) -> Refusal | None:
    """What a mutating webhook says to what its kind's schema forbids: it reads an object before the schema is asked,
    and a quantity that is none is no object to it."""
    amounts = [p for p in found if _NO_QUANTITY in p.detail]
    if kind not in _MUTATED or not amounts:
        return None
    why = _BAD_SUFFIX if _FORM.fullmatch(str(amounts[0].value)) else _BAD_FORM
    webhook = f"m{kind.lower()}.kb.io"
    message = f'admission webhook "{webhook}" denied the request: {why}'
    return Refusal(400, "BadRequest", message, (), webhook)


def new_refusals(obj: Obj, settings: Settings = DEFAULTS) -> tuple[Refusal, ...]:
    """What is wrong with a new object of Kueue's own kinds as somebody wrote it: nothing else needs to be known."""
    return _of_kind(CREATE, obj, None, settings) if is_kueue_kind(obj) else ()
