"""What each built-in plugin changes, keeps and refuses: both sides of every rule."""

from __future__ import annotations

import base64
from itertools import product
from typing import Any

import pytest
from admissionrequests import World, namespace, pod, request

from fairway.admission import (
    certificates,
    defaultclasses,
    intree,
    limitranger,
    nodes,
    podtolerations,
    runtimeclass,
    serviceaccount,
    volumeprotection,
)
from fairway.admission.identity import misfit
from fairway.admission.intree import Options
from fairway.admission.request import CREATE, DELETE, UPDATE, Denied
from fairway.cluster.store import Store
from fairway.kube.objects import Obj


def store_of(*objects: Obj) -> Store:
    store = Store()
    for obj in objects:
        store.create(obj)
    return store


# Certificates: approval and signing go by signer.


def signing_request(signer: str, **status: Any) -> Obj:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr"},
        "spec": {"request": base64.b64encode(b"x").decode(), "signerName": signer, "usages": ["client auth"]},
        "status": status,
    }


def may(verb: str, name: str) -> tuple[Obj, Obj]:
    rule = {"verbs": [verb], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"]}
    rule |= {"resourceNames": [name]}
    role = {"kind": "ClusterRole", "metadata": {"name": "signers"}, "rules": [rule]}
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "signers"},
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "signers"},
    }
    api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    return {**api, **role}, {**api, **binding}


APPROVED = {"conditions": [{"type": "Approved", "status": "True"}]}
SIGNED = {"certificate": "eA=="}


@pytest.mark.parametrize(
    ("subresource", "status", "granted", "wanted"),
    [
        ("approval", APPROVED, None, "approve"),
        ("approval", APPROVED, ("approve", "example.com/a"), None),
        ("approval", APPROVED, ("approve", "example.com/*"), None),
        ("approval", APPROVED, ("approve", "example.com/b"), "approve"),
        ("approval", APPROVED, ("sign", "example.com/a"), "approve"),
        ("status", SIGNED, None, "sign"),
        ("status", APPROVED, None, "sign"),
        ("status", SIGNED, ("sign", "example.com/a"), None),
        ("status", SIGNED, ("sign", "example.com/*"), None),
        ("status", SIGNED, ("approve", "example.com/a"), "sign"),
        ("status", {"other": 1}, None, None),
        ("", SIGNED, None, None),
    ],
)
def test_approval_and_signing_are_granted_per_signer(
    subresource: str, status: dict[str, Any], granted: tuple[str, str] | None, wanted: str | None
) -> None:
    world = World(*(may(*granted) if granted else ()))
    old, new = signing_request("example.com/a"), signing_request("example.com/a", **status)
    said = certificates.refusal(
        world.authorizer, request(new, UPDATE, old, subresource=subresource, name="csr")
    )
    if wanted is None:
        assert said is None
        return
    assert said is not None
    assert said.plugin == {"approve": "CertificateApproval", "sign": "CertificateSigning"}[wanted]
    assert said.message.endswith(f'user not permitted to {wanted} requests with signerName "example.com/a"')
    assert said.code == 403


def test_only_updates_of_signing_requests_are_approvals() -> None:
    world, new = World(), signing_request("example.com/a", **APPROVED)
    assert certificates.refusal(world.authorizer, request(new, CREATE, subresource="approval")) is None
    about_pod = request(pod(), UPDATE, pod(), subresource="approval")
    assert certificates.refusal(world.authorizer, about_pod) is None
    denied = world.validate(request(new, UPDATE, signing_request("example.com/a"), subresource="approval"))
    assert isinstance(denied, Denied), "the chain asks it"


# Default classes.


def a_class(kind: str, name: str, made: str, marked: str | None) -> Obj:
    group = {"StorageClass": "storage.k8s.io/v1", "IngressClass": "networking.k8s.io/v1"}[kind]
    prefix = {"StorageClass": "storageclass", "IngressClass": "ingressclass"}[kind]
    meta: dict[str, Any] = {"name": name, "creationTimestamp": made}
    if marked is not None:
        meta["annotations"] = {f"{prefix}.kubernetes.io/is-default-class": marked}
    return {"apiVersion": group, "kind": kind, "metadata": meta}


