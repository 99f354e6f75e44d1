"""A token for a service account: TokenRequest.

Source: pkg/registry/core/serviceaccount/storage/token.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.auth.tokens import DEFAULT_SECONDS, ISSUER, MAX_SECONDS, MIN_SECONDS
from fairway.apiserver.decoding import body_of
from fairway.apiserver.statuses import StatusError, bad_request, not_found
from fairway.apiserver.wire.messages import Response, json_response
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, rfc3339


def create(api: Api, ask: Ask) -> Response:
    """Raises: StatusError (400, 404, 409, 422)."""
    account = api.store.get(ask.key)
    if account is None:
        raise not_found(ask.resource.kind, ask.info.name)
    body = body_of(ask)
    spec: dict[str, Any] = body.get("spec") or {}
    seconds = spec.get("expirationSeconds") or DEFAULT_SECONDS
    if not isinstance(seconds, int) or not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise _invalid(
            ask,
            f"spec.expirationSeconds: Invalid value: {seconds}: may not specify a duration less than 10 minutes",
        )
    audiences = [str(a) for a in spec.get("audiences") or [ISSUER]]
    bound = _bound(api, ask, spec.get("boundObjectRef"))
    token, expires_s = api.tokens.issue(account, seconds, audiences, bound)
    answer = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": ask.info.name, "namespace": ask.info.namespace, "creationTimestamp": None},
        "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": rfc3339(expires_s * SECOND_US)},
    }
    return json_response(201, answer)


def _bound(api: Api, ask: Ask, reference: dict[str, Any] | None) -> Obj | None:
    if not reference:
        return None
    kind, name = reference.get("kind"), str(reference.get("name") or "")
    if kind not in ("Pod", "Secret", "Node"):
        raise bad_request(f"cannot bind token for serviceaccount to {kind}")
    key = Key(kind, "" if kind == "Node" else ask.info.namespace, name)
    obj = api.store.get(key)
    if obj is None:
        raise StatusError(
            404, "NotFound", f'{kind.lower()}s "{name}" not found', {"name": name, "kind": f"{kind.lower()}s"}
        )
    if reference.get("uid") not in (None, "", obj["metadata"]["uid"]):
        raise StatusError(
            409,
            "Conflict",
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        )
    return obj


def _invalid(ask: Ask, why: str) -> StatusError:
    return StatusError(
        422, "Invalid", f'TokenRequest.authentication.k8s.io "{ask.info.name}" is invalid: {why}', {}
    )
