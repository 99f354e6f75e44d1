"""Stories of Karpenter, told whole: each claim and node it writes, each word, when it looks again, and its metrics.

What is told is compared with `stories/`; FAIRWAY_UPDATE_GOLDENS=1 writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from machinesworld import GPU, KINDS, NODE_CLAIM, NODE_POOL, World, guard, kind, pod, pool
from tests.histories import check_history

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT
from fairway.twin.distributions import Distribution, constant
from fairway.twin.faults import partition_node
from fairway.twin.provisioner.cloud import Shortage
from fairway.twin.twin import EPOCH_US

HERE = Path(__file__).parent / "stories"
S = SECOND_US
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
BOOTING = {"key": "boot", "effect": "NoSchedule"}
ANY = [{"operator": "Exists"}]


def among(key: str, *values: str) -> Obj:
    return {"key": key, "operator": "In", "values": list(values)}


def gathered() -> Iterator[str]:
    """Pods are gathered until none came for a second, ten seconds at most; gated ones do not count."""
    world = World(pool())
    for number in range(15):
        yield from world.apply(pod(f"p{number}", "1")).until(5 + 0.9 * (number + 1))
    yield from world.apply(pod("gated", schedulingGates=[{"name": "g"}])).until(21)
    yield from world.apply(pod("again", "500m")).until(21.9)
    world.status("again", conditions=[{"type": "x", "status": "True"}])
    yield from world.until(24)
    yield from world.apply(pod("brief")).until(24.5)
    yield from world.delete("brief").until(60)
    # There is room on what is there, or on what comes.
    yield from world.apply(pod("fits", "100m"), pod("more", "15"), pod("most", "14")).until(65)
    yield from world.apply(pod("beside", "500m")).until(200)
    yield from world.rest()


def emptied() -> Iterator[str]:
    """A node goes when its consolidateAfter is over since its pods' last event, and two looks found it empty."""
    world = World(pool(), pod("a", "3", run="60s"), pod("b", "500m", run="200s"))
    yield from world.until(95)
    # Within ten seconds of the last one an event is none.
    yield from world.delete("a").until(250)
    yield from world.apply(pod("late", "500m", run="20s")).until(262)
    yield from world.until(500)
    yield from world.rest()


def rests() -> Iterator[str]:
    """Four pools whose nodes rest for nothing, ten seconds, eleven, or for ever."""
    pools = [
        pool(f"after-{after}", labels={"after": after}, disruption={"consolidateAfter": after})
        for after in ("0s", "10s", "11s", "Never")
    ]
    world = World(*pools, boot_s=5)
    for after in ("0s", "10s", "11s", "Never"):
        world.apply(pod(f"of-{after.lower()}", run="20s", nodeSelector={"after": after}))
    yield from world.until(27.5)
    world.apply(
        *(
            pod(f"b-{after.lower()}", "1", run="10s", nodeSelector={"after": after})
            for after in ("10s", "11s")
        )
    )
    yield from world.until(120)
    yield from world.rest()


def sold_out() -> Iterator[str]:
    """What is not to be had is left out for three minutes; then it is asked for again."""
    world = World(
        pool(of={"requirements": []}),
        shortages=[
            Shortage("small", until_us=EPOCH_US + 100 * S),
            Shortage("large", capacity_type=ON_DEMAND, most=1),
            Shortage("large", capacity_type=SPOT),
        ],
    )
    yield from world.apply(pod("a"), pod("b", "14")).until(60)
    yield from world.rest()
    yield from world.apply(pod("c", "15"), pod("d", "1", gpu=1)).until(300)
    yield from world.rest()


