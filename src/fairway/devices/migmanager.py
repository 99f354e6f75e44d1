"""What does MIG Manager do on a node when its label `nvidia.com/mig.config` changes?

One change is one run: check the file, see whether the cards have it already, `pending`, the Operator's pods away, cut
the cards, pods back, `success` or `failed`. A run goes by the label as it was when it began; what is set meanwhile is
next. It neither cordons nor evicts: pods that have GPUs stay, and what they have cannot be cut.

Source: NVIDIA/mig-parted 0.15 cmd/nvidia-mig-manager/main.go, pkg/mig/reconfigure/reconfigure.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fairway.catalog.gpus import GpuModel
from fairway.catalog.nodegpus import LAYOUT, layouts_text
from fairway.devices.migapplying import WHOLE, applied, is_applied, mode_differs
from fairway.devices.migconfig import (
    MigConfigError,
    MigConfigs,
    MigSpec,
    generated_configs,
    read_mig_configs,
    selected,
)
from fairway.devices.nodeview import DEPLOY, MIG_CONFIG, MIG_STATE, PAUSED, NodeView, Step
from fairway.devices.policy import Policy

RUN: Final = "fairway.dev/mig-run"
"""On a node: the configuration that is being applied, and MIG Manager's pod."""
TRIED: Final = "fairway.dev/mig-config-tried"
"""On a node: the last one that was, and that pod."""
_RESTARTED: Final = "fairway.dev/mig-clients-restarted"
"""On a node: MIG Manager's pod that has brought the clients back after a change."""
_CLIENT: Final = f"{DEPLOY}client"
_CLIENTS: Final = tuple(
    f"{DEPLOY}{part}" for part in ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm")
)
_AWAITED: Final = (
    ("devicePlugin", "device-plugin"),
    ("gfd", "gpu-feature-discovery"),
    ("dcgmExporter", "dcgm-exporter"),
)
# Seconds: a reset of eight cards and creating instances, and a reboot, are estimates; what it sleeps after stopping the
# host's services and how long it waits for each client's pods are its own.
RECONFIGURE_S: Final = 25
_REBOOT_S: Final = 240
_SLEEP_S: Final = 30
# By then its own pod counts as not ready, where the machine is going down.
_GONE_S: Final = 90
SHUTDOWN_S: Final = 300
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")

Changes = dict[str, str | None]


def manager_steps(view: NodeView, policy: Policy) -> list[Step]:
    """Its next step on this node."""
    pod, notes = view.pods.get("migManager"), view.annotations
    if pod is None or view.gpus.model is None or not pod.ready:
        return []
    run, by = _split(notes.get(RUN, ""))
    if run and by == pod.name:
        return [_going_on(view, policy, view.gpus.model, run)]
    wanted = view.labels.get(MIG_CONFIG, "")
    if not wanted:
        # Nothing is done for a label that is gone; the same value set anew is a change again.
        return [Step("mig/unset", 0, annotations={TRIED: None})] if TRIED in notes else []
    if _split(notes.get(TRIED, "")) == (wanted, pod.name):
        return []
    return [_begun(view, policy, view.gpus.model, wanted)]


def _split(text: str) -> tuple[str, str]:
    run, _, pod = text.rpartition(" ")
    return run, pod


def _has(policy: Policy, flag: str) -> bool:
    return policy.mig_env.get(flag, "") in _TRUE


def _specs(view: NodeView, model: GpuModel, name: str) -> Sequence[MigSpec]:
    """Raises: MigConfigError."""
    configs: MigConfigs = (
        generated_configs(model) if view.mig_file is None else read_mig_configs(view.mig_file)
    )
    return selected(configs, name)


def _begun(view: NodeView, policy: Policy, model: GpuModel, wanted: str) -> Step:
    state = view.labels.get(MIG_STATE, "")
    after_s = _GONE_S if state == "rebooting" else 2
    mode_only = _has(policy, "MIG_PARTED_MODE_CHANGE_ONLY")
    try:
        specs = _specs(view, model, wanted)
    except MigConfigError as wrong:
        return _failed(view, wanted, f"failed to validate MIG configuration: {wrong}", after_s=1)
    if is_applied(specs, model, view.gpus.layouts, mode_only=mode_only):
        labels = {**_restarted(view), MIG_STATE: "success"}
        return Step("mig", after_s, _pod(view), labels=labels, annotations=_tried(view, wanted))
    if state == "rebooting" and mode_differs(specs, model, view.gpus.layouts):
        why = "failed to check if a MIG mode change is required: MIG mode change did not take effect after rebooting"
        return _failed(view, wanted, why, after_s=after_s)
    down: Changes = {name: _paused(view.labels.get(name, "")) for name in _clients(view.labels)}
    notes = {RUN: f"{wanted} {_pod(view)}"}
    return Step("mig", after_s, _pod(view), labels={**down, MIG_STATE: "pending"}, annotations=notes)


