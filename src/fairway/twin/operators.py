"""What the webhooks of the operators that run in this cluster make of an object: JobSet's, LeaderWorkerSet's, Kueue's,
and VerticalPodAutoscaler's for pods.

They are not configured as webhooks and not called over HTTP: admission's door asks them where a real cluster would
call them, after all others. Kueue's kinds are always checked against their schemas; its webhooks answer only where
a Kueue runs: a component named `kueue` in the twin that has `webhook_settings`.

Source: Kueue config/components/webhook, JobSet pkg/webhooks, LeaderWorkerSet pkg/webhooks (2026-08).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fairway.admission.request import Denied
from fairway.autoscaling.vpa import admitting
from fairway.cluster.actions import View
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.kube.objects import Obj, gk_of
from fairway.queueing.webhooks import CREATE, DEFAULTS, Settings, defaulted, is_kueue_kind, refusals
from fairway.queueing.webhooks.conversion import converted
from fairway.workloads import podwebhooks

KUEUE: Final = "kueue"
_OF_KUEUE: Final = ".kueue.x-k8s.io"
_POD_WEBHOOK: Final = "vpod.kb.io"


def settings_of(parts: Mapping[str, object]) -> Settings | None:
    """What Kueue's webhooks go by among these components; None: no Kueue runs."""
    found = getattr(parts.get(KUEUE), "webhook_settings", None)
    return found if isinstance(found, Settings) else None


def settings_where_used(store: Store) -> Settings | None:
    """Those of a Kueue as its manifests install it, where there is anything of Kueue's."""
    return DEFAULTS if any(gk.endswith(_OF_KUEUE) for gk in store.kinds()) else None


class OperatorWebhooks:
    """`settings` says what Kueue's go by at the moment. `as_asked`: Kueue's kinds leave in the version in which they
    came, for a server that stores and answers by itself; else in the one that is stored."""

    def __init__(
        self,
        view: View,
        settings: Callable[[], Settings | None],
        *,
        as_asked: bool = False,
        is_misshapen: Callable[[Obj], bool] | None = None,
    ) -> None:
        """`is_misshapen`: whether whoever checks objects later refuses this one for its shape."""
        self._view = view
        self._is_misshapen = is_misshapen
        self._settings = settings
        self._as_asked = as_asked

    def changed(self, operation: str, obj: Obj, old: Obj | None, *, strict: bool) -> Obj | Denied:
        """The object as they leave it. Kueue's own kinds are refused here: as they were sent, which is what the
        refusal speaks of. What nobody can read is left as it is, for the schema's words."""
        try:
            return self._changed(operation, obj, old, strict)
        except ApiError:
            raise
        except Exception:
            if self._is_misshapen is not None and self._is_misshapen(obj):
                return obj
            raise

    def _changed(self, operation: str, obj: Obj, old: Obj | None, strict: bool) -> Obj | Denied:
        if operation == CREATE and gk_of(obj) == "Pod":
            entered = podwebhooks.entered(self._view, obj)
            if isinstance(entered, str):
                return Denied.by(_POD_WEBHOOK, ApiError(403, "Forbidden", entered))
            obj = admitting.entered(self._view, entered)
        settings = self._settings()
        if is_kueue_kind(obj):
            before = None if old is None else converted(old)
            denied = self._denied(operation, obj, before, settings, strict)
            if denied is not None:
                return denied
            stored = defaulted(operation, obj, self._view, settings)
            return converted(stored, obj["apiVersion"]) if self._as_asked else stored
        return defaulted(operation, obj, self._view, settings)

    def refused(self, operation: str, obj: Obj, old: Obj | None) -> Denied | None:
        """What Kueue has against a job as it will be stored."""
        settings = self._settings()
        if settings is None or is_kueue_kind(obj):
            return None
        return self._denied(operation, obj, old, settings, strict=False)

    def _denied(
        self, operation: str, obj: Obj, old: Obj | None, settings: Settings | None, strict: bool
    ) -> Denied | None:
        for found in refusals(operation, obj, old, self._view, settings, strict=strict):
            return Denied.by(found.webhook, ApiError(found.code, found.reason, found.message))
        return None
