"""What is asked of a NodeClaim again and again, read once per version of it.

Which of its conditions are true is asked of a claim by whoever marks it, makes a node of it, or counts it for a
budget; walking its conditions each time was a third of what a change of a node cost.

Source: pkg/apis/v1/nodeclaim_status.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairway.kube.conditions import TRUE
from fairway.kube.objects import Obj, labels_of, meta_of, status_of
from fairway.kube.timestamps import parse_rfc3339
from fairway.provisioning.karpenter.labels import NODEPOOL

# The condition that comes and goes with a node's rest; the others: `nodeclaims`.
CONSOLIDATABLE: Final = "Consolidatable"


_NONE: Final[list[Obj]] = []


class ClaimFacts:
    """One version of a claim. `last_pod_event_us`: None where no pod came or went yet.

    `former`: the version before; what its conditions say is kept while those are the same object.
    """

    __slots__ = ("_conditions", "_true", "is_going", "last_pod_event_us", "name", "object", "pool")

    def __init__(self, claim: Obj, former: ClaimFacts | None = None) -> None:
        meta, status = meta_of(claim), status_of(claim)
        self.object = claim
        self.name: str = meta.get("name") or ""
        self.pool: str = labels_of(claim).get(NODEPOOL) or ""
        self.is_going = "deletionTimestamp" in meta
        self._conditions: list[Obj] | None = status.get("conditions")
        if former is not None and former._conditions is self._conditions:
            self._true: dict[str, Obj] = former._true
        else:
            self._true = {c["type"]: c for c in self._conditions or _NONE if c.get("status") == TRUE}
        last = status.get("lastPodEventTime")
        self.last_pod_event_us: int | None = parse_rfc3339(last) if last else None

    def is_true(self, condition: str) -> bool:
        return condition in self._true

    def is_restated(self, former: ClaimFacts) -> bool:
        """Whether it only says anew since when its node rests, and whether that is consolidatable."""
        return (
            self.object.get("spec") is former.object.get("spec")
            and self.pool == former.pool
            and self.is_going == former.is_going
            and (self._true is former._true or _but_rest(self._true) == _but_rest(former._true))
        )

    def true_since_us(self, condition: str) -> int:
        """Since when a condition is true; 0 where it is not, or does not say."""
        found = self._true.get(condition)
        since = None if found is None else found.get("lastTransitionTime")
        return parse_rfc3339(since) if since else 0


def _but_rest(true: Mapping[str, Any]) -> list[str]:
    return [condition for condition in true if condition != CONSOLIDATABLE]


NO_CLAIM: Final = ClaimFacts({})
"""Of a node that Karpenter does not manage."""
