"""The one way in for writes: defaults, admission, validation, then the store.

A write is a generator: it yields the webhook calls admission wants, is sent their answers, and returns the
response. Most writes want none and are answered at once; `run` carries the others out without holding up anyone.

Between the phases, as in kube-apiserver: mutating admission → defaults → validation → validating admission →
the store. A dry run does all of it and takes the result back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeVar

from fairway.admission.request import (
    AdmissionRequest,
    Admitted,
    CallWebhook,
    Denied,
    Gvk,
    Gvr,
    Outcome,
    WebhookAnswer,
)
from fairway.apiserver import signingrequests
from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.budget import TooLarge, check_stored, without_managed_fields
from fairway.apiserver.canonical import completed
from fairway.apiserver.custom import custom_problems
from fairway.apiserver.decoding import schema_of
from fairway.apiserver.refusals import Refused
from fairway.apiserver.resources import Resource
from fairway.apiserver.statuses import StatusError, cannot_be_handled, invalid
from fairway.apiserver.warnings import warnings
from fairway.apiserver.wire.messages import Response
from fairway.cluster.actions import perform
from fairway.cluster.errors import ApiError
from fairway.cluster.metadata import qos_class
from fairway.cluster.store import Mark
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Obj, key_of, spec_of
from fairway.kube.problem import UNKNOWN_FIELD, Problem
from fairway.kube.validation.training import check_training
from fairway.kube.validation.validating import changed, check_shape, created, has_rules, validate

# However many webhooks there are. Source: endpoints/handlers requestTimeoutUpperBound.
_REQUEST_S = 34.0

Write = Generator[CallWebhook, WebhookAnswer, Response]
Phase = Generator[CallWebhook, WebhookAnswer, Outcome]
_Answer = TypeVar("_Answer")
_Asked = Generator[CallWebhook, WebhookAnswer, _Answer]


def run(api: Api, write: _Asked[_Answer]) -> _Answer | Awaitable[_Answer]:
    """Carry a write out: at once, or with its webhook calls.

    Raises: ApiError, where it is refused at once.
    """
    api.cluster.touch()
    try:
        wanted = next(write)
    except StopIteration as end:
        response: _Answer = end.value
        return response
    return _with_webhooks(api, write, wanted)


async def _with_webhooks(api: Api, write: _Asked[_Answer], wanted: CallWebhook) -> _Answer:
    """Raises: ApiError."""
    try:
        async with asyncio.timeout(_REQUEST_S):
            while True:
                answer = await api.webhooks.call(wanted)
                api.cluster.touch()
                wanted = write.send(answer)
    except StopIteration as end:
        response: _Answer = end.value
        return response
    except TimeoutError:
        why = "Timeout: request did not complete within requested timeout - context deadline exceeded"
        raise StatusError(504, "Timeout", why, {}) from None


def admission_request(
    ask: Ask, operation: str, obj: Obj | None, old: Obj | None, options: str
) -> AdmissionRequest:
    resource = ask.resource
    subject = obj if obj is not None else old
    kind = Gvk(resource.group, resource.version, resource.kind.kind)
    if ask.subresource is not None and ask.subresource.kind:
        group, _, version = ask.subresource.api_version.rpartition("/")
        kind = Gvk(group, version, ask.subresource.kind)
    return AdmissionRequest(
        operation,
        kind,
        Gvr(resource.group, resource.version, resource.kind.plural),
        ask.key.namespace,
        ask.info.name or ((subject or {}).get("metadata") or {}).get("name", ""),
        ask.user,
        obj,
        old,
        ask.info.subresource,
        ask.options(options),
        ask.dry_run,
    )


def asked(
    api: Api, ask: Ask, operation: str, obj: Obj, then: Callable[[Obj], _Answer]
) -> Generator[CallWebhook, WebhookAnswer, _Answer]:
    """What is no write and still passes admission: a session in a container, a token, a binding.

    Raises: ApiError.
    """
    chain = api.door.chain
    request = admission_request(ask, operation, obj, None, "CreateOptions")
    changed = passed(ask, (yield from chain.mutating(request))).obj
    assert changed is not None
    request = admission_request(ask, operation, changed, None, "CreateOptions")
    passed(ask, (yield from chain.validating(request)))
    return then(changed)


def mutated(api: Api, ask: Ask, request: AdmissionRequest) -> Generator[CallWebhook, WebhookAnswer, Obj]:
    """The object after mutating admission.

    Raises: ApiError.
    """
    outcome = yield from api.door.chain.mutating(request)
    admitted = passed(ask, outcome)
    assert admitted.obj is not None
    return admitted.obj


def validated(
    api: Api, ask: Ask, request: AdmissionRequest
) -> Generator[CallWebhook, WebhookAnswer, Admitted]:
    """What validating admission lets in, with its charges.

    Raises: Refused.
    """
    outcome = yield from api.door.chain.validating(request)
    return passed(ask, outcome)


def passed(ask: Ask, outcome: Outcome) -> Admitted:
    ask.warnings.extend(outcome.warnings)
    if isinstance(outcome, Denied):
        raise Refused(outcome.status, tuple(ask.warnings))
    return outcome


# What a CustomResourceDefinition's own rules say better.
_NAME = ("metadata", "name")


def defaulted(obj: Obj, resource: Resource) -> Obj:
    """The object with its kind's defaults, and of a built-in kind everything Go would write."""
    from fairway.kube.schema.definitions import default_definition
    from fairway.kube.schema.shaping import fill_defaults

    if resource.is_published:
        return apply_defaults(obj)
    schema = schema_of(resource)
    if resource.is_custom:
        return obj if schema is None else fill_defaults(obj, schema)
    is_definition = resource.kind.kind == "CustomResourceDefinition"
    filled = default_definition(obj) if is_definition else apply_defaults(obj)
    return filled if schema is None else completed(filled, schema)


