"""RBAC: who may do what, in Kubernetes' words, and what a role may never do."""

from __future__ import annotations

from typing import Any

import pytest
from admissionrequests import ALICE, request
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.admission.rbac import aggregation, bootstrap, escalation, impersonation, reviews
from fairway.admission.rbac.attributes import Attributes, forbidden_status
from fairway.admission.rbac.authorizer import Authorizer
from fairway.admission.rbac.rules import Rule, allows, parse_rules, uncovered
from fairway.admission.request import ALL_AUTHENTICATED, SYSTEM_MASTERS, UPDATE, User
from fairway.cluster.actions import perform
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj

GROUP = "rbac.authorization.k8s.io"


def rbac(kind: str, name: str, namespace: str = "", **fields: Any) -> Obj:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": meta, **fields}


def role(name: str, namespace: str, *rules: dict[str, Any]) -> Obj:
    return rbac("Role", name, namespace, rules=list(rules))


def rule(verbs: str, resources: str, groups: str = "", **more: Any) -> dict[str, Any]:
    return {
        "verbs": verbs.split(),
        "resources": resources.split(),
        "apiGroups": groups.split(","),
        **more,
    }


def bind(name: str, role_name: str, *subjects: Obj, namespace: str = "", kind: str = "") -> Obj:
    ref = {"apiGroup": GROUP, "kind": kind or ("Role" if namespace else "ClusterRole"), "name": role_name}
    own = "RoleBinding" if namespace else "ClusterRoleBinding"
    return rbac(own, name, namespace, roleRef=ref, subjects=list(subjects))


def user(name: str) -> Obj:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def group(name: str) -> Obj:
    return {"kind": "Group", "apiGroup": GROUP, "name": name}


def account(name: str, **where: str) -> Obj:
    return {"kind": "ServiceAccount", "name": name, **where}


def authorizer(*objects: Obj) -> Authorizer:
    store = Store()
    found = Authorizer(store)
    store.followers.append(found)
    for obj in objects:
        store.create(obj)
    return found


RECORDED = (
    role("developer", "team-a", rule("get list watch create delete", "pods pods/log jobs", ",apps,batch")),
    bind("developers", "developer", user("alice"), namespace="team-a"),
)
BOB = User("bob", ("devs", ALL_AUTHENTICATED))
ROBOT = User("system:serviceaccount:ci:robot", impersonation.service_account_groups("ci"))

