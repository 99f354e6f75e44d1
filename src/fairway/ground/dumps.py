"""A dump: what kubectl wrote down of a cluster at one moment, in a file or a folder of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairway.errors import UserError
from fairway.ground.ground import DUMP, Moment, history_of
from fairway.ground.reviving import KeptMoments, Written, kept, revived
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Obj
from fairway.kube.timestamps import parse_rfc3339, rfc3339
from fairway.results.run import Run, RunInfo

_TAKEN = "the newest moment the dump speaks of; it may have been taken later (--at TIME says when)"
NO_RECORD = "no history is kept here: it is what the objects that are left still tell of themselves"
# When a condition was last heard of.
_SEEN = ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime")


class DumpGround:
    """What a dump says is taken as it is."""

    kind = DUMP

    def __init__(self, path: Path, manifests: list[Manifest], kueue_config: Path | None = None) -> None:
        self.name = str(path)
        self._manifests = manifests
        self._kueue_config = kueue_config
        self._moments: KeptMoments = {}

    def at(self, when: str | None = None) -> Moment:
        return kept(self._moments, when, lambda: self._read(when))

    def _read(self, when: str | None) -> Moment:
        newest_us = newest_stamp_us(m.obj for m in self._manifests if m.broken is None)
        now_us, notes = newest_us, [_TAKEN]
        if when is not None:
            now_us, notes = _taken_us(when), []
            if newest_us > now_us:
                newest = rfc3339(newest_us)
                notes = [
                    f"the dump speaks of {newest}, which is after --at {when}: clocks differ, or it was later"
                ]
        written = Written("the dump", self._manifests, now_us, kueue_config=self._kueue_config)
        return revived(written, notes)

    def history(self, when: str | None = None) -> Run:
        return history_of(self.at(when), RunInfo(self.name, notes=(NO_RECORD,)))


def _taken_us(when: str) -> int:
    """Raises: UserError."""
    try:
        return parse_rfc3339(when)
    except ValueError:
        raise UserError(
            f"--at {when!r}: a dump knows one moment; expected when it was taken, such as 2026-01-05T09:00:00Z"
        ) from None


def newest_stamp_us(objects: Any) -> int:
    """The newest moment they speak of: they were read then, or later."""
    return max((stamp_us(stamp) for obj in objects for stamp in _stamps(obj)), default=0)


def _stamps(obj: Obj) -> list[Any]:
    """Every field that is a time, whatever else is wrong with the object."""
    meta, status, spec = (_mapping(obj.get(part)) for part in ("metadata", "status", "spec"))
    managed, conditions = meta.get("managedFields"), status.get("conditions")
    return [
        *(
            meta.get("creationTimestamp"),
            obj.get("lastTimestamp"),
            obj.get("eventTime"),
            spec.get("renewTime"),
        ),
        *(status.get("startTime"), status.get("completionTime")),
        *(_mapping(entry).get("time") for entry in (managed if isinstance(managed, list) else ())),
        *(
            _mapping(condition).get(name)
            for condition in (conditions if isinstance(conditions, list) else ())
            for name in _SEEN
        ),
    ]


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def stamp_us(stamp: Any) -> int:
    """0 for what is no time."""
    try:
        return parse_rfc3339(stamp) if isinstance(stamp, str) else 0
    except ValueError:
        return 0
