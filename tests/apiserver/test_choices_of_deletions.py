"""How things go: by options in the body or the query, on conditions, all of a kind, by eviction; and how many stay."""

from __future__ import annotations

from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map

from fairway.kube.objects import Obj

PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/replicasets"


def pod(name: str, **spec: Any) -> Obj:
    body = {"nodeName": "nowhere", "containers": [{"name": "c", "image": "i"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


@pytest.fixture(scope="module")
def home(api: Served) -> Served:
    """Time stands still, so that what waits for its end is there."""
    api.until_ready()
    assert api.ask("POST", "/fairway/clock", {"paused": True})[0] == 200
    return api


def gone(home: Served, path: str) -> bool:
    return bool(home.ask("GET", path)[0] == 404)


def with_child(home: Served, name: str) -> tuple[str, str]:
    """An object and another one that it owns."""
    _, owner = home.ask("POST", CONFIG_MAPS, config_map(name))
    child = config_map(f"{name}-child")
    child["metadata"]["finalizers"] = ["example.com/waits"]
    child["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": name,
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
    ]
    assert home.ask("POST", CONFIG_MAPS, child)[0] == 201
    return f"{CONFIG_MAPS}/{name}", f"{CONFIG_MAPS}/{name}-child"


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({}, "background"),
        ({"propagationPolicy": "Background"}, "background"),
        ({"propagationPolicy": "Foreground"}, "foreground"),
        ({"propagationPolicy": "Orphan"}, "orphan"),
        ({"orphanDependents": True}, "orphan"),
        ({"orphanDependents": False}, "background"),
    ],
)
@pytest.mark.parametrize("is_query", [False, True])
def test_what_becomes_of_dependents_is_said_in_either_place(
    home: Served, is_query: bool, options: dict[str, Any], want: str
) -> None:
    """The dependent waits for somebody's finalizer: who waits for it, and whether it goes at all, is seen."""
    name = f"own-{int(is_query)}-{'-'.join(str(v).lower() for v in options.values()) or 'plain'}"
    owner, child = with_child(home, name)
    query = "&".join(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in options.items())
    body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
    code, _ = home.ask("DELETE", f"{owner}?{query}" if is_query else owner, None if is_query else body)
    assert code == 200
    home.ask("POST", "/fairway/clock", {"advanceUs": 1_000_000})
    code, left = home.ask("GET", owner)
    assert (code == 200) is (want == "foreground")
    if want == "foreground":
        assert left["metadata"]["finalizers"] == ["foregroundDeletion"]
    meta = home.ask("GET", child)[1]["metadata"]
    assert ("deletionTimestamp" in meta) is (want != "orphan")
    assert ("ownerReferences" in meta) is (want != "orphan")


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("propagationPolicy=Sideways", 422, "Unsupported value"),
        ("propagationPolicy=Orphan&orphanDependents=true", 422, "cannot be both set"),
        ("dryRun=Some", 422, "Unsupported value"),
        ("gracePeriodSeconds=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("dryRun=All", 200, ""),
    ],
)
def test_options_in_the_query_are_checked(home: Served, query: str, code: int, said: str) -> None:
    home.ask("POST", CONFIG_MAPS, config_map("asked"))
    found, answer = home.ask("DELETE", f"{CONFIG_MAPS}/asked?{query}")
    assert found == code and said in answer.get("message", "")
    assert not gone(home, f"{CONFIG_MAPS}/asked")


@pytest.mark.parametrize(
    ("given", "grace"),
    [(None, 30), (0, None), (-5, 1), (1, 1), (600, 600)],
)
@pytest.mark.parametrize("is_query", [False, True])
def test_a_pods_grace(home: Served, is_query: bool, given: int | None, grace: int | None) -> None:
    """Of a pod on a node: negative means at once, as one second did before."""
    name = f"grace-{int(is_query)}-{given}".replace("--", "-m").lower()
    assert home.ask("POST", PODS, pod(name))[0] == 201
    path, body = f"{PODS}/{name}", {"apiVersion": "v1", "kind": "DeleteOptions"}
    if is_query:
        query = "" if given is None else f"?gracePeriodSeconds={given}"
        code, answer = home.ask("DELETE", f"{path}{query}")
    else:
        code, answer = home.ask(
            "DELETE", path, body if given is None else {**body, "gracePeriodSeconds": given}
        )
    assert code == 200 and answer["metadata"]["name"] == name
    assert gone(home, path) is (grace is None)
    if grace is not None:
        assert answer["metadata"]["deletionGracePeriodSeconds"] == grace


