"""Which object does `pod/trainer-0` mean, and what belongs to it?"""

from __future__ import annotations

from difflib import get_close_matches

from fairway.cluster.store import Store
from fairway.errors import UserError
from fairway.kube.kinds import BY_GROUP_KIND, kind_named
from fairway.kube.objects import Key, Obj, controller_of, gk_of, meta_of, name_of, namespace_of, status_of

WORKLOAD = "Workload.kueue.x-k8s.io"
_DEPTH = 6
_NAMED = 5
_ENDED = ("Succeeded", "Failed")


def find(store: Store, text: str, namespace: str | None = None) -> Key:
    """`KIND/NAME`, `KIND.GROUP/NAME`, `NAMESPACE/NAME` or `NAME`; kinds as kubectl knows them, short names too.

    Raises: UserError where nothing, or more than one object, is meant.
    """
    first, slash, rest = text.rpartition("/")
    kind, _, inner = first.rpartition("/")
    gks = _kinds(store, kind or first) if slash else []
    name, home = rest or text, namespace
    if slash and not gks:
        if kind:
            raise UserError(f"{text}: no kind {kind!r} is known here")
        gks, home = _present(store), first if namespace is None else namespace
    elif slash and kind:
        home = inner
    elif not slash:
        gks = _present(store)
    found = [k for gk in gks for k in _named(store, gk, name, home)]
    if len(found) > 1:
        # The one a user made is meant, not what controllers made for it.
        found = [k for k in found if controller_of(store.require(k)) is None] or found
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"{text}: not there{_hint(store, gks, name)}")
    several = ", ".join(_ref(k) for k in found[:_NAMED])
    raise UserError(f"{text}: {len(found)} objects bear this name: say which, such as {several}")


def _ref(key: Key) -> str:
    return f"{ref(key)}{f' -n {key.namespace}' if key.namespace else ''}"


def ref(key: Key) -> str:
    """As kubectl takes it: `job.batch/train`, `pod/p`."""
    kind = kind_named(key.gk)
    return f"{kind.kind.lower()}{f'.{kind.group}' if kind.group else ''}/{key.name}"


def _kinds(store: Store, text: str) -> list[str]:
    """Group kinds of this name, those that are there first."""
    wanted = text.lower()
    found = []
    for gk in [*store.kinds(), *BY_GROUP_KIND]:
        kind = kind_named(gk)
        names = (kind.kind.lower(), kind.plural, *kind.short_names)
        if wanted in names or wanted in (f"{n}.{kind.group}" for n in names):
            found.append(gk)
    return list(dict.fromkeys(found))


def _present(store: Store) -> list[str]:
    return [
        gk for gk in store.kinds() if gk not in ("Event", "ConfigMap", "Secret", "ServiceAccount", WORKLOAD)
    ]


def _named(store: Store, gk: str, name: str, namespace: str | None) -> list[Key]:
    if not kind_named(gk).namespaced:
        key = Key(gk, "", name)
        return [key] if store.get(key) is not None else []
    if namespace is not None:
        key = Key(gk, namespace, name)
        return [key] if store.get(key) is not None else []
    return [Key(gk, namespace_of(o), name) for o in store.objects(gk) if name_of(o) == name]


def _hint(store: Store, gks: list[str], name: str) -> str:
    known = sorted({name_of(o) for gk in gks for o in store.objects(gk)})
    close = get_close_matches(name, known, 1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are {', '.join(known[:_NAMED])}{' …' if len(known) > _NAMED else ''}" if known else ""


# Families


def workload_of(store: Store, key: Key) -> Key | None:
    """The Workload of Kueue that stands for a job or pod, its own or its owner's; of several the newest."""
    if key.gk == WORKLOAD:
        return key
    at: Key | None = key
    for _ in range(_DEPTH):
        obj = None if at is None else store.get(at)
        if obj is None:
            return None
        owned = [k for k in store.dependents(meta_of(obj)["uid"]) if k.gk == WORKLOAD]
        if owned:
            return max(
                owned, key=lambda k: (meta_of(store.require(k)).get("creationTimestamp") or "", k.name)
            )
        at = _controller(store, obj)
    return None


def _controller(store: Store, obj: Obj) -> Key | None:
    owner = controller_of(obj)
    return None if owner is None else store.owners.key_by_uid.get(owner.get("uid") or "")


def job_of(store: Store, key: Key) -> Key:
    """The topmost object that controls this one; a Workload's job."""
    at = key
    for _ in range(_DEPTH):
        obj = store.get(at)
        if obj is None:
            break
        owners = [
            o for o in meta_of(obj).get("ownerReferences") or () if at.gk == WORKLOAD or o.get("controller")
        ]
        above = store.owners.key_by_uid.get(owners[0].get("uid") or "") if owners else None
        if above is None:
            break
        at = above
    return at


def pods_of(store: Store, key: Key, *, ended: bool = False) -> list[Obj]:
    """A job's pods that have not ended (`ended`: those too), at whatever depth, by name; a pod itself."""
    obj = store.get(key)
    if obj is None:
        return []
    if key.gk == "Pod":
        return [obj]
    found: dict[Key, Obj] = {}
    wave = [meta_of(obj)["uid"]]
    if key.gk == WORKLOAD:
        wave += [o.get("uid") for o in meta_of(obj).get("ownerReferences") or ()]
        found = {
            k: o
            for uid in wave[1:]
            if (k := store.owners.key_by_uid.get(uid)) and k.gk == "Pod"
            if (o := store.get(k)) is not None
        }
    for _ in range(_DEPTH):
        below = [k for uid in wave for k in store.dependents(uid)]
        found.update({k: store.require(k) for k in below if k.gk == "Pod"})
        wave = [meta_of(store.require(k))["uid"] for k in below if k.gk not in ("Pod", WORKLOAD)]
        if not wave:
            break
    return [found[k] for k in sorted(found) if ended or status_of(found[k]).get("phase") not in _ENDED]


def named(obj: Obj) -> str:
    """`Job team/train`, for sentences."""
    home = namespace_of(obj)
    return (
        f"{gk_of(obj).partition('.')[0]} {home}/{name_of(obj)}"
        if home
        else f"{obj.get('kind')} {name_of(obj)}"
    )
