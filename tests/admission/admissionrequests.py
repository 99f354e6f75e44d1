"""Admission requests and worlds for the tests here."""

from __future__ import annotations

from typing import Any

from fairway.admission.chain import Chain, drive
from fairway.admission.rbac.authorizer import Authorizer
from fairway.admission.request import (
    ALL_AUTHENTICATED,
    CREATE,
    AdmissionRequest,
    CallWebhook,
    Gvk,
    Gvr,
    Outcome,
    User,
    WebhookAnswer,
)
from fairway.cluster.store import Store
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Obj, gk_of, name_of, namespace_of

ALICE = User("alice", (ALL_AUTHENTICATED,))


def no_call(call: CallWebhook) -> WebhookAnswer:
    raise AssertionError(f"nobody expected {call.webhook} to be called")


def request(
    obj: Obj | None, operation: str = CREATE, old: Obj | None = None, **fields: Any
) -> AdmissionRequest:
    """A request about an object, named and placed as it says."""
    about = obj or old or {}
    kind = kind_named(gk_of(about))
    version = about["apiVersion"].rpartition("/")[2]
    values: dict[str, Any] = {
        "operation": operation,
        "kind": Gvk(kind.group, version, kind.kind),
        "resource": Gvr(kind.group, version, kind.plural),
        "namespace": namespace_of(about) if kind.namespaced else "",
        "name": name_of(about),
        "user": ALICE,
        "obj": obj,
        "old": old,
        **fields,
    }
    return AdmissionRequest(**values)


def namespace(name: str, labels: dict[str, str] | None = None, **fields: Any) -> Obj:
    meta = {"name": name, "labels": {"kubernetes.io/metadata.name": name, **(labels or {})}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta, **fields}


def pod(name: str = "p", home: str = "team-a", **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": home},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


class World:
    """A store with its chain and authorizer, as a server has them."""

    def __init__(self, *objects: Obj) -> None:
        self.store = Store()
        self.authorizer = Authorizer(self.store)
        self.chain = Chain(self.store, self.authorizer)
        self.store.followers += [self.authorizer, self.chain]
        self.add(*objects)

    def add(self, *objects: Obj) -> World:
        for obj in objects:
            self.store.create(obj)
        return self

    def mutate(self, asked: AdmissionRequest, call: Any = no_call) -> Outcome:
        return drive(self.chain.mutating(asked), call)

    def validate(self, asked: AdmissionRequest, call: Any = no_call) -> Outcome:
        return drive(self.chain.validating(asked), call)
