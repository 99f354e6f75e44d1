"""May anything be created in this namespace?

Source: apiserver plugin/namespace/lifecycle/admission.go (v1.36).
"""

from __future__ import annotations

from fairway.admission.verdicts import Refused, forbidden
from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, namespace_of

PLUGIN = "NamespaceLifecycle"


def refusal(view: View, obj: Obj) -> Refused | None:
    """Nothing enters a namespace that is going; a namespace nobody created takes anything.

    Unlike kube: there a namespace must exist. Here manifests may leave it out, as simulations mostly do.
    """
    name = namespace_of(obj)
    if not name:
        return None
    namespace = view.get(Key("Namespace", "", name))
    if namespace is None:
        return None
    phase = (namespace.get("status") or {}).get("phase")
    if "deletionTimestamp" in namespace["metadata"] or phase == "Terminating":
        why = f"unable to create new content in namespace {name} because it is being terminated"
        return forbidden(obj, why, PLUGIN)
    return None