class Classes:
    """A view of classes as they are: a store would stamp them anew."""

    def __init__(self, *classes: Obj) -> None:
        self._classes = classes

    def objects(self, gk: str) -> list[Obj]:
        return [c for c in self._classes if gk.startswith(c["kind"] + ".")]


def claim(**spec: Any) -> Obj:
    meta = {"name": "c", "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def ingress(annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    meta = {"name": "i", "namespace": "team-a", "annotations": annotations or {}}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": meta, "spec": spec}


@pytest.mark.parametrize("kind", ["StorageClass", "IngressClass"])
@pytest.mark.parametrize(
    ("classes", "want"),
    [
        ([], None),
        ([("a", "2026-01-01T00:00:00Z", None)], None),
        ([("a", "2026-01-01T00:00:00Z", "false")], None),
        ([("a", "2026-01-01T00:00:00Z", "true")], "a"),
        ([("a", "2026-01-01T00:00:00Z", "true"), ("b", "2026-01-02T00:00:00Z", "true")], "b"),
        ([("b", "2026-01-02T00:00:00Z", "true"), ("a", "2026-01-02T00:00:00Z", "true")], "a"),
        ([("a", "2026-01-01T00:00:00Z", "true"), ("z", "2026-01-02T00:00:00Z", "false")], "a"),
    ],
)
def test_what_names_no_class_gets_the_newest_default(
    kind: str, classes: list[tuple[str, str, str | None]], want: str | None
) -> None:
    view: Any = Classes(*(a_class(kind, *one) for one in classes))
    if kind == "StorageClass":
        filled = defaultclasses.claim_with_class(view, claim(accessModes=["ReadWriteOnce"]))
        assert filled["spec"] == {
            "accessModes": ["ReadWriteOnce"],
            **({"storageClassName": want} if want else {}),
        }
        assert defaultclasses.claim_with_class(view, claim(storageClassName=""))["spec"] == {
            "storageClassName": ""
        }
    else:
        filled = defaultclasses.ingress_with_class(view, ingress(rules=[]))
        assert filled["spec"] == {"rules": [], **({"ingressClassName": want} if want else {})}
        for named in (ingress(ingressClassName="x"), ingress({"kubernetes.io/ingress.class": "x"})):
            assert defaultclasses.ingress_with_class(view, named) == named


def test_plugins_look_at_their_kinds_when_they_are_created() -> None:
    world = World(
        namespace("team-a"),
        a_class("IngressClass", "web", "2026-01-01T00:00:00Z", "true"),
        a_class("StorageClass", "disk", "2026-01-01T00:00:00Z", "true"),
    )
    view = world.store

    def entered(obj: Obj, operation: str = CREATE, **fields: Any) -> Any:
        old = obj if operation == UPDATE else None
        return intree.changed(view, request(obj, operation, old, **fields), Options())

    assert entered(ingress())["spec"] == {"ingressClassName": "web"}
    assert entered(ingress(), UPDATE)["spec"] == {}
    assert entered(ingress(), subresource="status")["spec"] == {}
    made = entered(claim())
    assert made["spec"] == {"storageClassName": "disk"}
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert entered(claim(), UPDATE) == claim()
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {}}
    made = entered(volume)
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert made["spec"] == {}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    assert entered(node)["spec"]["taints"]
    assert intree.changed(view, request(node), Options(is_served=False)) == node
    assert intree.changed(view, request(None, DELETE, node), Options()) is None


def test_a_finalizer_is_added_once_and_beside_others() -> None:
    held = claim()
    held["metadata"]["finalizers"] = ["example.com/mine"]
    once = volumeprotection.guarded(held, "persistentvolumeclaims")
    assert once["metadata"]["finalizers"] == ["example.com/mine", "kubernetes.io/pvc-protection"]
    assert once["metadata"]["name"] == "c"
    assert volumeprotection.guarded(once, "persistentvolumeclaims") is once


# Limit ranges: an oracle in the words of the documentation.


def limited(*limits: Obj) -> Store:
    meta = {"name": "limits", "namespace": "team-a"}
    return store_of({"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": limits}})


