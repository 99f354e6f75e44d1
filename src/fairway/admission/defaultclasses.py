"""DefaultStorageClass and DefaultIngressClass: the class of what names none.

Of several defaults the newest counts, then the first by name.

Source: plugin/pkg/admission/storage/storageclass/setdefault, network/defaultingressclass (v1.36).
"""

from __future__ import annotations

from fairway.cluster.actions import View
from fairway.kube.objects import Obj, annotations_of, meta_of, name_of

STORAGE_CLASS = "StorageClass.storage.k8s.io"
INGRESS_CLASS = "IngressClass.networking.k8s.io"
DEFAULT_STORAGE = "storageclass.kubernetes.io/is-default-class"
_DEFAULT_INGRESS = "ingressclass.kubernetes.io/is-default-class"


def claim_with_class(view: View, claim: Obj) -> Obj:
    """The claim with the default storage class, if it names none."""
    spec = claim.get("spec") or {}
    if spec.get("storageClassName") is not None:
        return claim
    name = _default(view, STORAGE_CLASS, DEFAULT_STORAGE)
    return {**claim, "spec": {**spec, "storageClassName": name}} if name else claim


def ingress_with_class(view: View, ingress: Obj) -> Obj:
    """The ingress with the default class, if it names none in either way."""
    spec = ingress.get("spec") or {}
    if spec.get("ingressClassName") is not None or "kubernetes.io/ingress.class" in annotations_of(ingress):
        return ingress
    name = _default(view, INGRESS_CLASS, _DEFAULT_INGRESS)
    return {**ingress, "spec": {**spec, "ingressClassName": name}} if name else ingress


def _default(view: View, gk: str, annotation: str) -> str:
    defaults = [c for c in view.objects(gk) if annotations_of(c).get(annotation) == "true"]
    if not defaults:
        return ""
    newest = max(str(meta_of(c).get("creationTimestamp") or "") for c in defaults)
    return min(name_of(c) for c in defaults if str(meta_of(c).get("creationTimestamp") or "") == newest)
