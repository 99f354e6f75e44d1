"""Delete and deletecollection: with grace, preconditions and propagation.

Source: apiserver pkg/endpoints/handlers/delete.go, registry/rest/delete.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from fairway.admission.request import DELETE, CallWebhook, WebhookAnswer
from fairway.apiserver import door
from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.decoding import typed_body
from fairway.apiserver.definitions import CRD
from fairway.apiserver.options import check_deletion, check_integer
from fairway.apiserver.selecting import selection
from fairway.apiserver.statuses import StatusError, bad_request, details_of, not_found, success
from fairway.apiserver.wire.messages import Response, encode
from fairway.cluster.store import BACKGROUND, ORPHAN
from fairway.kube.integers import integer
from fairway.kube.objects import Key, Obj

# Kinds whose DELETE answers with the object even when it is gone. Source: ReturnDeletedObject in their storage.
_RETURNED = frozenset(
    {
        "Pod",
        "Service",
        "ServiceAccount",
        "PodTemplate",
        "ResourceQuota",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "StorageClass.storage.k8s.io",
    }
)


@dataclass(frozen=True, slots=True)
class Options:
    """DeleteOptions, as far as they matter here."""

    grace_s: int | None
    propagation: str
    uid: str
    version: str
    raw: dict[str, Any]


def options_of(ask: Ask) -> Options:
    """From the body, else from the query.

    Raises: StatusError (400, 422).
    """
    raw: dict[str, Any] = typed_body(ask, "v1", "DeleteOptions") if ask.request.body else {}
    if raw.get("kind") not in (None, "DeleteOptions"):
        raise bad_request(
            f"the object provided is unrecognized (must be of type DeleteOptions): {raw.get('kind')}"
        )
    if not raw:
        raw = _from_query(ask)
    check_deletion(raw)
    propagation, orphan = raw.get("propagationPolicy") or "", raw.get("orphanDependents")
    if orphan is not None:
        propagation = ORPHAN if orphan else BACKGROUND
    preconditions = raw.get("preconditions") or {}
    return Options(
        _grace_s(raw.get("gracePeriodSeconds")),
        propagation or BACKGROUND,
        str(preconditions.get("uid") or ""),
        str(preconditions.get("resourceVersion") or ""),
        raw,
    )


def _from_query(ask: Ask) -> dict[str, Any]:
    """Raises: StatusError (400)."""
    request, raw = ask.request, dict[str, Any]()
    if "gracePeriodSeconds" in request.query:
        check_integer(request.option("gracePeriodSeconds"))
        raw["gracePeriodSeconds"] = integer(request.option("gracePeriodSeconds")) or 0
    if "orphanDependents" in request.query:
        raw["orphanDependents"] = request.flag("orphanDependents")
    if "propagationPolicy" in request.query:
        raw["propagationPolicy"] = request.option("propagationPolicy")
    if "dryRun" in request.query:
        raw["dryRun"] = request.query["dryRun"]
    return raw


def _grace_s(given: int | None) -> int | None:
    # Source: BeforeDelete: negative means at once, as 1 did before.
    return None if given is None else 1 if given < 0 else given


def _check_preconditions(ask: Ask, old: Obj, options: Options) -> None:
    """Source: registry/rest/delete.go BeforeDelete. Raises: StatusError (409)."""
    meta = old["metadata"]
    if options.uid and options.uid != meta["uid"]:
        raise _other(
            ask,
            meta["name"],
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated",
        )
    if options.version and options.version != meta["resourceVersion"]:
        raise _other(
            ask,
            meta["name"],
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record "
            f"({meta['resourceVersion']}). The object might have been modified",
        )


def _other(ask: Ask, name: str, why: str) -> StatusError:
    kind = ask.resource.kind
    details = {"name": name, "group": kind.group, "kind": kind.kind}
    message = f'Operation cannot be fulfilled on {kind.group_kind} "{name}": {why}'
    return StatusError(409, "Conflict", message, {k: v for k, v in details.items() if v})


def delete(api: Api, ask: Ask) -> door.Write:
    """DELETE of one object."""
    options = options_of(ask)
    dry_run = ask.dry_run or "All" in (options.raw.get("dryRun") or ())
    old = api.store.get(ask.key)
    if old is None:
        raise not_found(ask.resource.kind, ask.info.name)
    left = yield from _deleted(api, ask, ask.key, old, options, dry_run)
    if left is not None or ask.resource.gk in _RETURNED:
        shown = left if left is not None else old
        response = api.representation.one(shown, ask.resource, ask.accept, include=ask.include)
    else:
        details = details_of(ask.resource.kind, ask.info.name, old["metadata"]["uid"])
        response = Response(200, encode(success(details)))
    if not dry_run:
        response.durable = api.store.version
    return response


def _deleted(
    api: Api, ask: Ask, key: Key, old: Obj, options: Options, dry_run: bool
) -> Generator[CallWebhook, WebhookAnswer, Obj | None]:
    """What is left of the object: itself, where it waits for its end, or None."""
    request = door.admission_request(ask, DELETE, None, old, "DeleteOptions")
    outcome = yield from api.door.chain.mutating(request)
    door.passed(ask, outcome)
    outcome = yield from api.door.chain.validating(request)
    door.passed(ask, outcome)
    store = api.store
    _check_preconditions(ask, old, options)
    mark = store.mark() if dry_run else None
    left = store.delete(key, grace_s=options.grace_s, propagation=options.propagation, uid=options.uid)
    if mark is not None:
        store.rewind(mark)
    else:
        if key.gk == CRD and left is None:
            api.definitions.empty(old)
        api.definitions.refresh()
        api.cluster.poke()
    return left


def delete_collection(api: Api, ask: Ask) -> door.Write:
    """DELETE of everything that is selected."""
    options = options_of(ask)
    dry_run = ask.dry_run or "All" in (options.raw.get("dryRun") or ())
    namespace = ask.info.namespace if ask.resource.kind.namespaced else ""
    chosen = selection(ask.request, ask.resource, namespace)
    found = [o for o in api.store.walk(ask.resource.gk, namespace or None) if chosen.matches(o)]
    for obj in found:
        meta = obj["metadata"]
        key = Key(ask.resource.gk, meta.get("namespace", ""), meta["name"])
        if api.store.get(key) is not None:
            yield from _deleted(api, ask, key, obj, options, dry_run)
    meta_out = {"resourceVersion": str(api.store.version)}
    response = api.representation.many(found, ask.resource, meta_out, ask.accept, ask.include)
    if not dry_run:
        response.durable = api.store.version
    return response