def test_only_as_it_was_read(home: Served) -> None:
    _, made = home.ask("POST", CONFIG_MAPS, config_map("exact"))
    meta, path = made["metadata"], f"{CONFIG_MAPS}/exact"
    begin = 'Operation cannot be fulfilled on ConfigMap "exact": '
    for conditions, why in (
        (
            {"uid": "other"},
            f"the UID in the precondition (other) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated",
        ),
        (
            {"uid": meta["uid"], "resourceVersion": "1"},
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record "
            f"({meta['resourceVersion']}). The object might have been modified",
        ),
    ):
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": conditions}
        code, said = home.ask("DELETE", path, body)
        assert (code, said["reason"]) == (409, "Conflict")
        assert said["message"] == begin + why
        assert said["details"] == {"name": "exact", "kind": "ConfigMap"}
        assert not gone(home, path)
    body["preconditions"] = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    code, said = home.ask("DELETE", path, body)
    assert (code, said["status"], said["details"]["uid"]) == (200, "Success", meta["uid"])
    assert gone(home, path)
    assert home.ask("DELETE", path)[0] == 404


def test_a_body_of_another_kind_is_none(home: Served) -> None:
    home.ask("POST", CONFIG_MAPS, config_map("kinds"))
    path = f"{CONFIG_MAPS}/kinds"
    code, said = home.ask("DELETE", path, {"apiVersion": "v1", "kind": "Pod"})
    assert code == 400 and not gone(home, path)
    assert "must be of type DeleteOptions" in said["message"] or "Pod" in said["message"]
    assert home.ask("DELETE", path, {"propagationPolicy": "Background"})[0] == 200 and gone(home, path)


def test_all_that_is_selected_goes(home: Served) -> None:
    for name, label in (("one", "a"), ("two", "a"), ("three", "b")):
        made = config_map(f"many-{name}")
        made["metadata"]["labels"] = {"of": label}
        home.ask("POST", CONFIG_MAPS, made)
    path = f"{CONFIG_MAPS}?labelSelector=of%3Da"
    code, would = home.ask("DELETE", f"{path}&dryRun=All")
    assert (code, [o["metadata"]["name"] for o in would["items"]]) == (200, ["many-one", "many-two"])
    assert len(home.ask("GET", path)[1]["items"]) == 2
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
    assert home.ask("DELETE", path, body)[0] == 200 and len(home.ask("GET", path)[1]["items"]) == 2
    code, went = home.ask("DELETE", path)
    assert [o["metadata"]["name"] for o in went["items"]] == ["many-one", "many-two"]
    assert int(went["metadata"]["resourceVersion"]) >= int(went["items"][0]["metadata"]["resourceVersion"])
    assert home.ask("GET", path)[1]["items"] == [] and not gone(home, f"{CONFIG_MAPS}/many-three")


# Evictions


def evicted(home: Served, name: str, **fields: Any) -> tuple[int, Any]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **fields}
    return home.ask("POST", f"{PODS}/{name}/eviction", body)


