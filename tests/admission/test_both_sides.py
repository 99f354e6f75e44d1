"""Both sides of admission's rules: what a check asks for since when and of whom, what counts, what an object keeps."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from admissionrequests import World, namespace, pod, request

from fairway.admission import nodes
from fairway.admission.cel import authorizing
from fairway.admission.podsecurity.evaluation import violations
from fairway.admission.podsecurity.levels import LATEST, LevelVersion
from fairway.admission.policies.checking import problems
from fairway.admission.policies.matching import Match
from fairway.admission.policies.names import bindings
from fairway.admission.quota import is_counted_request
from fairway.admission.rbac.attributes import Decision
from fairway.admission.request import CREATE, DELETE, UPDATE, Admitted, Denied, Gvk, Gvr, User
from fairway.admission.trial import judge
from fairway.cluster.store import Store
from fairway.errors import InvalidInput
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Key, Obj

NEVER = 99
GOOD: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
# What is wrong with a container: asked since which minor version; not of Windows, of pods with a user namespace, since.
RESTRICTED: dict[str, tuple[dict[str, Any], int, int, int]] = {
    "allowPrivilegeEscalation != false": ({"allowPrivilegeEscalation": None}, 8, 25, NEVER),
    "unrestricted capabilities": ({"capabilities": None}, 22, 25, NEVER),
    "runAsNonRoot != true": ({"runAsNonRoot": None}, 0, NEVER, 35),
    "runAsUser=0": ({"runAsUser": 0}, 23, NEVER, 35),
    "seccompProfile": ({"seccompProfile": None}, 19, 25, NEVER),
}


@pytest.mark.parametrize("reason", RESTRICTED)
def test_since_when_and_of_whom_restricted_asks_for_something(reason: str) -> None:
    change, since, windows_since, user_since = RESTRICTED[reason]
    for minor, system, users in product(
        (*range(37), LATEST), (None, "linux", "windows"), (None, True, False)
    ):
        security = {k: v for k, v in {**GOOD, **change}.items() if v is not None}
        spec = {
            "containers": [{"name": "c", "securityContext": security}],
            **({"os": {"name": system}} if system else {}),
            **({} if users is None else {"hostUsers": users}),
        }
        found = [v.reason for v in violations(LevelVersion("restricted", minor), {}, spec)]
        at = NEVER if minor == LATEST else minor
        is_asked = at >= since
        is_asked &= not (system == "windows" and min(at, 36) >= windows_since)
        is_asked &= not (users is False and min(at, 36) >= user_since)
        assert found == ([reason] if is_asked else []), (minor, system, users)


BASELINE: dict[str, tuple[dict[str, Any], int, int, int]] = {
    # Asked since, and until (of everybody, of pods with a user namespace).
    "seccompProfile": ({"seccompProfile": {"type": "Unconfined"}}, 19, NEVER, NEVER),
    "procMount": ({"procMount": "Unmasked"}, 0, NEVER, 35),
    "seLinuxOptions": ({"seLinuxOptions": {"type": "container_engine_t"}}, 0, 31, 31),
    "privileged": ({"privileged": True}, 0, NEVER, NEVER),
}


@pytest.mark.parametrize("reason", BASELINE)
def test_since_when_and_until_when_baseline_refuses_something(reason: str) -> None:
    security, since, until, until_for_users = BASELINE[reason]
    for minor, users in product(range(37), (None, True, False)):
        spec = {
            "containers": [{"name": "c", "securityContext": security}],
            **({} if users is None else {"hostUsers": users}),
        }
        found = [v.reason for v in violations(LevelVersion("baseline", minor), {}, spec)]
        is_refused = since <= minor < (until_for_users if users is False else until)
        assert found == ([reason] if is_refused else []), (minor, users)


def test_before_profiles_were_fields_annotations_said_them() -> None:
    for prefix, what in (("pod", "pod"), ("container/", "c")):
        key = f"seccomp.security.alpha.kubernetes.io/{prefix}" + (what if prefix != "pod" else "")
        if prefix != "pod":
            key = "container.seccomp.security.alpha.kubernetes.io/c"
        for value, is_fine in (("unconfined", False), ("runtime/default", True), ("localhost/x", True)):
            for minor in (0, 18, 19, 36):
                meta = {"annotations": {key: value}}
                spec = {"containers": [{"name": "c"}]}
                found = violations(LevelVersion("baseline", minor), meta, spec)
                assert (found == ()) is (is_fine or minor >= 19), (key, value, minor)


# Quota


def test_which_requests_can_use_up_quota() -> None:
    kinds = (("v1", "Pod"), ("v1", "Service"), ("v1", "PersistentVolumeClaim"), ("v1", "ConfigMap"))
    others = (("apps/v1", "Deployment"), ("serving.knative.dev/v1", "Service"), ("v1", "Namespace"))
    for (api, kind), home, operation, subresource in product(
        kinds + others, ("", "team-a"), (CREATE, UPDATE, DELETE), ("", "resize", "status")
    ):
        obj: Obj = {"apiVersion": api, "kind": kind, "metadata": {"name": "x", "namespace": "team-a"}}
        asked = request(obj, operation, obj, namespace=home, subresource=subresource)
        if not home:
            want = False
        elif subresource:
            want = (subresource, api, kind) == ("resize", "v1", "Pod")
        elif operation == CREATE:
            want = kind != "Namespace"
        else:
            want = operation == UPDATE and api == "v1" and kind in ("Service", "PersistentVolumeClaim")
        assert is_counted_request(asked) is want, (api, kind, home, operation, subresource)


# Labels of nodes


def test_whoever_gets_labels_keeps_all_else() -> None:
    store = Store()
    zone = "topology.kubernetes.io/zone"
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {zone: "z"}}})
    going = {**pod(nodeName="n"), "status": {"phase": "Pending"}}
    placed = nodes.with_topology_labels(store, going)
    assert placed == {**going, "metadata": {**going["metadata"], "labels": {zone: "z"}}}
    bare = {"kind": "Binding", "apiVersion": "v1", "target": {"name": "n"}}
    assert nodes.with_topology_labels(store, bare) == {**bare, "metadata": {"labels": {zone: "z"}}}


# Policies


def mutating(*mutations: Obj, **spec: Any) -> Obj:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    body = {"matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "Never", **spec}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {**body, "mutations": list(mutations)},
    }


def test_every_expression_of_a_mutation_is_compiled_where_it_stands() -> None:
    good = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}
    bad = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": "nope"}},
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "nope"}},
    ]
    for first, second in product((good, *bad), repeat=2):
        found = [said.partition(": ")[0] for said in problems(mutating(first, second))]
        want = [
            f"spec.mutations[{i}].{'jsonPatch' if one is bad[0] else 'applyConfiguration'}.expression"
            for i, one in enumerate((first, second))
            if one is not good
        ]
        assert found == want
    conditions = [{"name": "a", "expression": "true"}, {"name": "b", "expression": "nope"}]
    (said,) = problems(mutating(good, matchConditions=conditions))
    assert said.startswith("spec.matchConditions[1].expression: ")


def test_a_trial_begins_with_what_cannot_be_read() -> None:
    """A misspelt field, and a policy that cannot work, are errors; what a server would refuse is a finding."""
    user = User("u", ("system:masters",))
    for wrong in (
        [pod(restartPolice="Never")],
        [mutating({"patchType": "JSONPatch", "jsonPatch": {"expression": "nope"}})],
    ):
        with pytest.raises(InvalidInput):
            judge([Manifest(obj, "f.yaml") for obj in wrong], [], user)
    found = judge([Manifest(pod(restartPolicy="Sometimes"), "f.yaml")], [], user)
    assert [f.outcome for f in found.findings] == ["denied"]
    assert "restartPolicy" in found.findings[0].message


def test_who_is_asked_is_asked_inside_alone() -> None:
    user = User("alice", ())
    assert authorizing._asked.get() is None
    with authorizing.asking(lambda _: Decision(True, "yes"), user):
        outer = authorizing._asked.get()
        assert outer is not None and outer[1] is user
        with authorizing.asking(None, user):
            assert authorizing._asked.get() is None
        assert authorizing._asked.get() is outer
    assert authorizing._asked.get() is None


def test_the_namespace_an_expression_sees() -> None:
    """All of it but who manages its fields; what it does not have is empty."""
    matched = Match(Gvr("", "v1", "pods"), Gvk("", "v1", "Pod"))
    asked = request(pod())
    meta = {"name": "team-a", "labels": {"a": "b"}}
    whole = {"metadata": {**meta, "managedFields": [{}]}, "spec": {"finalizers": ["kubernetes"]}}
    seen = bindings(asked, matched, None, {**whole, "status": {"phase": "Active"}})["namespaceObject"]
    assert seen == {
        "metadata": meta,
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    bare = bindings(asked, matched, None, {"metadata": meta})["namespaceObject"]
    assert bare == {"metadata": meta, "spec": {}, "status": {}}
    assert bindings(asked, matched, None, None)["namespaceObject"] is None


def test_an_update_uses_up_nothing_and_need_not_say_what_it_asks_for() -> None:
    hard = {"pods": "1", "requests.cpu": "1"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team-a"}}
    world = World(namespace("team-a"), {**quota, "spec": {"hard": hard}})
    key = Key("ResourceQuota", "team-a", "q")
    world.store.set_status(key, {"hard": hard, "used": {"pods": "1", "requests.cpu": "0"}})
    refused = world.validate(request(pod()))
    assert isinstance(refused, Denied)
    assert refused.message == 'pods "p" is forbidden: failed quota: q: must specify requests.cpu for: c'
    for asked in (request(pod(), UPDATE, pod()), request(pod(), namespace=""), request(None, DELETE, pod())):
        outcome = world.validate(asked)
        assert isinstance(outcome, Admitted)
        assert (outcome.obj, outcome.charges) == (asked.obj, ())


def test_a_new_node_takes_no_pods_until_it_is_ready() -> None:
    taint = {"key": nodes.NOT_READY, "effect": "NoSchedule"}
    meta = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    others = [{"key": nodes.NOT_READY, "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}]
    assert nodes.tainted_until_ready(meta) == {**meta, "spec": {"taints": [taint]}}
    known = {**meta, "spec": {"podCIDR": "10.0.0.0/24", "taints": others}, "status": {"a": "b"}}
    assert nodes.tainted_until_ready(known) == {
        **known,
        "spec": {"podCIDR": "10.0.0.0/24", "taints": [*others, taint]},
    }
    tainted = {**meta, "spec": {"taints": [*others, taint]}}
    assert nodes.tainted_until_ready(tainted) is tainted


def test_what_is_listed_of_several_containers_is_sorted_and_named_once() -> None:
    names = ["q", "b", "z", "a", "m", "c"]

    def said(**security: Any) -> str:
        wrong = [
            {"name": f"c{i}", "securityContext": {k: make(n) for k, make in security.items()}}
            for i, n in enumerate((*names, "q"))
        ]
        (found,) = violations(LevelVersion("baseline"), {}, {"containers": wrong})
        return str(found)

    listed = ", ".join(f'"{n}"' for n in sorted(names))
    who = "containers " + ", ".join(f'"c{i}"' for i in range(7))
    assert said(appArmorProfile=lambda n: {"type": n}) == (
        f"forbidden AppArmor profiles ({who} must not set AppArmor profile type to {listed})"
    )
    assert said(capabilities=lambda n: {"add": [n]}) == (
        f"non-default capabilities ({who} must not include {listed} in securityContext.capabilities.add)"
    )
    assert said(procMount=lambda n: n) == (
        f"procMount ({who} must not set securityContext.procMount to {listed})"
    )
    assert said(seLinuxOptions=lambda n: {"type": n}) == (
        f"seLinuxOptions ({who} set forbidden securityContext.seLinuxOptions: types {listed})"
    )
    assert said(seccompProfile=lambda n: {"type": n}) == (
        f"seccompProfile ({who} must not set securityContext.seccompProfile.type to {listed})"
    )
