"""What a kubelet writes about a pod, field by field: containers, conditions, and what of others it keeps.

Source: pkg/kubelet/kubelet_pods.go generateAPIPodStatus, convertToAPIContainerStatuses; pkg/kubelet/status/generate.go.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import rfc3339
from fairway.twin.kubelet.containerstatus import main_statuses, statuses
from fairway.twin.kubelet.phases import phase_of
from fairway.twin.kubelet.plans import PodPlan, plan_of
from fairway.twin.kubelet.resizing import Resizing
from fairway.twin.kubelet.states import (
    RUNNING,
    TERMINATED,
    ContainerState,
    Ended,
    Ending,
    NodeState,
    PodState,
)
from fairway.twin.kubelet.status import pod_status, rejected_status
from fairway.twin.twin import EPOCH_US

S = 1_000_000


def at(seconds: float) -> int:
    return EPOCH_US + round(seconds * S)


def text(seconds: float) -> str:
    return rfc3339(at(seconds))


def state(**fields: Any) -> ContainerState:
    made = ContainerState(fields.pop("reason", "ContainerCreating"))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def running(**fields: Any) -> ContainerState:
    return state(**{"state": RUNNING, "started_us": at(5.9), "is_ready": True, "is_started": True, **fields})


def ended(code: int = 0, **fields: Any) -> ContainerState:
    end = Ended(code, "Error" if code else "Completed", "", at(5), at(9))
    return state(**{"state": TERMINATED, "started_us": at(5), "end": end, **fields})


FAILED_ONCE = Ended(3, "Error", "said", at(2), at(3.9))
UNSEEN = Ended(137, "ContainerStatusUnknown", "", -1, -1)
TOLD_ONCE = {"exitCode": 3, "reason": "Error", "message": "said", "startedAt": text(2), "finishedAt": text(3)}
RESOURCES = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
HAS = {"allocatedResources": {"cpu": "1"}, "resources": RESOURCES}
LESS = '{"requests":{"cpu":"500m"}}'

CONTAINERS: dict[str, tuple[Any, ContainerState, Obj]] = {
    "waits": (RESOURCES, state(), {"state": {"waiting": {"reason": "ContainerCreating"}}}),
    "waits and says more": (
        RESOURCES,
        state(reason="ErrImagePull", message="not found", restarts=1),
        {"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}, "restartCount": 1},
    ),
    "waits, and ran before": (
        RESOURCES,
        state(reason="CrashLoopBackOff", last=FAILED_ONCE, restarts=2, actual=LESS),
        {
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": TOLD_ONCE},
            "restartCount": 2,
            **HAS,
        },
    ),
    "waits for its next run": (
        RESOURCES,
        state(reason="CrashLoopBackOff", last=FAILED_ONCE, end=FAILED_ONCE, restarts=2),
        {
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": TOLD_ONCE},
            "restartCount": 2,
            **HAS,
        },
    ),
    "runs": (
        RESOURCES,
        running(),
        {"state": {"running": {"startedAt": text(5)}}, "ready": True, "started": True, **HAS},
    ),
    "starts up": (
        RESOURCES,
        running(is_ready=False, is_started=False),
        {"state": {"running": {"startedAt": text(5)}}, **HAS},
    ),
    "runs again, with less than it was granted": (
        RESOURCES,
        running(last=FAILED_ONCE, restarts=1, actual=LESS, is_ready=False),
        {
            "state": {"running": {"startedAt": text(5)}},
            "lastState": {"terminated": TOLD_ONCE},
            "started": True,
            "restartCount": 1,
            **HAS,
            "resources": {"requests": {"cpu": "500m"}},
        },
    ),
    "runs, and had nothing before": (
        RESOURCES,
        running(actual=""),
        {
            "state": {"running": {"startedAt": text(5)}},
            "ready": True,
            "started": True,
            **HAS,
            "resources": {},
        },
    ),
    "runs, asks for nothing": (
        None,
        running(),
        {"state": {"running": {"startedAt": text(5)}}, "ready": True, "started": True, "resources": {}},
    ),
    "runs, with limits alone": (
        {"limits": {"cpu": "2"}},
        running(),
        {
            "state": {"running": {"startedAt": text(5)}},
            "ready": True,
            "started": True,
            "resources": {"limits": {"cpu": "2"}},
        },
    ),
    "ended": (
        RESOURCES,
        ended(4, actual=LESS),
        {
            "state": {
                "terminated": {"exitCode": 4, "reason": "Error", "startedAt": text(5), "finishedAt": text(9)}
            },
            **HAS,
        },
    ),
    "ended in the first second of all": (
        RESOURCES,
        ended(end=Ended(0, "Completed", "", 0, 0)),
        {
            "state": {
                "terminated": {
                    "exitCode": 0,
                    "reason": "Completed",
                    "startedAt": "1970-01-01T00:00:00Z",
                    "finishedAt": "1970-01-01T00:00:00Z",
                }
            },
            **HAS,
        },
    ),
    "ended, seen by nobody": (
        RESOURCES,
        ended(end=UNSEEN),
        {
            "state": {
                "terminated": {
                    "exitCode": 137,
                    "reason": "ContainerStatusUnknown",
                    "startedAt": None,
                    "finishedAt": None,
                }
            },
            **HAS,
        },
    ),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_what_is_written_of_a_container(name: str) -> None:
    resources, now, want = CONTAINERS[name]
    container = {"name": "c", "image": "i:1", **({"resources": resources} if resources else {})}
    expected = {
        "name": "c",
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": "i:1",
        "imageID": "",
        "started": False,
        **want,
    }
    alone = plan_of({"containers": [container]})
    assert main_statuses(alone, [now]) == [expected]
    beside = plan_of({"initContainers": [{"name": "i"}], "containers": [container, {"name": "a"}]})
    told = main_statuses(beside, [state(), now, state()])
    assert [s["name"] for s in told] == ["a", "c"], "those are sorted by name"
    assert told[1] == expected


def test_init_containers_are_told_in_their_order() -> None:
    inits = [{"name": name} for name in ("b", "a", "c")]
    plan = plan_of({"initContainers": inits, "containers": [{"name": "m"}]})
    told = statuses(plan.containers[:3], [ended(), running(), state()])
    assert [(s["name"], *s["state"]) for s in told] == [
        ("b", "terminated"),
        ("a", "running"),
        ("c", "waiting"),
    ]
    assert [s["name"] for s in statuses(plan.containers[1:2], [state()])] == ["a"]


# Pods


def pod(spec: Obj, *containers: ContainerState, **fields: Any) -> PodState:
    made = PodState("u", Key("Pod", "default", "p"), "n", plan_of(spec), at(1))
    made.containers = list(containers)
    made.sandbox_since_us = at(2)
    made.ip, made.ips = "10.0.1.2", [{"ip": "10.0.1.2"}]
    for name, value in fields.items():
        setattr(made, name, value)
    return made


TWO: Obj = {"restartPolicy": "Never", "containers": [{"name": "b"}, {"name": "a"}]}
STAGED: Obj = {
    "restartPolicy": "Never",
    "initContainers": [{"name": "first"}, {"name": "side", "restartPolicy": "Always"}, {"name": "last"}],
    "containers": [{"name": "m"}],
}
GATED: Obj = {**TWO, "readinessGates": [{"conditionType": "x/a"}, {"conditionType": "x/b"}]}
NODE = NodeState("n", "v", 1)
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": text(0)}


def written(
    one: PodState, *, now_s: float = 20, old: Obj | None = None, is_over: bool = False
) -> dict[str, Any]:
    phase = phase_of(one.plan, one.containers, is_terminal=is_over)
    return pod_status({"status": old or {}}, one, NODE, phase, at(now_s))


def told(status: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Each condition: its status, since when (s), its reason and its message."""
    seconds = {text(i): str(i) for i in range(60)}
    return {
        c["type"]: (
            c["status"],
            seconds.get(c.get("lastTransitionTime") or "", ""),
            c.get("reason", ""),
            c.get("message", ""),
        )
        for c in status["conditions"]
    }


