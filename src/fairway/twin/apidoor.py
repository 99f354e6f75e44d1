"""The one door into the store: what a write meets at an API server that has Kueue installed.

    answer = enter(store, obj, kueue=settings_of(host))
    if isinstance(answer, Refused): ...                     # answer.message is what kubectl would print
    else: store.create(answer.obj), then perform(store, charge) for charge in answer.charges

Defaults of the built-in kinds, what admission changes, the webhooks of workload operators and Kueue's, then the
quota charged. But for `create` nothing is written here. Kueue's kinds are always checked against their schemas; its
webhooks answer only where a Kueue runs: a component named `kueue` in the twin that has `webhook_settings`.
"""

from __future__ import annotations

from typing import Final

from fairway.admission.admit import admit
from fairway.admission.namespace import PLUGIN
from fairway.admission.verdicts import Admitted, Refused
from fairway.cluster.actions import Create, View, perform
from fairway.cluster.errors import ApiError
from fairway.kube.defaults import apply_defaults
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Obj, gk_of, meta_of
from fairway.queueing.webhooks import CREATE, UPDATE, Settings, defaulted, refusals
from fairway.twin.components import Host
from fairway.workloads import podwebhooks

KUEUE: Final = "kueue"
_POD_WEBHOOK: Final = "vpod.kb.io"


def settings_of(host: Host) -> Settings | None:
    """What Kueue's webhooks go by in this twin; None: no Kueue runs."""
    found = getattr(host.parts.get(KUEUE), "webhook_settings", None)
    return found if isinstance(found, Settings) else None


def enter(
    view: View, obj: Obj, old: Obj | None = None, *, kueue: Settings | None = None, strict: bool = False
) -> Admitted | Refused:
    """The object as it goes in, or why it does not. `old`: what is stored, on update.

    `strict`: unknown fields of Kueue's kinds are refused, as kubectl asks for.
    """
    given = apply_defaults(_placed(obj))
    if old is not None:
        refused = _refused(UPDATE, given, old, view, kueue, strict)
        return refused or Admitted(defaulted(UPDATE, given, view, kueue))
    # Kueue's webhooks see what the API server's own plugins made of the object; quota is charged after them.
    answer = admit(view, given)
    if isinstance(answer, Refused):
        is_first = answer.plugin == PLUGIN
        return answer if is_first else _refused(CREATE, given, None, view, kueue, strict) or answer
    passed = podwebhooks.entered(view, answer.obj) if gk_of(given) == "Pod" else answer.obj
    if isinstance(passed, str):
        return Refused(_POD_WEBHOOK, "Forbidden", passed)
    refused = _refused(CREATE, passed, None, view, kueue, strict)
    return refused or Admitted(defaulted(CREATE, passed, view, kueue), answer.charges)


def _refused(
    operation: str, obj: Obj, old: Obj | None, view: View, kueue: Settings | None, strict: bool
) -> Refused | None:
    for refusal in refusals(operation, obj, old, view, kueue, strict=strict):
        return Refused(refusal.webhook, refusal.reason, refusal.message, refusal.code)
    return None


def entered(
    view: View, obj: Obj, old: Obj | None = None, *, kueue: Settings | None = None, strict: bool = False
) -> Admitted:
    """As `enter`. Raises: ApiError."""
    answer = enter(view, obj, old, kueue=kueue, strict=strict)
    if isinstance(answer, Refused):
        raise ApiError(answer.code, answer.reason, answer.message)
    return answer


def create(host: Host, obj: Obj) -> None:
    """What a controller creates: with defaults, past admission, charged to its quotas.

    Raises: ApiError.
    """
    answer = (
        host.admission(obj)
        if host.admission is not None
        else entered(host.store, obj, kueue=settings_of(host))
    )
    if perform(host.store, Create(answer.obj)) is not None:
        for charge in answer.charges:
            perform(host.store, charge)


def _placed(obj: Obj) -> Obj:
    """In the namespace of the request where it names none."""
    meta = meta_of(obj)
    if meta.get("namespace") or not kind_named(gk_of(obj)).namespaced:
        return obj
    return {**obj, "metadata": {**meta, "namespace": "default"}}
