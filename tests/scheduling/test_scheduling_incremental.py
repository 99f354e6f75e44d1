"""What is kept and patched equals what is worked out anew; one row's plain integers equal the arrays'."""

from __future__ import annotations

from random import Random

import numpy as np
import worlds
from agreement import Play
from hypothesis import given, settings
from hypothesis import strategies as st

from accountstate import account_state
from builders import node, pod
from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.shapes import PodShape
from fairway.cluster.store import Store
from fairway.kube.objects import Key, key_of
from fairway.scheduling.cycle import Diagnosis, Scheduler
from fairway.scheduling.nodelocal import NodeLocal
from fairway.scheduling.plainscores import PlainScores, is_plain
from fairway.scheduling.preemption import explain
from fairway.scheduling.profile import DEFAULT_PROFILE
from fairway.scheduling.resourcescores import balanced_scores, fit_scores
from fairway.scheduling.verdict import Scheduled
from fairway.twin.owners import DefaultSelectors

_MANY = settings(max_examples=60, deadline=None, derandomize=True)
_SEEDS = st.integers(0, 10**9)


class Churn:
    """A cluster whose nodes and pods come, change and go."""

    def __init__(self, seed: int) -> None:
        r = self.r = Random(seed)
        self.store = Store(seed=seed)
        self.mix = r.choice((worlds.HARSH, worlds.MILD, worlds.CROWDED))
        self.count = 0
        for _ in range(r.choice((2, 5, 14))):
            self.add_node()

    def add_node(self) -> None:
        self.count += 1
        self.store.create(worlds.random_node(self.r, self.count, self.mix))

    def step(self) -> None:
        kind = self.r.random()
        nodes = [n["metadata"]["name"] for n in self.store.objects("Node")]
        pods = self.store.objects("Pod")
        if kind < 0.08:
            self.add_node()
        elif kind < 0.16 and len(nodes) > 1:
            self.store.delete(key_of(self.r.choice(self.store.objects("Node"))))
        elif kind < 0.24:
            name = self.r.choice(nodes)
            self.store.replace(worlds.random_node(self.r, int(name[1:]), self.mix))
        elif kind < 0.4 and pods:
            self.store.delete(key_of(self.r.choice(pods)), grace_s=0)
        else:
            self.count += 1
            raw = self.store.create(worlds.random_pod(self.r, self.count, nodes, self.mix))
            self.store.bind(key_of(raw), self.r.choice(nodes), {"phase": "Running"})

    def shape(self) -> PodShape:
        self.count += 1
        names = [n["metadata"]["name"] for n in self.store.objects("Node")]
        raw = worlds.random_pod(self.r, self.count, names, self.mix)
        return self.store.accounts.shapes.of(raw)


def _assert_same(kept: NodeLocal, fresh: NodeLocal, accounts: NodeAccounts) -> None:
    alive = accounts.alive
    for name in ("refusal", "is_hopeless", "score", "prefer_taints", "preference"):
        a, b = getattr(kept, name)[alive], getattr(fresh, name)[alive]
        assert a.tolist() == b.tolist(), name
    short = kept.refusal[alive] == fresh.refusal[alive]
    assert short.all()
    assert kept.short[alive].tolist() == fresh.short[alive].tolist()
    assert kept.any_prefer_taints == fresh.any_prefer_taints


@_MANY
@given(_SEEDS)
def test_a_refreshed_local_equals_a_fresh_one(seed: int) -> None:
    churn = Churn(seed)
    accounts = churn.store.accounts
    kept = [NodeLocal(accounts, churn.shape(), DEFAULT_PROFILE) for _ in range(4)]
    for _ in range(25):
        for _ in range(churn.r.choice((1, 1, 2, 20))):
            churn.step()
        local = churn.r.choice(kept)
        local.refresh()
        _assert_same(local, NodeLocal(accounts, local.shape, DEFAULT_PROFILE), accounts)


@_MANY
@given(_SEEDS)
def test_plain_scores_equal_the_arrays(seed: int) -> None:
    churn = Churn(seed)
    for _ in range(15):
        churn.step()
    accounts = churn.store.accounts
    for _ in range(10):
        shape = churn.shape()
        if not is_plain(shape, DEFAULT_PROFILE):
            continue
        weights = (churn.r.choice((1, 3)), churn.r.choice((1, 2)))
        rows = np.flatnonzero(accounts.alive)
        total = weights[0] * fit_scores(accounts, shape, DEFAULT_PROFILE.fit, rows)
        balanced = balanced_scores(accounts, shape, DEFAULT_PROFILE.balanced_resources, rows)
        if balanced is not None:
            total = total + weights[1] * balanced
        scores = PlainScores(shape, *weights)
        plain = [
            scores.of(
                accounts.allocatable[row].tolist(),
                accounts.requested[row].tolist(),
                accounts.non_zero[row].tolist(),
            )
            for row in rows.tolist()
        ]
        assert plain == total.tolist()
        assert scores.of_rows(accounts, rows).tolist() == plain


@_MANY
@given(_SEEDS)
def test_a_scheduler_that_remembers_decides_as_one_that_does_not(seed: int) -> None:
    churn = Churn(seed)
    store = churn.store
    selectors = DefaultSelectors(store).of
    kept = Scheduler(store.accounts, default_selector=selectors)
    for _ in range(15):
        churn.step()
        names = [n["metadata"]["name"] for n in store.objects("Node")]
        churn.count += 1
        raw = store.create(worlds.random_pod(churn.r, churn.count, names, churn.mix))
        record = store.accounts.record(raw, key_of(raw))
        fresh = Scheduler(store.accounts, default_selector=selectors)
        assert kept.score_sheet(record) == fresh.score_sheet(record)
        forked = store.fork()
        twin = kept.fork(forked.accounts, DefaultSelectors(forked).of)
        there = forked.accounts.record(raw, key_of(raw))
        assert twin.score_sheet(there) == kept.score_sheet(record)