def asking(request_: str | None, limit: str | None) -> Obj:
    resources: dict[str, Any] = {}
    if request_ is not None:
        resources["requests"] = {"cpu": request_}
    if limit is not None:
        resources["limits"] = {"cpu": limit}
    return pod(containers=[{"name": "c", "image": "i", "resources": resources}])


_SIZES = (None, "0", "1", "2", "3")


@pytest.mark.parametrize("type_", ["Container", "Pod"])
def test_container_and_pod_bounds_hold_at_their_boundaries(type_: str) -> None:
    """Every request and limit around a minimum of 1, a maximum of 2 and a ratio of 2."""
    for asked, limit in product(_SIZES, _SIZES):
        req = int(asked) if asked is not None else int(limit) if limit is not None else None
        lim = int(limit) if limit is not None else None
        if req is not None and lim is not None and req > lim:
            continue
        least, most, ratio = (
            limitranger.refusal(limited({"type": type_, field: {"cpu": bound}}), asking(asked, limit))
            for field, bound in (("min", "1"), ("max", "2"), ("maxLimitRequestRatio", "2"))
        )
        named = f"cpu usage per {type_} is"
        want = None
        if req is None:
            want = f"minimum {named} 1.  No request is specified"
        elif lim is not None and lim < 1:
            want = f"minimum {named} 1, but limit is {lim}"
        elif req < 1:
            want = f"minimum {named} 1, but request is {req}"
        assert least == want, (asked, limit)
        want = None
        if lim is None:
            want = f"maximum {named} 2.  No limit is specified"
        elif lim > 2:
            want = f"maximum {named} 2, but limit is {lim}"
        assert most == want, (asked, limit)
        rule, want = f"cpu max limit to request ratio per {type_} is 2, but", None
        if not req:
            want = f"{rule} no request is specified or request is 0"
        elif not lim:
            want = f"{rule} no limit is specified or limit is 0"
        elif lim > 2 * req:
            want = f"{rule} provided ratio is {lim / req:f}"
        assert ratio == want, (asked, limit)


def test_a_request_beyond_the_most_is_said_where_the_limit_is_not() -> None:
    most = limited({"type": "Container", "max": {"cpu": "2"}})
    assert limitranger.refusal(most, asking("3", "2")) == (
        "maximum cpu usage per Container is 2, but request is 3"
    )


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        (None, ["minimum {} 1Gi.  No request is specified", "maximum {} 2Gi.  No request is specified"]),
        ("512Mi", ["minimum {} 1Gi, but request is 512Mi"]),
        ("1Gi", []),
        ("2Gi", []),
        ("3Gi", ["maximum {} 2Gi, but request is 3Gi"]),
    ],
)
def test_claims_are_bounded(asked: str | None, want: list[str]) -> None:
    bounds = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    view = limited({"type": "Container", "max": {"storage": "1"}}, bounds)
    spec = {"resources": {"requests": {"storage": asked}}} if asked else {}
    said = [w.format("storage usage per PersistentVolumeClaim is") for w in want]
    expected = f"[{', '.join(said)}]" if len(said) > 1 else said[0] if said else None
    assert limitranger.refusal(view, claim(**spec)) == expected
    for operation in (CREATE, UPDATE):
        refused = intree.refused(view, request(claim(**spec), operation, claim()))
        assert (refused is not None) == bool(want)
    status = request(claim(**spec), UPDATE, claim(), subresource="status")
    assert intree.refused(view, status) is None


def test_bounds_of_claims_are_said_in_the_order_of_their_names() -> None:
    bounds = {
        "type": "PersistentVolumeClaim",
        "min": {"storage": "1Gi", "a": "1"},
        "max": {"z": "2", "b": "2"},
    }
    refused = limitranger.refusal(limited(bounds), claim())
    assert refused is not None
    said = [part.partition(" ")[2].partition(" usage")[0] for part in refused.strip("[]").split(", ")]
    assert said == ["a", "storage", "b", "z"], refused


