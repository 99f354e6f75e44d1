"""What of a request is taken and what refused, each side of it: options, selectors, evictions, certificate requests."""

from __future__ import annotations

import ipaddress
from base64 import b64encode
from typing import Any
from urllib.parse import quote

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fairway.apiserver import signingrequests
from fairway.apiserver.auth import signing
from fairway.kube.objects import Key, Obj

# Options


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("resourceVersionMatch=Exact&resourceVersion=0", 422, 'forbidden for resourceVersion "0"'),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=0", 200, ""),
        ("resourceVersionMatch=Exact", 422, "forbidden unless resourceVersion is provided"),
        ("resourceVersionMatch=Other&resourceVersion=1", 422, "Unsupported value"),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=x", 422, "when continue is provided"),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
        ("limit=x", 400, "invalid syntax"),
        ("limit=99999999999999999999", 400, "value out of range"),
        ("timeoutSeconds=-x", 400, "invalid syntax"),
        ("watch=1&timeoutSeconds=1&sendInitialEvents=true", 422, "requires setting resourceVersionMatch"),
        (
            "watch=1&timeoutSeconds=1&resourceVersionMatch=NotOlderThan",
            422,
            "forbidden for watch unless sendInitialEvents",
        ),
        (
            "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=Exact",
            422,
            "Unsupported value",
        ),
    ],
)
def test_options_of_lists(api: Served, query: str, code: int, said: str) -> None:
    found, answer = api.ask("GET", f"{CONFIG_MAPS}?{query}")
    assert found == code, answer
    assert not said or said in answer["message"]


@pytest.mark.parametrize(
    ("method", "query", "media", "said"),
    [
        ("POST", "fieldManager=" + "m" * 128, "", ""),
        ("POST", "fieldManager=" + "m" * 129, "", "may not be more than 128 bytes"),
        ("POST", "fieldManager=a%07b", "", "invalid character U+0007 (at position 1)"),
        ("POST", "fieldManager=%C3%A9%07", "", "invalid character U+0007 (at position 2)"),
        ("POST", "fieldValidation=Strict", "", ""),
        ("POST", "fieldValidation=strict", "", "Unsupported value"),
        ("POST", "dryRun=Some", "", "Unsupported value"),
        ("PATCH", "force=true", "application/merge-patch+json", "may not be specified for non-apply patch"),
        ("PATCH", "", "application/merge-patch+json", ""),
        ("PATCH", "", "application/apply-patch+yaml", "is required for apply patch"),
        ("PATCH", "fieldManager=m&force=true", "application/apply-patch+yaml", ""),
    ],
)
def test_options_of_writes(api: Served, method: str, query: str, media: str, said: str) -> None:
    body = config_map("options")
    path = CONFIG_MAPS
    api.ask("DELETE", f"{path}/options")
    if method == "PATCH":
        api.ask("POST", path, body)
        path = f"{path}/options"
    code, answer = api.ask(method, f"{path}?{query}", body, headers={"Content-Type": media} if media else {})
    assert code == (422 if said else 201 if method == "POST" else 200), answer
    assert not said or said in answer["message"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"propagationPolicy": "Background"}, ""),
        ({"propagationPolicy": "Sideways"}, "Unsupported value"),
        ({"orphanDependents": False}, ""),
        ({"orphanDependents": False, "propagationPolicy": "Orphan"}, "cannot be both set"),
        ({"dryRun": ["All"]}, ""),
        ({"dryRun": ["None"]}, "Unsupported value"),
    ],
)
def test_options_of_deletions(api: Served, options: Obj, said: str) -> None:
    api.ask("POST", CONFIG_MAPS, config_map("gone"))
    body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
    code, answer = api.ask("DELETE", f"{CONFIG_MAPS}/gone", body)
    assert code == (422 if said else 200), answer
    assert not said or said in answer["message"]
    is_there = api.ask("GET", f"{CONFIG_MAPS}/gone")[0] == 200
    assert is_there is bool(said or "dryRun" in options)


# Selectors


