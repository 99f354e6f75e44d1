"""Karpenter on the loop: batches, launches, registers, disrupts, drains.

Everything is data by name: which claims boot, which nodes a command is taking away, until when a node is promised.
Decisions are made anew each time from the store.

Unlike kube: pods that fit nowhere are looked at again when something changed, not every ten seconds; and the
disruption loop rests while nothing changes and no consolidateAfter runs, so that a twin comes to an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fairway.cluster.actions import Delete, perform
from fairway.cluster.changes import DELETED, MODIFIED, Change
from fairway.kube.conditions import without_condition
from fairway.kube.objects import Key, Obj, key_of, labels_of, meta_of, name_of, spec_of
from fairway.kube.resources import parse_resources
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.provisioning.karpenter.batching import Batch
from fairway.provisioning.karpenter.claimfacts import CONSOLIDATABLE
from fairway.provisioning.karpenter.disruption.marks import consolidatable_at_us
from fairway.provisioning.karpenter.events import (
    FAILED_SCHEDULING,
    KarpenterEvent,
    failed_scheduling,
    insufficient_capacity,
    no_compatible_types,
    nominated,
)
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.labels import (
    INITIALIZED,
)
from fairway.provisioning.karpenter.launching import UNAVAILABLE_US, launch_choices, no_capacity_text
from fairway.provisioning.karpenter.nodeclaims import (
    DRIFTED,
    INITIALIZED_CONDITION,
    launched,
    limit_exceeded,
    node_claim,
    not_initialized,
    with_condition,
)
from fairway.provisioning.karpenter.nodepools import node_pool
from fairway.provisioning.karpenter.nodes import Usage, add_usage
from fairway.provisioning.karpenter.packing import Results, Solver
from fairway.provisioning.karpenter.planned import PlannedClaim
from fairway.provisioning.karpenter.podfacts import Shapes, facts_of, is_provisionable
from fairway.provisioning.karpenter.unplaceable import Unplaceable
from fairway.provisioning.karpenter.volumetopology import WATCHED as VOLUMES
from fairway.provisioning.karpenter.world import World
from fairway.twin.components import Host
from fairway.twin.containment import culprits
from fairway.twin.loop import CONTROLLERS, HOUSEKEEPING
from fairway.twin.provisioner import metrics, spot
from fairway.twin.provisioner.cloud import Cloud, Offered, fleet_without, offered_of
from fairway.twin.provisioner.disrupting import Disruption
from fairway.twin.provisioner.gathering import (
    NODE_CLAIM,
    NODE_POOL,
    POLL_US,
    ClusterState,
    by_claims,
    claim_key,
    is_pod_event,
    machines_of,
    moving_pods,
    node_key,
)
from fairway.twin.provisioner.joining import Joining
from fairway.twin.provisioner.speaking import Speaker
from fairway.twin.provisioner.terminating import Termination

NAME: Final = "karpenter"
# Source: nodeclaim/podevents/controller.go dedupeTimeout.
POD_EVENTS_APART_US: Final = 10 * SECOND_US
NOMINATED_US: Final = 20 * SECOND_US
# How many kinds of pods are remembered from batch to batch.
_MOST_SHAPES: Final = 1024
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class Provisioner:
    """Karpenter."""

    name = NAME
    kinds: tuple[str, ...] = ("Pod", "Node", NODE_CLAIM, NODE_POOL, *VOLUMES)

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.batch: Batch | None = None
        self.pending: dict[Key, None] = {}
        """Pods that the scheduler found no place for."""
        self.promised: dict[str, int] = {}
        """Nodes that pods are meant for, until when."""
        self.unavailable: dict[Offered, int] = {}
        self.joining = Joining()
        self.termination = Termination()
        self.disruption = Disruption()
        self.whole_fleet = Fleet(cloud.types)
        self._seen_fleet = (frozenset[Offered](), self.whole_fleet)
        self._shapes = Shapes()
        self._words = Speaker()
        self.tally = metrics.new_tally()
        self.refused = self.ignored = 0
        """Pods that found no place in the last simulation, and those that were left out of it."""
        self._in_vain = Unplaceable()
        self._launched = 0
        """Machines launched so far: the n-th boots as long under every policy."""

    def attach(self, host: Host) -> None:
        self.host = host
        self.known = ClusterState(host.store, self._leave_pool_out)
        self._words.attach(host)
        register = host.loop.register
        self._h_batch = register("karpenter.batch", self._on_batch)
        self._h_pod = host.register_again("karpenter.pod", self._on_pod)
        self._h_pool = register("karpenter.pool", self._on_pool)
        self.termination.attach(self)
        self.disruption.attach(self)
        self.joining.attach(self)
        self._h_again = register("karpenter.again", self._on_again)
        self._names = host.streams.stream("karpenter.names")

    def start(self) -> None:
        """Pods start it; where it ran before, machines are on their way."""
        self.joining.resume()

    def fork(self) -> Provisioner:
        twin = Provisioner(self.cloud)
        twin.batch = None if self.batch is None else self.batch.copy()
        twin.pending = dict(self.pending)
        twin.promised, twin.unavailable = dict(self.promised), dict(self.unavailable)
        twin.termination, twin.disruption = self.termination.copy(), self.disruption.copy()
        twin._launched = self._launched
        twin.whole_fleet, twin._seen_fleet = self.whole_fleet, self._seen_fleet
        twin._words, twin.tally, twin.refused = self._words.copy(), self.tally.copy(), self.refused
        twin.ignored = self.ignored
        return twin

    # What changes

    def observe(self, change: Change) -> None:
        gk = change.key.gk
        if gk == "Pod":
            self._observe_pod(change)
        elif gk == NODE_CLAIM:
            self._observe_claim(change)
        elif gk == "Node":
            self._observe_node(change)
        elif gk in VOLUMES:
            self._trigger_pending()
        else:
            self.disruption.marks.stale.update(
                dict.fromkeys(name_of(c) for c in self.host.store.objects(NODE_CLAIM))
            )
            self.disruption.changed()
            self._look_again()

    def _observe_pod(self, change: Change) -> None:
        pod = change.obj
        node = spec_of(pod).get("nodeName")
        if not node and change.type != DELETED and is_provisionable(pod):
            self.pending[change.key] = None
            self._trigger((change.key,))
        else:
            self.pending.pop(change.key, None)
        was = "" if change.old is None else spec_of(change.old).get("nodeName")
        if change.type == DELETED or (node and not was):
            self.disruption.changed()
        if node:
            self._trigger_pending()
            if is_pod_event(change):
                self._pod_event(node)

    def _pod_event(self, node: str) -> None:
        """A pod came to a node or left it: its consolidateAfter starts anew."""
        claim, now_us = self.known.claim(node), self.host.loop.now_us
        if claim is None:
            return
        last_us = claim.last_pod_event_us
        if last_us is not None and now_us - last_us < POD_EVENTS_APART_US:
            return
        status = {**(claim.object.get("status") or {}), "lastPodEventTime": rfc3339(now_us)}
        if claim.is_true(CONSOLIDATABLE):
            status["conditions"] = without_condition(status.get("conditions"), CONSOLIDATABLE)
        written = self.host.store.set_status(claim_key(node), status)
        self._let_rest(node, written)

    def _let_rest(self, name: str, written: Obj) -> None:
        """Of a claim that had a pod event most need no look: it is not due for a while, and did not drift."""
        marks, claim = self.disruption.marks, self.known.claim(name)
        if claim is not None and not claim.is_going and not claim.is_true(DRIFTED):
            pool = self.known.pool_named(claim.pool)
            due_us = None if pool is None else consolidatable_at_us(claim, pool)
            if due_us is not None and due_us > self.host.loop.now_us + POLL_US:
                marks.rest(name, written, due_us)
                return
        marks.stale[name] = None

    def _observe_claim(self, change: Change) -> None:
        name = change.key.name
        if change.type != MODIFIED:
            self.disruption.changed()
        if change.type != DELETED:
            is_news = self.disruption.marks.hear(change.obj)
            if is_news or self.disruption.marks.ripe:
                self.disruption.rouse()
            elif (due_us := self.disruption.marks.due_us) is not None:
                self.disruption.arm(due_us)
        if change.type == DELETED:
            self.promised.pop(name, None)
            self.disruption.marks.forget(name)
            self.disruption.is_gone(name)
            self.disruption.replacement_is_gone(change.obj)
            self._look_again()
        elif "deletionTimestamp" in meta_of(change.obj) and name not in self.termination.since_us:
            self.disruption.changed()
            self.disruption.taint(name, on=True)
            self.termination.begin(name)

    def _observe_node(self, change: Change) -> None:
        if change.type != MODIFIED:
            self.disruption.changed()
        claim = self.known.claim(change.key.name)
        if claim is None:
            return
        if change.type == DELETED:
            self.finish(change.key.name)  # the machine is gone: garbage collection of its claim
        elif not claim.is_true(INITIALIZED_CONDITION):
            self._initialize(change.key.name)

    def _look_again(self) -> None:
        self.disruption.rouse()
        self._trigger_pending()

    def _trigger_pending(self) -> None:
        if self.pending:
            self._trigger(self.pending)

    def pending_pods(self) -> list[Obj]:
        found = (self.host.store.get(key) for key in sorted(self.pending))
        return [p for p in found if p is not None and is_provisionable(p)]

    # Provisioning

    def _trigger(self, pods: Iterable[Key]) -> None:
        loop = self.host.loop
        if self.batch is None:
            self.batch = Batch(loop.now_us)
            loop.at(self.batch.ends_us(), self._h_batch, None, CONTROLLERS)
        self.batch.ask(pods, loop.now_us)

    def _on_batch(self, _data: None) -> None:
        loop, batch = self.host.loop, self.batch
        if batch is None:
            return
        if batch.ends_us() > loop.now_us:
            loop.at(batch.ends_us(), self._h_batch, None, CONTROLLERS)
            return
        self.batch = None
        self._provision()

    def world(self, *, is_to_place: bool = False) -> World:
        now_us = self.host.loop.now_us
        self.unavailable = {o: until for o, until in self.unavailable.items() if until > now_us}
        fleet = self._fleet(frozenset(self.unavailable))
        going = self.disruption.going() | dict.fromkeys(self.termination.since_us)
        return self.known.world(
            fleet, going=going, nominated=self.promised, now_us=now_us, is_to_place=is_to_place
        )

    def _fleet(self, unavailable: frozenset[Offered]) -> Fleet:
        """Kept while the same offerings are out: a fleet remembers what it was asked."""
        if self._seen_fleet[0] != unavailable:
            self._seen_fleet = (unavailable, fleet_without(self.cloud.types, unavailable))
        return self._seen_fleet[1]

    def _provision(self) -> None:
        world = self.world(is_to_place=True)
        if not world.pools:
            return
        waiting, refused = by_claims(self.host.store, self.pending_pods())
        self.ignored = len(refused)
        for pod, problem in refused:
            self.tell(key_of(pod), failed_scheduling(problem))
        moving = moving_pods(self.host.store, world)
        if not waiting and not moving:
            return
        results = self._solved(world.without_going(), waiting, moving)
        self.refused = len(results.refused)
        for pool, filtered in results.unusable_pools:
            event = no_compatible_types(min_values=bool(filtered.min_values))
            self.tell(Key(NODE_POOL, "", pool), event)
        for facts, why in results.refused:
            if not self._words.is_quiet(FAILED_SCHEDULING, facts.uid):
                self._tell_pod(facts.namespace, facts.name, failed_scheduling(why))
        for node, placed in results.pods_on:
            self._promise(node.name)
            for facts in placed:
                event = nominated(node.claim, node.name if node.has_node else "")
                self._tell_pod(facts.namespace, facts.name, event)
        used = world.nodes.usage()
        for plan in results.claims:
            self.create(plan, used)

    def _solved(self, world: World, waiting: list[Obj], moving: list[Obj]) -> Results:
        """Without pods that the solver stumbles over: they are tried again later."""
        try:
            results = self._simulated(world, waiting, moving)
        except Exception:
            odd = culprits(waiting, lambda pods: self._simulated(world, list(pods), []))
            if not odd:
                raise
            for pod, why in odd:
                self.pending.pop(key_of(pod), None)
                self.host.contain(self._h_pod, key_of(pod), why)
            left_out = {key_of(pod) for pod, _ in odd}
            return self._solved(world, [p for p in waiting if key_of(p) not in left_out], moving)
        if self.host.containment is not None:
            for pod in waiting:
                self.host.went_well(self._h_pod, key_of(pod))
        return results

    def _on_pod(self, key: Key) -> None:
        """A pod that the solver stumbled over, once more."""
        pod = self.host.store.get(key)
        if pod is not None and is_provisionable(pod):
            self.pending[key] = None
            self._trigger([key])

    def _leave_pool_out(self, pool: Obj, failed: Exception) -> None:
        self.host.contain(self._h_pool, key_of(pool), failed)

    def _on_pool(self, key: Key) -> None:
        """A pool that could not be read, once more."""
        pool = self.host.store.get(key)
        if pool is not None:
            node_pool(pool)
            self.known.forget_pools()
            self._trigger_pending()

    def _simulated(self, world: World, waiting: list[Obj], moving: list[Obj]) -> Results:
        """Where pods that wait and pods that have to move would go."""
        shapes = self.shapes_so_far()

        def simulate(pods: Sequence[Obj]) -> Results:
            solver = Solver(world, shapes, moving=[meta_of(p)["uid"] for p in pods])
            found = (shapes.of(p, world.volumes.get(meta_of(p)["uid"], ())) for p in pods)
            return solver.solve([facts_of(p, shape) for p, shape in zip(pods, found, strict=True)])

        if moving:
            return simulate([*waiting, *moving])
        return self._in_vain.results(world, waiting, simulate)

    def asked(self, pods: list[Obj]) -> Results:
        """Where these pods would go, nodes to be opened included, had they been waiting alone. Nothing is changed."""
        shapes = Shapes()
        solver = Solver(self.world().without_going(), shapes)
        return solver.solve([facts_of(p, shapes.of(p, ())) for p in pods])

    def shapes_so_far(self) -> Shapes:
        """Pods of one kind come again and again; not for ever."""
        if len(self._shapes) > _MOST_SHAPES:
            self._shapes = Shapes()
        return self._shapes

    def _promise(self, node: str) -> None:
        """Pods are meant for it: for a while it is no candidate."""
        self.promised[node] = self.host.loop.now_us + NOMINATED_US
        self.known.touch(node)

    def create(self, plan: PlannedClaim, used: Usage, reason: str = metrics.PROVISIONED) -> str | None:
        """Write a claim and launch it; its name, or None where nothing was to be had. `used` is kept up to date."""
        # As it is now: a decision to disrupt is older. Source: provisioner.go Create.
        pool = self.known.pool_named(plan.pool.name)
        if pool is None or limit_exceeded(pool, used.get(pool.name, {})) is not None:
            return None
        name = f"{plan.pool.name}-{''.join(self._names.choice(_LETTERS) for _ in range(5))}"
        claim = self.host.store.create(node_claim(plan, name))
        metrics.created(self.tally, claim, reason)
        for facts in plan.pods:
            self._tell_pod(facts.namespace, facts.name, nominated(name))
        if not self._launch(claim):
            return None
        made = self.host.store.require(claim_key(name))
        add_usage(used, plan.pool.name, parse_resources(made["status"]["capacity"]))
        return name

    def _launch(self, claim: Obj) -> bool:
        """The cheapest offering that is in stock; what is not is left out for three minutes."""
        now_us, name = self.host.loop.now_us, name_of(claim)
        fleet = self._fleet(frozenset(self.unavailable))
        for kind, offering in launch_choices(claim, {t.name: t for t in fleet.types}).choices:
            offered = (kind.name, offering.zone, offering.capacity_type)
            if not self.cloud.has(offered, lambda: map(offered_of, machines_of(self.host.store)), now_us):
                self.mark_unavailable(offered)
                continue
            up = launched(claim, kind, offering, f"twin:///{offering.zone}/{name}", now_us)
            self.host.store.replace(up)
            self.host.store.set_status(key_of(up), up["status"])
            self._launched += 1
            self.host.launches.begin(name, now_us, labels_of(up), kind.capacity)
            luck = self.host.streams.draw_for("karpenter.boot", str(self._launched))
            boot_us = self.cloud.boot_of(kind.name).at_quantile(luck)
            self.joining.boot(name, boot_us)
            return True
        self.tell(key_of(claim), insufficient_capacity(name, no_capacity_text()))
        metrics.not_launched(self.tally, claim, self.cloud)
        self.remove(claim_key(name))
        self._look_again()
        return False

    def mark_unavailable(self, offered: Offered) -> None:
        """Left out for a while; whoever waits is looked at again when that is over."""
        until_us = self.host.loop.now_us + UNAVAILABLE_US
        self.unavailable[offered] = until_us
        self.host.loop.at(until_us, self._h_again, None, HOUSEKEEPING)

    def _on_again(self, _data: None) -> None:
        self._trigger_pending()

    def spot_notice(self, node: str) -> bool:
        return spot.notice(self, node)

    def spot_hint(self, node: str) -> None:
        spot.hint(self, node)

    def _initialize(self, name: str) -> None:
        claim, node = self.host.store.require(claim_key(name)), self.host.store.get(node_key(name))
        why = not_initialized(claim, node)
        now_us = self.host.loop.now_us
        if why is not None or node is None:
            return
        up = with_condition(claim, INITIALIZED_CONDITION, "True", INITIALIZED_CONDITION, "", now_us)
        self.host.store.set_status(claim_key(name), up["status"])
        self.host.store.patch(node_key(name), {"metadata": {"labels": {INITIALIZED: "true"}}})
        self.disruption.changed()
        self.disruption.carry_on()
        self._look_again()

    def finish(self, name: str) -> None:
        """The instance is gone: nothing holds its claim any more."""
        self.termination.since_us.pop(name, None)
        self.host.launches.lose(name, self.host.loop.now_us)
        claim = self.host.store.get(claim_key(name))
        if claim is not None:
            metrics.terminated(self.tally, claim, self.host.loop.now_us)
            self.host.store.set_finalizers(claim_key(name), [])
            self.remove(claim_key(name))

    # Words

    def remove(self, key: Key) -> None:
        perform(self.host.store, Delete(key))

    def _tell_pod(self, namespace: str, name: str, event: KarpenterEvent) -> None:
        self.tell(Key("Pod", namespace, name), event)

    def tell_both(self, name: str, event: KarpenterEvent) -> None:
        """About a node and its claim."""
        self.tell(node_key(name), event)
        self.tell(claim_key(name), event)

    def tell(self, about: Key, event: KarpenterEvent) -> None:
        self._words.tell(about, event)