def test_only_pods_and_claims_of_the_namespace_are_bounded() -> None:
    view = limited({"type": "Container", "max": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "1"}})
    elsewhere = asking("2", "2")
    elsewhere["metadata"]["namespace"] = "team-b"
    assert limitranger.refusal(view, elsewhere) is None
    assert limitranger.refusal(view, {"apiVersion": "v1", "kind": "Service", "metadata": {}}) is None
    said = limitranger.refusal(view, asking("2", "2"))
    assert said == (
        "[maximum cpu usage per Container is 1, but limit is 2, maximum cpu usage per Pod is 1, but limit is 2]"
    )
    resized = request(asking("2", "2"), UPDATE, asking("1", "1"), subresource="resize")
    assert intree.refused(view, resized) is not None
    assert intree.refused(view, request(asking("2", "2"), UPDATE, asking("1", "1"))) is None


def test_init_containers_are_bounded_and_filled_too() -> None:
    rules = {
        "type": "Container",
        "max": {"cpu": "1"},
        "defaultRequest": {"cpu": "1"},
        "default": {"cpu": "1"},
    }
    view = limited(rules)
    hungry = {"name": "first", "image": "i", "resources": {"limits": {"cpu": "2"}}}
    big = pod(initContainers=[hungry])
    big["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    assert limitranger.refusal(view, big) == "maximum cpu usage per Container is 1, but limit is 2"
    filled = limitranger.defaulted(view, pod(initContainers=[{"name": "first", "image": "i"}]))
    for field in ("containers", "initContainers"):
        assert filled["spec"][field][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    assert filled["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c; "
        "cpu request for init container first; cpu limit for init container first"
    )
    claims = {"claims": [{"name": "gpu"}]}
    claiming = limitranger.defaulted(view, pod(containers=[{"name": "c", "image": "i", "resources": claims}]))
    assert claiming["spec"]["containers"][0]["resources"] == {
        **claims,
        "requests": {"cpu": "1"},
        "limits": {"cpu": "1"},
    }
    assert limitranger.defaulted(view, claim()) == claim()
    whole = asking("1", "1")
    assert limitranger.defaulted(view, whole) is whole


# Tolerations, taints and labels.


def test_pods_tolerate_the_resources_they_ask_for_where_that_is_wished() -> None:
    def container(name: str, *resources: str) -> Obj:
        return {"name": name, "image": "i", "resources": {"requests": dict.fromkeys(resources, "1")}}

    own = {"key": "mine", "operator": "Exists"}
    gpus = {"key": "nvidia.com/gpu", "operator": "Exists"}
    nics = {"key": "example.com/nic", "operator": "Exists"}
    asks = pod(
        containers=[container("a", "cpu", "nvidia.com/gpu")],
        initContainers=[container("b", "example.com/nic", "nvidia.com/gpu")],
        tolerations=[own],
    )
    tolerant = podtolerations.tolerating_own_resources(asks)
    assert tolerant["spec"] == {**asks["spec"], "tolerations": [own, nics, gpus]}
    assert podtolerations.tolerating_own_resources(tolerant) is tolerant
    plain = pod(containers=[container("a", "cpu")])
    assert podtolerations.tolerating_own_resources(plain) is plain
    world = World(namespace("team-a"))
    for wished in (False, True):
        options = Options(tolerates_own_resources=wished)
        made: Any = intree.changed(world.store, request(asks), options)
        assert (gpus in made["spec"]["tolerations"]) == wished


def test_a_new_node_is_tainted_once_and_keeps_its_taints() -> None:
    own = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    fresh = {"kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": [own], "podCIDR": "10.0.0.0/24"}}
    tainted = nodes.tainted_until_ready(fresh)
    assert tainted["spec"] == {
        "podCIDR": "10.0.0.0/24",
        "taints": [own, {"key": nodes.NOT_READY, "effect": "NoSchedule"}],
    }
    assert nodes.tainted_until_ready(tainted) is tainted
    other = {"spec": {"taints": [{"key": nodes.NOT_READY, "effect": "NoExecute"}]}}
    assert len(nodes.tainted_until_ready(other)["spec"]["taints"]) == 2


@pytest.mark.parametrize("kind", ["Binding", "Pod"])
def test_a_pod_gets_zone_and_region_of_its_node(kind: str) -> None:
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    labels = {zone: "z1", region: "r1", "rack": "7"}
    view = store_of({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}})

    def going(to: str | None, own: dict[str, str]) -> Obj:
        meta = {"name": "p", "namespace": "team-a", "labels": own}
        if kind == "Binding":
            return {"kind": "Binding", "metadata": meta, "target": {"name": to}}
        return {"kind": "Pod", "metadata": meta, "spec": {"nodeName": to}}

    placed = nodes.with_topology_labels(view, going("n", {zone: "mine", "a": "b"}))
    assert placed["metadata"] == {
        "name": "p",
        "namespace": "team-a",
        "labels": {zone: "mine", "a": "b", region: "r1"},
    }
    for left in (going("elsewhere", {}), going(None, {}), going("n", {zone: "z1", region: "r1"})):
        assert nodes.with_topology_labels(view, left) is left


