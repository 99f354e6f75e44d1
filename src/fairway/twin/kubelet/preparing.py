"""What keeps a pod from its sandbox: a claim that is not its own, or that its driver cannot prepare yet.

A pod that was bound by hand, or by a scheduler that knows nothing of claims, has none reserved. Of drivers it is that
of ComputeDomains' channels that takes time. Its plugin labels the node for the domain, whose daemon comes there by
that, and tries again until it is ready: after a quarter of a second, twice as long every time, up to three. After 45
s it gives up, the kubelet says so and comes back.

Source: kubernetes-sigs/dra-driver-nvidia-gpu cmd/compute-domain-kubelet-plugin (device_state.go, driver.go),
pkg/workqueue; pkg/kubelet/cm/dra/manager.go, pkg/kubelet/kuberuntime SyncPod, pod_workers.go backOffPeriod (v1.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairway.cluster.changes import Change
from fairway.kube import computedomains as words
from fairway.kube.objects import Key, Obj, labels_of, meta_of, spec_of
from fairway.kube.resourceclaims import CLAIM, is_for_pod, is_reserved_for, not_owned, pod_claims
from fairway.kube.timestamps import SECOND_US
from fairway.twin.kubeevents import WARNING
from fairway.twin.kubelet.states import PodState
from fairway.twin.loop import NO_TIME

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

_REASON: Final = "FailedPrepareDynamicResources"
_PATIENCE_US: Final = 45 * SECOND_US
"""ErrorRetryMaxTimeout."""
_SYNC_US: Final = 10 * SECOND_US
_FIRST_US, _LONGEST_US = SECOND_US // 4, 3 * SECOND_US


def waits_for_claims(k: Kubelet, pod: PodState, obj: Obj) -> bool:
    """Whether a claim of it cannot be prepared now. Then the pod is begun once it can."""
    if not spec_of(obj).get("resourceClaims"):
        return False
    why = _obstacle(k, pod, obj)
    if why is None:
        return False
    pod.prepares_since_us = k.loop.now_us
    k.preparing[pod.uid] = None
    _wait(k, pod, why)
    k.report(pod)
    return True


def on_prepare(k: Kubelet, data: tuple[str, int]) -> bool:
    """It may be ready, or the patience of the driver or the pod is at its end; whether the pod can begin."""
    uid, since_us = data
    pod = k.pods.get(uid)
    if pod is None or pod.is_stopping or pod.is_lost or pod.prepares_since_us != since_us:
        if pod is None or pod.is_stopping or pod.is_lost:
            k.preparing.pop(uid, None)
        return False
    obj = k.store.get(pod.key)
    why = None if obj is None else _obstacle(k, pod, obj)
    if why is None:
        pod.prepares_since_us = NO_TIME
        k.preparing.pop(uid, None)
        return obj is not None
    now_us = k.loop.now_us
    if why and now_us >= since_us + _SYNC_US:
        pod.prepares_since_us = now_us
        _wait(k, pod, why)
    elif now_us >= since_us + _PATIENCE_US:
        said = "prepare dynamic resources: NodePrepareResources skipped 1 ResourceClaims"
        k.tell(pod.key, uid, WARNING, _REASON, f"Failed to prepare dynamic resources: {said}")
        pod.prepares_since_us = now_us + _SYNC_US
        _wait(k, pod, "")
    elif now_us == since_us + _SYNC_US:
        # What could not pass when it was asked about may do so now.
        k.loop.at(since_us + _PATIENCE_US, k.h_prepare, (uid, since_us))
    return False


def on_domain(k: Kubelet, _change: Change) -> None:
    """A domain or a clique is another: who waits for one is tried when its driver tries next."""
    now_us = k.loop.now_us
    for uid in list(k.preparing):
        pod = k.pods.get(uid)
        if pod is None or pod.prepares_since_us == NO_TIME:
            del k.preparing[uid]
        else:
            at_us = _next_try_us(pod.prepares_since_us, now_us)
            k.loop.at(at_us, k.h_prepare, (uid, pod.prepares_since_us))


def _wait(k: Kubelet, pod: PodState, why: str) -> None:
    """Until the driver gives up; what cannot pass is said at once, and again with every sync of the pod."""
    since_us = pod.prepares_since_us
    if why:
        k.tell(pod.key, pod.uid, WARNING, _REASON, f"Failed to prepare dynamic resources: {why}")
    k.loop.at(since_us + (_SYNC_US if why else _PATIENCE_US), k.h_prepare, (pod.uid, since_us))


def _next_try_us(since_us: int, now_us: int) -> int:
    at_us, delay_us = since_us, _FIRST_US
    while at_us < now_us and delay_us < _LONGEST_US:
        at_us += delay_us
        delay_us = min(2 * delay_us, _LONGEST_US)
    # What is later already is so by less than the longest delay: nothing is added to it.
    return at_us - (at_us - now_us) // _LONGEST_US * _LONGEST_US


def _obstacle(k: Kubelet, pod: PodState, obj: Obj) -> str | None:
    """Why a claim cannot be prepared: empty, where that may pass; None: nothing is in the way."""
    strange = _not_its_own(k, obj)
    if strange:
        return f"prepare dynamic resources: {strange}"
    for entry in pod_claims(obj):
        claim = k.store.get(Key(CLAIM, pod.key.namespace, entry.claim)) if entry.claim else None
        joining = None if claim is None else words.joining(claim)
        if claim is None or joining is None:
            continue
        said = _prepared(k, pod, joining.domain)
        if said is None:
            continue
        meta = meta_of(claim)
        who = f"{pod.key.namespace}/{meta['name']}:{meta['uid']}"
        failed = f"error preparing devices for claim '{who}': prepare devices failed: error applying config: {said}"
        driver = f"NodePrepareResources failed for ResourceClaim {meta['name']}: {failed}"
        return f"prepare dynamic resources: {driver}" if said else ""
    return None


def _not_its_own(k: Kubelet, pod: Obj) -> str:
    """Why the kubelet asks no driver at all. Source: PrepareResources."""
    meta = meta_of(pod)
    for entry in pod_claims(pod):
        if entry.claim is None:
            continue
        if not entry.claim:
            return f'pod "{meta["namespace"]}/{meta["name"]}": claim {entry.name} not created yet'
        claim = k.store.get(Key(CLAIM, meta["namespace"], entry.claim))
        if claim is None:
            return (
                f'fetch ResourceClaim {entry.claim}: resourceclaims.resource.k8s.io "{entry.claim}" not found'
            )
        if entry.is_made and not is_for_pod(pod, claim):
            return not_owned(pod, entry.claim)
        if not is_reserved_for(pod, claim):
            its = f"{entry.claim} ({meta_of(claim)['uid']})"
            return f"pod {meta['name']} ({meta['uid']}) is not allowed to use ResourceClaim {its}"
    return ""


def _prepared(k: Kubelet, pod: PodState, uid: str) -> str | None:
    """Label the node, and look whether its daemon is ready. A text: what never passes; empty: not yet; None: it is."""
    domain = k.store.by_uid(uid)
    asserting = "error asserting ComputeDomain's namespace"
    if domain is None or domain.get("kind") != "ComputeDomain":
        return f"{asserting}: ComputeDomain not found: {uid}"
    if meta_of(domain).get("namespace") != pod.key.namespace:
        return f"{asserting}: the ResourceClaim's namespace is different than the ComputeDomain's namespace"
    key = Key("Node", "", pod.node)
    node = k.store.get(key)
    if node is None:
        return ""
    label = labels_of(node).get(words.LABEL)
    if label is None:
        k.store.patch(key, {"metadata": {"labels": {words.LABEL: uid}}})
    elif label != uid:
        # Of another domain, until that gives the node back.
        return ""
    name = words.clique_name(uid, words.clique_of(node))
    clique = k.store.get(Key(words.CLIQUE, words.NAMESPACE, name))
    return None if words.is_ready_on(domain, clique, pod.node) else ""
