"""Texts with Go's templates: what they become, and what is refused in its words."""

import pytest

from fairway.telemetry.rules.expanding import Sample, expand
from fairway.telemetry.rules.gotemplates import TemplateError, float_text, render

DATA = {"Labels": {"a": "x", "b": "y"}, "Value": 12.5, "Empty": []}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("plain", "plain"),
        ("{{ .Labels.a }}-{{ .Value }}", "x-12.5"),
        ('{{ .Labels.a | printf "%s%s" .Labels.b }}', "yx"),
        ('{{ if gt .Value 20.0 }}1{{ else if eq .Labels.a "x" "z" }}2{{ else }}3{{ end }}', "2"),
        ("{{ range $k, $v := .Labels }}{{ $k }}={{ $v }},{{ end }}", "a=x,b=y,"),
        ("{{ range .Empty }}{{ else }}none{{ end }}", "none"),
        ("a {{- with .Labels.b }} [{{ . }}] {{- end }} b", "a [y] b"),
        ('{{ define "t" }}<{{ .a }}>{{ end }}{{ template "t" .Labels }}', "<x>"),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
        ('{{/* nothing */}}{{ (index .Labels "a") | len }}', "1"),
        ("{{ .Labels.gone }}|", "|"),
        ("{{ and .Labels.a .Labels.b }}{{ or .Labels.gone 1 }}{{ not true }}", "y1false"),
        ('{{ range $i, $v := .Labels }}{{ if eq $i "b" }}{{ break }}{{ end }}{{ $v }}{{ end }}', "x"),
        (
            '{{ printf "%05.1f|%-4d|%q|%d|%t" .Value 3 "s" .Value true }}',
            '012.5|3   |"s"|%!d(float64=12.5)|true',
        ),
        ("{{ .Labels }}", "map[a:x b:y]"),
    ],
)
def test_what_a_text_becomes(text: str, want: str) -> None:
    assert render(text, DATA, {}) == want


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ .Value", "unclosed action"),
        ("{{ if true }}", "unexpected EOF"),
        ("{{ end }}", "unexpected {{end}}"),
        ("{{ }}", "missing value for command"),
        ("{{ nope 1 }}", 'function "nope" not defined'),
        ("{{ $x }}", 'undefined variable "$x"'),
        ('{{ template "gone" }}', 'template "gone" not defined'),
        ('{{ define "t" }}{{ template "t" }}{{ end }}{{ template "t" }}', "exceeded maximum template depth"),
        ("{{ range 90000 }}{{ range 90000 }}x{{ end }}{{ end }}", "grows without an end"),
        ('{{ lt 1 "a" }}', "incompatible types for comparison"),
        ("{{ len 3 }}", "wrong number or type of args for len"),
        ("{{ .Value.Deep }}", "can't evaluate field Deep in type float64"),
        ("{{ ( 1 }}", "unclosed left paren"),
        ("{{" * 70_000, "unexpected"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(TemplateError) as refused:
        render(text, DATA, {})
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("{{ humanize $value }}", "1.234M"),
        ("{{ humanize1024 $value }}", "1.177Mi"),
        ("{{ humanizeDuration $value }}", "14d 6h 49m 27s"),
        ("{{ humanizePercentage 0.256 }}", "25.6%"),
        ("{{ humanizeTimestamp 1700000000.5 }}", "2023-11-14 22:13:20.5 +0000 UTC"),
        ("{{ $value }}", "1.2341675e+06"),
        ('{{ reReplaceAll "(.)b" "$1-" $labels.host }}', "a-c.dom:80"),
        ("{{ stripPort $labels.host }} {{ stripDomain $labels.host }}", "abc.dom abc:80"),
        ('{{ "some title" | title }} {{ match "a.c" $labels.host }}', "Some Title true"),
        ('{{ range query "x" }}{{ .Labels.gpu }}{{ value . }}{{ end }}', "12.5"),
        ("{{ humanizeDuration 0.0012 }} {{ humanize 0.0 }}", "1.2ms 0"),
        ('{{ parseDuration "1h30m" }}', "5400"),
    ],
)
def test_prometheus_functions(text: str, want: str) -> None:
    def ask(query: str) -> float:
        return 12.5

    assert expand(text, "A", {"host": "abc.dom:80"}, 1234167.5, 0, ask) == want


def test_an_element_of_an_answer() -> None:
    assert render("{{ (index . 0).Labels.a }}", [Sample({"a": "x"}, 1.0)], {}) == "x"


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (1e6, "1e+06"),
        (123456.0, "123456"),
        (1.5e-5, "1.5e-05"),
        (1e21, "1e+21"),
        (-0.25, "-0.25"),
        (1e-300, "1e-300"),
    ],
)
def test_numbers_as_go_prints_them(value: float, want: str) -> None:
    assert float_text(value) == want