def test_bindings_are_labelled_when_they_are_created() -> None:
    zone = "topology.kubernetes.io/zone"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {zone: "z1"}}}
    world = World(namespace("team-a"), node)
    binding = {**pod(), "kind": "Binding", "target": {"name": "n"}}
    base = request(pod(), subresource="binding")
    base.obj = binding
    made: Any = intree.changed(world.store, base, Options())
    assert made["metadata"]["labels"] == {zone: "z1"}
    base.subresource = "eviction"
    assert intree.changed(world.store, base, Options()) == binding


# Runtime classes.


def runtime(**fields: Any) -> Obj:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "gvisor"},
        "handler": "runsc",
        **fields,
    }


OVERHEAD = {"podFixed": {"cpu": "250m", "memory": "64Mi"}}


@pytest.mark.parametrize(
    ("fields", "spec", "want"),
    [
        ({}, {}, {}),
        ({"overhead": OVERHEAD}, {}, {"overhead": OVERHEAD["podFixed"]}),
        (
            {"overhead": OVERHEAD},
            {"overhead": {"cpu": "0.25", "memory": "64Mi"}},
            {"overhead": OVERHEAD["podFixed"]},
        ),
        ({"overhead": OVERHEAD}, {"overhead": {"cpu": "1"}}, "doesn't match"),
        (
            {"scheduling": {"nodeSelector": {"a": "b"}}},
            {"nodeSelector": {"c": "d"}},
            {"nodeSelector": {"a": "b", "c": "d"}},
        ),
        ({"scheduling": {"nodeSelector": {"a": "b"}}}, {"nodeSelector": {"a": "b"}}, {}),
        (
            {"scheduling": {"nodeSelector": {"a": "b"}}},
            {"nodeSelector": {"a": "x"}},
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = x",
        ),
        (
            {"scheduling": {"tolerations": [{"key": "k"}, {"key": "own"}]}},
            {"tolerations": [{"key": "own"}]},
            {"tolerations": [{"key": "own"}, {"key": "k"}]},
        ),
    ],
)
def test_a_runtime_class_brings_overhead_selector_and_tolerations(
    fields: dict[str, Any], spec: dict[str, Any], want: dict[str, Any] | str
) -> None:
    view = store_of(runtime(**fields))
    asks = pod(runtimeClassName="gvisor", **spec)
    made = runtimeclass.resolved(view, asks)
    if isinstance(want, str):
        assert isinstance(made, str)
        assert want in made
        return
    assert made == {**asks, "spec": {**asks["spec"], **want}}


def test_overhead_is_the_runtimes_to_set() -> None:
    view = store_of(runtime(overhead=OVERHEAD))
    same, other = {"cpu": "0.25", "memory": "64Mi"}, {"cpu": "1"}
    without = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    differs = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    unknown = 'pod rejected: RuntimeClass "missing" not found'
    named = {"runtimeClassName": "gvisor"}
    assert runtimeclass.refusal(view, pod()) is None
    assert runtimeclass.refusal(view, pod(overhead=same)) == without
    assert runtimeclass.refusal(view, pod(**named, overhead=same)) is None
    assert runtimeclass.refusal(view, pod(**named, overhead=other)) == differs
    assert runtimeclass.refusal(view, pod(**named)) == differs
    assert runtimeclass.refusal(view, pod(runtimeClassName="missing")) == unknown
    assert runtimeclass.resolved(view, pod(runtimeClassName="missing")) == unknown
    plain = pod()
    assert runtimeclass.resolved(view, plain) is plain
    bare = store_of(runtime())
    assert runtimeclass.refusal(bare, pod(**named)) is None
    assert runtimeclass.refusal(bare, pod(**named, overhead=same)) == without
    assert intree.refused_late(view, request(pod(overhead=same))) is not None
    assert intree.refused_late(view, request(pod(overhead=same), UPDATE, pod())) is None
    assert intree.refused_late(view, request(pod(overhead=same), subresource="status")) is None


