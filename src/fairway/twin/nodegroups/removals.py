"""How does a node that nobody needs go? Tainted and cordoned, drained, deleted; given back where that takes too long.

Source: core/scaledown/actuation (actuator.go, drain.go, delete_in_batch.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fairway.cluster.actions import Delete, perform
from fairway.kube.objects import Key, Obj, annotations_of, key_of, labels_of, meta_of, name_of
from fairway.kube.timestamps import SECOND_US
from fairway.provisioning.clusterautoscaler import events, statustext
from fairway.provisioning.clusterautoscaler.draining import is_mirror, is_of_daemon_set
from fairway.provisioning.clusterautoscaler.events import Told
from fairway.provisioning.clusterautoscaler.scaledown import TO_BE_DELETED, Removable
from fairway.twin.loop import CONTROLLERS, NO_TIME
from fairway.twin.nodegroups import metrics
from fairway.twin.nodegroups.grouping import GROUP_LABELS
from fairway.twin.nodelifecycle import pods_on
from fairway.workloads.disruption.eviction import evict

if TYPE_CHECKING:
    from fairway.twin.nodegroups.component import ClusterAutoscaler

DAEMON_EVICTION = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
STATUS = Key("ConfigMap", statustext.NAMESPACE, statustext.NAME)
EVICT_EVERY_US, GONE_EVERY_US, HEADROOM_US = 10 * SECOND_US, 5 * SECOND_US, 30 * SECOND_US


class Going(NamedTuple):
    """A node being removed: its group, since when it is tainted, whether pods had to leave, when all were told to.

    `refused`: pods that could not be evicted when that was last tried, with the API server's words.
    """

    group: str
    since_us: int
    drains: bool
    evicted_us: int = NO_TIME
    refused: tuple[tuple[Key, str], ...] = ()


class Removals:
    """Nodes that are being removed. Data only, beside its autoscaler."""

    def __init__(self) -> None:
        self.going: dict[str, Going] = {}

    def attach(self, autoscaler: ClusterAutoscaler) -> None:
        self.autoscaler = autoscaler
        self._h_drain = autoscaler.host.loop.register("cluster-autoscaler.drain", self._on_drain)

    def copy(self) -> Removals:
        twin = Removals()
        twin.going = dict(self.going)
        return twin

    def resume(self) -> dict[str, int]:
        """How many nodes each group has; those that were to go when the process before ended are given back.

        Source: core/static_autoscaler.go cleanUpIfRequired.
        """
        store, by_group = self.autoscaler.host.store, dict[str, int]()
        for node in store.objects("Node"):
            group = labels_of(node).get(GROUP_LABELS[self.autoscaler.plan.provider])
            if group is not None:
                by_group[group] = by_group.get(group, 0) + 1
                if any(t["key"] == TO_BE_DELETED for t in (node.get("spec") or {}).get("taints") or ()):
                    self._untaint(key_of(node))
        return by_group

    def counted(self) -> tuple[dict[str, int], int]:
        """How many of each group, and how many of all with pods."""
        by_group: dict[str, int] = {}
        for going in self.going.values():
            by_group[going.group] = by_group.get(going.group, 0) + 1
        return by_group, sum(g.drains for g in self.going.values())

    def remove(self, node: Removable) -> None:
        """Taint and cordon it, then drain it."""
        name, loop = node.node, self.autoscaler.host.loop
        key = Key("Node", "", name)
        taints = [*((self.autoscaler.host.store.require(key).get("spec") or {}).get("taints") or ())]
        taints.append({"key": TO_BE_DELETED, "value": str(loop.now_us // SECOND_US), "effect": "NoSchedule"})
        self.autoscaler.host.store.patch(key, {"spec": {"taints": taints, "unschedulable": True}})
        self.autoscaler.tell(key, events.marked())
        self.autoscaler.tell(STATUS, events.removing(name, node.utilization, [name_of(p) for p in node.pods]))
        self.going[name] = Going(node.group, loop.now_us, bool(node.pods))
        loop.at(loop.now_us + self.autoscaler.plan.options.delete_delay_us, self._h_drain, name, CONTROLLERS)

    def _on_drain(self, name: str) -> None:
        """Evict until nobody is left, then delete the machine; where that takes too long give the node back."""
        loop, options = self.autoscaler.host.loop, self.autoscaler.plan.options
        key, going = Key("Node", "", name), self.going.get(name)
        if going is None or self.autoscaler.host.store.get(key) is None:
            return
        found = (self.autoscaler.host.store.get(k) for k in pods_on(self.autoscaler.host, name))
        pods = [p for p in found if p is not None and not _is_over(p)]
        left = [p for p in pods if not is_of_daemon_set(p)]
        started_us = going.since_us + options.delete_delay_us
        is_first = loop.now_us == started_us
        if is_first or going.refused:
            self._evict([p for p in pods if _is_let_go(p, by_default=going.drains)], is_first=is_first)
        if not left:
            self._removed(key, going)
        elif going.refused and loop.now_us - started_us >= options.most_eviction_us:
            self._blocked(key, going)
        else:
            self._await(name, going, self._evict(left, is_first=is_first, counts=True))

    def _await(self, name: str, going: Going, refused: tuple[tuple[Key, str], ...]) -> None:
        """Those who may not go are asked again; all others have their time to end."""
        loop = self.autoscaler.host.loop
        if refused:
            self.going[name] = going._replace(refused=refused)
            loop.at(loop.now_us + EVICT_EVERY_US, self._h_drain, name, CONTROLLERS)
            return
        evicted_us = loop.now_us if going.evicted_us < 0 else going.evicted_us
        self.going[name] = going._replace(evicted_us=evicted_us, refused=())
        if loop.now_us - evicted_us >= self.autoscaler.plan.options.most_graceful_s * SECOND_US + HEADROOM_US:
            self._give_back(Key("Node", "", name), events.not_drained(name))
        else:
            loop.at(loop.now_us + GONE_EVERY_US, self._h_drain, name, CONTROLLERS)

    def _evict(self, pods: list[Obj], *, is_first: bool, counts: bool = False) -> tuple[tuple[Key, str], ...]:
        """Tell those to go that were not told yet; who may not, with the API server's answer."""
        store, refused = self.autoscaler.host.store, []
        most_s = self.autoscaler.plan.options.most_graceful_s
        for pod in pods:
            if "deletionTimestamp" in meta_of(pod):
                continue
            key, own_s = key_of(pod), (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
            if is_first:
                self.autoscaler.tell(key, events.evicting())
            decided = evict(
                store,
                key,
                self.autoscaler.host.loop.now_us,
                grace_s=min(30 if own_s is None else own_s, most_s),
            )
            for action in decided.actions:
                perform(store, action)
            if not decided.is_allowed:
                refused.append((key, decided.message))
            elif counts:
                metrics.evicted(self.autoscaler.tally, allowed=True)
        return tuple(refused)

    def _blocked(self, key: Key, going: Going) -> None:
        """Some pods could not be evicted in time."""
        for pod, _ in going.refused:
            self.autoscaler.tell(pod, events.not_deleted())
            metrics.evicted(self.autoscaler.tally, allowed=False)
        said = [(f"{pod.namespace}/{pod.name}", why) for pod, why in going.refused]
        self._give_back(key, events.not_evicted(key.name, said))

    def _removed(self, key: Key, going: Going) -> None:
        self.autoscaler.targets[going.group] -= 1
        metrics.shrank(self.autoscaler.tally, self.autoscaler.group(going.group), drained=going.drains)
        about_node, about_all = events.removed(key.name, drained=going.drains)
        self.autoscaler.tell(key, about_node)
        self._delete(key)
        self.autoscaler.tell(STATUS, about_all)
        self.autoscaler.wake()

    def _give_back(self, key: Key, told: Told) -> None:
        self._untaint(key)
        self.autoscaler.tell(key, told)
        self.going.pop(key.name, None)
        self.autoscaler.since_us.pop(key.name, None)
        self.autoscaler.failed_us = self.autoscaler.host.loop.now_us
        self.autoscaler.wake()

    def _untaint(self, key: Key) -> None:
        node = self.autoscaler.host.store.require(key)
        taints = [t for t in (node.get("spec") or {}).get("taints") or () if t["key"] != TO_BE_DELETED]
        self.autoscaler.host.store.patch(key, {"spec": {"taints": taints or None, "unschedulable": None}})

    def _delete(self, key: Key) -> None:
        perform(self.autoscaler.host.store, Delete(key))


def _is_over(pod: Obj) -> bool:
    """It ended, or is the node's own: nobody waits for it, or asks it to go."""
    return is_mirror(pod) or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _is_let_go(pod: Obj, *, by_default: bool) -> bool:
    """A DaemonSet's pod that is evicted, if that is possible: of a node with others' pods, unless it says otherwise.

    Source: utils/daemonset/daemonset.go PodsToEvict.
    """
    said = annotations_of(pod).get(DAEMON_EVICTION)
    return is_of_daemon_set(pod) and (by_default if said is None else said == "true")