@pytest.fixture(scope="module")
def selectable(api: Served) -> Served:
    for name, spec in (("open", {}), ("shut", {"unschedulable": True})):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}
        assert api.ask("POST", "/api/v1/nodes", node)[0] == 201
    for name, policy in (("a", "Never"), ("b", "Always")):
        spec = {"restartPolicy": policy, "nodeName": "nowhere", "containers": [{"name": "c", "image": "i"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        assert api.ask("POST", "/api/v1/namespaces/default/pods", pod)[0] == 201
    job_spec: Obj = {"suspend": True, "template": {"spec": {**spec, "restartPolicy": "Never"}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": job_spec}
    assert api.ask("POST", "/apis/batch/v1/namespaces/default/jobs", job)[0] == 201
    return api


NODES, PODS, JOBS = (
    "/api/v1/nodes",
    "/api/v1/namespaces/default/pods",
    "/apis/batch/v1/namespaces/default/jobs",
)


@pytest.mark.parametrize(
    ("path", "fields", "want"),
    [
        (NODES, "spec.unschedulable=true", ["shut"]),
        (NODES, "spec.unschedulable=false", ["open"]),
        (NODES, "spec.unschedulable!=true", ["open"]),
        (NODES, "spec.unschedulable!=false", ["shut"]),
        (PODS, "spec.restartPolicy=Never", ["a"]),
        (PODS, "spec.restartPolicy!=Never", ["b"]),
        (PODS, "spec.restartPolicy=Never,metadata.name=b", []),
        (PODS, "metadata.name=b", ["b"]),
        (PODS, "spec.nodeName=nowhere,metadata.namespace=default", ["a", "b"]),
        (PODS, "metadata.namespace!=default", []),
        (JOBS, "status.successful=0", ["j"]),
        (JOBS, "status.successful!=0", []),
        (JOBS, "status.successful=1", []),
    ],
)
def test_fields_select(selectable: Served, path: str, fields: str, want: list[str]) -> None:
    code, found = selectable.ask("GET", f"{path}?fieldSelector={quote(fields)}")
    assert code == 200, found
    assert [o["metadata"]["name"] for o in found["items"]] == want


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        (PODS, "spec.colour=x", "field label not supported: spec.colour"),
        (CONFIG_MAPS, "data.a=x", '"data.a" is not a known field selector'),
        (PODS, "regarding.name=x", "field label not supported: regarding.name"),
        (PODS, "metadata.name", "invalid"),
    ],
)
def test_fields_nobody_selects_by(selectable: Served, path: str, fields: str, said: str) -> None:
    code, found = selectable.ask("GET", f"{path}?fieldSelector={quote(fields)}")
    assert code == 400 and said in found["message"]


def test_events_are_selected_by_either_name(selectable: Served) -> None:
    home = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "zz", "namespace": "default"},
        "source": {"component": "me"},
        "reason": "Why",
    }
    assert selectable.ask("POST", "/api/v1/namespaces/default/events", event)[0] == 201
    for fields, is_found in (
        ("regarding.name=zz", True),
        ("regarding.name=a", False),
        ("involvedObject.name=zz,source=me", True),
        ("source!=me,involvedObject.name=zz", False),
        ("reason=Why,involvedObject.kind=Pod,involvedObject.name=zz", True),
    ):
        code, found = selectable.ask("GET", f"{home}?fieldSelector={quote(fields)}")
        assert (code, len(found["items"])) == (200, int(is_found)), fields


# Evictions


def budget(name: str, app: str, **spec: Any) -> Obj:
    body = {"selector": {"matchLabels": {"app": app}}, **spec}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": body,
    }


@pytest.mark.parametrize(
    ("allowed", "budgets", "code", "said"),
    [
        (1, 1, 201, ""),
        (0, 1, 429, "needs 1 healthy pods and has 1 currently"),
        (-1, 1, 403, "pdb disruptions allowed is negative"),
        (1, 2, 500, "more than one PodDisruptionBudget"),
    ],
)
def test_evictions_are_answered(api: Served, allowed: int, budgets: int, code: int, said: str) -> None:
    app = f"app{allowed}{budgets}".replace("-", "m")
    path = "/api/v1/namespaces/default/pods"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": app, "labels": {"app": app}},
        "spec": {"nodeName": "nowhere", "containers": [{"name": "c", "image": "i"}]},
    }
    assert api.ask("POST", path, pod)[0] == 201
    ready = [{"type": "Ready", "status": "True"}]
    for i in range(budgets):
        made = api.ask(
            "POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget(f"{app}-{i}", app)
        )
        assert made[0] == 201, made
    store = api.server.api.store
    key = Key("PodDisruptionBudget.policy", "default", f"{app}-0")

    def settle() -> Any:
        store.set_status(Key("Pod", "default", app), {"phase": "Running", "conditions": ready})
        counts = {"disruptionsAllowed": allowed, "desiredHealthy": 1, "currentHealthy": 1}
        status = {
            **counts,
            "expectedPods": 1,
            "observedGeneration": store.require(key)["metadata"]["generation"],
        }
        return store.set_status(key, status)

    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": app}}
    for _ in range(20):
        api.call(settle)
        found, answer = api.ask("POST", f"{path}/{app}/eviction", eviction)
        if found == code and said in str(answer):
            break
        # Whoever counts for budgets said otherwise meanwhile.
    assert found == code, answer
    if code == 429:
        assert answer["details"]["causes"][0]["reason"] == "DisruptionBudget"
        assert said in answer["details"]["causes"][0]["message"]
    else:
        assert said in str(answer)


