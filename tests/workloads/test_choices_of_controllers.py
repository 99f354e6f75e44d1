"""Choices of serving and rollout controllers, each side of them: against all that could be chosen, or in tables."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tinyworld import START_US, World, deployment, job, template

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339, rfc3339
from fairway.workloads.kserve import podspecs, runtimes
from fairway.workloads.kserve.llm import presets, workloads
from fairway.workloads.rollouts.counts import wanted_counts
from fairway.workloads.rollouts.facts import Facts

# Rollouts: the split that comes nearest to the weight.


def shared(replicas: int, weight: int, surge: int) -> tuple[int, int]:
    """What a canary without a router grows to where nothing holds it back: nothing is there, so the first step gives
    the canary all it wants, and the stable version the rest."""
    canary = {"maxSurge": surge, "maxUnavailable": "100%", "steps": [{"setWeight": weight}, {"pause": {}}]}
    rollout = {"metadata": {"name": "r"}, "spec": {"replicas": replicas, "strategy": {"canary": canary}}}
    status = {"stableRS": "old", "currentPodHash": "new", "currentStepIndex": 0}
    empty: Obj = {"spec": {"replicas": 0}, "status": {}}
    found = Facts(rollout, status, "new", "steps", dict(empty), dict(empty), ())
    return wanted_counts(found)


# Upstream has no choice left here ("should not get here"), and lets the stable version keep all.
LEFT_OVER = {(2, 75, 0), (5, 90, 0), (10, 95, 0)}


def test_no_other_split_comes_nearer_to_the_weight() -> None:
    for replicas, weight, surge in product(range(13), range(101), (0, 1)):
        canary, stable = shared(replicas, weight, surge)
        at = (replicas, weight, surge)
        if replicas == 0 or at in LEFT_OVER:
            assert (canary, stable) == (0, replicas), at
            continue
        total = canary + stable
        sizes = (replicas, replicas + 1) if surge else (replicas,)
        assert total in sizes, at
        may_be_none = weight in (0, 100) or (replicas == 1 and not surge)
        others = [(c, t) for t in sizes for c in range(t + 1) if may_be_none or 0 < c < t]
        assert may_be_none or (canary and stable), at
        off = abs(canary * 100 / total - weight)
        assert off <= min(abs(c * 100 / t - weight) for c, t in others) + 1e-9, at


# KServe: which runtime, which image, what is filled in.


def model_pod(container: Obj, server: str = "own", isvc: Obj | None = None, **model: Any) -> Obj:
    runtime = runtimes.Runtime(
        "own", False, {"containers": [{"name": podspecs.CONTAINER, **container}]}, server
    )
    named = {"metadata": {"name": "a", "namespace": "ns"}}
    spec = podspecs.predictor_pod(isvc or named, {"model": model}, model, runtime)
    found: Obj = spec["containers"][0]
    return found


def test_what_stands_in_braces_is_filled_in_wherever_it_stands() -> None:
    isvc = {
        "metadata": {
            "name": "a",
            "namespace": "ns",
            "labels": {"x": "1"},
            "annotations": {"y": "2", "x": "3"},
        }
    }
    container = {
        "args": [
            "--n={{.Name}}",
            "{{ .Namespace }}",
            "{{.Labels.x}}{{.Annotations.y}}",
            "{{.Annotations.x}}",
            "{{x}}",
        ],
        "env": [{"name": "N", "value": "{{.Labels.nothing}}"}, {"name": "K", "value": "plain"}],
        "resources": {"limits": {"cpu": 1}},
        "workingDir": "{{.Labels.serviceEnvelope}}",
    }
    made = model_pod(container, isvc=isvc)
    assert made["args"] == ["--n=a", "ns", "12", "3", "{{x}}"]
    assert [e["value"] for e in made["env"]] == ["<no value>", "plain", "a"]
    assert (made["resources"], made["workingDir"]) == ({"limits": {"cpu": 1}}, "kserve")


GPU = {"limits": {"nvidia.com/gpu": "1"}}
CPU = {"limits": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("image", "server", "resources", "version", "want"),
    [
        ("r/i:1", "own", CPU, "2.0", "r/i:2.0"),
        ("r:5000/i", "own", CPU, "2.0", "r:5000/i:2.0"),
        ("r:5000/i", "own", GPU, None, "r:5000/i"),
        ("i@sha256:ab", "torchserve", GPU, "2.0", "i@sha256:ab"),
        ("i:1", "torchserve", GPU, None, "i:1-gpu"),
        ("i:1-gpu", "torchserve", GPU, None, "i:1-gpu"),
        ("i:1", "torchserve", CPU, None, "i:1"),
        ("i:1", "tensorflow-serving", GPU, None, "i:1-gpu"),
        ("i:1", "huggingfaceserver", GPU, None, "i:1-gpu"),
        ("i:1", "own", GPU, None, "i:1"),
        ("i:1", "vllmserver", CPU, None, "i-cpu:1"),
        ("i:1", "vllmserver", None, None, "i-cpu:1"),
        ("i-cpu:1", "vllmserver", CPU, None, "i-cpu:1"),
        ("i:1", "vllmserver", GPU, None, "i:1"),
        ("i", "vllmserver", CPU, None, "i"),
    ],
)
def test_images_go_by_version_and_by_gpu(
    image: str, server: str, resources: Obj | None, version: str | None, want: str
) -> None:
    container = {"image": image, **({"resources": resources} if resources else {})}
    model = {"runtimeVersion": version} if version else {}
    assert model_pod(container, server, **model)["image"] == want


def runtime(name: str, *formats: Obj, at: str = "2026-01-05T08:00:00Z", **spec: Any) -> Obj:
    meta = {"name": name, "namespace": "ns", "creationTimestamp": at}
    body = {"containers": [], "supportedModelFormats": list(formats), **spec}
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": meta,
        "spec": body,
    }


def takes(name: str = "own", **more: Any) -> Obj:
    return {"name": name, "autoSelect": True, **more}


@pytest.mark.parametrize(
    ("there", "model", "want"),
    [
        ([runtime("a", takes()), runtime("b", takes(priority=1))], {}, "b"),
        ([runtime("a", takes(priority=2)), runtime("b", takes(priority=1))], {}, "a"),
        # The priority of another format does not count.
        ([runtime("a", takes()), runtime("b", takes("x", priority=5), takes())], {}, "a"),
        ([runtime("b", takes()), runtime("a", takes())], {}, "a"),
        ([runtime("a", takes()), runtime("b", takes(), at="2026-01-05T09:00:00Z")], {}, "b"),
        (
            [runtime("a", takes(), protocolVersions=["v2"]), runtime("b", takes(), protocolVersions=["v1"])],
            {},
            "b",
        ),
        (
            [
                runtime("a", takes(), protocolVersions=["v1"]),
                runtime("b", takes(), protocolVersions=["v1", "x"]),
            ],
            {},
            "b",
        ),
        ([runtime("a", takes(), protocolVersions=["v2"])], {"protocolVersion": "v2"}, "a"),
        ([runtime("a", takes(), protocolVersions=["v2"])], {}, None),
        ([runtime("a", takes(version="1"))], {"modelFormat": {"name": "own", "version": "1"}}, "a"),
        ([runtime("a", takes(version="1"))], {"modelFormat": {"name": "own", "version": "2"}}, None),
        ([runtime("a", takes())], {"modelFormat": {"name": "own", "version": "2"}}, None),
        ([runtime("a", {"name": "own"})], {}, None),
        ([runtime("a", {"name": "own"}, takes())], {}, "a"),
        ([runtime("a", takes(), disabled=True)], {}, None),
        ([runtime("a", takes(), multiModel=True)], {}, None),
        ([runtime("a", takes(), workerSpec={"containers": []})], {}, None),
        ([runtime("a", {"name": "own"})], {"runtime": "a"}, "a"),
        ([runtime("a", takes(), disabled=True)], {"runtime": "a"}, None),
        ([runtime("a", takes("x"))], {"runtime": "a"}, None),
        ([runtime("a", takes(), protocolVersions=["v1"])], {"runtime": "a", "protocolVersion": "v2"}, None),
        ([runtime("a", takes())], {"runtime": "b"}, None),
    ],
)
def test_which_runtime_serves_a_model(there: list[Obj], model: Obj, want: str | None) -> None:
    store = Store(seed=1, now_us=START_US)
    for obj in sorted(there, key=lambda obj: obj["metadata"]["creationTimestamp"]):
        store.now_us = parse_rfc3339(obj["metadata"]["creationTimestamp"])
        store.create(obj)
    found = runtimes.chosen(store, {"modelFormat": {"name": "own"}, **model}, "ns", is_multi_node=False)
    assert (found.name if isinstance(found, runtimes.Runtime) else None) == want


@pytest.mark.parametrize("is_multi", [True, False])
def test_groups_are_served_by_runtimes_of_groups(is_multi: bool) -> None:
    store = Store(seed=1, now_us=START_US)
    store.create(runtime("one", takes()))
    store.create(runtime("many", takes(), workerSpec={"containers": [{"name": "w"}]}))
    found = runtimes.chosen(store, {"modelFormat": {"name": "own"}}, "ns", is_multi_node=is_multi)
    assert isinstance(found, runtimes.Runtime) and found.name == ("many" if is_multi else "one")


# LLMInferenceServices: pods, routes.

SERVICE: Obj = {
    "apiVersion": "serving.kserve.io/v1alpha2",
    "metadata": {
        "name": "chat",
        "namespace": "ns",
        "uid": "u",
        "labels": {"kueue.x-k8s.io/queue-name": "q", "mine": "1"},
        "annotations": {"prometheus.io/port": "1", "mine": "1"},
    },
    "spec": {},
}
MAIN = {"containers": [{"name": "main"}]}


def made(kind: str, **spec: Any) -> list[Obj]:
    body = {"model": {"uri": "hf://a/b", "name": "m"}, "template": MAIN, **spec}
    return [o for o in workloads.workloads(SERVICE, body, has_tls=False) if o["kind"] == kind]


def test_workers_without_a_leader_are_what_the_pool_selects() -> None:
    groups = made("LeaderWorkerSet", worker=MAIN, template=None, prefill={"worker": MAIN, "template": None})
    for group, role, suffix in zip(groups, ("decode", "prefill"), ("", "-prefill"), strict=True):
        labels = {
            workloads.COMPONENT: f"llminferenceservice-workload-worker{suffix}",
            workloads.NAME: "chat",
            workloads.PART_OF: "llminferenceservice",
            workloads.SELECTED: "workload",
            workloads.ROLE: role,
        }
        of_group = group["spec"]["leaderWorkerTemplate"]
        assert of_group["workerTemplate"]["metadata"]["labels"] == labels
        assert group["metadata"]["labels"] == labels
        assert "leaderTemplate" not in of_group
    (led,) = made("LeaderWorkerSet", worker=MAIN)
    of_group = led["spec"]["leaderWorkerTemplate"]
    assert workloads.ROLE not in of_group["workerTemplate"]["metadata"]["labels"]
    assert of_group["leaderTemplate"]["metadata"]["labels"][workloads.ROLE] == "both"


@pytest.mark.parametrize("limits", [{}, {"maxSurge": 1}, {"maxUnavailable": "25%", "maxSurge": 0}])
def test_limits_of_a_rollout_are_passed_on(limits: Obj) -> None:
    (plain,) = made("Deployment", rolloutStrategy=limits, replicas=0)
    want = {"type": "RollingUpdate", "rollingUpdate": limits} if limits else None
    assert plain["spec"].get("strategy") == want
    assert plain["spec"]["replicas"] == 0
    (group,) = made("LeaderWorkerSet", rolloutStrategy=limits, worker=MAIN)
    assert group["spec"]["rolloutStrategy"] == {
        "type": "RollingUpdate",
        **({"rollingUpdateConfiguration": limits} if limits else {}),
    }
    assert "replicas" not in group["spec"]


def test_of_the_services_own_metadata_only_what_others_look_for_is_passed_on() -> None:
    (plain,) = made(
        "Deployment", labels={"x": "y"}, annotations={"z": "1", workloads.ROUTED_BY_MODEL: "true"}
    )
    pod = plain["spec"]["template"]["metadata"]
    assert pod["annotations"] == {"prometheus.io/port": "1", "z": "1"}
    assert plain["metadata"]["annotations"] == {"prometheus.io/port": "1"}
    for labels, own in ((pod["labels"], {"x": "y"}), (plain["metadata"]["labels"], {})):
        base = plain["spec"]["selector"]["matchLabels"]
        assert labels == {**base, "kueue.x-k8s.io/queue-name": "q", **own}


def test_a_sidecar_is_told_of_the_pool_and_brings_an_account() -> None:
    init = [{"name": workloads.SIDECAR, "env": [{"name": "A", "value": "1"}]}, {"name": "other"}]
    for router, account in product((None, {}), ("", "mine")):
        part = {**MAIN, "initContainers": init, **({"serviceAccountName": account} if account else {})}
        more = {} if router is None else {"router": {"scheduler": {"pool": {"ref": {"name": "p"}}}}}
        (plain,) = made("Deployment", template=part, **more)
        pod = plain["spec"]["template"]["spec"]
        told = [{"name": "INFERENCE_POOL_NAME", "value": "p"}] if router is not None else []
        assert pod["initContainers"][0]["env"] == [{"name": "A", "value": "1"}, *told]
        assert pod["initContainers"][1] == {"name": "other"}
        assert pod["serviceAccountName"] == (account or "chat-kserve")
        accounts = made("ServiceAccount", template=part, **more)
        assert [a["metadata"]["name"] for a in accounts] == ([] if account else ["chat-kserve"])


@pytest.mark.parametrize(
    ("part", "want"),
    [
        ({}, 1),
        ({"pipeline": 3}, 3),
        ({"data": 4}, 4),
        ({"data": 4, "dataLocal": 2}, 2),
        ({"data": 5, "dataLocal": 2}, 2),
        ({"dataLocal": 2}, 1),
        ({"data": 2, "dataLocal": 4}, 1),
        ({"data": 0, "pipeline": 3}, 3),
        ({"data": 4, "pipeline": 3}, 4),
    ],
)
def test_pods_of_a_group(part: Obj, want: int) -> None:
    assert workloads.size_of({"parallelism": part}) == want


def test_the_pool_is_the_one_that_is_named() -> None:
    for name in ("", "p"):
        spec = {"router": {"scheduler": {"pool": {"ref": {"name": name}}}}}
        assert presets.has_pool_ref(spec) is bool(name)
        assert presets.pool_name("chat", spec) == (name or "chat-inference-pool")
    assert presets.pool_name("chat", {}) == "chat-inference-pool"


# Deployments, Jobs


def test_a_new_revision_is_one_more_than_any_before() -> None:
    world = World()
    key = world.apply(deployment(replicas=1, revisionHistoryLimit=9))
    for image in ("app:2", "app:3", "app:1"):
        world.patch(key, {"spec": {"template": template(image, labels={"app": "web"})}})
    numbers = {
        s["spec"]["template"]["spec"]["containers"][0]["image"]: s["metadata"]["annotations"][
            "deployment.kubernetes.io/revision"
        ]
        for s in world.store.objects("ReplicaSet.apps")
    }
    assert numbers == {"app:2": "2", "app:3": "3", "app:1": "4"}


def test_what_a_status_counted_once_stays_in_it() -> None:
    world = World()
    key = world.apply(deployment(replicas=1))
    world.store.set_status(key, {**world.status(key), "collisionCount": 2})
    world.patch(key, {"spec": {"replicas": 2}})
    assert (world.status(key)["collisionCount"], world.status(key)["replicas"]) == (2, 2)


def test_ripening_is_a_wish_that_reaches_every_replica_set() -> None:
    world = World()
    key = world.apply(deployment(replicas=1))
    for seconds in (7, 0):
        world.patch(key, {"spec": {"minReadySeconds": seconds}})
        (one,) = world.store.objects("ReplicaSet.apps")
        assert one["spec"].get("minReadySeconds", 0) == seconds


def test_more_successes_than_asked_for_are_told() -> None:
    world = World()
    key = world.apply(job(parallelism=2, completions=2))
    for one in world.pods():
        world.store.set_status(
            Key("Pod", "default", one["metadata"]["name"]), {**one["status"], "phase": "Succeeded"}
        )
    extra = world.pods()[0]
    meta = {k: v for k, v in extra["metadata"].items() if k not in ("uid", "resourceVersion")}
    world.store.create({**extra, "metadata": {**meta, "name": "third"}})
    world.store.set_status(Key("Pod", "default", "third"), extra["status"])
    world.settle()
    told = world.told("TooManySucceededPods")
    assert told == ["Too many succeeded pods running after completion count reached"]
    assert world.status(key)["succeeded"] == 3
    assert world.told("Completed") == ["Job completed"]


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
@pytest.mark.parametrize("restarts", [0, 1, 2, 3])
@pytest.mark.parametrize("policy", ["OnFailure", "Never"])
def test_restarts_in_place_end_a_job_at_its_limit(limit: int, restarts: int, policy: str) -> None:
    """Of every container that still may run; without a limit, the first is one too many."""
    ended = {"spec": {**template()["spec"], "restartPolicy": policy}}
    for of_init in range(restarts + 1):
        world = World()
        key = world.apply(job(backoffLimit=limit, template=ended))
        (one,) = world.pods()
        statuses = [{"name": "c", "restartCount": restarts - of_init}, {"name": "d"}]
        world.set_pod(
            one, containerStatuses=statuses, initContainerStatuses=[{"name": "i", "restartCount": of_init}]
        )
        is_over = policy == "OnFailure" and (restarts > 0 if limit == 0 else restarts >= limit)
        found = world.condition(key, "Failed")
        assert (found is not None) is is_over
        assert found is None or found["reason"] == "BackoffLimitExceeded"


def test_a_job_that_goes_on_starts_its_clock_anew_whatever_was_written_meanwhile() -> None:
    world = World()
    key = world.apply(job(suspend=True))
    world.advance(60)
    world.store.set_status(key, {**world.status(key), "startTime": "2026-01-01T00:00:00Z"})
    world.patch(key, {"spec": {"suspend": False}})
    assert world.status(key)["startTime"] == rfc3339(START_US + 60_000_000)
    world.advance(60)
    world.patch(key, {"spec": {"parallelism": 2}})
    assert world.status(key)["startTime"] == rfc3339(START_US + 60_000_000)