@_MANY
@given(_SEEDS)
def test_the_ranking_of_a_shape_decides_as_filters_and_scores_do(seed: int) -> None:
    """A pod nominated to a node that does not exist changes no decision, but keeps a scheduler off its short cut."""
    r, store = Random(seed), Store(seed=seed)
    size = r.choice((2, 7, 160))
    for i in range(size):
        store.create(node(f"n{i}").cpu(r.choice((1, 4, 8, 8, 8))).build())
    short, long = Scheduler(store.accounts), Scheduler(store.accounts)
    other = store.accounts.record(pod("other").build(), Key("Pod", "default", "other"))
    long.nominated[other.key] = (other, "nowhere")
    for i in range(3 * size + 20):
        raw = store.create(pod(f"p{i}").cpu(r.choice((1, 2, 2, 5))).build())
        record, draw = store.accounts.record(raw, key_of(raw)), r.randrange(1000)
        mine, theirs = short.place(record, draw), long.place(record, draw)
        assert short.next_start == long.next_start
        assert isinstance(mine, Diagnosis) == isinstance(theirs, Diagnosis)
        if isinstance(mine, Scheduled):
            assert mine == theirs
            store.bind(key_of(raw), mine.node, {"phase": "Running"})


@_MANY
@given(_SEEDS)
def test_deciding_changes_nothing(seed: int) -> None:
    """Filters, scores and the what-ifs of a preemption put everything back."""
    play = Play(seed)
    for _ in range(10):
        raw = worlds.random_pod(play.r, 1000, ["n0", "n1"], play.mix)
        pod = play.store.create(raw)
        record = play.store.accounts.record(pod, key_of(pod))
        before = account_state(play.store.accounts)
        play.scheduler.score_sheet(record)
        verdict = play.scheduler.place(record)
        if isinstance(verdict, Diagnosis):
            explain(play.scheduler, record, verdict)
        assert account_state(play.store.accounts) == before
        play.store.delete(key_of(pod), grace_s=0)
        assert play.step() == ""


def test_image_scores_follow_who_holds_them() -> None:
    store = Store()
    for name in ("a", "b", "c"):
        store.create(node(name).build())
    raw = pod("p").image("reg/big:1").build()
    store.create(raw)
    record = store.accounts.record(raw, key_of(raw))
    kept = NodeLocal(store.accounts, record.shape, DEFAULT_PROFILE)
    changes = (
        node("a").image("reg/other:1", mib=900),
        node("a").image("reg/big:1", mib=900),
        node("b").image("reg/big:1", mib=900),
        node("d"),
        node("a"),
        node("b"),
    )
    seen = set()
    for change in changes:
        made = change.build()
        (store.replace if store.get(key_of(made)) is not None else store.create)(made)
        kept.refresh()
        fresh = NodeLocal(store.accounts, record.shape, DEFAULT_PROFILE)
        rows = [store.accounts.row_of[n] for n in ("a", "b", "c")]
        assert kept.score[rows].tolist() == fresh.score[rows].tolist()
        seen.add(tuple(kept.score[rows].tolist()))
    assert len(seen) > 3


def test_a_ranking_follows_many_changes_at_once() -> None:
    store = Store()
    for i in range(40):
        store.create(node(f"n{i}").cpu(8).build())
    raw = pod("p").cpu(1).build()
    store.create(raw)
    record = store.accounts.record(raw, key_of(raw))
    kept = NodeLocal(store.accounts, record.shape, DEFAULT_PROFILE)
    seen = []
    for cpus in (8, 2, 16, 0):
        for i in range(40):
            store.replace(node(f"n{i}").cpu(cpus if i % 2 else 4).build())
        kept.refresh()
        fresh = NodeLocal(store.accounts, record.shape, DEFAULT_PROFILE)
        seen.append(kept.ranking().best(0, 40, 0))
        assert seen[-1] == fresh.ranking().best(0, 40, 0)
    assert len(set(seen)) == 4


def test_states_of_nodes_are_forgotten_before_they_are_too_many() -> None:
    """What a state comes to is kept for 512 of them; every answer is what arrays say."""
    store = Store()
    store.create(node("n").cpu(4).build())
    raw = pod("p").cpu(2).build()
    record = store.accounts.record(raw, key_of(raw))
    kept = NodeLocal(store.accounts, record.shape, DEFAULT_PROFILE)
    most = 0
    for milli in range(1, 1300):
        other = store.create(pod("other").cpu(f"{2 * milli}m").build())
        store.bind(key_of(other), "n", {"phase": "Running"})
        kept.refresh()
        most = max(most, len(kept._made_of))
        if milli in (1, 511, 512, 513, 514, 999, 1000, 1001, 1025, 1299):
            anew = NodeLocal(store.accounts, record.shape, DEFAULT_PROFILE)
            for mine, theirs in (
                (kept.refusal, anew.refusal),
                (kept.score, anew.score),
                (kept.short, anew.short),
            ):
                assert mine.tolist() == theirs.tolist()
            assert bool(kept.refusal[0]) is (milli > 1000)
        store.delete(key_of(other), grace_s=0)
    assert most == 512
