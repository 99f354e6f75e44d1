"""Small rules of admission, each with its whole answer: quotas, costs of expressions, levels, reviews, aggregation."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fairway.admission.cel.compiling import Error, Program, compiled
from fairway.admission.cel.composition import Composed, composed
from fairway.admission.cel.evaluating import OUT_OF_BUDGET, Evaluation, largest
from fairway.admission.door import Door
from fairway.admission.intree import Options
from fairway.admission.podsecurity.evaluation import violations
from fairway.admission.podsecurity.levels import LATEST, LevelVersion, Policy, policy_of
from fairway.admission.policies import mutating, params
from fairway.admission.policies.index import PolicyIndex
from fairway.admission.quota import charges, quota_violation
from fairway.admission.rbac import aggregation, reviews
from fairway.admission.rbac.attributes import Attributes, forbidden_status
from fairway.admission.rbac.authorizer import Authorizer
from fairway.admission.request import Admitted, Denied, User
from fairway.admission.webhooks.calling import webhooks_of
from fairway.cluster.store import Store
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Key, Obj

# Quotas


def quota(
    name: str, used: dict[str, str] | None = None, scopes: list[str] | None = None, /, **hard: str
) -> Obj:
    hard = {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"hard": hard, **({"scopes": scopes} if scopes else {})},
        **({"status": {"hard": hard, "used": used}} if used is not None else {}),
    }


def pod(*containers: Obj, **spec: Any) -> Obj:
    meta = {"name": "p", "namespace": "team"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": list(containers), **spec},
    }


def container(name: str, requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> Obj:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}}


def store_of(*objects: Obj) -> Store:
    store = Store()
    for obj in objects:
        made = store.create(obj)
        if obj["kind"] == "ResourceQuota" and "status" in obj:
            meta = made["metadata"]
            store.set_status(Key("ResourceQuota", "team", meta["name"]), obj["status"])
    return store


SAID = container("c", {"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"})


@pytest.mark.parametrize(
    ("quotas", "obj", "want"),
    [
        (
            [quota("q", limits_memory="9Gi", requests_cpu="9", cpu="9")],
            pod(container("b"), container("a"), container("c", {"cpu": "1"})),
            "failed quota: q: must specify cpu for: a,b; limits.memory for: a,b,c; requests.cpu for: a,b",
        ),
        (
            [quota("q", limits_memory="9Gi")],
            pod(container("b"), initContainers=[container("a"), SAID]),
            "failed quota: q: must specify limits.memory for: a,b",
        ),
        ([quota("q", limits_memory="9Gi")], pod(container("b"), resources={"limits": {"memory": "1Gi"}}), None),
        ([quota("q", requests_memory="9Gi")], pod(container("b", limits={"memory": "1Gi"})), None),
        (
            [quota("q", requests_memory="512Mi", limits_cpu="1", pods="0", requests_cpu="9")],
            pod(SAID),
            "exceeded quota: q, requested: limits.cpu=2,pods=1,requests.memory=1Gi, "
            "used: limits.cpu=0,pods=0,requests.memory=0, limited: limits.cpu=1,pods=0,requests.memory=512Mi",
        ),
        (
            [quota("q", {"requests.cpu": "1500m", "pods": "3"}, pods="3", requests_cpu="2")],
            pod(SAID),
            "exceeded quota: q, requested: pods=1,requests.cpu=1, used: pods=3,requests.cpu=1500m, "
            "limited: pods=3,requests.cpu=2",
        ),
        ([quota("q", {"requests.cpu": "1", "pods": "3"}, pods="4", requests_cpu="2")], pod(SAID), None),
        # Its controller has not seen yet what is bounded: it is counted on the spot.
        ([quota("q", {"pods": "3"}, pods="3", requests_cpu="2")], pod(SAID), None),
        ([quota("q", None, ["BestEffort"], pods="0")], pod(SAID), None),
        (
            [quota("q", None, ["BestEffort"], pods="0")],
            pod(container("c")),
            "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
        ),
        (
            [quota("a", pods="9"), quota("b", pods="0"), quota("c", requests_cpu="0")],
            pod(SAID),
            "exceeded quota: b, requested: pods=1, used: pods=0, limited: pods=0",
        ),
        ([quota("q", **{"requests.nvidia.com/gpu": "0"})], pod(SAID), None),
    ],
)  # fmt: skip
def test_what_a_quota_has_no_room_for(quotas: list[Obj], obj: Obj, want: str | None) -> None:
    assert quota_violation(store_of(*quotas), obj) == want


def claim(storage: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "team"},
        "spec": {"resources": {"requests": {"storage": storage}}},
    }


def test_an_update_counts_what_it_adds() -> None:
    store = store_of(quota("q", {"requests.storage": "8Gi"}, requests_storage="10Gi"))
    for old, new, want in (
        ("1Gi", "3Gi", None),
        (
            "1Gi",
            "4Gi",
            "exceeded quota: q, requested: requests.storage=3Gi, used: requests.storage=8Gi, "
            "limited: requests.storage=10Gi",
        ),
        ("9Gi", "1Gi", None),
    ):
        assert quota_violation(store, claim(new), claim(old)) == want
        written = charges(store, claim(new), claim(old))
        grown = {"3Gi": "10Gi", "4Gi": "11Gi"}.get(new)
        assert [w.status["used"] for w in written] == ([{"requests.storage": grown}] if grown else [])


def test_every_quota_is_charged_for_what_it_counts() -> None:
    store = store_of(
        quota("a", {"pods": "2", "requests.cpu": "1500m", "count/secrets": "7"}, pods="9", requests_cpu="9"),
        quota("b", {"limits.memory": "1Gi"}, limits_memory="9Gi"),
        quota("c", {"count/secrets": "7"}, **{"count/secrets": "9"}),
        quota("d", None, pods="9"),
        quota("e", {"pods": "4"}, ["BestEffort"], pods="9"),
    )
    written = charges(store, pod(SAID))
    assert [(w.key, w.status) for w in written] == [
        (
            Key("ResourceQuota", "team", "a"),
            {
                "hard": {"pods": "9", "requests.cpu": "9"},
                "used": {"pods": "3", "requests.cpu": "2500m", "count/secrets": "7"},
            },
        ),
        (
            Key("ResourceQuota", "team", "b"),
            {"hard": {"limits.memory": "9Gi"}, "used": {"limits.memory": "3Gi"}},
        ),
    ]


# Expressions and what they may cost


NAMES = (("object", "dyn"),)


def program(expression: str, names: Any = NAMES) -> Program:
    found = compiled(expression, names)
    assert isinstance(found, Program), found
    return found


def test_what_an_expression_costs() -> None:
    for expression, want in (
        ("object.size() == 3", 1),
        ("object.all(a, a > 0)", 15),
        ("object.all(a, object.exists(b, a == b))", 45),
        ("object.all(a, object.all(b, object.exists(c, a == c)))", 135),
    ):
        evaluation = Evaluation({"object": [1, 2, 3]}, 200)
        assert evaluation.evaluate(program(expression)) is True
        assert evaluation.left == 200 - want
        exact = Evaluation({"object": [1, 2, 3]}, want)
        assert (exact.evaluate(program(expression)), exact.left) == (True, 0)
        short = Evaluation({"object": [1, 2, 3]}, want - 1)
        assert short.evaluate(program(expression)) == Error(OUT_OF_BUDGET, "budget")
        assert short.left == want - 1


def test_what_one_expression_may_cost() -> None:
    twice = program("object.all(a, object.exists(b, a == b))")
    said = "operation cancelled: actual cost limit exceeded"
    assert 5 * 447**2 <= 1_000_000 < 5 * 448**2
    # The interpreter itself goes ten thousand rounds.
    for members, want, left in (
        (100, True, 10_000_000 - 50_000),
        (447, Error(said, "runtime"), 10_000_000 - 5 * 447**2),
        (448, Error(said, "budget"), 10_000_000),
    ):
        evaluation = Evaluation({"object": list(range(members))})
        assert (evaluation.evaluate(twice), evaluation.left) == (want, left)
    once = program("object.all(a, a > 0)")
    for members, want in ((9_000, True), (200_000, Error(said, "runtime")), (200_001, Error(said, "budget"))):
        assert Evaluation({"object": [1] * members}).evaluate(once) == want


def test_what_is_bound_later_counts_too() -> None:
    names = (*NAMES, ("variables.x", "dyn"))
    loop = program("variables.x.all(a, a > 0)", names)
    for first in (True, False):
        evaluation = Evaluation({"object": [1]}, 1000)
        if first:
            assert evaluation.evaluate(program("object.all(a, a > 0)")) is True
        evaluation.bind("variables.x", [1] * 20)
        assert evaluation.evaluate(loop) is True
        assert evaluation.left == 1000 - 100 - (5 if first else 0)
        evaluation.bind("variables.x", [1])
        assert evaluation.evaluate(loop) is True
        assert evaluation.left == 1000 - 200 - (5 if first else 0)
    # What the server puts together never counts.
    for name in ("request", "namespaceObject", "authorizer", "authorizer.requestResource"):
        evaluation = Evaluation({name: {str(n): n for n in range(50)}, "object": [1]}, 9)
        assert evaluation.evaluate(program("object.all(a, a > 0)")) is True
        assert evaluation.left == 4


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (None, 0),
        ("abcdef", 0),
        ([], 0),
        ({}, 0),
        ([1, 2], 2),
        ({"a": 1}, 1),
        ({"a": [1, 2, 3], "b": {"c": 1, "d": 2}}, 3),
        ([[1], [1, 2, {"a": 1, "b": 2, "c": 3, "d": 4}]], 4),
        ([{"a": [[1, 2, 3]]}, 5], 3),
    ],
)
def test_the_largest_list_or_map(value: Any, want: int) -> None:
    assert largest(value) == want


def test_variables_are_worked_out_once_and_shared_where_they_are_the_same() -> None:
    declared = [
        {"name": "one", "expression": "object.size()"},
        {"name": "two", "expression": "variables.one + 1"},
        {"name": "bad", "expression": "object.nobody.x"},
        {"name": "worse", "expression": "variables.bad == 1"},
        {"name": "broken", "expression": "1 +"},
    ]
    composition = composed(declared, NAMES)
    assert [n for n, _ in composition.names] == ["object", *(f"variables.{d['name']}" for d in declared)]
    shared: dict[tuple[Any, ...], Any] = {}
    evaluation = Evaluation({"object": [1, 2, 3]}, 100)
    made = Composed(evaluation, composition, shared)
    both = program("variables.two + variables.one", composition.names)
    assert [made.evaluate(both), made.evaluate(both)] == [7, 7]
    assert evaluation.left == 100 - 4
    other = Evaluation({"object": [1, 2, 3]}, 100)
    assert Composed(other, composed(declared[:2], NAMES), shared).evaluate(both) == 7
    assert other.left == 100 - 1
    for name, kind, said in (
        ("bad", "runtime", 'composited variable "bad" fails to evaluate: '),
        (
            "worse",
            "runtime",
            'composited variable "worse" fails to evaluate: composited variable "bad" fails',
        ),
        ("broken", "compile", 'composited variable "broken" fails to evaluate: compilation failed'),
    ):
        failed = made.evaluate(program(f"string(variables.{name}) == ''", composition.names))
        assert isinstance(failed, Error) and failed.kind == kind and failed.text.startswith(said), failed


# Whether anybody configured anything


def test_who_changes_objects() -> None:
    group = "admissionregistration.k8s.io"
    for kind, is_changing in (
        ("MutatingAdmissionPolicy", True),
        ("MutatingWebhookConfiguration", True),
        ("ValidatingAdmissionPolicy", False),
        ("ValidatingWebhookConfiguration", False),
        ("ValidatingAdmissionPolicyBinding", None),
    ):
        store = Store()
        index = PolicyIndex(store)
        store.followers.append(index)
        assert (index.changes_objects, index.is_empty) == (False, True)
        store.create({"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "x"}})
        assert (index.changes_objects, index.is_empty) == (bool(is_changing), is_changing is None)
        store.delete(Key(f"{kind}.{group}", "", "x"))
        assert (index.changes_objects, index.is_empty) == (False, True)


# Pod security


P = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")


def test_what_the_labels_of_a_namespace_ask_for() -> None:
    levels, versions = (None, *LEVELS, "strict"), (None, "latest", "v1.29", "1.29")
    for enforce, pinned, warn, warned in product(levels, versions, levels, versions):
        said = {"enforce": enforce, "enforce-version": pinned, "warn": warn, "warn-version": warned}
        labels = {f"{P}{key}": value for key, value in said.items() if value is not None}
        problems, minors = [], {None: LATEST, "latest": LATEST, "v1.29": 29, "1.29": LATEST}
        for key, value in said.items():
            if value in ("strict", "1.29"):
                words = (
                    "one of privileged, baseline, restricted" if value == "strict" else '"latest" or "v1.x"'
                )
                problems.append(f'metadata.labels[{P}{key}]: Invalid value: "{value}": must be {words}')
        want_enforce = LevelVersion(
            {None: "privileged", "strict": "restricted"}.get(enforce, enforce or ""), minors[pinned]
        )
        want_warn = LevelVersion(
            {None: "privileged", "strict": "privileged"}.get(warn, warn or ""), minors[warned]
        )
        if warn is None and enforce in ("baseline", "restricted"):
            want_warn = LevelVersion(enforce, minors[pinned] if warned is None else minors[warned])
        assert policy_of({**labels, "app": "x"}) == Policy(
            want_enforce, LevelVersion(), want_warn, tuple(problems)
        )
    assert policy_of({f"{P}audit": "baseline", f"{P}audit-version": "v1.0"}).audit == LevelVersion(
        "baseline", 0
    )
    assert policy_of({"app": "restricted"}) == policy_of({}) == Policy()
    assert [str(LevelVersion("baseline", n)) for n in (LATEST, 0, 31)] == [
        "baseline:latest",
        "baseline:v1.0",
        "baseline:v1.31",
    ]
    for mode, level in product(("enforce", "audit", "warn"), LEVELS):
        asked = policy_of({f"{P}{mode}": level, f"{P}warn": level if mode == "warn" else "privileged"})
        assert asked.is_privileged is (level == "privileged")


# Source: the Pod Security Standards, "Sysctls" of the baseline policy.
SAFE_SYSCTLS = {
    0: (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ),
    27: ("net.ipv4.ip_local_reserved_ports",),
    29: (
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    ),
    32: ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    37: ("net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"),
    1000: ("kernel.msgmax",),
}


def test_sysctls_are_safe_since_a_version() -> None:
    names = [name for since in SAFE_SYSCTLS.values() for name in since]
    spec = {"containers": [], "securityContext": {"sysctls": [{"name": n, "value": "1"} for n in names]}}
    for minor in (0, 26, 27, 28, 29, 31, 32, 36, 37, 99):
        known = min(minor, 36)  # This version's standards are the newest there are.
        unsafe = sorted(n for since, of_it in SAFE_SYSCTLS.items() if since > known for n in of_it)
        found = violations(LevelVersion("baseline", minor), {}, spec)
        assert [v.reason for v in found] == ["forbidden sysctls"]
        assert sorted(found[0].detail.split(", ")) == unsafe, minor


# The short way in and the long one


def test_a_pod_that_meets_nobody_is_what_the_whole_chain_makes_of_it() -> None:
    # Bounds nothing, but whoever is in its namespace takes the long way.
    limits: Obj = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l", "namespace": "team"},
        "spec": {"limits": []},
    }
    zone = "topology.kubernetes.io/zone"
    world: list[Obj] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {zone: "z"}}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "robot", "namespace": "team"},
            "imagePullSecrets": [{"name": "s"}],
            "automountServiceAccountToken": True,
        },
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        },
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "kata"},
            "handler": "kata",
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata"}]},
        },
    ]
    plain, whole = store_of(*world), store_of(*world, limits)
    doors = [Door(store, options=Options(is_served=False)) for store in (plain, whole)]
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    template = {"containers": [{**SAID, "image": "i"}]}
    for spec, meta in (
        (template, {}),
        ({**template, "nodeName": "n"}, {}),
        ({**template, "nodeName": "n"}, {"labels": {zone: "own"}}),
        ({**template, "nodeName": "nobody"}, {}),
        ({**template, "serviceAccountName": "robot"}, {}),
        ({**template, "serviceAccountName": "nobody"}, {}),
        ({**template, "priorityClassName": "high"}, {}),
        ({**template, "priorityClassName": "nobody"}, {}),
        ({**template, "runtimeClassName": "kata"}, {}),
        ({**template, "runtimeClassName": "nobody"}, {}),
        ({**template, "runtimeClassName": "kata", "overhead": {"cpu": "1"}}, {}),
        ({**template, "runtimeClassName": "kata", "nodeSelector": {"kata": "no"}}, {}),
        ({**template, "nodeName": "n"}, mirror),
        ({**template, "nodeName": "n", "serviceAccountName": "robot"}, mirror),
    ):
        for _ in range(2):
            obj = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": "team", **meta},
                "spec": spec,
            }
            short, long = (door.enter(obj) for door in doors)
            assert type(short) is type(long), (spec, meta)
            if isinstance(short, Admitted) and isinstance(long, Admitted):
                assert apply_defaults(short.obj or {}) == long.obj, (spec, meta)
            elif isinstance(short, Denied) and isinstance(long, Denied):
                assert (short.message, short.status) == (long.message, long.status)


# Reviews and aggregation


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        (
            {"user": "ann", "groups": ["g"], "uid": "7", "extra": {"b": ["2", "1"], "a": None}},
            Attributes(User("ann", ("g",), "7", (("a", ()), ("b", ("2", "1")))), ""),
        ),
        ({}, Attributes(User("", ()), "")),
        (
            {
                "resourceAttributes": {
                    "verb": "get",
                    "group": "apps",
                    "version": "v1",
                    "resource": "deployments",
                    "subresource": "scale",
                    "namespace": "team",
                    "name": "d",
                },
                "nonResourceAttributes": {"verb": "post", "path": "/x"},
            },
            Attributes(User("", ()), "get", "apps", "deployments", "scale", "team", "d", "", "v1"),
        ),
        (
            {"nonResourceAttributes": {"verb": "get", "path": "/x"}},
            Attributes(User("", ()), "get", path="/x"),
        ),
        ({"nonResourceAttributes": {"path": "/x"}}, Attributes(User("", ()), "", path="/x")),
    ],
)
def test_what_a_review_asks(spec: Obj, want: Attributes) -> None:
    assert reviews.attributes_of(spec, reviews._subject(spec)) == want


def test_the_whole_answer_to_a_review() -> None:
    group = "rbac.authorization.k8s.io"
    store = Store()
    for kind, fields in (
        (
            "ClusterRole",
            {
                "rules": [
                    {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]},
                    {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/x/*"]},
                ]
            },
        ),
        (
            "ClusterRoleBinding",
            {
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "r"},
                "subjects": [{"kind": "User", "apiGroup": group, "name": "ann"}],
            },
        ),
    ):
        store.create({"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "r"}, **fields})
    authorizer = Authorizer(store)
    pods = {"verb": "get", "resource": "pods", "name": "p", "namespace": "team"}
    for spec, allowed in (
        ({"user": "ann", "resourceAttributes": pods}, True),
        ({"user": "bob", "resourceAttributes": pods}, False),
        ({"user": "ann", "resourceAttributes": {**pods, "name": "q"}}, False),
        ({"user": "ann", "nonResourceAttributes": {"verb": "get", "path": "/x/y"}}, True),
        ({"user": "ann", "nonResourceAttributes": {"verb": "get", "path": "/y"}}, False),
    ):
        review = {"kind": "SubjectAccessReview", "metadata": {"a": 1}, "spec": spec}
        status: dict[str, Any] = {"allowed": allowed}
        if allowed:
            status["reason"] = 'RBAC: allowed by ClusterRoleBinding "r" of ClusterRole "r" to User "ann"'
        assert reviews.answer(authorizer, review, User("bob", ())) == {**review, "status": status}
        own = {**review, "kind": "SelfSubjectAccessReview"}
        assert reviews.answer(authorizer, own, User("ann", ()))["status"]["allowed"] is (
            allowed or spec["user"] == "bob"
        )
    asked = {"kind": "SelfSubjectRulesReview", "spec": {"namespace": "team"}}
    assert reviews.answer(authorizer, asked, User("ann", ())) == {
        **asked,
        "status": {
            "resourceRules": [
                {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]}
            ],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/x/*"]}],
            "incomplete": False,
        },
    }
    assert reviews.answer(authorizer, asked, User("bob", ()))["status"] == {
        "resourceRules": [],
        "nonResourceRules": [],
        "incomplete": False,
    }


def test_rules_are_collected_by_selector_and_name_each_once() -> None:
    def rule(resource: str) -> dict[str, Any]:
        return {"verbs": ["get"], "apiGroups": [""], "resources": [resource]}

    def role(name: str, label: str, *resources: str) -> Obj:
        return {
            "metadata": {"name": name, "labels": {label: "yes"}},
            "rules": [rule(r) for r in resources],
        }

    whole = {
        **role("all", "b", "z"),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {k: "yes"}} for k in ("b", "a")]},
    }
    roles = [
        role("4", "a", "e", "d"),
        role("3", "b", "c"),
        role("2", "a", "c", "b"),
        role("1", "x", "w"),
        whole,
    ]
    assert aggregation.aggregated_rules(whole, roles) == [rule(r) for r in ("c", "b", "e", "d")]
    assert aggregation.aggregated_rules(roles[0], roles) == []
    empty = {"metadata": {"name": "empty"}, "aggregationRule": {"clusterRoleSelectors": None}}
    assert aggregation.aggregated_rules(empty, roles) == []


# Parameters


def test_which_objects_a_policy_is_asked_with() -> None:
    def config(name: str, home: str, **labels: str) -> Obj:
        meta = {"name": name, "namespace": home, "labels": labels}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}

    def node(name: str, **labels: str) -> Obj:
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}

    def definition(scope: str | None) -> Obj:
        named = {"kind": "Limit", "plural": "limits"}
        spec = {"group": "example.com", "names": named, **({"scope": scope} if scope else {})}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "limits.example.com"},
            "spec": spec,
        }

    store = store_of(
        *(config("a", "x", k="1"), config("b", "x"), config("c", "y", k="1")),
        *(node("n", k="1"), node("m")),
    )
    configs, nodes = {"apiVersion": "v1", "kind": "ConfigMap"}, {"apiVersion": "v1", "kind": "Node"}
    chosen = {"matchLabels": {"k": "1"}}
    for kind, ref, home, want in (
        (None, {"name": "a"}, "x", [None]),
        (configs, None, "x", [None]),
        (configs, {"name": "a"}, "x", ["a"]),
        (configs, {"name": "a"}, "y", []),
        (configs, {"name": "a", "namespace": "x"}, "y", ["a"]),
        (configs, {"name": "a", "namespace": "x"}, "", ["a"]),
        (configs, {"selector": {}}, "x", ["a", "b"]),
        (configs, {"selector": chosen}, "x", ["a"]),
        (configs, {"selector": chosen, "namespace": "y"}, "x", ["c"]),
        (configs, {"selector": chosen}, "z", []),
        (configs, {"selector": chosen, "parameterNotFoundAction": "Deny"}, "z", "no params found for policy"),
        (configs, {"selector": chosen, "parameterNotFoundAction": "Allow"}, "z", []),
        (configs, {"name": "a"}, "", "cannot use namespaced paramRef in policy binding"),
        (configs, {}, "x", [None]),
        (configs, {"parameterNotFoundAction": "Allow"}, "x", "one of name or selector must be provided"),
        (configs, {"name": "a", "selector": {}}, "x", "paramRef.name and paramRef.selector are mutually exclusive"),
        (nodes, {"name": "n"}, "x", ["n"]),
        (nodes, {"selector": {}}, "", ["m", "n"]),
        (nodes, {"selector": chosen}, "x", ["n"]),
        (nodes, {"name": "n", "namespace": "x"}, "x", "paramRef.namespace must not be provided"),
    ):  # fmt: skip
        if isinstance(want, str):
            with pytest.raises(params.ParamsError) as refused:
                params.collect(store, kind, ref, home)
            assert str(refused.value).startswith(want), (kind, ref, home)
        else:
            found = params.collect(store, kind, ref, home)
            assert [o and o["metadata"]["name"] for o in found] == want, (kind, ref, home)
    limits = {"apiVersion": "example.com/v9", "kind": "Limit"}
    for scope, said in (("Cluster", "paramRef.namespace must not"), ("Namespaced", None), (None, None)):
        store = store_of(definition(scope))
        if said is None:
            assert params.collect(store, limits, {"name": "a", "namespace": "x"}, "x") == []
        else:
            with pytest.raises(params.ParamsError, match=said):
                params.collect(store, limits, {"name": "a", "namespace": "x"}, "x")


def test_a_policy_that_mutates_names_what_it_has() -> None:
    def policy(**spec: Any) -> mutating.Policy:
        mutations = [
            {"applyConfiguration": {"expression": "Object{metadata: Object.metadata{name: params.x}}"}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}},
        ]
        return mutating.compile_policy(
            {"metadata": {"name": "m"}, "spec": {"mutations": mutations, **spec}}, ()
        )

    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    with_params, without = policy(paramKind=kind), policy()
    assert isinstance(with_params.mutations[0].program, Program)
    assert isinstance(without.mutations[0].program, Error)
    assert [m.patch_type for m in without.mutations] == ["ApplyConfiguration", "JSONPatch"]
    assert (with_params.param_kind, without.param_kind) == (kind, None)
    for spec, fails_open, again in (
        ({}, False, False),
        ({"failurePolicy": "Ignore", "reinvocationPolicy": "Never"}, True, False),
        ({"failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded"}, False, True),
    ):
        made = policy(**spec)
        assert (made.name, made[3], made[4], made.bindings) == ("m", fails_open, again, ())


@pytest.mark.parametrize(
    ("attributes", "message", "details"),
    [
        (
            Attributes(User("ann", ()), "list", "", "pods", "", "team"),
            'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "team"',
            {"kind": "pods"},
        ),
        (
            Attributes(User("ann", ()), "get", "apps", "deployments", "scale", "", "d"),
            'deployments.apps "d" is forbidden: User "ann" cannot get resource "deployments/scale" '
            'in API group "apps" at the cluster scope',
            {"name": "d", "group": "apps", "kind": "deployments"},
        ),
        (
            Attributes(User('a"n', ()), "get", path="/x"),
            'forbidden: User "a\\"n" cannot get path "/x"',
            {},
        ),
    ],
)
def test_what_a_403_says(attributes: Attributes, message: str, details: dict[str, str]) -> None:
    for reason in ("", "RBAC: why"):
        said = message + (f": {reason}" if reason else "")
        assert forbidden_status(attributes, reason) == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": said,
            "reason": "Forbidden",
            "details": details,
            "code": 403,
        }


def test_conditions_of_webhooks_see_no_parameters() -> None:
    group = "admissionregistration.k8s.io"
    conditions = [
        {"name": "a", "expression": "authorizer.path('/x').check('get').allowed()"},
        {"name": "b", "expression": "params == null"},
    ]
    hooks = [{"name": "one", "matchConditions": conditions}, {"name": "two"}, {}]
    store = store_of(
        *(
            {
                "apiVersion": f"{group}/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": name},
                "webhooks": hooks,
            }
            for name in ("v", "a")
        )
    )
    found = webhooks_of(PolicyIndex(store), f"ValidatingWebhookConfiguration.{group}")
    assert [(w.configuration, w.name, w[2]) for w in found] == [
        (configuration, name, 3 * place + at)
        for place, configuration in enumerate(("a", "v"))
        for at, name in enumerate(("one", "two", ""))
    ]
    fine, refused = found[0].conditions
    assert isinstance(fine, Program) and isinstance(refused, Error)
    assert found[1].conditions == ()


def test_a_variable_over_others_is_shared_where_those_are_the_same_too() -> None:
    shared: dict[tuple[Any, ...], Any] = {}
    sums = []
    for one in ("object.size()", "object.size() + 10", "object.size()"):
        declared = [{"name": "one", "expression": one}, {"name": "two", "expression": "variables.one * 2"}]
        composition = composed(declared, NAMES)
        made = Composed(Evaluation({"object": [1, 2, 3]}, 100), composition, shared)
        sums.append(made.evaluate(program("variables.two", composition.names)))
    assert sums == [6, 26, 6]
    assert len(shared) == 4
