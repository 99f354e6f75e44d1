"""Which nodes go although they work, and what becomes of a decision?

Looked at while anything is ripe, decided, looked at once more after a while, and carried out: nodes go once what
replaces them is up.

Source: disruption/controller.go, disruption/queue.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from fairway.kube.conditions import without_condition
from fairway.kube.objects import Key, Obj, labels_of, meta_of, name_of, spec_of
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.provisioning.karpenter.disruption.budgets import next_change_us
from fairway.provisioning.karpenter.disruption.commands import DELETE, Command
from fairway.provisioning.karpenter.disruption.context import DRIFTED_REASON, DisruptionContext
from fairway.provisioning.karpenter.disruption.methods import DRIFT, EMPTINESS, decide
from fairway.provisioning.karpenter.disruption.recheck import RECHECK_AFTER_US, Abandoned, recheck
from fairway.provisioning.karpenter.disruption.settled import Settled
from fairway.provisioning.karpenter.events import (
    consolidation_candidate,
    consolidation_rejected,
    launching,
    noticed,
    terminating,
    waiting_on_readiness,
)
from fairway.provisioning.karpenter.labels import DISRUPTED_TAINT, NODEPOOL
from fairway.provisioning.karpenter.nodeclaims import (
    DISRUPTION_REASON,
    INITIALIZED_CONDITION,
    is_true,
    with_condition,
)
from fairway.twin.loop import HOUSEKEEPING
from fairway.twin.provisioner import metrics
from fairway.twin.provisioner.gathering import NODE_POOL, POLL_US, claim_key, node_key
from fairway.twin.provisioner.marking import Marks

if TYPE_CHECKING:
    from fairway.twin.provisioner.component import Provisioner

# How long replacements may take to be initialized: looked at every second, for more than ten minutes. Upstream gives
# more where commands take thousands of nodes. Source: queue.go GetMaxRetryDuration, queueBaseDelay.
REPLACED_WITHIN_US: Final = 10 * MINUTE_US + SECOND_US


class Underway(NamedTuple):
    """A command that is carried out: nodes going once these claims are initialized."""

    nodes: tuple[str, ...]
    claims: tuple[str, ...]
    reason: str


class Disruption:
    """What is marked, decided and under way. Data only, beside its provisioner."""

    def __init__(self) -> None:
        self.waiting: Command | None = None
        """Decided, to be decided again before it is carried out."""
        self.underway: tuple[Underway, ...] = ()
        self.marks = Marks()
        self.settled = Settled()
        self._tick_at_us = -1

    def attach(self, provisioner: Provisioner) -> None:
        self._its, self._host = provisioner, provisioner.host
        register = provisioner.host.loop.register
        self._h_tick = register("karpenter.disrupt", self._on_tick)
        self._h_recheck = register("karpenter.recheck", self._on_recheck)
        self._h_overdue = register("karpenter.overdue", self._on_overdue)

    def copy(self) -> Disruption:
        twin = Disruption()
        twin.waiting, twin.underway, twin._tick_at_us = self.waiting, self.underway, self._tick_at_us
        twin.marks, twin.settled = self.marks.copy(), self.settled.copy()
        return twin

    def going(self) -> dict[str, None]:
        """Nodes that commands under way take."""
        return {node: None for u in self.underway for node in u.nodes}

    def is_gone(self, name: str) -> None:
        """A command whose node is gone is over."""
        self.underway = tuple(u for u in self.underway if name not in u.nodes)

    def replacement_is_gone(self, claim: Obj) -> None:
        """A command whose replacement goes before it is initialized is given up. Source: queue.go waitOrTerminate."""
        if not is_true(claim, INITIALIZED_CONDITION):
            for command in self.underway:
                if name_of(claim) in command.claims:
                    self._give_up(command)

    def _on_overdue(self, command: Underway) -> None:
        """Its replacements had their time. Source: queue.go minRetryDuration."""
        if command in self.underway and self._missing(command):
            self._give_up(command)

    def _missing(self, command: Underway) -> int:
        claims = [self._its.known.claim(c) for c in command.claims]
        return sum(c is None or not c.is_true(INITIALIZED_CONDITION) for c in claims)

    def _give_up(self, command: Underway) -> None:
        self.underway = tuple(u for u in self.underway if u is not command)
        metrics.gave_up(self._its.tally, command.reason, self._missing(command))
        for name in command.nodes:
            self.give_back(name)

    def changed(self) -> None:
        """What was found to be in vain may not be any more: where a node could go, that is looked at soon."""
        self.settled.changed(self._host.loop.now_us)
        if self.marks.ripe:
            self.rouse()

    def rouse(self) -> None:
        """A look is due soon."""
        self.arm(self._host.loop.now_us + POLL_US)

    def arm(self, at_us: int) -> None:
        if self._tick_at_us < 0 or at_us < self._tick_at_us:
            self._tick_at_us = at_us
            self._host.loop.at(at_us, self._h_tick, at_us, HOUSEKEEPING)

    def _on_tick(self, at_us: int) -> None:
        if at_us != self._tick_at_us:
            return
        self._tick_at_us = -1
        self._mark()
        if self.waiting is not None or not self.marks.ripe:
            return
        context = self.context()
        outcome = decide(context)
        for notice in outcome.notices:
            kind, _, name = notice.about.partition("/")
            both = (node_key(name), claim_key(name)) if kind == "Node" else (Key(NODE_POOL, "", name),)
            for about in both:
                self._its.tell(about, noticed(notice))
        self.settled.mark(outcome.in_vain, context.now_us)
        command = outcome.command
        if command is None:
            self._await_budgets(context)
            if outcome.skipped:
                self.arm(self.settled.ask_again_us())
            return
        if command.method not in (DRIFT, EMPTINESS):
            for name in command.names:
                self._its.tell_both(name, consolidation_candidate(command, name))
        if command.method == DRIFT:
            self._carry_out(command)
        else:
            self.waiting = command
            self._host.loop.at(self._host.loop.now_us + RECHECK_AFTER_US, self._h_recheck, None, HOUSEKEEPING)

    def _await_budgets(self, context: DisruptionContext) -> None:
        """Look again when the next budget opens or closes, while there is a node that it may concern."""
        at_us = next_change_us(context.world.pools, context.now_us)
        if at_us is not None and any(node.is_managed for node in context.world.nodes):
            self.arm(at_us)

    def context(self) -> DisruptionContext:
        store = self._host.store
        return DisruptionContext(
            world=self._its.world(),
            now_us=self._host.loop.now_us,
            pending=tuple(self._its.pending_pods()),
            budgets=tuple(store.objects("PodDisruptionBudget.policy")),
            disrupting=frozenset(self.going()),
            spot_to_spot=self._its.cloud.spot_to_spot,
            consolidated=self.settled.done(self._host.loop.now_us),
            shapes=self._its.shapes_so_far(),
        )

    def _mark(self) -> None:
        """Bring conditions up to date; look again when the next consolidateAfter is over."""
        due_us = self.marks.bring_up_to_date(
            self._host.store,
            self._its.known,
            self._its.whole_fleet,
            self._host.loop.now_us,
        )
        if due_us is not None:
            self.arm(due_us)

    def _on_recheck(self, _data: None) -> None:
        command, self.waiting = self.waiting, None
        if command is None:
            return
        self._mark()
        found = recheck(command, self.context())
        if isinstance(found, Abandoned):
            metrics.dropped(self._its.tally, command)
            for name in command.names if command.method != EMPTINESS else ():
                self._its.tell_both(name, consolidation_rejected(command, name, found.kind))
            self.rouse()
        else:
            self._carry_out(found)

    def _carry_out(self, command: Command) -> None:
        """Keep pods off the nodes, open what replaces them, and let them go once that is up."""
        for name in command.names:
            self.taint(name, on=True)
            self._say_why(name, command.reason)
        used = self._its.world(is_to_place=True).nodes.usage() if command.replacements else {}
        made = [self._its.create(plan, used, command.reason) for plan in command.replacements]
        opened = tuple(name for name in made if name is not None)
        if len(opened) < len(made):
            for name in opened:
                self._its.remove(claim_key(name))
            for name in command.names:
                self.give_back(name)
            return
        for name in opened:
            self._its.tell(claim_key(name), launching(command.reason))
            self._its.tell(claim_key(name), waiting_on_readiness())
        metrics.performed(self._its.tally, command)
        begun = Underway(command.names, opened, command.reason)
        self.underway = (*self.underway, begun)
        if command.decision == DELETE:
            self.carry_on()
        else:
            at_us = self._host.loop.now_us + REPLACED_WITHIN_US
            self._host.loop.at(at_us, self._h_overdue, begun, HOUSEKEEPING)

    def give_back(self, name: str) -> None:
        """A node that no command takes after all; one that goes anyway keeps its taint. Its claim's change calls for a
        look."""
        if name not in self._its.termination.since_us:
            self.taint(name, on=False)
        self._say_why(name, "")

    def carry_on(self) -> None:
        """Commands whose replacements are initialized: their nodes go."""
        for command in self.underway:
            if not self._missing(command):
                for name in command.nodes:
                    self._let_go(name, command.reason)

    def _let_go(self, name: str, reason: str) -> None:
        claim = self._host.store.get(claim_key(name))
        if claim is None or "deletionTimestamp" in meta_of(claim):
            return
        self._its.tell(node_key(name), terminating("Node", reason))
        self._its.tell(claim_key(name), terminating("NodeClaim", reason))
        is_drift = reason == DRIFTED_REASON
        pool = None if is_drift else self._its.known.pool_named(labels_of(claim).get(NODEPOOL) or "")
        metrics.disrupted(self._its.tally, self._host.store, claim, reason, pool)
        self._its.remove(claim_key(name))

    def _say_why(self, name: str, reason: str) -> None:
        """On its claim, why a node is disrupted; no reason: it is not."""
        claim = self._host.store.get(claim_key(name))
        if claim is None:
            return
        if reason:
            marked = with_condition(claim, DISRUPTION_REASON, "True", reason, reason, self._host.loop.now_us)
            self._host.store.set_status(claim_key(name), marked["status"])
        else:
            status = claim.get("status") or {}
            left = without_condition(status.get("conditions"), DISRUPTION_REASON)
            self._host.store.set_status(claim_key(name), {**status, "conditions": left})

    def taint(self, name: str, *, on: bool) -> None:
        node = self._host.store.get(node_key(name))
        if node is None:
            return
        taints = [t for t in spec_of(node).get("taints") or () if t.get("key") != DISRUPTED_TAINT]
        if on:
            taints.append({"key": DISRUPTED_TAINT, "effect": "NoSchedule"})
        self._host.store.patch(node_key(name), {"spec": {"taints": taints or None}})
