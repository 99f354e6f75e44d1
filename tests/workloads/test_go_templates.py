"""Go's templates as configs of language models use them: values, branches, spaces, errors, names of children."""

from __future__ import annotations

import contextlib
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.workloads.kserve.llm.templates import TemplateError, child_name, filled, rendered

DATA = {
    "metadata": {"name": "chat", "namespace": "team", "labels": {"a": "b"}},
    "spec": {"model": {"name": "llama"}, "parallelism": {"tensor": 4}, "replicas": 0},
    "globalConfig": {"enableTLS": False},
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{{ .Spec.Model.Name }}", "llama"),
        ("{{ .ObjectMeta.Name }}/{{ .Namespace }}", "chat/team"),
        ("{{ if .GlobalConfig.EnableTLS }}HTTPS{{else}}HTTP{{- end }}", "HTTP"),
        (
            "a {{- if and .Spec.Model .Spec.Parallelism.Tensor }} --tp {{ .Spec.Parallelism.Tensor }}{{- end }} b",
            "a --tp 4 b",
        ),
        ("{{ or .Spec.Parallelism.Data 1 }}", "1"),
        ("{{ if not .Spec.Replicas }}none{{ end }}", "none"),
        ("{{ if eq .Spec.Model.Name `llama` }}yes{{ end }}", "yes"),
        ("{{ if and .Spec.Prefill .Spec.Prefill.Parallelism.Tensor }}x{{ else }}y{{ end }}", "y"),
        ("{{ ChildName .ObjectMeta.Name `-epp` }}", "chat-epp"),
        ("{{ shutdownTimeout .Spec.Template 15 }}", "40"),
        ("{{ if (or .Spec.Prefill (eq 1 2)) }}x{{ end }}|", "|"),
        ("a  {{- /* said */ -}}  b", "ab"),
    ],
)
def test_what_they_come_to(text: str, wanted: str) -> None:
    assert rendered(text, DATA) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ .Spec.Prefill.Parallelism }}", "nil pointer evaluating Spec.Prefill.Parallelism"),
        ("{{ if .Spec }}x", "unexpected EOF"),
        ("x{{ end }}", "unexpected {{end}}"),
        ("{{ range .Spec }}", 'function "range" not defined'),
        ("{{ (or .Spec }}", "unclosed left paren"),
        ("{{ if .Spec }}" * 99, "nested actions"),
        ("{{ if .Spec }}{{ else }}" * 99, "nested actions"),
        ("{{ " + "(or " * 99 + " }}", "nested calls"),
        ("{{ }}", "missing value for command"),
        ("x{{", "unclosed action"),
        ("{{ .Spec }", "unclosed action"),
    ],
)
def test_what_go_would_refuse_is_refused(text: str, said: str) -> None:
    with pytest.raises(TemplateError, match=said.replace("{", r"\{").replace("}", r"\}")):
        rendered(text, DATA)


@given(st.text(alphabet='{}-. ()`"andorif eqelsSpcM1/*', max_size=60))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    with contextlib.suppress(TemplateError):
        filled({"a": [text]}, DATA)


@given(
    st.from_regex(r"[a-z]{1,80}", fullmatch=True),
    st.sampled_from(["-kserve", "-inference-pool", "-" + "x" * 40]),
)
def test_a_childs_name_is_never_longer_than_a_label(parent: str, suffix: str) -> None:
    found = child_name(parent, suffix)
    assert len(found) <= 63
    if len(parent) + len(suffix) <= 63:
        assert found == parent + suffix
    elif len(suffix) <= 31:
        assert found.endswith(hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest() + suffix)


def test_one_is_a_number_and_true_a_word() -> None:
    data = {"spec": {"tensor": 1, "none": 0, "on": True}}
    assert rendered("{{ .Spec.Tensor }} {{ .Spec.None }} {{- .Spec.On -}} !", data) == "1 0true!"


@pytest.mark.parametrize(
    "text",
    [
        "{{" * 500_000,
        "{{" + " " * 900_000 + "x",
        "{{ .ObjectMeta.Annotations.long }}" * 30_000,
        '{{ shutdownTimeout nil "soon" }}',
    ],
)
def test_hostile_templates_end_soon_and_small(text: str) -> None:
    data = {"metadata": {"annotations": {"long": "x" * 200_000}}}
    with pytest.raises(TemplateError):
        filled({"a": [text]}, data)


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        ("{{" + "1".rjust(4094) + "}}", "{{" + "1".rjust(4095) + "}}"),
        ("x" * 1_499_999 + "{{ 1 }}", "x" * 1_500_000 + "{{ 1 }}"),
        ("{{ if 1 }}" * 32 + "1" + "{{ end }}" * 32, "{{ if 1 }}" * 33 + "1" + "{{ end }}" * 33),
        ("{{ " + "(" * 32 + "1" + ")" * 32 + " }}", "{{ " + "(" * 33 + "1" + ")" * 33 + " }}"),
    ],
    ids=["an action", "all of it", "actions in actions", "calls in calls"],
)
def test_how_much_is_too_much(within: str, beyond: str) -> None:
    assert rendered(within, DATA).endswith("1")
    with pytest.raises(TemplateError, match="more than"):
        rendered(beyond, DATA)


@pytest.mark.parametrize(
    ("parent", "suffix"), [(53, 10), (54, 10), (60, 31), (60, 32), (32, 31), (31, 32), (1, 63)]
)
def test_a_childs_name_at_its_bounds(parent: int, suffix: int) -> None:
    """As long as a label may be; else the suffix stays behind a digest where both have room, or goes into one."""
    first, last = "p" * parent, "s" * suffix
    found = child_name(first, last)
    if parent + suffix <= 63:
        assert found == first + last
    elif suffix <= 31:
        digest = hashlib.md5(first.encode(), usedforsecurity=False).hexdigest()
        assert found == first[: 31 - suffix] + digest + last
    else:
        digest = hashlib.md5((first + last).encode(), usedforsecurity=False).hexdigest()
        assert found == first[:31] + digest
