"""Any cluster, by a kubeconfig: listed once, read alone, as far as its user may look."""

from __future__ import annotations

import time
from pathlib import Path

from fairway.errors import UserError
from fairway.ground.dumps import NO_RECORD, newest_stamp_us
from fairway.ground.ground import CLUSTER, Moment, history_of
from fairway.ground.kubeclient import Listed, client_of
from fairway.ground.reviving import KeptMoments, Written, kept, revived
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US, format_duration
from fairway.results.run import Run, RunInfo

# Clocks of components that differ by no more are clocks that agree.
_SKEW_US = 5 * SECOND_US


class ClusterGround:
    """The cluster of a kubeconfig's current context."""

    kind = CLUSTER

    def __init__(self, path: Path, config: Obj, kueue_config: Path | None = None) -> None:
        self.name = str(path)
        self._config = config
        self._kueue_config = kueue_config
        self._moments: KeptMoments = {}

    def at(self, when: str | None = None) -> Moment:
        if when is not None:
            raise UserError("--at goes with a scenario, a run or a dump: of a live cluster only now is known")
        return kept(self._moments, None, self._listed)

    def _listed(self) -> Moment:
        with client_of(self._config, self.name) as client:
            found = client.everything()
        now_us = found.now_us or int(time.time()) * SECOND_US
        manifests = [Manifest(obj, self.name) for obj in found.objects]
        written = Written(
            self.name,
            manifests,
            now_us,
            refused=tuple(found.refused),
            trusted=True,
            kueue_config=self._kueue_config,
        )
        return revived(written, _skew(found, now_us))

    def history(self, when: str | None = None) -> Run:
        return history_of(self.at(when), RunInfo(self.name, notes=(NO_RECORD,)))


def _skew(found: Listed, now_us: int) -> list[str]:
    ahead_us = newest_stamp_us(found.objects) - now_us
    if ahead_us <= _SKEW_US:
        return []
    return [
        f"clocks differ: objects speak of times {format_duration(ahead_us)} after the API server's own clock"
    ]