def test_a_whole_status() -> None:
    one = pod(STAGED, ended(), running(), ended(), running())
    old = {
        "phase": "Pending",
        "qosClass": "Burstable",
        "conditions": [{"type": "x/y", "status": "True"}, SCHEDULED, {"type": "Ready", "status": "False"}],
        "nominatedNodeName": "m",
        "resourceClaimStatuses": [{"name": "c"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "e"},
        "reason": "of before",
    }
    status = written(one, old=old)
    assert {
        name: value for name, value in status.items() if not name.endswith(("Statuses", "conditions"))
    } == {
        "phase": "Running",
        "hostIP": "172.16.0.1",
        "startTime": text(1),
        "qosClass": "Burstable",
        "podIP": "10.0.1.2",
        "podIPs": [{"ip": "10.0.1.2"}],
        "hostIPs": [{"ip": "172.16.0.1"}],
        "nominatedNodeName": "m",
        "extendedResourceClaimStatus": {"resourceClaimName": "e"},
    }
    assert status["resourceClaimStatuses"] == [{"name": "c"}]
    assert [s["name"] for s in status["initContainerStatuses"]] == ["first", "side", "last"]
    assert [s["name"] for s in status["containerStatuses"]] == ["m"]
    assert [c["type"] for c in status["conditions"]] == [
        "x/y",
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    assert all(c["lastProbeTime"] is None for c in status["conditions"][1:])
    assert told(status) == {
        "x/y": ("True", "", "", ""),
        "PodReadyToStartContainers": ("True", "2", "", ""),
        "Initialized": ("True", "20", "", ""),
        "Ready": ("True", "20", "", ""),
        "ContainersReady": ("True", "20", "", ""),
        "PodScheduled": ("True", "0", "", ""),
    }


def test_a_pod_without_addresses_or_init_containers_says_nothing_of_them() -> None:
    bare = pod(TWO, state(), state(), ip="", ips=None)
    assert sorted(written(bare)) == [
        "conditions",
        "containerStatuses",
        "hostIP",
        "hostIPs",
        "phase",
        "qosClass",
        "startTime",
    ]
    assert written(bare)["qosClass"] == "BestEffort"


READY, COMPLETED, LOST = ("True", "", ""), ("False", "PodCompleted", ""), ("False", "PodFailed", "")


def not_ready(names: str) -> tuple[str, str, str]:
    return "False", "ContainersNotReady", f"containers with unready status: [{names}]"


def not_initialized(names: str) -> tuple[str, str, str]:
    return "False", "ContainersNotInitialized", f"containers with incomplete status: [{names}]"


# What is said of Initialized and ContainersReady: (status, reason, message).
VERDICTS: dict[str, tuple[Obj, list[ContainerState], tuple[str, str, str], tuple[str, str, str]]] = {
    "both run": (TWO, [running(), running()], READY, READY),
    "one is not ready": (TWO, [running(), running(is_ready=False)], READY, not_ready("a")),
    "none runs yet": (TWO, [state(), state()], READY, not_ready("b a")),
    "one has ended": (TWO, [ended(), running()], READY, not_ready("b")),
    "both have succeeded": (TWO, [ended(), ended()], ("True", "PodCompleted", ""), COMPLETED),
    "one has failed": (TWO, [ended(), ended(1)], READY, LOST),
    "the first runs": (
        STAGED,
        [running(), state(), state(), state()],
        not_initialized("first side last"),
        not_ready("side m"),
    ),
    "the first is done": (
        STAGED,
        [ended(is_ready=True), running(is_started=False, is_ready=False), state(), state()],
        not_initialized("side last"),
        not_ready("side m"),
    ),
    "a sidecar is up": (
        STAGED,
        [ended(is_ready=True), running(), running(), state()],
        not_initialized("last"),
        not_ready("m"),
    ),
    "all are": (STAGED, [ended(), running(), ended(), running()], READY, READY),
    "a sidecar is not ready": (
        STAGED,
        [ended(), running(is_ready=False), ended(), running()],
        READY,
        not_ready("side"),
    ),
    "the first has failed": (
        STAGED,
        [ended(1), state(), state(), state()],
        not_initialized("first side last"),
        LOST,
    ),
    "it succeeded": (STAGED, [ended(), ended(), ended(), ended()], ("True", "PodCompleted", ""), COMPLETED),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_who_is_initialized_and_ready(name: str) -> None:
    spec, states, initialized, ready = VERDICTS[name]
    one = pod(spec, *states)
    found = told(written(one))
    assert (found["Initialized"][0], *found["Initialized"][2:]) == initialized
    assert (found["ContainersReady"][0], *found["ContainersReady"][2:]) == ready
    assert found["Ready"] == found["ContainersReady"]
    assert one.is_ready is (ready == READY)


def test_since_when_it_is_ready_and_initialized() -> None:
    """Each changes its time when it changes, and then only."""
    states = [ended(), running(), ended(), running(is_ready=False)]
    one = pod(STAGED, *states)
    main = states[3]
    times = []
    for now_s, is_ready in ((10, False), (11, True), (12, True), (13, False), (14, False), (15, True)):
        main.is_ready = is_ready
        found = told(written(one, now_s=now_s))
        times.append((found["Ready"][1], found["ContainersReady"][1], found["Initialized"][1]))
    assert times == [(at_s, at_s, "10") for at_s in ("1", "11", "11", "13", "13", "15")]
    assert (one.is_initialized, one.initialized_since_us) == (True, at(10))
    waits = pod(STAGED, running(), state(), state(), state())
    assert told(written(waits, now_s=10))["Initialized"][1] == "1", "since it was taken on"
    assert not waits.is_initialized


GATES: list[tuple[list[Obj], bool, str]] = [
    (
        [],
        True,
        'corresponding condition of pod readiness gate "x/a" does not exist., '
        'corresponding condition of pod readiness gate "x/b" does not exist.',
    ),
    (
        [{"type": "x/b", "status": "True"}],
        True,
        'corresponding condition of pod readiness gate "x/a" does not exist.',
    ),
    (
        [{"type": "x/a", "status": "Unknown"}, {"type": "x/b", "status": "True"}],
        True,
        'the status of pod readiness gate "x/a" is not "True", but Unknown',
    ),
    ([{"type": "x/a", "status": "True"}, {"type": "x/b", "status": "True"}], True, ""),
    ([], False, "containers with unready status: [a]"),
]


@pytest.mark.parametrize(("others", "are_ready", "message"), GATES)
def test_what_its_gates_say(others: list[Obj], are_ready: bool, message: str) -> None:
    """Containers first: what is said of them is said of the pod."""
    one = pod(GATED, running(), running(is_ready=are_ready))
    status = written(one, old={"conditions": others})
    found = told(status)
    reason = ("ReadinessGatesNotReady" if message else "") if are_ready else "ContainersNotReady"
    assert found["Ready"][0::2] == ("False" if message else "True", reason)
    assert found["Ready"][3] == message
    assert found["ContainersReady"][0] == ("True" if are_ready else "False")
    assert one.is_ready is (message == "")
    assert [c for c in status["conditions"] if c["type"].startswith("x/")] == others


@pytest.mark.parametrize(
    ("since", "is_over", "want"),
    [
        (at(7), False, ("True", "7")),
        (at(20), False, ("True", "20")),
        (at(20) + 1, False, ("False", "1")),
        (0, False, ("True", "")),
        (-1, False, ("False", "1")),
        (at(7), True, ("False", "20")),
        (-1, True, ("False", "20")),
    ],
)
@pytest.mark.parametrize("spec", [TWO, {"restartPolicy": "Never", "containers": [{"name": "a"}]}])
def test_since_when_it_has_a_sandbox(spec: Obj, since: int, is_over: bool, want: tuple[str, str]) -> None:
    states = [ended() if is_over else running() for _ in spec["containers"]]
    one = pod(spec, *states, sandbox_since_us=since)
    assert told(written(one))["PodReadyToStartContainers"][:2] == want


def test_what_others_said_of_its_scheduling_is_kept() -> None:
    generation = {**SCHEDULED, "observedGeneration": 3}
    for old, want in (
        (SCHEDULED, {**SCHEDULED, "lastTransitionTime": text(0)}),
        (generation, generation),
        ({**SCHEDULED, "lastProbeTime": text(0)}, SCHEDULED),
        ({**SCHEDULED, "status": "False"}, {**SCHEDULED, "lastTransitionTime": text(1)}),
        ({"type": "PodScheduled", "status": "True"}, {"type": "PodScheduled", "status": "True"}),
        (None, {**SCHEDULED, "lastTransitionTime": text(1)}),
    ):
        status = written(pod(TWO, running(), running()), old={"conditions": [old] if old else None})
        assert status["conditions"][-1] == want, old
        assert [c["type"] for c in status["conditions"]] == [
            "PodReadyToStartContainers",
            "Initialized",
            "Ready",
            "ContainersReady",
            "PodScheduled",
        ]


PENDING, PROGRESS = {"type": "PodResizePending"}, {"type": "PodResizeInProgress"}
EVICTED = Ending("Evicted", "It was low.", "TerminationByKubelet")
KEEPS = Ending("Terminated", "It shut down.", "TerminationByKubelet", keeps_success=True)
LATE = Ending("DeadlineExceeded", "Too long.", keeps_success=True)


def test_what_is_said_of_a_resize_until_the_pod_is_over() -> None:
    of_before = [{"type": "PodResizePending", "status": "True"}, {"type": "x", "status": "True"}]
    for resize, want in (
        (None, ["x"]),
        (Resizing(PENDING, None), ["x", "PodResizePending"]),
        (Resizing(None, PROGRESS), ["x", "PodResizeInProgress"]),
        (Resizing(PENDING, PROGRESS), ["x", "PodResizePending", "PodResizeInProgress"]),
    ):
        for names in ("ab", "a"):
            spec = {"restartPolicy": "Never", "containers": [{"name": name} for name in names]}
            one = pod(spec, *[running() for _ in names], resize=resize)
            old = {"conditions": [{**c, "lastTransitionTime": text(3)} for c in of_before]}
            status = pod_status({"status": old}, one, NODE, "Running", at(20))
            assert [c["type"] for c in status["conditions"]][:-5] == want
            status = pod_status({"status": {"conditions": [SCHEDULED]}}, one, NODE, "Running", at(20))
            assert [c["type"] for c in status["conditions"]][:-5] == [type_ for type_ in want if type_ != "x"]
            one.containers = [ended() for _ in names]
            status = pod_status({"status": old}, one, NODE, "Succeeded", at(20))
            assert [c["type"] for c in status["conditions"]][:-5] == ["x"]


ENDS: list[tuple[Ending | None, list[ContainerState], bool, tuple[str, str, str], str]] = [
    (None, [ended(), ended()], True, ("Succeeded", "", ""), ""),
    (EVICTED, [ended(), ended()], True, ("Failed", "Evicted", "It was low."), "TerminationByKubelet"),
    (KEEPS, [ended(), ended()], True, ("Succeeded", "", ""), ""),
    (KEEPS, [ended(), ended(1)], True, ("Failed", "Terminated", "It shut down."), "TerminationByKubelet"),
    (LATE, [ended(), ended(1)], True, ("Failed", "DeadlineExceeded", "Too long."), ""),
    (LATE, [ended(), ended()], True, ("Succeeded", "", ""), ""),
    (EVICTED, [running(), ended()], False, ("Running", "", ""), ""),
]


@pytest.mark.parametrize(("ending", "states", "is_over", "want", "disruption"), ENDS)
def test_what_ended_it(
    ending: Ending | None,
    states: list[ContainerState],
    is_over: bool,
    want: tuple[str, str, str],
    disruption: str,
) -> None:
    before = [
        {"type": "DisruptionTarget", "status": "True", "reason": "of before", "lastTransitionTime": text(3)}
    ]
    for count, others in product((2, 1), ([], before)):
        spec = {"restartPolicy": "Never", "containers": [{"name": name} for name in "ba"[2 - count :]]}
        one = pod(spec, *states[2 - count :] if is_over else states[:count], ending=ending)
        status = written(one, old={"conditions": [*others, SCHEDULED]}, is_over=is_over)
        assert (status["phase"], status.get("reason", ""), status.get("message", "")) == want
        found = [c for c in status["conditions"] if c["type"] == "DisruptionTarget"]
        if disruption:
            (one_,) = found
            assert one_ == {
                "type": "DisruptionTarget",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": text(20),
                "reason": disruption,
                "message": "It was low." if ending is EVICTED else "It shut down.",
            }
            assert status["conditions"][0] == found[0]
        else:
            assert found == others
        if want[0] == "Failed":
            assert told(status)["Ready"][2] == "PodFailed"


def unlike(one: PodState) -> PodState:
    """The same pod for which nothing is abbreviated."""
    plan = one.plan
    other = one.copy()
    other.plan = PodPlan(
        plan.containers,
        plan.behaviours,
        init_count=0,
        requests=plan.requests,
        deadline_us=plan.deadline_us,
        grace_us=plan.grace_us,
        host_network=plan.host_network,
        readiness_gates=plan.readiness_gates,
        is_plain=False,
        gpu_milli=plan.gpu_milli,
    )
    return other


def _olds() -> list[Obj]:
    extra: list[Obj] = [
        {},
        {"qosClass": "Guaranteed", "phase": "Pending"},
        {"nominatedNodeName": "m"},
        {"resourceClaimStatuses": []},
        {"extendedResourceClaimStatus": {}},
    ]
    scheduled: list[list[Obj] | None] = [
        None,
        [],
        [SCHEDULED],
        [{"type": "PodScheduled", "status": "True", "lastTransitionTime": None}],
        [{**SCHEDULED, "status": "False", "reason": "Unschedulable"}],
        [{**SCHEDULED, "status": "False"}],
        [{**SCHEDULED, "observedGeneration": 2}],
        [SCHEDULED, {"type": "x", "status": "True"}],
        [{"type": "x", "status": "True"}, SCHEDULED],
    ]
    return [{**a, **({} if b is None else {"conditions": b})} for a, b in product(extra, scheduled)]


ALONE: Obj = {
    "restartPolicy": "OnFailure",
    "containers": [{"name": "c", "image": "i", "resources": RESOURCES}],
}


@pytest.mark.parametrize("old", _olds(), ids=str)
def test_what_is_written_shortly_is_what_is_written_at_length(old: Obj) -> None:
    """A pod of one container, without probes or gates, through a life of it."""
    again = state(reason="CrashLoopBackOff", last=FAILED_ONCE, restarts=1)
    lives = (
        [state(), running(is_ready=False), running(), ended()],
        [state(reason="ErrImagePull", message="m"), running(), again, running(restarts=1), ended(1)],
    )
    for states, sandbox_us, ip in product(lives, (at(2), at(11), -1), ("10.0.0.7", "")):
        one = pod(ALONE, state(), sandbox_since_us=sandbox_us, ip=ip, ips=[{"ip": ip}] if ip else None)
        other = unlike(one)
        short = long = {"status": old}
        for i, now in enumerate(states):
            one.containers, other.containers = [now], [now.copy()]
            phase = phase_of(one.plan, one.containers, is_terminal=i + 1 == len(states))
            first = pod_status(short, one, NODE, phase, at(10 + i))
            second = pod_status(long, other, NODE, phase, at(10 + i))
            assert first == second
            assert (one.is_ready, one.ready_since_us) == (other.is_ready, other.ready_since_us)
            is_short = old.get("conditions") in (None, [SCHEDULED]) and not {*old} - {
                "qosClass",
                "phase",
                "conditions",
            }
            assert (one.conditions is first["conditions"]) is is_short
            short, long = {"status": first}, {"status": second}


def test_a_pod_that_was_refused() -> None:
    others = [SCHEDULED, {"type": "Ready", "status": "False"}]
    for old, more in (
        ({}, {"qosClass": "BestEffort"}),
        (
            {"qosClass": "Guaranteed", "conditions": others, "podIP": "1.2.3.4"},
            {"qosClass": "Guaranteed", "conditions": [SCHEDULED]},
        ),
        ({"conditions": others[1:]}, {"qosClass": "BestEffort"}),
    ):
        assert rejected_status({"status": old}, "OutOfcpu", "No cpu.", at(7)) == {
            "phase": "Failed",
            "reason": "OutOfcpu",
            "message": "Pod was rejected: No cpu.",
            "startTime": text(7),
            **more,
        }
