"""The whole chain: built-in plugins in order, webhooks as data, quota last."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from admissionrequests import World, namespace, pod, request

from fairway.admission.request import CONNECT, DELETE, UPDATE, Admitted, CallWebhook, Denied, WebhookAnswer
from fairway.kube.objects import Key, Obj, key_of

API = "admissionregistration.k8s.io/v1"


def world(*objects: Obj) -> World:
    return World(namespace("team-a"), *objects)


def named(kind: str, name: str, api_version: str = "v1", home: str = "team-a", **fields: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": home}, **fields}


# name → (objects there, request, code, message)
GPU = {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}
GPU_POD = pod(containers=[{"name": "c", "image": "i", "resources": GPU}])
QUOTA = named("ResourceQuota", "gpus", spec={"hard": {"requests.nvidia.com/gpu": "1"}})
RANGE = named("LimitRange", "l", spec={"limits": [{"type": "Container", "max": {"nvidia.com/gpu": "1"}}]})
FULL = named("ResourceQuota", "lb", spec={"hard": {"services.loadbalancers": "0"}})
SERVICE = named("Service", "s", spec={"type": "LoadBalancer", "ports": [{"port": 80}]})
IMMORTAL = 'namespaces "kube-system" is forbidden: this namespace may not be deleted'
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5, "globalDefault": True}
VOLUME_QUOTA = named("ResourceQuota", "disk", spec={"hard": {"requests.storage": "1Gi"}})
CLAIM = named("PersistentVolumeClaim", "c", spec={"resources": {"requests": {"storage": "2Gi"}}})
COUNTS = named("ResourceQuota", "jobs", spec={"hard": {"count/jobs.batch": "0"}})
BEST_EFFORT = named("ResourceQuota", "be", spec={"hard": {"pods": "0"}, "scopes": ["BestEffort"]})
CPU = named("ResourceQuota", "cpu", spec={"hard": {"requests.cpu": "1"}})

REFUSALS: dict[str, tuple[list[Obj], Any, int, str]] = {
    "a namespace that is not there": (
        [],
        request(pod(home="nowhere")),
        404,
        'namespaces "nowhere" not found',
    ),
    "a namespace that is going": (
        [namespace("old", status={"phase": "Terminating"})],
        request(pod(home="old")),
        403,
        'pods "p" is forbidden: unable to create new content in namespace old because it is being terminated',
    ),
    "an immortal namespace": (
        [namespace("kube-system")],
        request(None, DELETE, namespace("kube-system")),
        403,
        IMMORTAL,
    ),
    "a container above the limit range": (
        [RANGE],
        request(GPU_POD),
        403,
        'pods "p" is forbidden: maximum nvidia.com/gpu usage per Container is 1, but limit is 2',
    ),
    "a service account nobody made": (
        [],
        request(pod(serviceAccountName="robot")),
        403,
        'pods "p" is forbidden: error looking up service account team-a/robot: serviceaccount "robot" not found',
    ),
    "a priority class nobody made": (
        [],
        request(pod(priorityClassName="high")),
        403,
        'pods "p" is forbidden: no PriorityClass with name high was found',
    ),
    "a runtime class nobody made": (
        [],
        request(pod(runtimeClassName="nvidia")),
        403,
        'pods "p" is forbidden: pod rejected: RuntimeClass "nvidia" not found',
    ),
    "overhead of one's own": (
        [],
        request(pod(overhead={"cpu": "1"})),
        403,
        'pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead',
    ),
    "a second default priority class": (
        [{**HIGH, "metadata": {"name": "one"}}],
        request({**HIGH, "metadata": {"name": "two"}}),
        403,
        'priorityclasses.scheduling.k8s.io "two" is forbidden: PriorityClass one is already marked as default. '
        "Only one default can exist",
    ),
    "GPUs above the quota": (
        [QUOTA],
        request(GPU_POD),
        403,
        'pods "p" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=2, used: '
        "requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=1",
    ),
    "a bounded request nobody stated": (
        [CPU],
        request(pod()),
        403,
        'pods "p" is forbidden: failed quota: cpu: must specify requests.cpu for: c',
    ),
    "a load balancer too many": (
        [FULL],
        request(SERVICE),
        403,
        'services "s" is forbidden: exceeded quota: lb, requested: services.loadbalancers=1, used: '
        "services.loadbalancers=0, limited: services.loadbalancers=0",
    ),
    "an update to a load balancer": (
        [FULL],
        request(SERVICE, UPDATE, named("Service", "s", spec={"type": "ClusterIP"})),
        403,
        'services "s" is forbidden: exceeded quota: lb, requested: services.loadbalancers=1, used: '
        "services.loadbalancers=0, limited: services.loadbalancers=0",
    ),
    "storage above the quota": (
        [VOLUME_QUOTA],
        request(CLAIM),
        403,
        'persistentvolumeclaims "c" is forbidden: exceeded quota: disk, requested: requests.storage=2Gi, used: '
        "requests.storage=0, limited: requests.storage=1Gi",
    ),
    "an object too many": (
        [COUNTS],
        request(named("Job", "j", "batch/v1")),
        403,
        'jobs.batch "j" is forbidden: exceeded quota: jobs, requested: count/jobs.batch=1, used: '
        "count/jobs.batch=0, limited: count/jobs.batch=0",
    ),
    "a pod in the quota's scope": (
        [BEST_EFFORT],
        request(pod()),
        403,
        'pods "p" is forbidden: exceeded quota: be, requested: pods=1, used: pods=0, limited: pods=0',
    ),
    "a role that gives more than one has": (
        [],
        request(
            named(
                "Role",
                "r",
                "rbac.authorization.k8s.io/v1",
                rules=[{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}],
            )
        ),
        403,
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "alice" (groups=["system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}',
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    objects, asked, code, message = REFUSALS[name]
    here = world(*objects)
    if objects and "status" in objects[0]:
        here.store.set_status(key_of(objects[0]), objects[0]["status"])
    outcome = here.mutate(asked)
    if isinstance(outcome, Admitted):
        outcome = here.validate(asked)
    assert isinstance(outcome, Denied)
    assert (outcome.code, outcome.message) == (code, message)


def test_a_pod_out_of_the_quotas_scope_is_not_counted() -> None:
    burstable = {"requests": {"cpu": "1"}}
    asked = request(pod(containers=[{"name": "c", "image": "i", "resources": burstable}]))
    outcome = world(BEST_EFFORT).validate(asked)
    assert isinstance(outcome, Admitted)


def test_what_a_pod_looks_like_once_it_is_in() -> None:
    outcome = world(named("ServiceAccount", "default")).mutate(request(pod()))
    assert isinstance(outcome, Admitted)
    assert outcome.obj is not None
    spec = outcome.obj["spec"]
    volume = spec["volumes"][0]
    assert (spec["serviceAccountName"], spec["serviceAccount"], spec["priority"]) == ("default", "default", 0)
    assert volume["name"].startswith("kube-api-access-")
    assert len(volume["name"]) == len("kube-api-access-") + 5
    sources = volume["projected"]["sources"]
    assert sources[0] == {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    mount = "/var/run/secrets/kubernetes.io/serviceaccount"
    want = {"name": volume["name"], "readOnly": True, "mountPath": mount}
    assert spec["containers"][0]["volumeMounts"] == [want]
    assert [t["key"] for t in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_admission_twice_changes_nothing_more() -> None:
    here = world(named("ServiceAccount", "default"))
    once = here.mutate(request(pod()))
    assert isinstance(once, Admitted)
    twice = here.mutate(request(once.obj))
    assert isinstance(twice, Admitted)
    assert twice.obj == once.obj


@pytest.mark.parametrize(
    ("account", "of_pod", "mounts"),
    [
        ({}, {}, True),
        ({"automountServiceAccountToken": False}, {}, False),
        ({"automountServiceAccountToken": False}, {"automountServiceAccountToken": True}, True),
        ({}, {"automountServiceAccountToken": False}, False),
    ],
)
def test_who_decides_about_the_token(account: Obj, of_pod: Obj, mounts: bool) -> None:
    outcome = world(named("ServiceAccount", "default", **account)).mutate(request(pod(**of_pod)))
    assert isinstance(outcome, Admitted)
    assert outcome.obj is not None
    assert bool(outcome.obj["spec"].get("volumes")) is mounts


def test_pods_of_one_template_go_on_sharing_one_spec() -> None:
    here = world(named("ServiceAccount", "default"))
    spec = pod()["spec"]
    owner = {"uid": "u1", "controller": True, "kind": "ReplicaSet", "name": "r", "apiVersion": "apps/v1"}
    outcomes = []
    for name in ("a", "b"):
        meta = {"name": name, "namespace": "team-a", "ownerReferences": [owner]}
        outcome = here.mutate(request({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}))
        assert isinstance(outcome, Admitted)
        assert outcome.obj is not None
        outcomes.append(outcome.obj["spec"])
    assert outcomes[0]["volumes"] == outcomes[1]["volumes"]


def test_a_runtime_class_brings_its_overhead_and_place() -> None:
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {
            "nodeSelector": {"gpu": "true"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        },
    }
    here = world(runtime)
    outcome = here.mutate(request(pod(runtimeClassName="nvidia")))
    assert isinstance(outcome, Admitted)
    assert outcome.obj is not None
    spec = outcome.obj["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "250m"}, {"gpu": "true"})
    assert {"key": "gpu", "operator": "Exists"} in spec["tolerations"]
    refused = here.mutate(request(pod(runtimeClassName="nvidia", nodeSelector={"gpu": "false"})))
    assert isinstance(refused, Denied)
    assert refused.message.endswith(
        "conflict: runtimeClass.scheduling.nodeSelector[gpu] = true; pod.spec.nodeSelector[gpu] = false"
    )


def test_a_claim_gets_the_newest_default_class() -> None:
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    classes = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "annotations": marked},
        }
        for name in ("slow", "fast")
    ]
    outcome = world(*classes).mutate(request(CLAIM))
    assert isinstance(outcome, Admitted)
    assert outcome.obj is not None
    assert outcome.obj["spec"] == {**CLAIM["spec"], "storageClassName": "fast"}
    assert outcome.obj["kind"] == "PersistentVolumeClaim"
    assert outcome.obj["metadata"].items() >= CLAIM["metadata"].items()


def test_a_new_node_is_not_ready() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}}
    outcome = world().mutate(request(node))
    assert isinstance(outcome, Admitted)
    assert outcome.obj is not None
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert outcome.obj["spec"]["taints"] == [taint]


def test_a_binding_carries_the_nodes_zone() -> None:
    labels = {"topology.kubernetes.io/zone": "z1", "other": "x"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}
    bound = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "namespace": "team-a"}}
    asked = request({**bound, "target": {"kind": "Node", "name": "n"}}, subresource="binding")
    asked = type(asked)(
        **{**{f: getattr(asked, f) for f in asked.__slots__}, "resource": request(pod()).resource}
    )
    outcome = world(node).mutate(asked)
    assert isinstance(outcome, Admitted)
    assert outcome.obj is not None
    assert outcome.obj["metadata"]["labels"] == {"topology.kubernetes.io/zone": "z1"}


def test_quota_is_charged_for_what_enters() -> None:
    here = world(named("ResourceQuota", "q", spec={"hard": {"pods": "2"}}))
    here.store.set_status(Key("ResourceQuota", "team-a", "q"), {"used": {"pods": "1"}})
    outcome = here.validate(request(pod()))
    assert isinstance(outcome, Admitted)
    assert [c.status["used"] for c in outcome.charges] == [{"pods": "2"}]


def test_reading_and_connecting_need_the_namespace() -> None:
    asked = request(pod(home="nowhere"), CONNECT, subresource="exec")
    outcome = world().mutate(asked)
    assert isinstance(outcome, Denied)
    assert outcome.code == 404


# Webhooks


def hooks(kind: str, *webhooks: dict[str, Any], name: str = "w") -> Obj:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}
    common = {"rules": [rule], "clientConfig": {"url": "https://127.0.0.1:8443/x"}, "sideEffects": "None"}
    body = [{**common, **w} for w in webhooks]
    return {
        "apiVersion": API,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": body,
    }


class Server:
    """Answers webhook calls as told, and remembers them."""

    def __init__(self, **answers: dict[str, Any] | str) -> None:
        self.answers = answers
        self.calls: list[CallWebhook] = []

    def __call__(self, call: CallWebhook) -> WebhookAnswer:
        self.calls.append(call)
        answer = self.answers[call.webhook.partition(".")[0]]
        if isinstance(answer, str):
            return WebhookAnswer(error=answer)
        response = {"uid": call.body["request"]["uid"], "allowed": True, **answer}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return WebhookAnswer(review)


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"patch": encoded, "patchType": "JSONPatch"}


LABEL = {"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}}


def test_a_mutating_webhook_changes_the_object() -> None:
    server = Server(one=patch(LABEL))
    outcome = world(hooks("Mutating", {"name": "one.example.com"})).mutate(request(pod()), server)
    assert isinstance(outcome, Admitted)
    assert outcome.obj is not None
    assert outcome.obj["metadata"]["labels"] == {"by": "hook"}
    call = server.calls[0]
    assert (call.configuration, call.webhook, call.timeout_s, call.is_mutating) == (
        "w",
        "one.example.com",
        10,
        True,
    )
    asked = call.body["request"]
    assert (call.body["apiVersion"], asked["operation"], asked["name"]) == (
        "admission.k8s.io/v1",
        "CREATE",
        "p",
    )
    assert asked["userInfo"] == {"username": "alice", "groups": ["system:authenticated"]}


def test_configurations_come_by_name_and_webhooks_in_their_order() -> None:
    objects = [
        hooks("Mutating", {"name": "z.x.io"}, {"name": "a.x.io"}, name="first"),
        hooks("Mutating", {"name": "m.x.io"}, name="another"),
    ]
    server = Server(z={}, a={}, m={})
    world(*objects).mutate(request(pod()), server)
    assert [c.webhook for c in server.calls] == ["m.x.io", "z.x.io", "a.x.io"]


def test_a_webhook_is_asked_again_after_a_later_one_changed_something() -> None:
    configured = hooks(
        "Mutating", {"name": "first.x.io", "reinvocationPolicy": "IfNeeded"}, {"name": "later.x.io"}
    )
    server = Server(first={}, later=patch(LABEL))
    world(configured).mutate(request(pod()), server)
    assert [c.webhook for c in server.calls] == ["first.x.io", "later.x.io", "first.x.io"]


# name → (webhook fields, answer, code, message)
SAYS: dict[str, tuple[dict[str, Any], dict[str, Any] | str, int, str]] = {
    "no, because": (
        {},
        {"allowed": False, "status": {"message": "no cats"}},
        400,
        'admission webhook "v.x.io" denied the request: no cats',
    ),
    "no, with a code": (
        {},
        {"allowed": False, "status": {"message": "no cats", "code": 403}},
        403,
        'admission webhook "v.x.io" denied the request: no cats',
    ),
    "no, with a reason": (
        {},
        {"allowed": False, "status": {"reason": "NotToday"}},
        400,
        'admission webhook "v.x.io" denied the request: NotToday',
    ),
    "no, without explanation": (
        {},
        {"allowed": False},
        400,
        'admission webhook "v.x.io" denied the request without explanation',
    ),
    "nobody there": (
        {},
        'Post "https://127.0.0.1:8443/x?timeout=10s": dial tcp 127.0.0.1:8443: connect: connection refused',
        500,
        'Internal error occurred: failed calling webhook "v.x.io": failed to call webhook: Post '
        '"https://127.0.0.1:8443/x?timeout=10s": dial tcp 127.0.0.1:8443: connect: connection refused',
    ),
    "somebody else's answer": (
        {},
        {"uid": "other"},
        500,
        'Internal error occurred: failed calling webhook "v.x.io": received invalid webhook response: expected '
        'response.uid="UID", got "other"',
    ),
    "a patch from a validating one": (
        {},
        patch(LABEL),
        500,
        'Internal error occurred: failed calling webhook "v.x.io": received invalid webhook response: validating '
        "webhook may not return response.patch",
    ),
}


@pytest.mark.parametrize("name", SAYS)
def test_what_a_validating_webhook_says(name: str) -> None:
    fields, answer, code, message = SAYS[name]
    configured = hooks("Validating", {"name": "v.x.io", **fields})
    server = Server(v=answer)
    outcome = world(configured).validate(request(pod()), server)
    assert isinstance(outcome, Denied)
    told = message.replace("UID", server.calls[0].body["request"]["uid"])
    assert (outcome.code, outcome.message) == (code, told)


def test_a_failure_may_be_ignored() -> None:
    configured = hooks("Validating", {"name": "v.x.io", "failurePolicy": "Ignore"})
    outcome = world(configured).validate(request(pod()), Server(v="timeout"))
    assert isinstance(outcome, Admitted)
    assert outcome.audit["failed-open.validating.webhook.admission.k8s.io/round_0_index_0"] == "v.x.io"


def test_warnings_and_annotations_are_passed_on() -> None:
    said = {"warnings": ["careful"], "auditAnnotations": {"k": "v"}}
    outcome = world(hooks("Validating", {"name": "v.x.io"})).validate(request(pod()), Server(v=said))
    assert outcome.warnings == ("careful",)
    assert outcome.audit["v.x.io/k"] == "v"


@pytest.mark.parametrize(
    "fields",
    [
        {"namespaceSelector": {"matchLabels": {"x": "y"}}},
        {"objectSelector": {"matchLabels": {"x": "y"}}},
        {"rules": []},
        {"matchConditions": [{"name": "c", "expression": "request.operation == 'DELETE'"}]},
    ],
)
def test_webhooks_that_are_not_concerned_are_not_called(fields: dict[str, Any]) -> None:
    configured = hooks("Validating", {"name": "v.x.io", **fields})
    assert isinstance(world(configured).validate(request(pod())), Admitted)


def test_a_dry_run_never_reaches_side_effects() -> None:
    configured = hooks("Validating", {"name": "v.x.io", "sideEffects": "Some"})
    outcome = world(configured).validate(request(pod(), dry_run=True))
    assert isinstance(outcome, Denied)
    assert (outcome.code, outcome.message) == (400, 'admission webhook "v.x.io" does not support dry run')


def test_a_patch_that_does_not_fit_is_an_internal_error() -> None:
    server = Server(m=patch({"op": "remove", "path": "/spec/nothing"}))
    outcome = world(hooks("Mutating", {"name": "m.x.io"})).mutate(request(pod()), server)
    assert isinstance(outcome, Denied)
    assert outcome.code == 500


def test_reviews_are_questions_and_not_shown_to_webhooks() -> None:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    configured = hooks("Validating", {"name": "v.x.io", "rules": [rule]})
    asked = named("LocalSubjectAccessReview", "r", "authorization.k8s.io/v1")
    assert isinstance(world(configured).validate(request(asked)), Admitted)
