"""A Deployment's status in full: counts, conditions, deadlines, failures of its ReplicaSets."""

from __future__ import annotations

from typing import Any

import pytest
from tinyworld import deployment

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads.deployment import sets, status

NOW_US = parse_rfc3339("2026-01-05T08:00:00Z")
NOW, THEN = rfc3339(NOW_US), rfc3339(NOW_US - 600 * SECOND_US)
KEY = Key("Deployment.apps", "default", "web")
PROGRESSED = 'ReplicaSet "new" has successfully progressed.'


def sized(name: str, wanted: int, **said: Any) -> sets.Sized:
    return sets.sized({"metadata": {"name": name}, "spec": {"replicas": wanted}, "status": said})


def rollout(new: sets.Sized | None = None, *old: sets.Sized, **spec: Any) -> sets.Rollout:
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    obj = deployment(**{"replicas": 3, "strategy": strategy, "progressDeadlineSeconds": 600, **spec})
    return sets.Rollout(KEY, obj, sets.wishes_of(obj), old=list(old), new=new)


def said(
    type_: str, state: str, reason: str, message: str = "m", updated: str = THEN, moved: str = THEN
) -> Obj:
    return {
        "type": type_,
        "status": state,
        "lastUpdateTime": updated,
        "lastTransitionTime": moved,
        "reason": reason,
        "message": message,
    }


OTHER = said("Other", "True", "R")


def test_a_condition_is_put_once_and_moves_with_its_status() -> None:
    before = said("Available", "True", "A")
    found: Obj = {"conditions": [before, OTHER]}
    status.put(found, said("Available", "True", "A", "another message", NOW, NOW))
    assert found == {"conditions": [before, OTHER]}, "the same status and reason: as it was"
    status.put(found, said("Available", "True", "B", "n", NOW, NOW))
    assert found == {"conditions": [OTHER, said("Available", "True", "B", "n", NOW, THEN)]}
    status.put(found, said("Available", "False", "B", "n", NOW, NOW))
    assert found == {"conditions": [OTHER, said("Available", "False", "B", "n", NOW, NOW)]}
    status.drop(found, "Other")
    status.drop(found, "None")
    assert found == {"conditions": [said("Available", "False", "B", "n", NOW, NOW)]}
    bare: Obj = {}
    status.drop(bare, "Other")
    assert bare == {}
    status.put(bare, OTHER)
    assert bare == {"conditions": [OTHER]}


@pytest.mark.parametrize(
    ("before", "paused", "deadline", "want"),
    [
        (None, True, 600, ("Unknown", "DeploymentPaused", "Deployment is paused", NOW, NOW)),
        (None, False, 600, None),
        (("True", "R"), True, 600, ("Unknown", "DeploymentPaused", "Deployment is paused", NOW, NOW)),
        (("Unknown", "R"), True, 600, ("Unknown", "DeploymentPaused", "Deployment is paused", NOW, THEN)),
        (("Unknown", "DeploymentPaused"), True, 600, ("Unknown", "DeploymentPaused", "m", THEN, THEN)),
        (
            ("Unknown", "DeploymentPaused"),
            False,
            600,
            ("Unknown", "DeploymentResumed", "Deployment is resumed", NOW, THEN),
        ),
        (("True", "R"), False, 600, ("True", "R", "m", THEN, THEN)),
        (("False", status.TIMED_OUT), True, 600, ("False", status.TIMED_OUT, "m", THEN, THEN)),
        (("True", "R"), True, 2**31 - 1, ("True", "R", "m", THEN, THEN)),
    ],
)
def test_pauses_are_written_down(before: Any, paused: bool, deadline: int, want: Any) -> None:
    found: Obj = {} if before is None else {"conditions": [said("Progressing", *before)]}
    status.pause_or_resume(rollout(paused=paused, progressDeadlineSeconds=deadline), found, NOW_US)
    assert found.get("conditions", []) == ([] if want is None else [said("Progressing", *want)])


ENOUGH = said(
    "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", NOW, NOW
)
SHORT = said(
    "Available",
    "False",
    "MinimumReplicasUnavailable",
    "Deployment does not have minimum availability.",
    NOW,
    NOW,
)


