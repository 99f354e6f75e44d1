"""What users configured, where it goes wrong: webhooks' answers, conditions that fail, parameters, second rounds."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from admissionrequests import ALICE, World, namespace, pod, request

from fairway.admission.policies.conditions import are_met
from fairway.admission.policies.matching import matcher_of, webhook_matcher
from fairway.admission.request import (
    CREATE,
    DELETE,
    UPDATE,
    AdmissionRequest,
    Admitted,
    CallWebhook,
    Denied,
    User,
    WebhookAnswer,
    status_body,
)
from fairway.admission.webhooks.reviews import Response, rejection, response_of
from fairway.kube.objects import Obj
from fairway.kube.validation.validating import validate

API = "admissionregistration.k8s.io/v1"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}
LABEL = {"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}}


def hooks(kind: str, *webhooks: dict[str, Any], name: str = "w") -> Obj:
    common = {"rules": [PODS], "clientConfig": {"url": "https://127.0.0.1/x"}, "sideEffects": "None"}
    meta = {"name": name}
    return {
        "apiVersion": API,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": meta,
        "webhooks": [{**common, **w} for w in webhooks],
    }


def encoded(operations: Any) -> str:
    return base64.b64encode(json.dumps(operations).encode()).decode()


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"patch": encoded(operations), "patchType": "JSONPatch"}


class Server:
    """Answers calls as told, and remembers whom it was asked about what."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[CallWebhook] = []

    def __call__(self, call: CallWebhook) -> WebhookAnswer:
        self.calls.append(call)
        answer = self.answers[call.webhook.partition(".")[0]]
        if isinstance(answer, str):
            return WebhookAnswer(error=answer)
        response = {"uid": call.body["request"]["uid"], "allowed": True, **answer}
        return WebhookAnswer(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )

    @property
    def asked(self) -> list[str]:
        return [call.webhook.partition(".")[0] for call in self.calls]


def world(*objects: Obj) -> World:
    return World(namespace("team-a"), *objects)


# The AdmissionReview that comes back.

GOOD = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}


def reviewed(response: Any, *, is_mutating: bool = True, **fields: Any) -> Response | str:
    return response_of({**GOOD, "response": response, **fields}, "u", is_mutating=is_mutating)


@pytest.mark.parametrize(
    ("response", "fields", "said"),
    [
        (None, {}, "webhook response was absent"),
        ({"uid": 7}, {}, "json: cannot unmarshal response: "),
        ({"uid": "u", "allowed": "yes"}, {}, "json: cannot unmarshal response: "),
        ({"uid": "x"}, {}, 'expected response.uid="u", got "x"'),
        ({}, {}, 'expected response.uid="u", got ""'),
        (
            {"uid": "u"},
            {"apiVersion": "admission.k8s.io/v1beta1"},
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got "
            "admission.k8s.io/v1beta1, Kind=AdmissionReview",
        ),
        (
            {"uid": "u"},
            {"kind": None},
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1, Kind=",
        ),
        (
            {"uid": "u", "patch": encoded([])},
            {},
            "webhook returned response.patch but not response.patchType",
        ),
        (
            {"uid": "u", "patchType": "JSONPatch"},
            {},
            "webhook returned response.patchType but not response.patch",
        ),
        (
            {"uid": "u", "allowed": True, "patch": encoded([]), "patchType": "Merge"},
            {},
            'unsupported patch type "Merge"',
        ),
        (
            {"uid": "u", "allowed": True, "patch": "!", "patchType": "JSONPatch"},
            {},
            "received undecodable patch in webhook response: ",
        ),
        (
            {"uid": "u", "allowed": True, "patch": encoded({}), "patchType": "JSONPatch"},
            {},
            "received undecodable patch in webhook response: not a list of operations",
        ),
        (
            {"uid": "u", "allowed": True, "patch": encoded([LABEL, 1]), "patchType": "JSONPatch"},
            {},
            "received undecodable patch in webhook response: not a list of operations",
        ),
    ],
)
def test_what_is_no_answer(response: Any, fields: dict[str, Any], said: str) -> None:
    found = reviewed(response, **fields)
    assert isinstance(found, str)
    assert found.startswith(said)


