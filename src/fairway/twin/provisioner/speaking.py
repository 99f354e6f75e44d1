"""Karpenter's events as its recorder publishes them: the same one about the same object not twice within minutes.

Source: pkg/events/recorder.go; provisioning/scheduling/events.go PodNominationRateLimiter.
"""

from __future__ import annotations

from typing import Final

from fairway.kube.objects import Key, meta_of
from fairway.provisioning.karpenter.events import COMPONENT, NOMINATED, KarpenterEvent
from fairway.twin.components import Host

# Five nominations a second, ten at once.
NOMINATION_EVERY_US: Final = 200_000
NOMINATIONS_AT_ONCE: Final = 10
_MOST_KEPT: Final = 20_000

Said = tuple[str, ...]


class Speaker:
    """Data only, beside its host."""

    def __init__(self) -> None:
        self._quiet_until: dict[Said, int] = {}
        self._nominated_us = 0
        """When the nominations made so far are paid off, at one every fifth of a second."""

    def attach(self, host: Host) -> None:
        self.host = host

    def copy(self) -> Speaker:
        twin = Speaker()
        twin._quiet_until, twin._nominated_us = dict(self._quiet_until), self._nominated_us
        return twin

    def tell(self, about: Key, event: KarpenterEvent) -> None:
        """Publish it, unless it was said a moment ago or too much is being said."""
        obj, now_us = self.host.store.get(about), self.host.loop.now_us
        uid = "" if obj is None else str(meta_of(obj).get("uid") or "")
        said = (event.reason, uid or str(about), *event.distinct)
        if self._quiet_until.get(said, -1) > now_us:
            return
        self._note(said, now_us + event.quiet_us)
        if event.reason == NOMINATED and not self._may_nominate(now_us):
            return
        self.host.events.emit(now_us, about, uid, event.type, event.reason, event.message, COMPONENT)
        self.host.log.record(
            now_us, COMPONENT, about.gk, about.namespace, about.name, event.reason, event.message
        )

    def is_quiet(self, reason: str, uid: str) -> bool:
        """Whether this was said of the object a moment ago, so that nobody need find the words again."""
        return self._quiet_until.get((reason, uid), -1) > self.host.loop.now_us

    def _note(self, said: Said, until_us: int) -> None:
        if len(self._quiet_until) >= _MOST_KEPT:
            now_us = self.host.loop.now_us
            self._quiet_until = {s: t for s, t in self._quiet_until.items() if t > now_us}
        self._quiet_until[said] = until_us

    def _may_nominate(self, now_us: int) -> bool:
        paid_us = max(self._nominated_us, now_us) + NOMINATION_EVERY_US
        if paid_us - now_us > NOMINATIONS_AT_ONCE * NOMINATION_EVERY_US:
            return False
        self._nominated_us = paid_us
        return True
