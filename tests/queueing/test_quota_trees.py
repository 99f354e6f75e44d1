"""The tree of quotas against its definitions: KEP-79's sums, and what may be used found by trying every amount."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from random import Random

import pytest

from fairway.queueing.facts.objects import FlavorResource, Quota
from fairway.queueing.quota.quotatree import QuotaNode, borrowing_height, settle
from fairway.queueing.quota.shares import BELOW_ALL, NO_SHARE, share_of

GPU = FlavorResource("default", "gpu")
SPOT = FlavorResource("spot", "gpu")
CPU = FlavorResource("default", "cpu")


def _tree(draw: Random) -> list[QuotaNode]:
    """Root first; queues and cohorts below it, up to three levels."""

    def made(name: str, *, is_queue: bool, is_root: bool = False) -> QuotaNode:
        limits = (None, None, 0, 1, 3)
        quotas = {
            fr: Quota(
                draw.choice((0, 0, 2, 4)),
                None if is_root else draw.choice(limits),
                None if is_root else draw.choice(limits),
            )
            for fr in (GPU, SPOT, CPU)
            if draw.random() < 0.8
        }
        return QuotaNode(name, quotas, is_queue=is_queue)

    nodes = [made("root", is_queue=False, is_root=True)]
    for number in range(draw.randint(1, 6)):
        parent = draw.choice([n for n in nodes if not n.is_queue])
        node = made(f"n{number}", is_queue=draw.random() < 0.6)
        node.parent = parent
        (parent.queues if node.is_queue else parent.cohorts).append(node)
        node.is_active = not node.is_queue or draw.random() < 0.8
        nodes.append(node)
    settle(nodes[0])
    return nodes


def _kept(node: QuotaNode, fr: FlavorResource) -> int:
    quota = node.quotas.get(fr)
    if node.parent is None or quota is None or quota.lending_limit is None:
        return 0
    return max(0, _subtree(node, fr) - quota.lending_limit)


def _subtree(node: QuotaNode, fr: FlavorResource) -> int:
    own = node.quotas[fr].nominal if fr in node.quotas else 0
    return own + sum(_subtree(c, fr) - _kept(c, fr) for c in (*node.cohorts, *node.queues))


def _usage(node: QuotaNode, fr: FlavorResource, used: dict[str, int]) -> int:
    if node.is_queue:
        return used.get(node.name, 0)
    return sum(max(0, _usage(c, fr, used) - _kept(c, fr)) for c in (*node.cohorts, *node.queues))


def _keeps_to_its_quota(node: QuotaNode, fr: FlavorResource, used: dict[str, int]) -> bool:
    usage, subtree, quota = _usage(node, fr, used), _subtree(node, fr), node.quotas.get(fr)
    if node.parent is None:
        return usage <= subtree
    return quota is None or quota.borrowing_limit is None or usage <= subtree + quota.borrowing_limit


def _is_allowed(queue: QuotaNode, fr: FlavorResource, used: dict[str, int]) -> bool:
    """Whether nobody from this queue up exceeds quota and borrowing limit."""
    node: QuotaNode | None = queue
    while node is not None:
        if not _keeps_to_its_quota(node, fr, used):
            return False
        if _usage(node, fr, used) <= _kept(node, fr):
            return True
        node = node.parent
    return True


def _most(queue: QuotaNode, fr: FlavorResource, used: dict[str, int]) -> int:
    amount = 0
    while _is_allowed(queue, fr, {**used, queue.name: used.get(queue.name, 0) + amount + 1}):
        amount += 1
    return amount


def _height(node: QuotaNode) -> int:
    if node.is_queue:
        return 0
    below = [_height(c) for c in node.cohorts] + [0 for q in node.queues if q.is_active]
    return 1 + max(below) if below else 0


def _check(nodes: list[QuotaNode], fr: FlavorResource, used: dict[str, int]) -> None:
    for node in nodes:
        assert node.subtree.get(fr, 0) == _subtree(node, fr)
        assert node.kept.get(fr, 0) == _kept(node, fr)
        assert node.usage.get(fr, 0) == _usage(node, fr, used), node.path()
        assert node.height() == _height(node)
        assert node.local_available(fr) == max(0, _kept(node, fr) - _usage(node, fr, used))
        over = [c for c in (*node.cohorts, *node.queues) if _usage(c, fr, used) > _subtree(c, fr)]
        assert set(node.over.get(fr, {})) == set(over)
        assert {c.name for c in node.children_over([fr])} == {c.name for c in over if c.is_active}
        assert node.is_within_nominal([CPU, fr] if fr is not CPU else [fr]) == (
            _usage(node, fr, used) <= _subtree(node, fr)
        )
        assert node.root() is nodes[0]
    is_legal = all(_keeps_to_its_quota(node, fr, used) for node in nodes)
    for queue in (n for n in nodes if n.is_queue):
        if is_legal:
            assert queue.available(fr) == _most(queue, fr, used), queue.path()
        else:
            # What others use too much is taken from what is here, too.
            assert queue.available(fr) <= _most(queue, fr, used)
        assert queue.potential(fr) == _most(queue, fr, {})
        for value in range(6):
            after = {**used, queue.name: used.get(queue.name, 0) + value}
            assert queue.borrows_with(fr, value) == (_usage(queue, fr, after) > _subtree(queue, fr))
            assert queue.fits_in_quota({fr: value}) == (
                after[queue.name] <= _subtree(queue, fr),
                {fr: max(0, value - queue.local_available(fr))},
            )
            # The lowest subtree that holds it; a root that does not is as far up as it goes.
            way = [queue, *queue.ancestors()]
            fitting = next((n for n in way if _usage(n, fr, after) <= _subtree(n, fr)), way[-1])
            reclaims = fitting.parent is not None
            assert borrowing_height(queue, fr, value) == (_height(fitting), reclaims), (queue.path(), value)


@pytest.mark.parametrize("seed", range(60))
def test_every_number_of_a_tree_is_its_definition(seed: int) -> None:
    draw = Random(seed)
    nodes = _tree(draw)
    queues = [n for n in nodes if n.is_queue]
    held: list[tuple[QuotaNode, int]] = []
    used: dict[str, int] = {}
    _check(nodes, GPU, used)
    for _ in range(8 if queues else 0):
        if held and draw.random() < 0.4:
            queue, value = held.pop(draw.randrange(len(held)))
            queue.remove(GPU, value)
            used[queue.name] -= value
        else:
            queue, value = draw.choice(queues), draw.randint(0, 4)
            queue.add(GPU, value)
            used[queue.name] = used.get(queue.name, 0) + value
            held.append((queue, value))
        _check(nodes, GPU, used)
    for node in nodes:
        assert all(node.usage.get(fr, 0) == 0 for fr in (SPOT, CPU))
    settle(nodes[0])
    _check(nodes, GPU, used)


@pytest.mark.parametrize("seed", range(12))
def test_what_all_flavors_together_could_lend(seed: int) -> None:
    nodes = _tree(Random(1000 + seed))
    for node in nodes:
        root = nodes[0].subtree
        assert node.lendable() == {
            resource: sum(node.potential(fr) for fr in root if fr.resource == resource)
            for resource in {fr.resource for fr in root}
        }
    changed = nodes[-1]
    changed.configure({GPU: Quota(50, None, None)})
    settle(nodes[0])
    assert changed.potential(GPU) >= 50
    assert changed.lendable()["gpu"] == sum(
        changed.potential(fr) for fr in nodes[0].subtree if fr.resource == "gpu"
    )


def test_paths_and_order() -> None:
    root, team, first, second = (
        QuotaNode(name, {}, is_queue=is_queue)
        for name, is_queue in (("root", False), ("team", False), ("a", True), ("b", True))
    )
    for parent, child in ((root, team), (team, first), (root, second)):
        child.parent = parent
        (parent.queues if child.is_queue else parent.cohorts).append(child)
    assert first.path() == "/root/team/a"
    assert list(first.ancestors()) == [team, root]
    assert [q.name for q in root.subtree_queues()] == ["b", "a"]
    assert list(pairwise([root.height(), team.height(), first.height()])) == [(2, 1), (1, 0)]
    assert borrowing_height(QuotaNode("alone", {}, is_queue=True), GPU, 5) == (0, False)


def _by_hand(node: QuotaNode) -> tuple[Fraction | None, Fraction, str]:
    """Weighted share (None: without end), share in thousandths, and of which resource: KEP-1714."""
    assert node.parent is not None
    over: dict[str, int] = {}
    for fr in (GPU, SPOT, CPU):
        over[fr.resource] = over.get(fr.resource, 0) + max(0, node.usage.get(fr, 0) - node.subtree.get(fr, 0))
    parts = {}
    for resource, amount in over.items():
        lendable = sum(node.parent.potential(fr) for fr in (GPU, SPOT, CPU) if fr.resource == resource)
        if amount and lendable > 0:
            parts[resource] = Fraction(1000 * amount, lendable)
    if not parts:
        return Fraction(0), Fraction(0), ""
    most = max(parts.values())
    weight = Fraction(node.fair_weight)
    return (most / weight if weight else None), most, min(r for r, part in parts.items() if part == most)


@pytest.mark.parametrize("seed", range(40))
def test_shares_are_what_is_borrowed_of_what_could_be_lent(seed: int) -> None:
    draw = Random(2000 + seed)
    nodes = _tree(draw)
    for node in nodes[1:]:
        node.fair_weight = draw.choice((0.0, 0.5, 1.0, 4.0))
        if node.is_queue:
            for fr in node.subtree:
                node.add(fr, draw.choice((0, 1, 3, 6)))
    assert share_of(nodes[0]) == NO_SHARE
    seen = []
    for node in nodes[1:]:
        share = share_of(node)
        weighted, ratio, dominant = _by_hand(node)
        assert share.weighted == pytest.approx(float("inf") if weighted is None else float(weighted))
        assert share.ratio == pytest.approx(float(ratio))
        assert share.dominant == dominant
        borrowed = {fr for fr in node.subtree if node.usage.get(fr, 0) > node.subtree[fr]}
        assert set(share.borrowed) == borrowed
        assert share.is_borrowing == bool(borrowed)
        for fr in (GPU, SPOT, CPU):
            assert share.is_borrowing_any_of({fr: 1}) == (fr in borrowed)
            assert not share.is_borrowing_any_of({fr: 0})
        assert share.order() > BELOW_ALL.order()
        seen.append((weighted is None, ratio if weighted is None else weighted, share))
    for a, b in product(seen, repeat=2):
        if a[:2] < b[:2]:
            assert a[2].order() <= b[2].order()


def test_nothing_to_lend_makes_no_share() -> None:
    root = QuotaNode("root", {})
    queue = QuotaNode("a", {GPU: Quota(0)}, 0.0, is_queue=True)
    queue.parent = root
    root.queues.append(queue)
    settle(root)
    queue.add(GPU, 3)
    assert share_of(queue) == (0.0, 0.0, "", (GPU,))
    queue.configure({GPU: Quota(2)})
    settle(root)
    assert share_of(queue) == (float("inf"), 500.0, "gpu", (GPU,))