# Certificate requests

KEY = ec.generate_private_key(ec.SECP256R1())
NODE = "system:node:n1"


def csr(name: str = NODE, organization: str | None = "system:nodes", *others: x509.GeneralName) -> Any:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if organization is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    if others:
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
    return builder.sign(KEY, SHA256())


DNS, IP = x509.DNSName("n1"), x509.IPAddress(ipaddress.ip_address("10.0.0.1"))
EMAIL, URI = x509.RFC822Name("a@b.c"), x509.UniformResourceIdentifier("spiffe://x")
CLIENT_USAGES = ("digital signature", "client auth")
SERVING_USAGES = ("digital signature", "server auth")


@pytest.mark.parametrize(
    ("signer", "request_", "usages", "said"),
    [
        (signing.CLIENT, csr("bob", None), ("client auth",), None),
        (signing.CLIENT, csr("bob", None), ("server auth",), "invalid usage"),
        (signing.CLIENT, csr("bob", None), ("digital signature",), "missing required usage"),
        (signing.KUBELET_CLIENT, csr(), CLIENT_USAGES, None),
        (signing.KUBELET_CLIENT, csr(NODE, "dev"), CLIENT_USAGES, "organization is not system:nodes"),
        (signing.KUBELET_CLIENT, csr(NODE, None), CLIENT_USAGES, "organization is not system:nodes"),
        (signing.KUBELET_CLIENT, csr(NODE, "system:nodes", DNS), CLIENT_USAGES, "DNS subjectAltNames"),
        (signing.KUBELET_CLIENT, csr(NODE, "system:nodes", IP), CLIENT_USAGES, "IP subjectAltNames"),
        (signing.KUBELET_CLIENT, csr(NODE, "system:nodes", EMAIL), CLIENT_USAGES, "Email subjectAltNames"),
        (signing.KUBELET_CLIENT, csr(NODE, "system:nodes", URI), CLIENT_USAGES, "URI subjectAltNames"),
        (signing.KUBELET_CLIENT, csr("n1"), CLIENT_USAGES, "does not begin with system:node:"),
        (signing.KUBELET_CLIENT, csr(), SERVING_USAGES, "usage"),
        (signing.KUBELET_SERVING, csr(NODE, "system:nodes", DNS), SERVING_USAGES, None),
        (signing.KUBELET_SERVING, csr(NODE, "system:nodes", IP), SERVING_USAGES, None),
        (signing.KUBELET_SERVING, csr(NODE, "dev", IP), SERVING_USAGES, "organization is not system:nodes"),
        (signing.KUBELET_SERVING, csr(), SERVING_USAGES, "DNS or IP subjectAltName is required"),
        (
            signing.KUBELET_SERVING,
            csr(NODE, "system:nodes", IP, EMAIL),
            SERVING_USAGES,
            "Email subjectAltNames",
        ),
        (signing.KUBELET_SERVING, csr(NODE, "system:nodes", IP, URI), SERVING_USAGES, "URI subjectAltNames"),
        (signing.KUBELET_SERVING, csr("n1", "system:nodes", IP), SERVING_USAGES, "does not begin with"),
        (signing.KUBELET_SERVING, csr(NODE, "system:nodes", IP), CLIENT_USAGES, "usage"),
        ("example.com/mine", csr("x", None), (), None),
    ],
)
def test_what_signers_sign(signer: str, request_: Any, usages: tuple[str, ...], said: str | None) -> None:
    found = signing.complaint(signer, request_, usages)
    assert found is None if said is None else said in (found or "")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, []),
        ({"request": "AAAA"}, ["spec.request: Invalid value"]),
        ({"request": "?"}, ["spec.request: Invalid value"]),
        ({"usages": []}, ["spec.usages: Required value"]),
        ({"usages": ["client auth", "client auth"]}, ["spec.usages[1]: Duplicate value"]),
        (
            {"usages": ["nonsense", "nonsense"]},
            ["spec.usages[0]: Unsupported", "spec.usages[1]: Unsupported"],
        ),
        ({"signerName": ""}, ["spec.signerName: Required value"]),
        ({"signerName": "kubernetes.io/legacy-unknown"}, ["spec.signerName: Invalid value"]),
        ({"signerName": "example.com"}, ["spec.signerName: Invalid value"]),
        ({"signerName": "/x"}, ["spec.signerName: Invalid value"]),
        ({"signerName": "example.com/"}, ["spec.signerName: Invalid value"]),
        ({"signerName": "example.com/a/b"}, ["spec.signerName: Invalid value"]),
        ({"signerName": "example/a"}, ["spec.signerName: Invalid value"]),
        ({"signerName": "Example.com/a"}, ["spec.signerName: Invalid value"]),
        ({"signerName": "example.com/a"}, []),
        ({"expirationSeconds": 599}, ["spec.expirationSeconds: Invalid value"]),
        ({"expirationSeconds": 600}, []),
    ],
)
def test_what_a_request_for_a_certificate_must_say(spec: Obj, said: list[str]) -> None:
    pem = b64encode(csr("bob", None).public_bytes(Encoding.PEM)).decode()
    body = {"request": pem, "usages": ["client auth"], "signerName": signing.CLIENT, **spec}
    found = [str(p) for p in signingrequests.problems({"spec": body})]
    assert len(found) == len(said), found
    assert all(f.startswith(s) for f, s in zip(found, said, strict=True)), found


