"""What became of a served cluster since its history is kept? The files of that history, played to a recorder.

The recorder that watches simulations sees the same changes at the same times, so that every reader of a run reads a
served cluster, too. Time goes forward alone: an earlier moment is played from the beginning.

Files may be damaged, or come over the network from who knows whom: a line that makes no sense is counted and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from fairway.apiserver.history import is_kept
from fairway.apiserver.historyfiles import (
    ADD,
    CHANGE,
    DROP,
    HAD,
    HAVE,
    PREEMPTED,
    SAID,
    Line,
    Reading,
    lines,
)
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.errors import FairwayError, UserError
from fairway.ground.dumps import NO_RECORD, stamp_us
from fairway.ground.ground import Moment, history_of
from fairway.ground.reviving import Written, revived
from fairway.kube.kinds import kind_named
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Key, Obj, gk_of, key_of, labels_of, meta_of, status_of
from fairway.kube.resources import parse_resources
from fairway.kube.timestamps import format_duration, parse_duration, parse_rfc3339, rfc3339
from fairway.recorder.recorder import Recorder
from fairway.recorder.tables import Outcome
from fairway.results.costs.borrowing import queues_in
from fairway.results.run import Run, RunInfo
from fairway.scenario.running import containment_of_run
from fairway.twin.latency import NONE
from fairway.twin.twin import Twin

Files = Callable[[], Iterable[tuple[str, bytes]]]
"""Names and bytes, oldest first; asked for again for every earlier moment."""

# What odd lines and objects raise.
_ODD: Final = (
    *(ApiError, FairwayError, ValueError, KeyError, TypeError, AttributeError, IndexError),
    *(ArithmeticError, RecursionError),
)
# Microseconds until the year 9999.
_LAST_US: Final = 253_402_300_799 * 10**6
_EVENTS: Final = 10_000


class Recorded:
    """A kept history. `exists` says whether there is one at all."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._play: _Play | None = None

    def exists(self) -> bool:
        return self._at(0).began_us is not None

    def until(self, when: str, now_us: int) -> int:
        """The moment that is meant: a duration since the history's beginning, or a time.

        Raises: UserError where it is not within what is kept.
        """
        began_us = self._at(0).began_us
        if began_us is None:
            raise UserError(
                f"--at {when}: no history is kept of this cluster (fairway up --history says how much is): "
                "only now is known"
            )
        try:
            found = parse_rfc3339(when) if "T" in when else began_us + parse_duration(when)
        except ValueError as wrong:
            raise UserError(
                f"--at {when!r}: expected a duration such as 8h, or an RFC 3339 time: {wrong}"
            ) from None
        if not began_us <= found <= now_us:
            kept = f"from {rfc3339(began_us)} to {rfc3339(now_us)} ({format_duration(now_us - began_us)})"
            raise UserError(f"--at {when}: the history of this cluster is kept {kept}")
        return found

    def outcome(self, until_us: int) -> tuple[Outcome, tuple[str, ...]]:
        """What the recorder has written down by then, and what there is to say of it."""
        play = self._at(until_us)
        return play.recorder.outcome(), play.notes()

    def objects(self, until_us: int) -> list[Obj]:
        """What was there then, of the kinds that are kept."""
        store = self._at(until_us).twin.store
        return [obj for gk in store.kinds() for obj in store.objects(gk)]

    def _at(self, until_us: int) -> _Play:
        if self._play is None or (until_us and until_us < self._play.twin.now_us):
            self._play = _Play(self._files())
        self._play.to(until_us)
        return self._play


def recorded_history(recorded: Recorded, moment: Moment, info: RunInfo) -> Run:
    """What is kept until that moment; without a history what its objects still tell."""
    if not recorded.exists():
        return history_of(moment, replace(info, notes=(*info.notes, NO_RECORD)))
    outcome, notes = recorded.outcome(moment.now_us)
    queues = queues_in(moment.store)
    return Run(replace(info, notes=(*info.notes, *notes), queues=queues), outcome)


def stood(written: Written, recorded: Recorded, until_us: int) -> Moment:
    """What was there then: of kinds that the history keeps as it says, of others what is there now and is that old."""
    others = [m for m in written.manifests if _is_other(m, until_us)]
    then = [Manifest(obj, written.place) for obj in recorded.objects(until_us)]
    kinds = "quotas of namespaces, classes, volumes and whatever else no history keeps"
    note = f"as it was at {rfc3339(until_us)}; {kinds} are as they are now"
    return revived(replace(written, manifests=[*others, *then], now_us=until_us), (note,))


def _is_other(manifest: Manifest, until_us: int) -> bool:
    if manifest.broken is not None or is_kept(gk_of(manifest.obj)):
        return False
    return stamp_us(meta_of(manifest.obj).get("creationTimestamp")) <= until_us


