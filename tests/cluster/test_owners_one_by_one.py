"""Owners and the owned, against a look at every object; what the collector leaves, in small worlds; of which quality of
service a pod is."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fairway.cluster.garbage import collect
from fairway.cluster.metadata import _qos_class
from fairway.cluster.store import BACKGROUND, FOREGROUND, FOREGROUND_FINALIZER, ORPHAN, Store
from fairway.kube.objects import Key, Obj, controller_of, key_of

KINDS = {"Pod": "v1", "ConfigMap": "v1", "ReplicaSet.apps": "apps/v1", "Node": "v1"}


def _made(gk: str, name: str, namespace: str, refs: list[Obj], **meta: Any) -> Obj:
    where = {} if gk == "Node" else {"namespace": namespace}
    metadata = {"name": name, **where, **({"ownerReferences": refs} if refs else {}), **meta}
    return {"apiVersion": KINDS[gk], "kind": gk.partition(".")[0], "metadata": metadata, "spec": {}}


def _objects(store: Store) -> dict[Key, Obj]:
    return {key_of(o): o for gk in KINDS for o in store.objects(gk)}


def _refs(draw: Random, store: Store, **more: Any) -> list[Obj]:
    """To some that are there, to one that is not; perhaps one of them has control."""
    there = [o["metadata"]["uid"] for o in _objects(store).values()]
    uids = draw.sample([*there, "ghost"], min(draw.choice((0, 0, 1, 1, 2)), len(there) + 1))
    found = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": uid, **more} for uid in uids]
    if found and draw.random() < 0.5:
        found[0]["controller"] = True
    return found


def _names(store: Store, key: Key) -> list[str]:
    return [r["uid"] for r in store.require(key)["metadata"].get("ownerReferences") or ()]


def _agree(store: Store, seen: set[str]) -> None:
    there = _objects(store)
    by_uid = {o["metadata"]["uid"]: key for key, o in there.items()}
    assert store.owners.key_by_uid == by_uid
    for uid in sorted({*seen, *by_uid, "ghost"}):
        owner = by_uid.get(uid)
        owned = sorted(
            key
            for key in there
            if uid in _names(store, key)
            and (owner is None or not owner.namespace or key.namespace == owner.namespace)
        )
        assert store.owners.dependents(uid) == owned
        assert store.owners.has_dependents(uid) is bool(owned)
    for gk in KINDS:
        for namespace in ("a", "b", "c", ""):
            alone = [
                key
                for key, o in there.items()
                if (key.gk, key.namespace) == (gk, namespace) and controller_of(o) is None
            ]
            adopted = gk in ("Pod", "ReplicaSet.apps")
            assert store.owners.orphans(gk, namespace) == (sorted(alone) if adopted else [])


@pytest.mark.parametrize("seed", range(12))
def test_who_owns_whom_is_what_a_look_at_every_object_says(seed: int) -> None:
    draw, store, seen = Random(seed), Store(seed=seed), set[str]()
    marks = [(store.mark(), _objects(store))]
    for step in range(60):
        there = sorted(_objects(store))
        act = draw.choice(("create", "create", "refs", "labels", "delete", "follow", "rewind", "fork"))
        if act == "create" or not there:
            gk = draw.choice(list(KINDS))
            store.create(_made(gk, f"o{step}", draw.choice("ab"), _refs(draw, store)))
        elif act == "rewind" and step % 5 == 0:
            mark, was = draw.choice(marks)
            marks = [m for m in marks if m[0].version <= mark.version]
            store.rewind(mark)
            assert _objects(store) == was
        elif act == "fork":
            twin = store.fork()
            _agree(twin, seen)
            twin.create(_made("Pod", "only-here", "c", _refs(draw, store)))
            for key in there[:2]:
                twin.delete(key, grace_s=0)
            _agree(twin, seen)
        else:
            key = draw.choice(there)
            obj = store.require(key)
            seen.add(obj["metadata"]["uid"])
            if act == "delete":
                store.delete(key, grace_s=0)
            elif act == "labels":
                store.replace({**obj, "metadata": {**obj["metadata"], "labels": {"step": str(step)}}})
            else:
                # `follow`: another object of the same name, its predecessor's end unseen.
                uid = {"uid": f"other-{step}"} if act == "follow" and draw.random() < 0.7 else {}
                made = _made(key.gk, key.name, key.namespace, _refs(draw, store))
                made["metadata"] = {"uid": obj["metadata"]["uid"], **made["metadata"], **uid}
                if act == "follow":
                    store.follow(key, made)
                else:
                    store.replace(made)
        _agree(store, seen)
        if draw.random() < 0.2:
            marks.append((store.mark(), _objects(store)))


@pytest.mark.parametrize("seed", range(40))
def test_the_collector_leaves_nothing_to_do(seed: int) -> None:
    """Whom nobody living owns goes; a reference to the dead goes where somebody living is left; whoever waits for
    dependents waits for those that block it, and for no others."""
    draw, store = Random(seed), Store(seed=seed)
    for number in range(draw.randint(3, 9)):
        block = {"blockOwnerDeletion": True} if draw.random() < 0.5 else {}
        held = {"finalizers": ["a.io/keep"]} if draw.random() < 0.3 else {}
        store.create(_made("ConfigMap", f"o{number}", "a", _refs(draw, store, **block), **held))
    at = 0
    keeps = {k for k, o in _objects(store).items() if "finalizers" in o["metadata"]}
    orphaned: list[Key] = []
    for _ in range(draw.randint(1, 3)):
        alive = [k for k, o in _objects(store).items() if "deletionTimestamp" not in o["metadata"]]
        if alive:
            how, key = draw.choice((BACKGROUND, FOREGROUND, ORPHAN)), draw.choice(sorted(alive))
            uid = store.require(key)["metadata"]["uid"]
            solely = [d for d in store.owners.dependents(uid) if _names(store, d) == [uid]]
            store.delete(key, propagation=how)
            orphaned += [d for d in solely if how == ORPHAN]
        while store.version > at:
            changes, at = store.log.since(at), store.version
            collect(store, changes)
    there = _objects(store)
    assert keeps <= there.keys()
    uids = {o["metadata"]["uid"]: o for o in there.values()}

    def waits(obj: Obj) -> bool:
        meta = obj["metadata"]
        return "deletionTimestamp" in meta and FOREGROUND_FINALIZER in (meta.get("finalizers") or ())

    for key, obj in there.items():
        refs = obj["metadata"].get("ownerReferences") or []
        solid = [r for r in refs if r["uid"] in uids and not waits(uids[r["uid"]])]
        if refs and not solid:
            assert "deletionTimestamp" in obj["metadata"], key
        assert not solid or solid == refs, key
        if waits(obj):
            blocking = [
                r
                for d in store.owners.dependents(obj["metadata"]["uid"])
                for r in there[d]["metadata"]["ownerReferences"]
                if r["uid"] == obj["metadata"]["uid"] and r.get("blockOwnerDeletion")
            ]
            assert blocking, key
        elif "deletionTimestamp" in obj["metadata"]:
            assert obj["metadata"]["finalizers"] == ["a.io/keep"], key
    for key in orphaned:
        assert key not in there or "ownerReferences" not in there[key]["metadata"]


def test_who_has_dependents_goes_before_the_owner_that_waits_only_after_them() -> None:
    """Who has none goes at once. Another owner's leave does not block; either reference may be the one that does."""
    store = Store()
    owner, second = (store.create(_made("ConfigMap", n, "a", [])) for n in ("owner", "second"))
    ref, other = (
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": o["metadata"]["uid"]}
        for o in (owner, second)
    )
    leaf = store.create(_made("ConfigMap", "leaf", "a", [ref]))
    branch = store.create(_made("ConfigMap", "branch", "a", [{**ref, "blockOwnerDeletion": True}]))
    held = {"finalizers": ["a.io/keep"]}
    twig = _made("ConfigMap", "twig", "a", [{**ref, "uid": branch["metadata"]["uid"]}], **held)
    twig["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = True
    store.create(twig)
    both = store.create(_made("ConfigMap", "both", "a", [other, {**ref, "blockOwnerDeletion": True}]))
    store.delete(key_of(owner), propagation=FOREGROUND)
    at = store.version - 1
    said: list[tuple[str, str]] = []
    while store.version > at:
        changes, at = store.log.since(at), store.version
        said += [(c.type, c.key.name) for c in changes]
        collect(store, changes)
    assert said == [
        ("MODIFIED", "owner"),
        ("MODIFIED", "both"),
        ("MODIFIED", "branch"),
        ("DELETED", "leaf"),
        ("MODIFIED", "twig"),
    ]
    assert store.get(key_of(leaf)) is None
    assert store.require(key_of(branch))["metadata"]["finalizers"] == [FOREGROUND_FINALIZER]
    assert _names(store, key_of(both)) == [second["metadata"]["uid"]]
    store.set_finalizers(Key("ConfigMap", "a", "twig"), [])
    while store.version > at:
        changes, at = store.log.since(at), store.version
        collect(store, changes)
    assert [o["metadata"]["name"] for o in store.objects("ConfigMap")] == ["both", "second"]


def _resources(**amounts: str) -> Obj:
    """`rc`, `rm`: requests of CPU and memory; `lc`, `lm`: limits."""
    found: dict[str, dict[str, str]] = {}
    for name, amount in amounts.items():
        of = found.setdefault("requests" if name[0] == "r" else "limits", {})
        of["cpu" if name[1] == "c" else "memory"] = amount
    return {"name": "c", "resources": found}


FULL = _resources(rc="1m", rm="1", lc="1m", lm="1")


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"containers": [{"name": "c"}]}, "BestEffort"),
        ({"containers": [_resources(rc="0", rm="0")]}, "BestEffort"),
        # The least there is: a thousandth of a core, a byte.
        ({"containers": [_resources(rc="1m")]}, "Burstable"),
        ({"containers": [_resources(rm="1")]}, "Burstable"),
        ({"containers": [_resources(lc="1m")]}, "Burstable"),
        ({"containers": [FULL]}, "Guaranteed"),
        ({"containers": [_resources(lc="1m", lm="1")]}, "Guaranteed"),
        ({"containers": [_resources(rc="1m", rm="1", lc="2m", lm="1")]}, "Burstable"),
        ({"containers": [_resources(rc="1m", rm="1", lc="1m")]}, "Burstable"),
        ({"containers": [FULL, FULL]}, "Guaranteed"),
        ({"containers": [FULL, {"name": "d"}]}, "Burstable"),
        ({"containers": [FULL], "initContainers": [{"name": "i"}]}, "Burstable"),
        ({"containers": [{"name": "c"}], "initContainers": [FULL]}, "Burstable"),
        # What the pod asks for as a whole decides alone.
        ({"containers": [{"name": "c"}], "resources": FULL["resources"]}, "Guaranteed"),
        ({"containers": [FULL], "resources": {"limits": {"cpu": "1"}}}, "Burstable"),
    ],
)
def test_a_pods_quality_of_service(spec: Obj, want: str) -> None:
    """Source: pkg/apis/core/v1/helper/qos ComputePodQOS."""
    assert _qos_class(spec) == want
    assert Store().create(_made("Pod", "p", "a", []) | {"spec": spec})["status"]["qosClass"] == want