def test_what_is_an_answer() -> None:
    full = {
        "uid": "u",
        "allowed": True,
        "status": {"message": "m"},
        "warnings": ["w"],
        "auditAnnotations": {"k": "v"},
        **patch(LABEL),
    }
    assert reviewed(full) == Response(True, {"message": "m"}, ("w",), (("k", "v"),), [LABEL])
    assert reviewed({"uid": "u"}) == Response(False, None, (), (), None)
    refused = reviewed({"uid": "u", "allowed": False, **patch(LABEL)})
    assert isinstance(refused, Response)
    assert refused.patch is None, "what is refused is not changed"
    for field, value in (("patch", "x"), ("patchType", "JSONPatch")):
        said = reviewed({"uid": "u", field: value}, is_mutating=False)
        assert said == f"validating webhook may not return response.{field}"
    assert isinstance(reviewed({"uid": "u"}, is_mutating=False), Response)


@pytest.mark.parametrize(
    ("code", "want"), [(None, 400), (200, 400), (399, 400), (403, 403), (599, 599), (700, 599)]
)
def test_a_refusal_has_the_code_of_a_failure(code: int | None, want: int) -> None:
    told = {"code": code, "reason": "NotToday", "details": {"kind": "x"}, "metadata": {"a": "b"}}
    assert rejection("h", told) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'admission webhook "h" denied the request: NotToday',
        "reason": "NotToday",
        "details": {"kind": "x"},
        "code": want,
    }
    assert rejection("h", None)["message"] == 'admission webhook "h" denied the request without explanation'


def test_the_review_that_is_sent() -> None:
    old = pod()
    server = Server(v={})
    asked = request(
        pod(),
        UPDATE,
        old,
        subresource="status",
        dry_run=True,
        options={"kind": "UpdateOptions"},
        user=User("bob", ("g",), "42", (("k", ("v", "w")),)),
    )
    rule = {**PODS, "resources": ["pods/status"]}
    configured = hooks("Validating", {"name": "v.x.io", "rules": [rule], "timeoutSeconds": 3})
    here = world(configured)
    assert isinstance(here.validate(asked, server), Admitted)
    here.validate(request(pod("other"), UPDATE, old, subresource="status"), server)
    body = server.calls[0].body["request"]
    kind, resource = {"group": "", "version": "v1", "kind": "Pod"}, {"group": "", "version": "v1"}
    resource["resource"] = "pods"
    assert body == {
        "uid": body["uid"],
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "subResource": "status",
        "requestSubResource": "status",
        "name": "p",
        "namespace": "team-a",
        "operation": "UPDATE",
        "userInfo": {"username": "bob", "uid": "42", "groups": ["g"], "extra": {"k": ["v", "w"]}},
        "object": pod(),
        "oldObject": old,
        "dryRun": True,
        "options": {"kind": "UpdateOptions"},
    }
    assert server.calls[0].timeout_s == 3
    assert body["uid"] != server.calls[1].body["request"]["uid"], "every call has an identity of its own"
    assert not server.calls[0].is_mutating


# Mutating webhooks, one after the other.


def mutated(server: Server, *webhooks: dict[str, Any], asked: AdmissionRequest | None = None) -> Any:
    return world(hooks("Mutating", *webhooks)).mutate(asked or request(pod()), server)


def test_each_webhook_sees_what_the_one_before_left() -> None:
    first = patch({"op": "add", "path": "/metadata/labels", "value": {"one": "1"}})
    second = patch({"op": "add", "path": "/metadata/labels/two", "value": "2"})
    server = Server(a=first, b=second, c={})
    done = mutated(server, {"name": "a.x.io"}, {"name": "b.x.io"}, {"name": "c.x.io"})
    assert done.obj["metadata"]["labels"] == {"one": "1", "two": "2"}
    assert [c.body["request"]["object"]["metadata"].get("labels") for c in server.calls] == [
        None,
        {"one": "1"},
        {"one": "1", "two": "2"},
    ]


