"""Plans: what a template asks for is read once, what its pods' annotations say is each pod's own."""

from __future__ import annotations

from typing import Any

from builders import pod
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US
from fairway.twin.behaviour import DEFAULT_RUN_US
from fairway.twin.distributions import constant
from fairway.twin.kubelet.plans import Plans, PodPlan


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