def check_object(ask: Ask, obj: Obj, old: Obj | None, already: Sequence[Problem] = ()) -> None:
    """The rules of the kind. `already`: what was found before they were asked.

    Raises: StatusError (422 with every cause; 400 for a shape that cannot be decoded).
    """
    problems = [*already, *_problems(ask.resource, obj, old, ask.info.subresource)]
    if not problems and not ask.resource.is_custom and _is_new(obj, old):
        ask.warnings.extend(warnings(obj))
    unreadable = [p for p in problems if p.reason == UNKNOWN_FIELD]
    if unreadable:
        said = "strict decoding error: " + ", ".join(str(p) for p in unreadable)
        raise cannot_be_handled(ask.resource.kind, ask.resource.version, said)
    if problems:
        meta = obj["metadata"]
        raise invalid(ask.resource.kind, meta.get("name") or meta.get("generateName") or "", problems)


def _is_new(obj: Obj, old: Obj | None) -> bool:
    """Whether there is something to warn of: a template that stays was warned of when it came."""
    return old is None or obj.get("spec") != old.get("spec")


def _built_in(resource: Resource, obj: Obj, old: Obj | None, subresource: str) -> list[Problem]:
    misshapen = check_shape(obj)
    if misshapen:
        return misshapen
    if old is not None:
        qos = (qos_class(spec_of(old)), qos_class(spec_of(obj))) if subresource == "resize" else ("", "")
        found = changed(obj, old, subresource, qos)
        return found if has_rules(resource.gk) or subresource else found or validate(obj)
    return created(obj) if has_rules(resource.gk) else validate(obj)


def _problems(resource: Resource, obj: Obj, old: Obj | None, subresource: str) -> list[Problem]:
    if not resource.is_custom:
        problems = _built_in(resource, obj, old, subresource)
        if resource.gk == signingrequests.KIND and old is None:
            problems += signingrequests.problems(obj)
        if resource.kind.group == "apiextensions.k8s.io" and all(p.path == _NAME for p in problems):
            from fairway.admission.crdrules import definition_problems
            from fairway.kube.schema.definitions import validate_definition

            problems = validate_definition(obj, old) or definition_problems(obj)
        return problems
    return custom_problems(resource, obj, old) or check_training(obj)


def written(api: Api, ask: Ask, write: Callable[[Obj], Obj], obj: Obj, admitted: Admitted) -> Obj:
    """Write, with what admission charges for it; taken back at once for a dry run."""
    store = api.store
    mark = store.mark()
    before = store.get(ask.key) if ask.info.name else None
    try:
        stored = _fitting(api, ask, write, obj, mark)
        for charge in admitted.charges:
            perform(store, charge)
    except ApiError:
        store.rewind(mark)
        raise
    if ask.dry_run:
        store.rewind(mark)
        # What was not written has no version of its own.
        version = None if before is None else before["metadata"]["resourceVersion"]
        return merged_metadata(stored, resourceVersion=version)
    if ask.resource.is_published and _is_new(stored, before):
        _warn_of_idle(api, ask)
    api.definitions.refresh()
    api.cluster.poke()
    return stored


def _fitting(api: Api, ask: Ask, write: Callable[[Obj], Obj], obj: Obj, mark: Mark) -> Obj:
    """As stored, in the bytes etcd allows; without the record of who wrote what where only that fits.

    Raises: TooLarge.
    """
    is_new = not ask.info.name or api.store.get(ask.key) is None
    while True:
        stored = write(obj)
        try:
            # These bytes are the journal's and the answer's, too.
            check_stored(stored, len(api.bodies.of(stored)), ask.resource, key_of(stored), is_new=is_new)
        except TooLarge:
            if "managedFields" not in obj["metadata"]:
                raise
            api.store.rewind(mark)
            obj = without_managed_fields(obj)
            continue
        return stored


def _warn_of_idle(api: Api, ask: Ask) -> None:
    """Kinds that nobody here acts on are stored like all others, and that is all."""
    from fairway.twin.actors import acted_on

    twin = api.cluster.twin
    if twin is not None and ask.resource.gk not in acted_on(twin.host.parts.values()):
        ask.warnings.append(f"{ask.resource.gk}: stored, but nobody acts on this kind here")


def durable(api: Api, ask: Ask, response: Response) -> Response:
    """The response, to be sent once everything written is on disk."""
    if not ask.dry_run:
        response.durable = api.store.version
    return response


def merged_metadata(obj: Obj, **fields: Any) -> Obj:
    """The object with these metadata fields; None takes one away."""
    meta = {**(obj.get("metadata") or {}), **fields}
    return {**obj, "metadata": {k: v for k, v in meta.items() if v is not None}}
