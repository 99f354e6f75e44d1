"""Which pods name a claim: kept up to date, undone, and the same as looking at every pod."""

from __future__ import annotations

import random

from fairway.cluster.claimusers import ClaimUsers, claim_users
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.resourceclaims import CLAIM, TEMPLATE

NAMES = [Key(kind, "default", f"x{i}") for kind in (CLAIM, TEMPLATE) for i in range(3)]


def pod(name: str, draw: random.Random) -> Obj:
    field = draw.choice(["resourceClaimName", "resourceClaimTemplateName"])
    claims = [{"name": "a", field: f"x{draw.randrange(3)}"}] if draw.random() < 0.8 else []
    spec = {"containers": [{"name": "c", "image": "i"}], **({"resourceClaims": claims} if claims else {})}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {}}


def answers(index: ClaimUsers) -> list[list[Key]]:
    return [index.of(name) for name in NAMES]


def looked_up(store: Store) -> list[list[Key]]:
    """A claim that a pod names itself, or that was made for one of its templates; and the template."""
    found: dict[Key, list[Key]] = {name: [] for name in NAMES}
    for one in store.objects("Pod"):
        named: set[Key] = set()
        made = {s["name"]: s["resourceClaimName"] for s in one["status"].get("resourceClaimStatuses") or ()}
        for entry in one["spec"].get("resourceClaims") or ():
            template = entry.get("resourceClaimTemplateName")
            claim = made.get(entry["name"]) if template else entry["resourceClaimName"]
            named |= {Key(TEMPLATE, "default", template)} if template else set()
            named |= {Key(CLAIM, "default", claim)} if claim else set()
        for name in named:
            found[name].append(Key("Pod", "default", one["metadata"]["name"]))
    return [sorted(found[name]) for name in NAMES]


def test_it_says_what_looking_at_every_pod_says() -> None:
    draw = random.Random(5)
    store = Store(seed=1)
    index = claim_users(store)
    assert claim_users(store) is index
    mark, before = store.mark(), answers(index)
    for step in range(300):
        key = Key("Pod", "default", f"p{draw.randrange(12)}")
        there = store.get(key)
        if there is None:
            store.create(pod(key.name, draw))
        elif draw.random() < 0.4:
            store.delete(key, grace_s=0)
        elif draw.random() < 0.3:
            # As a follower of another cluster sees it that missed the end of one pod and the start of the next.
            store.follow(key, {**pod(key.name, draw), "metadata": there["metadata"]})
        else:
            made = [{"name": "a", "resourceClaimName": f"x{draw.randrange(3)}"}]
            store.set_status(key, {"resourceClaimStatuses": made})
        assert answers(index) == answers(ClaimUsers(store)) == looked_up(store), step
    assert answers(index) != before
    assert answers(claim_users(store.fork())) == answers(index)
    store.rewind(mark)
    assert answers(index) == before
