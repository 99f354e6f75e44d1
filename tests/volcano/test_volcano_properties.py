"""What every session of Volcano keeps to, whatever the world."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from volcanoworld import World, bound

from fairway.kube.resources import NVIDIA_GPU
from fairway.volcano.configuration import DEFAULT_CONFIGURATION
from fairway.volcano.facts import TaskStatus

ACTIONS = st.sampled_from(
    [
        ("enqueue", "allocate", "backfill"),
        ("allocate",),
        ("enqueue", "allocate", "preempt", "reclaim"),
        ("enqueue", "reclaim", "allocate", "preempt", "backfill"),
    ]
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    world = World()
    nodes = [f"n{i}" for i in range(draw(st.integers(1, 4)))]
    free = {name: draw(st.integers(0, 8)) for name in nodes}
    for name in nodes:
        world.node(name, gpu=free[name])
    for name in ("p", "q"):
        capability = draw(st.sampled_from([None, {NVIDIA_GPU: 3}, {NVIDIA_GPU: 6}]))
        world.queue(name, weight=draw(st.integers(1, 3)), capability=capability)
    for g in range(draw(st.integers(1, 5))):
        pods, gpu = draw(st.integers(1, 5)), draw(st.integers(1, 3))
        on = []
        if draw(st.booleans()):
            for _ in range(pods):
                node = next((n for n in nodes if free[n] >= gpu), None)
                if node is None:
                    break
                free[node] -= gpu
                on.append(node)
        least = draw(st.integers(1, pods))
        if len(on) < least:
            for node in on:
                free[node] += gpu
            on = []
        world.gang(
            f"g{g}",
            pods,
            gpu=gpu,
            least=least,
            queue=draw(st.sampled_from(["p", "q"])),
            on=tuple(on),
            priority=draw(st.integers(0, 2)),
            phase=draw(st.sampled_from(["Pending", "Inqueue"])) if not on else "",
        )
    return world


@settings(max_examples=150, deadline=None)
@given(worlds(), ACTIONS, st.integers(0, 3))
def test_sessions_keep_what_they_promise(world: World, actions: tuple[str, ...], seed: int) -> None:
    result = world.session(replace(DEFAULT_CONFIGURATION, actions=actions), seed=seed)
    facts = world.facts()
    placed = bound(result)
    asks = {p.name: p.requests[NVIDIA_GPU] for p in facts.pods}

    # All or nothing: a gang that gained a pod has its minMember.
    running = Counter(p.group for p in facts.pods if p.status is TaskStatus.RUNNING)
    gained = Counter(f"ns/{name.partition('-')[0]}" for name in placed)
    for group in facts.groups:
        if gained[group.id]:
            assert running[group.id] + gained[group.id] >= group.min_member

    # No node holds more than it has.
    held: Counter[str] = Counter()
    for pod in facts.pods:
        held[pod.node or placed.get(pod.name, "")] += asks[pod.name]
    for node in facts.nodes:
        assert held[node.name] <= node.allocatable[NVIDIA_GPU]

    # No queue gains beyond its capability; what is evicted counts no more.
    used: Counter[str] = Counter()
    queue_of = {g.id: g.queue for g in facts.groups}
    going = {e.pod for e in result.evictions}
    for pod in facts.pods:
        if (pod.node and pod.name not in going) or pod.name in placed:
            used[queue_of[pod.group]] += asks[pod.name]
    grew = {queue_of[group] for group in gained}
    for queue in facts.queues:
        if queue.capability is not None and queue.name in grew:
            assert used[queue.name] <= queue.capability[NVIDIA_GPU]

    # Only what runs is evicted, each pod once, and nobody is both bound and evicted.
    names = [e.pod for e in result.evictions]
    assert len(set(names)) == len(names)
    assert not set(names) & set(placed)

    # The same again: nothing but the draws is left to chance.
    assert world.session(replace(DEFAULT_CONFIGURATION, actions=actions), seed=seed) == result


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=4),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_a_gang_of_equal_pods_alone_is_bound_exactly_if_it_fits(free: list[int], pods: int, gpu: int) -> None:
    world = World()
    for i, count in enumerate(free):
        world.node(f"n{i}", gpu=count)
    result = world.gang("g", pods, gpu=gpu, phase="Inqueue").session()
    fits = sum(count // gpu for count in free) >= pods
    assert len(result.bindings) == (pods if fits else 0)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.integers(0, 3))
def test_gangs_that_compete_never_deadlock(world: World, seed: int) -> None:
    """Played on, with every bound gang ending at once, each gang that could ever run does."""
    world.pods = [replace(p, status=TaskStatus.PENDING, node="") for p in world.pods]
    world.queues = [replace(q, capability=None) for q in world.queues]
    world.groups = [replace(g, status={"phase": "Inqueue"}) for g in world.groups]
    pods_of = Counter(p.group for p in world.pods)
    gpu_of = {p.group: p.requests[NVIDIA_GPU] for p in world.pods}
    hopeless = {
        g.id
        for g in world.groups
        if sum(n.allocatable[NVIDIA_GPU] // gpu_of[g.id] for n in world.nodes) < g.min_member
    }
    total = sum(n.allocatable[NVIDIA_GPU] for n in world.nodes)
    for _ in range(sum(pods_of.values()) + 1):
        done = set(bound(world.session(seed=seed)))
        if not done:
            break
        world.pods = [p for p in world.pods if p.name not in done]
        started = {f"ns/{name.partition('-')[0]}" for name in done}
        world.groups = [
            replace(g, min_member=0, status={"phase": "Running"}) if g.id in started else g
            for g in world.groups
        ]
    left = {p.group for p in world.pods} - hopeless
    # A queue's deserved share is never less than what one gang may ask for, once the other queue is empty.
    assert not {g for g in left if _deserves(world, g, total)}


def _deserves(world: World, group: str, total: int) -> bool:
    """Whether the queue of this gang deserves its minMember: nobody else asks, or its share by weight is enough."""
    found = next(g for g in world.groups if g.id == group)
    asks = {p.group: 0 for p in world.pods}
    for pod in world.pods:
        asks[pod.group] += pod.requests[NVIDIA_GPU]
    queue_of = {g.id: g.queue for g in world.groups}
    others = sum(v for g, v in asks.items() if queue_of[g] != found.queue)
    gpu = next(p.requests[NVIDIA_GPU] for p in world.pods if p.group == group)
    return total - others >= found.min_member * gpu
