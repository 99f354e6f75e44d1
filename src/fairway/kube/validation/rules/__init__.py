"""The rules that one field alone cannot tell, by the type they belong to.

`RULES` run after a type's fields, `ENTER_RULES` before them: those gather facts of a pod for what stands below.
Each rule module registers its functions in a table at its end; this module joins the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.kube.fieldpath import Path
from fairway.kube.validation.context import Context
from fairway.kube.validation.rules import (
    autoscaling,
    batch,
    cluster,
    containers,
    env,
    pods,
    probes,
    quotas,
    scheduling,
    security,
    services,
    volumes,
    workloads,
)

Rule = Callable[[dict[str, Any], Path, Context], None]

ENTER_RULES: dict[str, Rule] = {**pods.ENTER_RULES, **workloads.ENTER_RULES}
RULES: dict[str, list[Rule]] = {}
for _module in (
    pods,
    containers,
    env,
    probes,
    security,
    volumes,
    scheduling,
    cluster,
    quotas,
    services,
    batch,
    workloads,
    autoscaling,
):
    for _name, _rule in _module.RULES.items():
        RULES.setdefault(_name, []).append(_rule)
