"""ComputeDomains: which nodes share GPU memory over NVLink for one workload, and are their daemons ready?

A domain gets a DaemonSet of IMEX daemons and two ResourceClaimTemplates; its daemons run where a workload's channel has
labelled a node. Daemons of one NVLink domain (`nvidia.com/gpu.clique`) gather in a ComputeDomainClique, others are
listed in the domain's status alone; the status follows every two seconds. A domain that is deleted takes all of it with
it. The driver is there where its device class `compute-domain-daemon.nvidia.com` is.

Unlike the driver: a daemon's pod and its clique are written by this controller, not from within the pod.

Source: kubernetes-sigs/dra-driver-nvidia-gpu cmd/compute-domain-controller, cmd/compute-domain-daemon (cdclique.go).
"""

from __future__ import annotations

from typing import Final

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.errors import ApiError, already_exists
from fairway.kube import computedomains as words
from fairway.kube.computedomains import CLIQUE, DOMAIN, LABEL, NAMESPACE, NOT_READY, READY
from fairway.kube.objects import Key, Obj, key_of, labels_of, meta_of, name_of, spec_of, status_of
from fairway.kube.resourceclaims import CLAIM, CLASS, TEMPLATE
from fairway.kube.timestamps import SECOND_US
from fairway.twin.components import Host
from fairway.twin.loop import CONTROLLERS

NAME: Final = "compute-domain-controller"
DAEMON_SETS: Final = "DaemonSet.apps"
SYNC_US: Final = 2 * SECOND_US
"""How often domains' statuses follow their daemons. Source: cdStatusSyncInterval."""
_AGAIN_US: Final = 10 * SECOND_US
_MOST_NODES: Final = 18
"""Of one clique. Source: main.go defaultMaxNodesPerIMEXDomain: the trays of an NVL72 rack."""
_CLASS_KEY: Final = Key(CLASS, "", words.DAEMON_CLASS)
_AWAKE: Final = (DOMAIN, CLASS, TEMPLATE, DAEMON_SETS, CLAIM, "Pod")


