"""Which metrics does kube-state-metrics have, of which kinds?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fairway.telemetry.statemetrics.details import DETAILS
from fairway.telemetry.statemetrics.rules import RULES, Rule


class Family(NamedTuple):
    """A metric. `gk`: the kind whose objects have it."""

    name: str
    type: str
    gk: str
    read: Rule
    help: str


@cache
def families() -> Mapping[str, Family]:
    """By name, in the order in which they are exposed."""
    found = {}
    for line in (Path(__file__).parent / "families.tsv").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, kind, gk, rule, said = line.split("\t")
        word, *arguments = rule.split(" ")
        read = DETAILS[name] if word == "code" else RULES[word](*arguments)
        found[name] = Family(name, kind, gk, read, said)
    return found
