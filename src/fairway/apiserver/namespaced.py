"""What every namespace is furnished with: its default service account and the cluster's root certificate.

Source: pkg/controller/serviceaccount/serviceaccounts_controller.go,
pkg/controller/certificates/rootcacertpublisher (v1.36).
"""

from __future__ import annotations

from contextlib import suppress

from fairway.apiserver.bootstrap import CA_CONFIG_MAP, default_account
from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.cluster.errors import ApiError
from fairway.kube.objects import Key
from fairway.twin.components import Host
from fairway.twin.loop import CONTROLLERS


class NamespaceFurniture:
    """Creates both where they are missing, in namespaces that stay."""

    name = "serviceaccount-controller"
    kinds: tuple[str, ...] = ("Namespace", "ServiceAccount", "ConfigMap")

    def attach(self, host: Host) -> None:
        self.host = host
        self._furnish = host.loop.register("serviceaccounts.furnish", self._on_furnish)

    def start(self) -> None:
        """Namespaces come as changes."""

    def fork(self) -> NamespaceFurniture:
        return NamespaceFurniture()

    def observe(self, change: Change) -> None:
        key = change.key
        if key.gk == "Namespace":
            if change.type == ADDED:
                self._plan(key.name)
        elif change.type == DELETED and key.name in ("default", CA_CONFIG_MAP):
            self._plan(key.namespace)

    def _plan(self, namespace: str) -> None:
        self.host.loop.at(self.host.loop.now_us, self._furnish, namespace, CONTROLLERS)

    def _on_furnish(self, namespace: str) -> None:
        store = self.host.store
        found = store.get(Key("Namespace", "", namespace))
        if found is None or "deletionTimestamp" in found["metadata"]:
            return
        wanted = [default_account(namespace)]
        published = store.get(Key("ConfigMap", "kube-system", CA_CONFIG_MAP))
        if published is not None:
            meta = {
                "name": CA_CONFIG_MAP,
                "namespace": namespace,
                "annotations": published["metadata"].get("annotations") or {},
            }
            wanted.append({**published, "metadata": meta})
        for obj in wanted:
            key = Key(obj["kind"], namespace, obj["metadata"]["name"])
            if store.get(key) is None:
                with suppress(ApiError):
                    store.create(obj)
