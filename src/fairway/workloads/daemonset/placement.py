"""Should this node have a daemon pod, and may one that is there stay?

Source: pkg/controller/daemon/daemon_controller.go NodeShouldRunDaemonPod (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.kube.nodeselection import NodeSelection, node_selection
from fairway.kube.objects import Obj, labels_of, name_of
from fairway.kube.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    Toleration,
    first_untolerated,
    parse_taints,
    parse_tolerations,
)
from fairway.workloads.daemonset.daemonpods import tolerations


class Placement(NamedTuple):
    """What a DaemonSet's template says about nodes, read once."""

    node_name: str
    selection: NodeSelection
    tolerations: tuple[Toleration, ...]


class Answer(NamedTuple):
    should_run: bool
    may_continue: bool


NO = Answer(False, False)


def placement_of(owner: Obj) -> Placement:
    spec = ((owner.get("spec") or {}).get("template") or {}).get("spec") or {}
    return Placement(spec.get("nodeName") or "", node_selection(spec), parse_tolerations(tolerations(spec)))


def ask(placement: Placement, node: Obj) -> Answer:
    """A pod may stay on a node whose NoSchedule taint keeps new ones away."""
    name = name_of(node)
    if placement.node_name and placement.node_name != name:
        return NO
    if not placement.selection.allows(labels_of(node), name):
        return NO
    raw = (node.get("spec") or {}).get("taints")
    if not raw:
        return Answer(True, True)
    taints = parse_taints(raw)
    if first_untolerated(taints, placement.tolerations, (NO_SCHEDULE, NO_EXECUTE)) is None:
        return Answer(True, True)
    return Answer(False, first_untolerated(taints, placement.tolerations, (NO_EXECUTE,)) is None)