# Service accounts.


def account(name: str, **fields: Any) -> Obj:
    meta = {"name": name, "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, **fields}


def mirror(**spec: Any) -> Obj:
    made = pod(**spec)
    made["metadata"]["annotations"] = {serviceaccount.MIRROR_ANNOTATION: "x"}
    return made


def test_mirror_pods_reference_neither_accounts_nor_secrets() -> None:
    view = store_of(account("sa"))
    for spec, want in (
        ({"serviceAccountName": "sa"}, "a mirror pod may not reference service accounts"),
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
            "a mirror pod may not reference secrets",
        ),
    ):
        assert serviceaccount.accounted(view, mirror(**spec), "team-a") == want
    plain = mirror(volumes=[{"name": "v", "emptyDir": {}}])
    assert serviceaccount.accounted(view, plain, "team-a") is plain
    assert serviceaccount.refusal(view, mirror(serviceAccountName="missing"), "team-a") is None


def test_an_account_gives_its_pull_secrets_to_pods_without_any() -> None:
    secrets = [{"name": "registry"}]
    view = store_of(account("sa", imagePullSecrets=secrets))
    made: Any = serviceaccount.accounted(view, pod(serviceAccountName="sa"), "team-a")
    assert made["spec"]["imagePullSecrets"] == secrets
    own = [{"name": "mine"}]
    made = serviceaccount.accounted(view, pod(serviceAccount="sa", imagePullSecrets=own), "team-a")
    assert made["spec"]["imagePullSecrets"] == own
    assert made["spec"]["serviceAccountName"] == made["spec"]["serviceAccount"] == "sa"
    missing = 'error looking up service account team-a/x: serviceaccount "x" not found'
    assert serviceaccount.accounted(view, pod(serviceAccountName="x"), "team-a") == missing
    assert serviceaccount.refusal(view, pod(serviceAccountName="x"), "team-a") == missing
    assert serviceaccount.refusal(view, pod(serviceAccountName="sa"), "team-a") is None
    assert serviceaccount.refusal(view, pod(serviceAccountName="default"), "team-a") is None
    assert serviceaccount.refusal(view, pod(), "team-a") is None


@pytest.mark.parametrize("of_pod", [None, False, True])
@pytest.mark.parametrize("of_account", [None, False, True])
def test_the_pods_word_on_its_token_counts_before_the_accounts(
    of_pod: bool | None, of_account: bool | None
) -> None:
    field = "automountServiceAccountToken"
    view = store_of(account("sa", **({} if of_account is None else {field: of_account})))
    asks = pod(serviceAccountName="sa", **({} if of_pod is None else {field: of_pod}))
    made: Any = serviceaccount.accounted(view, asks, "team-a")
    wanted = of_pod if of_pod is not None else of_account is not False
    assert bool(made["spec"].get("volumes")) == wanted
    assert bool(made["spec"]["containers"][0].get("volumeMounts")) == wanted
    unmounted: Any = serviceaccount.accounted(view, asks, "team-a", mounts_token=False)
    assert "volumes" not in unmounted["spec"]


