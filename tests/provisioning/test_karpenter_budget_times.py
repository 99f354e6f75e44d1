"""When budgets begin and end, and what keeps pods where they are: both sides of every moment and every rule."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from tests.provisioning.karpenterworlds import pool

from fairway.kube.objects import Obj
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US, rfc3339
from fairway.provisioning.karpenter.disruption.budgets import (
    UNBOUNDED,
    allowed_disruptions,
    changes_at_us,
    is_active,
    next_change_us,
)
from fairway.provisioning.karpenter.disruption.evictions import (
    budgets_of,
    is_currently_reschedulable,
    is_do_not_disrupt,
    why_not_evictable,
)
from fairway.provisioning.karpenter.nodepools import Budget, NodePool

_DAY = 24 * HOUR_US
_NIGHT = Budget("0", None, "0 22 * * *", 8 * HOUR_US)


def _pool(*budgets: Budget) -> NodePool:
    return replace(pool(), budgets=budgets)


def test_a_scheduled_budget_holds_from_its_start_to_its_end() -> None:
    start = 10 * _DAY + 22 * HOUR_US
    for offset in (
        -_DAY,
        -HOUR_US,
        -1,
        0,
        1,
        HOUR_US,
        8 * HOUR_US - 1,
        8 * HOUR_US,
        8 * HOUR_US + 1,
        12 * HOUR_US,
    ):
        now = start + offset
        within = 0 <= (now - start) % _DAY < 8 * HOUR_US
        assert is_active(_NIGHT, now) == within, offset
        edges = [start + day * _DAY + at for day in (-2, -1, 0, 1) for at in (0, 8 * HOUR_US)]
        assert changes_at_us(_NIGHT, now) == min(edge for edge in edges if edge > now), offset
        assert next_change_us([_pool(Budget("5"), _NIGHT), _pool()], now) == changes_at_us(_NIGHT, now)
        assert allowed_disruptions(_pool(_NIGHT), "Empty", 7, now) == (0 if within else UNBOUNDED)
    assert changes_at_us(Budget("5"), start) is None and is_active(Budget("5"), start)
    assert changes_at_us(Budget("5", None, "never", HOUR_US), start) is None
    assert next_change_us([_pool(Budget("5"))], start) is None


def test_the_next_change_is_that_of_the_first_budget_to_change() -> None:
    noon = Budget("0", None, "0 12 * * *", HOUR_US)
    unread = Budget("0", None, "never", HOUR_US)
    for hour in range(24):
        now = 10 * _DAY + hour * HOUR_US
        edges = [at * HOUR_US + 10 * _DAY for at in (12, 13, 22, 30, 36)] + [10 * _DAY + 6 * HOUR_US]
        want = min(edge for edge in edges if edge > now)
        for pools in (
            [_pool(_NIGHT, noon)],
            [_pool(noon, Budget("5"), _NIGHT)],
            [_pool(_NIGHT), _pool(unread), _pool(noon)],
            [_pool(noon), _pool(), _pool(unread, _NIGHT)],
        ):
            assert next_change_us(pools, now) == want, (hour, len(pools))
    assert next_change_us([_pool(unread)], 0) is None
    assert next_change_us([], 0) is None


def test_shares_are_rounded_up_and_reasons_chosen() -> None:
    for nodes, percent in product(range(12), (0, 1, 10, 33, 50, 99, 100)):
        allowed = allowed_disruptions(_pool(Budget(f"{percent}%")), "Empty", nodes, 0)
        assert allowed == (nodes * percent + 99) // 100
    drifted = Budget("1", ("Drifted",))
    assert allowed_disruptions(_pool(drifted, Budget("3")), "Empty", 9, 0) == 3
    assert allowed_disruptions(_pool(drifted, Budget("3")), "Drifted", 9, 0) == 1
    assert allowed_disruptions(_pool(drifted), "Empty", 9, 0) == UNBOUNDED
    assert allowed_disruptions(_pool(Budget("x")), "Empty", 9, 0) == 0


def _pod(value: str | None = None, *, name: str = "p", started_us: int | None = None, **more: Any) -> Obj:
    notes = {} if value is None else {"karpenter.sh/do-not-disrupt": value}
    meta = {
        "name": name,
        "namespace": "d",
        "annotations": notes,
        "labels": {"app": "x"},
        **more.pop("meta", {}),
    }
    status = {"phase": "Running", **({} if started_us is None else {"startTime": rfc3339(started_us)})}
    return {"metadata": meta, "spec": more.pop("spec", {}), "status": {**status, **more}}


def test_how_long_a_pod_is_not_to_be_disrupted() -> None:
    start = 100 * SECOND_US
    for value, now, want in (
        (None, 0, False),
        ("true", 0, True),
        ("false", 0, False),
        ("5m", start + 5 * MINUTE_US - SECOND_US, True),
        ("5m", start + 5 * MINUTE_US, False),
        ("0s", start, False),
        ("-5m", start, False),
        ("soon", start, False),
    ):
        assert is_do_not_disrupt(_pod(value, started_us=start), now) == want, (value, now)
    assert is_do_not_disrupt(_pod("5m"), 10**15), "it has not started"


def _guard(name: str = "b", allowed: int = 0, namespace: str = "d", **spec: Any) -> Obj:
    selector = {"selector": {"matchLabels": {"app": "x"}}}
    meta = {"name": name, "namespace": namespace}
    return {"metadata": meta, "spec": {**selector, **spec}, "status": {"disruptionsAllowed": allowed}}


_TOLERATES = {"tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]}
_UNREADY = [{"type": "Ready", "status": "False"}]


@pytest.mark.parametrize(
    ("pod", "guards", "keeps", "moves"),
    [
        (_pod(), [], "", True),
        (_pod(), [_guard()], "pdb prevents pod evictions", True),
        (_pod(), [_guard(allowed=1)], "", True),
        (_pod(), [_guard(namespace="other")], "", True),
        (_pod(meta={"labels": {"app": "y"}}), [_guard()], "", True),
        (_pod(), [_guard(), _guard("c", 1)], "eviction does not support multiple PDBs", False),
        (_pod(), [_guard(maxUnavailable=0)], "pdb prevents pod evictions", False),
        (_pod(), [_guard(maxUnavailable="0%", allowed=1)], "", False),
        (_pod(), [_guard(minAvailable="100%")], "pdb prevents pod evictions", False),
        (_pod(), [_guard(maxUnavailable=1)], "pdb prevents pod evictions", True),
        (_pod(conditions=_UNREADY), [_guard(unhealthyPodEvictionPolicy="AlwaysAllow")], "", True),
        (_pod(conditions=_UNREADY), [_guard()], "pdb prevents pod evictions", True),
        (_pod(), [_guard(unhealthyPodEvictionPolicy="AlwaysAllow")], "pdb prevents pod evictions", True),
        (_pod(spec=_TOLERATES), [_guard(maxUnavailable=0)], "", True),
        (_pod("true"), [], 'pod has "karpenter.sh/do-not-disrupt" annotation', False),
        (_pod("true", phase="Succeeded"), [_guard()], "", False),
        (_pod("false"), [], "", True),
    ],
)
def test_what_keeps_a_pod(pod: Obj, guards: list[Obj], keeps: str, *, moves: bool) -> None:
    budgets = budgets_of(guards)
    found = why_not_evictable([pod], budgets, 0)
    assert (found or "").startswith(keeps) and bool(found) == bool(keeps), found
    assert is_currently_reschedulable(pod, budgets, 0) == moves
    calm = _pod(name="calm", meta={"labels": {}})
    assert why_not_evictable([calm, pod], budgets, 0) == found
