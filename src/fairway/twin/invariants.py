"""What must hold in a twin at any time, checked by recounting. O(nodes + pods that run).

The cheap half of it is asserted as things happen (a node's use never falls below zero, the clock never goes
back); a twin runs this other half now and then, and at the end of long runs.
"""

from __future__ import annotations

from fairway.errors import BugError
from fairway.kube.objects import Key
from fairway.twin.components import Host
from fairway.twin.kubelet.component import Kubelet


class InvariantBroken(BugError):
    """Something that cannot be true is."""


def check(host: Host) -> None:
    """Raises: InvariantBroken, naming the first thing that is wrong."""
    kubelet = host.parts.get("kubelet")
    if isinstance(kubelet, Kubelet):
        _check_pods(kubelet)
        _check_nodes(kubelet)
        _check_accounts(host, kubelet)


def _check_nodes(kubelet: Kubelet) -> None:
    for node in kubelet.nodes.values():
        used: dict[str, int] = {}
        for uid in node.pods:
            for name, amount in kubelet.pods[uid].plan.requests:
                used[name] = used.get(name, 0) + amount
        left = {name: amount for name, amount in node.used.items() if amount}
        if left != {name: amount for name, amount in used.items() if amount}:
            raise InvariantBroken(f"node {node.name} counts {left} in use, its pods ask for {used}")
        for name, amount in used.items():
            limit = (node.allocatable or {}).get(name)
            if limit is not None and amount > limit and not node.is_shrunk:
                raise InvariantBroken(f"node {node.name} has {amount} of {limit} {name} in use")


def _check_accounts(host: Host, kubelet: Kubelet) -> None:
    """What is bound to a node fits it. Pods that were bound past the scheduler and wait for a dead kubelet's
    verdict, nodes that shrank, and wishes for more that no kubelet has granted yet, are let off."""
    accounts = host.store.accounts
    over = (accounts.requested > accounts.allocatable).any(axis=1) & accounts.alive
    for row in over.nonzero()[0].tolist():
        name = accounts.names[row]
        node = kubelet.nodes.get(name)
        is_owed = node is None or node.is_shrunk or node.unseen or not node.is_up
        if not is_owed and not accounts.has_resizes(row):
            taken, there = accounts.requested[row].tolist(), accounts.allocatable[row].tolist()
            raise InvariantBroken(f"node {name} is over-allocated: {accounts.columns}: {taken} of {there}")


def _check_pods(kubelet: Kubelet) -> None:
    """Every pod that runs has its place on the node it runs on, and nodes know no others."""
    for pod in kubelet.pods.values():
        if pod.node not in kubelet.nodes or pod.uid not in kubelet.nodes[pod.node].pods:
            raise InvariantBroken(f"{pod.key} runs on {pod.node}, which does not know it")
    placed = sum(len(node.pods) for node in kubelet.nodes.values())
    if placed != len(kubelet.pods):
        raise InvariantBroken(f"nodes know {placed} pods, {len(kubelet.pods)} run")


def unexplained(host: Host) -> list[Key]:
    """Pods that have not ended and about which nobody can say why: of an idle twin, none should be left.

    Explained are: pods of a kubelet; pods that wait for a node, with a PodScheduled condition saying why; pods
    bound to a node that is silent, gone or not simulated.
    """
    kubelet = host.parts.get("kubelet")
    if not isinstance(kubelet, Kubelet):
        return []
    found = []
    for obj in host.store.objects("Pod"):
        meta, status = obj["metadata"], obj.get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed") or meta["uid"] in kubelet.pods:
            continue
        node = (obj.get("spec") or {}).get("nodeName")
        if node:
            state = kubelet.nodes.get(node)
            if state is None or not (state.is_up and state.is_reachable):
                continue
        elif any(c.get("type") == "PodScheduled" and c.get("reason") for c in status.get("conditions") or ()):
            continue
        found.append(Key("Pod", meta.get("namespace", ""), meta["name"]))
    return found
