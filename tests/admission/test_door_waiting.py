"""What seldom happens at the door: waiting for somebody outside, old seccomp annotations, trials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from admissionrequests import World, namespace, pod, request

from fairway.admission import intree
from fairway.admission.answers import forbidden, invalid
from fairway.admission.door import Awaiting, Door
from fairway.admission.intree import Options
from fairway.admission.podsecurity.evaluation import violations
from fairway.admission.podsecurity.levels import LevelVersion
from fairway.admission.rbac.reviews import attributes_of
from fairway.admission.request import (
    ALL_AUTHENTICATED,
    Admitted,
    CallWebhook,
    Denied,
    Gvk,
    User,
    WebhookAnswer,
    status_body,
)
from fairway.admission.trial import judge
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Obj

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
HOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "w"},
    "webhooks": [
        {"name": "a.x.io", "rules": [RULE], "clientConfig": {"url": "https://x"}, "sideEffects": "None"}
    ],
}


def config(name: str = "c", **data: str) -> Obj:
    meta = {"name": name, "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


class Outside:
    """Whom the door hands what it has to wait for."""

    def __init__(self, *, has_hook: bool = True) -> None:
        self.store = Store()
        self.asked: list[tuple[Any, CallWebhook, Any]] = []
        self.door = Door(self.store, options=Options(is_served=False), later=self.later)
        self.store.followers.append(self.door)
        if has_hook:
            self.store.create(HOOK)

    def later(self, steps: Any, wanted: CallWebhook, settle: Any) -> None:
        self.asked.append((steps, wanted, settle))

    def answer(self, at: int = 0, *, allowed: bool = True) -> None:
        steps, wanted, settle = self.asked[at]
        response = {"uid": wanted.body["request"]["uid"], "allowed": allowed}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        try:
            steps.send(WebhookAnswer(review))
        except StopIteration as end:
            settle(end.value)


def test_what_somebody_outside_is_asked_about_is_asked_again_once_it_is_known() -> None:
    outside = Outside()
    with pytest.raises(Awaiting) as waits:
        outside.door.enter(config())
    assert str(waits.value) == "a webhook is being asked"
    assert waits.value.obj == config()
    with pytest.raises(Awaiting) as again:
        outside.door.enter(config())
    assert again.value is waits.value, "the same object waits for the same answer"
    assert len(outside.asked) == 1
    with pytest.raises(Awaiting) as other:
        outside.door.enter(config("d"))
    assert other.value is not waits.value
    found: list[Any] = []
    waits.value.then.append(lambda: found.append(outside.door.enter(config())))
    outside.answer()
    assert isinstance(found[0], Admitted)
    assert found[0].obj == config()
    assert len(outside.asked) == 2
    with pytest.raises(Awaiting):
        outside.door.enter(config())
    assert len(outside.asked) == 3, "an answer is given once"


def test_an_answer_nobody_comes_back_for_is_forgotten() -> None:
    outside = Outside()
    with pytest.raises(Awaiting):
        outside.door.enter(config())
    outside.answer()
    with pytest.raises(Awaiting):
        outside.door.enter(config())
    assert len(outside.asked) == 2


def test_a_refusal_and_an_error_come_back_too() -> None:
    outside = Outside()
    with pytest.raises(Awaiting) as waits:
        outside.door.enter(config())
    found: list[Any] = []
    waits.value.then.append(lambda: found.append(outside.door.enter(config())))
    outside.answer(allowed=False)
    assert isinstance(found[0], Denied)
    with pytest.raises(Awaiting) as second:
        outside.door.enter(config())

    def asks() -> None:
        with pytest.raises(ApiError, match="down"):
            outside.door.enter(config())
        found.append("told")

    second.value.then.append(asks)
    outside.asked[1][2](ApiError(500, "InternalError", "down"))
    assert found[1:] == ["told"]


def test_who_meets_nobody_does_not_wait() -> None:
    outside = Outside(has_hook=False)
    assert isinstance(outside.door.enter(config()), Admitted)
    hooked = Outside()
    assert isinstance(hooked.door.enter(pod()), Admitted), "the webhook is about ConfigMaps"
    assert hooked.asked == []


def test_what_does_not_fit_is_refused_at_the_door() -> None:
    def fits(obj: Obj) -> None:
        if len(obj.get("data") or ()) > 1:
            raise ApiError(413, "RequestEntityTooLarge", "too large")

    store = Store()
    store.create(namespace("team-a"))
    door = Door(store, options=Options(is_served=True), fits=fits)
    assert isinstance(door.enter(config(a="1")), Admitted)
    with pytest.raises(ApiError, match="too large"):
        door.enter(config(a="1", b="2"))


def test_a_strict_request_says_so() -> None:
    door = Door(Store())
    assert (door.request(config(), strict=True).options or {})["fieldValidation"] == "Strict"
    made = door.request({**config(), "metadata": {"name": "c"}})
    assert made.options == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    assert (made.operation, made.namespace, made.obj) == (
        "CREATE",
        "",
        {**config(), "metadata": {"name": "c"}},
    )
    plain = door.request(config(), config())
    assert plain.options == {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}
    assert (plain.operation, plain.resource.resource, plain.name) == ("UPDATE", "configmaps", "c")


# Seccomp by annotations, before 1.19.

POD_KEY = "seccomp.security.alpha.kubernetes.io/pod"
CONTAINER_KEY = "container.seccomp.security.alpha.kubernetes.io/c"


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        ({}, None),
        ({POD_KEY: "runtime/default"}, None),
        ({POD_KEY: "docker/default", CONTAINER_KEY: "localhost/x"}, None),
        ({"container.seccomp.security.alpha.kubernetes.io/other": "unconfined"}, None),
        ({POD_KEY: "unconfined"}, f'forbidden annotation {POD_KEY}="unconfined"'),
        (
            {POD_KEY: "unconfined", CONTAINER_KEY: "x"},
            f'forbidden annotations {CONTAINER_KEY}="x", {POD_KEY}="unconfined"',
        ),
    ],
)
def test_old_seccomp_annotations(annotations: dict[str, str], want: str | None) -> None:
    meta, spec = {"annotations": annotations}, pod()["spec"]
    found = {v.reason: v.detail for v in violations(LevelVersion("baseline", 18), meta, spec)}
    assert found.get("seccompProfile") == want
    assert violations(LevelVersion("baseline", 19), meta, spec) == (), "newer versions look at fields"


# Namespaces whose level rises.


def labelled(name: str, level: str | None, **more: str) -> Obj:
    prefix = "pod-security.kubernetes.io/"
    labels = {prefix + k.replace("_", "-"): v for k, v in {"enforce": level, **more}.items() if v is not None}
    return namespace(name, labels)


def owned_pod(name: str, owner: str | None, **spec: Any) -> Obj:
    made = pod(name, **spec)
    if owner:
        made["metadata"]["ownerReferences"] = [{"kind": "X", "name": owner, "uid": owner, "controller": True}]
    return made


@pytest.mark.parametrize(
    ("old", "new", "warned"),
    [
        (("privileged", {}), ("baseline", {}), True),
        (("privileged", {}), ("privileged", {}), False),
        (("restricted", {}), ("baseline", {}), False),
        (("baseline", {}), ("baseline", {}), False),
        (("baseline", {"enforce_version": "v1.20"}), ("baseline", {"enforce_version": "v1.21"}), True),
        ((None, {}), ("baseline", {}), True),
    ],
)
def test_who_is_told_what_would_break(old: Any, new: Any, warned: bool) -> None:
    world = World(labelled("team-a", old[0], **old[1]))
    world.add(
        owned_pod("b", None, hostNetwork=True),
        owned_pod("a", None, hostNetwork=True),
        owned_pod("c", None, hostPID=True),
    )
    said = world.validate(
        request(labelled("team-a", new[0], **new[1]), "UPDATE", labelled("team-a", old[0], **old[1]))
    )
    assert isinstance(said, Admitted)
    if not warned:
        assert said.warnings == ()
        return
    head, *rest = said.warnings
    assert head.startswith(
        'existing pods in namespace "team-a" violate the new PodSecurity enforce level "baseline:'
    )
    assert rest == ["a (and 1 other pod): host namespaces", "c: host namespaces"] or rest == [
        "a (and 2 other pods): host namespaces"
    ]


def test_labels_that_cannot_be_read_are_noted_with_each_pod() -> None:
    broken = labelled("team-a", "nonsense", warn="nothing")
    world = World(broken)
    said = world.validate(request(pod()))
    assert isinstance(said, Denied)
    assert said.audit["error"].startswith("Failed to parse policy: [")
    created = world.validate(request(labelled("x", "nonsense")))
    assert isinstance(created, Denied)
    assert created.code == 422
    kept = world.validate(request({**broken, "data": 1}, "UPDATE", broken))
    assert isinstance(kept, Admitted), "what was wrong before may stay"


# Words of refusals.


def test_what_is_refused_is_named_as_it_will_be() -> None:
    generated = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-"}}
    assert forbidden(request(generated, name=""), "X", "no").message == 'pods "web-" is forbidden: no'
    assert forbidden(request(pod("p"), name=""), "X", "no").message == 'pods "p" is forbidden: no'
    nameless = {"apiVersion": "v1", "kind": "Pod", "metadata": {}}
    assert forbidden(request(nameless, name=""), "X", "no").message == 'pods "Unknown" is forbidden: no'
    assert (Gvk("", "v1", "Pod").api_version, Gvk("apps", "v1", "X").api_version) == ("v1", "apps/v1")


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("Required value: x", "FieldValueRequired"),
        ("Unsupported value: x", "FieldValueNotSupported"),
        ("Duplicate value: x", "FieldValueDuplicate"),
        ("Forbidden: x", "FieldValueForbidden"),
        ("Invalid value: x", "FieldValueInvalid"),
    ],
)
def test_causes_of_an_invalid_object(word: str, reason: str) -> None:
    asked = request({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}})
    said = invalid(asked, "X", [f"spec.a: {word}", "spec.b: Invalid value: y"])
    assert said.message == f'Deployment.apps "d" is invalid: [spec.a: {word}, spec.b: Invalid value: y]'
    assert said.status["details"] == {
        "name": "d",
        "group": "apps",
        "kind": "Deployment",
        "causes": [
            {"reason": reason, "message": word, "field": "spec.a"},
            {"reason": "FieldValueInvalid", "message": "Invalid value: y", "field": "spec.b"},
        ],
    }
    assert (
        invalid(asked, "X", ["spec.a: Forbidden: x"]).message
        == 'Deployment.apps "d" is invalid: spec.a: Forbidden: x'
    )


def test_reviews_ask_about_paths_or_resources() -> None:
    user = User("u")
    url = {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
    asked = attributes_of(url, user)
    assert (asked.verb, asked.path, asked.resource) == ("get", "/metrics", "")
    assert attributes_of({"nonResourceAttributes": {}}, user).path == ""
    both = {**url, "resourceAttributes": {"verb": "list", "resource": "pods", "version": "v1"}}
    assert (attributes_of(both, user).resource, attributes_of(both, user).path) == ("pods", "")
    assert attributes_of(both, user).verb == "list"


# A trial on files.


def manifest(obj: Obj) -> Manifest:
    return Manifest(obj, "f.yaml")


def test_a_trial_keeps_what_goes_in_and_names_what_does_not() -> None:
    user = User("u", (ALL_AUTHENTICATED, "system:masters"))
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team-a"},
        "spec": {"hard": {"pods": "1"}},
    }
    store = Store()
    found = judge(
        [manifest(quota), manifest(pod("a")), manifest(pod("b")), manifest(config("a"))], [], user, store
    )
    assert found.judged == 4
    assert [(f.file, f.outcome, f.subject) for f in found.findings] == [("f.yaml", "denied", "Pod team-a/b")]
    assert "exceeded quota: q" in found.findings[0].message
    assert found.is_denied
    assert judge([manifest(config("a"))], [], user).judged == 1, "nothing need be there before"
    again = judge([manifest(config("a", x="1"))], [], user, store)
    assert again.findings == ()
    held = next(c for c in store.objects("ConfigMap", "team-a"))
    assert held["data"] == {"x": "1"}, "a second time it is an update"


def test_a_limit_that_a_limit_range_gives_may_be_below_the_request() -> None:
    limits = {"type": "Container", "default": {"cpu": "1"}}
    meta = {"name": "most", "namespace": "default"}
    store = Store()
    store.create(namespace("default"))
    store.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": [limits]}})
    asks = {**pod(), "metadata": {"name": "p", "namespace": "default"}}
    asks["spec"] = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}
    outcome = Door(store).enter(asks)
    assert isinstance(outcome, Denied)
    assert "must be less than or equal to cpu limit of 1" in outcome.error().message


def test_who_may_not_leave() -> None:
    """A namespace that stays, and whatever a policy keeps, in the words of whoever keeps it."""
    store = Store()
    for name in ("default", "team-a"):
        store.create(namespace(name))
    door = Door(store)
    kept = door.leave(namespace("default"))
    assert kept is not None and kept.message.endswith("this namespace may not be deleted")
    assert door.leave(namespace("team-a")) is None
    assert door.leave(config()) is None
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}
    api = "admissionregistration.k8s.io/v1"
    says = {"expression": "object == null && oldObject.metadata.name != 'c'", "message": "c stays"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [says]}
    policy = {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": spec}
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    store.create(policy)
    store.create({**policy, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound})
    door = Door(store)
    kept = door.leave(config())
    assert kept is not None and kept.message.endswith("c stays")
    assert door.leave({**config(), "metadata": {"name": "d", "namespace": "team-a"}}) is None
    assert door.leave(pod()) is None


def test_a_body_that_leaves_its_namespace_to_the_address_is_placed_there() -> None:
    store = Store()
    store.create(namespace("team-a"))
    bare = pod()
    asked = replace(request(bare), obj={**bare, "metadata": {"name": "p", "labels": {"a": "b"}}})
    found = intree.changed(store, asked, Options(is_served=False))
    assert not isinstance(found, Denied) and found is not None
    assert found["metadata"] == {"name": "p", "labels": {"a": "b"}, "namespace": "team-a"}


@pytest.mark.parametrize(
    ("details", "want"),
    [
        ({"causes": [{"reason": "FieldValueInvalid"}, {"message": "m"}, "odd"]}, ("FieldValueInvalid", "")),
        ({"causes": "odd"}, ()),
        ({}, ()),
        ("odd", ()),
        (None, ()),
    ],
)
def test_causes_are_what_a_webhook_said_where_it_said_any(details: Any, want: tuple[str, ...]) -> None:
    body = {**status_body(403, "Forbidden", "no"), "details": details}
    error = Denied("w", body).error()
    assert (error.code, error.reason, error.causes) == (403, "Forbidden", want)


def test_one_denial_among_warnings_is_enough() -> None:
    """What is denied is denied whatever else is only warned of; where nothing is denied, nothing is."""
    user = User("u", (ALL_AUTHENTICATED, "system:masters"))
    enforced = namespace("team-a", {"pod-security.kubernetes.io/enforce": "baseline"})
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(hostPID=True)["spec"]}
    warned = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "team-a"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    for objects, outcomes in (
        ([enforced, warned], ["warned"]),
        ([enforced, pod(hostPID=True)], ["denied"]),
        ([enforced, warned, pod(hostPID=True)], ["denied", "warned"]),
        ([enforced], []),
    ):
        found = judge([manifest(obj) for obj in objects], [], user)
        assert sorted(f.outcome for f in found.findings) == outcomes
        assert found.is_denied is ("denied" in outcomes)


def test_a_policy_that_is_bound_is_not_named_of_whichever_kind_it_is() -> None:
    api = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    constraints = {"matchConstraints": {"resourceRules": [rule]}}
    changes = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}
    specs: dict[str, Obj] = {
        "Validating": {**constraints, "validations": [{"expression": "true"}]},
        "Mutating": {**constraints, "reinvocationPolicy": "Never", "mutations": [changes]},
    }
    policies = [
        {"apiVersion": api, "kind": f"{kind}AdmissionPolicy", "metadata": {"name": f"{name}-{kind.lower()}"}}
        | {"spec": spec}
        for kind, spec in specs.items()
        for name in ("bound", "loose")
    ]
    bindings = [
        {"apiVersion": api, "kind": f"{kind}AdmissionPolicyBinding", "metadata": {"name": "b"}}
        | {"spec": {"policyName": f"bound-{kind.lower()}", **more}}
        for kind, more in (("Validating", {"validationActions": ["Deny"]}), ("Mutating", {}))
    ]
    user = User("u", (ALL_AUTHENTICATED, "system:masters"))
    found = judge([manifest(config())], [manifest(obj) for obj in (*policies, *bindings)], user)
    assert found.unbound == ("loose-validating", "loose-mutating")
    alone = judge([manifest(config())], [manifest(obj) for obj in (*policies, bindings[1])], user)
    assert alone.unbound == ("bound-validating", "loose-validating", "loose-mutating")


def test_a_warning_of_a_policy_is_told_once_and_names_it() -> None:
    api = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "think twice"}],
    }
    policy = {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": spec}
    bound = {"policyName": "p", "validationActions": ["Warn"]}
    binding = {**policy, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"}, "spec": bound}
    warned = namespace("team-a", {"pod-security.kubernetes.io/warn": "baseline"})
    user = User("u", (ALL_AUTHENTICATED, "system:masters"))
    found = judge(
        [manifest(warned), manifest(pod(hostPID=True))], [manifest(policy), manifest(binding)], user
    )
    told = [(f.outcome, f.subject, f.policy, f.binding) for f in found.findings]
    assert told == [("warned", "Pod team-a/p", "p", "b"), ("warned", "Pod team-a/p", "", "")]
    first, second = (f.message for f in found.findings)
    assert "think twice" in first and "host namespaces" in second
    assert not found.is_denied and found.judged == 2
