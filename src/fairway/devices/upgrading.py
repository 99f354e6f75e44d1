"""How does a new driver reach the nodes? One after the other: cordon, GPU pods away, the driver's pod anew, open again.

Source: NVIDIA/gpu-operator 26.7 controllers/upgrade_controller.go, k8s-operator-libs pkg/upgrade (states, their order).
"""

from __future__ import annotations

from typing import Final

from fairway.devices.nodeview import NodeView, Step
from fairway.devices.policy import driver_image

STATE: Final = "nvidia.com/gpu-driver-upgrade-state"
REQUIRED, DONE = "upgrade-required", "upgrade-done"
_ORDER: Final = (
    "cordon-required",
    "wait-for-jobs-required",
    "pod-deletion-required",
    "pod-restart-required",
    "validation-required",
    "uncordon-required",
)


def upgrade_steps(view: NodeView, *, others: int) -> list[Step]:
    """The next state of a node whose driver is not the policy's. `others`: nodes that are in the middle of it."""
    policy, driver = view.policy, view.pods.get("driver")
    state = view.labels.get(STATE, "")
    if policy is None or "driver" in policy.off or not policy.upgrades_itself:
        return []
    is_old = driver is not None and driver.image != driver_image(policy)
    if state not in _ORDER:
        if not is_old:
            return []
        if state != REQUIRED:
            return [_to(REQUIRED)]
        free = policy.parallel_upgrades == 0 or others < policy.parallel_upgrades
        return [_to("cordon-required")] if free else []
    if state == "cordon-required":
        return [_to("wait-for-jobs-required", cordon=True)]
    if state == "wait-for-jobs-required":
        return [_to("pod-deletion-required")]
    if state == "pod-deletion-required":
        return (
            [_to("pod-restart-required", evict=view.holders)]
            if view.holders
            else [_to("pod-restart-required")]
        )
    if state == "pod-restart-required":
        if is_old and driver is not None:
            return [Step("upgrade/restart", 1, delete=driver.name)]
        return [_to("validation-required")] if driver is not None and driver.ready else []
    if state == "validation-required":
        return [_to("uncordon-required", after_s=10)] if driver is not None and driver.ready else []
    return [_to(DONE, cordon=False)]


def _to(state: str, after_s: float = 1, cordon: bool | None = None, evict: tuple[str, ...] = ()) -> Step:
    return Step(f"upgrade/{state}", after_s, labels={STATE: state}, cordon=cordon, evict=evict)