class ComputeDomains:
    """The driver's controller, and what its daemons say of themselves."""

    name = NAME
    kinds: tuple[str, ...] = (DOMAIN, CLASS)

    def __init__(self) -> None:
        self._due: dict[str, None] = {}
        """Domains to look at, by uid."""
        self._late: dict[str, None] = {}
        """Domains whose status is to follow with the next sync."""

    def attach(self, host: Host) -> None:
        self.host = host
        self.store = host.store
        self._look = host.loop.register("computedomains.look", self._on_look)
        self._sync = host.loop.register("computedomains.sync", self._on_sync)
        if self.store.count(DOMAIN):
            self.kinds = _AWAKE

    def start(self) -> None:
        """Domains come as changes."""

    def fork(self) -> ComputeDomains:
        twin = ComputeDomains()
        twin.kinds = self.kinds
        twin._due, twin._late = dict(self._due), dict(self._late)
        return twin

    # What it sees

    def observe(self, change: Change) -> None:
        gk, obj = change.key.gk, change.obj
        if gk == DOMAIN:
            if self.kinds is not _AWAKE:
                self.kinds = _AWAKE
                if self.host.rewatch is not None:
                    self.host.rewatch()
            self._look_at(meta_of(obj)["uid"])
        elif gk == CLASS:
            if change.key == _CLASS_KEY:
                for domain in self.store.objects(DOMAIN):
                    self._look_at(meta_of(domain)["uid"])
        elif gk == CLAIM:
            self._let_go(change)
        elif gk != "Pod":
            if change.type == DELETED and LABEL in labels_of(obj):
                self._look_at(labels_of(obj)[LABEL])
        elif LABEL in labels_of(obj):
            self._hear(labels_of(obj)[LABEL])

    def _look_at(self, uid: str, after_us: int = 0) -> None:
        if uid not in self._due:
            self._due[uid] = None
            self.host.loop.at(self.host.loop.now_us + after_us, self._look, uid, CONTROLLERS)

    def _hear(self, uid: str) -> None:
        """A daemon came, went, or became another."""
        domain = self.store.by_uid(uid)
        if domain is None or not self._is_installed():
            return
        self._gather(domain, self._daemons(uid))
        if uid not in self._late:
            self._late[uid] = None
            now_us = self.host.loop.now_us
            self.host.loop.at(now_us + SYNC_US - now_us % SYNC_US, self._sync, uid, CONTROLLERS)

    def _is_installed(self) -> bool:
        return self.store.get(_CLASS_KEY) is not None

    def _let_go(self, change: Change) -> None:
        """A claim that gives its channel back takes the domain's label off its node."""
        before = None if change.old is None else words.joining(change.old)
        if change.type == DELETED:
            before = words.joining(change.obj)
        if before is None or (change.type != DELETED and words.joining(change.obj) == before):
            return
        others = (words.joining(claim) for claim in self.store.objects(CLAIM))
        if all(other != before for other in others):
            self._unlabel(before.node, before.domain)

    def _unlabel(self, name: str, uid: str) -> None:
        node = self.store.get(Key("Node", "", name))
        if node is not None and labels_of(node).get(LABEL) == uid:
            self.store.patch(Key("Node", "", name), {"metadata": {"labels": {LABEL: None}}})

    # One domain

    def _on_look(self, uid: str) -> None:
        self._due.pop(uid, None)
        domain = self.store.by_uid(uid)
        if domain is None or not self._is_installed():
            return
        try:
            done = self._take_down(domain) if "deletionTimestamp" in meta_of(domain) else self._set_up(domain)
        except ApiError as refused:
            self.host.log.record(
                self.host.loop.now_us,
                NAME,
                DOMAIN,
                key_of(domain).namespace,
                name_of(domain),
                "Refused",
                str(refused),
            )
            done = False
        if not done:
            self._look_at(uid, _AGAIN_US)

    def _set_up(self, domain: Obj) -> bool:
        """Raises: ApiError."""
        meta, key = meta_of(domain), key_of(domain)
        uid = meta["uid"]
        if LABEL not in (meta.get("finalizers") or ()):
            self.store.set_finalizers(key, [*(meta.get("finalizers") or ()), LABEL])
        if self.store.get(Key("Namespace", "", NAMESPACE)) is None:
            self.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        name = _daemons_name(uid)
        channel = spec_of(domain).get("channel") or {}
        mode = {"allocationMode": channel.get("allocationMode") or "Single"}
        wanted = str((channel.get("resourceClaimTemplate") or {}).get("name") or "")
        made = [
            words.template(name, NAMESPACE, uid, "Daemon", {}),
            words.daemon_set(name, uid),
            words.template(wanted, key.namespace, uid, "Workload", mode),
        ]
        try:
            all_made = [self._make(obj, uid) for obj in made]
        finally:
            self._settle(uid)
        return all(all_made)

    def _make(self, obj: Obj, uid: str) -> bool:
        """Whether it is there, and the domain's. Raises: ApiError, where somebody else's is."""
        found = self.store.get(key_of(obj))
        if found is not None:
            if labels_of(found).get(LABEL) != uid:
                raise already_exists(key_of(obj))
            return True
        # A webhook outside is asked about it: it is looked for again.
        return self.host.create(obj, lambda: self._look_at(uid))

    def _take_down(self, domain: Obj) -> bool:
        """Everything that was made, in the driver's order; the domain last."""
        meta, key = meta_of(domain), key_of(domain)
        uid = meta["uid"]
        channel = (spec_of(domain).get("channel") or {}).get("resourceClaimTemplate") or {}
        name = _daemons_name(uid)
        made = (
            Key(TEMPLATE, key.namespace, channel.get("name") or ""),
            Key(TEMPLATE, NAMESPACE, name),
            Key(DAEMON_SETS, NAMESPACE, name),
        )
        mine = [m for m in made if labels_of(self.store.get(m) or {}).get(LABEL) == uid]
        for one in mine:
            if "deletionTimestamp" not in meta_of(self.store.require(one)):
                self.store.delete(one)
        for node in self.store.objects("Node"):
            self._unlabel(name_of(node), uid)
        for one in mine:
            found = self.store.get(one)
            if found is not None:
                left = [f for f in meta_of(found).get("finalizers") or () if f != LABEL]
                self.store.set_finalizers(one, left)
        self.store.set_finalizers(key, [f for f in meta.get("finalizers") or () if f != LABEL])
        return True

    # Its nodes

    def _daemons(self, uid: str) -> list[Obj]:
        """The pods of its daemons that are on a node and have an address."""
        pods = (p for p in self.store.objects("Pod", NAMESPACE) if labels_of(p).get(LABEL) == uid)
        return [p for p in pods if spec_of(p).get("nodeName") and status_of(p).get("podIP")]

    def _clique(self, pod: Obj) -> str:
        node = self.store.get(Key("Node", "", spec_of(pod)["nodeName"]))
        return "" if node is None else words.clique_of(node)

    def _gather(self, domain: Obj, pods: list[Obj]) -> None:
        """Write the cliques: daemons of nodes within one NVLink domain, each with the lowest index that is free."""
        uid = meta_of(domain)["uid"]
        of_clique: dict[str, list[Obj]] = {}
        for pod in pods:
            clique = self._clique(pod)
            if labels_of(pod).get(words.CLIQUE_LABEL) != clique and "deletionTimestamp" not in meta_of(pod):
                self.store.patch(key_of(pod), {"metadata": {"labels": {words.CLIQUE_LABEL: clique}}})
            if clique:
                of_clique.setdefault(clique, []).append(pod)
        for known in self.store.objects(CLIQUE, NAMESPACE):
            if labels_of(known).get(LABEL) == uid:
                of_clique.setdefault(name_of(known).removeprefix(f"{uid}."), [])
        for clique in sorted(of_clique):
            self._write_clique(uid, clique, of_clique[clique])

    def _write_clique(self, uid: str, clique: str, pods: list[Obj]) -> None:
        key = Key(CLIQUE, NAMESPACE, words.clique_name(uid, clique))
        known = self.store.get(key)
        if not pods:
            if known is not None:
                # Its owners are the daemons' pods: it goes with the last of them.
                self.store.delete(key)
            return
        before = {d["nodeName"]: d for d in (known or {}).get("daemons") or ()}
        by_node = {spec_of(p)["nodeName"]: p for p in pods}
        taken = {d["index"] for name, d in before.items() if name in by_node}
        daemons: list[Obj] = []
        for name in [*(n for n in before if n in by_node), *(n for n in by_node if n not in before)]:
            index = before[name]["index"] if name in before else _lowest(taken)
            taken.add(index)
            if index >= _MOST_NODES:
                continue
            daemons.append(_entry(by_node[name], "nodeName", clique, index))
        if known is None:
            meta = {"name": key.name, "namespace": NAMESPACE, "labels": {LABEL: uid}}
            self.store.create(
                {
                    "apiVersion": words.API_VERSION,
                    "kind": "ComputeDomainClique",
                    "metadata": meta,
                    "daemons": daemons,
                }
            )
        elif known.get("daemons") != daemons:
            self.store.replace({**known, "daemons": daemons})

    def _on_sync(self, uid: str) -> None:
        self._late.pop(uid, None)
        self._settle(uid)

    def _settle(self, uid: str) -> None:
        """The domain's status: nodes within NVLink domains by their cliques, others by their pods."""
        domain = self.store.by_uid(uid)
        if domain is None:
            return
        nodes: list[Obj] = []
        for clique in self.store.objects(CLIQUE, NAMESPACE):
            if labels_of(clique).get(LABEL) == uid:
                daemons = clique.get("daemons") or ()
                nodes += [{"name": d["nodeName"], **{n: d[n] for n in _SHARED}} for d in daemons]
        nodes += [_entry(p, "name", "", -1) for p in self._daemons(uid) if not self._clique(p)]
        asked = spec_of(domain).get("numNodes") or 0
        is_ready = len(nodes) >= asked and all(n["status"] == READY for n in nodes)
        status: Obj = {"status": READY if is_ready else NOT_READY}
        if nodes:
            status["nodes"] = nodes
        if status_of(domain) != status:
            self.store.set_status(key_of(domain), status)


_SHARED: Final = ("ipAddress", "cliqueID", "index", "status")


def _entry(pod: Obj, name: str, clique: str, index: int) -> Obj:
    """A daemon, as its clique (`nodeName`) or the domain's status (`name`) has it."""
    conditions = status_of(pod).get("conditions") or ()
    is_ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return {
        name: spec_of(pod)["nodeName"],
        "ipAddress": status_of(pod)["podIP"],
        "cliqueID": clique,
        "index": index,
        "status": READY if is_ready else NOT_READY,
    }


def _lowest(taken: set[int]) -> int:
    index = 0
    while index in taken:
        index += 1
    return index


def _daemons_name(uid: str) -> str:
    return f"computedomain-daemon-{uid}"
