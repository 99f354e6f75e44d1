"""What webhooks and schemas fill into the kinds of distributed training.

Kubeflow's operators default what they read and write nothing back; their defaults are in `workloads/kubeflow`.

Source: jobset pkg/webhooks/jobset_webhook.go Default, api/jobset/v1alpha2/jobset_types.go; lws
pkg/webhooks/leaderworkerset_webhook.go Default; kuberay ray-operator/apis/ray/v1 (schema defaults).
"""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]


def jobset(obj: Obj) -> Obj:
    """With success policy, start-up order, DNS hostnames, Indexed Jobs whose pods restart OnFailure."""
    spec: Obj = obj.get("spec") or {}
    changed = {
        **spec,
        "successPolicy": spec.get("successPolicy") or {"operator": "All"},
        "startupPolicy": spec.get("startupPolicy") or {"startupPolicyOrder": "AnyOrder"},
        "replicatedJobs": [_replicated_job(r) for r in spec.get("replicatedJobs") or ()],
        "network": _with(spec.get("network"), enableDNSHostnames=True, publishNotReadyAddresses=True),
    }
    policy = spec.get("failurePolicy")
    if policy is not None:
        rules = [_named(rule, index) for index, rule in enumerate(policy.get("rules") or ())]
        changed["failurePolicy"] = _with(
            {**policy, **({"rules": rules} if rules else {})}, restartStrategy="Recreate"
        )
    return {**obj, "spec": changed}


def _replicated_job(replicated: Obj) -> Obj:
    template: Obj = replicated.get("template") or {}
    spec: Obj = _with(template.get("spec"), completionMode="Indexed")
    pod: Obj = spec.get("template") or {}
    spec["template"] = {**pod, "spec": _with(pod.get("spec"), restartPolicy="OnFailure")}
    return _with({**replicated, "template": {**template, "spec": spec}}, groupName="default", replicas=1)


def _named(rule: Obj, index: int) -> Obj:
    return rule if rule.get("name") else {**rule, "name": f"failurePolicyRule{index}"}


def leader_worker_set(obj: Obj) -> Obj:
    """With one group of one pod, started as created and recreated whole when a pod of it restarts."""
    spec = _with(obj.get("spec"), replicas=1, startupPolicy="LeaderCreated")
    template = _with(spec.get("leaderWorkerTemplate"), size=1)
    given = template.get("restartPolicy") or "RecreateGroupOnPodRestart"
    # `Default` is an old spelling of None.
    template["restartPolicy"] = "None" if given == "Default" else given
    spec["leaderWorkerTemplate"] = template
    rollout = _with(spec.get("rolloutStrategy"), type="RollingUpdate")
    if rollout["type"] == "RollingUpdate":
        rollout["rollingUpdateConfiguration"] = _with(
            rollout.get("rollingUpdateConfiguration"), partition=0, maxUnavailable=1, maxSurge=0
        )
    spec["rolloutStrategy"] = rollout
    spec["networkConfig"] = _with(spec.get("networkConfig"), subdomainPolicy="Shared")
    return {**obj, "spec": spec}


def _with(given: Obj | None, **defaults: Any) -> Obj:
    """A copy with defaults for the members that are absent or null."""
    found = given or {}
    return {**found, **{name: value for name, value in defaults.items() if found.get(name) is None}}
