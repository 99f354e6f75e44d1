"""What every cluster has: the components a twin runs unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.twin.components import Component
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.scheduler import SchedulerComponent


def standard_components(profiles: Iterable[Profile] = (DEFAULT_PROFILE,)) -> list[Component]:
    """New components, in the order in which they see changes."""
    return [Kubelet(), SchedulerComponent(profiles)]
