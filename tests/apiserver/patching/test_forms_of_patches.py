"""What a patch is, by its content type, and what is refused before and after it is applied."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.patching import forms
from fairway.apiserver.patching.forms import APPLY_YAML, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from fairway.apiserver.statuses import StatusError
from fairway.cluster.errors import ApiError
from fairway.kube.schema.node import schema_for

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]},
}
POD_SCHEMA = schema_for("v1", "Pod")
LIST = {"spec": {"containers": [{"name": "b", "image": "2"}]}}
REJECTED = "the server rejected our request due to an error in our request"
UNKNOWN = "the body of the request was in an unknown format - accepted media types include: "
BOTH = f"{JSON_PATCH}, {MERGE_PATCH}, "
CANNOT = "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}"


def images(patched: Any) -> list[tuple[str, str]]:
    return [(c["name"], c["image"]) for c in patched["spec"]["containers"]]


def test_each_form_by_its_content_type() -> None:
    assert images(forms.patched(POD, LIST, STRATEGIC_PATCH, POD_SCHEMA)) == [("a", "1"), ("b", "2")]
    for content_type in (MERGE_PATCH, f"{MERGE_PATCH}; charset=utf-8", f" {MERGE_PATCH} "):
        assert images(forms.patched(POD, LIST, content_type, POD_SCHEMA)) == [("b", "2")]
        assert images(forms.patched(POD, LIST, content_type, None)) == [("b", "2")]
    operations = [{"op": "replace", "path": "/spec/containers/0/image", "value": "3"}]
    assert images(forms.patched(POD, operations, JSON_PATCH, None)) == [("a", "3"), ("b", "1")]
    assert images(POD) == [("a", "1"), ("b", "1")], "what was there is left as it is"


@pytest.mark.parametrize(
    ("patch", "content_type", "is_known", "code", "words"),
    [
        ({}, APPLY_YAML, True, 415, UNKNOWN + BOTH + f"{STRATEGIC_PATCH}, {APPLY_YAML}"),
        ({}, "application/json", True, 415, UNKNOWN + BOTH + f"{STRATEGIC_PATCH}, {APPLY_YAML}"),
        ({}, STRATEGIC_PATCH, False, 415, UNKNOWN + BOTH + APPLY_YAML),
        ({}, "", False, 415, UNKNOWN + BOTH + APPLY_YAML),
        ("x", MERGE_PATCH, True, 400, CANNOT.format("string")),
        (True, MERGE_PATCH, True, 400, CANNOT.format("bool")),
        ([], MERGE_PATCH, True, 400, CANNOT.format("array")),
        (1, STRATEGIC_PATCH, True, 400, CANNOT.format("number")),
        (1.5, STRATEGIC_PATCH, True, 400, CANNOT.format("number")),
        ([{"op": "remove", "path": "/nothing"}], JSON_PATCH, True, 422, REJECTED),
        ([{"op": "test", "path": "/kind", "value": "Job"}], JSON_PATCH, False, 422, REJECTED),
        ([{"op": "replace", "path": "", "value": []}], JSON_PATCH, True, 422, REJECTED),
    ],
)
def test_what_is_refused(patch: Any, content_type: str, is_known: bool, code: int, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        forms.patched(POD, patch, content_type, POD_SCHEMA if is_known else None)
    assert (refused.value.code, str(refused.value)) == (code, words)
    if code == 422:
        assert isinstance(refused.value, StatusError) and refused.value.details == {}
        assert refused.value.__notes__[0]
