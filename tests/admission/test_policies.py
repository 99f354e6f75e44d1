"""ValidatingAdmissionPolicies and MutatingAdmissionPolicies, in Kubernetes' words."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from admissionrequests import ALICE, World, namespace, pod, request

from fairway.admission.policies.index import PolicyIndex
from fairway.admission.policies.matching import matcher_of, webhook_matcher
from fairway.admission.policies.mutating import as_maps
from fairway.admission.request import (
    DELETE,
    UPDATE,
    AdmissionRequest,
    Admitted,
    CallWebhook,
    Denied,
    Gvk,
    WebhookAnswer,
)
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj

API = "admissionregistration.k8s.io/v1"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}


def policy(*validations: dict[str, Any], name: str = "p", rules: Any = (PODS,), **spec: Any) -> Obj:
    constraints = {"resourceRules": list(rules), **spec.pop("constraints", {})}
    return {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": constraints, "validations": list(validations), **spec},
    }


def binding(*actions: str, name: str = "b", to: str = "p", **spec: Any) -> Obj:
    return {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": to, "validationActions": list(actions or ("Deny",)), **spec},
    }


def world(*objects: Obj) -> World:
    return World(namespace("team-a", {"team": "a"}), *objects)


NO = {"expression": "false", "message": "never"}


def test_a_denial_has_kubernetes_words() -> None:
    expression = "object.spec.containers.size() > 1"
    refused = world(policy({"expression": expression}), binding()).validate(request(pod()))
    assert isinstance(refused, Denied)
    sentence = (
        f"ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: {expression}"
    )
    assert refused.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'pods "p" is forbidden: {sentence}',
        "reason": "Invalid",
        "code": 422,
        "details": {"name": "p", "kind": "pods", "causes": [{"message": sentence}]},
    }


MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "the message": ({"expression": "false", "message": " too bad "}, "too bad"),
    "an expression": (
        {"expression": "false", "messageExpression": "'pod ' + object.metadata.name"},
        "pod p",
    ),
    "an expression that fails gives way": (
        {"expression": "false", "message": "m", "messageExpression": "object.missing"},
        "m",
    ),
    "an expression of several lines gives way": (
        {"expression": "false", "message": "m", "messageExpression": "'a\\nb'"},
        "m",
    ),
    "an empty one gives way": (
        {"expression": "false", "messageExpression": "' '"},
        "failed expression: false",
    ),
    "an expression as long as may be": (
        {"expression": "false", "message": "m", "messageExpression": f"'{'x' * 5118}ä'"},
        "x" * 5118 + "ä",
    ),
    "one of a byte more gives way": (
        {"expression": "false", "message": "m", "messageExpression": f"'{'x' * 5119}ä'"},
        "m",
    ),
    "an error is the message": (
        {"expression": "object.missing == 1"},
        "expression 'object.missing == 1' resulted in error: no such key: missing",
    ),
    "what does not compile": (
        {"expression": "nope"},
        "compilation error: compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container "
        "'')\n | nope\n | ^",
    ),
    "a call that does not end": (
        {"expression": "format.uri().validate('x'"},
        "compilation error: compilation failed: ERROR: <input>:1:26: Syntax error: missing ')' at '<EOF>'\n"
        " | format.uri().validate('x'\n | .........................^",
    ),
    "not a bool": ({"expression": "1"}, "compilation error: must evaluate to bool but got int"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name: str) -> None:
    validation, want = MESSAGES[name]
    refused = world(policy(validation), binding()).validate(request(pod()))
    assert isinstance(refused, Denied)
    assert refused.message == (
        f"pods \"p\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {want}"
    )


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("Forbidden", 403),
        ("Unauthorized", 401),
        ("RequestEntityTooLarge", 413),
        ("Invalid", 422),
        ("Odd", 422),
    ],
)
def test_reasons_have_codes(reason: str, code: int) -> None:
    refused = world(policy({**NO, "reason": reason}), binding()).validate(request(pod()))
    assert isinstance(refused, Denied)
    assert (refused.status["reason"], refused.code) == (reason, code)


def test_warn_and_audit_let_it_through() -> None:
    outcome = world(policy(NO), binding("Warn", "Audit")).validate(request(pod()))
    assert isinstance(outcome, Admitted)
    assert outcome.warnings == (
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': never",
    )
    noted = json.loads(outcome.audit["validation.policy.admission.k8s.io/validation_failure"])
    want = {"message": "never", "policy": "p", "binding": "b", "expressionIndex": 0}
    assert noted == [{**want, "validationActions": ["Warn", "Audit"]}]


def test_of_many_failures_so_many_are_noted() -> None:
    many = [{"expression": "false", "message": str(i)} for i in range(51)]
    outcome = world(policy(*many), binding("Audit")).validate(request(pod()))
    assert isinstance(outcome, Admitted)
    noted = json.loads(outcome.audit["validation.policy.admission.k8s.io/validation_failure"])
    assert [n["message"] for n in noted] == [str(i) for i in range(50)]


@pytest.mark.parametrize(
    ("text", "want"),
    [("x" * 10_240, "x" * 10_240), ("x" * 10_241, "x" * 10_240), ("ä" * 5_121, "ä" * 5_120)],
)
def test_an_audit_annotation_has_so_many_bytes(text: str, want: str) -> None:
    noting = policy({"expression": "true"}, auditAnnotations=[{"key": "k", "valueExpression": f"' {text} '"}])
    outcome = world(noting, binding()).validate(request(pod()))
    assert isinstance(outcome, Admitted)
    assert outcome.audit["p/k"] == want


# Who is asked. name → (policy changes, binding changes, is it asked?)
MATCHING: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "its resource": ({}, {}, True),
    "another resource": ({"rules": [{**PODS, "resources": ["services"]}]}, {}, False),
    "every resource": ({"rules": [{**PODS, "resources": ["*"], "apiGroups": ["*"]}]}, {}, True),
    "every subresource is not the resource": ({"rules": [{**PODS, "resources": ["pods/exec"]}]}, {}, False),
    "another operation": ({"rules": [{**PODS, "operations": ["DELETE"]}]}, {}, False),
    "every operation": ({"rules": [{**PODS, "operations": ["*"]}]}, {}, True),
    "another version, exactly": (
        {"rules": [{**PODS, "apiVersions": ["v2"]}], "constraints": {"matchPolicy": "Exact"}},
        {},
        False,
    ),
    "cluster scope": ({"rules": [{**PODS, "scope": "Cluster"}]}, {}, False),
    "namespaced scope": ({"rules": [{**PODS, "scope": "Namespaced"}]}, {}, True),
    "by name": ({"rules": [{**PODS, "resourceNames": ["p"]}]}, {}, True),
    "by another name": ({"rules": [{**PODS, "resourceNames": ["q"]}]}, {}, False),
    "excluded": ({"constraints": {"excludeResourceRules": [PODS]}}, {}, False),
    "the namespace's labels": (
        {"constraints": {"namespaceSelector": {"matchLabels": {"team": "a"}}}},
        {},
        True,
    ),
    "other labels of the namespace": (
        {"constraints": {"namespaceSelector": {"matchLabels": {"team": "b"}}}},
        {},
        False,
    ),
    "the name of the namespace": (
        {
            "constraints": {
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["team-a"]}
                    ]
                }
            }
        },
        {},
        False,
    ),
    "the object's labels": ({"constraints": {"objectSelector": {"matchLabels": {"x": "y"}}}}, {}, False),
    "a condition that holds": (
        {"matchConditions": [{"name": "c", "expression": "object != null"}]},
        {},
        True,
    ),
    "a condition that does not": ({"matchConditions": [{"name": "c", "expression": "false"}]}, {}, False),
    "a false condition excuses a broken one": (
        {"matchConditions": [{"name": "x", "expression": "object.no"}, {"name": "c", "expression": "false"}]},
        {},
        False,
    ),
    "the binding's own selector": (
        {},
        {"matchResources": {"namespaceSelector": {"matchLabels": {"team": "b"}}}},
        False,
    ),
    "the binding's own rules": ({}, {"matchResources": {"resourceRules": [PODS]}}, True),
    "bound to another policy": ({}, {"to": "other"}, False),
}


@pytest.mark.parametrize("name", MATCHING)
def test_who_is_asked(name: str) -> None:
    of_policy, of_binding, want = MATCHING[name]
    outcome = world(policy(NO, **of_policy), binding(**of_binding)).validate(request(pod()))
    assert isinstance(outcome, Denied) is want


def test_an_equivalent_version_matches() -> None:
    rule = {"apiGroups": ["autoscaling"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["*"]}
    asked = request(
        {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}}
    )
    found = matcher_of({"resourceRules": [rule]}).match(Store(), asked)
    assert found is not None
    assert (found.kind.version, found.resource.version) == ("v2", "v2")


def test_a_policy_without_a_binding_has_no_say() -> None:
    assert isinstance(world(policy(NO)).validate(request(pod())), Admitted)


def test_policies_cannot_forbid_mending_them() -> None:
    anything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    asked = request(binding(name="c"))
    assert isinstance(world(policy(NO, rules=[anything]), binding()).validate(asked), Admitted)


def test_a_new_binding_counts_at_once_and_a_deleted_one_no_more() -> None:
    here = world(policy(NO))
    assert isinstance(here.validate(request(pod())), Admitted)
    here.add(binding())
    assert isinstance(here.validate(request(pod())), Denied)
    here.store.delete(Key("ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io", "", "b"))
    assert isinstance(here.validate(request(pod())), Admitted)


@pytest.mark.parametrize("broken", ["object.missing == 1", "nope"])
def test_a_policy_may_fail_open(broken: str) -> None:
    lenient = policy({"expression": broken}, failurePolicy="Ignore")
    assert isinstance(world(lenient, binding()).validate(request(pod())), Admitted)


EXPRESSIONS = {
    "the operation": "request.operation == 'CREATE'",
    "the user": "request.userInfo.username == 'alice' && 'system:authenticated' in request.userInfo.groups",
    "the resource": "request.resource.resource == 'pods' && request.kind.kind == 'Pod'",
    "the namespace": "namespaceObject.metadata.labels['team'] == 'a' && request.namespace == 'team-a'",
    "no old object": "oldObject == null",
    "not a dry run": "!request.dryRun",
    "what the user may do": "!authorizer.group('').resource('nodes').check('delete').allowed()",
    "what the user may do here": "!authorizer.requestResource.check('create').allowed()",
    "a path": "!authorizer.path('/metrics').check('get').allowed()",
    "somebody else": "!authorizer.serviceAccount('ci', 'robot').group('').resource('pods').namespace('team-a')"
    ".check('list').allowed()",
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_what_expressions_see(name: str) -> None:
    outcome = world(policy({"expression": EXPRESSIONS[name]}), binding()).validate(request(pod()))
    assert isinstance(outcome, Admitted), outcome


def test_deletion_has_no_object() -> None:
    rules = [{**PODS, "operations": ["DELETE"]}]
    says = {"expression": "object == null && oldObject.metadata.name == 'p'"}
    outcome = world(policy(says, rules=rules), binding()).validate(request(None, DELETE, pod()))
    assert isinstance(outcome, Admitted), outcome


def test_an_update_sees_both() -> None:
    says = {"expression": "object.spec == oldObject.spec", "message": "the spec stays"}
    here = world(policy(says), binding())
    assert isinstance(here.validate(request(pod(), UPDATE, pod())), Admitted)
    assert isinstance(here.validate(request(pod(hostPID=True), UPDATE, pod())), Denied)


# Parameters

KIND = {"apiVersion": "v1", "kind": "ConfigMap"}


def limit(name: str, most: str, labels: dict[str, str] | None = None) -> Obj:
    meta = {"name": name, "namespace": "team-a", "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"most": most}}


AT_MOST = {"expression": "object.spec.containers.size() <= int(params.data.most)", "message": "too many"}
NO_PARAMS = (
    "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
)

# name → (paramRef, parameter objects, the denial's text or None)
PARAMS: dict[str, tuple[dict[str, Any], list[Obj], str | None]] = {
    "by name": ({"name": "one"}, [limit("one", "1")], None),
    "by name, exceeded": ({"name": "none"}, [limit("none", "0")], "too many"),
    "in a namespace of its own": ({"name": "one", "namespace": "team-a"}, [limit("one", "1")], None),
    "missing and allowed": ({"name": "no", "parameterNotFoundAction": "Allow"}, [], None),
    "missing and denied": ({"name": "no", "parameterNotFoundAction": "Deny"}, [], NO_PARAMS),
    "all that are selected must agree": (
        {"selector": {"matchLabels": {"for": "pods"}}},
        [limit("a", "1", {"for": "pods"}), limit("b", "0", {"for": "pods"}), limit("c", "0")],
        "too many",
    ),
    "name and selector": (
        {"name": "a", "selector": {}},
        [],
        "failed to configure binding: paramRef.name and paramRef.selector are mutually exclusive",
    ),
    "neither": (
        {"namespace": "x"},
        [],
        "failed to configure binding: one of name or selector must be provided",
    ),
}


@pytest.mark.parametrize("name", PARAMS)
def test_parameters(name: str) -> None:
    ref, objects, want = PARAMS[name]
    here = world(policy(AT_MOST, paramKind=KIND), binding(paramRef=ref), *objects)
    outcome = here.validate(request(pod()))
    if want is None:
        assert isinstance(outcome, Admitted), outcome
    else:
        assert isinstance(outcome, Denied)
        assert outcome.message.endswith(f"denied request: {want}")


def test_a_parameter_kind_nobody_knows() -> None:
    unknown = {"apiVersion": "example.com/v1", "kind": "Limit"}
    here = world(policy(AT_MOST, paramKind=unknown), binding(paramRef={"name": "x"}))
    outcome = here.validate(request(pod()))
    assert isinstance(outcome, Denied)
    assert "paramKind kind `&ParamKind{APIVersion:example.com/v1,Kind:Limit,}` not known" in outcome.message


def test_audit_annotations_are_published_under_the_policy() -> None:
    noted = [
        {"key": "name", "valueExpression": "'it is ' + object.metadata.name"},
        {"key": "none", "valueExpression": "''"},
    ]
    outcome = world(policy(auditAnnotations=noted), binding()).validate(request(pod()))
    assert outcome.audit["p/name"] == "it is p"
    assert "p/none" not in outcome.audit


def test_the_first_of_several_refusals_is_the_answer() -> None:
    objects = [policy({**NO, "message": m}, name=m) for m in ("beta", "alpha")]
    bindings = [binding(name=m, to=m) for m in ("beta", "alpha")]
    refused = world(*objects, *bindings).validate(request(pod()))
    assert isinstance(refused, Denied)
    assert "'alpha' with binding 'alpha'" in refused.message


# Mutating policies


def mutating(*mutations: dict[str, Any], name: str = "m", **spec: Any) -> list[Obj]:
    rules = {"resourceRules": [PODS]}
    body = {"matchConstraints": rules, "mutations": list(mutations), "reinvocationPolicy": "Never", **spec}
    meta = {"name": name}
    bound = {"policyName": name}
    return [
        {"apiVersion": API, "kind": "MutatingAdmissionPolicy", "metadata": meta, "spec": body},
        {"apiVersion": API, "kind": "MutatingAdmissionPolicyBinding", "metadata": meta, "spec": bound},
    ]


def apply(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


CONSTRUCTORS = {
    "Object{}": "{}",
    "Object{spec: Object.spec{replicas: 3}}": '{"spec": {"replicas":3}}',
    "Object{metadata: Object.metadata{labels: {'a': 'b'}}}": "{\"metadata\": {\"labels\": {'a': 'b'}}}",
    "[JSONPatch{op: 'add', path: '/a,b', value: [1, 2]}]": '[{"op": \'add\',"path": \'/a,b\',"value": [1, 2]}]',
    "x ? Object{a: 1} : Object{?b: c}": 'x ? {"a": 1} : {?"b": c}',
    "Object{spec: Object.spec{__namespace__: 'x'}}": '{"spec": {"namespace": \'x\'}}',
    "Object.size() == 1": "Object.size() == 1",
}


@pytest.mark.parametrize("written", CONSTRUCTORS)
def test_constructors_become_maps(written: str) -> None:
    assert as_maps(written).replace(" ", "") == CONSTRUCTORS[written].replace(" ", "")


def test_a_configuration_is_applied() -> None:
    adds = apply("Object{metadata: Object.metadata{labels: {'team': request.userInfo.username}}}")
    outcome = world(*mutating(adds)).mutate(request(pod()))
    assert isinstance(outcome, Admitted)
    assert outcome.obj is not None
    assert outcome.obj["metadata"]["labels"] == {"team": "alice"}


def test_containers_are_merged_by_name() -> None:
    expression = (
        "Object{spec: Object.spec{containers: object.spec.containers.map(c, "
        "Object.spec.containers.item{name: c.name, imagePullPolicy: 'Always'})}}"
    )
    outcome = world(*mutating(apply(expression))).mutate(request(pod()))
    assert isinstance(outcome, Admitted)
    assert outcome.obj is not None
    container = outcome.obj["spec"]["containers"][0]
    assert (container["name"], container["image"], container["imagePullPolicy"]) == ("c", "i", "Always")


def test_a_json_patch_is_applied() -> None:
    adds = patch("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'x/y': 'z'}}]")
    outcome = world(*mutating(adds)).mutate(request(pod()))
    assert isinstance(outcome, Admitted)
    assert outcome.obj is not None
    assert outcome.obj["metadata"]["labels"] == {"x/y": "z"}


@pytest.mark.parametrize(
    ("mutation", "said"),
    [
        (patch("'x'"), "type mismatch: JSONPatchType.expression should evaluate to array"),
        (patch("[1]"), "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch"),
        (apply("[1]"), "unsupported return type from ApplyConfiguration expression: list"),
    ],
)
def test_what_is_no_patch_refuses(mutation: dict[str, Any], said: str) -> None:
    outcome = world(*mutating(mutation)).mutate(request(pod()))
    assert isinstance(outcome, Denied)
    assert outcome.message == f"policy 'm' with binding 'm' denied request: {said}"


def _labelled(name: str, expression: str, **spec: Any) -> list[Obj]:
    return mutating(
        apply(f"Object{{metadata: Object.metadata{{labels: {{'{name}': {expression}}}}}}}"), name=name, **spec
    )


def test_policies_that_asked_for_it_see_what_webhooks_made() -> None:
    """A second round: only those that wish it and were in the first."""
    counted = "has(object.metadata.labels) && 'hook' in object.metadata.labels ? 'late' : 'early'"
    added = [{"op": "add", "path": "/metadata/labels/hook", "value": "x"}]
    operations = base64.b64encode(json.dumps(added).encode()).decode()
    hook = {
        "apiVersion": API,
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "w"},
        "webhooks": [
            {"name": "w.x.io", "rules": [PODS], "sideEffects": "None", "admissionReviewVersions": ["v1"]}
        ],
    }

    def call(asked: CallWebhook) -> WebhookAnswer:
        response = {
            "uid": asked.body["request"]["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": operations,
        }
        return WebhookAnswer({**asked.body, "response": response})

    again = _labelled("again", counted, reinvocationPolicy="IfNeeded")
    here = world(
        hook,
        *again,
        *_labelled("once", counted),
        *_labelled(
            "other",
            "'other'",
            reinvocationPolicy="IfNeeded",
            matchConditions=[{"name": "n", "expression": "false"}],
        ),
    )
    outcome = here.mutate(request(pod()), call)
    assert isinstance(outcome, Admitted)
    assert outcome.obj is not None
    assert outcome.obj["metadata"]["labels"] == {"again": "late", "once": "early", "hook": "x"}
    late = _labelled(
        "fails",
        "has(object.metadata.labels) && 'hook' in object.metadata.labels ? object.x : 'a'",
        reinvocationPolicy="IfNeeded",
    )
    refused = world(hook, *late).mutate(request(pod()), call)
    assert isinstance(refused, Denied)
    assert refused.plugin == "MutatingAdmissionPolicy"
    assert "no such key: x" in refused.message


def test_a_failed_test_leaves_the_object_alone() -> None:
    adds = patch(
        "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}, "
        "JSONPatch{op: 'test', path: '/kind', value: 'Job'}]"
    )
    outcome = world(*mutating(adds)).mutate(request(pod()))
    assert isinstance(outcome, Admitted)
    assert outcome.obj is not None
    assert "labels" not in outcome.obj["metadata"]


def test_a_mutation_that_fails_refuses() -> None:
    outcome = world(*mutating(apply("Object{spec: Object.spec{x: object.missing}}"))).mutate(request(pod()))
    assert isinstance(outcome, Denied)
    assert outcome.message.startswith("policy 'm' with binding 'm' denied request: expression '{")
    assert outcome.message.endswith("resulted in error: no such key: missing")


def test_the_policies_of_a_user_are_asked_as_that_user() -> None:
    says = {"expression": "request.userInfo.username == 'bob'", "message": "only bob"}
    refused = world(policy(says), binding()).validate(request(pod(), user=ALICE))
    assert isinstance(refused, Denied)


# What is seen of namespaces, by whom.


@pytest.mark.parametrize(
    ("asked", "sees_one"),
    [
        (request(pod()), True),
        (request(pod(), namespace=""), False),
        (request(namespace("team-a")), False),
        (request(namespace("team-a"), namespace="team-a"), False),
        (request(pod("team-a"), namespace=""), False),
        (request(pod(), kind=Gvk("example.com", "v1", "Namespace")), True),
        (request(pod(), kind=Gvk("", "v1", "Space")), True),
    ],
)
def test_who_is_in_a_namespace_sees_it_and_the_namespace_itself_does_not(
    asked: AdmissionRequest, sees_one: bool
) -> None:
    everything = {**PODS, "apiGroups": ["*"], "resources": ["*"]}
    for expression, holds in (
        ("namespaceObject == null", not sees_one),
        ("namespaceObject != null && namespaceObject.metadata.name == 'team-a'", sees_one),
    ):
        outcome = world(policy({"expression": expression}, rules=(everything,)), binding()).validate(asked)
        assert isinstance(outcome, Admitted if holds else Denied), expression


def test_a_mutation_sees_the_namespace_of_what_it_changes() -> None:
    adds = "JSONPatch{op: 'add', path: '/metadata/labels', value: {'team': namespaceObject.metadata.labels['team']}}"
    outcome = world(*mutating(patch(f"[{adds}]"))).mutate(request(pod()))
    assert isinstance(outcome, Admitted) and outcome.obj is not None
    assert outcome.obj["metadata"]["labels"] == {"team": "a"}
    alone = patch("namespaceObject == null ? [JSONPatch{op: 'remove', path: '/metadata/namespace'}] : []")
    inside = world(*mutating(alone)).mutate(request(pod()))
    assert isinstance(inside, Admitted) and inside.obj is not None
    assert inside.obj["metadata"]["namespace"] == "team-a"


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
@pytest.mark.parametrize("listed", ["v1", "v2", "v3", "*"])
@pytest.mark.parametrize("policy_", ["Exact", "Equivalent", ""])
def test_another_served_version_matches_unless_the_very_version_is_asked_for(
    version: str, listed: str, policy_: str
) -> None:
    rule = {
        "apiGroups": ["autoscaling"],
        "apiVersions": [listed],
        "operations": ["CREATE"],
        "resources": ["horizontalpodautoscalers"],
    }
    said = {"matchPolicy": policy_} if policy_ else {}
    scaler = {"apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler"}
    asked = request({**scaler, "metadata": {"name": "h", "namespace": "team-a"}})
    if listed in ("*", version):
        want = version
    elif policy_ == "Exact" or listed not in ("v1", "v2"):
        want = ""
    else:
        want = listed
    for matcher in (
        webhook_matcher({"rules": [rule], **said}),
        matcher_of({"resourceRules": [rule], **said}),
    ):
        found = matcher.match(Store(), asked)
        seen = ("", "") if found is None else (found.resource.version, found.kind.version)
        assert seen == (want, want)


def test_an_index_that_forgets_looks_again() -> None:
    store = Store()
    index = PolicyIndex(store)
    assert (index.is_empty, index.changes_objects, index.validating(), index.mutating()) == (
        True,
        False,
        (),
        (),
    )
    for obj in (policy(NO), binding(), *mutating(patch("[]"), name="m")):
        store.create(obj)
    assert (index.is_empty, index.changes_objects, index.validating(), index.mutating()) == (
        True,
        False,
        (),
        (),
    )
    index.forget()
    assert (index.is_empty, index.changes_objects) == (False, True)
    assert [p.name for p in index.validating()] == ["p"] and [p.name for p in index.mutating()] == ["m"]


@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
@pytest.mark.parametrize("what", ["AdmissionPolicy", "WebhookConfiguration"])
def test_what_of_an_index_is_empty_and_what_changes_objects(kind: str, what: str) -> None:
    store = Store()
    index = PolicyIndex(store)
    store.create({"apiVersion": API, "kind": f"{kind}{what}", "metadata": {"name": "x"}, "spec": {}})
    assert (index.is_empty, index.changes_objects) == (False, kind == "Mutating")
