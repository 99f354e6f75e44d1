"""A token for a service account: TokenRequest.

Source: pkg/registry/core/serviceaccount/storage/token.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.auth.tokens import DEFAULT_SECONDS, ISSUER, MAX_SECONDS, MIN_SECONDS
from fairway.apiserver.statuses import StatusError, bad_request, invalid_of, not_found
from fairway.apiserver.wire.messages import Response, json_response
from fairway.kube.objects import Key, Obj
from fairway.kube.problem import Faults, Problem, invalid
from fairway.kube.timestamps import SECOND_US, rfc3339

_API_VERSION = "authentication.k8s.io/v1"


def create(api: Api, ask: Ask, body: Obj) -> Response:
    """Raises: StatusError (400, 404, 409, 422)."""
    account = api.store.get(ask.key)
    if account is None:
        raise not_found(ask.resource.kind, ask.info.name)
    meta, spec = body.get("metadata") or {}, body.get("spec") or {}
    for field, want, whose in (
        ("name", ask.info.name, "name"),
        ("namespace", ask.info.namespace, "namespace"),
    ):
        if meta.get(field) and meta[field] != want:
            why = f"must match the service account {whose} if specified"
            raise _invalid(meta.get("name") or "", [invalid(("metadata", field), meta[field], why)])
    uid = account["metadata"]["uid"]
    if meta.get("uid") and meta["uid"] != uid:
        raise StatusError(
            409,
            "Conflict",
            f'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "{ask.info.name}": the UID in the '
            f"token request ({meta['uid']}) does not match the UID of the service account ({uid})",
        )
    seconds = spec.get("expirationSeconds") or DEFAULT_SECONDS
    at, found = ("spec", "expirationSeconds"), Faults()
    if seconds < MIN_SECONDS:
        found.invalid(at, seconds, "may not specify a duration less than 10 minutes")
    if seconds > MAX_SECONDS:
        found.invalid(at, seconds, "may not specify a duration larger than 2^32 seconds")
    if found:
        raise _invalid("", found)
    audiences = spec.get("audiences") or [ISSUER]
    bound = _bound(api, ask, spec.get("boundObjectRef"))
    token, expires_s = api.tokens.issue(account, seconds, audiences, bound)
    answer = {
        "kind": "TokenRequest",
        "apiVersion": _API_VERSION,
        "metadata": {
            "name": ask.info.name,
            "namespace": ask.info.namespace,
            "uid": uid,
            "creationTimestamp": rfc3339(api.store.now_us),
        },
        "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": rfc3339(expires_s * SECOND_US)},
    }
    return json_response(201, answer)


def _bound(api: Api, ask: Ask, reference: dict[str, Any] | None) -> Obj | None:
    if not reference:
        return None
    kind, name = reference.get("kind") or "", reference.get("name") or ""
    group, _, version = (reference.get("apiVersion") or "").rpartition("/")
    if kind not in ("Pod", "Secret", "Node") or group:
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    key = Key(kind, "" if kind == "Node" else ask.info.namespace, name)
    obj = api.store.get(key)
    if obj is None:
        raise StatusError(
            404, "NotFound", f'{kind.lower()}s "{name}" not found', {"name": name, "kind": f"{kind.lower()}s"}
        )
    if kind == "Pod" and (obj["spec"].get("serviceAccountName") or "default") != ask.info.name:
        raise bad_request(
            f'cannot bind token for serviceaccount "{ask.info.name}" to pod running with different serviceaccount name.'
        )
    if reference.get("uid") not in (None, "", obj["metadata"]["uid"]):
        raise StatusError(
            409,
            "Conflict",
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        )
    return obj


def _invalid(name: str, problems: list[Problem]) -> StatusError:
    return invalid_of("authentication.k8s.io", "TokenRequest", name, problems)
