"""Has the capacity a Workload needs been provisioned? The check's state, and the requests it takes.

One look goes through Kueue's steps: requests of a Workload that is over or evicted go; the state of each check follows
its last request; requests nobody needs go; a check that waits without a request gets one.

Unlike kube: checks come by name, where Go ranges over a map; PodTemplates pass into the request's ownership at the look
that follows its creation, where Kueue does so at once.

Source: provisioning/controller.go Reconcile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.cluster.actions import Action, Create, Delete, Emit, Patch, SetStatus, View
from fairway.kube.conditions import get_condition, is_condition_true
from fairway.kube.objects import (
    Key,
    Obj,
    key_of,
    meta_of,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
)
from fairway.kube.provisioningrequests import (
    ACCEPTED,
    BOOKING_EXPIRED,
    CAPACITY_REVOKED,
    CONSUMES,
    FAILED,
    OF_CLASS,
    POD_TEMPLATE,
    PROVISIONED,
    REQUEST,
)
from fairway.queueing.admissionchecks.configs import ADMISSION_CHECK, Config, config_of, is_ours
from fairway.queueing.admissionchecks.requests import (
    InconsistentPodSets,
    asked_pod_sets,
    attempt_of,
    is_needed,
    is_of_config,
    request_name,
    request_object,
    template_name,
    template_object,
)
from fairway.queueing.control.checks import PENDING, READY, REJECTED, RETRY, Check
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.conditions import MAX_EVENT_MESSAGE, truncated
from fairway.queueing.facts.gates import FeatureGates
from fairway.queueing.facts.workloadstate import is_active, is_finished
from fairway.queueing.integrations.podsetinfo import BadPodSets, FlavorMissing

COMPONENT = "kueue-provisioning-request-controller"
NORMAL, WARNING = "Normal", "Warning"
CHECK_INACTIVE = "the check is not active"
NOT_NEEDED = "the provisioning request is not needed"

Configs = Mapping[str, Config | None]


def reconcile_provisioning(view: View, workload: Obj, gates: FeatureGates) -> tuple[Action, ...]:
    """What to do about one Workload's checks and requests. O(its checks × its requests)."""
    status = status_of(workload)
    is_over, is_evicted = is_finished(workload), conds.is_true(status, conds.EVICTED)
    if not conds.is_true(status, conds.QUOTA_RESERVED) and not is_over and not is_evicted:
        return ()
    owned = _requests_of(view, workload)
    if is_over or (is_evicted and gates.cleanup_provisioning_requests_on_eviction):
        return tuple(_delete(r) for r in owned)
    if is_evicted:
        return ()
    configs = _configs(view, status)
    try:
        return tuple(_followed(view, workload, configs, owned, gates))
    except (InconsistentPodSets, FlavorMissing):
        return ()


def _requests_of(view: View, workload: Obj) -> list[Obj]:
    keys = [k for k in view.dependents(meta_of(workload).get("uid") or "") if k.gk == REQUEST]
    return [found for k in keys if (found := view.get(k)) is not None]


def _configs(view: View, status: Mapping[str, Any]) -> dict[str, Config | None]:
    names = sorted(c["name"] for c in status.get("admissionChecks") or ())
    ours = [n for n in names if is_ours(view.get(Key(ADMISSION_CHECK, "", n)))]
    return {name: config_of(view, name) for name in ours}


def _followed(
    view: View, workload: Obj, configs: Configs, owned: Sequence[Obj], gates: FeatureGates
) -> list[Action]:
    last = _last_requests(workload, configs, owned)
    states, actions = _synced(workload, configs, last)
    kept = {name_of(r) for r in last.values()}
    actions += [_delete(r) for r in owned if name_of(r) not in kept]
    for check, config in configs.items():
        if config is None or not is_needed(workload, config):
            continue
        if states[check].get("state") == READY:
            continue
        request = last.get(check)
        attempt = _attempt_due(workload, check, request, states[check])
        if attempt is not None:
            actions += _made(view, workload, config, request_name(name_of(workload), check, attempt), gates)
        elif request is not None:
            actions += _adopted(view, workload, request)
    return actions