class _Play:
    """One playing of the files. `began_us`: when they begin; None: they hold nothing."""

    def __init__(self, files: Iterable[tuple[str, bytes]]) -> None:
        self.reading = Reading()
        self.began_us: int | None = None
        self.twin = _twin(Store(now_us=0))
        self._there: dict[Key, Obj] = {}
        self._odd = 0
        self._lines = self._stamped(lines(files, self.reading))
        self._next = next(self._lines, None)

    @property
    def recorder(self) -> Recorder:
        found = self.twin.component("recorder")
        assert isinstance(found, Recorder)
        return found

    def notes(self) -> tuple[str, ...]:
        found = list(self.reading.notes)
        if self.reading.first > 1 and self.began_us is not None:
            found.append(f"history before {rfc3339(self.began_us)} is not kept any more")
        if self._odd:
            found.append(f"{self._odd} lines of the history make no sense and were left out")
        return tuple(found)

    def to(self, until_us: int) -> None:
        """Play what was written by then, and let the clock stand there."""
        while self._next is not None and (self._next[0] <= until_us or self.began_us is None):
            at_us, line = self._next
            try:
                self._take(at_us, line)
            except _ODD:
                self._odd += 1
            self._next = next(self._lines, None)
        if self.began_us is not None:
            self._go(max(until_us, self.twin.now_us))

    def _stamped(self, found: Iterator[Line]) -> Iterator[tuple[int, Line]]:
        """With the time that each is of, which never goes back: what a file begins with is of the time it says last."""
        now_us, begins = 0, list[Line]()
        for line in found:
            if line[0] == HAVE:
                begins.append(line)
                continue
            at_us = line[1] if len(line) > 1 else None
            if not isinstance(at_us, int) or isinstance(at_us, bool) or not 0 <= at_us <= _LAST_US:
                self._odd += 1
                continue
            now_us = max(now_us, at_us)
            if line[0] == HAD:
                yield from ((now_us, one) for one in begins)
                begins = []
            yield now_us, line

    def _take(self, at_us: int, line: Line) -> None:
        what = line[0]
        if what == HAVE:
            self._there[_key(line[1])] = line[1]
        elif what == HAD:
            there, self._there = self._there, {}
            if self.began_us is None:
                self._begin(list(there.values()), at_us)
            else:
                self._go(at_us)
                self._reconcile(there)
        elif self.began_us is not None:
            self._go(at_us)
            self._change(at_us, line)

    def _begin(self, there: list[Obj], at_us: int) -> None:
        store = Store(now_us=at_us)
        for obj in sorted(there, key=lambda o: gk_of(o) != "Node"):
            try:
                store.load(obj)
            except _ODD:
                self._odd += 1
        self.twin, self.began_us = _twin(store), at_us

    def _go(self, at_us: int) -> None:
        """Let everybody hear what was written before the clock goes on."""
        twin, loop = self.twin, self.twin.loop
        twin.wake()
        while loop.run_some(at_us, _EVENTS):
            pass
        if at_us > twin.now_us:
            loop.advance(at_us)

    def _reconcile(self, there: dict[Key, Obj]) -> None:
        """What a file begins with is so, whatever was read before."""
        store = self.twin.store
        known = {_key(obj): obj for gk in store.kinds() for obj in store.objects(gk)}
        for key, old in known.items():
            obj = there.get(key)
            if obj is None or _uid(obj) != _uid(old):
                store.follow(key, None)
        for key, obj in there.items():
            current = store.get(key)
            if current is None or not _is_same(obj, current):
                self._store(key, obj)

    def _change(self, at_us: int, line: Line) -> None:
        what, store = line[0], self.twin.store
        if what == ADD:
            self._launch(line[2], line[3])
            self._store(_key(line[2]), line[2])
        elif what == CHANGE:
            key = Key(*map(str, line[2]))
            old = store.require(key)
            whole = {k: v for k, v in {**old, **line[3]}.items() if v is not None}
            self._store(key, whole)
        elif what == DROP:
            store.follow(Key(*map(str, line[2])), None)
        elif what == SAID:
            who, type_, reason, times = line[2:6]
            nobody = Key("", "", "")
            self.twin.host.events.emit(at_us, nobody, "", str(type_), str(reason), "", str(who), int(times))
        elif what == PREEMPTED:
            namespace, name, message = map(str, line[2:5])
            self.twin.host.log.record(at_us, "scheduler", "Pod", namespace, name, "Preempted", message)

    def _store(self, key: Key, obj: Obj) -> None:
        if not isinstance(obj["metadata"]["uid"], str):
            raise TypeError("a UID is a text")
        self.twin.store.follow(key, obj)

    def _launch(self, node: Obj, launched_us: Any) -> None:
        if isinstance(launched_us, int):
            launches, name = self.twin.host.launches, str(node["metadata"]["name"])
            capacity = parse_resources(status_of(node).get("capacity") or {})
            launches.begin(name, launched_us, labels_of(node), capacity)
            launches.join(name)


def _twin(store: Store) -> Twin:
    """One that only looks, at what is there."""
    return Twin(
        latency=NONE,
        components=[Recorder()],
        start_us=store.now_us,
        store=store,
        containment=containment_of_run(),
    )


def _key(obj: Obj) -> Key:
    """Raises: what odd objects raise."""
    key = key_of(obj)
    return Key(str(key.gk), str(key.namespace) if kind_named(key.gk).namespaced else "", str(key.name))


def _uid(obj: Obj) -> Any:
    return obj["metadata"].get("uid")


def _is_same(obj: Obj, current: Obj) -> bool:
    """But for the version, which is of this store."""
    meta = {k: v for k, v in current["metadata"].items() if k != "resourceVersion"}
    return {**current, "metadata": meta} == obj
