"""What a kubelet makes of a pod, case by case: what is seen of it at which second."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from kubeletworld import World, container, latency, pod

from fairway.kube.objects import Obj
from fairway.twin.latency import NONE, Latency


@dataclass
class Case:
    """`want`: what is seen of pod `p` at each second. `delete_at`: (second, grace) of its deletion."""

    pod: Obj
    want: dict[float, str]
    latency: Latency = NONE
    delete_at: tuple[float, int | None] | None = None
    events: list[str] | None = None
    conditions: dict[str, tuple[str, str]] = field(default_factory=dict)


def probe(**fields: Any) -> Obj:
    return {"httpGet": {"port": 80}, **fields}


CASES: dict[str, Case] = {
    "a command that sleeps ends Succeeded": Case(
        pod("p", container("main", "sleep 5")),
        {4.9: "Running 1/1 main=run", 5: "Succeeded 0/1 main=end:Completed:0"},
        conditions={"Ready": ("False", "PodCompleted"), "Initialized": ("True", "PodCompleted")},
    ),
    "an exit code other than zero ends Failed": Case(
        pod("p", container("main", "sleep 2; exit 3")),
        {2: "Failed 0/1 main=end:Error:3"},
        conditions={"Ready": ("False", "PodFailed"), "PodReadyToStartContainers": ("False", "")},
    ),
    "a batch pod without behaviour runs a minute": Case(
        pod("p"), {59: "Running 1/1 main=run", 60: "Succeeded 0/1 main=end:Completed:0"}
    ),
    "a server without behaviour runs for ever": Case(
        pod("p", restartPolicy="Always"), {86_400: "Running 1/1 main=run"}
    ),
    "annotations set run time and exit code": Case(
        pod("p", says={"run_time": "90s", "exit_code": "7"}),
        {89: "Running 1/1 main=run", 90: "Failed 0/1 main=end:Error:7"},
    ),
    "an annotation for one container wins": Case(
        pod("p", container("a"), container("b"), says={"run_time": "10s", "run_time.b": "20s"}),
        {
            10: "Running 1/2 a=end:Completed:0 b=run",
            20: "Succeeded 0/2 a=end:Completed:0 b=end:Completed:0",
        },
    ),
    "start-up time comes before the work": Case(
        pod("p", says={"run_time": "10s", "startup_time": "5s"}),
        {14.9: "Running 1/1 main=run", 15: "Succeeded 0/1 main=end:Completed:0"},
    ),
    "bad annotations are named and ignored": Case(
        pod("p", says={"run_time": "soon"}),
        {60: "Succeeded 0/1 main=end:Completed:0"},
        events=["InvalidBehaviour*1"],
    ),
    "restart on failure: at once, then after 10 s, 20 s, 40 s": Case(
        pod("p", container("main", "sleep 1; exit 1"), restartPolicy="OnFailure"),
        {
            1.5: "Running 1/1 main=run*1",
            2.5: "Running 0/1 main=wait:CrashLoopBackOff*1",
            12.5: "Running 1/1 main=run*2",
            13.5: "Running 0/1 main=wait:CrashLoopBackOff*2",
            32.9: "Running 0/1 main=wait:CrashLoopBackOff*2",
            33.5: "Running 1/1 main=run*3",
            73.9: "Running 0/1 main=wait:CrashLoopBackOff*3",
            74.5: "Running 1/1 main=run*4",
        },
        events=["BackOff*3"],
    ),
    "restart on failure ends when it succeeds": Case(
        pod("p", says={"run_time": "5s", "exit_code": "1,1,0"}, restartPolicy="OnFailure"),
        {
            4: "Running 1/1 main=run",
            10: "Running 0/1 main=wait:CrashLoopBackOff*1",
            25: "Succeeded 0/1 main=end:Completed:0*2",
        },
    ),
    "a server that exits with zero is restarted too": Case(
        pod("p", container("main", "sleep 1"), restartPolicy="Always"),
        {1.5: "Running 1/1 main=run*1", 2.5: "Running 0/1 main=wait:CrashLoopBackOff*1"},
    ),
    "the back-off stops growing at five minutes": Case(
        pod("p", container("main", "exit 1"), restartPolicy="Always"),
        # Starts at 0, 0, 10, 30, 70, 150, 310, 610, 910.
        {
            609: "Running 0/1 main=wait:CrashLoopBackOff*6",
            611: "Running 0/1 main=wait:CrashLoopBackOff*7",
            909: "Running 0/1 main=wait:CrashLoopBackOff*7",
            911: "Running 0/1 main=wait:CrashLoopBackOff*8",
        },
    ),
    "ten good minutes make the back-off forget": Case(
        pod("p", container("main", "sleep 700; exit 1"), restartPolicy="Always"),
        {701: "Running 1/1 main=run*1", 1401: "Running 1/1 main=run*2", 2101: "Running 1/1 main=run*3"},
    ),
    "out of memory is 137, OOMKilled": Case(
        pod("p", says={"run_time": "10m", "out_of_memory_after": "30s"}),
        {29: "Running 1/1 main=run", 30: "Failed 0/1 main=end:OOMKilled:137"},
    ),
    "out of memory again and again": Case(
        pod("p", says={"out_of_memory_after": "30s"}, restartPolicy="Always"),
        {31: "Running 1/1 main=run*1", 61: "Running 0/1 main=wait:CrashLoopBackOff*1"},
    ),
    "the deadline stops a pod, which has its grace": Case(
        pod("p", container("main", "sleep 600"), activeDeadlineSeconds=10, terminationGracePeriodSeconds=5),
        {10: "Running 1/1 main=run", 15: "Failed/DeadlineExceeded 0/1 main=end:Error:137"},
        events=["DeadlineExceeded*1", "Killing*1"],
    ),
    "the deadline passes a pod that ended before": Case(
        pod("p", container("main", "sleep 5"), activeDeadlineSeconds=10),
        {11: "Succeeded 0/1 main=end:Completed:0"},
    ),
    "the deadline counts from the start on the node": Case(
        pod("p", activeDeadlineSeconds=10, says={"run_time": "1h"}),
        {
            9: "Pending 0/1 main=wait:ContainerCreating",
            10: "Failed/DeadlineExceeded 0/1 main=end:ContainerStatusUnknown:137",
        },
        latency=latency(image_pull=30),
    ),
    "a process that heeds SIGTERM goes at once": Case(
        pod("p", says={"run_time": "1h"}),
        {9: "Running 1/1 main=run", 10: "gone"},
        delete_at=(10, None),
    ),
    "sleep is PID 1 and ignores SIGTERM": Case(
        pod("p", container("main", "sleep 600")),
        {10: "Running 1/1 main=run Terminating", 39: "Running 1/1 main=run Terminating", 40: "gone"},
        delete_at=(10, None),
        events=["Killing*1"],
    ),
    "a pod's own grace period": Case(
        pod("p", container("main", "sleep 600"), terminationGracePeriodSeconds=3),
        {12: "Running 1/1 main=run Terminating", 13: "gone"},
        delete_at=(10, None),
    ),
    "two seconds are the least": Case(
        pod("p", container("main", "sleep 600"), terminationGracePeriodSeconds=1),
        {11.5: "Running 1/1 main=run Terminating", 12: "gone"},
        delete_at=(10, None),
    ),
    "deletion by force": Case(pod("p", container("main", "sleep 600")), {10: "gone"}, delete_at=(10, 0)),
    "what stops slowly takes its time": Case(
        pod("p", says={"stop_time": "7s", "run_time": "1h"}),
        {16: "Running 1/1 main=run Terminating", 17: "gone"},
        delete_at=(10, None),
    ),
    "a run that ends during the grace just ends": Case(
        pod("p", container("main", "sleep 15")),
        {14: "Running 1/1 main=run Terminating", 15: "gone"},
        delete_at=(10, None),
    ),
    "preStop comes first": Case(
        pod(
            "p", container("main", lifecycle={"preStop": {"sleep": {"seconds": 8}}}), says={"run_time": "1h"}
        ),
        {17: "Running 1/1 main=run Terminating", 18: "gone"},
        delete_at=(10, None),
    ),
    "preStop does not outlast the grace but for two seconds": Case(
        pod(
            "p", container("main", "sleep 600", lifecycle={"preStop": {"exec": {"command": ["sleep", "90"]}}})
        ),
        {41: "Running 1/1 main=run Terminating", 42: "gone"},
        delete_at=(10, None),
    ),
    "deleted while its image is pulled": Case(
        pod("p", says={"run_time": "1h"}),
        {4: "Pending 0/1 main=wait:ContainerCreating", 5: "gone"},
        latency=latency(image_pull=30),
        delete_at=(5, None),
    ),
    "a second deletion can only shorten the grace": Case(
        pod("p", container("main", "sleep 600"), terminationGracePeriodSeconds=100),
        {109: "Running 1/1 main=run Terminating", 110: "gone"},
        delete_at=(10, None),
    ),
    "init containers run one after another": Case(
        pod(
            "p",
            container("main", "sleep 5"),
            initContainers=[container("a", "sleep 2"), container("b", "sleep 3")],
        ),
        {
            1: "Pending 0/1 a=run b=wait:PodInitializing main=wait:PodInitializing",
            2: "Pending 0/1 a=end:Completed:0 b=run main=wait:PodInitializing",
            5: "Running 1/1 a=end:Completed:0 b=end:Completed:0 main=run",
            10: "Succeeded 0/1 a=end:Completed:0 b=end:Completed:0 main=end:Completed:0",
        },
    ),
    "a failing init container fails the pod": Case(
        pod("p", container("main"), initContainers=[container("a", "sleep 2; exit 1")]),
        {2: "Failed 0/1 a=end:Error:1 main=wait:PodInitializing"},
    ),
    "a failing init container is restarted": Case(
        pod(
            "p",
            container("main", "sleep 5"),
            initContainers=[container("a", "sleep 2; exit 1")],
            restartPolicy="OnFailure",
        ),
        {
            3: "Pending 0/1 a=run*1 main=wait:PodInitializing",
            5: "Pending 0/1 a=wait:CrashLoopBackOff*1 main=wait:PodInitializing",
            15: "Pending 0/1 a=run*2 main=wait:PodInitializing",
        },
    ),
    "a sidecar runs along and ends last": Case(
        pod(
            "p",
            container("main", "sleep 5"),
            initContainers=[container("side", restartPolicy="Always")],
        ),
        {1: "Running 1/1 side=run main=run", 5: "Succeeded 0/1 side=end:Error:143 main=end:Completed:0"},
    ),
    "a sidecar is restarted whatever the pod's policy": Case(
        pod(
            "p",
            container("main", "sleep 30"),
            initContainers=[container("side", "sleep 3", restartPolicy="Always")],
        ),
        {4: "Running 1/1 side=run*1 main=run", 7: "Running 1/1 side=wait:CrashLoopBackOff*1 main=run"},
    ),
    "a sidecar's startup probe holds the others back": Case(
        pod(
            "p",
            container("main", "sleep 30"),
            initContainers=[
                container(
                    "side", restartPolicy="Always", startupProbe=probe(periodSeconds=5, failureThreshold=9)
                )
            ],
            says={"startup_time.side": "12s"},
        ),
        {14: "Pending 0/1 side=run main=wait:PodInitializing", 15: "Running 1/1 side=run main=run"},
    ),
    "sidecars share what is left of the grace": Case(
        pod(
            "p",
            container("main", "sleep 600"),
            initContainers=[container("side", "sleep 600", restartPolicy="Always")],
            terminationGracePeriodSeconds=10,
        ),
        # main until 20, the sidecar then has the least grace: two seconds. Nothing is written in between.
        {21: "Running 1/1 side=run main=run Terminating", 22: "gone"},
        delete_at=(10, None),
    ),
    "one of two containers ends first": Case(
        pod("p", container("a", "sleep 2"), container("b", "sleep 4; exit 1")),
        {2: "Running 1/2 a=end:Completed:0 b=run", 4: "Failed 0/2 a=end:Completed:0 b=end:Error:1"},
        conditions={"ContainersReady": ("False", "PodFailed")},
    ),
    "a container's own restart policy": Case(
        pod("p", container("a", "sleep 2; exit 1", restartPolicy="OnFailure"), container("b", "sleep 60")),
        {2.5: "Running 2/2 a=run*1 b=run"},
    ),
    "a restart rule on an exit code": Case(
        pod(
            "p",
            container(
                "a",
                "sleep 2; exit 42",
                restartPolicy="Never",
                restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
            ),
        ),
        {2.5: "Running 1/1 a=run*1"},
    ),
    "readiness waits for its first probe": Case(
        pod(
            "p", container("main", "sleep 60", readinessProbe=probe(initialDelaySeconds=5, periodSeconds=10))
        ),
        {4: "Running 0/1 main=run", 9: "Running 0/1 main=run", 10: "Running 1/1 main=run"},
    ),
    "readiness waits for the application": Case(
        pod(
            "p",
            container("main", readinessProbe=probe(periodSeconds=10)),
            says={"startup_time": "25s", "run_time": "1h"},
        ),
        {29: "Running 0/1 main=run", 30: "Running 1/1 main=run"},
        events=["Unhealthy*3"],
    ),
    "readiness comes and goes": Case(
        pod(
            "p",
            container("main", readinessProbe=probe(periodSeconds=10)),
            says={"readiness_fails": "55s-95s", "run_time": "1h"},
        ),
        {
            79: "Running 1/1 main=run",
            80: "Running 0/1 main=run",
            99: "Running 0/1 main=run",
            100: "Running 1/1 main=run",
        },
    ),
    "liveness kills and restarts": Case(
        pod(
            "p",
            container("main", livenessProbe=probe(periodSeconds=10)),
            says={"liveness_fails": "25s-", "run_time": "1h"},
            restartPolicy="Always",
        ),
        # Fails at 30, 40, 50; then again from 75: 80, 90, 100, and waits.
        {
            49: "Running 1/1 main=run",
            51: "Running 1/1 main=run*1",
            101: "Running 0/1 main=wait:CrashLoopBackOff*1",
        },
        events=["Unhealthy*6", "Killing*2"],
    ),
    "liveness with a grace of its own": Case(
        pod(
            "p",
            container(
                "main", "sleep 600", livenessProbe=probe(periodSeconds=10, terminationGracePeriodSeconds=4)
            ),
            says={"liveness_fails": "25s-"},
        ),
        {53: "Running 1/1 main=run", 54: "Failed 0/1 main=end:Error:137"},
    ),
    "a startup probe gives up": Case(
        pod(
            "p",
            container("main", startupProbe=probe(periodSeconds=10, failureThreshold=2)),
            says={"startup_time": "1h", "run_time": "1h"},
        ),
        # The first tick is with the pod's start: 0, 10.
        {9: "Running 0/1 main=run", 10: "Failed 0/1 main=end:Error:143"},
    ),
    "readiness and liveness begin after startup": Case(
        pod(
            "p",
            container(
                "main",
                startupProbe=probe(periodSeconds=10, failureThreshold=30),
                readinessProbe=probe(periodSeconds=5),
                livenessProbe=probe(periodSeconds=10, failureThreshold=1),
            ),
            says={"startup_time": "35s", "run_time": "1h"},
        ),
        {39: "Running 0/1 main=run", 40: "Running 1/1 main=run", 400: "Running 1/1 main=run"},
    ),
    "an image is pulled first": Case(
        pod("p", container("main", "sleep 5")),
        {19: "Pending 0/1 main=wait:ContainerCreating", 20: "Running 1/1 main=run"},
        latency=latency(image_pull=20),
        events=["Pulling*1"],
    ),
    "a pull that fails backs off 10 s, then 20 s": Case(
        pod("p", container("main", "sleep 5"), says={"image_pull_fails": "0s-15s"}),
        {
            5: "Pending 0/1 main=wait:ImagePullBackOff",
            29: "Pending 0/1 main=wait:ImagePullBackOff",
            30: "Running 1/1 main=run",
        },
        events=["BackOff*2"],
    ),
    "sandbox, pull and start add up": Case(
        pod("p", container("main", "sleep 5")),
        {
            9.4: "Pending 0/1 main=wait:ContainerCreating",
            9.6: "Running 1/1 main=run",
            15.4: "Running 1/1 main=run",
            15.6: "Succeeded 0/1 main=end:Completed:0",
        },
        latency=latency(
            kubelet_sync=0.5, sandbox_start=2, image_pull=6, container_start=1, container_relist=1
        ),
    ),
    "a readiness gate waits for somebody else": Case(
        pod("p", container("main", "sleep 60"), readinessGates=[{"conditionType": "x.io/up"}]),
        {5: "Running 1/1 main=run"},
        conditions={"Ready": ("False", "ReadinessGatesNotReady"), "ContainersReady": ("True", "")},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_kubelet_makes_of_a_pod(name: str) -> None:
    case = CASES[name]
    world = World(case.pod, latency=case.latency)
    deleted = case.delete_at is None
    for second, want in sorted(case.want.items()):
        if not deleted and case.delete_at is not None and second >= case.delete_at[0]:
            world.at(case.delete_at[0])
            world.delete(grace_s=case.delete_at[1])
            deleted = True
        assert f"{second}: {world.at(second).seen()}" == f"{second}: {want}"
    for type_, expected in case.conditions.items():
        assert (type_, *world.condition(type_)) == (type_, *expected)
    for said in case.events or ():
        reason, _, _ = said.partition("*")
        heard = sum(int(s.partition("*")[2]) for s in world.said() if s.startswith(reason + "*"))
        assert f"{reason}*{heard}" == said
    world.at(200_000)


def test_a_pod_of_many_containers_tells_of_their_starts_every_two_seconds() -> None:
    """A status that names all of them at every start is quadratic: 200 starts in 100 s were 197 statuses."""
    many = pod("p", *(container(f"c-{i}") for i in range(200)), restartPolicy="Always")
    world = World(many, latency=latency(container_start=0.5))
    written = world.twin.store.version
    # What runs is told at most two seconds late, except at the end.
    for second, running in ((1.9, 0), (2.6, 5), (4.4, 5), (51, 100), (99.9, 195), (100, 200)):
        found = world.at(second).need()["status"].get("containerStatuses", ())
        assert sum("running" in c["state"] for c in found) == running
    assert world.need()["status"]["containerStatuses"][-1]["ready"]
    changes = [c for c in world.twin.store.log.since(written) if c.key.gk == "Pod"]
    assert len(changes) == 41
    fork = world.twin.fork()
    fork.run_for(10_000_000)
    world.delete(grace_s=0)
    world.at(200)