def _last_requests(workload: Obj, configs: Configs, owned: Sequence[Obj]) -> dict[str, Obj]:
    """By check, its latest attempt that still says what the config says."""
    found: dict[str, Obj] = {}
    for check, config in configs.items():
        if config is None or not is_needed(workload, config):
            continue
        tried = [
            (attempt, r)
            for r in owned
            if (attempt := attempt_of(r, name_of(workload), check)) is not None and is_of_config(r, config)
        ]
        if tried:
            found[check] = max(tried, key=lambda t: t[0])[1]
    return found


def _delete(request: Obj) -> Action:
    return Delete(key_of(request), meta_of(request).get("uid") or "")


# The state of the checks


def _synced(
    workload: Obj, configs: Configs, last: Mapping[str, Obj]
) -> tuple[dict[str, Check], list[Action]]:
    """The states as they are now, and what is written of them."""
    status = status_of(workload)
    before: list[Check] = [dict(c) for c in status.get("admissionChecks") or ()]
    now = {c["name"]: c for c in before}
    told: list[str] = []
    for check, config in configs.items():
        request = last.get(check)
        if config is not None and request is None and is_needed(workload, config):
            # Nothing is written before each check has its request.
            return {c["name"]: c for c in before}, []
        state = _state(workload, now[check], config, request)
        if state["state"] != now[check]["state"]:
            told.append(_change(now[check]["state"], state))
        now = {**now, check: state}
    after = [now[c["name"]] for c in before]
    if after == before:
        return now, []
    about = key_of(workload)
    events = [
        Emit(about, NORMAL, "AdmissionCheckUpdated", truncated(m, MAX_EVENT_MESSAGE), COMPONENT) for m in told
    ]
    return now, [SetStatus(about, {**status, "admissionChecks": after}), *events]


def _change(before: str, check: Check) -> str:
    message = f"Admission check {check['name']} updated state from {before} to {check['state']}"
    return f"{message} with message: {check['message']}" if check.get("message") else message


def _state(workload: Obj, check: Check, config: Config | None, request: Obj | None) -> Check:
    """The check as its request has it. Its time stays: Kueue copies the state with the time it had."""
    if config is None:
        return {**check, "state": PENDING, "message": CHECK_INACTIVE}
    if request is None:
        if check["state"] == READY:
            return check
        ready = {k: v for k, v in check.items() if k != "podSetUpdates"}
        return {**ready, "state": READY, "message": NOT_NEEDED}
    conditions = status_of(request).get("conditions")
    attempt = attempt_of(request, name_of(workload), check["name"])
    assert attempt is not None
    is_admitted = conds.is_true(status_of(workload), conds.ADMITTED)
    if is_condition_true(conditions, FAILED):
        return _failed(check, config, attempt, "Retrying after failure", _message(conditions, FAILED))
    if is_condition_true(conditions, CAPACITY_REVOKED):
        if not is_active(workload) or is_finished(workload):
            return check
        return {**check, "state": REJECTED, "message": _message(conditions, CAPACITY_REVOKED)}
    if is_condition_true(conditions, BOOKING_EXPIRED):
        if is_admitted:
            return check
        why = _message(conditions, BOOKING_EXPIRED)
        return _failed(check, config, attempt, "Retrying after booking expired", why)
    if is_condition_true(conditions, PROVISIONED):
        if check["state"] == READY:
            return check
        updates = pod_set_updates(workload, request, config)
        message = _message(conditions, PROVISIONED)
        return {**check, "state": READY, "message": message, "podSetUpdates": updates}
    if is_condition_true(conditions, ACCEPTED):
        # Why it waits, or when it may come.
        if get_condition(conditions, PROVISIONED) is None:
            return check
        return {**check, "state": PENDING, "message": _message(conditions, PROVISIONED)}
    return {**check, "state": PENDING, "message": ""}