def test_a_refusal_ends_it_and_what_was_said_before_stays() -> None:
    server = Server(a={"warnings": ["careful"], "auditAnnotations": {"k": "v"}}, b={"allowed": False}, c={})
    done = mutated(server, {"name": "a.x.io"}, {"name": "b.x.io"}, {"name": "c.x.io"})
    assert isinstance(done, Denied)
    assert done.plugin == "MutatingAdmissionWebhook"
    assert done.message == 'admission webhook "b.x.io" denied the request without explanation'
    assert (done.warnings, done.audit) == (("careful",), {"a.x.io/k": "v"})
    assert server.asked == ["a", "b"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("timeout", "failed to call webhook: timeout"),
        ({"uid": "x"}, "received invalid webhook response: expected response.uid="),
        ({"patch": "x", "patchType": "Merge"}, 'unsupported patch type "Merge"'),
        ({"patch": "!", "patchType": "JSONPatch"}, "received undecodable patch in webhook response: "),
    ],
)
def test_a_failed_call_refuses_or_is_passed_over(answer: Any, said: str) -> None:
    done = mutated(Server(a=answer), {"name": "a.x.io"})
    assert isinstance(done, Denied)
    assert done.code == 500
    prefix = 'failed calling webhook "a.x.io": '
    assert done.message.startswith(f"Internal error occurred: {prefix}{said}")
    assert done.status["details"]["causes"][0]["message"].startswith(prefix)
    server = Server(a=answer, b=patch(LABEL))
    passed = mutated(server, {"name": "a.x.io", "failurePolicy": "Ignore"}, {"name": "b.x.io"})
    assert passed.obj["metadata"]["labels"] == {"by": "hook"}
    assert passed.audit == {"failed-open.mutation.webhook.admission.k8s.io/round_0_index_0": "a.x.io"}


def test_a_second_round_has_its_own_number() -> None:
    class Tired(Server):
        def __call__(self, call: CallWebhook) -> WebhookAnswer:
            self.answers["a"] = "timeout" if "a" in self.asked else {}
            return super().__call__(call)

    again = {"name": "a.x.io", "reinvocationPolicy": "IfNeeded", "failurePolicy": "Ignore"}
    server = Tired(a={}, b=patch(LABEL))
    done = mutated(server, again, {"name": "b.x.io"})
    assert server.asked == ["a", "b", "a"]
    assert done.audit == {"failed-open.mutation.webhook.admission.k8s.io/round_1_index_0": "a.x.io"}
    again.pop("failurePolicy")
    refused = mutated(Tired(a={}, b=patch(LABEL)), again, {"name": "b.x.io"})
    assert isinstance(refused, Denied)
    assert refused.plugin == "MutatingAdmissionWebhook"


def test_nobody_is_asked_twice_where_nothing_changed() -> None:
    server = Server(a={}, b={})
    again = {"reinvocationPolicy": "IfNeeded"}
    mutated(server, {"name": "a.x.io", **again}, {"name": "b.x.io", **again})
    assert server.asked == ["a", "b"]


def test_what_has_no_object_cannot_be_patched() -> None:
    asked = request(None, DELETE, pod())
    done = mutated(Server(a=patch(LABEL)), {"name": "a.x.io"}, asked=asked)
    assert isinstance(done, Denied)
    assert done.message == (
        'Internal error occurred: admission webhook "a.x.io" attempted to modify the object, '
        "which is not supported for this operation"
    )
    assert isinstance(mutated(Server(a={}), {"name": "a.x.io"}, asked=asked), Admitted)


def test_a_patch_may_not_make_another_object_of_it() -> None:
    renamed = patch({"op": "replace", "path": "/metadata/name", "value": "other"})
    done = mutated(Server(a=renamed), {"name": "a.x.io"})
    assert isinstance(done, Denied)
    assert done.code == 422