def limited() -> Iterator[str]:
    """Not beyond a pool's limits, claims of the same batch among them; what fits nowhere is told why, now and then."""
    world = World(
        pool(limits={"cpu": "9", "memory": "1000Gi"}),
        pool("cards", {"taints": [TAINT]}, limits={GPU: "2"}),
        pool("none", {"requirements": [among(INSTANCE_TYPE, "huge")]}),
        pool(
            "many",
            {"requirements": [{**among(INSTANCE_TYPE, "small", "large"), "minValues": 3}]},
        ),
    )
    world.apply(*(pod(f"p{number}") for number in range(4)), pod("huge", "90"))
    world.apply(*(pod(f"g{number}", "1", gpu=2, tolerations=ANY) for number in range(2)))
    yield from world.until(50)
    yield from world.rest()
    yield from world.delete("p0").delete("g0").until(400)
    yield from world.patch("p", {"spec": {"limits": {"cpu": "16"}}}, NODE_POOL).until(500)
    yield from world.rest()


def replaced() -> Iterator[str]:
    """One large machine for two pods becomes a small one for the one that stays, once that is up."""
    world = World(pool(), pod("stays"), pod("goes", "12"), pod("agent", "100m", owner="DaemonSet"))
    yield from world.until(91)
    yield from world.delete("goes").until(140)
    yield from world.remembered()
    yield from world.until(400)
    yield from world.rest()


def overtaken() -> Iterator[str]:
    """Between decision and second look a pod comes: the decision is dropped, and made anew in the end."""
    world = World(pool(), pod("stays"), pod("goes", "12"))
    yield from world.until(91)
    yield from world.delete("goes").until(125)
    yield from world.apply(pod("late", "11", run="60s")).until(150)
    yield from world.remembered()
    yield from world.until(500)
    yield from world.rest()


def in_vain() -> Iterator[str]:
    """What should replace a node is not to be had: it keeps its pods, without a taint; three minutes later it is."""
    world = World(
        pool(),
        *(pod("stays"), pod("goes", "12")),
        shortages=[Shortage("small", from_us=EPOCH_US + 100 * S, until_us=EPOCH_US + 170 * S)],
    )
    yield from world.until(91)
    yield from world.delete("goes").until(160)
    yield from world.remembered()
    yield from world.until(500)
    yield from world.rest()


def over_the_limit() -> Iterator[str]:
    """A limit that is lowered below what there is between decision and second look: nothing is opened, or taken."""
    world = World(pool(), pod("stays"), pod("goes", "12"))
    yield from world.until(91)
    yield from world.delete("goes").until(102)
    yield from world.patch("p", {"spec": {"limits": {"cpu": "15"}}}, NODE_POOL).until(140)
    yield from world.remembered()
    yield from world.patch("p", {"spec": {"limits": {"cpu": "16"}}}, NODE_POOL).until(240)
    yield from world.rest()


def lost_meanwhile() -> Iterator[str]:
    """The node that is to be replaced vanishes while its replacement boots: that goes on, and serves others."""
    world = World(pool(), pod("stays"), pod("goes", "12"))
    yield from world.until(101)
    yield from world.delete("goes").until(130)
    (old,) = world.part.disruption.going()
    yield from world.delete(old, "Node").until(131)
    yield from world.remembered()
    yield from world.apply(pod("again")).until(250)
    yield from world.rest()


def let_down() -> Iterator[str]:
    """A replacement that goes, or takes longer than ten minutes: the node is given back, unless it goes by itself."""
    world = World(
        pool(), pod("stays"), pod("goes", "12"), boots={"small": Distribution("lognormal", 700 * S, 0.0)}
    )
    yield from world.until(101)
    yield from world.delete("goes").until(130)
    (old,) = world.part.disruption.going()
    (new,) = [name for name in world.names() if name != old]
    yield from world.delete(new, NODE_CLAIM).until(132)
    yield from world.remembered()
    yield from world.until(170)
    yield from world.remembered()
    yield from world.until(1000)
    yield from world.rest()


def let_down_in_going() -> Iterator[str]:
    """As before, but meanwhile somebody deletes the claim that is to be replaced: its node keeps its taint."""
    world = World(pool(), pod("stays"), pod("goes", "12"), guard("stays"))
    yield from world.until(91)
    world.delete("guard-stays", "PodDisruptionBudget.policy")
    yield from world.until(101)
    yield from world.delete("goes").until(130)
    (old,) = world.part.disruption.going()
    (new,) = [name for name in world.names() if name != old]
    yield from world.apply(guard("stays")).delete(old, NODE_CLAIM).until(132)
    yield from world.delete(new, NODE_CLAIM).until(140)
    yield from world.remembered()
    yield from world.delete("guard-stays", "PodDisruptionBudget.policy").until(200)
    yield from world.rest()