def _message(conditions: Any, kind: str) -> str:
    return str((get_condition(conditions, kind) or {}).get("message") or "")


def _failed(check: Check, config: Config, attempt: int, retrying: str, message: str) -> Check:
    """Tried again as long as the limit allows; an old request is no reason to."""
    if attempt > config.limit:
        return {**check, "state": REJECTED, "message": message}
    changed = {**check, "message": f"{retrying}: {message}"}
    tried = int(check.get("retryCount") or 0)
    if attempt > tried:
        changed["state"] = RETRY
        changed["requeueAfterSeconds"] = config.backoff_s(tried + 1)
    return changed


def pod_set_updates(workload: Obj, request: Obj, config: Config) -> list[dict[str, Any]]:
    """What the pods are told: whose capacity they use, and where it is."""
    names = {
        template_name(name_of(request), ps.get("name") or "main"): ps.get("name") or "main"
        for ps in spec_of(workload).get("podSets") or ()
    }
    details = status_of(request).get("provisioningClassDetails") or {}
    out = []
    for pod_set in spec_of(request).get("podSets") or ():
        update: dict[str, Any] = {
            "name": names.get(pod_set["podTemplateRef"]["name"], ""),
            "annotations": {
                CONSUMES: name_of(request),
                OF_CLASS: spec_of(request).get("provisioningClassName") or "",
            },
        }
        selector = {label: str(details[name]) for label, name in config.node_selector if name in details}
        if selector:
            update["nodeSelector"] = selector
        out.append(update)
    return out


# Requests


def _attempt_due(workload: Obj, check: str, request: Obj | None, state: Check) -> int | None:
    """The number of the request to make now; None: none."""
    if request is None:
        return int(state.get("retryCount") or 0) + 1
    conditions = status_of(request).get("conditions")
    is_admitted = conds.is_true(status_of(workload), conds.ADMITTED)
    is_lost = is_condition_true(conditions, FAILED) or (
        is_condition_true(conditions, BOOKING_EXPIRED) and not is_admitted
    )
    if is_lost and state.get("state") == PENDING:
        attempt = attempt_of(request, name_of(workload), check)
        assert attempt is not None
        return attempt + 1
    return None


def _made(view: View, workload: Obj, config: Config, name: str, gates: FeatureGates) -> list[Action]:
    about = key_of(workload)
    asked = asked_pod_sets(workload, config)
    actions: list[Action] = []
    for pod_set in asked:
        of_template = template_name(name, pod_set.name)
        if view.get(Key(POD_TEMPLATE, namespace_of(workload), of_template)) is not None:
            continue
        try:
            actions.append(Create(template_object(view, workload, of_template, pod_set, gates)))
        except BadPodSets as conflict:
            text = truncated(f'Error creating PodTemplate "{of_template}": {conflict}', MAX_EVENT_MESSAGE)
            return [Emit(about, WARNING, "FailedCreate", text, COMPONENT)]
    actions.append(Create(request_object(workload, config, name, asked)))
    text = f'Created ProvisioningRequest: "{name}"'
    actions.append(Emit(about, NORMAL, "ProvisioningRequestCreated", text, COMPONENT))
    return actions


def _adopted(view: View, workload: Obj, request: Obj) -> list[Action]:
    """The templates belong to the Workload only until there is a request to belong to."""
    actions: list[Action] = []
    mine, theirs = meta_of(workload).get("uid"), owner_reference(request)
    for pod_set in spec_of(request).get("podSets") or ():
        key = Key(POD_TEMPLATE, namespace_of(request), pod_set["podTemplateRef"]["name"])
        template = view.get(key)
        if template is None:
            continue
        owners = meta_of(template).get("ownerReferences") or []
        if any(o.get("uid") == theirs["uid"] for o in owners):
            continue
        kept = [o for o in owners if o.get("uid") != mine]
        actions.append(Patch(key, {"metadata": {"ownerReferences": [*kept, theirs]}}))
    return actions
