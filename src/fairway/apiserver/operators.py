"""What the webhooks of the operators that run in this cluster make of an object: Kueue's, JobSet's, LeaderWorkerSet's.

They are not configured as webhooks and not called over HTTP: they run in this process, where a real cluster would
call them, after all others. Kueue's speak only where there is something of Kueue's.

Source: Kueue config/components/webhook, JobSet pkg/webhooks, LeaderWorkerSet pkg/webhooks (2026-08).
"""

from __future__ import annotations

from fairway.admission.request import CREATE, DELETE, AdmissionRequest
from fairway.apiserver.asking import Api, Ask
from fairway.cluster.errors import ApiError
from fairway.kube.objects import Obj
from fairway.queueing.webhooks import DEFAULTS, Settings, defaulted, refusals
from fairway.queueing.webhooks.conversion import converted
from fairway.workloads import podwebhooks

_KUEUE = "kueue.x-k8s.io"
# Nothing of Kueue's in the cluster: its kinds are still checked against their schemas.
_ASLEEP = None


def changed(api: Api, ask: Ask, request: AdmissionRequest, obj: Obj) -> Obj:
    """The object as the operators' webhooks leave it.

    Raises: ApiError where one refuses it.
    """
    if request.operation == DELETE or ask.info.subresource:
        return obj
    if ask.resource.gk == "Pod" and request.operation == CREATE:
        obj = _pod(api, obj)
    strict = ask.request.option("fieldValidation") == "Strict"
    return _by_kueue(api, request, obj, strict=strict)


def entered(api: Api, request: AdmissionRequest, obj: Obj) -> Obj:
    """A controller's new object as the operators' webhooks leave it.

    Raises: ApiError where one refuses it.
    """
    if request.kind.kind == "Pod" and not request.kind.group:
        obj = _pod(api, obj)
    return _by_kueue(api, request, obj, strict=False)


def _by_kueue(api: Api, request: AdmissionRequest, obj: Obj, *, strict: bool) -> Obj:
    settings = _settings(api)
    old = None if request.old is None else converted(request.old)
    for refusal in refusals(request.operation, obj, old, api.store, settings, strict=strict):
        raise ApiError(refusal.code, refusal.reason, refusal.message)
    # Webhooks speak the stored version; whoever asked is answered in his.
    return converted(defaulted(request.operation, obj, api.store, settings), obj["apiVersion"])


def _pod(api: Api, pod: Obj) -> Obj:
    entered = podwebhooks.entered(api.store, pod)
    if isinstance(entered, str):
        raise ApiError(403, "Forbidden", entered)
    return entered


def _settings(api: Api) -> Settings | None:
    """What Kueue's webhooks go by; while its component is being loaded, as it comes."""
    from fairway.twin.apidoor import settings_of

    if api.cluster.twin is not None:
        return settings_of(api.cluster.twin.host)
    is_used = any(api.store.count(gk) for gk in api.store.kinds() if gk.endswith(_KUEUE))
    return DEFAULTS if is_used else _ASLEEP
