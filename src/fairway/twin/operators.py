"""What the webhooks of the operators that run in this cluster make of an object: JobSet's, LeaderWorkerSet's, Kueue's,
and VerticalPodAutoscaler's and HAMi's for pods.

They are not configured as webhooks and not called over HTTP: admission's door asks them where a real cluster would
call them, after all others. Kueue's kinds are always checked against their schemas; its webhooks answer only where
a Kueue runs: a component named `kueue` in the twin that has `webhook_settings`.

Source: Kueue config/components/webhook, JobSet pkg/webhooks, LeaderWorkerSet pkg/webhooks (2026-08).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from fairway.admission.request import Denied
from fairway.autoscaling.vpa import admitting
from fairway.cluster.actions import View
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.kube import published
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Key, Obj, gk_of, meta_of
from fairway.kube.schema.decoding import strict_error, unknown_fields
from fairway.kube.schema.structural import tree_of
from fairway.queueing.webhooks.conversion import converted
from fairway.queueing.webhooks.door import CREATE, defaulted, is_job, is_kueue_kind, refusals, undecoded
from fairway.queueing.webhooks.faults import aggregate
from fairway.queueing.webhooks.settings import DEFAULTS, Settings
from fairway.workloads import podwebhooks

KUEUE: Final = "kueue"
_OF_KUEUE: Final = ".kueue.x-k8s.io"
_POD_WEBHOOK: Final = "vpod.kb.io"
_HAMI_WEBHOOK: Final = "vgpu.hami.io"
HAMI: Final = Key("DaemonSet.apps", "kube-system", "hami-device-plugin")
"""HAMi is installed where this is."""


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
        without: Collection[str] = (),
    ) -> None:
        """`is_misshapen`: whether whoever checks objects later refuses this one for its shape. `without`: whose
        webhooks for pods are not ours: `jobset`, `leaderworkerset`, `vpa`."""
        self._view = view
        self._is_misshapen = is_misshapen
        self._settings = settings
        self._without = frozenset(without)
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
            entered = podwebhooks.entered(self._view, obj, self._without)
            if isinstance(entered, str):
                return Denied.by(_POD_WEBHOOK, ApiError(403, "Forbidden", entered))
            obj = entered if "vpa" in self._without else admitting.entered(self._view, entered)
            if self._view.get(HAMI) is not None:
                from fairway.scheduling.hami.requests import entered as entered_by_hami

                by_hami = entered_by_hami(obj)
                if isinstance(by_hami, str):
                    said = f'admission webhook "{_HAMI_WEBHOOK}" denied the request: {by_hami}'
                    return Denied.by(_HAMI_WEBHOOK, ApiError(403, "Forbidden", said))
                obj = by_hami
        if is_kueue_kind(obj):
            return self._of_kueue(operation, obj, old, self._settings(), strict)
        return defaulted(operation, obj, self._view, self._settings()) if is_job(obj) else obj

    def _of_kueue(
        self, operation: str, obj: Obj, old: Obj | None, settings: Settings | None, strict: bool
    ) -> Obj | Denied:
        """An object of Kueue's own kinds: what its definition says of it, as it was sent, then what webhooks say."""
        before = None if old is None else converted(old)
        denied = _undefined(obj, old, settings, strict) or self._denied(operation, obj, before, settings)
        if denied is not None:
            return denied
        stored = defaulted(operation, obj, self._view, settings)
        return converted(stored, obj["apiVersion"]) if self._as_asked else stored

    def refused(self, operation: str, obj: Obj, old: Obj | None) -> Denied | None:
        """What Kueue has against a job as it will be stored."""
        settings = self._settings() if is_job(obj) else None
        return None if settings is None else self._denied(operation, obj, old, settings)

    def _denied(self, operation: str, obj: Obj, old: Obj | None, settings: Settings | None) -> Denied | None:
        for found in refusals(operation, obj, old, self._view, settings):
            return Denied.by(found.webhook, ApiError(found.code, found.reason, found.message))
        return None


def _undefined(obj: Obj, old: Obj | None, settings: Settings | None, strict: bool) -> Denied | None:
    """What Kueue's definitions forbid. `strict`: unknown fields too."""
    gk, api_version = gk_of(obj), str(obj.get("apiVersion"))
    version = published.entry(gk, api_version.rpartition("/")[2])
    tree = None if version is None else tree_of(version)
    if version is None or tree is None:
        said = f'no matches for kind "{obj.get("kind")}" in version "{api_version}"'
        return Denied.by("", ApiError(404, "NotFound", said))
    unknown = unknown_fields(obj, tree) if strict else []
    if unknown:
        said = f'{obj["kind"]} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {obj["kind"]}: '
        return Denied.by("", ApiError(400, "BadRequest", said + strict_error(unknown)))
    from fairway.admission.crdrules import judged

    found = judged(version, apply_defaults(obj), None if old is None else converted(old, api_version))
    if not found:
        return None
    broken = undecoded(obj["kind"], found) if settings is not None else None
    if broken is not None:
        return Denied.by(broken.webhook, ApiError(broken.code, broken.reason, broken.message))
    said = aggregate(str(p) for p in found)
    return Denied.by(
        "", ApiError(422, "Invalid", f'{gk} "{meta_of(obj).get("name") or ""}" is invalid: {said}')
    )
