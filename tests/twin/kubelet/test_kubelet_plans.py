"""Plans: what a template asks for is read once, what its pods' annotations say is each pod's own."""

from __future__ import annotations

from typing import Any

import pytest

from builders import pod
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US
from fairway.twin.behaviour import DEFAULT_RUN_US
from fairway.twin.distributions import constant
from fairway.twin.kubelet.plans import Plans, PodPlan, default_pull_policy, plan_of


def _pod(spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    named = {f"fairway.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"metadata": {"name": "p", "annotations": named}, "spec": spec}


def _run(plan: PodPlan) -> Any:
    return plan.behaviours[0].run


def _spec(**fields: Any) -> dict[str, Any]:
    return {**pod("p").asks("cpu", 1).build()["spec"], "restartPolicy": "Never", **fields}


def test_annotations_leave_the_plan_of_the_template_alone() -> None:
    plans, spec = Plans(), _spec()
    plain = plans.of(_pod(spec))
    hour, minutes = (
        plans.of(_pod(spec, run_time="1h")),
        plans.of(_pod(spec, run_time="90s", stop_time="never")),
    )
    assert (_run(plain), _run(hour), _run(minutes)) == (
        constant(DEFAULT_RUN_US),
        constant(HOUR_US),
        constant(90 * SECOND_US),
    )
    assert (hour.behaviours[0].stop_us, minutes.behaviours[0].stop_us) == (0, None)
    assert hour.requests == minutes.requests == plain.requests == (("cpu", 1000),)


def test_equal_pods_share_a_plan_whatever_dicts_they_are_made_of() -> None:
    plans, spec = Plans(), _spec()
    for said in ({}, {"run_time": "1h"}):
        first = plans.of(_pod(spec, **said))
        assert plans.of(_pod(spec, **said)) is plans.of(_pod(_spec(), **said)) is first


def test_fields_beside_the_containers_count() -> None:
    plans, spec = Plans(), _spec()
    longer = {**spec, "terminationGracePeriodSeconds": 60}
    hosted = {**spec, "hostNetwork": True}
    assert plans.of(_pod(spec, run_time="1h")).grace_us == 30 * SECOND_US
    assert plans.of(_pod(longer, run_time="1h")).grace_us == MINUTE_US
    assert plans.of(_pod(hosted, run_time="1h")).host_network
    assert not plans.of(_pod(spec, run_time="1h")).host_network


def test_a_wrong_annotation_is_named_and_changes_nothing() -> None:
    plans, spec = Plans(), _spec()
    wrong = plans.of(_pod(spec, run_time="soon"))
    assert _run(wrong) == constant(DEFAULT_RUN_US)
    assert wrong.problem is not None and wrong.problem.value == "soon"
    assert plans.of(_pod(spec, run_time="1h")).problem is None


def test_a_plan_from_end_to_end() -> None:
    """What each container is by its place and its own policy, and what the pod asks for, in the order of admission."""
    probe = {"httpGet": {"path": "/", "port": 80}}
    probes = {"startupProbe": probe, "readinessProbe": probe, "livenessProbe": probe}
    asks = {
        "requests": {"memory": "1Gi", "x.io/b": "2", "cpu": "1", "x.io/a": "1", "ephemeral-storage": "1Gi"}
    }
    inits = [
        {"name": "first", "image": "i", **probes},
        {"name": "side", "image": "i", "restartPolicy": "Always", **probes},
        {"name": "once", "image": "i", "restartPolicy": "Never"},
    ]
    mains = [{"name": "main", "image": "i", "resources": asks, **probes}, {"name": "bare", "image": "i"}]
    gates = [{"conditionType": "x/a"}, {}]
    restarts = {
        "Always": ["OnFailure", "Always", "Never", "Always", "Always"],
        "OnFailure": ["OnFailure", "Always", "Never", "OnFailure", "OnFailure"],
        "Never": ["Never", "Always", "Never", "Never", "Never"],
    }
    for policy, wanted in restarts.items():
        spec = {
            "restartPolicy": policy,
            "initContainers": inits,
            "containers": mains,
            "readinessGates": gates,
        }
        plan = plan_of({**spec, "activeDeadlineSeconds": 7, "terminationGracePeriodSeconds": 0})
        assert [c.restarts for c in plan.containers] == wanted
        assert [(c.is_init, c.is_sidecar) for c in plan.containers] == [
            (True, False),
            (True, True),
            (True, False),
            (False, False),
            (False, False),
        ]
        assert [
            tuple(p is not None for p in (c.startup, c.readiness, c.liveness)) for c in plan.containers
        ] == [(probed,) * 3 for probed in (False, True, False, True, False)]
        assert (plan.init_count, plan.deadline_us, plan.grace_us) == (3, 7_000_000, 0)
        assert (plan.readiness_gates, plan.is_plain, plan.host_network) == (("x/a", ""), False, False)
    assert [name for name, _ in plan.requests] == ["cpu", "memory", "ephemeral-storage", "x.io/a", "x.io/b"]
    assert [c.part for c in plan.containers][1:4:2] == ["spec.initContainers{side}", "spec.containers{main}"]
    bare = plan_of({"containers": [{}]})
    assert (bare.deadline_us, bare.grace_us, bare.is_plain, bare.gpu_milli) == (None, 30_000_000, True, 0)
    assert [c.restarts for c in bare.containers] == ["Always"] and bare.containers[0].resources == ""


PLAIN: list[tuple[dict[str, Any], bool]] = [
    ({"containers": [{"name": "c"}]}, True),
    ({"containers": [{"name": "c"}], "hostNetwork": True}, True),
    ({"containers": [{"name": "c"}, {"name": "d"}]}, False),
    ({"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}, False),
    ({"containers": [{"name": "c"}], "readinessGates": [{"conditionType": "a"}]}, False),
    *(
        ({"containers": [{"name": "c", name: {"exec": {"command": ["x"]}}}]}, False)
        for name in ("startupProbe", "readinessProbe", "livenessProbe")
    ),
]


@pytest.mark.parametrize(("spec", "is_plain"), PLAIN)
def test_which_pods_are_plain(spec: dict[str, Any], is_plain: bool) -> None:
    plan = plan_of(spec)
    assert plan.is_plain is is_plain and plan.host_network is ("hostNetwork" in spec)


def test_gpus_are_the_first_main_containers() -> None:
    def asks(**limits: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"limits": limits, "requests": limits}}

    whole, part = asks(**{"nvidia.com/gpu": "2"}), asks(**{"fairway.dev/gpu-milli": "300"})
    plan = plan_of({"initContainers": [{"name": "i"}], "containers": [whole, part]})
    assert plan.gpu_milli == 2300
    assert [plan.gpu_milli_of(i) for i in range(3)] == [0, 2300, 0]


@pytest.mark.parametrize(
    ("policy", "rules", "restarts"),
    [
        ("Always", [], [True, True, True]),
        ("OnFailure", [], [False, True, True]),
        ("Never", [], [False, False, False]),
        ("Never", [("In", [7])], [False, False, True]),
        ("Never", [("NotIn", [7])], [True, True, False]),
        ("Never", [("In", [0]), ("In", [7])], [True, False, True]),
        ("OnFailure", [("In", [0])], [True, True, True]),
    ],
)
def test_after_which_exit_codes_it_starts_again(
    policy: str, rules: list[tuple[str, list[int]]], restarts: list[bool]
) -> None:
    told = [{"action": "Restart", "exitCodes": {"operator": op, "values": codes}} for op, codes in rules]
    other = {"action": "Else", "exitCodes": {"operator": "In", "values": [0, 1, 7]}}
    spec = {"restartPolicy": policy, "containers": [{"name": "c", "restartPolicyRules": [other, *told]}]}
    (one,) = plan_of(spec).containers
    assert [one.restarts_after(code) for code in (0, 1, 7)] == restarts


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("a:1", "IfNotPresent"),
        ("h:5000/a", "Always"),
        ("h:5000/a:1", "IfNotPresent"),
        ("a@sha256:1", "IfNotPresent"),
        ("a:latest@sha256:1", "IfNotPresent"),
    ],
)
def test_when_an_image_is_pulled_where_nobody_says(image: str, policy: str) -> None:
    assert default_pull_policy(image) == policy
    for said in ("", "Always", "Never", "IfNotPresent"):
        (one,) = plan_of({"containers": [{"image": image, "imagePullPolicy": said}]}).containers
        assert (one.always_pulls, one.never_pulls) == ((said or policy) == "Always", said == "Never")


@pytest.mark.parametrize(
    ("hook", "us"),
    [
        (None, 0),
        ({}, 0),
        ({"sleep": {"seconds": 5}}, 5_000_000),
        ({"sleep": {"seconds": 0}}, 0),
        ({"exec": {"command": ["sleep", "3"]}}, 3_000_000),
        ({"exec": {"command": ["sleep", "infinity"]}}, 2**62),
        ({"exec": {"command": ["nobody-knows"]}}, 0),
        ({"httpGet": {"path": "/"}}, 0),
    ],
)
def test_how_long_a_hook_takes(hook: Any, us: int) -> None:
    (one,) = plan_of({"containers": [{"lifecycle": {"preStop": hook}}]}).containers
    assert one.pre_stop_us == us