def _going_on(view: NodeView, policy: Policy, model: GpuModel, run: str) -> Step:
    late = _late(view, run)
    if late is not None:
        return late
    mode_only = _has(policy, "MIG_PARTED_MODE_CHANGE_ONLY")
    stops_services = _has(policy, "WITH_SHUTDOWN_HOST_GPU_CLIENTS")
    held = set(view.held)
    if view.fault("mig-busy") and not stops_services:
        held.add((0, WHOLE))
    try:
        specs = _specs(view, model, run)
        changes_mode = mode_differs(specs, model, view.gpus.layouts)
        found = applied(specs, model, view.gpus.layouts, frozenset(held), mode_only=mode_only)
    except MigConfigError as wrong:
        return _failed(view, run, f"failed to apply MIG configuration: {wrong}")
    after_s = RECONFIGURE_S + (_SLEEP_S if stops_services and changes_mode else 0)
    cards = {LAYOUT: layouts_text(found.layouts) or None}
    if found.is_mode and _has(policy, "WITH_REBOOT"):
        notes = {RUN: None, LAYOUT: layouts_text(found.rebooted()) or None}
        says = ("Normal", "Rebooting", f"Changing the '{MIG_STATE}' node label to 'rebooting'")
        return Step(
            "mig/reboot",
            after_s,
            labels={MIG_STATE: "rebooting"},
            annotations=notes,
            reboots_s=_REBOOT_S,
            says=says,
        )
    if found.problem:
        who = f"; pods that have its GPUs: {', '.join(view.holders[:3])}" if view.holders else ""
        return _failed(view, run, f"failed to apply MIG configuration: {found.problem}{who}", cards, after_s)
    up: Changes = {name: _true(view.labels.get(name, "")) for name in _clients(view.labels)}
    validator = view.pods.get("validator")
    return Step(
        "mig",
        after_s,
        _pod(view),
        labels={**up, MIG_STATE: "success"},
        annotations={**cards, **_tried(view, run), _RESTARTED: _pod(view)},
        says=("Normal", "MIGConfigApplied", f"Successfully updated to MIG config: {run}"),
        delete="" if validator is None else validator.name,
    )


def _late(view: NodeView, run: str) -> Step | None:
    """One client after the other has five minutes to go. One that does not ends the run: the state stays `pending`,
    the others stay paused, until the label changes."""
    there = next(
        (word for key, word in _AWAITED if key in view.pods),
        "third-party gpu client" if view.third_parties else "",
    )
    if not there:
        return None
    words = f"{there} pod{'s' if view.third_parties and there.startswith('third') else ''} did not shutdown"
    why = f"failed to wait for pods to be deleted: {words}: context deadline exceeded"
    says = ("Warning", "MIGConfigFailed", why)
    return Step(f"mig/late/{there}", SHUTDOWN_S, _pod(view), annotations=_tried(view, run), says=says)


def _failed(
    view: NodeView, run: str, why: str, cards: Mapping[str, str | None] | None = None, after_s: float = 1
) -> Step:
    """State `failed`; the clients come back, unless this pod of MIG Manager has brought them back once before: it
    remembers that for good, and leaves them paused then until a later change succeeds or its pod is replaced."""
    labels = {**_restarted(view), MIG_STATE: "failed"}
    notes = {**(cards or {}), **_tried(view, run)}
    return Step(
        "mig", after_s, _pod(view), labels=labels, annotations=notes, says=("Warning", "MIGConfigFailed", why)
    )


def _restarted(view: NodeView) -> Changes:
    if view.annotations.get(_RESTARTED) == _pod(view):
        return {}
    return {name: _true(view.labels.get(name, "")) for name in _clients(view.labels)}


def _tried(view: NodeView, run: str) -> Changes:
    return {TRIED: f"{run} {_pod(view)}", RUN: None}


def _pod(view: NodeView) -> str:
    return view.pods["migManager"].name


def _clients(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Third parties' clients only where somebody has labelled the node for them."""
    return (*_CLIENTS, _CLIENT) if labels.get(_CLIENT) else _CLIENTS


def _paused(value: str) -> str:
    return "false" if value == "false" else PAUSED


def _true(value: str) -> str:
    return "false" if value == "false" else "true"
