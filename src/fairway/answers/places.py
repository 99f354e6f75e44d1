"""Why does a node not empty, a NodePool open nothing, a queue admit nobody?

The same engines that would act are asked: the eviction API for every pod of the node, Karpenter and the Cluster
Autoscaler for their objections, Kueue for what heads its queues.
"""

from __future__ import annotations

from fairway.answers.explanation import (
    BLOCKED,
    NONE,
    NOTED,
    PASSED,
    PREEMPTION,
    PROVISIONING,
    QUEUE,
    WAITS,
    Explanation,
    Link,
)
from fairway.answers.naming import named, ref
from fairway.answers.queuelinks import queue_links
from fairway.ground import Moment
from fairway.kube.conditions import get_condition
from fairway.kube.objects import (
    Key,
    Obj,
    controller_of,
    key_of,
    meta_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from fairway.provisioning.clusterautoscaler.draining import blocking_pod, is_of_daemon_set
from fairway.provisioning.karpenter.disruption.evictions import budgets_of, why_not_evictable
from fairway.provisioning.karpenter.nodeclaims import limit_exceeded
from fairway.provisioning.karpenter.podfacts import is_provisionable
from fairway.queueing.control.pendingreasons import standing_of
from fairway.results.queuestate import cycle_options, state_of
from fairway.twin.nodegroups.component import ClusterAutoscaler
from fairway.twin.provisioner.component import Provisioner
from fairway.workloads.disruption.eviction import evict

_NAMED = 5
# Pods that one question puts to Karpenter's simulation.
_PODS_ASKED = 200


# Nodes


def node_explanation(moment: Moment, node: Obj) -> Explanation:
    """What keeps it from being emptied: by hand, by Karpenter, by the Cluster Autoscaler."""
    store, name = moment.store, name_of(node)
    row = store.accounts.row_of.get(name)
    there = [store.get(k) for k in sorted(store.accounts.pods[row])] if row is not None else []
    pods = [p for p in there if p is not None and not is_of_daemon_set(p)]
    links = [
        _drain(moment, pods),
        *_options_of_drain([p for p in there if p is not None]),
        *_disruption(moment, name, pods),
    ]
    blocked = next((link for link in links if link.state == BLOCKED), None)
    is_ready = get_condition(status_of(node).get("conditions"), "Ready")
    state = "Unschedulable" if spec_of(node).get("unschedulable") else "Ready"
    if is_ready is not None and is_ready.get("status") != "True":
        state = "NotReady"
    sentence = (
        f"Node {name} does not empty: {blocked.message}"
        if blocked is not None
        else f"Node {name} would empty: its {len(pods)} pods may all be evicted"
    )
    since = str(meta_of(node).get("creationTimestamp") or "")
    return Explanation(ref(key_of(node)), state, since, sentence, tuple(links), unknown=moment.notes)


def _drain(moment: Moment, pods: list[Obj]) -> Link:
    """Every pod put to the eviction API."""
    refused = []
    for pod in pods:
        decided = evict(moment.store, key_of(pod), moment.now_us)
        if not decided.is_allowed:
            refused.append(f"{meta_of(pod).get('namespace')}/{name_of(pod)}: {decided.message}")
    numbers = {"pods": len(pods), "not_evictable": len(refused)}
    if not refused:
        return Link(PREEMPTION, PASSED, "", f"all {len(pods)} pods may be evicted", numbers)
    said = f"{len(refused)} of {len(pods)} pods may not be evicted: {refused[0]}"
    return Link(PREEMPTION, BLOCKED, "TooManyRequests", said, numbers, tuple(refused[:_NAMED]))


def _options_of_drain(pods: list[Obj]) -> list[Link]:
    """What `kubectl drain` stops at unless it is told to go on. Source: kubectl pkg/drain/filters.go."""
    alive = [p for p in pods if status_of(p).get("phase") not in ("Succeeded", "Failed")]
    others = [p for p in alive if not is_of_daemon_set(p)]
    found = {
        "--ignore-daemonsets": [p for p in pods if is_of_daemon_set(p)],
        "--force": [p for p in others if controller_of(p) is None],
        "--delete-emptydir-data": [
            p for p in others if any("emptyDir" in v for v in spec_of(p).get("volumes") or ())
        ],
    }
    wanted = {option: some for option, some in found.items() if some}
    if not wanted:
        return []
    said = ", ".join(f"{option} ({len(some)} pods)" for option, some in wanted.items())
    details = tuple(
        f"{option}: {', '.join(f'{namespace_of(p)}/{name_of(p)}' for p in some[:_NAMED])}"
        for option, some in wanted.items()
    )
    return [
        Link(
            PREEMPTION,
            NOTED,
            "",
            f"kubectl drain asks for {said}",
            {o: len(s) for o, s in wanted.items()},
            details,
        )
    ]


def _disruption(moment: Moment, name: str, pods: list[Obj]) -> list[Link]:
    """What whoever opens and closes nodes has against closing this one."""
    budgets = budgets_of(moment.store.objects("PodDisruptionBudget.policy"))
    links = []
    parts = moment.twin.host.parts
    if isinstance(parts.get("karpenter"), Provisioner) and moment.store.get(
        Key("NodeClaim.karpenter.sh", "", name)
    ):
        why = why_not_evictable(pods, budgets, moment.now_us)
        message = "Karpenter may disrupt it" if why is None else f"Karpenter: {why}"
        links.append(
            Link(
                PROVISIONING, PASSED if why is None else BLOCKED, "DisruptionBlocked" if why else "", message
            )
        )
    for part in parts.values():
        if isinstance(part, ClusterAutoscaler):
            blocking = blocking_pod(pods, budgets, part.plan.options, moment.now_us)
            if blocking is not None:
                links.append(
                    Link(PROVISIONING, BLOCKED, "NoScaleDown", f"the Cluster Autoscaler: {blocking}")
                )
    return links


# NodePools


def pool_explanation(moment: Moment, pool: Obj) -> Explanation:
    """Why it opens nothing: nobody asks, its limit, or what is asked it cannot give."""
    name = name_of(pool)
    link = _pool_link(moment, name)
    ready = get_condition(status_of(pool).get("conditions"), "Ready") or {}
    state = "NotReady" if ready.get("status") == "False" else "Ready"
    if state == "NotReady":
        link = Link(
            PROVISIONING,
            BLOCKED,
            str(ready.get("reason") or ""),
            str(ready.get("message") or "it is not Ready"),
        )
    sentence = f"NodePool {name} {'opens nothing' if link.state != WAITS else 'opens nodes'}: {link.message}"
    since = str(meta_of(pool).get("creationTimestamp") or "")
    return Explanation(ref(key_of(pool)), state, since, sentence, (link,), unknown=moment.notes)


def _pool_link(moment: Moment, name: str) -> Link:
    karpenter = moment.twin.host.parts.get("karpenter")
    if not isinstance(karpenter, Provisioner):
        return Link(PROVISIONING, BLOCKED, "", "no Karpenter runs here that would work for it")
    world = karpenter.world(is_to_place=True)
    pool = next((p for p in world.pools if p.name == name), None)
    if pool is None:
        return Link(PROVISIONING, BLOCKED, "", "Karpenter does not use it: it is not Ready, or being deleted")
    over = limit_exceeded(pool, world.nodes.usage().get(name, {}))
    if over is not None:
        return Link(PROVISIONING, BLOCKED, "LimitExceeded", over)
    waiting = [p for p in moment.store.objects("Pod") if is_provisionable(p)][:_PODS_ASKED]
    if not waiting:
        return Link(
            PROVISIONING, NOTED, "", "no pod waits that the scheduler found no node for", {"pending": 0}
        )
    results = karpenter.asked(waiting)
    mine = [plan for plan in results.claims if plan.pool.name == name]
    numbers = {"pending": len(waiting), "refused": len(results.refused), "opens": len(mine)}
    if mine:
        said = f"{len(mine)} for {sum(len(p.pods) for p in mine)} pods, the first a {mine[0].type_names[0]}"
        return Link(PROVISIONING, WAITS, "Nominated", said, numbers)
    if results.refused:
        facts, why = results.refused[0]
        said = f"{len(results.refused)} of {len(waiting)} waiting pods cannot be helped: {facts.name}: {why}"
        return Link(PROVISIONING, BLOCKED, "FailedScheduling", said, numbers)
    others = sorted({plan.pool.name for plan in results.claims})
    said = f"other pools are preferred ({', '.join(others)})" if others else "the nodes that are there do"
    return Link(PROVISIONING, NOTED, "", said, numbers)


# Queues


def queue_explanation(moment: Moment, key: Key) -> Explanation:
    """Whether it is active, who is next, and what keeps that one."""
    obj = moment.store.require(key)
    state = state_of(moment.twin)
    backlog = state.backlog
    is_local = key.gk.startswith("LocalQueue")
    name = key.name
    if is_local:
        name = backlog.cluster_queue_of(f"{key.namespace}/{key.name}") or ""
    account = backlog.accounts.queues.get(name)
    links: list[Link] = []
    if account is None:
        said = f"ClusterQueue {spec_of(obj).get('clusterQueue') or name} doesn't exist"
        links.append(Link(QUEUE, BLOCKED, "ClusterQueueDoesNotExist", said))
    elif not backlog.is_queue_active(name):
        why = account.inactivity
        said = f"ClusterQueue {name} is inactive" if why is None else why.message
        links.append(Link(QUEUE, BLOCKED, "" if why is None else why.reason, said))
    else:
        pending = backlog.pending.queues.get(name)
        order = [] if pending is None else pending.in_order(state.usage if pending.by_usage else None)
        mine = [w for w in order if not is_local or w.queue == f"{key.namespace}/{key.name}"]
        held = backlog.held_in(name)
        numbers = {"pending": len(mine), "reserving": held.reserving, "admitted": held.admitted}
        links.append(Link(QUEUE, PASSED, "", f"{len(mine)} wait, {held.admitted} are admitted", numbers))
        if mine:
            standing = standing_of(backlog, cycle_options(state), mine[0].obj, state.usage)
            links += queue_links(state, mine[0].obj, standing)
            links[1:2] = [Link(QUEUE, NOTED, "", f"the first is {mine[0].key}")]
    blocked = next((link for s in (BLOCKED, WAITS) for link in links if link.state == s), None)
    what = f"{named(obj)} admits nobody" if blocked is not None else f"{named(obj)} keeps nobody waiting"
    sentence = what if blocked is None else f"{what}: {blocked.message}"
    since = str(meta_of(obj).get("creationTimestamp") or "")
    written = f"{key.namespace}/{ref(key)}" if key.namespace else ref(key)
    is_open = "Active" if account is not None and backlog.is_queue_active(name) else "Inactive"
    return Explanation(written, is_open, since, sentence, tuple(links), unknown=moment.notes)


__all__ = ["NONE", "node_explanation", "pool_explanation", "queue_explanation"]
