"""Have enough indexes succeeded for this Job's successPolicy?

Source: pkg/controller/job/success_policy.go (v1.36); KEP-3998.
"""

from __future__ import annotations

from typing import Any

from fairway.workloads.job import indexes
from fairway.workloads.job.indexes import Intervals


def met_message(policy: dict[str, Any] | None, completions: int, succeeded: Intervals) -> str | None:
    """The condition's message once a rule is met; None until then."""
    if policy is None or not succeeded:
        return None
    for at, rule in enumerate(policy.get("rules") or ()):
        if _is_met(rule, completions, succeeded):
            return f"Matched rules at index {at}"
    return None


def _is_met(rule: dict[str, Any], completions: int, succeeded: Intervals) -> bool:
    wanted_count = rule.get("succeededCount")
    listed = rule.get("succeededIndexes")
    if listed is None:
        return wanted_count is not None and indexes.total(succeeded) >= wanted_count
    wanted = indexes.parse(listed, completions)
    if not wanted:
        return False
    contained = indexes.overlap(wanted, succeeded)
    return contained == indexes.total(wanted) or (wanted_count is not None and contained >= wanted_count)
