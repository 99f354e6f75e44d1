"""What happens to nodes and to pods that meet one: TaintNodesByCondition, PodTopologyLabels.

Source: plugin/pkg/admission/{nodetaint,podtopologylabels}/admission.go (v1.36).
"""

from __future__ import annotations

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, dig, labels_of

NOT_READY = "node.kubernetes.io/not-ready"
TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


def tainted_until_ready(node: Obj) -> Obj:
    """A new node takes no pods before its conditions were looked at."""
    spec = node.get("spec") or {}
    taints = spec.get("taints") or []
    if any(t.get("key") == NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
        return node
    return {**node, "spec": {**spec, "taints": [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]}}


def with_topology_labels(view: View, obj: Obj) -> Obj:
    """A Binding, or a pod that names its node, with that node's zone and region as labels."""
    name = dig(obj, "target", "name") if obj.get("kind") == "Binding" else dig(obj, "spec", "nodeName")
    node = view.get(Key("Node", "", name)) if name else None
    if node is None:
        return obj
    own = labels_of(obj)
    added = {k: labels_of(node)[k] for k in TOPOLOGY_LABELS if k in labels_of(node) and k not in own}
    if not added:
        return obj
    return {**obj, "metadata": {**(obj.get("metadata") or {}), "labels": {**own, **added}}}
