"""What an expression asks of who may do what: each question as the authorizer gets it, and the answer as it is said."""

from __future__ import annotations

from typing import Any

import pytest
from admissionrequests import ALICE, World, namespace, pod, request

from fairway.admission.policies.validating import compile_policy, judge
from fairway.admission.rbac.attributes import Attributes, Decision
from fairway.admission.request import ALL_AUTHENTICATED, User
from fairway.kube.objects import Obj

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
ROBOT = User(
    "system:serviceaccount:ci:robot",
    ("system:serviceaccounts", "system:serviceaccounts:ci", ALL_AUTHENTICATED),
)


def said(expression: str, decision: Decision | None) -> tuple[list[Attributes], list[str]]:
    """What was asked, and what the policy says; `decision` None: nobody can be asked."""
    asked: list[Attributes] = []

    def ask(attributes: Attributes) -> Decision:
        assert decision is not None
        asked.append(attributes)
        return decision

    policy: Obj = {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [RULE]},
            "validations": [{"expression": expression, "message": "no"}],
        },
    }
    binding: Obj = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    store = World(namespace("team-a", {})).store
    found = judge(
        store, None if decision is None else ask, request(pod()), [compile_policy(policy, [binding])]
    )
    return asked, [denial.message.partition(" denied request: ")[2] for denial in found.denials]


QUESTIONS: dict[str, tuple[str, Attributes]] = {
    "a resource": (
        "authorizer.group('apps').resource('deployments')",
        Attributes(ALICE, "v", "apps", "deployments"),
    ),
    "one of its parts": (
        "authorizer.group('').resource('pods').subresource('log').namespace('n').name('x')",
        Attributes(ALICE, "v", "", "pods", "log", "n", "x"),
    ),
    "with selectors": (
        "authorizer.group('').resource('pods').fieldSelector('a=b').labelSelector('c=d')",
        Attributes(ALICE, "v", "", "pods"),
    ),
    "a path": ("authorizer.path('/metrics')", Attributes(ALICE, "v", path="/metrics")),
    "another account": (
        "authorizer.serviceAccount('ci', 'robot').group('').resource('pods')",
        Attributes(ROBOT, "v", "", "pods"),
    ),
    "another account's path": (
        "authorizer.serviceAccount('ci', 'robot').path('/x')",
        Attributes(ROBOT, "v", path="/x"),
    ),
    "what the request is about": (
        "authorizer.requestResource",
        Attributes(ALICE, "v", "", "pods", "", "team-a", "p"),
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_asked(name: str) -> None:
    expression, want = QUESTIONS[name]
    for is_allowed in (True, False):
        asked, denials = said(f"{expression}.check('v').allowed()", Decision(is_allowed, "why"))
        assert asked == [want]
        assert denials == ([] if is_allowed else ["no"])


@pytest.mark.parametrize(
    "answer", ["reason() == 'why'", "errored() == false", "error() == ''", "allowed() == true"]
)
def test_what_is_answered(answer: str) -> None:
    assert said(f"authorizer.path('/x').check('get').{answer}", Decision(True, "why"))[1] == []


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("authorizer.path('').check('get').allowed()", "path must not be empty"),
        ("authorizer.check('get').allowed()", "no such overload"),
        ("authorizer.group('').check('get').allowed()", "no such overload"),
        ("authorizer.path('/x').resource('pods').check('get').allowed()", "no such overload"),
    ],
)
def test_questions_that_are_none(expression: str, why: str) -> None:
    asked, (denial,) = said(expression, Decision(True))
    assert not asked and why in denial


def test_where_nobody_can_be_asked() -> None:
    asked, (denial,) = said("authorizer.path('/x').check('get').allowed()", None)
    assert not asked and "authorizer is not available here" in denial


def test_keys_of_json_patches() -> None:
    for text, want in (("a/b~c", "a~1b~0c"), ("~1", "~01"), ("plain", "plain")):
        expression = f"jsonpatch.escapeKey('{text}') == '{want}'"
        outcome: Any = said(expression, Decision(True))
        assert outcome == ([], []), text