def together() -> Iterator[str]:
    """Three small machines become one; a budget lets two go at a time."""
    world = World(pool(of={"requirements": [among(CAPACITY_TYPE, ON_DEMAND), among(INSTANCE_TYPE, "small")]}))
    world.apply(*(pod(f"p{number}", "3") for number in range(3)))
    yield from world.until(40)
    for number in range(3):
        world.apply(pod(f"small-{number}", "500m"))
    yield from world.until(60)
    yield from world.delete("p0").delete("p1").until(75)
    yield from world.patch("p", {"spec": {"disruption": {"budgets": [{"nodes": "2"}]}}}, NODE_POOL).until(300)
    yield from world.delete("p2").until(500)
    yield from world.rest()


def drifted() -> Iterator[str]:
    """Nodes of another template than their pool's are replaced, empty ones first, one at a time; guarded ones stay."""
    world = World(
        pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]}),
        *(guard("kept"), pod("a"), pod("b"), pod("kept")),
        pod("held", annotations={"karpenter.sh/do-not-disrupt": "true"}),
        pod("over", run="20s"),
        kinds=KINDS[:1],
    )
    yield from world.until(100)
    template: Obj = {"metadata": {"labels": {"tier": "two"}}}
    yield from world.patch("p", {"spec": {"template": template}}, NODE_POOL).until(400)
    yield from world.rest()
    # Back: what was marked is not any more.
    template = {"metadata": {"labels": {"tier": None}}}
    yield from world.patch("p", {"spec": {"template": template}}, NODE_POOL).until(430)
    yield from world.remembered()


def expired() -> Iterator[str]:
    """Machines of five minutes, with one more for their pods; whoever asks for longer is cut short."""
    world = World(
        pool(
            of={"expireAfter": "5m", "terminationGracePeriod": "60s"},
            disruption={"consolidateAfter": "Never"},
        ),
        *(guard("guarded"), pod("guarded", terminationGracePeriodSeconds=20)),
        pod("slow", terminationGracePeriodSeconds=45, annotations={"karpenter.sh/do-not-disrupt": "true"}),
        pod("long", terminationGracePeriodSeconds=600),
        kinds=KINDS[:1],
    )
    yield from world.until(345)
    yield from world.remembered()
    yield from world.until(500)
    yield from world.rest()


def taken_back() -> Iterator[str]:
    """The cloud takes spot machines back: two minutes' notice, a hint, or not a word."""
    world = World(pool(of={"requirements": []}), *map(pod, "abcd"), kinds=KINDS[:1])
    yield from world.until(60)
    one, two, three, four = world.names()
    assert world.part.spot_notice(one)
    assert not world.part.spot_notice("nobody's")
    world.part.spot_hint(two)
    world.part.spot_hint("nobody's")
    world.twin.wake()
    yield from world.until(62)
    assert world.part.spot_notice(one)
    yield from world.delete(three, "Node").until(80)
    partition_node(world.twin, four, world.twin.now_us)
    yield from world.until(90)
    yield from world.delete(four, NODE_CLAIM).until(400)
    yield from world.rest()


def late() -> Iterator[str]:
    """A machine has a quarter of an hour to register: at its very end is in time, a second later is not."""
    world = World(
        *(pool("in-time", labels={"t": "in-time"}), pool("late", labels={"t": "late"})),
        kinds=[kind("small", 4, 100_000), kind("large", 16, 500_000)],
        boots={"small": constant(900 * S), "large": constant(901 * S)},
    )
    world.apply(pod("in-time", nodeSelector={"t": "in-time"}), pod("late", "12", nodeSelector={"t": "late"}))
    yield from world.until(899)
    yield from world.delete("late").until(1000)
    yield from (
        f"lost {one.name} {(at_us - EPOCH_US) // S} s" for one, at_us in world.twin.host.launches.lost
    )
    yield from world.rest()


