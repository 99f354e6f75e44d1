"""One small run, written by hand, that has something of everything a report shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fairway.recorder.tables import COMPLETE
from fairway.results.run import Run, RunInfo
from recorded import Recorded

INFO = RunInfo(
    "two teams <one> cluster",
    seed=42,
    latency="default",
    source="examples/two-teams",
    digest="00ff-1",
    lost_work_us=90_000_000,
    assertions=(
        {"name": 'wait p95 < 10m where priorityClass == "prod"', "passed": True, "shown": "4s"},
        {
            "name": "gpu allocated > 85%",
            "passed": False,
            "shown": "61.0 %",
            "note": "",
            "worst": ["research: 40 %"],
        },
    ),
    notes=("2 rows of the trace were skipped.",),
)
_FULL = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: 0/2 nodes are available."
_PICKY = "0/2 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector."


def small_run(**changes: Any) -> Run:
    """Two teams on two nodes for two hours; `changes` are to its RunInfo."""
    return Run(replace(INFO, **changes), small_world().outcome())


def small_world() -> Recorded:
    world = Recorded()
    world.node("gpu-a", gpus=8, cpu="96", nvidia_com__gpu_product="NVIDIA-A100-SXM4-80GB")
    world.node("gpu-b", gpus=4, cpu="32", nvidia_com__gpu_product="NVIDIA-L40S")
    train = world.workload("Job", "train", "research")
    sweep = world.workload("Job", "sweep", "platform")
    chat = world.workload("Deployment", "chat", "serving")
    world.pod("chat-1", "serving", gpus=1, owner=chat, serving=True, use="35%", priorityClassName="prod")
    world.at(4).bind("chat-1", "gpu-b", "serving").run("chat-1", "serving")
    world.at(60).pod("train-0", "research", gpus=4, cpu="16", owner=train, use="0s:20%,10m:92%")
    world.pod("train-1", "research", gpus=4, cpu="16", owner=train, use="85%")
    world.at(62).bind("train-0", "gpu-a", "research").bind("train-1", "gpu-a", "research")
    world.at(90).run("train-0", "research").run("train-1", "research")
    for i in range(4):
        world.at(300 + 60 * i).pod(
            f"sweep-{i}", "platform", gpus=1, owner=sweep, labels={"kueue.x-k8s.io/queue-name": "q"}
        )
        if i < 3:
            world.at(302 + 60 * i).bind(f"sweep-{i}", "gpu-b", "platform").run(f"sweep-{i}", "platform")
        else:
            world.refuse(f"sweep-{i}", _FULL, "platform")
    world.at(1200).fail("sweep-0", "platform", reason="OOMKilled", code=137)
    world.at(1201).bind("sweep-3", "gpu-b", "platform").at(1210).run("sweep-3", "platform")
    world.at(1800).pod("urgent", "platform", gpus=4, priorityClassName="high", priority=100)
    world.refuse("urgent", _FULL, "platform")
    world.at(1801).evict("train-1", "research").fail("train-1", "research", reason="Error", code=143)
    world.at(1802).bind("urgent", "gpu-a", "platform").at(1805).run("urgent", "platform")
    world.at(2400).pod("picky", "research", gpus=1, nodeSelector={"gpu": "H100"}).refuse(
        "picky", _PICKY, "research"
    )
    world.at(2500).pod("big", "research", gpus=16).refuse("big", _FULL, "research")
    world.at(3600).cordon("gpu-b").succeed("sweep-1", "platform").succeed("sweep-2", "platform")
    world.at(4500).succeed("urgent", "platform").succeed("sweep-3", "platform")
    world.at(6000).succeed("train-0", "research").run("chat-1", "serving", restarts=2)
    return world.at(7200)


def large_world(nodes: int = 60, pods: int = 400) -> Recorded:
    """Enough nodes for a heat map."""
    world = Recorded()
    for i in range(nodes):
        world.node(f"n{i:03}", gpus=8 if i % 3 else 4, nvidia_com__gpu_product="A100" if i % 3 else "L40S")
    running: list[tuple[float, str]] = []
    for i in range(pods):
        now = 30.0 * i
        while running and running[0][0] <= now:
            world.at(running[0][0]).succeed(running.pop(0)[1])
        name = f"p{i:04}"
        world.at(now).pod(name, f"team-{i % 9}", gpus=1 + i % 4).bind(
            name, f"n{i * 7 % nodes:03}", f"team-{i % 9}"
        )
        world.run(name, f"team-{i % 9}")
    return world.at(30.0 * pods)


def complete(world: Recorded, **changes: Any) -> Run:
    return Run(replace(INFO, **changes), world.outcome(COMPLETE))
