"""The phase of a pod against Kubernetes' own rule, counted as getPhase does it: every mixture of a few containers."""

from __future__ import annotations

from itertools import product

import pytest

from fairway.twin.kubelet.phases import phase_of
from fairway.twin.kubelet.plans import plan_of
from fairway.twin.kubelet.states import RUNNING, TERMINATED, WAITING, ContainerState, Ended

STATES = ("new", "up", "started", "well", "failed", "again")
"""Waiting for the first time, running (and started), ended with 0 or 1, waiting after it failed."""


def state(name: str) -> ContainerState:
    found = ContainerState("ContainerCreating")
    if name in ("up", "started"):
        found.state, found.is_started = RUNNING, name == "started"
    elif name in ("well", "failed"):
        code = int(name == "failed")
        found.state, found.end = TERMINATED, Ended(code, "Error", "", 1, 2)
    elif name == "again":
        found.state, found.last = WAITING, Ended(1, "Error", "", 1, 2)
    return found


def expected(
    init: tuple[str, ...], sidecar: tuple[str, ...], mains: tuple[str, ...], policy: str, over: bool
) -> str:
    """Source: pkg/kubelet/kubelet_pods.go getPhase (v1.36)."""
    pending_init = sum(s in ("new", "up", "started") for s in init)
    failed_init = sum(s in ("failed", "again") for s in init)
    pending_sidecars = sum(s in ("new", "up") for s in sidecar)
    waiting = [*sidecar, *mains].count("new")
    running = sum(s in ("up", "started") for s in (*sidecar, *mains))
    stopped, succeeded = sum(s in ("well", "failed", "again") for s in mains), mains.count("well")
    has_begun = any(s != "new" for s in mains)
    if failed_init and policy == "Never":
        return "Failed"
    if pending_init or (pending_sidecars and not has_begun) or waiting:
        return "Pending"
    if running:
        return "Running"
    if not stopped:
        return "Pending"
    if over:
        return "Succeeded" if stopped == succeeded else "Failed"
    if policy == "Always":
        return "Running"
    if stopped == succeeded:
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize(
    ("inits", "sidecars", "mains"), [(0, 0, 1), (0, 0, 2), (1, 0, 1), (0, 1, 1), (1, 1, 2)]
)
def test_every_mixture(inits: int, sidecars: int, mains: int, policy: str) -> None:
    init = [{"name": f"i{n}", "image": "i"} for n in range(inits)]
    init += [{"name": f"s{n}", "image": "i", "restartPolicy": "Always"} for n in range(sidecars)]
    plan = plan_of(
        {
            "restartPolicy": policy,
            "initContainers": init,
            "containers": [{"name": f"m{n}", "image": "i"} for n in range(mains)],
        }
    )
    for names in product(STATES, repeat=inits + sidecars + mains):
        first, second, rest = names[:inits], names[inits : inits + sidecars], names[inits + sidecars :]
        if policy == "Never" and "again" in (*first, *rest):
            continue
        for over in (False, True):
            found = phase_of(plan, [state(n) for n in names], is_terminal=over)
            assert found == expected(first, second, rest, policy, over), (names, over)
