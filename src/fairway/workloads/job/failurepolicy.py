"""What does this Job's podFailurePolicy say about a failed pod?

Source: pkg/controller/job/pod_failure_policy.go (v1.36); KEP-3329.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.kube.objects import Obj, status_of

FAIL_JOB: Final = "FailJob"
IGNORE: Final = "Ignore"
COUNT: Final = "Count"
FAIL_INDEX: Final = "FailIndex"


class Ruling(NamedTuple):
    """`counts`: towards backoffLimit. `message`: why the Job fails, with FailJob. `action` "": no rule matched."""

    action: str
    counts: bool
    message: str


UNMATCHED: Final = Ruling("", True, "")
_IGNORED: Final = Ruling(IGNORE, False, "")
_COUNTED: Final = Ruling(COUNT, True, "")


def ruling(policy: dict[str, Any] | None, pod: Obj, *, per_index: bool) -> Ruling:
    """The first rule that matches decides; FailIndex only exists with backoffLimitPerIndex."""
    if policy is None:
        return UNMATCHED
    for at, rule in enumerate(policy.get("rules") or ()):
        why = _matched(rule, pod)
        if why is None:
            continue
        action = rule.get("action", "")
        if action == IGNORE:
            return _IGNORED
        if action == COUNT:
            return _COUNTED
        if action == FAIL_INDEX and per_index:
            return Ruling(FAIL_INDEX, True, "")
        if action == FAIL_JOB:
            return Ruling(FAIL_JOB, True, f"{why} matching FailJob rule at index {at}")
    return UNMATCHED


def _matched(rule: dict[str, Any], pod: Obj) -> str | None:
    """What matched, in words; None where the rule does not apply."""
    status = status_of(pod)
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    if rule.get("onExitCodes") is not None:
        for containers in ("containerStatuses", "initContainerStatuses"):
            for container in status.get(containers) or ():
                code = _exit_code(container)
                if code and _code_matches(rule["onExitCodes"], container.get("name", ""), code):
                    return (
                        f"Container {container.get('name', '')} for pod {name} failed with exit code {code}"
                    )
        return None
    patterns = rule.get("onPodConditions") or ()
    for condition in status.get("conditions") or ():
        for pattern in patterns:
            wanted = pattern.get("status") or "True"
            if condition.get("type") == pattern.get("type") and condition.get("status") == wanted:
                return f"Pod {name} has condition {condition['type']}"
    return None


def _exit_code(container: dict[str, Any]) -> int:
    """0: it has not ended, or it ended well."""
    terminated = (container.get("state") or {}).get("terminated")
    return 0 if terminated is None else int(terminated.get("exitCode", 0))


def _code_matches(requirement: dict[str, Any], container: str, code: int) -> bool:
    only = requirement.get("containerName")
    if only is not None and only != container:
        return False
    listed = code in (requirement.get("values") or ())
    operator = requirement.get("operator")
    return listed if operator == "In" else not listed if operator == "NotIn" else False
