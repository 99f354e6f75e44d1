"""CertificateSigningRequests: who asked, is the request in order, and who approves and signs it.

The signer is a component: it acts once somebody approved. Kubelets' client certificates are approved without asking
where RBAC lets their user have one (`certificatesigningrequests/nodeclient`, `selfnodeclient`).

Source: pkg/registry/certificates/certificates/strategy.go, pkg/apis/certificates/validation,
pkg/controller/certificates/approver/sarapprove.go, signer/signer.go (v1.36).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Any

from fairway.admission.rbac.attributes import Attributes
from fairway.admission.rbac.authorizer import Authorizer
from fairway.admission.request import SYSTEM_MASTERS, User
from fairway.apiserver.auth import signing
from fairway.apiserver.auth.certificates import Pki
from fairway.cluster.changes import DELETED, Change
from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Key, Obj, spec_of, status_of
from fairway.kube.problem import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    invalids,
    required,
    unsupported,
)
from fairway.kube.timestamps import rfc3339
from fairway.twin.components import Host
from fairway.twin.loop import CONTROLLERS

KIND = "CertificateSigningRequest.certificates.k8s.io"
_GROUP = "certificates.k8s.io"
_MIN_SECONDS = 600
_APPROVED, _DENIED, _FAILED = "Approved", "Denied", "Failed"
_SPEC: Path = ("spec",)


def asked_by(obj: Obj, user: User) -> Obj:
    """The request with who made it, whatever it says itself."""
    spec = {k: v for k, v in spec_of(obj).items() if k not in ("username", "uid", "groups", "extra")}
    return {**obj, "spec": {**spec, **user.info()}}


def problems(obj: Obj) -> list[Problem]:
    """What is wrong with a new request."""
    spec, found = spec_of(obj), list[Problem]()
    try:
        signing.parsed(_request(spec))
    except signing.BadRequest as wrong:
        found.append(invalid((*_SPEC, "request"), spec.get("request") or "", str(wrong)))
    usages = spec.get("usages") or []
    if not usages:
        found.append(required((*_SPEC, "usages"), ""))
    for index, usage in enumerate(usages):
        if usage not in signing.USAGES:
            found.append(unsupported((*_SPEC, "usages", index), usage, signing.USAGES))
        elif usage in usages[:index]:
            found.append(duplicate((*_SPEC, "usages", index), usage))
    found.extend(_signer_problems(spec.get("signerName") or ""))
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _MIN_SECONDS:
        why = f"may not specify a duration less than {_MIN_SECONDS} seconds (10 minutes)"
        found.append(invalid((*_SPEC, "expirationSeconds"), seconds, why))
    return found


def _signer_problems(signer: str) -> list[Problem]:
    at = (*_SPEC, "signerName")
    if not signer:
        return [required(at)]
    if signer == signing.LEGACY:
        return [invalid(at, signer, "the legacy signerName is not allowed via this API version")]
    domain, slash, path = signer.partition("/")
    if not slash or not domain or not path or "/" in path:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(at, signer, why)]
    found = []
    for label in domain.split("."):
        said = [f'validating label "{label}": {complaint}' for complaint in names.dns_label(label)]
        found.extend(invalids(at, domain, said))
    if "." not in domain:
        found.append(invalid(at, domain, "should be a domain with at least two segments separated by dots"))
    return found


def approval_problems(new: Obj, old: Obj) -> list[Problem]:
    """What is wrong with the conditions an approver writes."""
    at = ("status", "conditions")
    conditions = status_of(new).get("conditions") or []
    kinds = [c.get("type") for c in conditions]
    found = []
    for index, condition in enumerate(conditions):
        if not condition.get("type"):
            found.append(required((*at, index, "type")))
        elif condition["type"] in kinds[:index]:
            found.append(duplicate((*at, index, "type"), condition["type"]))
        if condition.get("type") in (_APPROVED, _DENIED, _FAILED) and condition.get("status") != "True":
            found.append(unsupported((*at, index, "status"), condition.get("status") or "", ("True",)))
    if _APPROVED in kinds and _DENIED in kinds:
        second = max(kinds.index(_APPROVED), kinds.index(_DENIED))
        why = "Approved and Denied conditions are mutually exclusive"
        found.append(invalid((*at, second, "type"), kinds[second], why))
    before = {c.get("type") for c in status_of(old).get("conditions") or ()}
    gone = [kind for kind in (_APPROVED, _DENIED, _FAILED) if kind in before and kind not in kinds]
    found.extend(forbidden(at, f"updates may not remove a condition of type {kind}") for kind in gone)
    return found


def restriction(obj: Obj) -> str | None:
    """Why nobody may ask for this. Source: plugin/pkg/admission/certificates/subjectrestriction."""
    spec = spec_of(obj)
    if spec.get("signerName") != signing.CLIENT:
        return None
    if SYSTEM_MASTERS in signing.organizations(signing.parsed(_request(spec))):
        return f"use of {signing.CLIENT} signer with {SYSTEM_MASTERS} group is not allowed"
    return None


def approved_at(new: Obj, now: str) -> Obj:
    """The request with times on the conditions an approver added."""
    status = status_of(new)
    conditions = []
    for condition in status.get("conditions") or ():
        times = {name: condition.get(name) or now for name in ("lastUpdateTime", "lastTransitionTime")}
        conditions.append({**condition, **times})
    return {**new, "status": {**status, "conditions": conditions}} if conditions else new


def _request(spec: dict[str, Any]) -> bytes:
    try:
        return b64decode(spec.get("request") or "", validate=True)
    except (Base64Error, ValueError):
        return b""


class CertificateSigner:
    """Approves what needs no person, and signs what is approved."""

    name = "certificate-controller"
    kinds: tuple[str, ...] = (KIND,)

    def __init__(self, pki: Pki, authorizer: Authorizer) -> None:
        self._pki = pki
        self._authorizer = authorizer

    def attach(self, host: Host) -> None:
        self.host = host
        self._look = host.loop.register("certificates.look", self._on_look)

    def start(self) -> None:
        """Requests come as changes."""

    def fork(self) -> CertificateSigner:
        return CertificateSigner(self._pki, self._authorizer)

    def observe(self, change: Change) -> None:
        if change.type != DELETED:
            self.host.loop.at(self.host.loop.now_us, self._look, change.key.name, CONTROLLERS)

    def _on_look(self, name: str) -> None:
        key = Key(KIND, "", name)
        obj = self.host.store.get(key)
        if obj is None:
            return
        kinds = {c.get("type") for c in status_of(obj).get("conditions") or ()}
        if status_of(obj).get("certificate") or kinds & {_DENIED, _FAILED}:
            return
        if _APPROVED in kinds:
            self._sign(key, obj)
        else:
            self._approve(key, obj)

    def _approve(self, key: Key, obj: Obj) -> None:
        spec = spec_of(obj)
        request = signing.parsed(_request(spec))
        if not signing.is_node_client(request, spec["signerName"], spec.get("usages") or ()):
            return
        extra = tuple(sorted((k, tuple(v)) for k, v in (spec.get("extra") or {}).items()))
        user = User(spec.get("username") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)
        ways = [("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")]
        if user.name == signing.common_name(request):
            own = "Auto approving self kubelet client certificate after SubjectAccessReview."
            ways.insert(0, ("selfnodeclient", own))
        for subresource, message in ways:
            wanted = Attributes(user, "create", _GROUP, "certificatesigningrequests", subresource)
            if self._authorizer.authorize(wanted).allowed:
                self._add(key, obj, _APPROVED, "AutoApproved", message)
                return

    def _sign(self, key: Key, obj: Obj) -> None:
        spec = spec_of(obj)
        signer, usages = spec["signerName"], spec.get("usages") or []
        if signer not in signing.SIGNERS:
            return
        request = signing.parsed(_request(spec))
        wrong = signing.complaint(signer, request, usages)
        if wrong is not None:
            self._add(key, obj, _FAILED, "SignerValidationFailure", wrong)
            return
        pem = signing.signed(self._pki, request, usages, spec.get("expirationSeconds"))
        self.host.store.set_status(key, {**status_of(obj), "certificate": b64encode(pem).decode()})

    def _add(self, key: Key, obj: Obj, kind: str, reason: str, message: str) -> None:
        now = rfc3339(self.host.loop.now_us)
        condition = {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }
        status = status_of(obj)
        conditions = [*(status.get("conditions") or ()), condition]
        self.host.store.set_status(key, {**status, "conditions": conditions})