PODS_RULE = rule("get list", "pods")
CASES: dict[str, tuple[tuple[Obj, ...], Attributes, bool]] = {
    "nobody was given anything": ((), Attributes(ALICE, "get", "", "pods", "", "team-a"), False),
    "a role bound in the namespace": (
        (role("r", "team-a", PODS_RULE), bind("b", "r", user("alice"), namespace="team-a")),
        Attributes(ALICE, "list", "", "pods", "", "team-a"),
        True,
    ),
    "a role does not reach into another namespace": (
        (role("r", "team-a", PODS_RULE), bind("b", "r", user("alice"), namespace="team-a")),
        Attributes(ALICE, "list", "", "pods", "", "team-b"),
        False,
    ),
    "a role does not reach all namespaces at once": (
        (role("r", "team-a", PODS_RULE), bind("b", "r", user("alice"), namespace="team-a")),
        Attributes(ALICE, "list", "", "pods"),
        False,
    ),
    "another verb": (
        (role("r", "team-a", PODS_RULE), bind("b", "r", user("alice"), namespace="team-a")),
        Attributes(ALICE, "delete", "", "pods", "", "team-a"),
        False,
    ),
    "another API group": (
        (role("r", "team-a", PODS_RULE), bind("b", "r", user("alice"), namespace="team-a")),
        Attributes(ALICE, "get", "apps", "pods", "", "team-a"),
        False,
    ),
    "a subresource is not its resource": (
        (role("r", "team-a", PODS_RULE), bind("b", "r", user("alice"), namespace="team-a")),
        Attributes(ALICE, "get", "", "pods", "log", "team-a", "p"),
        False,
    ),
    "a subresource by name": (
        (role("r", "team-a", rule("get", "pods/log")), bind("b", "r", user("alice"), namespace="team-a")),
        Attributes(ALICE, "get", "", "pods", "log", "team-a", "p"),
        True,
    ),
    "one subresource of every resource": (
        (role("r", "team-a", rule("patch", "*/scale")), bind("b", "r", user("alice"), namespace="team-a")),
        Attributes(ALICE, "patch", "", "deployments", "scale", "team-a", "d"),
        True,
    ),
    "every resource includes subresources": (
        (role("r", "team-a", rule("patch", "*", "*")), bind("b", "r", user("alice"), namespace="team-a")),
        Attributes(ALICE, "patch", "apps", "deployments", "scale", "team-a", "d"),
        True,
    ),
    "every verb": (
        (role("r", "team-a", rule("*", "pods")), bind("b", "r", user("alice"), namespace="team-a")),
        Attributes(ALICE, "deletecollection", "", "pods", "", "team-a"),
        True,
    ),
    "a name among the allowed": (
        (
            role("r", "team-a", rule("get", "secrets", resourceNames=["one"])),
            bind("b", "r", user("alice"), namespace="team-a"),
        ),
        Attributes(ALICE, "get", "", "secrets", "", "team-a", "one"),
        True,
    ),
    "a name that is not": (
        (
            role("r", "team-a", rule("get", "secrets", resourceNames=["one"])),
            bind("b", "r", user("alice"), namespace="team-a"),
        ),
        Attributes(ALICE, "get", "", "secrets", "", "team-a", "two"),
        False,
    ),
    "a list has no name to be among the allowed": (
        (
            role("r", "team-a", rule("list", "secrets", resourceNames=["one"])),
            bind("b", "r", user("alice"), namespace="team-a"),
        ),
        Attributes(ALICE, "list", "", "secrets", "", "team-a"),
        False,
    ),
    "by group": (
        (role("r", "team-a", PODS_RULE), bind("b", "r", group("devs"), namespace="team-a")),
        Attributes(BOB, "get", "", "pods", "", "team-a", "p"),
        True,
    ),
    "a group of the same name as a user is not that user": (
        (role("r", "team-a", PODS_RULE), bind("b", "r", group("bob"), namespace="team-a")),
        Attributes(BOB, "get", "", "pods", "", "team-a", "p"),
        False,
    ),
    "a service account of another namespace": (
        (
            role("r", "team-a", PODS_RULE),
            bind("b", "r", account("robot", namespace="ci"), namespace="team-a"),
        ),
        Attributes(ROBOT, "get", "", "pods", "", "team-a", "p"),
        True,
    ),
    "a service account without a namespace is the binding's": (
        (role("r", "ci", PODS_RULE), bind("b", "r", account("robot"), namespace="ci")),
        Attributes(ROBOT, "get", "", "pods", "", "ci", "p"),
        True,
    ),
    "all service accounts of a namespace": (
        (
            role("r", "team-a", PODS_RULE),
            bind("b", "r", group("system:serviceaccounts:ci"), namespace="team-a"),
        ),
        Attributes(ROBOT, "get", "", "pods", "", "team-a", "p"),
        True,
    ),
    "a cluster role bound in one namespace stays there": (
        (
            rbac("ClusterRole", "c", rules=[PODS_RULE]),
            bind("b", "c", user("alice"), namespace="team-a", kind="ClusterRole"),
        ),
        Attributes(ALICE, "get", "", "pods", "", "team-b", "p"),
        False,
    ),
    "a cluster role bound in one namespace holds there": (
        (
            rbac("ClusterRole", "c", rules=[PODS_RULE]),
            bind("b", "c", user("alice"), namespace="team-a", kind="ClusterRole"),
        ),
        Attributes(ALICE, "get", "", "pods", "", "team-a", "p"),
        True,
    ),
    "a cluster role bound everywhere": (
        (rbac("ClusterRole", "c", rules=[PODS_RULE]), bind("b", "c", user("alice"))),
        Attributes(ALICE, "list", "", "pods"),
        True,
    ),
    "a URL by prefix": (
        (
            rbac("ClusterRole", "c", rules=[{"verbs": ["get"], "nonResourceURLs": ["/metrics/*"]}]),
            bind("b", "c", user("alice")),
        ),
        Attributes(ALICE, "get", path="/metrics/slis"),
        True,
    ),
    "a URL that only begins alike": (
        (
            rbac("ClusterRole", "c", rules=[{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]),
            bind("b", "c", user("alice")),
        ),
        Attributes(ALICE, "get", path="/metricsx"),
        False,
    ),
    "system:masters may do anything": (
        (),
        Attributes(User("root", (SYSTEM_MASTERS,)), "delete", "", "nodes", "", "", "n"),
        True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_who_may_do_what(name: str) -> None:
    objects, asked, want = CASES[name]
    assert authorizer(*objects).authorize(asked).allowed is want


FORBIDDEN = {
    "list in a namespace": (
        Attributes(ALICE, "list", "", "pods", "", "team-b"),
        'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "team-b"',
    ),
    "one object": (
        Attributes(ALICE, "get", "apps", "deployments", "", "team-b", "llm"),
        'deployments.apps "llm" is forbidden: User "alice" cannot get resource "deployments" in API group "apps" '
        'in the namespace "team-b"',
    ),
    "a subresource": (
        Attributes(ALICE, "create", "", "pods", "exec", "team-b", "p"),
        'pods "p" is forbidden: User "alice" cannot create resource "pods/exec" in API group "" in the namespace '
        '"team-b"',
    ),
    "cluster scope": (
        Attributes(ALICE, "list", "", "nodes"),
        'nodes is forbidden: User "alice" cannot list resource "nodes" in API group "" at the cluster scope',
    ),
    "a URL": (
        Attributes(ALICE, "get", path="/metrics"),
        'forbidden: User "alice" cannot get path "/metrics"',
    ),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_the_words_of_a_403(name: str) -> None:
    asked, want = FORBIDDEN[name]
    status = forbidden_status(asked)
    assert (status["code"], status["reason"], status["message"]) == (403, "Forbidden", want)


def test_the_reason_names_the_binding() -> None:
    found = authorizer(*RECORDED).authorize(Attributes(ALICE, "create", "", "pods", "", "team-a"))
    want = 'RBAC: allowed by RoleBinding "developers/team-a" of Role "developer" to User "alice"'
    assert (found.allowed, found.reason) == (True, want)


def test_a_role_that_is_gone_is_the_reason() -> None:
    found = authorizer(bind("b", "nope", user("alice"))).authorize(Attributes(ALICE, "list", "", "nodes"))
    want = 'RBAC: clusterrole.rbac.authorization.k8s.io "nope" not found'
    assert (found.allowed, found.reason) == (False, want)


def test_answers_follow_the_objects() -> None:
    store = Store()
    found = Authorizer(store)
    store.followers.append(found)
    asked = Attributes(ALICE, "list", "", "pods", "", "team-a")
    assert not found.authorize(asked).allowed
    for obj in RECORDED:
        store.create(obj)
    assert found.authorize(asked).allowed
    store.delete(Key(f"RoleBinding.{GROUP}", "team-a", "developers"))
    assert not found.authorize(asked).allowed


def test_a_rewound_store_takes_its_permissions_back() -> None:
    store = Store()
    found = Authorizer(store)
    store.followers.append(found)
    mark = store.mark()
    for obj in RECORDED:
        store.create(obj)
    asked = Attributes(ALICE, "list", "", "pods", "", "team-a")
    assert found.authorize(asked).allowed
    store.rewind(mark)
    assert not found.authorize(asked).allowed


# Bootstrap

BOOTSTRAP = {
    "cluster-admin does anything": ("cluster-admin", "escalate", GROUP, "clusterroles", "", True),
    "admin binds roles": ("admin", "create", GROUP, "rolebindings", "", True),
    "admin does not write quotas": ("admin", "create", "", "resourcequotas", "", False),
    "edit writes deployments": ("edit", "update", "apps", "deployments", "", True),
    "edit reads secrets": ("edit", "get", "", "secrets", "", True),
    "edit does not bind roles": ("edit", "create", GROUP, "rolebindings", "", False),
    "edit execs": ("edit", "create", "", "pods", "exec", True),
    "view lists pods": ("view", "list", "", "pods", "", True),
    "view does not read secrets": ("view", "get", "", "secrets", "", False),
    "view does not write": ("view", "create", "", "pods", "", False),
    "view does not exec": ("view", "create", "", "pods", "exec", False),
    "view reads logs": ("view", "get", "", "pods", "log", True),
}


# (role, namespace) → one of its rules, as `kubectl get -o yaml` shows it.
BOOTSTRAP_RULES: dict[tuple[str, str], dict[str, Any]] = {
    ("system:controller:job-controller", ""): {
        "verbs": ["create", "delete", "list", "patch", "watch"],
        "apiGroups": [""],
        "resources": ["pods"],
    },
    ("system:controller:deployment-controller", ""): {
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        "apiGroups": ["apps", "extensions"],
        "resources": ["replicasets"],
    },
    ("system:controller:certificate-controller", ""): {
        "verbs": ["approve"],
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["signers"],
        "resourceNames": ["kubernetes.io/kube-apiserver-client-kubelet"],
    },
    ("system:kube-scheduler", ""): {
        "verbs": ["get", "list", "update", "watch"],
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": ["kube-scheduler"],
    },
    ("system:node-proxier", ""): {
        "verbs": ["create", "patch", "update"],
        "apiGroups": ["", "events.k8s.io"],
        "resources": ["events"],
    },
    ("system:controller:bootstrap-signer", "kube-public"): {
        "verbs": ["update"],
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["cluster-info"],
    },
}


@pytest.mark.parametrize("place", BOOTSTRAP_RULES)
def test_bootstrap_rules(place: tuple[str, str]) -> None:
    kinds = ("Role", "ClusterRole")
    found = {
        (o["metadata"]["name"], o["metadata"].get("namespace", "")): o
        for o in bootstrap.objects()
        if o["kind"] in kinds
    }
    assert BOOTSTRAP_RULES[place] in found[place]["rules"]


def test_every_bootstrap_object_is_labelled_and_every_rule_sorted() -> None:
    listed = list(bootstrap.objects())
    assert {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} <= {obj["kind"] for obj in listed}
    for obj in listed:
        assert obj["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
        assert obj["metadata"]["annotations"] == {"rbac.authorization.kubernetes.io/autoupdate": "true"}
        for rule in obj.get("rules", ()):
            for field in ("verbs", "apiGroups", "resources", "nonResourceURLs"):
                assert rule.get(field, []) == sorted(rule.get(field, [])), obj["metadata"]["name"]


@pytest.mark.parametrize("name", BOOTSTRAP)
def test_bootstrap_roles(name: str) -> None:
    bound, verb, api_group, resource, sub, want = BOOTSTRAP[name]
    found = authorizer(*bootstrap.objects(), bind("b", bound, user("alice")))
    assert found.authorize(Attributes(ALICE, verb, api_group, resource, sub, "team-a")).allowed is want


def test_everybody_may_ask_what_they_may() -> None:
    found = authorizer(*bootstrap.objects())
    asked = Attributes(ALICE, "create", "authorization.k8s.io", "selfsubjectaccessreviews")
    assert found.authorize(asked).allowed
    assert found.authorize(Attributes(ALICE, "get", path="/apis/apps")).allowed
    assert not found.authorize(Attributes(User("x", ()), "get", path="/apis")).allowed


def test_aggregation_has_nothing_to_do_at_the_start_and_takes_new_parts_in() -> None:
    store = Store()
    for obj in bootstrap.objects():
        store.create(obj)
    assert aggregation.reconcile(store).actions == ()
    widgets = rule("get", "widgets", "example.com")
    part = rbac("ClusterRole", "widget-viewer", rules=[widgets])
    part["metadata"]["labels"] = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    store.create(part)
    for _ in range(3):  # view, then edit, then admin
        for action in aggregation.reconcile(store).actions:
            perform(store, action)
    for name in ("view", "edit", "admin"):
        stored = store.require(Key(f"ClusterRole.{GROUP}", "", name))
        assert widgets in stored["rules"], name


# Escalation

GRANTER = (
    rbac(
        "ClusterRole",
        "granter",
        rules=[rule("create update", "roles rolebindings", GROUP), rule("get", "pods")],
    ),
    bind("b", "granter", user("alice")),
)


def test_a_role_with_more_than_one_has_is_refused() -> None:
    wanted = role("r", "team-a", rule("get list", "pods"), rule("delete", "nodes"))
    refused = escalation.refusal(authorizer(*GRANTER), request(wanted))
    assert refused is not None
    assert refused.message == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "alice" (groups=["system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["nodes"], Verbs:["delete"]}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}'
    )


ESCALATIONS: dict[str, tuple[tuple[Obj, ...], Obj, bool]] = {
    "what one has": (GRANTER, role("r", "team-a", rule("get", "pods")), True),
    "what one has not": (GRANTER, role("r", "team-a", rule("get", "secrets")), False),
    "less than one has, by name": (
        GRANTER,
        role("r", "team-a", rule("get", "pods", resourceNames=["one"])),
        True,
    ),
    "with the verb escalate": (
        (
            *GRANTER,
            rbac("ClusterRole", "e", rules=[rule("escalate", "roles", GROUP)]),
            bind("e", "e", user("alice")),
        ),
        role("r", "team-a", rule("get", "secrets")),
        True,
    ),
    "binding a role one does not cover": (
        (*GRANTER, role("secret", "team-a", rule("get", "secrets"))),
        bind("x", "secret", user("bob"), namespace="team-a"),
        False,
    ),
    "binding a role one covers": (
        (*GRANTER, role("reader", "team-a", rule("get", "pods"))),
        bind("x", "reader", user("bob"), namespace="team-a"),
        True,
    ),
    "with the verb bind on that role": (
        (
            *GRANTER,
            role("secret", "team-a", rule("get", "secrets")),
            rbac("ClusterRole", "e", rules=[rule("bind", "roles", GROUP, resourceNames=["secret"])]),
            bind("e", "e", user("alice")),
        ),
        bind("x", "secret", user("bob"), namespace="team-a"),
        True,
    ),
    "binding a role that is not there": (GRANTER, bind("x", "nope", user("bob"), namespace="team-a"), False),
    "a role of everything needs everything": (GRANTER, role("r", "team-a", rule("*", "*", "*")), False),
}


@pytest.mark.parametrize("name", ESCALATIONS)
def test_nobody_gives_what_they_do_not_have(name: str) -> None:
    objects, wanted, want = ESCALATIONS[name]
    assert (escalation.refusal(authorizer(*objects), request(wanted)) is None) is want


def test_an_update_of_what_the_garbage_collector_works_with_is_not_asked() -> None:
    old = role("r", "team-a", rule("get", "secrets"))
    new = {**old, "metadata": {**old["metadata"], "ownerReferences": []}}
    assert escalation.refusal(authorizer(*GRANTER), request(new, UPDATE, old)) is None


def test_aggregation_rules_need_cluster_admin() -> None:
    wanted = rbac("ClusterRole", "agg", aggregationRule={"clusterRoleSelectors": [{}]})
    refused = escalation.refusal(authorizer(*GRANTER), request(wanted))
    assert refused is not None
    assert refused.message.endswith("must have cluster-admin privileges to use the aggregationRule")


def test_who_is_not_asked_for_what_they_give() -> None:
    everything = role("r", "team-a", rule("*", "*", "*"))
    root = User("root", (SYSTEM_MASTERS,))
    here = authorizer(*GRANTER)
    assert escalation.refusal(here, request(everything)) is not None
    assert escalation.refusal(here, request(everything, user=root)) is None
    assert escalation.refusal(here, request(everything, subresource="status")) is None
    assert escalation.refusal(here, request(None, "DELETE", everything)) is None
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team-a"}}
    assert escalation.refusal(here, request(pod)) is None


def test_an_update_of_a_binding_that_changes_nothing_is_not_asked() -> None:
    old = bind("x", "nope", user("bob"), namespace="team-a")
    here = authorizer(*GRANTER)
    assert escalation.refusal(here, request(old, UPDATE, old)) is None
    other = bind("x", "nope", user("eve"), namespace="team-a")
    refused = escalation.refusal(here, request(other, UPDATE, old))
    assert refused is not None
    assert (refused.code, refused.plugin) == (404, "RBAC")
    assert refused.status["reason"] == "NotFound"
    assert refused.status["details"] == {"name": "nope", "group": GROUP, "kind": "role"}


def test_bindings_that_name_nobody_or_nothing() -> None:
    odd = bind("odd", "r", user("alice"), namespace="team-a", kind="Secret")
    homeless = bind("homeless", "c", account("robot"), {"kind": "Robot", "name": "alice"})
    here = authorizer(odd, homeless, rbac("ClusterRole", "c", rules=[PODS_RULE]))
    told = here.authorize(Attributes(ALICE, "get", "", "pods", "", "team-a", "p"))
    assert (told.allowed, told.reason) == (False, 'RBAC: unsupported role reference kind: "Secret"')
    robot = User("system:serviceaccount:ci:robot", ())
    assert here.authorize(Attributes(robot, "get", "", "pods", "", "ci", "p")).allowed is False
    both = bind("both", "c", {"kind": "Robot", "name": "x"}, account("y"), user("alice"))
    told = authorizer(both, rbac("ClusterRole", "c", rules=[PODS_RULE])).authorize(
        Attributes(ALICE, "get", "", "pods", "", "team-a", "p")
    )
    assert told.allowed, "whoever stands behind one that is nobody counts"
    known = authorizer(role("r", "team-a", PODS_RULE), bind("b", "r", user("alice"), namespace="team-a"))
    asked = Attributes(ALICE, "get", "", "pods", "", "team-a", "p")
    assert [known.authorize(asked) for _ in range(2)] == [known.authorize(asked)] * 2
    assert known.authorize(asked).allowed


# Impersonation and reviews


def test_impersonation_asks_for_every_part() -> None:
    root = User("root", (ALL_AUTHENTICATED,))
    asked = impersonation.checks(root, "system:serviceaccount:ci:robot", ["devs"], "u1", {"scopes": ["a"]})
    assert [(a.group, a.resource, a.subresource, a.namespace, a.name) for a in asked] == [
        ("", "serviceaccounts", "", "ci", "robot"),
        ("", "groups", "", "", "devs"),
        ("authentication.k8s.io", "userextras", "scopes", "", "a"),
        ("authentication.k8s.io", "uids", "", "", "u1"),
    ]


def test_impersonating_a_person_is_about_users() -> None:
    (asked,) = impersonation.checks(User("root", ()), "bob")
    assert asked == Attributes(User("root", ()), "impersonate", "", "users", "", "", "bob", "", "v1")


@pytest.mark.parametrize(
    ("name", "groups", "want"),
    [
        ("alice", (), ("system:authenticated",)),
        ("alice", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("system:anonymous", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("system:serviceaccount:ci:robot", ("devs",), ("devs", "system:authenticated")),
        ("alice", ("devs",), ("devs", "system:authenticated")),
        ("system:anonymous", (), ("system:unauthenticated",)),
        (
            "system:serviceaccount:ci:robot",
            (),
            ("system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"),
        ),
    ],
)
def test_whom_one_becomes(name: str, groups: tuple[str, ...], want: tuple[str, ...]) -> None:
    assert impersonation.impersonated(name, groups).groups == want


@pytest.mark.parametrize(
    "name", ["system:serviceaccount:ci", "system:serviceaccount::x", "alice", "system:serviceaccount:a:b:c"]
)
def test_names_that_are_no_service_accounts(name: str) -> None:
    assert impersonation.service_account_name(name) is None


def review(kind: str, **spec: Any) -> Obj:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


def test_a_self_review_is_about_who_asks() -> None:
    wanted = {"namespace": "team-a", "verb": "create", "resource": "pods"}
    answered = reviews.answer(
        authorizer(*RECORDED), review("SelfSubjectAccessReview", resourceAttributes=wanted), ALICE
    )
    assert answered["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "developers/team-a" of Role "developer" to User "alice"',
    }


def test_a_review_of_somebody_else() -> None:
    wanted = {"namespace": "team-b", "verb": "create", "resource": "pods"}
    asked = review("SubjectAccessReview", user="alice", resourceAttributes=wanted)
    root = User("root", (SYSTEM_MASTERS,))
    assert reviews.answer(authorizer(*RECORDED), asked, root)["status"] == {"allowed": False}


def test_the_rules_of_a_user() -> None:
    asked = review("SelfSubjectRulesReview", namespace="team-a")
    status = reviews.answer(authorizer(*RECORDED, *bootstrap.objects()), asked, ALICE)["status"]
    assert status["incomplete"] is False
    assert {
        "verbs": ["get", "list", "watch", "create", "delete"],
        "apiGroups": ["", "apps", "batch"],
        "resources": ["pods", "pods/log", "jobs"],
    } in status["resourceRules"]
    assert any("/api" in r["nonResourceURLs"] for r in status["nonResourceRules"])


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        (review("SubjectAccessReview", resourceAttributes={"verb": "get"}), "spec.user: Invalid value"),
        (
            review("SubjectAccessReview", user="x"),
            "exactly one of nonResourceAttributes or resourceAttributes",
        ),
        (review("SelfSubjectRulesReview"), "no namespace on request"),
        (
            review(
                "SelfSubjectAccessReview",
                resourceAttributes={"verb": "a"},
                nonResourceAttributes={"verb": "b"},
            ),
            "cannot be specified in combination",
        ),
        (
            review(
                "LocalSubjectAccessReview", user="x", resourceAttributes={"verb": "get", "namespace": "b"}
            ),
            "must match metadata.namespace",
        ),
    ],
)
def test_reviews_that_ask_nothing_sensible(asked: Obj, want: str) -> None:
    assert any(want in str(p) for p in reviews.problems(asked, "a"))


# Properties

_WORDS = st.sampled_from(["get", "list", "*"])
_RESOURCES = st.sampled_from(["pods", "nodes", "pods/log", "*", "*/log"])
_RULES = st.builds(
    lambda v, r, g, n: {"verbs": v, "resources": r, "apiGroups": g, **({"resourceNames": n} if n else {})},
    st.lists(_WORDS, min_size=1, max_size=2),
    st.lists(_RESOURCES, min_size=1, max_size=2),
    st.lists(st.sampled_from(["", "apps", "*"]), min_size=1, max_size=2),
    st.lists(st.sampled_from(["one", "two"]), max_size=1),
)
_ASKED = st.builds(
    lambda v, g, r, s, n: Attributes(ALICE, v, g, r, s, "team-a", n),
    st.sampled_from(["get", "list", "delete"]),
    st.sampled_from(["", "apps"]),
    st.sampled_from(["pods", "nodes"]),
    st.sampled_from(["", "log"]),
    st.sampled_from(["", "one", "two"]),
)


@settings(max_examples=150, deadline=None)
@given(asked=_ASKED, rules=st.lists(_RULES, max_size=3))
def test_without_a_binding_everything_is_denied(asked: Attributes, rules: list[dict[str, Any]]) -> None:
    found = authorizer(role("r", "team-a", *rules), bind("b", "r", user("bob"), namespace="team-a"))
    assert not found.authorize(asked).allowed


@st.composite
def _allowed(draw: st.DrawFn) -> tuple[dict[str, Any], Attributes]:
    """A rule, and a request that it allows."""
    found = draw(_RULES)
    verb, resource, group = (draw(st.sampled_from(found[key])) for key in ("verbs", "resources", "apiGroups"))
    resource, _, sub = resource.partition("/")
    names = found.get("resourceNames", [])
    return found, Attributes(
        ALICE,
        draw(st.sampled_from(["get", "list", "delete"])) if verb == "*" else verb,
        draw(st.sampled_from(["", "apps"])) if group == "*" else group,
        draw(st.sampled_from(["pods", "nodes"])) if resource == "*" else resource,
        draw(st.sampled_from(["", "log"])) if resource == "*" and not sub else sub,
        "team-a",
        draw(st.sampled_from(names or ["", "one", "two"])),
    )


@settings(max_examples=150, deadline=None)
@given(allowed=_allowed(), rules=st.lists(_RULES, max_size=2), more=st.lists(_RULES, max_size=3))
def test_another_role_never_takes_a_permission_away(
    allowed: tuple[dict[str, Any], Attributes], rules: list[dict[str, Any]], more: list[dict[str, Any]]
) -> None:
    mine, asked = allowed
    few = (role("r", "team-a", mine, *rules), bind("b", "r", user("alice"), namespace="team-a"))
    many = (*few, role("s", "team-a", *more), bind("a", "s", user("alice"), namespace="team-a"))
    assert authorizer(*few).authorize(asked).allowed
    assert authorizer(*many).authorize(asked).allowed


@settings(max_examples=200, deadline=None)
@given(owned=st.lists(_allowed(), min_size=1, max_size=3), other=_RULES, everything=_ASKED)
def test_what_covers_a_role_allows_all_it_allows(
    owned: list[tuple[dict[str, Any], Attributes]], other: dict[str, Any], everything: Attributes
) -> None:
    having = parse_rules([mine for mine, _ in owned])
    narrower = [
        {
            "verbs": [asked.verb],
            "resources": [f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource],
            "apiGroups": [asked.group],
            **({"resourceNames": [asked.name]} if asked.name else {}),
        }
        for _, asked in owned
    ]
    assert uncovered(having, parse_rules(narrower)) == []
    for _, asked in owned:
        assert any(allows(r, asked) for r in having)
    wishing = parse_rules([other])
    is_wished, is_owned = (any(allows(r, everything) for r in rules) for rules in (wishing, having))
    assert is_owned or not is_wished or uncovered(having, wishing) != []


def test_rules_cover_themselves() -> None:
    rules = (Rule(("get",), ("",), ("pods",)), Rule(("get",), urls=("/metrics/*",)))
    assert uncovered(rules, rules) == []


def test_which_paths_a_path_covers() -> None:
    for own, url, is_covered in (
        ("/a", "/a", True),
        ("/a", "/b", False),
        ("/a", "/a/b", False),
        ("/a/*", "/a/b", True),
        ("/a/*", "/a", False),
        ("/a*", "/ab", True),
        ("/a*", "/b", False),
        ("*", "/x", True),
    ):
        owned, wanted = Rule(("get",), urls=(own,)), Rule(("get", "put"), urls=(url,))
        left = ["put"] if is_covered else ["get", "put"]
        assert [piece.verbs for piece in uncovered([owned], [wanted])] == [(verb,) for verb in left], (
            own,
            url,
        )


def test_a_label_that_aggregates_a_role_to_another_hands_its_rules_out() -> None:
    old = rbac("ClusterRole", "strong", rules=[rule("*", "*", "*")])
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"aggregate-to-mine": "true"}}}
    refused = escalation.refusal(authorizer(*GRANTER), request(labelled, UPDATE, old))
    assert refused is not None and refused.code == 403
    collected = {**old, "metadata": {**old["metadata"], "finalizers": ["x/y"]}}
    assert escalation.refusal(authorizer(*GRANTER), request(collected, UPDATE, old)) is None


def test_who_has_not_everything_takes_no_aggregation_rule_away() -> None:
    old = rbac("ClusterRole", "agg", aggregationRule={"clusterRoleSelectors": [{}]})
    new = rbac("ClusterRole", "agg", rules=[])
    assert escalation.refusal(authorizer(*GRANTER), request(new, UPDATE, old)) is not None


@pytest.mark.parametrize(
    ("owned", "wanted", "is_covered"),
    [
        ("pods", "pods", True),
        ("pods", "pods/log", False),
        ("pods/log", "pods/log", True),
        ("*/log", "pods/log", True),
        ("*/log", "pods/status", False),
        ("*/log", "pods", False),
        ("*/", "pods", False),
        ("*", "pods/log", True),
        ("*", "pods", True),
    ],
)
def test_which_resources_cover_which(owned: str, wanted: str, is_covered: bool) -> None:
    """Source: component-helpers auth/rbac/validation resourceCoversAll."""
    own, other = parse_rules([rule("get", owned)]), parse_rules([rule("get", wanted)])
    assert (uncovered(own, other) == []) is is_covered


def test_an_account_without_a_namespace_is_nobody_outside_of_one() -> None:
    """In a ClusterRoleBinding it has to say where it lives; in a RoleBinding it lives there unless it says so."""
    reader = rbac("ClusterRole", "reader", rules=[rule("get", "pods")])
    found = authorizer(
        reader,
        bind("everywhere", "reader", account("lost"), account("found", namespace="team-b")),
        bind("here", "reader", account("local"), namespace="team-a", kind="ClusterRole"),
    )

    def may(name: str, where: str) -> bool:
        who = User(f"system:serviceaccount:{name}", ())
        return found.authorize(Attributes(who, "get", "", "pods", "", where, "p")).allowed

    assert [may(n, "team-a") for n in (":lost", "team-a:lost", "None:lost")] == [False] * 3
    assert [may("team-b:found", where) for where in ("team-a", "team-b", "")] == [True] * 3
    assert [may("team-a:local", where) for where in ("team-a", "team-b", "")] == [True, False, False]
    assert not may("team-b:local", "team-a")