def starting() -> Iterator[str]:
    """Startup taints stay for a while; own ones, and those of another effect, stay for good; GPUs are there at once."""
    own = [TAINT, {**BOOTING, "effect": "NoExecute"}]
    world = World(
        pool(of={"startupTaints": [BOOTING], "taints": own}, labels={"own": "label"}),
        *(pod("a", tolerations=[{**own[0]}, {**own[1]}]), pod("b", "1", gpu=2, tolerations=ANY)),
        startup_us=20 * S,
    )
    yield from world.until(34)
    yield from world.apply(pod("late", "500m", tolerations=own)).until(45)
    node = world.names("Node")[0]
    # Somebody else takes it off: it was their business as well.
    yield from world.patch(node, {"spec": {"taints": own}}, "Node").until(60)
    yield from (str(n["spec"]) for n in world.twin.store.objects("Node"))
    yield from world.rest()


def opening_hours() -> Iterator[str]:
    """A budget that is closed from the first minute to the third: what is empty goes when it opens again."""
    closed = {"nodes": "0", "schedule": "1 0 * * *", "duration": "2m"}
    world = World(
        pool(disruption={"budgets": [{"nodes": "100%"}, closed]}), pod("a", run="50s"), pod("b", "12")
    )
    yield from world.until(120)
    yield from world.remembered()
    yield from world.until(300)
    yield from world.rest()


def only_empty() -> Iterator[str]:
    """A pool that gives back empty nodes alone: daemons and a node's own pods are none, those that ended neither."""
    world = World(pool(disruption={"consolidationPolicy": "WhenEmpty"}), kinds=KINDS[:1])
    world.apply(pod("a", run="40s"), pod("b"), pod("c", run="30s"))
    yield from world.until(60)
    first, _, third = world.names()
    world.apply(pod("agent", "100m", owner="DaemonSet", nodeName=first, tolerations=ANY))
    world.apply(pod("own", "100m", owner="Node", nodeName=third, tolerations=ANY))
    yield from world.until(200)
    yield from world.remembered()
    yield from world.delete("b").until(300)
    yield from world.rest()


def pools_change() -> Iterator[str]:
    """A pool that comes, is changed, cannot match any more, goes, and comes again; who waits is looked at each time."""
    world = World(pod("a"), pod("b", "12"), pod("c", "1", nodeSelector={"tier": "gold"}))
    yield from world.until(20)
    small = {"requirements": [among(CAPACITY_TYPE, ON_DEMAND), among(INSTANCE_TYPE, "small")]}
    yield from world.apply(pool(of=small)).until(80)
    more = {"metadata": {"labels": {"tier": "gold"}}, "spec": pool()["spec"]["template"]["spec"]}
    yield from world.patch("p", {"spec": {"template": more}}, NODE_POOL).until(160)
    yield from world.rest()
    yield from world.delete("p", NODE_POOL).until(170)
    yield from world.apply(pod("d")).delete("b").until(250)
    yield from world.remembered()
    yield from world.apply(pool(disruption={"consolidateAfter": "Never"})).until(330)
    yield from world.patch("p", {"spec": {"disruption": {"consolidateAfter": "20s"}}}, NODE_POOL).until(460)
    yield from world.rest()


def volumes() -> Iterator[str]:
    """A pod whose claim is not there opens nothing; the claim, its class and its volume are news for it."""
    mounts = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    world = World(
        pool(), pod("p", volumes=mounts), pod("q", "1"), kinds=[kind("small", 4, 100_000, zones=("z1", "z2"))]
    )
    yield from world.until(40)
    yield from world.rest()
    claim: Obj = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"storageClassName": "fast"}}
    yield from world.apply({**claim, "metadata": {"name": "data", "namespace": "default"}}).until(50)
    topology = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["z2"]}]}]
    yield from world.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "x",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": topology,
        }
    ).until(120)
    yield from world.rest()


