"""The Priority plugin: a pod's priority and preemption policy from its PriorityClass.

Source: plugin/pkg/admission/priority/admission.go (v1.36).
"""

from __future__ import annotations

from typing import Final

from fairway.cluster.actions import View
from fairway.kube.defaults import PriorityError, resolve_priority
from fairway.kube.objects import Obj, name_of

PLUGIN: Final = "Priority"
PRIORITY_CLASS: Final = "PriorityClass.scheduling.k8s.io"


def resolved(view: View, pod: Obj) -> Obj | str:
    """The pod with its priority, or why it may not have it (the text after `is forbidden: `)."""
    classes = {name_of(c): c for c in view.objects(PRIORITY_CLASS)}
    try:
        return resolve_priority(pod, classes)
    except PriorityError as why:
        return str(why)