def test_counts_are_of_all_replica_sets() -> None:
    new = sized("new", 2, replicas=2, readyReplicas=1, availableReplicas=1, terminatingReplicas=1)
    old = sized("old", 3, replicas=4, readyReplicas=2, availableReplicas=1, terminatingReplicas=2)
    found = status.counted(
        rollout(new, old), {"collisionCount": 2, "conditions": [OTHER], "replicas": 99}, NOW_US
    )
    assert found == {
        "replicas": 6,
        "updatedReplicas": 2,
        "readyReplicas": 3,
        "availableReplicas": 2,
        "unavailableReplicas": 3,
        "observedGeneration": 0,
        "terminatingReplicas": 3,
        "collisionCount": 2,
        "conditions": [OTHER, ENOUGH],
    }
    unseen = sized("unseen", 0)
    assert status.counted(rollout(None, unseen), {}, NOW_US) == {
        "observedGeneration": 0,
        "terminatingReplicas": 0,
        "conditions": [SHORT],
    }
    silent = sized("silent", 1, replicas=1, availableReplicas=3)
    counted = status.counted(rollout(silent, new), {}, NOW_US)
    assert counted == {
        "replicas": 3,
        "updatedReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 4,
        "observedGeneration": 0,
        "conditions": [ENOUGH],
    }, "who does not count terminating pods leaves them out; none is less than unavailable"


FULL = {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}
SOME = {"replicas": 4, "updatedReplicas": 2, "readyReplicas": 3, "availableReplicas": 3}
GOING = ("ReplicaSetUpdated", 'ReplicaSet "new" is progressing.')
LATE = ("ProgressDeadlineExceeded", 'ReplicaSet "new" has timed out progressing.')


@pytest.mark.parametrize(
    ("before", "old", "new", "want"),
    [
        # Complete: said once, and not again while nothing is updated.
        (None, SOME, FULL, ("True", status.NEW_AVAILABLE, PROGRESSED, NOW, NOW)),
        (("True", "R"), SOME, FULL, ("True", status.NEW_AVAILABLE, PROGRESSED, NOW, THEN)),
        (("False", LATE[0]), SOME, FULL, ("True", status.NEW_AVAILABLE, PROGRESSED, NOW, NOW)),
        (("True", status.NEW_AVAILABLE), FULL, FULL, ("True", status.NEW_AVAILABLE, "m", THEN, THEN)),
        (
            ("True", status.NEW_AVAILABLE),
            FULL,
            {**FULL, "availableReplicas": 2},
            ("True", status.NEW_AVAILABLE, "m", THEN, THEN),
        ),
        # More updated, ready or available ones, or fewer of before: it goes on.
        (None, {}, SOME, ("True", *GOING, NOW, NOW)),
        (("True", "R"), SOME, {**SOME, "updatedReplicas": 3}, ("True", *GOING, NOW, THEN)),
        (("True", "R"), SOME, {**SOME, "readyReplicas": 4}, ("True", *GOING, NOW, THEN)),
        (("True", "R"), SOME, {**SOME, "availableReplicas": 4}, ("True", *GOING, NOW, THEN)),
        (("True", "R"), SOME, {**SOME, "replicas": 3}, ("True", *GOING, NOW, THEN)),
        (("True", GOING[0]), SOME, {**SOME, "replicas": 3}, ("True", *GOING, NOW, THEN)),
        (("False", LATE[0]), SOME, {**SOME, "replicas": 3}, ("True", *GOING, NOW, NOW)),
        (("True", status.NEW_AVAILABLE), FULL, {**SOME, "readyReplicas": 4}, ("True", *GOING, NOW, THEN)),
        # Nothing moves: too late a second after its deadline, not at it.
        (("True", "R"), SOME, SOME, ("True", "R", "m", THEN, THEN)),
        (("True", "R"), SOME, {**SOME, "replicas": 3, "updatedReplicas": 1}, ("True", "R", "m", THEN, THEN)),
        (("True", "R"), {"replicas": 2, "updatedReplicas": 1}, {"replicas": 1}, ("True", "R", "m", THEN, THEN)),
        (("True", "R"), {}, {"replicas": 1}, ("True", "R", "m", THEN, THEN)),
        (("True", "R"), {"replicas": 1}, {}, ("True", *GOING, NOW, THEN)),
        (("True", "R"), {}, {"replicas": 1, "readyReplicas": 1}, ("True", *GOING, NOW, THEN)),
        (("True", "R"), SOME, {**SOME, "replicas": 5}, ("True", "R", "m", THEN, THEN)),
        (("True", "R", rfc3339(NOW_US - 601 * SECOND_US)), SOME, SOME, ("False", *LATE, NOW, NOW)),
        (("Unknown", "DeploymentPaused", rfc3339(NOW_US - 601 * SECOND_US)), SOME, SOME, ("False", *LATE, NOW, NOW)),
        (("False", LATE[0]), SOME, SOME, ("False", LATE[0], "m", THEN, THEN)),
        (("True", status.NEW_AVAILABLE, "2020-01-01T00:00:00Z"), SOME, SOME, ("True", status.NEW_AVAILABLE, "m", 0, 0)),
        (None, SOME, SOME, None),
    ],
)  # fmt: skip
def test_is_it_progressing(before: Any, old: Obj, new: Obj, want: Any) -> None:
    conditions = [OTHER]
    if before is not None:
        state, reason, *updated = before
        conditions = [OTHER, said("Progressing", state, reason, "m", *updated)]
        if want is not None and want[3] == 0:
            want = (*want[:3], updated[0], THEN)
    found = {**new, "conditions": conditions}
    status.estimate_progress(rollout(sized("new", 3)), {**old, "conditions": conditions}, found, NOW_US)
    rest = [] if want is None else [said("Progressing", *want)]
    assert found == {**new, "conditions": [OTHER, *rest]}
    status.estimate_progress(rollout(progressDeadlineSeconds=2**31 - 1), old, found, NOW_US)
    assert found == {**new, "conditions": [OTHER]}, "without a deadline nothing is said"


