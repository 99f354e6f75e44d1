"""The Priority plugin: a pod's priority and preemption policy from its PriorityClass.

Source: plugin/pkg/admission/priority/admission.go (v1.36).
"""

from __future__ import annotations

from typing import Final

from fairway.admission.verdicts import Refused, forbidden
from fairway.cluster.actions import View
from fairway.kube.defaults import PriorityError, resolve_priority
from fairway.kube.objects import Obj, gk_of, name_of

PLUGIN: Final = "Priority"
PRIORITY_CLASS: Final = "PriorityClass.scheduling.k8s.io"


def resolved(view: View, pod: Obj) -> Obj | Refused:
    """The pod with its priority; anything but a pod as it is."""
    if gk_of(pod) != "Pod":
        return pod
    classes = {name_of(c): c for c in view.objects(PRIORITY_CLASS)}
    try:
        return resolve_priority(pod, classes)
    except PriorityError as why:
        return forbidden(pod, str(why), PLUGIN)
