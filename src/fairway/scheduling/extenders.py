"""What do extenders make of the nodes a cycle found? kube-scheduler's webhooks for placement.

Extenders are asked one after another, those that may be ignored last, each about the nodes that the one before left;
their scores are added to the plugins'. Who calls them is handed in: nothing here opens a connection.

Source: pkg/scheduler/extender.go, schedule_one.go (findNodesThatPassExtenders, prioritizeNodes, extendersBinding),
framework/preemption/preemption.go callExtenders; k8s.io/kube-scheduler/extender/v1 (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, meta_of

# Scores of extenders reach to 10, those of plugins to 100. Source: extender/v1 MaxExtenderPriority.
_SCALE: Final = 10
_MOST_SCORE: Final = 2**31
_FIELDS: Final[dict[str, str]] = {
    name.lower(): name
    for name in (
        "error",
        "failedNodes",
        "failedAndUnresolvableNodes",
        "nodenames",
        "nodes",
        "nodeNameToMetaVictims",
    )
}
EXTENDER: Final = "Extender"
"""As which plugin they refuse a pod."""


@dataclass(frozen=True, slots=True)
class Extender:
    """One entry of `extenders`. Verbs that are empty are not called; `managed`: pods that ask for none of these
    resources are none of its business (empty: all are)."""

    url: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 1
    timeout_s: float = 5.0
    caches_nodes: bool = False
    managed: tuple[str, ...] = ()
    is_ignorable: bool = False
    ca_file: str = ""
    is_unverified: bool = False

    def is_interested(self, pod: Obj) -> bool:
        if not self.managed:
            return True
        spec = pod["spec"]
        return any(
            name in self.managed
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
            for amounts in (container.get("resources") or {}).values()
            if isinstance(amounts, dict)
            for name in amounts
        )


class ExtenderError(Exception):
    """A call failed, or its answer cannot be used. The text is what kube-scheduler says."""


Call = Callable[[Extender, str, Any], Any]
"""(who, verb, what) → its answer. Raises: ExtenderError."""


def in_order(extenders: Iterable[Extender]) -> tuple[Extender, ...]:
    """Those whose failure may be ignored come last."""
    return tuple(sorted(extenders, key=lambda e: e.is_ignorable))


@dataclass(frozen=True, slots=True)
class Passed:
    """`nodes`: that are left, of those handed in. `refused`: what was said of others; `hopeless`: those of them that no
    eviction would help."""

    nodes: tuple[str, ...]
    refused: Mapping[str, str]
    hopeless: frozenset[str]


class Extenders:
    """All of a scheduler."""

    def __init__(self, extenders: Iterable[Extender], call: Call, view: View) -> None:
        self.all = in_order(extenders)
        self._call = call
        self._view = view

    def of(self, key: Key) -> Obj | None:
        """The pod, if any of them cares for it."""
        pod = self._view.get(key)
        return pod if pod is not None and any(e.is_interested(pod) for e in self.all) else None

    def passed(self, pod: Obj, nodes: Sequence[str]) -> Passed:
        """Raises: ExtenderError, of one that may not be ignored."""
        left = tuple(nodes)
        refused: dict[str, str] = {}
        hopeless: dict[str, None] = {}
        for extender in self.all:
            if not left:
                break
            if not extender.is_interested(pod) or not extender.filter_verb:
                continue
            try:
                answer = _mapping(self._call(extender, extender.filter_verb, self._args(extender, pod, left)))
                if answer.get("error"):
                    raise ExtenderError(str(answer["error"]))
                now = _left(extender, answer, left)
            except ExtenderError:
                if extender.is_ignorable:
                    continue
                raise
            failed, unresolvable = (
                _texts(answer.get(name)) for name in ("failedNodes", "failedAndUnresolvableNodes")
            )
            refused.update({**failed, **unresolvable})
            hopeless.update(dict.fromkeys(unresolvable))
            left = now
        return Passed(left, refused, frozenset(hopeless))

    def scores(self, pod: Obj, nodes: Sequence[str]) -> dict[str, int]:
        """What they add to the scores of these nodes. One that fails adds nothing."""
        found: dict[str, int] = {}
        for extender in self.all:
            if not extender.is_interested(pod) or not extender.prioritize_verb:
                continue
            try:
                answer = self._call(extender, extender.prioritize_verb, self._args(extender, pod, nodes))
                entries = [(str(e["host"]), _score(e["score"])) for e in answer or ()]
            except (ExtenderError, TypeError, KeyError, ValueError):
                continue
            for host, score in entries:
                found[host] = found.get(host, 0) + score * extender.weight * _SCALE
        return found

    def preempting(
        self, pod: Obj, victims: Mapping[str, tuple[Sequence[Obj], int]]
    ) -> dict[str, tuple[list[str], int]]:
        """Node → (uids of its victims, budgets violated) that are left of the candidates.

        Raises: ExtenderError.
        """
        left = {node: ([_uid(p) for p in pods], broken) for node, (pods, broken) in victims.items()}
        objects = {_uid(p): p for pods, _ in victims.values() for p in pods}
        for extender in self.all:
            if not extender.preempt_verb or not extender.is_interested(pod) or not left:
                continue
            try:
                answer = _mapping(
                    self._call(extender, extender.preempt_verb, _preemption(extender, pod, left, objects))
                )
                now = _victims(answer.get("nodeNameToMetaVictims") or {})
                _check_victims(extender, now, left)
            except ExtenderError:
                if extender.is_ignorable:
                    continue
                raise
            left = now
        return left

    def binds(self, pod: Obj, node: str) -> None:
        """Raises: ExtenderError: the pod is not bound."""
        meta = meta_of(pod)
        for extender in self.all:
            if not extender.bind_verb or not extender.is_interested(pod):
                continue
            args = {
                "podName": meta["name"],
                "podNamespace": meta.get("namespace") or "",
                "podUID": meta["uid"],
                "node": node,
            }
            try:
                answer = _mapping(self._call(extender, extender.bind_verb, args))
                if answer.get("error"):
                    raise ExtenderError(str(answer["error"]))
            except ExtenderError:
                if extender.is_ignorable:
                    continue
                raise
            return

    def _args(self, extender: Extender, pod: Obj, nodes: Sequence[str]) -> Obj:
        if extender.caches_nodes:
            return {"pod": pod, "nodes": None, "nodenames": list(nodes)}
        items = [self._view.get(Key("Node", "", name)) for name in nodes]
        return {"pod": pod, "nodes": {"metadata": {}, "items": [n for n in items if n]}, "nodenames": None}


def _uid(pod: Obj) -> str:
    return str(meta_of(pod)["uid"])


def _mapping(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise ExtenderError(f"json: cannot unmarshal {type(answer).__name__} into Go value")
    # Field names are read whatever their case, as Go reads them.
    return {_FIELDS.get(str(k).lower(), str(k)): v for k, v in answer.items()}


def _texts(value: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def _left(extender: Extender, answer: Mapping[str, Any], handed: Sequence[str]) -> tuple[str, ...]:
    names = answer.get("nodenames")
    if extender.caches_nodes and isinstance(names, list):
        for name in names:
            if not isinstance(name, str) or name not in handed:
                raise ExtenderError(
                    f'extender "{extender.url}" claims a filtered node "{name}" which is not found in the input '
                    "node list"
                )
        return tuple(dict.fromkeys(names))
    nodes = answer.get("nodes")
    items = nodes.get("items") if isinstance(nodes, dict) else None
    if not isinstance(items, list):
        items = []
    found = [
        n["metadata"].get("name")
        for n in items
        if isinstance(n, dict) and isinstance(n.get("metadata"), dict)
    ]
    # Unlike kube: nodes that were not handed in are left out; kube-scheduler would go on with them.
    return tuple(dict.fromkeys(n for n in found if isinstance(n, str) and n in handed))


def _preemption(
    extender: Extender, pod: Obj, left: Mapping[str, tuple[list[str], int]], objects: Mapping[str, Obj]
) -> Obj:
    if extender.caches_nodes:
        meta = {
            node: {"pods": [{"uid": uid} for uid in uids], "numPDBViolations": broken}
            for node, (uids, broken) in left.items()
        }
        return {"pod": pod, "nodeNameToVictims": None, "nodeNameToMetaVictims": meta}
    whole = {
        node: {"pods": [objects[uid] for uid in uids], "numPDBViolations": broken}
        for node, (uids, broken) in left.items()
    }
    return {"pod": pod, "nodeNameToVictims": whole, "nodeNameToMetaVictims": None}


def _score(value: Any) -> int:
    """Within 32 bits: what is more would not fit a sum of scores. Raises: ValueError."""
    found = int(value)
    if abs(found) > _MOST_SCORE:
        raise ValueError
    return found


def _victims(answer: Any) -> dict[str, tuple[list[str], int]]:
    """Raises: ExtenderError, where it is not shaped as one."""
    try:
        return {
            str(node): (
                [str(p.get("uid") or "") for p in of_node.get("pods") or ()],
                int(of_node.get("numPDBViolations") or 0),
            )
            for node, of_node in answer.items()
        }
    except (AttributeError, TypeError, ValueError) as wrong:
        raise ExtenderError("json: cannot unmarshal nodeNameToMetaVictims into Go value") from wrong


def _check_victims(
    extender: Extender,
    now: dict[str, tuple[list[str], int]],
    before: Mapping[str, tuple[list[str], int]],
) -> None:
    """Victims that were not among the candidates', and nodes without any, are refused."""
    for node, (uids, _) in list(now.items()):
        known = before.get(node, ([], 0))[0]
        for uid in uids:
            if uid not in known:
                raise ExtenderError(
                    f"extender: {extender.url} claims to preempt pod (UID: &{{{uid}}}) on node: {node}, but the pod "
                    "is not found on that node"
                )
        if not uids:
            if not extender.is_ignorable:
                raise ExtenderError(f'expected at least one victim pod on node "{node}"')
            del now[node]
