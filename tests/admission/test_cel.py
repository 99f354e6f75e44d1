"""CEL: Kubernetes' functions, errors as data, and work that is too much."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.admission.cel.compiling import BOOL, Error, Program, compiled, loops_of
from fairway.admission.cel.composition import Composed, composed
from fairway.admission.cel.evaluating import OUT_OF_BUDGET, Evaluation

NAMES = (("object", "dyn"),)
OBJECT: dict[str, Any] = {
    "spec": {"replicas": 3, "cpu": "500m", "names": ["a", "b"], "nothing": None, "port": "http"},
    "labels": {"team": "a"},
}


def value(expression: str) -> Any:
    program = compiled(expression, NAMES)
    assert isinstance(program, Program), program
    return Evaluation({"object": OBJECT}).evaluate(program)


VALUES: dict[str, Any] = {
    # the language
    "object.spec.replicas + 1": 4,
    "has(object.spec.missing)": False,
    "has(object.spec.nothing)": True,
    "object.spec.nothing == null": True,
    "object.?spec.?missing.orValue(7)": 7,
    "object.labels[?'team'].orValue('none')": "a",
    "object.spec.replicas == 3.0": True,
    "object.spec.port == 80 || object.spec.port == 'http'": True,
    "'team' in object.labels": True,
    "object.labels.all(k, k == 'team')": True,
    "object.spec.names.map(n, n + '!')": ["a!", "b!"],
    "object.spec.names.filter(n, n > 'a')": ["b"],
    "object.spec.names.exists_one(n, n == 'a')": True,
    "cel.bind(n, object.spec.replicas, n * n)": 9,
    "{?'x': object.?missing}": {},
    "duration('90s') > duration('1m')": True,
    "timestamp('2026-01-02T00:00:00Z') > timestamp('2026-01-01T00:00:00Z')": True,
    "object.spec.names.size()": 2,
    # strings
    "'hello'.charAt(1)": "e",
    "'hello'.charAt(5)": "",
    "'hello mellow'.indexOf('ello', 2)": 7,
    "'hello mellow'.lastIndexOf('ello')": 7,
    "'hello'.substring(1, 3)": "el",
    "'hello hello'.replace('he', 'we', 1)": "wello hello",
    "'a,b,c'.split(',', 2)": ["a", "b,c"],
    "'abc'.split('')": ["a", "b", "c"],
    "' x '.trim()": "x",
    "'TacoCÆt'.lowerAscii()": "tacocÆt",
    "'TacoCÆt Xii'.upperAscii()": "TACOCÆT XII",
    "['x', 'y'].join('-')": "x-y",
    "'%s has %d'.format(['a', 3])": "a has 3",
    "'%.2f'.format([3.14159])": "3.14",
    "'%x %X %b %o'.format([255, 255, 5, 8])": "ff FF 101 10",
    "'%s'.format([[1, 'a', true, null]])": "[1, a, true, null]",
    "strings.quote('a\"b')": '"a\\"b"',
    "'abc 123'.find('[0-9]+')": "123",
    "'abc'.find('[0-9]+')": "",
    "'1 a 2 b 3'.findAll('[0-9]', 2)": ["1", "2"],
    # lists and sets
    "[1, 3, 2].sum()": 6,
    "[1.5, 2.5].sum()": 4.0,
    "[3, 1, 2].min()": 1,
    "['b', 'a'].max()": "b",
    "[1, 2, 2, 3].isSorted()": True,
    "[1, 2, 1].lastIndexOf(1)": 2,
    "[1, 2, 1].indexOf(5)": -1,
    "[1, 2, 2].distinct()": [1, 2],
    "[[1], [2, 3]].flatten()": [1, 2, 3],
    "[3, 1, 2].sort()": [1, 2, 3],
    "[1, 2, 3, 4].slice(1, 3)": [2, 3],
    "lists.range(3)": [0, 1, 2],
    "sets.contains(['a', 'b'], ['b'])": True,
    "sets.equivalent([1, 1, 2], [2, 1])": True,
    "sets.intersects([1], [2])": False,
    # quantities
    "quantity('1.5Gi') == quantity('1536Mi')": True,
    "quantity(object.spec.cpu).isLessThan(quantity('1'))": True,
    "quantity('50k').add(quantity('20')).sub(30).asInteger()": 49990,
    "sign(quantity('-1'))": -1,
    "quantity('500m').isInteger()": False,
    "quantity('500m').asApproximateFloat()": 0.5,
    "isQuantity('1.3Gigabytes')": False,
    "quantity('200M').compareTo(quantity('0.2G'))": 0,
    # versions
    "semver('1.2.3').isLessThan(semver('1.10.0'))": True,
    "semver('1.0.0-alpha.1').isLessThan(semver('1.0.0-alpha.beta'))": True,
    "semver('v1.2', true).minor()": 2,
    "isSemver('1.2')": False,
    # addresses
    "ip('192.168.0.1').family()": 4,
    "ip('::1').isLoopback()": True,
    "isIP('1.2.3')": False,
    "ip.isCanonical('2001:DB8::68')": False,
    "cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))": True,
    "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')": True,
    "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')": True,
    "cidr('10.0.0.0/8').prefixLength()": 8,
    "cidr('10.0.0.1/8').ip() == ip('10.0.0.1')": True,
    "isCIDR('10.0.0.0')": False,
    "url('https://u@example.com:80/a%20b?k=1&k=2').getHost()": "example.com:80",
    "url('https://[::1]:80/').getHostname()": "::1",
    "url('https://example.com:80/').getPort()": "80",
    "url('/path').getScheme()": "",
    "url('https://e.com/?k=1&k=2').getQuery()": {"k": ["1", "2"]},
    "isURL('example.com')": False,
    # formats
    "format.dns1123Label().validate('ok').hasValue()": False,
    "format.dns1123Label().validate('Not Ok').hasValue()": True,
    "format.uuid().validate('x').orValue([])": ["does not match the UUID format"],
    "!format.date().validate('2026-02-30').hasValue()": False,
    "!format.labelValue().validate('a_b').hasValue()": True,
}


@pytest.mark.parametrize("expression", VALUES)
def test_values(expression: str) -> None:
    assert value(expression) == VALUES[expression]


ERRORS = {
    "object.missing": "no such key: missing",
    "object.spec.names[5]": "index out of bounds: 5",
    "1 / 0": "division by zero",
    "object.spec.replicas.startsWith('x')": "no such overload",
    "quantity('x')": "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    "[].min()": "min called on empty list",
    "'abc'.charAt(9)": "index out of range: 9",
    "'abc'.find('(')": "Illegal regex: error parsing regexp: missing closing ): `(`",
    "quantity('500m').asInteger()": "cannot convert value to integer",
    "semver('1.2')": "No Major.Minor.Patch elements found",
}


@pytest.mark.parametrize("expression", ERRORS)
def test_errors_are_data(expression: str) -> None:
    assert value(expression) == Error(ERRORS[expression], "runtime")


COMPILE_ERRORS = {
    "nothing.here": "undeclared reference",
    "object.": "Syntax error",
    "1 + 'a'": "found no matching overload for '_+_' applied to '(int, string)'",
    "variables.missing": "undefined field 'missing'",
}


@pytest.mark.parametrize("expression", COMPILE_ERRORS)
def test_what_does_not_compile_says_where(expression: str) -> None:
    refused = compiled(expression, NAMES)
    assert isinstance(refused, Error)
    assert refused.text.startswith("compilation failed: ERROR: <input>:1:")
    assert COMPILE_ERRORS[expression] in refused.text


def test_an_expression_must_give_the_type_asked_for() -> None:
    assert compiled("1", NAMES, (BOOL,)) == Error("must evaluate to bool but got int", "compile")
    assert compiled("object", NAMES, ("string", "null_type")) == Error(
        "must evaluate to one of [string null_type] but got dyn", "compile"
    )


def test_an_error_that_does_not_matter_is_none() -> None:
    assert value("object.missing == 1 || true") is True


@pytest.mark.parametrize(
    ("expression", "want"),
    [("a.b", 0), ("a.all(x, x)", 1), ("a.all(x, b.exists(y, x == y))", 2), ("a.all(x, x) && b.all(y, y)", 1)],
)
def test_nested_loops_are_counted(expression: str, want: int) -> None:
    assert loops_of(expression) == want


def test_too_much_work_is_refused_before_it_starts() -> None:
    program = compiled("object.all(a, object.all(b, object.all(c, a + b + c > 0)))", NAMES)
    assert isinstance(program, Program)
    many = Evaluation({"object": [1] * 2000}).evaluate(program)
    assert many == Error("operation cancelled: actual cost limit exceeded", "budget")
    assert Evaluation({"object": [1] * 20}).evaluate(program) is True


def test_a_budget_is_shared() -> None:
    program = compiled("object.all(a, a > 0)", NAMES)
    assert isinstance(program, Program)
    evaluation = Evaluation({"object": [1] * 100}, budget=1200)
    assert [evaluation.evaluate(program) for _ in range(3)] == [True, True, Error(OUT_OF_BUDGET, "budget")]


def test_variables_see_those_before_them_and_keep_their_type() -> None:
    declared = [
        {"name": "replicas", "expression": "object.spec.replicas"},
        {"name": "double", "expression": "variables.replicas * 2"},
        {"name": "since", "expression": "timestamp('2026-01-01T00:00:00Z')"},
    ]
    composition = composed(declared, NAMES)
    evaluation = Composed(Evaluation({"object": OBJECT}), composition)
    for expression, want in (
        ("variables.double == 6", True),
        ("variables.since.getFullYear()", 2026),
    ):
        program = compiled(expression, composition.names)
        assert isinstance(program, Program), program
        assert evaluation.evaluate(program) == want


def test_a_variable_that_fails_hurts_only_who_needs_it() -> None:
    composition = composed([{"name": "bad", "expression": "object.missing"}], NAMES)
    evaluation = Composed(Evaluation({"object": OBJECT}), composition)
    fine = compiled("true || variables.bad == 1", composition.names)
    needs = compiled("variables.bad == 1", composition.names)
    assert isinstance(fine, Program)
    assert isinstance(needs, Program)
    assert evaluation.evaluate(fine) is True
    assert evaluation.evaluate(needs) == Error(
        'composited variable "bad" fails to evaluate: no such key: missing', "runtime"
    )
