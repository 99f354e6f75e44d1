"""Selectors, node terms, tolerations and pod terms."""

from __future__ import annotations

import re

from oracle.world import REQUIRED, NodeInfo, Obj, World


def _int64(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) and abs(int(text)) < 2**63 else None


def expression_matches(e: Obj, labels: dict[str, str]) -> bool:
    key, op, values = e["key"], e["operator"], e.get("values") or []
    if op == "In":
        return key in labels and labels[key] in values
    if op == "NotIn":
        return key not in labels or labels[key] not in values
    if op == "Exists":
        return key in labels
    if op == "DoesNotExist":
        return key not in labels
    if key not in labels:
        return False
    there, asked = _int64(labels[key]), _int64(values[0])
    if there is None or asked is None:
        return False
    return there > asked if op == "Gt" else there < asked


def selects(selector: Obj | None, labels: dict[str, str]) -> bool:
    """metav1.LabelSelector: null nothing, empty everything."""
    if selector is None:
        return False
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    return all(expression_matches(e, labels) for e in selector.get("matchExpressions") or [])


def is_empty(selector: Obj | None) -> bool:
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def node_term_matches(term: Obj, info: NodeInfo) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(expression_matches(e, info.labels) for e in expressions) and all(
        expression_matches(f, {"metadata.name": info.name}) for f in fields
    )


def node_affinity(pod: Obj) -> Obj:
    return (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}


def required_node_affinity_matches(pod: Obj, info: NodeInfo) -> bool:
    if any(info.labels.get(k) != v for k, v in (pod["spec"].get("nodeSelector") or {}).items()):
        return False
    required = node_affinity(pod).get(REQUIRED)
    return required is None or any(node_term_matches(t, info) for t in required["nodeSelectorTerms"])


def tolerates(tolerations: list[Obj], taint: Obj) -> bool:
    for t in tolerations:
        if t.get("effect") and t["effect"] != taint["effect"]:
            continue
        if t.get("key") and t["key"] != taint["key"]:
            continue
        op = t.get("operator") or "Equal"
        if op == "Exists" or (op == "Equal" and (t.get("value") or "") == (taint.get("value") or "")):
            return True
    return False


def untolerated(pod: Obj, info: NodeInfo, effects: tuple[str, ...]) -> list[Obj]:
    tolerations = pod["spec"].get("tolerations") or []
    taints = (info.node.get("spec") or {}).get("taints") or []
    return [t for t in taints if t["effect"] in effects and not tolerates(tolerations, t)]


def terms_of(pod: Obj, kind: str, when: str) -> list[Obj]:
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return list(affinity.get(when) or [])


def with_label_keys(raw: Obj, pod: Obj) -> Obj | None:
    """matchLabelKeys and mismatchLabelKeys, merged into the selector."""
    selector = raw.get("labelSelector")
    if selector is None:
        return None
    labels = pod["metadata"].get("labels") or {}
    extra = [
        {"key": k, "operator": "In", "values": [labels[k]]}
        for k in raw.get("matchLabelKeys") or []
        if k in labels
    ]
    extra += [
        {"key": k, "operator": "NotIn", "values": [labels[k]]}
        for k in raw.get("mismatchLabelKeys") or []
        if k in labels
    ]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or []), *extra]}


def term_matches(world: World, term: Obj, owner: Obj, other: Obj) -> bool:
    """Whether `other` is a pod that this term of `owner` speaks of."""
    namespace = other["metadata"]["namespace"]
    named, by_labels = term.get("namespaces") or [], term.get("namespaceSelector")
    if not named and by_labels is None:
        named = [owner["metadata"]["namespace"]]
    if namespace not in named and not selects(by_labels, world.namespaces[namespace]):
        return False
    return selects(with_label_keys(term, owner), other["metadata"].get("labels") or {})


def host_ports(pod: Obj) -> list[tuple[str, str, int]]:
    spec = pod["spec"]
    sidecars = [c for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"]
    found = []
    for c in [*sidecars, *spec["containers"]]:
        for p in c.get("ports") or []:
            number = p.get("hostPort") or (p["containerPort"] if spec.get("hostNetwork") else 0)
            if number:
                found.append((p.get("hostIP") or "0.0.0.0", p.get("protocol") or "TCP", number))
    return found


def priority(pod: Obj) -> int:
    return int(pod["spec"].get("priority") or 0)
