"""Indexes kept beside a store say what reading everything anew would say, after any changes and after undoing them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.cluster.claimusers import claim_users
from fairway.cluster.store import Store
from fairway.kube.cel.operators import CelError
from fairway.kube.objects import Key, Obj
from fairway.kube.resourceclaims import CLAIM, SLICE
from fairway.queueing.devices.matching import PublishedDevices, published
from fairway.scheduling.hami.cards import ALLOCATED, NODE, CardHolders, card_holders

_NODES = ("n1", "n2")
_SELECTORS = (
    ("device.driver == 'a.example.com'",),
    ("device.attributes['a.example.com'].kind == 'big'",),
)


def _pod(number: int, node: str | None, held: str, phase: str, claim: str) -> Obj:
    annotations = {} if node is None else {NODE: node, ALLOCATED: held}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number}", "namespace": "default", "annotations": annotations},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "g", "resourceClaimName": claim}],
        },
        "status": {"phase": phase},
    }


def _slice(number: int, driver: str, kinds: list[str | None]) -> Obj:
    devices: list[Any] = [
        {"name": f"d{i}", "attributes": {"kind": {"string": k}} if k else {}} for i, k in enumerate(kinds)
    ]
    pool = {"name": f"pool{number}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "pool": pool, "nodeName": "n1", "devices": devices}
    meta = {"name": f"s{number}"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": spec}


_PODS = st.builds(
    _pod,
    st.integers(0, 3),
    st.sampled_from((None, *_NODES)),
    st.sampled_from(("GPU-1,NVIDIA,10,5:;", "GPU-1,NVIDIA,20,0:GPU-2,NVIDIA,1,1:;", "rubbish;", "")),
    st.sampled_from(("Pending", "Running", "Succeeded")),
    st.sampled_from(("x", "y")),
)
_SLICES = st.builds(
    _slice,
    st.integers(0, 2),
    st.sampled_from(("a.example.com", "b.example.com")),
    st.lists(st.sampled_from(("big", "small", None)), max_size=3),
)


def _held(index: CardHolders) -> dict[str, list[Any]]:
    return {node: sorted(held) for node, held in index.on(_NODES).items()}


def _chosen(index: PublishedDevices, selectors: tuple[str, ...]) -> list[tuple[int, str]]:
    return [(m.place, str(m.failed or "")) for m in index.matches((), selectors)]


def _check(store: Store) -> None:
    assert _held(card_holders(store)) == _held(CardHolders(store))
    fresh = PublishedDevices(store)
    for selectors in _SELECTORS:
        assert _chosen(published(store), selectors) == _chosen(fresh, selectors)
    for driver in ("a.example.com", "b.example.com"):
        assert published(store).of((driver,)) == fresh.of((driver,))
        assert published(store).complete(driver) == fresh.complete(driver)
    users = claim_users(store)
    for claim in ("x", "y"):
        pods = [p["metadata"]["name"] for p in store.objects("Pod") if _names(p, claim)]
        assert [key.name for key in users.of(Key(CLAIM, "default", claim))] == pods


def _names(pod: Obj, claim: str) -> bool:
    return any(e.get("resourceClaimName") == claim for e in pod["spec"]["resourceClaims"])


def _write(store: Store, obj: Obj) -> None:
    gk = SLICE if obj["kind"] == "ResourceSlice" else "Pod"
    key = Key(gk, obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
    if store.get(key) is None:
        store.create(obj)
    else:
        store.replace(obj)
        if "status" in obj:
            store.set_status(key, obj["status"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(_PODS, _SLICES, st.sampled_from(("mark", "rewind", "delete"))), max_size=14))
def test_indexes_follow_every_change(steps: list[Any]) -> None:
    store = Store(seed=1, now_us=0)
    _check(store)
    mark = store.mark()
    for step in steps:
        if step == "mark":
            mark = store.mark()
        elif step == "rewind":
            store.rewind(mark)
        elif step == "delete":
            for gk in ("Pod", SLICE):
                for obj in store.objects(gk)[:1]:
                    store.delete(Key(gk, obj["metadata"].get("namespace") or "", obj["metadata"]["name"]))
        else:
            _write(store, step)
        _check(store)


def test_a_selector_that_fails_on_a_device_fails_at_its_place() -> None:
    store = Store(seed=1, now_us=0)
    store.create(_slice(0, "a.example.com", ["big", None, "big"]))
    found = list(published(store).matches((), _SELECTORS[1]))
    assert [(m.place, m.failed is not None) for m in found] == [(0, False), (1, True), (2, False)]
    assert isinstance(found[1].failed, CelError)


def test_a_node_without_cards_is_nobodys() -> None:
    store = Store(seed=1, now_us=0)
    store.create(_pod(0, "n1", "GPU-1,NVIDIA,10,5:;", "Running", "x"))
    uid = store.objects("Pod")[0]["metadata"]["uid"]
    assert card_holders(store).on(["n1", "n2"]).keys() == {"n1"}
    assert card_holders(store).on(["n1"], but=uid) == {"n1": []}
