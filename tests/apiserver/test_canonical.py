"""How Go reads and writes: what is spelt anew, left out, always written; and what is served of which kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.histories import check_history

from fairway.apiserver.canonical import _KNOWN, canonical, complete_in, completed
from fairway.apiserver.resources import ALL_VERBS, Resources
from fairway.cluster.store import Store
from fairway.kube.kinds import BY_GROUP_KIND
from fairway.kube.objects import Obj
from fairway.kube.schema.node import OBJECT, Schema, schema_for


def pod(**spec: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", **fields}]}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (container(resources={"limits": {"cpu": 1}}), container(resources={"limits": {"cpu": "1"}})),
        (
            container(resources={"limits": {"memory": "1024Mi", "cpu": "0.5"}}),
            container(resources={"limits": {"memory": "1Gi", "cpu": "500m"}}),
        ),
        (container(resources={"limits": {"cpu": "many"}}), None),
        (container(args=[]), container()),
        (container(args=["a"], command=None), container(args=["a"])),
        ({"nodeSelector": {}}, {}),
        ({"nodeSelector": {"a": "b"}}, None),
        ({"nodeSelector": None}, {}),
        ({"securityContext": {}}, None),
        ({"securityContext": None}, {}),
        ({"tolerations": [{}, None]}, {"tolerations": [{}, {}]}),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, None),
        (
            {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1000Mi"}}]},
            None,
        ),
        (
            {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1000m"}}]},
            {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1"}}]},
        ),
        ({"overhead": {"cpu": "1000m"}}, {"overhead": {"cpu": "1"}}),
        ({"unknown": {"a": None, "b": []}}, None),
        ({"unknown": 1, "nodeSelector": {}, "more": 2}, {"unknown": 1, "more": 2}),
        ({"nodeName": ["a", None]}, None),
        (
            {"containers": [{"name": "a", "args": []}, {"name": "b"}, {"name": "c", "args": []}]},
            {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]},
        ),
        (
            container(resources={"limits": {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 2}}),
            container(resources={"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}}),
        ),
        ({"terminationGracePeriodSeconds": None}, {}),
        ({"volumes": [{"name": "v", "emptyDir": None}]}, {"volumes": [{"name": "v"}]}),
        ({"containers": []}, None),
        ({"containers": None}, None),
        ({"hostNetwork": False, "priority": 0}, None),
    ],
)
def test_what_go_makes_of_a_pod(given: dict[str, Any], want: dict[str, Any] | None) -> None:
    schema = schema_for("v1", "Pod")
    assert schema is not None
    obj = pod(**given)
    found = canonical(obj, schema)
    assert found == (obj if want is None else pod(**want))
    assert (found is obj) is (want is None)
    assert canonical(found, schema) is found


def test_who_wrote_what_is_kept_as_it_is() -> None:
    schema = schema_for("v1", "ConfigMap")
    assert schema is not None
    meta = {"name": "c", "managedFields": [{"fieldsV1": {"f:data": {}}, "manager": None}], "labels": {}}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {}}
    found = canonical(obj, schema)
    assert found["metadata"] == {"name": "c", "managedFields": meta["managedFields"]}
    assert "data" not in found


def test_what_go_always_writes_is_there() -> None:
    schema = schema_for("v1", "Pod")
    assert schema is not None
    spec = container()
    first, second = ({**pod(), "spec": spec}, {**pod(), "spec": spec})
    found = completed(first, schema)
    assert found["spec"]["containers"][0]["resources"] == {}
    assert found["metadata"] == {"name": "p"} and found["status"] == {}
    assert completed(found, schema) is found
    assert completed(second, schema)["spec"] is found["spec"], "pods of one template share their spec"


def test_specs_are_shared_as_long_as_a_few_are_known() -> None:
    schema = schema_for("v1", "Pod")
    assert schema is not None
    specs = [container(image=str(n)) for n in range(65)]
    first = [completed({**pod(), "spec": spec}, schema)["spec"] for spec in specs]
    again = [completed({**pod(), "spec": spec}, schema)["spec"] for spec in specs]
    assert first == again
    assert [f["containers"][0]["image"] for f in first] == [str(n) for n in range(65)]
    assert len(_KNOWN) <= 64


def _made(schema: Schema, above: tuple[int, ...]) -> Any:
    """An object with all its structs, each list with one item and an empty one; None: a value."""
    if id(schema) in above:
        return None
    above = (*above, id(schema))
    if schema.items is not None:
        item = _made(schema.items, above)
        return None if item is None else [item, {}]
    if schema.properties:
        members = {name: _made(member, above) for name, member in schema.properties.items()}
        return {name: value for name, value in members.items() if value is not None}
    return {} if schema.type == OBJECT else None


def _added(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict):
        assert list(after)[: len(before)] == list(before)
        for name, value in after.items():
            if name in before:
                yield from _added(before[name], value, f"{path}.{name}")
            else:
                yield f"{path}.{name}: {json.dumps(value)}"
    elif isinstance(before, list):
        for n, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _added(old, new, f"{path}[{n}]")
    else:
        assert before == after


def test_what_go_always_writes_of_every_kind_is_what_it_was() -> None:
    def told() -> Iterator[str]:
        for gk, kind in sorted(BY_GROUP_KIND.items()):
            for version in kind.versions:
                schema = schema_for(f"{kind.group}/{version}".lstrip("/"), kind.kind)
                if schema is None or schema.is_custom or "metadata" not in schema.properties:
                    continue
                for full in (True, False):
                    obj = _made(schema, ()) if full else {}
                    done = completed(obj, schema)
                    assert completed(done, schema) is done
                    assert obj == (_made(schema, ()) if full else {}), "it is left as it was"
                    yield from _added(obj, done, f"{gk} {version} {'full' if full else 'bare'}")

    check_history(Path(__file__).parent / "always_written.txt", told())


def test_what_is_not_of_its_type_is_left_as_it_is() -> None:
    schema = schema_for("v1", "Pod")
    assert schema is not None
    for spec in ({"containers": "x"}, {"containers": ["x", None]}, {"containers": 7}, "x", None):
        found = completed({**pod(), "spec": spec}, schema)
        assert found["spec"] == ({"containers": None} if spec is None else spec)
    assert completed({**pod(), "status": []}, schema)["status"] == []


def test_a_status_has_its_texts_whoever_writes_it() -> None:
    schema = schema_for("apps/v1", "Deployment")
    assert schema is not None
    obj = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {}, "template": {}},
        "status": {"conditions": [{"reason": "R"}, {"type": "T", "status": None}]},
    }
    conditions = completed(obj, schema)["status"]["conditions"]
    assert conditions == [{"reason": "R", "type": "", "status": ""}, {"type": "T", "status": ""}]


def test_objects_of_a_store_are_complete_whoever_creates_them() -> None:
    store = Store()
    store.completing["Service"] = lambda obj: {**obj, "spec": {**obj["spec"], "before": "first"}}
    complete_in(store)
    made = store.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}})
    assert made["status"] == {"loadBalancer": {}}
    assert made["spec"]["before"] == "first"
    old = {"apiVersion": "apps/v0", "kind": "Deployment", "metadata": {"name": "d"}}
    assert store.completing["Deployment.apps"](old) is old


READ = ("get", "list")
# Group, version, plural: in a namespace?, verbs, subresources, categories, singular.
SERVED: dict[tuple[str, str, str], tuple[bool, tuple[str, ...], list[str], tuple[str, ...], str]] = {
    ("", "v1", "nodes"): (False, ALL_VERBS, ["proxy", "status"], (), "node"),
    ("", "v1", "bindings"): (True, ("create",), [], (), "binding"),
    ("", "v1", "componentstatuses"): (False, READ, [], (), "componentstatus"),
    ("", "v1", "configmaps"): (True, ALL_VERBS, [], (), "configmap"),
    ("apps", "v1", "deployments"): (True, ALL_VERBS, ["scale", "status"], ("all",), "deployment"),
    ("apps", "v1", "daemonsets"): (True, ALL_VERBS, ["status"], ("all",), "daemonset"),
    ("batch", "v1", "jobs"): (True, ALL_VERBS, ["status"], ("all",), "job"),
    ("policy", "v1", "poddisruptionbudgets"): (True, ALL_VERBS, ["status"], (), "poddisruptionbudget"),
    ("events.k8s.io", "v1", "events"): (True, ALL_VERBS, [], (), "event"),
    ("authorization.k8s.io", "v1", "localsubjectaccessreviews"): (
        True,
        ("create",),
        [],
        (),
        "localsubjectaccessreview",
    ),
    ("authorization.k8s.io", "v1", "subjectaccessreviews"): (
        False,
        ("create",),
        [],
        (),
        "subjectaccessreview",
    ),
    ("authentication.k8s.io", "v1", "selfsubjectreviews"): (False, ("create",), [], (), "selfsubjectreview"),
    ("metrics.k8s.io", "v1beta1", "pods"): (True, READ, [], (), ""),
    ("metrics.k8s.io", "v1beta1", "nodes"): (False, READ, [], (), ""),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions"): (
        False,
        ALL_VERBS,
        ["status"],
        ("api-extensions",),
        "customresourcedefinition",
    ),
    ("kueue.x-k8s.io", "v1beta2", "workloads"): (True, ALL_VERBS, ["status"], (), "workload"),
}


@pytest.mark.parametrize("route", SERVED)
def test_what_is_served_of_a_kind(route: tuple[str, str, str]) -> None:
    found = Resources().find(*route)
    assert found is not None
    subresources = [s.name for s in found.subresources]
    said = (found.kind.namespaced, found.verbs, subresources, found.categories, found.singular)
    assert said == SERVED[route]
    assert found.is_custom is (route[0] == "kueue.x-k8s.io")
    assert found.has_strategic_merge is not found.is_custom


def test_events_of_either_group_are_the_same_ones() -> None:
    resources = Resources()
    old, new = resources.find("", "v1", "events"), resources.find("events.k8s.io", "v1", "events")
    assert old is not None and new is not None
    assert (old.gk, new.gk, old.api_version, new.api_version) == ("Event", "Event", "v1", "events.k8s.io/v1")


def test_without_a_metrics_server_its_group_is_not_served() -> None:
    assert Resources(serves_metrics=False).find("metrics.k8s.io", "v1beta1", "pods") is None
    assert "metrics.k8s.io" not in Resources(serves_metrics=False).preferred
