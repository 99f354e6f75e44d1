"""Which of a pod's requests does quota count, and as what? Exclusions and transformations of the Configuration.

Source: pkg/workload/workload.go applyResourceTransformations, dropExcludedResources; KEP-2937.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from fairway.kube import quantity
from fairway.kube.resources import CPU, Resources

RETAIN: Final = "Retain"
REPLACE: Final = "Replace"


@dataclass(frozen=True, slots=True)
class Transformation:
    """`outputs`: resource → factor, exact. `multiply_by`: another request the input is multiplied with first."""

    input: str
    keeps_input: bool
    multiply_by: str
    outputs: tuple[tuple[str, Fraction], ...]


@dataclass(frozen=True, slots=True)
class Transformations:
    excluded_prefixes: tuple[str, ...] = ()
    rules: tuple[Transformation, ...] = ()

    def apply(self, requests: Resources) -> Resources:
        """The requests quota counts, in the same units."""
        kept = {
            name: value
            for name, value in requests.items()
            if not name.startswith(self.excluded_prefixes or ("\0",))
        }
        rules = {rule.input: rule for rule in self.rules if rule.input in kept}
        if not rules:
            return kept
        retained: dict[str, Fraction] = {}
        generated: dict[str, Fraction] = {}
        for name, value in kept.items():
            rule = rules.get(name)
            exact = _exact(name, value)
            if rule is None or rule.keeps_input:
                retained[name] = exact
            if rule is not None:
                if rule.multiply_by in kept:
                    exact *= _exact(rule.multiply_by, kept[rule.multiply_by])
                for output, factor in rule.outputs:
                    generated[output] = generated.get(output, Fraction(0)) + exact * factor
        for name, exact in generated.items():
            retained[name] = retained.get(name, Fraction(0)) + max(exact, Fraction(0))
        return {name: _amount_ceil(name, exact) for name, exact in retained.items()}


NO_TRANSFORMATIONS: Final = Transformations()


def _exact(resource: str, value: int) -> Fraction:
    return Fraction(value, 1000) if resource == CPU else Fraction(value)


def _amount_ceil(resource: str, exact: Fraction) -> int:
    scaled = exact * 1000 if resource == CPU else exact
    return -(-scaled.numerator // scaled.denominator)


def transformations(raw: Mapping[str, Any] | None) -> Transformations:
    """From the `resources` section of Kueue's Configuration."""
    raw = raw or {}
    rules = tuple(
        Transformation(
            input=rule["input"],
            keeps_input=(rule.get("strategy") or RETAIN) == RETAIN,
            multiply_by=rule.get("multiplyBy") or "",
            outputs=tuple(
                (name, quantity.of(factor)) for name, factor in (rule.get("outputs") or {}).items()
            ),
        )
        for rule in raw.get("transformations") or ()
    )
    return Transformations(tuple(raw.get("excludeResourcePrefixes") or ()), rules)
