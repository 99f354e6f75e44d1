"""Emptying a node: who is evicted next?

Pods of workloads first, then those of DaemonSets. A pod that must not be disrupted, and one whose budget refuses,
holds the node up until the claim's termination grace period is over; then it is deleted.

Source: node/termination/terminator/terminator.go. Unlike kube: critical pods are not kept for last.
"""

from __future__ import annotations

from fairway.cluster.actions import perform
from fairway.cluster.errors import ApiError
from fairway.kube.objects import Obj, key_of, meta_of
from fairway.kube.taints import is_tolerated, parse_tolerations
from fairway.provisioning.karpenter.disruption.evictions import DISRUPTED, is_do_not_disrupt
from fairway.provisioning.karpenter.podfacts import is_owned_by
from fairway.twin.components import Host
from fairway.twin.nodelifecycle import pods_on
from fairway.workloads.disruption.eviction import evict


def drain(host: Host, node: str, *, forced: bool) -> bool:
    """Evict who may go; whether nobody is left to wait for."""
    pods = [p for key in pods_on(host, node) if (p := host.store.get(key)) is not None and _holds_up(p)]
    first = [p for p in pods if not is_owned_by(p, "DaemonSet")]
    for pod in first or pods:
        if "deletionTimestamp" not in meta_of(pod):
            _evict(host, pod, forced=forced)
    return not pods


def _holds_up(pod: Obj) -> bool:
    tolerations = parse_tolerations((pod.get("spec") or {}).get("tolerations"))
    phase = (pod.get("status") or {}).get("phase")
    return (
        phase not in ("Succeeded", "Failed")
        and not is_owned_by(pod, "Node")
        and not is_tolerated(DISRUPTED, tolerations)
    )


def _evict(host: Host, pod: Obj, *, forced: bool) -> None:
    key, now_us = key_of(pod), host.loop.now_us
    if forced:
        try:
            host.store.delete(key)
        except ApiError as gone:
            if gone.code != 404:
                raise
    elif not is_do_not_disrupt(pod, now_us):
        for action in evict(host.store, key, now_us).actions:
            perform(host.store, action)
