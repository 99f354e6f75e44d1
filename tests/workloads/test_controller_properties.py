"""Whatever is done to it, the cluster settles, stays settled, counts right and leaves no orphans."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tinyworld import World, deployment, is_over, job, pod_key, template

from fairway.kube.objects import Key, Obj
from fairway.workloads import pods
from fairway.workloads.deployment.sets import wishes_of
from fairway.workloads.disruption.eviction import evict
from fairway.workloads.job.podspec import COMPLETION_INDEX
from fairway.workloads.registry import CONTROLLERS

WEB = Key("Deployment.apps", "default", "web")
TRAIN = Key("Job.batch", "default", "train")
DB = Key("StatefulSet.apps", "default", "db")
AGENT = Key("DaemonSet.apps", "default", "agent")
PDB = Key("PodDisruptionBudget.policy", "default", "web")
IMAGES = ("app:1", "app:2", "app:3", "app:bad")

few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

amounts = st.one_of(st.integers(0, 3), st.sampled_from(["0%", "25%", "50%", "100%"]))

deployment_ops = st.lists(
    st.one_of(
        st.tuples(st.just("replicas"), st.integers(0, 6)),
        st.tuples(st.just("image"), st.sampled_from(IMAGES)),
        st.tuples(st.just("pause"), st.booleans()),
        st.tuples(st.just("kill"), st.integers(0, 9)),
        st.tuples(st.just("fail"), st.integers(0, 9)),
        st.tuples(st.just("evict"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.sampled_from([1, 30, 700])),
    ),
    max_size=10,
)


def is_settled(world: World) -> None:
    """Nobody wants to do anything about anything."""
    for controller in CONTROLLERS:
        for obj in world.store.objects(controller.gk):
            key = Key(controller.gk, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            decided = controller.reconcile(world.store, key, world.now_us)
            assert decided.actions == (), (controller.name, key, decided.actions)


def no_orphans(world: World) -> None:
    for gk in ("Pod", "ReplicaSet.apps", "Job.batch", "ControllerRevision.apps"):
        for obj in world.store.objects(gk):
            for ref in obj["metadata"].get("ownerReferences") or ():
                assert world.store.by_uid(ref["uid"]) is not None, obj["metadata"]["name"]


def active_pods(world: World, key: Key) -> list[Obj]:
    return [p for p in world.pods_of(key) if not is_over(p)]


def counts_are_right(world: World) -> None:
    """Every status says what is there."""
    for one in world.store.objects("ReplicaSet.apps"):
        key = Key("ReplicaSet.apps", "default", one["metadata"]["name"])
        live = active_pods(world, key)
        assert one["status"]["replicas"] == len(live) == one["spec"]["replicas"]
        assert one["status"].get("readyReplicas", 0) == sum(map(pods.is_ready, live))
    for one in world.store.objects("Job.batch"):
        key = Key("Job.batch", "default", one["metadata"]["name"])
        live = active_pods(world, key)
        assert one["status"].get("active", 0) == len(live)
        assert one["status"]["ready"] == sum(map(pods.is_ready, live))
    for one in world.store.objects("StatefulSet.apps"):
        key = Key("StatefulSet.apps", "default", one["metadata"]["name"])
        assert one["status"]["replicas"] == len(world.pods_of(key))
    for one in world.store.objects("DaemonSet.apps"):
        key = Key("DaemonSet.apps", "default", one["metadata"]["name"])
        assert one["status"]["currentNumberScheduled"] == len(
            {p["spec"]["nodeName"] for p in world.pods_of(key)}
        )


def play(world: World, op: str, value: Any) -> None:
    if op == "replicas":
        world.patch(WEB, {"spec": {"replicas": value}})
    elif op == "image":
        world.patch(WEB, {"spec": {"template": template(value, labels={"app": "web"})}})
    elif op == "pause":
        world.patch(WEB, {"spec": {"paused": value}})
    elif op == "wait":
        world.advance(value)
    else:
        found = [p for p in world.pods(app="web") if not is_over(p)]
        if not found:
            return
        chosen = found[value % len(found)]
        if op == "kill":
            world.delete(pod_key(chosen))
        elif op == "fail":
            world.finish(chosen, 1)
        elif op == "evict":
            for action in evict(world.store, pod_key(chosen), world.now_us).actions:
                world._perform(action)
            world.settle()


@few
@given(surge=amounts, unavailable=amounts, ops=deployment_ops)
def test_deployments_settle_and_never_exceed_their_surge(
    surge: Any, unavailable: Any, ops: list[Any]
) -> None:
    world = World()
    world.hold = ("app:bad",)
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    world.apply(deployment(replicas=3, strategy=strategy))
    limit = [wishes_of(world.get(WEB)).max_replicas]

    def never_more_than_surge_allows(world: World) -> None:
        sizes = [s["spec"]["replicas"] for s in world.store.objects("ReplicaSet.apps")]
        assert sum(sizes) <= max(limit[0], wishes_of(world.get(WEB)).max_replicas)

    world.watchers.append(never_more_than_surge_allows)
    for op, value in ops:
        limit[0] = wishes_of(world.get(WEB)).max_replicas
        play(world, op, value)
        is_settled(world)
        counts_are_right(world)
        no_orphans(world)


@few
@given(
    replicas=st.integers(1, 8),
    surge=amounts,
    unavailable=amounts,
    images=st.lists(st.sampled_from(IMAGES[:3]), min_size=1, max_size=4),
)
def test_a_rollout_of_healthy_pods_never_takes_more_than_maxunavailable(
    replicas: int, surge: Any, unavailable: Any, images: list[str]
) -> None:
    world = World()
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    world.apply(deployment(replicas=replicas, strategy={"type": "RollingUpdate", "rollingUpdate": rolling}))
    wishes = wishes_of(world.get(WEB))

    def enough_are_available(world: World) -> None:
        live = [p for p in world.pods(app="web") if not is_over(p)]
        assert sum(map(pods.is_ready, live)) >= wishes.min_available
        assert len(live) <= wishes.max_replicas

    world.watchers.append(enough_are_available)
    for image in images:
        world.patch(WEB, {"spec": {"template": template(image, labels={"app": "web"})}})
        assert {p["spec"]["containers"][0]["image"] for p in world.pods(app="web")} == {image}
    is_settled(world)


@few
@given(
    minimum=st.one_of(st.integers(0, 4), st.sampled_from(["0%", "50%", "100%"])),
    victims=st.lists(st.integers(0, 9), max_size=8),
)
def test_evictions_never_break_a_budget(minimum: Any, victims: list[int]) -> None:
    world = World()
    world.apply(deployment(replicas=4))
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": minimum, "selector": {"matchLabels": {"app": "web"}}},
    }
    world.apply(budget)
    for victim in victims:
        # Two at the same moment, before any controller has looked.
        found = world.pods(app="web")
        for pod in (found[victim % 4], found[(victim + 1) % 4]):
            for action in evict(world.store, pod_key(pod), world.now_us).actions:
                world._perform(action)
        live = [p for p in world.pods(app="web") if not is_over(p)]
        assert sum(map(pods.is_ready, live)) >= min(world.status(PDB)["desiredHealthy"], 4)
        world.settle()
        assert world.status(PDB)["currentHealthy"] == 4
    is_settled(world)


job_specs = st.fixed_dictionaries(
    {
        "parallelism": st.integers(0, 4),
        "completions": st.integers(1, 4),
        "backoffLimit": st.integers(0, 4),
        "completionMode": st.sampled_from(["Indexed", "NonIndexed"]),
    },
    optional={
        "suspend": st.booleans(),
        "podReplacementPolicy": st.sampled_from(["Failed", "TerminatingOrFailed"]),
        "activeDeadlineSeconds": st.sampled_from([100, 1000]),
    },
)

job_ops = st.lists(
    st.one_of(
        st.tuples(st.just("succeed"), st.integers(0, 9)),
        st.tuples(st.just("fail"), st.integers(0, 9)),
        st.tuples(st.just("kill"), st.integers(0, 9)),
        st.tuples(st.just("suspend"), st.booleans()),
        st.tuples(st.just("parallelism"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.sampled_from([1, 15, 90, 700])),
    ),
    max_size=14,
)


@few
@given(spec=job_specs, per_index=st.booleans(), ops=job_ops)
def test_jobs_settle_count_right_and_never_run_more_than_they_should(
    spec: dict[str, Any], per_index: bool, ops: list[Any]
) -> None:
    world = World()
    if per_index and spec["completionMode"] == "Indexed":
        spec["backoffLimitPerIndex"] = 1
    world.apply(job(**spec))
    ended = {"Succeeded": 0, "Failed": 0}
    for op, value in ops:
        live = active_pods(world, TRAIN)
        if op == "wait":
            world.advance(value)
        elif op in ("suspend", "parallelism"):
            world.patch(TRAIN, {"spec": {op: value}})
        elif live and op == "kill":
            world.delete(pod_key(live[value % len(live)]))
        elif live:
            world.finish(live[value % len(live)], 0 if op == "succeed" else 1)
            ended["Succeeded" if op == "succeed" else "Failed"] += 1
        _check_job(world, ended)
    world.delete(TRAIN)
    assert world.pods() == []


def _check_job(world: World, ended: dict[str, int]) -> None:
    is_settled(world)
    counts_are_right(world)
    obj, status = world.get(TRAIN), world.status(TRAIN)
    live = active_pods(world, TRAIN)
    spec = obj["spec"]
    assert len(live) <= spec["parallelism"]
    assert len(live) <= max(spec["completions"] - status.get("succeeded", 0), 0)
    if spec.get("suspend"):
        assert live == []
    if spec["completionMode"] == "Indexed":
        indexes = [p["metadata"]["annotations"][COMPLETION_INDEX] for p in live]
        assert len(set(indexes)) == len(indexes)
    assert status.get("succeeded", 0) == ended["Succeeded"]
    terminal = [c["type"] for c in status.get("conditions") or () if c["type"] in ("Complete", "Failed")]
    assert len(terminal) <= 1
    if terminal:
        assert live == []


set_ops = st.lists(
    st.one_of(
        st.tuples(st.just("replicas"), st.integers(0, 5)),
        st.tuples(st.just("image"), st.sampled_from(IMAGES)),
        st.tuples(st.just("partition"), st.integers(0, 4)),
        st.tuples(st.just("kill"), st.integers(0, 9)),
        st.tuples(st.just("fail"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.sampled_from([1, 100])),
    ),
    max_size=10,
)


@few
@given(policy=st.sampled_from(["OrderedReady", "Parallel"]), unavailable=amounts, ops=set_ops)
def test_stateful_sets_settle_and_update_no_more_than_allowed(
    policy: str, unavailable: Any, ops: list[Any]
) -> None:
    world = World()
    world.hold = ("app:bad",)
    labels = {"app": "db"}
    spec: dict[str, Any] = {
        "replicas": 3,
        "podManagementPolicy": policy,
        "selector": {"matchLabels": labels},
        "template": template("app:1", labels=labels),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable}},
    }
    meta = {"name": "db", "namespace": "default"}
    world.apply({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec})
    for op, value in ops:
        live = [p for p in world.pods_of(DB) if not is_over(p)]
        if op == "replicas":
            world.patch(DB, {"spec": {"replicas": value}})
        elif op == "image":
            world.patch(DB, {"spec": {"template": template(value, labels=labels)}})
        elif op == "partition":
            world.patch(DB, {"spec": {"updateStrategy": {"rollingUpdate": {"partition": value}}}})
        elif op == "wait":
            world.advance(value)
        elif live and op == "kill":
            world.delete(pod_key(live[value % len(live)]))
        elif live:
            world.finish(live[value % len(live)], 1)
        is_settled(world)
        counts_are_right(world)
        no_orphans(world)
        ordinals = sorted(int(p["metadata"]["name"].rpartition("-")[2]) for p in world.pods_of(DB))
        assert ordinals == list(range(len(ordinals))), "no holes"
    world.delete(DB)
    assert world.pods() == []


daemon_ops = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 5)),
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.tuples(st.just("taint"), st.integers(0, 5)),
        st.tuples(st.just("image"), st.sampled_from(IMAGES)),
        st.tuples(st.just("kill"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.sampled_from([1, 100])),
    ),
    max_size=10,
)


@few
@given(surge=st.sampled_from([0, 1, "50%"]), unavailable=st.sampled_from([0, 1, 2, "50%"]), ops=daemon_ops)
def test_daemon_sets_settle_on_every_node_that_wants_them(
    surge: Any, unavailable: Any, ops: list[Any]
) -> None:
    world = World(nodes=3)
    world.hold = ("app:bad",)
    labels = {"app": "agent"}
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    spec = {
        "selector": {"matchLabels": labels},
        "template": template("app:1", labels=labels),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
    }
    meta = {"name": "agent", "namespace": "default"}
    world.apply({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": spec})
    for op, value in ops:
        node = Key("Node", "", f"m{value}")
        if op == "add" and world.store.get(node) is None:
            world.add_node(node.name)
            world.settle()
        elif op == "taint" and world.store.get(node) is not None:
            world.patch(node, {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}})
        elif op == "remove" and world.store.get(node) is not None:
            world.delete(node)
            for pod in world.pods_of(AGENT):
                # The controller may have deleted the second of a surging pair once the first was gone.
                if pods.node_of(pod) == node.name and world.store.get(pod_key(pod)) is not None:
                    world.delete(pod_key(pod), grace_s=0)
        elif op == "image":
            world.patch(AGENT, {"spec": {"template": template(value, labels=labels)}})
        elif op == "kill" and (found := world.pods_of(AGENT)):
            world.delete(pod_key(found[value % len(found)]))
        elif op == "wait":
            world.advance(value)
        is_settled(world)
        counts_are_right(world)
        wanted = [n for n in world.store.objects("Node") if not n["spec"].get("taints")]
        assert world.status(AGENT)["desiredNumberScheduled"] == len(wanted)
        assert world.status(AGENT)["currentNumberScheduled"] == len(wanted)
    world.delete(AGENT)
    assert world.pods() == []
