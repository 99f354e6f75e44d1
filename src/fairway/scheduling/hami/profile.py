"""hami-scheduler: a kube-scheduler that leaves HAMi's resources to HAMi. Source: charts/hami templates/scheduler."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fairway.scheduling.extenders import Extender
from fairway.scheduling.hami.requests import RESOURCES, SCHEDULER
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile

IN_PROCESS: Final = "https://127.0.0.1:443"
"""Where the chart has it; here nobody is called there."""

HAMI_PROFILE: Final[Profile] = replace(
    DEFAULT_PROFILE,
    scheduler_name=SCHEDULER,
    ignored_resources=frozenset(RESOURCES),
    extenders=(
        Extender(
            IN_PROCESS,
            filter_verb="filter",
            bind_verb="bind",
            caches_nodes=True,
            managed=RESOURCES,
            timeout_s=30.0,
        ),
    ),
)
