"""How does a machine become a node? It boots and registers, loses its startup taints, and one day expires.

Source: pkg/controllers/nodeclaim/lifecycle/registration.go, nodeclaim/expiration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.catalog.featurelabels import feature_labels
from fairway.kube.objects import Key, Obj, labels_of, meta_of, spec_of
from fairway.provisioning.karpenter.disruption.marks import expires_at_us
from fairway.provisioning.karpenter.labels import INSTANCE_TYPE, NODEPOOL, REGISTERED, UNREGISTERED_TAINT
from fairway.provisioning.karpenter.nodeclaims import (
    DISRUPTION_REASON,
    REGISTERED_CONDITION,
    REGISTRATION_TIMEOUT_US,
    is_true,
    node_of,
    with_condition,
)
from fairway.twin.kubelet.nodestatus import with_machine
from fairway.twin.loop import CONTROLLERS, HOUSEKEEPING, NODES
from fairway.twin.provisioner import metrics
from fairway.twin.provisioner.gathering import NODE_CLAIM, NODE_POOL, claim_key, names_expiry, node_key

if TYPE_CHECKING:
    from fairway.twin.provisioner.component import Provisioner


class Joining:
    """No data of its own: what is to come stands in the loop."""

    def attach(self, provisioner: Provisioner) -> None:
        self.provisioner = provisioner
        self.host = provisioner.host
        register = self.host.loop.register
        self._h_boot = register("karpenter.boot", self._on_boot)
        self._h_started = register("karpenter.started", self._on_started)
        self._h_expire = register("karpenter.expire", self._on_expire)
        self._h_late = register("karpenter.late", self._on_late)
        self._h_kept = register("karpenter.kept", provisioner.disruption.give_back)

    def resume(self) -> None:
        """Go on with a cluster that was there before: what was due stood in the loop of a process that is gone.

        Machines boot from now; nodes that go are told to when their claims are seen; those that a command was to take
        are given back, for nobody remembers it.
        """
        now_us = self.host.loop.now_us
        for claim in self.host.store.objects(NODE_CLAIM):
            name = str(meta_of(claim).get("name"))
            if "deletionTimestamp" in meta_of(claim):
                continue
            if is_true(claim, DISRUPTION_REASON):
                self.host.loop.at(now_us, self._h_kept, name, CONTROLLERS)
            if not is_true(claim, REGISTERED_CONDITION):
                boot_us = self.provisioner.cloud.boot_of(labels_of(claim).get(INSTANCE_TYPE) or "")
                self.boot(name, boot_us.at_quantile(0.5))
            else:
                if claim["spec"].get("startupTaints"):
                    self.host.loop.at(now_us, self._h_started, name, NODES)
                self._arm_expiry(name, claim)

    def boot(self, name: str, boot_us: int) -> None:
        """A machine was launched: it registers after so long, or is given up."""
        loop = self.host.loop
        loop.at(loop.now_us + max(boot_us, 0), self._h_boot, name, NODES)
        if boot_us > REGISTRATION_TIMEOUT_US:
            loop.at(loop.now_us + REGISTRATION_TIMEOUT_US, self._h_late, name, HOUSEKEEPING)

    def _on_boot(self, name: str) -> None:
        """The machine is up: its node registers, without the taint that kept pods off."""
        store, now_us = self.host.store, self.host.loop.now_us
        claim = store.get(claim_key(name))
        if claim is None or "deletionTimestamp" in meta_of(claim):
            return
        node = node_of(claim, name)
        meta, spec = node["metadata"], node["spec"]
        kept = [t for t in spec["taints"] if t["key"] != UNREGISTERED_TAINT]
        found = feature_labels(meta["labels"].get(INSTANCE_TYPE) or "")
        meta["labels"] = {**found, **meta["labels"], REGISTERED: "true"}
        made = {**node, "metadata": {**meta, "finalizers": []}, "spec": {**spec, "taints": kept}}
        store.create(with_machine(made))
        self.host.launches.join(name)
        metrics.registered(self.provisioner.tally, claim)
        up = with_condition(claim, REGISTERED_CONDITION, "True", REGISTERED_CONDITION, "", now_us)
        store.set_status(claim_key(name), {**up["status"], "nodeName": name})
        if claim["spec"].get("startupTaints"):
            self.host.loop.at(now_us + self.provisioner.cloud.startup_us, self._h_started, name, NODES)
        self._arm_expiry(name, claim)

    def _arm_expiry(self, name: str, claim: Obj) -> None:
        pool = self.host.store.get(Key(NODE_POOL, "", labels_of(claim).get(NODEPOOL) or ""))
        expires_us = expires_at_us(claim)
        if pool is not None and names_expiry(pool) and expires_us is not None:
            at_us = max(expires_us, self.host.loop.now_us)
            self.host.loop.at(at_us, self._h_expire, name, HOUSEKEEPING)

    def _on_started(self, name: str) -> None:
        """What the startup taints waited for is there. Unlike kube: not a DaemonSet, time takes them off."""
        claim, node = self.host.store.get(claim_key(name)), self.host.store.get(node_key(name))
        if claim is None or node is None:
            return
        starting = [(t.get("key"), t.get("effect")) for t in claim["spec"].get("startupTaints") or ()]
        taints = spec_of(node).get("taints") or ()
        kept = [t for t in taints if (t.get("key"), t.get("effect")) not in starting]
        self.host.store.patch(node_key(name), {"spec": {"taints": kept or None}})

    def _on_expire(self, name: str) -> None:
        claim = self._staying(name)
        if claim is not None:
            metrics.disrupted(self.provisioner.tally, self.host.store, claim, metrics.EXPIRED)
            self.provisioner.remove(claim_key(name))

    def _on_late(self, name: str) -> None:
        """Source: nodeclaim/lifecycle/liveness.go."""
        claim = self._staying(name)
        if claim is not None:
            metrics.given_up(self.provisioner.tally, claim)
            self.provisioner.remove(claim_key(name))

    def _staying(self, name: str) -> Obj | None:
        """The claim, unless it goes already."""
        claim = self.host.store.get(claim_key(name))
        return None if claim is None or "deletionTimestamp" in meta_of(claim) else claim