def test_a_dry_run_stops_at_side_effects() -> None:
    for kind, steps in (("Mutating", "mutate"), ("Validating", "validate")):
        for effects, is_fine in (("None", True), ("NoneOnDryRun", True), ("Some", False), (None, False)):
            webhooks = [{"name": "a.x.io", "sideEffects": effects}, {"name": "b.x.io"}]
            here, server = world(hooks(kind, *webhooks)), Server(a={}, b={})
            done = getattr(here, steps)(request(pod(), dry_run=True), server)
            assert isinstance(done, Admitted) == is_fine
            if not is_fine:
                assert (done.code, done.status["reason"]) == (400, "BadRequest")
            assert isinstance(getattr(here, steps)(request(pod()), server), Admitted)


def test_all_validating_webhooks_are_asked_and_the_first_refusal_counts() -> None:
    no = {"allowed": False, "status": {"message": "no"}}
    configured = hooks("Validating", {"name": "a.x.io"}, {"name": "b.x.io"}, {"name": "c.x.io"})
    server = Server(a={"warnings": ["w"]}, b=no, c={"allowed": False, "warnings": ["late"]})
    done = world(configured).validate(request(pod()), server)
    assert isinstance(done, Denied)
    assert done.message == 'admission webhook "b.x.io" denied the request: no'
    assert server.asked == ["a", "b", "c"]
    assert done.warnings == ("w",)
    assert done.plugin == "ValidatingAdmissionWebhook"


# Conditions: one that is false excuses, one that fails refuses.


def _noted(done: Admitted) -> dict[str, str]:
    """The annotations that what is configured leaves: Pod Security notes its own."""
    return {key: value for key, value in done.audit.items() if not key.startswith("pod-security.")}


FAILS = {"name": "f", "expression": "object.spec.nothing == 1"}
ALSO = {"name": "g", "expression": "object.spec.missing == 1"}
TRUE, FALSE = {"name": "t", "expression": "true"}, {"name": "n", "expression": "false"}


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        ([], "called"),
        ([TRUE], "called"),
        ([TRUE, FALSE], "excused"),
        ([FAILS], "failed"),
        ([FAILS, TRUE], "failed"),
        ([FAILS, FALSE], "excused"),
        ([FALSE, FAILS], "excused"),
        ([FAILS, ALSO], "failed"),
    ],
)
def test_conditions_of_webhooks(kind: str, conditions: list[dict[str, str]], want: str) -> None:
    for policy in ("Fail", "Ignore"):
        server = Server(a={}, b={})
        first = {"name": "a.x.io", "matchConditions": conditions, "failurePolicy": policy}
        here = world(hooks(kind, first, {"name": "b.x.io"}))
        done = (here.mutate if kind == "Mutating" else here.validate)(request(pod()), server)
        assert ("a" in server.asked) == (want == "called")
        if want != "failed" or policy == "Ignore":
            assert isinstance(done, Admitted)
            assert server.asked[-1] == "b"
            assert not _noted(done), "conditions that fail are not noted as calls that failed"
            continue
        assert isinstance(done, Denied)
        assert (done.code, done.status["reason"]) == (403, "Forbidden")
        assert done.message.startswith('pods "p" is forbidden: ')
        assert ("[expression" in done.message) == (len(conditions) == 2 and ALSO in conditions)
        assert done.status["details"] == {"name": "p", "kind": "pods"}


def test_a_forbidden_request_names_its_group() -> None:
    rule = {**PODS, "apiGroups": ["apps"], "resources": ["deployments"]}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generateName": "d-"}}
    deployment["metadata"]["namespace"] = "team-a"
    configured = hooks("Validating", {"name": "a.x.io", "rules": [rule], "matchConditions": [FAILS]})
    done = world(configured).validate(request(deployment, name=""))
    assert isinstance(done, Denied)
    assert done.message.startswith("deployments.apps is forbidden: ")
    assert done.status["details"] == {"group": "apps", "kind": "deployments"}


