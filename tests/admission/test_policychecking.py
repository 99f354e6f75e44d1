"""Policies, bindings and webhook configurations that could not work are refused, in Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest
from admissionrequests import World, request

from fairway.admission.policies.checking import problems
from fairway.admission.request import Admitted, Denied
from fairway.kube.objects import Obj

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
    found = policy(validations=None, **spec)
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
            '"RequestEntityTooLarge", "Unauthorized"'
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
        ['spec.variables[1].name: Duplicate value: "a"'],
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
    "no action": (binding(validationActions=[]), ["spec.validationActions: Required value"]),
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
    "a patch type nobody stated": (
        mutating(mutations=[{}]),
        ["spec.mutations[0].patchType: Required value"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_problems(name: str) -> None:
    obj, want = CASES[name]
    assert problems(obj) == want


def test_the_chain_refuses_what_could_not_work() -> None:
    refused = World().validate(request(policy(failurePolicy="Maybe")))
    assert isinstance(refused, Denied)
    assert refused.code == 422
    assert refused.message == (
        'ValidatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid: spec.failurePolicy: Unsupported '
        'value: "Maybe": supported values: "Fail", "Ignore"'
    )
    assert refused.status["details"]["causes"][0]["reason"] == "FieldValueNotSupported"
    assert isinstance(World().validate(request(policy())), Admitted)