def test_the_token_is_mounted_where_nothing_is_yet() -> None:
    path = serviceaccount.MOUNT_PATH
    taken = {"name": "own", "image": "i", "volumeMounts": [{"name": "x", "mountPath": path}]}
    other = {"name": "data", "image": "i", "volumeMounts": [{"name": "d", "mountPath": "/data"}]}
    volume = {"name": "d", "emptyDir": {}}
    asks = pod(containers=[taken, other], initContainers=[{"name": "first", "image": "i"}], volumes=[volume])
    made: Any = serviceaccount.accounted(Store(), asks, "team-a")
    spec = made["spec"]
    name = spec["volumes"][1]["name"]
    mount = {"name": name, "readOnly": True, "mountPath": path}
    assert name.startswith("kube-api-access-")
    assert len(name) == len("kube-api-access-") + 5
    assert spec["volumes"] == [volume, {"name": name, "projected": spec["volumes"][1]["projected"]}]
    assert spec["volumes"][1]["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
    }
    assert spec["containers"] == [taken, {**other, "volumeMounts": [*other["volumeMounts"], mount]}]
    assert spec["initContainers"] == [{"name": "first", "image": "i", "volumeMounts": [mount]}]
    again: Any = serviceaccount.accounted(Store(), {**made, "spec": dict(spec)}, "team-a")
    assert again["spec"] == spec, "a second time changes nothing"
    half = pod(volumes=[{"name": "kube-api-access-abcde", "projected": {}}])
    half_made: Any = serviceaccount.accounted(Store(), half, "team-a")
    assert half_made["spec"]["volumes"] == half["spec"]["volumes"]
    assert half_made["spec"]["containers"][0]["volumeMounts"][0]["name"] == "kube-api-access-abcde"
    all_taken = pod(containers=[taken])
    kept: Any = serviceaccount.accounted(Store(), all_taken, "team-a")
    assert "volumes" not in kept["spec"]


def test_pods_of_one_owner_share_a_token_volume_and_others_do_not() -> None:
    def suffix(name: str, owner: str | None, home: str = "team-a") -> str:
        made = pod(name, home)
        if owner:
            made["metadata"]["ownerReferences"] = [
                {"kind": "ReplicaSet", "name": "r", "uid": owner, "controller": True}
            ]
        filled: Any = serviceaccount.accounted(Store(), made, home)
        return str(filled["spec"]["volumes"][0]["name"])

    assert suffix("a", "u1") == suffix("b", "u1")
    seen = [
        suffix("a", None),
        suffix("b", None),
        suffix("a", "u1"),
        suffix("a", "u2"),
        suffix("a", None, "x"),
    ]
    assert len(set(seen)) == len(seen)


# What a webhook or policy made of an object.


@pytest.mark.parametrize(
    ("after", "code", "said"),
    [
        (pod(nodeName="n"), None, ""),
        ("nonsense", 500, "Internal error occurred: Object 'Kind' is missing in the object"),
        (
            {**pod(), "kind": "Service"},
            500,
            "Internal error occurred: converting (v1).Service to (v1).Pod: unknown conversion",
        ),
        (pod(containers="x"), 500, "Internal error occurred: "),
        (
            pod(home="other"),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            pod("other"),
            422,
            'Pod "p" is invalid: metadata.name: Invalid value: "other": field is immutable',
        ),
    ],
)
def test_a_changed_object_is_still_that_object(after: Any, code: int | None, said: str) -> None:
    wrong = misfit(pod(), after)
    if code is None:
        assert wrong is None
        return
    assert wrong is not None
    assert wrong["code"] == code
    assert wrong["message"].startswith(said)
    causes = wrong.get("details", {}).get("causes")
    if code == 422:
        why = 'Invalid value: "other": field is immutable'
        assert causes == [{"reason": "FieldValueInvalid", "message": why, "field": "metadata.name"}]
        assert (wrong["details"]["name"], wrong["details"]["kind"]) == ("p", "Pod")
    elif code == 500:
        assert causes == [{"message": wrong["message"].removeprefix("Internal error occurred: ")}]


@pytest.mark.parametrize(("levels", "is_fine"), [(199, True), (200, True), (201, False), (10_000, False)])
def test_a_changed_object_is_not_deeper_than_can_be_walked(levels: int, is_fine: bool) -> None:
    """Lists and mappings count alike; the object itself is the first level."""
    nested: Any = []
    for depth in range(levels - 2):
        nested = [nested] if depth % 2 else {"x": nested}
    about = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    wrong = misfit(about, {**about, "spec": nested})
    assert (wrong is None) == is_fine
    if wrong is not None:
        assert wrong["message"] == "Internal error occurred: the object is nested deeper than 200 levels"
