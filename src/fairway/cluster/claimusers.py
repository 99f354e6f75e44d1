"""Which pods name a claim, or a template of claims?

Kept beside a store from the first question on, by following its changes: a cluster without claims never has one.
"""

from __future__ import annotations

from typing import Final

from fairway.cluster.actions import View
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.following import index_of
from fairway.kube.objects import Key, Obj, meta_of, quick_key, spec_of, status_of
from fairway.kube.resourceclaims import CLAIM, TEMPLATE, pod_claims

_POD: Final = "Pod"


class ClaimUsers:
    """The pods of one store by what they name."""

    def __init__(self, store: View) -> None:
        self._users: dict[Key, dict[Key, None]] = {}
        for pod in store.objects(_POD):
            self._put(Key(_POD, meta_of(pod)["namespace"], meta_of(pod)["name"]), pod)

    def of(self, key: Key) -> list[Key]:
        """Of a claim or a template, by name."""
        found = self._users.get(key)
        return sorted(found) if found else []

    def apply(self, change: Change) -> None:
        old = change.old
        if change.key[0] != _POD:
            return
        if change.type != DELETED and old is not None and _names_the_same(old, change.obj):
            return
        if old is not None:
            for name in _named(change.key, old):
                users = self._users.get(name, {})
                users.pop(change.key, None)
                if not users:
                    self._users.pop(name, None)
        if change.type != DELETED:
            self._put(change.key, change.obj)

    def _put(self, key: Key, pod: Obj) -> None:
        for name in _named(key, pod):
            self._users.setdefault(name, {})[key] = None


def _names_the_same(old: Obj, new: Obj) -> bool:
    if spec_of(old).get("resourceClaims") is not spec_of(new).get("resourceClaims"):
        return False
    return status_of(old).get("resourceClaimStatuses") is status_of(new).get("resourceClaimStatuses")


def _named(key: Key, pod: Obj) -> list[Key]:
    found = []
    for entry in pod_claims(pod):
        if entry.claim:
            found.append(quick_key(CLAIM, key.namespace, entry.claim))
        if entry.template:
            found.append(quick_key(TEMPLATE, key.namespace, entry.template))
    return found


def claim_users(store: View) -> ClaimUsers:
    """The index of this store."""
    return index_of(store, ClaimUsers, ClaimUsers)