def test_errors_are_said_once() -> None:
    """As Go aggregates: each once, brackets only around several."""
    from fairway.admission.cel.compiling import Error

    same, other = Error("broken", "compile"), Error("torn", "compile")
    one, two = "compilation error: broken", "compilation error: torn"
    assert are_met((same,), lambda p: True) == one
    assert are_met((same, same), lambda p: True) == one
    assert are_met((same, other, same), lambda p: True) == f"[{one}, {two}]"
    assert are_met((), lambda p: True) is True


# Whom a rule is about: an oracle over small worlds.


def test_rules_are_about_what_they_say() -> None:
    """Every operation, group, version, resource, name and scope, stated or `*`, against requests around it."""
    thing = {
        "operations": ["CREATE"],
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": ["deployments"],
    }
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment"}
    deployment["metadata"] = {"name": "d", "namespace": "team-a"}
    asked = request(deployment)
    view = world().store

    def matches(asked: AdmissionRequest, **fields: Any) -> bool:
        rule = {**thing, **fields}
        both = matcher_of({"resourceRules": [rule]}), webhook_matcher({"rules": [rule]})
        found = {m.match(view, asked) is not None for m in both}
        assert len(found) == 1
        excluded = matcher_of({"excludeResourceRules": [rule]})
        assert (excluded.match(view, asked) is None) == (True in found)
        return found.pop()

    assert matches(asked)
    for field, stated in (
        ("operations", ["UPDATE"]),
        ("apiGroups", [""]),
        ("apiVersions", ["v2"]),
        ("resources", ["replicasets"]),
        ("resources", ["deployments/status"]),
        ("resources", ["*/status"]),
        ("resourceNames", ["x"]),
        ("scope", "Cluster"),
    ):
        assert not matches(asked, **{field: stated}), field
    for field, stated in (
        ("operations", ["*"]),
        ("operations", ["UPDATE", "CREATE"]),
        ("apiGroups", ["*"]),
        ("apiVersions", ["*"]),
        ("resources", ["*"]),
        ("resources", ["*/*"]),
        ("resources", ["deployments/*"]),
        ("resourceNames", ["x", "d"]),
        ("scope", "Namespaced"),
        ("scope", "*"),
    ):
        assert matches(asked, **{field: stated}), field
    status = request(deployment, subresource="status")
    for resources, wanted in (
        (["deployments"], False),
        (["*"], False),
        (["deployments/status"], True),
        (["*/status"], True),
        (["deployments/*"], True),
        (["deployments/scale"], False),
    ):
        assert matches(status, resources=resources) == wanted, resources


def test_what_lies_in_no_namespace_is_of_the_cluster() -> None:
    view = world().store
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    for obj, is_cluster in ((node, True), (namespace("x"), True), (pod(), False)):
        asked = request(obj)
        if obj["kind"] == "Namespace":
            asked.namespace = "x"  # as the server fills it in
        for scope in ("Cluster", "Namespaced"):
            rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
            found = matcher_of({"resourceRules": [{**rule, "scope": scope}]}).match(view, asked)
            assert (found is not None) == (is_cluster == (scope == "Cluster")), (obj["kind"], scope)


