"""What kubectl showed against kube-apiserver v1.36.3 with its controllers, as far as controllers decide it."""

from __future__ import annotations

from typing import Any

from tinyworld import World, deployment, job, pod_key, template

from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.workloads.deployment import undo as undoing

LLM = Key("Deployment.apps", "default", "llm")


def rollout_message(status: dict[str, Any], replicas: int) -> str:
    """`kubectl rollout status`. Source: kubectl pkg/polymorphichelpers/rollout_status.go (v1.34)."""
    updated, total = status.get("updatedReplicas", 0), status.get("replicas", 0)
    available = status.get("availableReplicas", 0)
    if updated < replicas:
        return f"{updated} out of {replicas} new replicas have been updated..."
    if total > updated:
        return f"{total - updated} old replicas are pending termination..."
    if available < updated:
        return f"{available} of {updated} updated replicas are available..."
    return "successfully rolled out"


def watched(world: World, replicas: int, patch: Any, form: str = "merge") -> list[str]:
    """The distinct messages a watcher of the rollout reads, in order, pods becoming ready one by one."""
    seen: list[str] = []

    def look(world: World) -> None:
        status = world.status(LLM)
        if status.get("observedGeneration") != world.get(LLM)["metadata"]["generation"]:
            return
        message = rollout_message(status, replicas)
        if not seen or seen[-1] != message:
            seen.append(message)

    world.watchers.append(look)
    world.patch(LLM, patch, form=form)
    for _ in range(20):
        waiting = [p for p in world.pods(app="llm") if p["status"]["phase"] == "Pending"]
        if not waiting:
            break
        world.make_ready(waiting[0])
    look(world)
    world.watchers.remove(look)
    return seen


def llm() -> World:
    """The session's Deployment: scarce GPUs, one replica down at a time, none above."""
    world = World()
    world.hold = ("vllm:1", "vllm:2")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    world.apply(deployment("llm", image="vllm:1", replicas=2, strategy=strategy))
    for pod in world.pods():
        world.make_ready(pod)
    return world


def test_rolling_out_a_new_image() -> None:
    world = llm()
    assert rollout_message(world.status(LLM), 2) == "successfully rolled out"
    messages = watched(world, 2, {"spec": {"template": template("vllm:2", labels={"app": "llm"})}})
    # The recording joined while the first new pod was there already, and polled; this list is finer.
    recorded = [
        "1 out of 2 new replicas have been updated...",
        "1 of 2 updated replicas are available...",
        "successfully rolled out",
    ]
    assert [m for m in messages if m in recorded] == recorded
    assert undoing.history(world.store, world.get(LLM)) == [(1, "<none>"), (2, "<none>")]


def test_scaling_keeps_the_image_and_undo_brings_the_old_one_back() -> None:
    world = llm()
    watched(world, 2, {"spec": {"template": template("vllm:2", labels={"app": "llm"})}})
    watched(world, 3, {"spec": {"replicas": 3}})
    images = [p["spec"]["containers"][0]["image"] for p in world.pods(app="llm")]
    assert images == ["vllm:2", "vllm:2", "vllm:2"]
    undo = undoing.undo(world.store, world.get(LLM))
    assert undo.message == "rolled back"
    messages = watched(world, 3, list(undo.patch), form="json")
    recorded = [
        "1 out of 3 new replicas have been updated...",
        "2 out of 3 new replicas have been updated...",
        "2 of 3 updated replicas are available...",
        "successfully rolled out",
    ]
    assert [m for m in messages if m in recorded] == recorded
    assert {p["spec"]["containers"][0]["image"] for p in world.pods(app="llm")} == {"vllm:1"}


def test_the_budget_over_it() -> None:
    """`kubectl get pdb`: llm, min available 2, allowed disruptions 1."""
    world = llm()
    watched(world, 3, {"spec": {"replicas": 3}})
    key = world.apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "llm", "namespace": "default"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "llm"}}},
        }
    )
    assert world.status(key)["disruptionsAllowed"] == 1


def test_the_job() -> None:
    """`kubectl get jobs`: train, Complete, 1/1, duration 3s."""
    world = World()
    key = world.apply(job(backoffLimit=1, template=template("trainer:1", restartPolicy="Never")))
    world.advance(3)
    world.finish(pod_key(world.pods()[0]))
    status = world.status(key)
    assert (status["succeeded"], status["conditions"][-1]["type"]) == (1, "Complete")
    took = parse_rfc3339(status["completionTime"]) - parse_rfc3339(status["startTime"])
    assert took == 3 * SECOND_US