def test_an_evicted_pod_goes_as_it_was_asked_to(home: Served) -> None:
    for name, options, grace in (("e1", None, 30), ("e2", {"gracePeriodSeconds": 7}, 7)):
        home.ask("POST", PODS, pod(name))
        code, said = evicted(home, name, **({} if options is None else {"deleteOptions": options}))
        assert (code, said) == (
            201,
            {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201},
        )
        assert home.ask("GET", f"{PODS}/{name}")[1]["metadata"]["deletionGracePeriodSeconds"] == grace


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"deleteOptions": {"propagationPolicy": "Sideways"}}, 422, "Unsupported value"),
        ({"deleteOptions": {"dryRun": ["Some"]}}, 422, "Unsupported value"),
        ({"deleteOptions": {"dryRun": ["All"]}}, 201, ""),
        ({"metadata": {"name": "other"}}, 400, "name in URL does not match name in Eviction object"),
        ({"kind": "Pod"}, 400, "Pod"),
        ({"metadata": {}, "deleteOptions": {"dryRun": ["All"]}}, 201, ""),
    ],
)
def test_an_eviction_that_is_none(home: Served, fields: dict[str, Any], code: int, said: str) -> None:
    home.ask("POST", PODS, pod("stays"))
    found, answer = evicted(home, "stays", **fields)
    assert found == code and said in answer.get("message", "")
    assert "deletionTimestamp" not in home.ask("GET", f"{PODS}/stays")[1]["metadata"]


def test_an_eviction_of_nobody(home: Served) -> None:
    code, said = evicted(home, "nobody")
    assert (code, said["details"]) == (404, {"name": "nobody", "kind": "pods"})


# Scales


@pytest.fixture(scope="module")
def scaled(home: Served) -> str:
    labels = {"app": "s"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "s"}, "spec": spec}
    assert home.ask("POST", SETS, body)[0] == 201
    return f"{SETS}/s"


def scale(replicas: Any, **meta: Any) -> Obj:
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "s", **meta}}
    return {**body, "spec": {} if replicas is None else {"replicas": replicas}}


def test_a_scale_says_how_many_there_are(home: Served, scaled: str) -> None:
    _, whole = home.ask("GET", scaled)
    code, found = home.ask("GET", f"{scaled}/scale")
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert code == 200 and found["metadata"] == {k: whole["metadata"][k] for k in kept}
    assert (found["kind"], found["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert found["spec"] == {"replicas": 2} and found["status"]["selector"] == "app=s"
    assert home.ask("GET", f"{SETS}/none/scale")[0] == 404


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (scale(3), 200, 3),
        (scale(0), 200, 0),
        (scale(None), 200, 0),
        (scale(-1), 422, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (scale(4, resourceVersion="1"), 409, "the object has been modified"),
        ({**scale(4), "kind": "Pod"}, 400, "Pod"),
        (scale("many"), 400, "many"),
    ],
)
def test_a_scale_is_written(home: Served, scaled: str, body: Obj, code: int, said: Any) -> None:
    home.ask("PUT", f"{scaled}/scale", scale(2))
    found, answer = home.ask("PUT", f"{scaled}/scale", body)
    assert found == code, answer
    is_written = isinstance(said, int)
    assert is_written or said in answer["message"] or code == 400
    if is_written:
        assert answer["spec"] == ({"replicas": said} if said else {})
    if code == 422:
        assert answer["details"] == {
            "name": "s",
            "group": "autoscaling",
            "kind": "Scale",
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "message": "Invalid value: -1: must be greater than or equal to 0",
                    "field": "spec.replicas",
                }
            ],
        }
    assert home.ask("GET", scaled)[1]["spec"]["replicas"] == (said if is_written else 2)


def test_a_scale_is_patched(home: Served, scaled: str) -> None:
    merge = {"Content-Type": "application/merge-patch+json"}
    path = f"{scaled}/scale"
    code, found = home.ask("PATCH", path, {"spec": {"replicas": 5}}, headers=merge)
    assert (code, found["spec"]) == (200, {"replicas": 5})
    assert home.ask("GET", scaled)[1]["spec"]["replicas"] == 5
    assert home.ask("PATCH", path, {"spec": {"replicas": -2}}, headers=merge)[0] == 422
    operations = [{"op": "replace", "path": "", "value": 3}]
    json_patch = {"Content-Type": "application/json-patch+json"}
    assert home.ask("PATCH", path, operations, headers=json_patch)[0] >= 400
    assert home.ask("GET", scaled)[1]["spec"]["replicas"] == 5
