"""What a body is before its kind is known: its form, how deep and wide it may be, of which kind it says to be."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.decoding import MAX_DEPTH, check_form, decoded, of_kind, typed
from fairway.apiserver.resources import Resources
from fairway.apiserver.statuses import StatusError

HEADER = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
UNRECOGNIZED = (
    "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: "
)


def refused(call: Any) -> tuple[int, str]:
    with pytest.raises(StatusError) as wrong:
        call()
    return wrong.value.code, str(wrong.value)


@pytest.mark.parametrize(
    ("body", "what", "shown"),
    [
        (b'"x"', "string", "227822"),
        (b"[1]", "array", "5b315d"),
        (b"true", "bool", "74727565"),
        (b"12", "number", "3132"),
        (b"1.5", "number", "312e35"),
        (b"[" + b"1," * 13 + b"12]", "array", ("[" + "1," * 13 + "12]").encode().hex()),
        (b"[" + b"1," * 14 + b"12]", "array", ("[" + "1," * 14 + "1").encode().hex() + " ..."),
    ],
)
def test_a_body_that_is_no_object(body: bytes, what: str, shown: str) -> None:
    for is_yaml in (False, True):
        code, said = refused(lambda is_yaml=is_yaml: decoded(body, "Pod", is_yaml=is_yaml))
        want = f"{UNRECOGNIZED}json: cannot unmarshal {what} into Go value of type {HEADER} ({shown})"
        assert (code, said) == (400, want)


def test_a_body_that_is_no_json() -> None:
    for body, shown in ((b"", "<empty>"), (b'{"a":', '{"a":'), (b'{"a":"' + b"x" * 40, '{"a":"' + "x" * 24)):
        code, said = refused(lambda body=body: decoded(body, "Pod", is_yaml=False))
        assert code == 400 and said.startswith(UNRECOGNIZED)
        assert said.endswith(f"({shown} ...)" if len(body) > 30 else f"({shown})")


def test_a_body_that_is_one_object() -> None:
    assert decoded(b'{"a": [1]}', "Pod", is_yaml=False) == {"a": [1]}
    assert decoded(b"a: [1]", "Pod", is_yaml=True) == {"a": [1]}
    assert decoded(b"null", "Pod", is_yaml=False) == {}
    assert refused(lambda: decoded(b"a: 1\n---\nb: 1\n", "Pod", is_yaml=True)) == (
        400,
        "expected one object in the body, found 2",
    )
    code, said = refused(lambda: decoded(b"a: [", "Pod", is_yaml=True))
    assert code == 400 and said.startswith("error parsing YAML: ")
    code, said = refused(lambda: decoded(b"\xff", "Pod", is_yaml=True))
    assert code == 400 and said.startswith("error parsing YAML: ")


def nested(depth: int) -> Any:
    """So many objects and lists, one in the other."""
    value: Any = {}
    for level in range(depth - 1):
        value = [value] if level % 2 else {"a": value}
    return value


def test_how_deep_and_wide_a_body_may_be() -> None:
    check_form(nested(MAX_DEPTH))
    assert refused(lambda: check_form(nested(MAX_DEPTH + 1))) == (
        400,
        f"the object provided is nested deeper than {MAX_DEPTH} levels",
    )
    check_form({"a": [{}] * 199_998, "b": 1})
    assert refused(lambda: check_form({"a": [[]] * 199_999})) == (
        413,
        "Request entity too large: limit is 200000 objects and lists",
    )


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ({}, ("v1", "Pod")),
        ({"kind": "Pod"}, ("v1", "Pod")),
        ({"apiVersion": "v1"}, ("v1", "Pod")),
        ({"kind": "Pod", "apiVersion": "v1", "x": 1}, ("v1", "Pod")),
        (
            {"kind": "Pod", "apiVersion": "v2"},
            'Pod in version "v2" cannot be handled as a Pod: no kind "Pod" is registered for version "v2" in scheme '
            '"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"',
        ),
        (
            {"kind": "Job", "apiVersion": "batch/v1"},
            'Job in version "v1" cannot be handled as a Pod: converting (v1.Job) to (core.Pod): unknown conversion',
        ),
        (
            {"kind": 1},
            UNRECOGNIZED
            + 'json: cannot unmarshal number into Go struct field .kind of type string ({"kind":1})',
        ),
        (
            {"apiVersion": []},
            UNRECOGNIZED
            + "json: cannot unmarshal array into Go struct field .apiVersion of type string "
            + '({"apiVersion":[]})',
        ),
    ],
)
def test_of_which_kind_it_says_to_be(body: dict[str, Any], want: tuple[str, str] | str) -> None:
    pods = Resources().by_route["", "v1", "pods"]
    if isinstance(want, str):
        assert refused(lambda: of_kind(body, pods)) == (400, want)
    else:
        found = of_kind(body, pods)
        assert found == {**body, "apiVersion": want[0], "kind": want[1]}


def test_a_kind_of_others_says_its_kind_itself() -> None:
    queues = Resources().by_route["kueue.x-k8s.io", "v1beta2", "localqueues"]
    whole = {"kind": "LocalQueue", "apiVersion": "kueue.x-k8s.io/v1beta2"}
    assert of_kind(whole, queues) is whole
    missing = "Object '{}' is missing in the body of the request"
    assert refused(lambda: of_kind({}, queues)) == (400, missing.format("Kind"))
    assert refused(lambda: of_kind({"apiVersion": "kueue.x-k8s.io/v1beta2"}, queues)) == (
        400,
        missing.format("Kind"),
    )
    assert refused(lambda: of_kind({"kind": "LocalQueue"}, queues)) == (400, missing.format("apiVersion"))
    assert refused(lambda: of_kind({**whole, "apiVersion": "kueue.x-k8s.io/v1"}, queues)) == (
        400,
        "the API version in the data (kueue.x-k8s.io/v1) does not match the expected API version "
        "(kueue.x-k8s.io/v1beta2)",
    )


def test_a_body_of_another_kind_than_the_path() -> None:
    assert typed({"spec": {"replicas": 3}}, "autoscaling/v1", "Scale")["spec"] == {"replicas": 3}
    code, said = refused(lambda: typed({"spec": {"replicas": "x"}}, "autoscaling/v1", "Scale"))
    assert code == 400
    assert said.startswith('Scale in version "v1" cannot be handled as a Scale: ')
    unknown = {"spec": 1}
    assert typed(unknown, "x.dev/v1", "Unheard") is unknown
