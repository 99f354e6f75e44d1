"""The one door: what does a write meet on its way into the cluster, and how does the object look once it is in?

    door = Door(store, operators=operators_of(host))     # once per cluster
    store.followers.append(door)                         # so that it sees what it goes by change
    outcome = door.enter(obj)                            # Admitted or Denied, in the API server's words
    ... store.create(outcome.obj), then perform(store, charge) for charge in outcome.charges ...

`enter` is the whole way, for manifests, timelines, traces and controllers: defaults, what admission changes,
defaults again, the rules of the kind, what admission refuses. The API server has work of its own in between (field
ownership, custom resources) and goes through `chain` itself. Nothing is written here.

Where a namespace has no policies, webhooks, limits, quotas or Pod Security levels, most objects meet nothing but
operators: they pass at the cost of a lookup, and the spec of a pod's template is looked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairway.admission import limitranger, namespace, priority, runtimeclass, serviceaccount
from fairway.admission.intree import Options, Wrong, new_pod
from fairway.admission.nodes import with_topology_labels
from fairway.admission.request import (
    ADMIN,
    CREATE,
    DELETE,
    UPDATE,
    AdmissionRequest,
    Admitted,
    CallWebhook,
    Denied,
    Gvk,
    Gvr,
    Outcome,
    User,
    WebhookAnswer,
)
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.errors import ApiError
from fairway.cluster.metadata import generated_name
from fairway.cluster.quotausage import QUOTA
from fairway.cluster.store import Store
from fairway.kube import published
from fairway.kube.defaults import apply_defaults
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Key, Obj, gk_of, labels_of, meta_of, namespace_of

if TYPE_CHECKING:
    from fairway.admission.chain import Chain, Operators
    from fairway.admission.rbac.authorizer import Authorizer
    from fairway.kube.problem import Problem

_CONFIGURATION: Final = ".admissionregistration.k8s.io"
_POD_SECURITY: Final = "pod-security.kubernetes.io/"
# What decides which stages there are for a namespace, and what they make of a pod's spec.
_GOES_BY: Final = frozenset(
    (
        "Namespace",
        QUOTA,
        limitranger.LIMIT_RANGE,
        priority.PRIORITY_CLASS,
        runtimeclass.RUNTIME_CLASS,
        serviceaccount.SERVICE_ACCOUNT,
    )
)
# Kinds that built-in plugins look at even where nobody configured anything.
_LOOKED_AT: Final = frozenset(
    (
        "Namespace",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Ingress.networking.k8s.io",
        priority.PRIORITY_CLASS,
    )
)
_MAX_SPECS: Final = 16384

Call = Callable[[CallWebhook], WebhookAnswer]
Steps = Generator[CallWebhook, WebhookAnswer, Outcome]
Settle = Callable[[Outcome | ApiError], None]
Later = Callable[[Steps, CallWebhook, Settle], None]


class Awaiting(Exception):
    """Somebody outside is being asked about an object; whoever put himself down in `then` is told once it is known."""

    def __init__(self, obj: Obj) -> None:
        super().__init__("a webhook is being asked")
        self.obj = obj
        self.outcome: Outcome | ApiError | None = None
        self.then: list[Callable[[], None]] = []


class _Known(NamedTuple):
    spec: dict[str, Any]
    namespace: str
    result: dict[str, Any]


class Door:
    """All of admission over one view. A store follower."""

    def __init__(
        self,
        view: Store,
        authorizer: Authorizer | None = None,
        options: Options | None = None,
        operators: Operators | None = None,
        call: Call | None = None,
        later: Later | None = None,
        fits: Callable[[Obj], None] | None = None,
    ) -> None:
        """`call` performs a webhook's call. None: users' webhooks cannot be asked here, `unasked` names them.
        `later` performs calls while others go on: `enter` then raises `Awaiting`, and is asked again with the same
        object once all is known. `fits` raises ApiError for an object that could not be stored."""
        self._view = view
        self._authorizer = authorizer
        self._options = options or Options()
        self._operators = operators
        self._call = call or self._pass
        self._later = later
        self._fits = fits
        self._awaited: list[Awaiting] = []
        """Objects that somebody outside is, or was, asked about."""
        self._chain: Chain | None = None
        self.unasked: dict[tuple[str, str], None] = {}
        """Configuration and name of the webhooks that would have been called."""
        self._plain: dict[str, bool] = {}
        # Specs after the changing plugins, by the identity of the spec that came in, which is kept alive beside
        # them. Pods of one template share a spec, and go on sharing one: what is cached per spec further on stays.
        self._specs: dict[int, _Known] = {}

    def apply(self, change: Change) -> None:
        gk = change.key.gk
        if gk in _GOES_BY:
            # A quota's account changes all the time, and which namespaces have one only with their number.
            if gk != QUOTA or change.old is None or change.type == DELETED:
                self._forget()
        elif gk.endswith(_CONFIGURATION):
            self._forget()
            if self._chain is not None:
                self._chain.apply(change)

    def _forget(self) -> None:
        self._plain.clear()
        self._specs.clear()

    @property
    def chain(self) -> Chain:
        """Every stage. Loaded with the first write that meets one: most simulations have none."""
        if self._chain is None:
            from fairway.admission.chain import Chain

            self._chain = Chain(self._view, self._authorizer, self._options, self._operators)
        return self._chain

    def enter(
        self,
        obj: Obj,
        old: Obj | None = None,
        *,
        user: User = ADMIN,
        strict: bool = False,
        checks: bool = False,
    ) -> Outcome:
        """The object as it goes in, with its quota charges, or why it does not. `old`: what is stored, on update.

        `strict`: unknown fields of Kueue's kinds are refused, as kubectl asks for. `checks`: nobody has asked the
        rules of the kind yet; else they are only where admission or an update changes the object.
        Raises: ApiError; Awaiting.
        """
        if self._awaited:
            known = self._known(obj)
            if known is not None:
                return known
        given = apply_defaults(_placed(obj))
        passed = self._passed(given, strict) if old is None and not checks else None
        if passed is not None:
            return passed
        return self._driven(obj, self._entered(given, old, user, strict, checks))

    def _driven(self, obj: Obj, steps: Steps) -> Outcome:
        """Every stage to its end, or as far as it goes while nobody waits. Raises: ApiError, Awaiting."""
        from fairway.admission.chain import drive

        if self._later is None:
            return drive(steps, self._call)
        try:
            wanted = next(steps)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        waiting = Awaiting(obj)
        self._awaited.append(waiting)
        self._later(steps, wanted, partial(self._settle, waiting))
        raise waiting

    def _settle(self, waiting: Awaiting, outcome: Outcome | ApiError) -> None:
        """Tell who waits; what nobody came back for by then nobody will."""
        waiting.outcome = outcome
        told, waiting.then = waiting.then, []
        for go_on in told:
            go_on()
        if waiting in self._awaited:
            self._awaited.remove(waiting)

    def _known(self, obj: Obj) -> Outcome | None:
        """What became of an object that was asked about. Raises: ApiError; Awaiting, while it is."""
        found = next((w for w in self._awaited if w.obj is obj or w.obj == obj), None)
        if found is None:
            return None
        if found.outcome is None:
            raise found
        self._awaited.remove(found)
        if isinstance(found.outcome, ApiError):
            raise found.outcome
        return found.outcome

    def leave(self, old: Obj, *, user: User = ADMIN) -> Denied | None:
        """Why an object may not be deleted; None: it may."""
        from fairway.admission.chain import drive

        asked = replace(self.request(old, None, user), operation=DELETE, obj=None, old=old)
        for phase in (self.chain.mutating, self.chain.validating):
            outcome = drive(phase(asked), self._call)
            if isinstance(outcome, Denied):
                return outcome
        return None

    def _entered(self, given: Obj, old: Obj | None, user: User, strict: bool, checks: bool) -> Steps:
        """Every stage, one after the other."""
        chain = self.chain
        asked = self.request(self._named(given), old, user, strict=strict)
        outcome = yield from chain.mutating(asked)
        if isinstance(outcome, Denied):
            return outcome
        assert outcome.obj is not None
        asked = self.request(apply_defaults(outcome.obj), old, user, strict=strict)
        if checks or old is not None or chain.index.changes_objects or self._is_limited(asked.obj):
            invalid = _invalid(asked)
            if invalid is not None:
                return invalid
        outcome = yield from chain.validating(asked)
        if self._fits is not None and isinstance(outcome, Admitted) and outcome.obj is not None:
            self._fits(outcome.obj)
        return outcome

    def _is_limited(self, obj: Obj | None) -> bool:
        """A pod whose namespace has LimitRanges: a limit that one gave may be below what a container requests."""
        if obj is None or gk_of(obj) != "Pod":
            return False
        return bool(self._view.objects(limitranger.LIMIT_RANGE, namespace_of(obj)))

    def _passed(self, obj: Obj, strict: bool) -> Outcome | None:
        """A new object that meets nobody but operators; None where another stage has something to say."""
        gk = gk_of(obj)
        home: str = (obj.get("metadata") or {}).get("namespace") or ""
        if gk in _LOOKED_AT or self._options.is_served or not self._is_plain(home):
            return None
        if gk == "Pod":
            pod = self._plain_pod(obj, home)
            if pod is None:
                return None
            obj = pod
        elif gk.endswith(_CONFIGURATION):
            return None
        if self._operators is None:
            return Admitted(obj)
        settled = self._operators.changed(CREATE, obj, None, strict=strict)
        if isinstance(settled, Denied):
            return settled
        return self._operators.refused(CREATE, settled, None) or Admitted(settled)

    def _is_plain(self, home: str) -> bool:
        known = self._plain.get(home)
        if known is None:
            known = self._plain[home] = self._has_nothing(home)
        return known

    def _has_nothing(self, home: str) -> bool:
        """Whether neither the cluster nor the namespace has anything configured that a new object would meet."""
        view = self._view
        if any(gk.endswith(_CONFIGURATION) for gk in view.kinds()):
            return False
        if not home:
            return True
        there = view.get(Key("Namespace", "", home))
        if there is not None and (
            namespace.is_going(there) or any(label.startswith(_POD_SECURITY) for label in labels_of(there))
        ):
            return False
        return not view.objects(limitranger.LIMIT_RANGE, home) and not view.objects(QUOTA, home)

    def _plain_pod(self, pod: Obj, home: str) -> Obj | None:
        """The pod after the plugins that change one; None where one of them refuses it."""
        spec = pod.get("spec") or {}
        known = self._specs.get(id(spec))
        if known is None or known.spec is not spec or known.namespace != home:
            if serviceaccount.MIRROR_ANNOTATION in (meta_of(pod).get("annotations") or {}):
                return None
            changed = new_pod(self._view, pod, home, self._options, mounts_token=False)
            if isinstance(changed, Wrong) or runtimeclass.refusal(self._view, changed) is not None:
                return None
            if len(self._specs) >= _MAX_SPECS:
                self._specs.clear()
            known = self._specs[id(spec)] = _Known(spec, home, changed.get("spec") or {})
        if known.result is not spec:
            pod = {**pod, "spec": known.result}
        return with_topology_labels(self._view, pod) if spec.get("nodeName") else pod

    def request(
        self, obj: Obj, old: Obj | None = None, user: User = ADMIN, *, strict: bool = False
    ) -> AdmissionRequest:
        """The creation, or with `old` the update, of an object as the API server sees it."""
        kind, meta = kind_named(gk_of(obj)), meta_of(obj)
        version = str(obj.get("apiVersion", "")).rpartition("/")[2]
        options = {
            "kind": "CreateOptions" if old is None else "UpdateOptions",
            "apiVersion": "meta.k8s.io/v1",
        }
        if strict:
            options["fieldValidation"] = "Strict"
        return AdmissionRequest(
            CREATE if old is None else UPDATE,
            Gvk(kind.group, version, kind.kind),
            Gvr(kind.group, version, kind.plural),
            meta.get("namespace") or "",
            meta.get("name") or "",
            user,
            obj,
            old,
            options=options,
        )

    def _named(self, obj: Obj) -> Obj:
        """With a name where it leaves that to the server: policies see it."""
        meta = meta_of(obj)
        if meta.get("name") or not meta.get("generateName"):
            return obj
        name = generated_name(meta["generateName"], self._view.seed, self._view.serial + 1)
        return {**obj, "metadata": {**meta, "name": name}}

    def _pass(self, wanted: CallWebhook) -> WebhookAnswer:
        """Nobody can be asked: what the webhook would change or refuse goes in as it is, and its name is noted."""
        self.unasked[(wanted.configuration, wanted.webhook)] = None
        uid = (wanted.body.get("request") or {}).get("uid", "")
        return WebhookAnswer({**wanted.body, "response": {"uid": uid, "allowed": True}})


def _placed(obj: Obj) -> Obj:
    """In the namespace of the request where it names none."""
    meta = meta_of(obj)
    if meta.get("namespace") or not kind_named(gk_of(obj)).namespaced:
        return obj
    return {**obj, "metadata": {**meta, "namespace": "default"}}


def _broken_rules(obj: Obj, old: Obj | None) -> list[Problem]:
    """The rules in CEL that a published kind's definition has."""
    version = published.entry(gk_of(obj), str(obj.get("apiVersion")).rpartition("/")[2])
    if version is None:
        return []
    from fairway.admission.crdrules import problems

    return problems(version["schema"]["openAPIV3Schema"], obj, old)


def _invalid(request: AdmissionRequest) -> Denied | None:
    """What the rules of the kind say to an object that somebody changed."""
    from fairway.admission.answers import invalid
    from fairway.cluster.patches import strategic_patch
    from fairway.kube.problem import UNKNOWN_FIELD
    from fairway.kube.validation.validating import changed, validate

    assert request.obj is not None
    found = validate(request.obj) or _broken_rules(request.obj, request.old)
    if request.old is not None and not found:
        # What a manifest leaves out stays, as with kubectl apply.
        old = apply_defaults(request.old)
        found = changed(apply_defaults(strategic_patch(old, request.obj)), old)
    unknown = [str(p) for p in found if p.reason == UNKNOWN_FIELD]
    if unknown:
        kind = request.kind
        said = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: '
        return Denied.by("Validation", ApiError(400, "BadRequest", said + ", ".join(unknown)))
    return invalid(request, "Validation", list(dict.fromkeys(str(p) for p in found))) if found else None
