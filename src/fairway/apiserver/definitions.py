"""Which custom kinds are there, and what must their objects look like?

Follows CustomResourceDefinitions in the store: a new one is judged, established, and served; a deleted one is
served no more. Schemas are built once per definition and version.

Source: apiextensions-apiserver pkg/controller/{establish,status}, pkg/apiserver/customresource_handler.go (v1.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.apiserver.resources import Resource, Resources, is_established
from fairway.cluster.changes import Change
from fairway.cluster.store import Store
from fairway.kube.objects import Obj, key_of
from fairway.kube.timestamps import rfc3339

if TYPE_CHECKING:
    from fairway.kube.schema.node import Schema

CRD = "CustomResourceDefinition.apiextensions.k8s.io"


class Definitions:
    """A store follower; `refresh` is to be called after writes of definitions."""

    def __init__(self, store: Store, resources: Resources) -> None:
        self._store = store
        self._resources = resources
        self._is_stale = bool(store.count(CRD))
        store.followers.append(self)
        self.refresh()

    def apply(self, change: Change) -> None:
        if change.key.gk == CRD:
            self._is_stale = True

    def empty(self, crd: Obj) -> None:
        """The definition is gone, and its objects with it.

        Unlike kube: at once, whatever finalizers they have; there the definition waits for them.
        """
        spec = crd["spec"]
        gk = f"{spec['names']['kind']}.{spec['group']}"
        for obj in list(self._store.walk(gk)):
            key = key_of(obj)
            if obj["metadata"].get("finalizers"):
                self._store.set_finalizers(key, [])
            if self._store.get(key) is not None:
                self._store.delete(key)

    def refresh(self) -> None:
        """Serve what the store defines now. O(1) while nothing changed."""
        if not self._is_stale:
            return
        self._establish()
        self._is_stale = False
        self._resources.set_definitions(self.all())
        from fairway.apiserver import apiservices

        apiservices.register(self._store, self._resources)

    def _establish(self) -> None:
        """Accept the names of new definitions, and note the versions objects are stored in."""
        from fairway.kube.schema.definitions import established

        for crd in self._store.objects(CRD):
            judged = established(crd, rfc3339(self._store.now_us))
            self._store.set_status(key_of(crd), judged["status"])

    def all(self) -> list[Obj]:
        return [crd for crd in self._store.objects(CRD) if is_established(crd)]


def custom_schema_of(resource: Resource) -> Schema | None:
    """The schema of a custom kind's version; None where it has none (or preserves everything)."""
    from fairway.kube.schema.structural import tree_of

    version = resource.crd_version
    return None if version is None else tree_of(version)
