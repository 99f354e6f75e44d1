"""Who may approve or sign a certificate request, and what nobody may ask for.

Source: plugin/pkg/admission/certificates/{approval,signing,subjectrestriction} (v1.36).
"""

from __future__ import annotations

from fairway.admission.answers import forbidden
from fairway.admission.rbac.attributes import Attributes
from fairway.admission.rbac.authorizer import Authorizer
from fairway.admission.request import UPDATE, AdmissionRequest, Denied
from fairway.kube.objects import spec_of, status_of

GROUP = "certificates.k8s.io"
_REQUESTS = "certificatesigningrequests"


def refusal(authorizer: Authorizer, request: AdmissionRequest) -> Denied | None:
    """Approval and signing are granted per signer, by name or by domain (`example.com/*`)."""
    if (request.resource.group, request.resource.resource) != (GROUP, _REQUESTS) or request.obj is None:
        return None
    if request.operation != UPDATE or request.old is None:
        return None
    signer = str(spec_of(request.old).get("signerName") or "")
    if request.subresource == "approval":
        if not _is_granted(authorizer, request, "approve", signer):
            why = f'user not permitted to approve requests with signerName "{signer}"'
            return forbidden(request, "CertificateApproval", why)
        return None
    signs = request.subresource == "status" and _is_signed_now(request)
    if signs and not _is_granted(authorizer, request, "sign", signer):
        why = f'user not permitted to sign requests with signerName "{signer}"'
        return forbidden(request, "CertificateSigning", why)
    return None


def _is_signed_now(request: AdmissionRequest) -> bool:
    new, old = status_of(request.obj or {}), status_of(request.old or {})
    return any(new.get(name) != old.get(name) for name in ("certificate", "conditions"))


def _is_granted(authorizer: Authorizer, request: AdmissionRequest, verb: str, signer: str) -> bool:
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        if authorizer.authorize(Attributes(request.user, verb, GROUP, "signers", "", "", name)).allowed:
            return True
    return False