def test_selectors_look_at_the_namespace_and_at_both_objects() -> None:
    here = World(namespace("team-a", {"team": "a"}))
    view = here.store
    wants = {"matchLabels": {"x": "y"}}
    marked, plain = pod(), pod()
    marked["metadata"]["labels"] = {"x": "y"}
    by_object = matcher_of({"objectSelector": wants})
    for obj, old, matches in (
        (marked, None, True),
        (plain, None, False),
        (plain, marked, True),
        (marked, plain, True),
        (None, marked, True),
        (None, plain, False),
    ):
        asked = request(obj, CREATE if old is None else UPDATE if obj else DELETE, old)
        assert (by_object.match(view, asked) is not None) == matches
    of_team = matcher_of({"namespaceSelector": {"matchLabels": {"team": "a"}}})
    of_name = matcher_of({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}}})
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    assert of_team.match(view, request(pod())) is not None
    assert of_team.match(view, request(pod(home="team-b"))) is None
    assert of_team.match(view, request(node)) is not None, "what lies in no namespace is never excused"
    assert of_name.match(view, request(pod(home="nowhere"))) is not None
    # A namespace being written goes by the labels it is about to have; one that goes by those it has.
    assert of_team.match(view, request(namespace("new", {"team": "a"}))) is not None
    assert of_team.match(view, request(namespace("new"))) is None
    stripped = request(namespace("team-a"), UPDATE, namespace("team-a", {"team": "a"}))
    assert of_team.match(view, stripped) is None
    going = request(None, DELETE, namespace("team-a", {"team": "a"}))
    assert of_team.match(view, going) is not None
    finalized = request(namespace("team-a"), UPDATE, namespace("team-a"), subresource="finalize")
    assert of_team.match(view, finalized) is not None


# Services of webhooks.


def wrong_with(obj: Obj) -> list[str]:
    return [str(problem) for problem in validate(obj)]


@pytest.mark.parametrize(
    ("service", "said"),
    [
        ({}, []),
        # Upstream hands over name and namespace the other way round.
        ({"name": ""}, ["namespace: Required value"]),
        ({"namespace": ""}, ["name: Required value"]),
        ({"port": 0}, ["port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"]),
        ({"port": 1}, []),
        ({"port": 65535}, []),
        (
            {"port": 65536},
            ["port: Invalid value: 65536: port is not valid: must be between 1 and 65535, inclusive"],
        ),
        ({"path": "/"}, []),
        ({"path": "/a/b.c"}, []),
        ({"path": "/a/"}, []),
        ({"path": "//"}, ['path: Invalid value: "//": segment[0] may not be empty']),
        ({"path": "/a//b"}, ['path: Invalid value: "/a//b": segment[1] may not be empty']),
        ({"path": "/a/_"}, ['path: Invalid value: "/a/_": segment[1]: a lowercase RFC 1123 subdomain must']),
    ],
)
def test_the_service_of_a_webhook(service: dict[str, Any], said: list[str]) -> None:
    config = {"service": {"name": "s", "namespace": "n", **service}}
    listed = wrong_with(
        hooks("Validating", {"name": "v.x.io", "admissionReviewVersions": ["v1"], "clientConfig": config})
    )
    at = "webhooks[0].clientConfig.service."
    assert len(listed) == len(said)
    for found, wanted in zip(listed, said, strict=True):
        assert found.startswith(at + wanted)


def test_a_path_starts_at_the_root() -> None:
    config = {"service": {"name": "s", "namespace": "n", "path": "ab"}}
    listed = wrong_with(
        hooks("Validating", {"name": "v.x.io", "admissionReviewVersions": ["v1"], "clientConfig": config})
    )
    assert listed[0] == (
        "webhooks[0].clientConfig.service.path: Invalid value: \"ab\": must start with a '/'"
    )


@pytest.mark.parametrize("field", ["operations", "apiGroups", "apiVersions", "resources"])
def test_a_rule_names_all_it_goes_by(field: str) -> None:
    rule = {k: v for k, v in PODS.items() if k != field}
    listed = wrong_with(
        hooks("Mutating", {"name": "v.x.io", "admissionReviewVersions": ["v1"], "rules": [rule]})
    )
    assert listed == [f"webhooks[0].rules[0].{field}: Required value"]


# Policies: parameters of custom kinds, what fails, what is noted.


