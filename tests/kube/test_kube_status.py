"""Conditions and events."""

from __future__ import annotations

from fairway.kube.conditions import get_condition, is_condition_true, set_condition, without_condition

T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train-0", "namespace": "team-a", "uid": "u-1", "resourceVersion": "7"},
}


def test_the_transition_time_moves_only_with_the_status() -> None:
    first = set_condition(None, "Ready", "False", "ContainersNotReady", "wait", T1)
    again = set_condition(first, "Ready", "False", "ContainersNotReady", "still waiting", T2)
    assert get_condition(again, "Ready") == {
        "type": "Ready",
        "status": "False",
        "reason": "ContainersNotReady",
        "message": "still waiting",
        "lastTransitionTime": T1,
    }
    ready = set_condition(again, "Ready", "True", now_text=T2)
    assert get_condition(ready, "Ready") == {"type": "Ready", "status": "True", "lastTransitionTime": T2}
    assert is_condition_true(ready, "Ready")
    assert not is_condition_true(first, "Ready")


def test_lists_are_new_and_keep_their_order() -> None:
    both = set_condition(set_condition([], "A", "True", now_text=T1), "B", "True", now_text=T1)
    changed = set_condition(both, "A", "False", now_text=T2, observed_generation=3, lastProbeTime=None)
    assert [c["type"] for c in changed] == ["A", "B"]
    assert changed[1] is both[1]
    assert both[0]["status"] == "True"
    assert changed[0]["observedGeneration"] == 3
    assert "lastProbeTime" in changed[0]
    assert [c["type"] for c in without_condition(changed, "A")] == ["B"]
    assert get_condition(changed, "C") is None
    assert get_condition(None, "A") is None
