"""Policies, bindings and webhook configurations that could not work are refused, in Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest
from admissionrequests import World, request

from fairway.admission.policies.checking import problems
from fairway.admission.request import Admitted, Denied
from fairway.kube.objects import Obj
from fairway.kube.validation.validating import validate

API = "admissionregistration.k8s.io/v1"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def policy(**spec: Any) -> Obj:
    body = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}], **spec}
    return {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {k: v for k, v in body.items() if v is not None},
    }


def binding(**spec: Any) -> Obj:
    body = {"policyName": "p", "validationActions": ["Deny"], **spec}
    return {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"},
        "spec": body,
    }


def webhook(**fields: Any) -> Obj:
    good = {
        "name": "v.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://x"},
    }
    body = {k: v for k, v in {**good, **fields}.items() if v is not None}
    return {
        "apiVersion": API,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "w"},
        "webhooks": [body],
    }


def mutating(**spec: Any) -> Obj:
    found = policy(validations=None, **{"reinvocationPolicy": "Never", **spec})
    return {**found, "kind": "MutatingAdmissionPolicy"}


NOT_BOTH = (
    "(repeating the same validation failure information in the API response and headers serves no purpose)"
)
CASES: dict[str, tuple[Obj, list[str]]] = {
    "a good policy": (policy(), []),
    "nothing to validate": (
        policy(validations=[]),
        [
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
            "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
        ],
    ),
    "no constraints": (policy(matchConstraints=None), ["spec.matchConstraints: Required value"]),
    "an expression that does not compile": (
        policy(validations=[{"expression": "nope"}]),
        [
            'spec.validations[0].expression: Invalid value: "nope": compilation failed: ERROR: <input>:1:1: '
            "undeclared reference to 'nope' (in container '')\n | nope\n | ^"
        ],
    ),
    "no expression": (
        policy(validations=[{"message": "m"}]),
        ["spec.validations[0].expression: Required value: expression is not specified"],
    ),
    "an expression of the wrong type": (
        policy(validations=[{"expression": "1"}]),
        ['spec.validations[0].expression: Invalid value: "1": must evaluate to bool but got int'],
    ),
    "a message expression of the wrong type": (
        policy(validations=[{"expression": "true", "messageExpression": "1"}]),
        ['spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int'],
    ),
    "an unknown reason": (
        policy(validations=[{"expression": "true", "reason": "Because"}]),
        [
            'spec.validations[0].reason: Unsupported value: "Because": supported values: "Forbidden", "Invalid", '
            '"RequestEntityTooLarge"'
        ],
    ),
    "an unknown failure policy": (
        policy(failurePolicy="Maybe"),
        ['spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"'],
    ),
    "params without a kind": (
        policy(validations=[{"expression": "params.x == 1"}]),
        [
            'spec.validations[0].expression: Invalid value: "params.x == 1": compilation failed: ERROR: '
            "<input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^"
        ],
    ),
    "a variable twice": (
        policy(variables=[{"name": "a", "expression": "1"}, {"name": "a", "expression": "2"}]),
        [],
    ),
    "a variable with a reserved name": (
        policy(variables=[{"name": "while", "expression": "1"}]),
        ['spec.variables[0].name: Invalid value: "while": name is not a valid CEL identifier'],
    ),
    "a variable with a bad name": (
        policy(variables=[{"name": "a-b", "expression": "1"}]),
        ['spec.variables[0].name: Invalid value: "a-b": name is not a valid CEL identifier'],
    ),
    "a condition without a name": (
        policy(matchConditions=[{"expression": "true"}]),
        ["spec.matchConditions[0].name: Required value"],
    ),
    "an unknown operation": (
        policy(matchConstraints={"resourceRules": [{**RULE, "operations": ["READ"]}]}),
        [
            'spec.matchConstraints.resourceRules[0].operations[0]: Unsupported value: "READ": supported values: "*", '
            '"CONNECT", "CREATE", "DELETE", "UPDATE"'
        ],
    ),
    "a good binding": (binding(), []),
    "deny and warn": (
        binding(validationActions=["Deny", "Warn"]),
        [
            f'spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn {NOT_BOTH}'
        ],
    ),
    "no action": (
        binding(validationActions=[]),
        ["spec.validationActions: Required value: at least one validation action is required"],
    ),
    "no policy": (binding(policyName=""), ["spec.policyName: Required value"]),
    "a parameter by nothing": (
        binding(paramRef={"parameterNotFoundAction": "Deny"}),
        ["spec.paramRef: Required value: one of name or selector must be specified"],
    ),
    "a good webhook": (webhook(), []),
    "a short webhook name": (
        webhook(name="v"),
        [
            'webhooks[0].name: Invalid value: "v": should be a domain with at least three segments separated by dots'
        ],
    ),
    "side effects nobody stated": (
        webhook(sideEffects=None),
        ["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"],
    ),
    "no versions": (
        webhook(admissionReviewVersions=None),
        ["webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"],
    ),
    "nowhere to call": (
        webhook(clientConfig={}),
        ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"],
    ),
    "a long timeout": (
        webhook(timeoutSeconds=60),
        ["webhooks[0].timeoutSeconds: Invalid value: 60: the timeout value must be between 1 and 30 seconds"],
    ),
    "nothing to mutate": (
        mutating(),
        ["spec.mutations: Required value: mutations must contain at least one item"],
    ),
    "a good mutation": (
        mutating(
            mutations=[
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": "Object{spec: Object.spec{}}"},
                }
            ]
        ),
        [],
    ),
    "a blank message": (
        policy(validations=[{"expression": "true", "message": " ", "messageExpression": " "}]),
        [
            'spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified',
            'spec.validations[0].message: Invalid value: " ": message must be non-empty if specified',
        ],
    ),
    "a message in two lines": (
        policy(
            validations=[
                {"expression": "true", "message": " a\nb "},
                {"expression": "true", "message": "a\n"},
            ]
        ),
        ['spec.validations[0].message: Invalid value: " a\\nb ": message must not contain line breaks'],
    ),
    "only annotations": (
        policy(validations=None, auditAnnotations=[{"key": "k", "valueExpression": "'x'"}]),
        [],
    ),
    "an annotation asks who may": (
        policy(
            auditAnnotations=[
                {
                    "key": "k",
                    "valueExpression": "string(authorizer.group('').resource('pods').check('get').allowed())",
                }
            ]
        ),
        [],
    ),
    "as many annotations as may be": (
        policy(auditAnnotations=[{"key": f"k{i}", "valueExpression": "'x'"} for i in range(20)]),
        [],
    ),
    "a long annotation": (
        policy(auditAnnotations=[{"key": "k", "valueExpression": f"'{'x' * 5119}'"}]),
        ["spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length"],
    ),
    "an annotation of the wrong type": (
        policy(
            auditAnnotations=[{"key": "k", "valueExpression": "1"}, {"key": "l", "valueExpression": "null"}]
        ),
        [
            'spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of '
            "[string null_type dyn] but got int"
        ],
    ),
    "parameters of no kind": (
        policy(paramKind={"kind": "Limit"}),
        ["spec.paramKind.apiVersion: Required value"],
    ),
    "parameters of no version": (
        policy(paramKind={"apiVersion": "v1"}),
        ["spec.paramKind.kind: Required value"],
    ),
    "constraints without rules": (
        policy(matchConstraints={}),
        ["spec.matchConstraints.resourceRules: Required value"],
    ),
    "an unknown match policy": (
        policy(matchConstraints={"resourceRules": [RULE], "matchPolicy": "Nearly"}),
        [
            'spec.matchConstraints.matchPolicy: Unsupported value: "Nearly": supported values: "Equivalent", "Exact"'
        ],
    ),
    "a rule about nothing": (
        policy(matchConstraints={"resourceRules": [RULE, {}]}),
        [
            f"spec.matchConstraints.resourceRules[1].{field}: Required value"
            for field in ("operations", "apiGroups", "apiVersions", "resources")
        ],
    ),
    "a variable without a name": (
        policy(variables=[{"expression": "1"}]),
        ["spec.variables[0].name: Required value: name is not specified"],
    ),
    "a variable sees those before it": (
        policy(
            variables=[
                {"name": "a", "expression": "variables.b"},
                {"name": "b", "expression": "1"},
                {"name": "c", "expression": "variables.b + 1"},
            ],
            validations=[{"expression": "variables.c > 1"}],
        ),
        [
            'spec.variables[0].expression: Invalid value: "variables.b": compilation failed: ERROR: <input>:1:10: '
            "undefined field 'b'\n | variables.b\n | .........^"
        ],
    ),
    "a condition twice": (
        policy(
            matchConditions=[
                {"name": "a", "expression": "true"},
                {"name": "a", "expression": " "},
                {"name": "b", "expression": "1"},
            ]
        ),
        [
            "spec.matchConditions[1].expression: Required value",
            'spec.matchConditions[1].name: Duplicate value: "a"',
        ],
    ),
    "parameters by name and by selector": (
        binding(paramRef={"name": "a", "selector": {}, "parameterNotFoundAction": "Allow"}),
        [
            "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
        ],
    ),
    "what to do without parameters": (
        binding(paramRef={"name": "a"}),
        ["spec.paramRef.parameterNotFoundAction: Required value"],
    ),
    "an unknown way without parameters": (
        binding(paramRef={"selector": {}, "parameterNotFoundAction": "Ask"}),
        [
            'spec.paramRef.parameterNotFoundAction: Unsupported value: "Ask": supported values: "Deny", "Allow"'
        ],
    ),
    "an action twice, and one nobody knows": (
        binding(validationActions=["Deny", "Audit", "Deny", "Shout"]),
        [
            'spec.validationActions[2]: Duplicate value: "Deny"',
            'spec.validationActions[3]: Unsupported value: "Shout": supported values: "Audit", "Deny", "Warn"',
        ],
    ),
    "audit and warn": (binding(validationActions=["Audit", "Warn"]), []),
    "a webhook without a name": (webhook(name=None), ["webhooks[0].name: Required value"]),
    "side effects that are not for new webhooks": (
        webhook(sideEffects="Some"),
        ['webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'],
    ),
    "versions nobody speaks": (
        webhook(admissionReviewVersions=["v2"]),
        [
            'webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1'
        ],
    ),
    "one version somebody speaks": (webhook(admissionReviewVersions=["v2", "v1beta1"]), []),
    "two places to call": (
        webhook(clientConfig={"url": "https://x", "service": {"name": "s", "namespace": "n"}}),
        ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"],
    ),
    "the shortest timeout": (webhook(timeoutSeconds=1), []),
    "the longest timeout": (webhook(timeoutSeconds=30), []),
    "no time at all": (
        webhook(timeoutSeconds=0),
        ["webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds"],
    ),
    "a webhook's rules and conditions": (
        webhook(rules=[RULE], matchConditions=[{"name": "a", "expression": "params"}]),
        [
            'webhooks[0].matchConditions[0].expression: Invalid value: "params": compilation failed: ERROR: '
            "<input>:1:1: undeclared reference to 'params' (in container '')\n | params\n | ^",
        ],
    ),
    "a patch type nobody knows": (
        mutating(mutations=[{"patchType": "Merge"}], reinvocationPolicy="Always"),
        [
            'spec.mutations[0].patchType: Unsupported value: "Merge": supported values: "ApplyConfiguration", '
            '"JSONPatch"',
            'spec.reinvocationPolicy: Unsupported value: "Always": supported values: "IfNeeded", "Never"',
        ],
    ),
    "a patch without an expression": (
        mutating(mutations=[{}, {"patchType": "JSONPatch", "applyConfiguration": {"expression": "{}"}}]),
        [
            "spec.mutations[0].patchType: Required value",
            "spec.mutations[1].jsonPatch: Required value: must be specified when patchType is JSONPatch",
            'spec.mutations[1].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when '
            "patchType is JSONPatch",
        ],
    ),
    "a patch type nobody stated": (
        mutating(mutations=[{}]),
        ["spec.mutations[0].patchType: Required value"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_problems(name: str) -> None:
    obj, want = CASES[name]
    assert said(obj) == want


def said(obj: Obj) -> list[str]:
    """What is wrong with its shape, or else with its expressions."""
    return [str(problem) for problem in validate(obj)] or problems(obj)


def test_annotations_are_twenty_at_most() -> None:
    notes = [{"key": f"k{i}", "valueExpression": "'x'"} for i in range(21)]
    (found,) = said(policy(auditAnnotations=notes))
    assert found.startswith("spec.auditAnnotations: Invalid value: ")
    assert found.endswith(": must not have more than 20 auditAnnotations")


def test_expressions_of_patches_compile() -> None:
    patches = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": "nope"}},
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}},
    ]
    (found,) = said(mutating(mutations=patches))
    assert found.startswith(
        'spec.mutations[0].jsonPatch.expression: Invalid value: "nope": compilation failed'
    )


def test_where_one_of_two_misspells() -> None:
    wrong = {"matchPolicy": "Nearly"}
    (found,) = said(binding(matchResources=wrong))
    assert found.startswith("spec.matchResouces.matchPolicy: Unsupported value")
    other = {**binding(matchResources=wrong), "kind": "MutatingAdmissionPolicyBinding"}
    del other["spec"]["validationActions"]
    (found,) = said(other)
    assert found.startswith("spec.matchResources.matchPolicy: Unsupported value")


FORM = "; desired format: https://host[/path]"
URLS = {
    "https://host/path": [],
    "https://host:443": [],
    "http://host": [f"\"http\": 'https' is the only allowed URL scheme{FORM}"],
    "https:///path": [f'"": host must be specified{FORM}'],
    "https://me:word@host": ['"me:word": user information is not permitted in the URL'],
    "https://host#here": ['"here": fragments are not permitted in the URL'],
    "https://host?a=b": ['"a=b": query parameters are not permitted in the URL'],
    "ftp://@#f": [
        f"\"ftp\": 'https' is the only allowed URL scheme{FORM}",
        f'"": host must be specified{FORM}',
        '"": user information is not permitted in the URL',
        '"f": fragments are not permitted in the URL',
    ],
}


@pytest.mark.parametrize("url", URLS)
def test_urls_of_webhooks(url: str) -> None:
    found = said(webhook(clientConfig={"url": url}))
    assert found == [f"webhooks[0].clientConfig.url: Invalid value: {why}" for why in URLS[url]]


@pytest.mark.parametrize("url", ["https://host:port", "https://[::1"])
def test_what_is_no_url(url: str) -> None:
    (found,) = said(webhook(clientConfig={"url": url}))
    assert found.startswith("webhooks[0].clientConfig.url: Required value: url must be a valid URL: ")
    assert found.endswith(FORM)


def test_the_chain_refuses_what_could_not_work() -> None:
    refused = World().validate(request(policy(validations=[{"expression": "1"}])))
    assert isinstance(refused, Denied)
    assert refused.code == 422
    assert refused.message == (
        'ValidatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid: spec.validations[0].expression: '
        'Invalid value: "1": must evaluate to bool but got int'
    )
    assert refused.status["details"]["causes"][0]["reason"] == "FieldValueInvalid"
    assert isinstance(World().validate(request(policy())), Admitted)


def test_what_conditions_of_webhooks_may_ask() -> None:
    """The authorizer, and no parameters: there are none."""
    asks = "authorizer.group('').resource('pods').check('get').allowed()"
    assert problems(webhook(matchConditions=[{"name": "c", "expression": asks}])) == []
    wrong = problems(webhook(matchConditions=[{"name": "c", "expression": "params.x == 1"}]))
    assert len(wrong) == 1 and "undeclared reference to 'params'" in wrong[0]
