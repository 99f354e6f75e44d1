"""Any cluster, by a kubeconfig: listed once, read alone, as far as its user may look."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec

from fairway.ground.dumps import NO_RECORD, newest_stamp_us
from fairway.ground.ground import CLUSTER, Moment
from fairway.ground.kubeclient import Listed, client_of
from fairway.ground.recorded import Recorded, recorded_history, stood
from fairway.ground.reviving import KeptMoments, Written, kept, revived
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US, format_duration
from fairway.results.run import Run, RunInfo

# Where a cluster that Fairway serves has its clock and its history.
CLOCK, HISTORY = "/fairway/clock", "/fairway/history"
NOT_ALLOWED = f"the history of this cluster may not be read (get on {HISTORY}): {NO_RECORD}"
_MOST_FILES = 10_000
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
        self._is_fairway = self._is_refused = False
        self._found: tuple[Written, list[str]] | None = None
        self._recorded = Recorded(self._files)

    def at(self, when: str | None = None) -> Moment:
        return kept(self._moments, when, lambda: self._stood(when))

    def _stood(self, when: str | None) -> Moment:
        if when is None:
            return revived(*self._now())
        now = self.at()
        return stood(self._now()[0], self._recorded, self._recorded.until(when, now.now_us))

    def _now(self) -> tuple[Written, list[str]]:
        """What is there now, listed once."""
        if self._found is None:
            self._found = self._listed()
        return self._found

    def _listed(self) -> tuple[Written, list[str]]:
        with client_of(self._config, self.name) as client:
            found = client.everything()
            self._is_fairway = "+fairway." in str(client.get("/version").get("gitVersion"))
            code, clock = client.fetch(CLOCK) if self._is_fairway else (0, b"")
        now_us = found.now_us or int(time.time()) * SECOND_US
        if code == 200:
            # Its time goes as fast as it was told.
            now_us = int(msgspec.json.decode(clock)["nowUs"])
        manifests = [Manifest(obj, self.name) for obj in found.objects]
        written = Written(
            self.name,
            manifests,
            now_us,
            refused=tuple(found.refused),
            listed=frozenset(found.listed),
            trusted=True,
            kueue_config=self._kueue_config,
        )
        return written, _skew(found, now_us)

    def history(self, when: str | None = None) -> Run:
        found = recorded_history(self._recorded, self.at(when), RunInfo(self.name))
        if NO_RECORD in found.info.notes and self._is_refused:
            return replace(found, info=replace(found.info, notes=(NOT_ALLOWED,)))
        return found

    def _files(self) -> Iterator[tuple[str, bytes]]:
        """Of a served cluster, as far as its user may read it; of any other nothing."""
        self._now()
        if not self._is_fairway:
            return
        with client_of(self._config, self.name) as client:
            code, said = client.fetch(HISTORY)
            self._is_refused = code in (401, 403)
            for name in _names(said) if code == 200 else ():
                code, body = client.fetch(f"{HISTORY}/{name}")
                # One that is not there any more was too old.
                if code == 200:
                    yield name, body


def _names(said: bytes) -> list[str]:
    """Those of the files, oldest first; nothing of an answer in another form."""
    try:
        files = msgspec.json.decode(said, type=_Listing).files[:_MOST_FILES]
    except (msgspec.DecodeError, RecursionError):
        return []
    return [file.name for file in files]


class _File(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,20}\.log$")]


class _Listing(msgspec.Struct):
    files: list[_File]


def _skew(found: Listed, now_us: int) -> list[str]:
    ahead_us = newest_stamp_us(found.objects) - now_us
    if ahead_us <= _SKEW_US:
        return []
    return [
        f"clocks differ: objects speak of times {format_duration(ahead_us)} after the API server's own clock"
    ]
