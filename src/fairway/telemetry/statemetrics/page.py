"""kube-state-metrics' exposition: every family over every object of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fairway.kube.objects import Obj, meta_of, name_of, namespace_of
from fairway.telemetry.exposition import Block, sample
from fairway.telemetry.statemetrics.families import families

# What an object is called in its series, beside `namespace`; pods and services are told apart by UID too.
_CALLED = {"Job.batch": "job_name"}
_WITH_UID = ("Pod", "Service")


def own_labels(gk: str, obj: Obj) -> dict[str, str]:
    """Which object a series is about."""
    name = _CALLED.get(gk, gk.partition(".")[0].lower())
    if gk in ("Node", "Namespace"):
        return {name: name_of(obj)}
    found = {"namespace": namespace_of(obj), name: name_of(obj)}
    return {**found, "uid": str(meta_of(obj).get("uid") or "")} if gk in _WITH_UID else found


def blocks(objects: Callable[[str], Iterable[Obj]]) -> Iterator[Block]:
    """`objects`: those of a kind. O(families × objects)."""
    known: dict[str, list[tuple[dict[str, str], Obj]]] = {}
    for family in families().values():
        if family.gk not in known:
            known[family.gk] = [(own_labels(family.gk, obj), obj) for obj in objects(family.gk)]
        lines = [
            sample(family.name, {**own, **labels}, value)
            for own, obj in known[family.gk]
            for labels, value in family.read(obj)
        ]
        yield Block(family.name, family.type, family.help, lines)
