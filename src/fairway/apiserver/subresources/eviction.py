"""May this pod be evicted now? The Eviction subresource, as kubectl drain uses it.

The decision is `workloads.disruption.eviction`'s; this carries it out.
"""

from __future__ import annotations

from typing import Any

from fairway.admission.request import CREATE
from fairway.apiserver import door
from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.decoding import typed_body
from fairway.apiserver.options import check_deletion
from fairway.apiserver.statuses import StatusError, bad_request, internal, too_many_requests
from fairway.apiserver.wire.messages import Response, encode
from fairway.cluster.actions import perform
from fairway.workloads.disruption.eviction import Eviction, evict


def evict_pod(api: Api, ask: Ask) -> door.Write:
    """Raises: ApiError (404, 429, 500)."""
    body = typed_body(ask, "policy/v1", "Eviction")
    if body.get("kind") not in (None, "Eviction"):
        raise bad_request(
            f"the object provided is unrecognized (must be of type Eviction): {body.get('kind')}"
        )
    name = (body.get("metadata") or {}).get("name") or ask.info.name
    if name != ask.info.name:
        raise bad_request("name in URL does not match name in Eviction object")
    pod = api.store.get(ask.key)
    request = door.admission_request(ask, CREATE, body, None, "CreateOptions")
    if pod is not None:
        door.passed(ask, (yield from api.door.chain.mutating(request)))
        door.passed(ask, (yield from api.door.chain.validating(request)))
    options: dict[str, Any] = body.get("deleteOptions") or {}
    grace = options.get("gracePeriodSeconds")
    found = evict(api.store, ask.key, api.store.now_us, grace_s=grace)
    if not found.is_allowed:
        raise _refusal(found, ask.info.name)
    check_deletion(options)
    dry_run = ask.dry_run or "All" in (options.get("dryRun") or ())
    if not dry_run:
        for action in found.actions:
            perform(api.store, action)
        api.cluster.poke()
    answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    response = Response(201, encode(answer))
    if not dry_run:
        response.durable = api.store.version
    return response


def _refusal(found: Eviction, name: str) -> StatusError:
    if found.code == 429:
        causes = [{"reason": "DisruptionBudget", "message": found.cause}] if found.cause else []
        return too_many_requests(found.message, found.retry_after_s, causes)
    if found.code == 500:
        return internal(found.message)
    details = {"name": name, "kind": "pods"} if found.code == 404 else None
    return StatusError(found.code, found.reason, found.message, details)