def found_there() -> Iterator[str]:
    """Karpenter starts where it ran before: what was on its way comes, what was going goes, ages go on."""
    of = {"startupTaints": [BOOTING], "expireAfter": "6m", "terminationGracePeriod": "60s"}
    aged: dict[str, Any] = {"nodeSelector": {"of": "aged"}}
    plain: dict[str, Any] = {"nodeSelector": {"of": "plain"}}
    world = World(
        *(pool("aged", of, {"of": "aged"}), pool("plain", labels={"of": "plain"})),
        *(pod("a", **aged), pod("b", **aged), pod("c", **plain)),
        kinds=KINDS[:1],
        startup_us=90 * S,
    )
    yield from world.until(59)
    yield from world.apply(pod("d", **aged), pod("e", "2", **plain)).until(61)
    world.twin.store.delete(Key(NODE_CLAIM, "", world.names()[0]))
    world.twin.store.delete(Key(NODE_CLAIM, "", world.names()[-1]))
    begun = world.begun_anew()
    yield "== begun anew"
    yield from begun.until(300)
    yield from begun.apply(pod("f", **aged)).until(700)
    yield from begun.rest()


def given_back() -> Iterator[str]:
    """Karpenter starts anew while a node waits for its replacement: that is forgotten, the node given back."""
    world = World(pool(), pod("stays"), pod("goes", "12"))
    yield from world.until(101)
    yield from world.delete("goes").until(130)
    begun = world.begun_anew()
    yield "== begun anew"
    yield from begun.until(400)
    yield from begun.rest()


def dear_spot() -> Iterator[str]:
    """A spot machine is not exchanged for another unless that is allowed; then it is, for the cheaper one."""
    for allowed in (False, True):
        world = World(
            pool(of={"requirements": [among(CAPACITY_TYPE, SPOT)]}),
            *(pod("stays"), pod("goes", "12")),
            kinds=[kind(f"k{n}", 4, 100_000 + n) for n in range(16)] + [kind("large", 16, 500_000)],
            spot_to_spot=allowed,
        )
        yield from world.until(91)
        yield from world.delete("goes").until(300)
        yield from world.rest()


STORIES: tuple[Callable[[], Iterator[str]], ...] = (
    *(gathered, emptied, rests, sold_out, limited, replaced, overtaken, in_vain, lost_meanwhile, let_down),
    *(over_the_limit, let_down_in_going, together),
    *(drifted, expired, taken_back, late, starting, opening_hours, only_empty, pools_change, volumes),
    *(found_there, given_back, dear_spot),
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_nothing_else_happens(story: Callable[[], Iterator[str]]) -> None:
    check_history(HERE / f"{story.__name__}.txt", story())


@pytest.mark.parametrize("at_s", [0.5, 20, 70, 95, 131, 140, 150, 178, 182, 240, 333, 345])
def test_a_copy_goes_on_alike(at_s: float) -> None:
    """Whatever is on its way: a batch, machines, a decision, a drain, an offering that is left out."""
    mounts = [{"name": "v", "persistentVolumeClaim": {"claimName": "nobody"}}]
    world = World(
        pool(of={"expireAfter": "330s", "terminationGracePeriod": "30s"}, limits={"cpu": "40"}),
        *(pod("stays", terminationGracePeriodSeconds=20), pod("goes", "12", run="60s"), pod("huge", "90")),
        *(pod("g", "1", gpu=1), pod("brief", "15", run="30s"), pod("lost", volumes=mounts)),
        shortages=[
            Shortage("small", from_us=EPOCH_US + 100 * S, until_us=EPOCH_US + 130 * S),
            Shortage("cards"),
        ],
        boots={"small": Distribution("lognormal", 30 * S, 0.5)},
    )
    list(world.until(at_s))
    copied = world.forked()
    assert list(copied.rest()) == list(world.rest())
    told = []
    for one in (copied, world):
        lines = list(one.until(400)) + list(one.apply(pod("new")).until(600))
        told.append(lines + list(one.rest()))
    assert told[0] == told[1]
