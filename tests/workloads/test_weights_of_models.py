"""How a model's weights reach its containers: what KServe's webhook and its controllers of LLMs add to a pod.

Source: kserve pkg/webhook/admission/pod/storage_initializer_injector.go, llmisvc/workload_storage.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Obj
from fairway.workloads.kserve.llm.models import with_weights
from fairway.workloads.kserve.llm.templates import child_name
from fairway.workloads.kserve.storage import with_model

SOURCE = "internal.serving.kserve.io/storage-initializer-sourceuri"


def pod(source: str | None, **notes: str) -> Obj:
    annotations = {**({} if source is None else {SOURCE: source}), **notes}
    containers = [
        {"name": n, "image": "i"}
        for n in ("kserve-container", "worker-container", "transformer-container", "queue-proxy")
    ]
    containers[0]["volumeMounts"] = [{"name": "own", "mountPath": "/own"}]  # type: ignore[assignment]
    spec = {"containers": containers, "volumes": [{"name": "own", "emptyDir": {}}], "nodeName": "n1"}
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}


@pytest.mark.parametrize("source", [None, "", "oci://registry/model", "oci+native://x"])
def test_a_model_that_comes_otherwise_changes_nothing(source: str | None) -> None:
    given = pod(source)
    assert with_model(given) is given


def test_a_pod_that_fetches_already_is_left_alone() -> None:
    given = pod("s3://bucket/model")
    given["spec"]["initContainers"] = [{"name": "storage-initializer"}]
    assert with_model(given) is given


@pytest.mark.parametrize(("note", "read_only"), [(None, True), ("true", True), ("false", False)])
@pytest.mark.parametrize("source", ["s3://bucket/model", "pvc://claim", "pvc://claim/below/it"])
def test_every_server_sees_the_model_and_nobody_else(source: str, note: str | None, read_only: bool) -> None:
    given = pod(source, **({} if note is None else {"storage.kserve.io/readonly": note}))
    given["spec"]["initContainers"] = [{"name": "first"}]
    spec = with_model(given)["spec"]
    is_claim = source.startswith("pvc")
    name = "kserve-pvc-source" if is_claim else "kserve-provision-location"
    mount: dict[str, Any] = {"name": name, "mountPath": "/mnt/models", "readOnly": read_only}
    if source.endswith("below/it"):
        mount["subPath"] = "below/it"
    own = {"name": "own", "mountPath": "/own"}
    assert [c.get("volumeMounts") for c in spec["containers"]] == [[own, mount], [mount], [mount], None]
    volume = (
        {"persistentVolumeClaim": {"claimName": "claim", "readOnly": False}} if is_claim else {"emptyDir": {}}
    )
    assert spec["volumes"] == [{"name": "own", "emptyDir": {}}, {"name": name, **volume}]
    assert [c["name"] for c in spec["initContainers"]] == [
        "first",
        *([] if is_claim else ["storage-initializer"]),
    ]
    if not is_claim:
        fetching = spec["initContainers"][1]
        assert fetching["args"] == [source, "/mnt/models"]
        assert fetching["volumeMounts"] == [{"name": name, "mountPath": "/mnt/models"}]
    assert spec["nodeName"] == "n1"
    assert "initContainers" not in with_model(pod("pvc://claim"))["spec"]


# LLMInferenceServices


def llm(uri: str, **more: Any) -> dict[str, Any]:
    return {"model": {"uri": uri}, **more}


MAIN: dict[str, Any] = {
    "containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}, {"name": "beside"}],
    "initContainers": [{"name": "storage-initializer"}, {"name": "first"}],
    "volumes": [{"name": "own", "emptyDir": {}}],
}


@pytest.mark.parametrize("uri", ["hf://org/model", "s3://bucket/m"])
def test_weights_that_are_fetched(uri: str) -> None:
    found = with_weights(MAIN, llm(uri))
    mount = {"name": "kserve-provision-location", "mountPath": "/mnt/models", "readOnly": True}
    assert [c.get("volumeMounts") for c in found["containers"]] == [[mount], None]
    assert [c["name"] for c in found["initContainers"]] == ["first", "storage-initializer"]
    assert found["initContainers"][1]["args"] == [uri, "/mnt/models"]
    assert [v["name"] for v in found["volumes"]] == ["own", "kserve-provision-location"]
    assert with_weights(MAIN, llm(uri, storageInitializer={"enabled": False})) is MAIN
    assert with_weights(MAIN, llm(uri, storageInitializer={"enabled": True})) == found
    assert [c["name"] for c in with_weights({"containers": []}, llm(uri))["initContainers"]] == [
        "storage-initializer"
    ]


@pytest.mark.parametrize("below", ["", "some/where"])
def test_weights_of_a_claim(below: str) -> None:
    found = with_weights(MAIN, llm(f"pvc://claim/{below}" if below else "pvc://claim"), "beside", "/weights")
    mount = {
        "name": "kserve-pvc-source",
        "mountPath": "/weights",
        "readOnly": True,
        **({"subPath": below} if below else {}),
    }
    assert [c.get("volumeMounts") for c in found["containers"]] == [None, [mount]]
    assert found["volumes"][1] == {
        "name": "kserve-pvc-source",
        "persistentVolumeClaim": {"claimName": "claim", "readOnly": True},
    }
    assert [c["name"] for c in found["initContainers"]] == ["first"]
    assert "initContainers" not in with_weights({"containers": [{"name": "main"}]}, llm("pvc://claim"))


def test_weights_that_are_an_image() -> None:
    found = with_weights(MAIN, llm("oci://registry/model:1"), path="/mnt/models")
    mount = {"name": "modelcar", "mountPath": "/mnt", "readOnly": False}
    assert [(c["name"], c.get("volumeMounts")) for c in found["containers"]] == [
        ("main", [mount]),
        ("beside", None),
        ("modelcar", [mount]),
    ]
    assert found["containers"][0]["env"] == [
        {"name": "A", "value": "1"},
        {"name": "MODEL_INIT_MODE", "value": "async"},
    ]
    assert "env" not in found["containers"][1]
    assert found["shareProcessNamespace"] is True
    assert [(c["name"], c.get("image")) for c in found["initContainers"]] == [
        ("first", None),
        ("modelcar-init", "registry/model:1"),
    ]
    assert found["containers"][2]["image"] == "registry/model:1"
    assert found["containers"][2]["args"][-1].startswith("ln -sf /proc/$$$$/root/models /mnt/models")
    assert found["volumes"][1] == {"name": "modelcar", "emptyDir": {}}


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("model", "invalid model URI: model"),
        ("", "invalid model URI: "),
        ("ftp://x", "unsupported schema in model URI: ftp://x"),
    ],
)
def test_weights_from_nowhere(uri: str, says: str) -> None:
    with pytest.raises(ValueError, match="model URI") as told:
        with_weights(MAIN, llm(uri))
    assert str(told.value) == says


@pytest.mark.parametrize("parent", [1, 31, 32, 33, 60, 63, 64, 90])
@pytest.mark.parametrize("suffix", [1, 3, 31, 32, 40, 63])
def test_names_of_children_are_short_and_tell_parents_apart(parent: int, suffix: int) -> None:
    """knative's kmeta.ChildName: 63 characters at most, the digest of the parent (or both) in what is cut off."""
    name, end = "p" * parent, "-" + "s" * (suffix - 1)
    found = child_name(name, end)
    assert len(found) <= 63
    if parent + suffix <= 63:
        assert found == name + end
        return
    other = child_name(name[:-1] + "q", end)
    assert found != other
    assert len(found) == 63 if suffix <= 31 and parent + suffix > 63 and parent >= 31 else len(found) <= 63
    assert found.endswith(end) is (suffix <= 31)
