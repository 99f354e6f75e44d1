"""Selectors of devices: what holds, what fails in which words, what is refused, what it may cost."""

from __future__ import annotations

import pytest

from fairway.kube.cel.devices import MAX_COST, is_match, selector
from fairway.kube.cel.operators import CelError

GPU = {
    "attributes": {
        "architecture": {"string": "Hopper"},
        "index": {"int": 3},
        "ecc": {"bool": True},
        "driverVersion": {"version": "580.95.5"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:01"},
    },
    "capacity": {"memory": {"value": "80Gi"}},
}
OWN = "device.attributes['gpu.nvidia.com']"

HOLDS = {
    "a driver": "device.driver == 'gpu.nvidia.com'",
    "an attribute of the driver's domain": f"{OWN}.architecture == 'Hopper'",
    "an attribute of another domain": "device.attributes['resource.kubernetes.io'].pcieRoot.startsWith('pci')",
    "integers compare with fractions": f"{OWN}.index > 1.5",
    "an attribute that is the answer": f"{OWN}.ecc",
    "an unknown domain is an empty map": "device.attributes['nope.example.com'].size() == 0",
    "a domain that is not there": "!('nope.example.com' in device.attributes)",
    "only domains that are there count": "device.attributes.size() == 2",
    "an optional that is not there": f"{OWN}.?zone.orValue('left') == 'left'",
    "an optional index": f"{OWN}[?'architecture'].orValue('x') == 'Hopper'",
    "versions": f"{OWN}.driverVersion.isGreaterThan(semver('580.0.0'))",
    "quantities": "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) > 0",
    "a name for a part": f"cel.bind(d, {OWN}, d.architecture == 'Hopper' && d.index == 3)",
    "a loop over names": f"{OWN}.exists(k, k == 'ecc')",
    "a loop of two variables over a map": f"{OWN}.exists(k, v, k == 'index' && v == 3)",
    "a loop of two variables over a list": "['a', 'b'].all(i, v, i < 2 && v != 'c')",
    "an error beside what decides": f"{OWN}.nope == 1 || {OWN}.index == 3",
    "an error that a later element makes up for": "[0, 3].exists(x, 6 / x == 2)",
    "not shared unless it says so": "!device.allowMultipleAllocations",
    "sets": f"sets.contains(['Hopper', 'Ampere'], [{OWN}.architecture])",
    "patterns": f"{OWN}.architecture.lowerAscii().matches('^hop.*r$')",
}

FAILS = {
    f"{OWN}.zone == 'left'": "no such key: zone",
    f"{OWN}.index.isGreaterThan(semver('1.0.0'))": "no such overload: isGreaterThan(int, kubernetes.Semver)",
    f"{OWN}.driverVersion == '580.95.5'": "no such overload",
    f"{OWN}.index / 0 == 1": "division by zero",
    f"{OWN}.architecture.split('')[9] == 'x'": "index out of bounds: 9",
    f"{OWN}.architecture": "CEL result of type string could not be converted to bool: "
    "unsupported native conversion from string to 'bool'",
}

REFUSED = {
    "device.driver": "must evaluate to bool or the unknown type, not string",
    "device.nope == 'x'": "compilation failed: ERROR: <input>:1:7: undefined field 'nope'\n"
    " | device.nope == 'x'\n | ......^",
    "dev.driver == 'x'": "compilation failed: ERROR: <input>:1:1: undeclared reference to 'dev' (in container '')\n"
    " | dev.driver == 'x'\n | ^",
    "device.driver == 1": "compilation failed: ERROR: <input>:1:15: found no matching overload for '_==_' applied to "
    "'(string, int)'\n | device.driver == 1\n | ..............^",
}


@pytest.mark.parametrize("expression", HOLDS.values(), ids=HOLDS)
def test_selectors_that_hold(expression: str) -> None:
    program = selector(expression)
    assert program.error == ""
    assert is_match(program, "gpu.nvidia.com", GPU)


@pytest.mark.parametrize(("expression", "words"), FAILS.items())
def test_selectors_that_fail_say_so_in_cel_gos_words(expression: str, words: str) -> None:
    program = selector(expression)
    assert program.error == ""
    with pytest.raises(CelError) as refused:
        is_match(program, "gpu.nvidia.com", GPU)
    assert str(refused.value) == words


@pytest.mark.parametrize(("expression", "words"), REFUSED.items())
def test_selectors_that_cannot_be_compiled(expression: str, words: str) -> None:
    assert selector(expression).error == words


def test_costs_grow_with_the_loops_and_the_sizes_they_run_over() -> None:
    once = f"{OWN}.all(k, k != 'x')"
    twice = f"{OWN}.all(k, {OWN}.all(l, k != l))"
    third = f"{OWN}.all(k, {OWN}.all(l, {OWN}.all(m, {OWN}.all(n, k + l + m != n))))"
    costs = [selector(e).cost for e in ("true", once, twice, third)]
    assert costs == sorted(costs)
    assert costs[0] == 0
    assert costs[-1] > MAX_COST > costs[-2]


def test_a_loop_without_end_is_cut_off() -> None:
    nested = "lists.range(200).all(a, lists.range(200).all(b, lists.range(200).all(c, a + b + c >= 0)))"
    with pytest.raises(CelError, match="actual cost limit exceeded"):
        is_match(selector(nested), "gpu.nvidia.com", GPU)