def policy(*validations: dict[str, Any], **spec: Any) -> Obj:
    body = {"matchConstraints": {"resourceRules": [PODS]}, "validations": list(validations), **spec}
    return {"apiVersion": API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": body}


def binding(**spec: Any) -> Obj:
    body = {"policyName": "p", "validationActions": ["Deny"], **spec}
    return {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"},
        "spec": body,
    }


def definition(scope: str) -> Obj:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "limits.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"kind": "Limit", "plural": "limits"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }


KNOWN = {"apiVersion": "v1", "kind": "ConfigMap"}
ON_NODES = {"apiVersion": "v1", "kind": "Node"}


@pytest.mark.parametrize("failure", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("kind", "ref", "said"),
    [
        (
            ON_NODES,
            {"name": "x", "namespace": "team-a"},
            "paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
        ),
        (
            {"apiVersion": "example.com/v1", "kind": "Other"},
            {"name": "x"},
            "paramKind kind `&ParamKind{APIVersion:example.com/v1,Kind:Other,}` not known",
        ),
        (
            {"apiVersion": "example.com/v1", "kind": "Limit"},
            {"name": "x", "namespace": "team-a"},
            "paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
        ),
        (
            KNOWN,
            {"name": "x", "parameterNotFoundAction": "Deny"},
            "no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
    ],
)
def test_parameters_that_are_not_there(failure: str, kind: Obj, ref: Obj, said: str) -> None:
    here = world(
        definition("Cluster"),
        policy({"expression": "false"}, paramKind=kind, failurePolicy=failure),
        binding(paramRef=ref, validationActions=["Warn"]),
    )
    done = here.validate(request(pod()))
    if failure == "Ignore":
        assert isinstance(done, Admitted)
        assert not done.warnings
        return
    assert isinstance(done, Denied), "a wrong configuration refuses whatever the binding does"
    assert done.message.endswith(f"denied request: failed to configure binding: {said}")


def test_parameters_of_the_cluster_and_requests_in_no_namespace() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"a": "b"}}}
    only = {"expression": "params.metadata.labels.a == 'b'"}
    of_node = world(node, policy(only, paramKind=ON_NODES), binding(paramRef={"name": "n"}))
    assert isinstance(of_node.validate(request(pod())), Admitted)
    rule = {**PODS, "resources": ["nodes"]}
    constrained = policy(only, paramKind=KNOWN, matchConstraints={"resourceRules": [rule]})
    done = world(constrained, binding(paramRef={"name": "x"})).validate(request(node))
    assert isinstance(done, Denied)
    assert "cannot use namespaced paramRef in policy binding that matches cluster-scoped" in done.message


@pytest.mark.parametrize("failure", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("'  noted  '", ("p/k", "noted")),
        ("'   '", None),
        ("null", None),
        ("object.spec.nothing", "expression 'object.spec.nothing' resulted in error: no such key: nothing"),
        (
            "dyn(1)",
            "valueExpression 'dyn(1)' resulted in unsupported return type: int. "
            "Return type must be either string or null.",
        ),
    ],
)
def test_annotations_of_a_policy(failure: str, expression: str, said: Any) -> None:
    noted = [{"key": "k", "valueExpression": expression}]
    here = world(policy(auditAnnotations=noted, failurePolicy=failure), binding(validationActions=["Audit"]))
    done = here.validate(request(pod()))
    fails = isinstance(said, str) and (failure == "Fail" or "unsupported" in said)
    assert isinstance(done, Denied) == fails
    if fails:
        assert done.message.endswith(f"denied request: {said}")
    else:
        assert _noted(done) == (dict([said]) if isinstance(said, tuple) else {})