def conditioned(*kinds: str | None, status: str = "True") -> Obj:
    conditions = [{"type": k, "status": status} if k is not None else {"status": status} for k in kinds]
    return {"status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("new", "old", "said"),
    [
        (conditioned("Approved"), {}, []),
        (conditioned("Approved", "Denied"), {}, ["status.conditions[1].type: Invalid value"]),
        (conditioned("Denied", "Other", "Approved"), {}, ["status.conditions[2].type: Invalid value"]),
        (conditioned("Approved", "Approved"), {}, ["status.conditions[1].type: Duplicate value"]),
        (conditioned("Other", "Other"), {}, ["status.conditions[1].type: Duplicate value"]),
        (conditioned(None), {}, ["status.conditions[0].type: Required value"]),
        (conditioned("Failed", status="False"), {}, ["status.conditions[0].status: Unsupported value"]),
        (conditioned("Other", status="False"), {}, []),
        (conditioned(), conditioned("Approved"), ["status.conditions: Forbidden"]),
        (conditioned("Denied"), conditioned("Denied", "Failed"), ["status.conditions: Forbidden"]),
        (conditioned(), conditioned("Other"), []),
        (conditioned("Approved", "Other"), conditioned("Approved"), []),
    ],
)
def test_what_an_approver_may_write(new: Obj, old: Obj, said: list[str]) -> None:
    found = [str(p) for p in signingrequests.approval_problems(new, old)]
    assert len(found) == len(said), found
    assert all(f.startswith(s) for f, s in zip(found, said, strict=True)), found


def test_approvals_get_their_times_once() -> None:
    own = {"type": "Approved", "status": "True", "lastUpdateTime": "then"}
    new = {"spec": {"a": 1}, "status": {"certificate": "c", "conditions": [own, {"type": "Other"}]}}
    found = signingrequests.approved_at(new, "now")
    assert found["spec"] == {"a": 1} and found["status"]["certificate"] == "c"
    assert found["status"]["conditions"] == [
        {**own, "lastTransitionTime": "now"},
        {"type": "Other", "lastUpdateTime": "now", "lastTransitionTime": "now"},
    ]
    bare: Obj = {"status": {"conditions": []}}
    assert signingrequests.approved_at(bare, "now") is bare