@pytest.mark.parametrize(("replicas", "counts"), [(0, {}), (1, dict.fromkeys(FULL, 1)), (3, FULL)])
def test_complete_is_all_of_them_new_and_available(replicas: int, counts: Obj) -> None:
    one = rollout(replicas=replicas)
    assert status.is_complete(one, counts)
    for field in ("replicas", "updatedReplicas", "availableReplicas"):
        assert not status.is_complete(one, {**counts, field: replicas + 1})
        less = {k: v for k, v in counts.items() if k != field}
        assert status.is_complete(one, less) is (replicas == 0)


def test_who_is_told_of_before_there_is_a_replica_set() -> None:
    found: Obj = dict(FULL)
    status.estimate_progress(rollout(), {}, found, NOW_US)
    assert found["conditions"][0]["message"] == 'Deployment "web" has successfully progressed.'
    undated: Obj = {**SOME, "conditions": [{"type": "Progressing", "status": "True", "reason": "R"}]}
    status.estimate_progress(rollout(), SOME, undated, NOW_US)
    assert undated["conditions"][0]["reason"] == "ProgressDeadlineExceeded", "never updated is long ago"


@pytest.mark.parametrize(
    ("reason", "counts", "spec", "want"),
    [
        ("R", SOME, {}, 601),
        ("R", SOME, {"progressDeadlineSeconds": 5}, 6),
        ("R", SOME, {"progressDeadlineSeconds": 2**31 - 1}, None),
        ("R", SOME, {"paused": True}, None),
        ("R", FULL, {}, None),
        (status.TIMED_OUT, SOME, {}, None),
        (status.NEW_AVAILABLE, SOME, {}, None),
        (None, SOME, {}, None),
    ],
)
def test_when_to_look_whether_it_got_stuck(
    reason: str | None, counts: Obj, spec: Obj, want: int | None
) -> None:
    conditions = [] if reason is None else [said("Progressing", "True", reason, updated=NOW)]
    found = status.next_check_us(rollout(**spec), {**counts, "conditions": conditions})
    assert found == (None if want is None else NOW_US + want * SECOND_US)


def test_failures_of_a_replica_set_are_its_deployments() -> None:
    failing = {
        "type": "ReplicaFailure",
        "status": "True",
        "lastTransitionTime": THEN,
        "reason": "F",
        "message": "no",
    }
    bare = {"type": "ReplicaFailure", "status": "True", "lastTransitionTime": THEN}
    fine = sized("fine", 1, conditions=[OTHER])

    def carried(one: sets.Rollout) -> list[Obj]:
        found: Obj = {"conditions": [OTHER, said("ReplicaFailure", "True", "before")]}
        status.carry_failures(one, found, NOW_US)
        assert found["conditions"][0] == OTHER
        return list(found["conditions"][1:])

    of_new = said("ReplicaFailure", "True", "F", "no")
    assert carried(rollout(fine, fine)) == carried(rollout()) == []
    assert carried(rollout(sized("new", 1, conditions=[failing]), sized("old", 1, conditions=[bare]))) == [
        of_new
    ]
    assert carried(rollout(fine, sized("a", 1, conditions=[bare]), sized("b", 1, conditions=[failing]))) == [
        said("ReplicaFailure", "True", "", "")
    ]