@pytest.mark.parametrize("failure", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("conditions", "is_asked"), [([TRUE], True), ([FALSE], False), ([FALSE, FAILS], False), ([FAILS], None)]
)
def test_conditions_of_policies(failure: str, conditions: list[Any], is_asked: bool | None) -> None:
    never = {"expression": "false", "message": "never"}
    here = world(policy(never, matchConditions=conditions, failurePolicy=failure), binding())
    done = here.validate(request(pod()))
    if is_asked or (is_asked is None and failure == "Fail"):
        assert isinstance(done, Denied)
        assert done.message.endswith("never" if is_asked else "resulted in error: no such key: nothing")
    else:
        assert isinstance(done, Admitted)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("'  said  '", "said"),
        ("''", "stated"),
        ("'  '", "stated"),
        ("'two\\nlines'", "stated"),
        ("object.spec.nothing", "stated"),
        ("'x'.replace('x', '0123456789').replace('0', 'y')", "y123456789"),
    ],
)
def test_the_message_of_a_policy(text: str, want: str) -> None:
    no = {"expression": "false", "message": " stated ", "messageExpression": text}
    done = world(policy(no), binding()).validate(request(pod()))
    assert isinstance(done, Denied)
    assert done.message.endswith(f"denied request: {want}")


def test_policies_that_mutate_say_why_they_fail() -> None:
    def mutating(expression: str, patch_type: str = "ApplyConfiguration", **spec: Any) -> Obj:
        field = "applyConfiguration" if patch_type == "ApplyConfiguration" else "jsonPatch"
        mutation = {"patchType": patch_type, field: {"expression": expression}}
        body = {"matchConstraints": {"resourceRules": [PODS]}, "mutations": [mutation], **spec}
        return {"apiVersion": API, "kind": "MutatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": body}

    bound = {"apiVersion": API, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "b"}}
    bound["spec"] = {"policyName": "p"}
    own = "policy 'p' with binding 'b' denied request: "
    renamed = "Object{metadata: Object.metadata{name: 'other'}}"
    good = "Object{metadata: Object.metadata{labels: Object.metadata.labels{by: 'policy'}}}"
    for made, said in (
        (mutating("Object{metadata: object.spec.nothing}"), "resulted in error: no such key: nothing"),
        (mutating(renamed), 'Invalid value: "other": field is immutable'),
        (mutating("[JSONPatch{op: 'add', path: '/nothing/x', value: 1}]", "JSONPatch"), "JSON Patch: "),
        (mutating(good, matchConditions=[FAILS]), "resulted in error: no such key: nothing"),
        (mutating(good, paramKind={"apiVersion": "x/v1", "kind": "Y"}), "not known"),
    ):
        bound["spec"]["paramRef"] = {"name": "x"} if made["spec"].get("paramKind") else None
        refused = world(made, bound).mutate(request(pod()))
        assert isinstance(refused, Denied), said
        assert own in refused.message
        assert said in refused.message
        assert refused.plugin == "MutatingAdmissionPolicy"
        assert refused.status["details"]["causes"][0]["message"].startswith(own)
        made["spec"]["failurePolicy"] = "Ignore"
        passed = world(made, bound).mutate(request(pod()))
        assert isinstance(passed, Admitted)
        assert passed.obj is not None
        assert "labels" not in passed.obj["metadata"]
    anything = {**PODS, "operations": ["*"]}
    made = mutating(good, matchConstraints={"resourceRules": [anything]})
    gone = world(made, bound).mutate(request(None, DELETE, pod()))
    assert gone == Admitted(None), "what goes is not changed"
    bound["spec"]["paramRef"] = None
    done = world(mutating(good, matchConditions=[TRUE]), bound).mutate(request(pod()))
    assert isinstance(done, Admitted)
    assert done.obj is not None
    assert done.obj["metadata"]["labels"] == {"by": "policy"}
    excused = world(mutating(good, matchConditions=[FALSE]), bound).mutate(request(pod()))
    assert isinstance(excused, Admitted)
    assert excused.obj is not None
    assert "labels" not in excused.obj["metadata"]


def test_a_status_leaves_out_what_nobody_said() -> None:
    assert "reason" not in status_body(500, "", "m")
    assert "details" not in status_body(500, "x", "m", {})
    assert status_body(400, "r", "m", {"a": 1})["details"] == {"a": 1}
    assert User("x").info() == {"username": "x"}
    assert ALICE.info() == {"username": "alice", "groups": ["system:authenticated"]}
