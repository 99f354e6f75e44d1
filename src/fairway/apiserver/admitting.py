"""How do objects that the cluster's own controllers create get in? Past everything a client's pass, too.

A ReplicaSet's pods get their service account's token, and Pod Security, a policy or a webhook may refuse them: the
controller is told so, and says `FailedCreate`. Webhooks are called here and now: the cluster's time stands still and
the server answers nobody else while one thinks (Unlike kube: a webhook that asks the server back meanwhile runs into
its timeout).

Source: kube-controller-manager is a client of kube-apiserver like any other (v1.36).
"""

from __future__ import annotations

from fairway.admission.chain import drive
from fairway.admission.request import (
    ALL_AUTHENTICATED,
    CREATE,
    AdmissionRequest,
    CallWebhook,
    Denied,
    Gvk,
    Gvr,
    Outcome,
    User,
    WebhookAnswer,
)
from fairway.admission.request import Admitted as Passed
from fairway.admission.verdicts import Admitted
from fairway.apiserver import operators
from fairway.apiserver.asking import Api
from fairway.apiserver.budget import SURE_BYTES, check_stored
from fairway.apiserver.refusals import Refused
from fairway.apiserver.webhookcalls import call
from fairway.apiserver.wire.messages import encode
from fairway.cluster.metadata import generated_name
from fairway.kube.defaults import apply_defaults
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Obj, gk_of, key_of

CONTROLLERS = User("system:kube-controller-manager", (ALL_AUTHENTICATED,))


def admitted(api: Api, obj: Obj) -> Admitted:
    """The object as it is to be stored, with the quota it uses up.

    Raises: ApiError.
    """
    given = apply_defaults(_named(api, obj))
    outcome = _passed(drive(api.chain.mutating(_request(given)), lambda wanted: _call(api, wanted)))
    assert outcome.obj is not None
    request = _request(outcome.obj)
    changed = apply_defaults(operators.entered(api, request, outcome.obj))
    outcome = _passed(drive(api.chain.validating(_request(changed)), lambda wanted: _call(api, wanted)))
    assert outcome.obj is not None
    _check_size(api, outcome.obj)
    return Admitted(outcome.obj, outcome.charges)


def _check_size(api: Api, obj: Obj) -> None:
    """Raises: TooLarge."""
    size = len(encode(obj))
    resource = api.resources.of_kind(obj["apiVersion"], obj["kind"]) if size > SURE_BYTES else None
    if resource is not None:
        check_stored(obj, size, resource, key_of(obj), is_new=True)


def _named(api: Api, obj: Obj) -> Obj:
    """With its namespace, and with a name where it leaves that to the server."""
    meta = obj.get("metadata") or {}
    if kind_named(gk_of(obj)).namespaced and not meta.get("namespace"):
        meta = {**meta, "namespace": "default"}
    if not meta.get("name") and meta.get("generateName"):
        name = generated_name(meta["generateName"], api.store.seed, api.store.serial + 1)
        meta = {**meta, "name": name}
    return obj if meta is obj.get("metadata") else {**obj, "metadata": meta}


def _request(obj: Obj) -> AdmissionRequest:
    kind, meta = kind_named(gk_of(obj)), obj["metadata"]
    version = obj["apiVersion"].rpartition("/")[2]
    return AdmissionRequest(
        CREATE,
        Gvk(kind.group, version, kind.kind),
        Gvr(kind.group, version, kind.plural),
        meta.get("namespace") or "",
        meta["name"],
        CONTROLLERS,
        obj,
        options={"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    )


def _call(api: Api, wanted: CallWebhook) -> WebhookAnswer:
    return call(api.store, wanted)


def _passed(outcome: Outcome) -> Passed:
    """Raises: Refused."""
    if isinstance(outcome, Denied):
        raise Refused(outcome.status)
    return outcome
