"""What failed, about which object, and when is it tried again? One bad object stops nothing but itself.

Nothing here is expected to happen: a component that raises is at fault itself, whatever the object looked like. Where
many share a cluster, it is contained: everybody else hears of the object, the loop goes on, the failure is told once,
counted, and tried again, later every time and at once when the object changes. Whoever missed changes of an object
hears of its newest state, with what it saw last as the state before: as an informer that lists again.

A twin without a containment raises what its components raise. One whose containment `lets_through` some errors
raises those: an invariant that broke ends a simulation, since none of its figures can be trusted any more.

Source: apimachinery pkg/util/runtime (HandleCrash), controller-runtime (RecoverPanic), client-go (informers' relist).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.kube.objects import Key, Obj, key_of
from fairway.kube.timestamps import SECOND_US
from fairway.twin.loop import CONTROLLERS

if TYPE_CHECKING:
    from fairway.twin.components import Host

HEARING: Final = "hearing of it"
# A failure is tried again after 1 s, 2 s, … up to 1000 s.
_RETRY_BASE_US: Final = SECOND_US
_RETRY_MAX_US: Final = 1000 * SECOND_US
# How often, where a run ends once nothing is left to happen: for about three hours.
LIMITED_TRIES: Final = 20
# Failures that stand at one time. What is beyond is counted and forgotten.
_KEPT: Final = 10_000
# Objects named for the same place in the code; who sends thousands of them does not fill the disk.
_NAMED_PER_PLACE: Final = 10
_FRAMES_SHOWN: Final = 3
_ERROR_CHARS: Final = 200
_PACKAGE: Final = Path(__file__).parents[1]
# Who calls everybody: of no use to whoever looks for the cause.
_PLUMBING: Final = ("twin/components.py", "twin/containment.py", "twin/controllers.py", "twin/loop.py")

Token = tuple[str, str, Any]
"""Who failed, doing what, with which key or data."""
Tell = Callable[[str, Exception], None]
_T = TypeVar("_T")


class Failure(NamedTuple):
    """One that stands: whoever failed has not succeeded since."""

    component: str
    doing: str
    about: Key | None
    """None: no one object is known to be the cause."""
    error: str
    where: str
    since_us: int
    times: int = 1
    next_us: int = 0
    """When it is tried again; 0: when the object changes."""

    @property
    def subject(self) -> str:
        return "" if self.about is None else named(self.about)


class _Missed(NamedTuple):
    """What a component did not take in: the newest change it was told of, and what it saw before."""

    change: Change
    last: Obj | None

    def as_change(self) -> Change:
        """The change as it looks to somebody who saw `last` last."""
        change, last = self.change, self.last
        if change.type == DELETED:
            return change
        return change._replace(type=ADDED if last is None else MODIFIED, old=last)


class Containment:
    """The failures of one twin's components."""

    def __init__(
        self,
        *,
        lets_through: tuple[type[BaseException], ...] = (),
        tries: int | None = None,
        tell: Tell | None = None,
    ) -> None:
        """`tries`: how often at most something is tried again that does not change; None: for ever."""
        self.lets_through = lets_through
        self.tries = tries
        self.counts: dict[str, int] = {}
        """Failures so far, by component."""
        self.missed: dict[Key, dict[str, _Missed]] = {}
        """By object: who has not taken in its newest state."""
        self.messages: list[str] = []
        """What was said, in order."""
        self._tell = tell or _log
        self._standing: dict[Token, Failure] = {}
        self._tickets: dict[Token, int] = {}
        self._tries: dict[Token, int] = {}
        self._resubmitting: dict[str, None] = {}
        """Handlers that only put something back into a queue: whether that went well is told later."""
        self._told: dict[tuple[str, str, str], None] = {}
        self._places: dict[tuple[str, str], int] = {}

    def attach(self, host: Host) -> None:
        """Its handler comes after those of all components."""
        self._host = host
        self._retry = host.loop.register("containment.retry", self._on_retry)
        host.loop.on_failure = self.handler_failed

    def fork(self) -> Containment:
        twin = Containment(lets_through=self.lets_through, tries=self.tries, tell=self._tell)
        twin.counts, twin.messages = dict(self.counts), list(self.messages)
        twin.missed = {key: dict(by) for key, by in self.missed.items()}
        twin._standing, twin._tickets = dict(self._standing), dict(self._tickets)
        twin._tries, twin._told = dict(self._tries), dict(self._told)
        twin._places = dict(self._places)
        return twin

    # Reading

    def standing(self) -> list[Failure]:
        """What has failed and not succeeded since, in order of appearance. Objects that are gone are forgotten."""
        store = self._host.store
        for token, failure in list(self._standing.items()):
            if failure.about is not None and store.get(failure.about) is None:
                self.succeeded(*token)
        return list(self._standing.values())

    def is_stopped(self, component: str) -> bool:
        """Whether it fails at work that no single object is the cause of."""
        return any(f.about is None and f.component == component for f in self.standing())

    def left_out(self, component: str) -> int:
        """How many objects it does without."""
        return len({f.about for f in self.standing() if f.component == component and f.about})

    # Hearing of changes

    def hear(self, component: str, observe: Callable[[Change], None], change: Change) -> None:
        """Tell a component of a change, whatever comes of it."""
        by = self.missed.get(change.key)
        before = None if by is None else by.get(component)
        if before is not None:
            self._tries.pop((component, HEARING, change.key), None)
            change = before._replace(change=change).as_change()
        try:
            observe(change)
        except Exception as error:
            self.observer_failed(component, change, error)
        else:
            if before is not None:
                self.succeeded(component, HEARING, change.key)

    def observer_failed(self, component: str, change: Change, error: Exception) -> None:
        """It did not take in this change."""
        key = change.key
        self._note(component, HEARING, key, key, error)
        if change.type == DELETED:
            self.succeeded(component, HEARING, key)
            return
        self.missed.setdefault(key, {})[component] = _Missed(change, change.old)
        self._plan((component, HEARING, key))

    # Handling events

    def handler_failed(self, handler: int, data: Any, error: Exception) -> None:
        """An event came to nothing: it is handled again later."""
        component = self._host.owner_of(handler)
        doing = self._host.loop.name_of(handler)
        about = self._about(data)
        data = _hashable(data)
        self._note(component, doing, data, about, error)
        self._plan((component, doing, data))

    def resubmits(self, doing: str) -> None:
        """What this handler does is done once `went_well` is told so: until then its retries come later every time."""
        self._resubmitting[doing] = None

    def went_well(self, handler: int, data: Any) -> None:
        """O(1) while nothing has failed."""
        if self._standing:
            self.succeeded(self._host.owner_of(handler), self._host.loop.name_of(handler), data)

    def failed(self, component: str, doing: str, about: Key, error: Exception) -> None:
        """Something went wrong that its component itself tries again; `succeeded` when it went well."""
        self._note(component, doing, about, about, error)

    def succeeded(self, component: str, doing: str, data: Any) -> None:
        token = (component, doing, data)
        self._standing.pop(token, None)
        self._tries.pop(token, None)
        ticket = self._tickets.pop(token, 0)
        if ticket:
            self._host.loop.cancel(ticket)
        if doing == HEARING:
            by = self.missed.get(data)
            if by is not None:
                by.pop(component, None)
                if not by:
                    del self.missed[data]

    def passed(self, component: str, doing: str, failed: Collection[Key]) -> None:
        """All objects but these were gone over without a failure."""
        for token in [t for t in self._standing if t[:2] == (component, doing) and t[2] not in failed]:
            self.succeeded(*token)

    def skipping(self, component: str, doing: str) -> Skipping:
        """For one pass over many objects, of which some may have to be left out."""
        return Skipping(self, component, doing)

    def _about(self, data: Any) -> Key | None:
        """The object that an event is about, as far as its data say."""
        for part in _parts(data):
            if isinstance(part, Key):
                return part
        owners = self._host.store.owners
        for part in _parts(data):
            if isinstance(part, str) and part in owners.key_by_uid:
                return owners.key_by_uid[part]
        return None

    # Trying again

    def _plan(self, token: Token) -> None:
        tries = self._tries.get(token, 0)
        before = self._tickets.pop(token, 0)
        loop = self._host.loop
        if before:
            loop.cancel(before)
        at_us = 0
        if self.tries is None or tries < self.tries:
            self._tries[token] = tries + 1
            at_us = loop.now_us + min(_RETRY_BASE_US << min(tries, _RETRY_MAX_US.bit_length()), _RETRY_MAX_US)
            self._tickets[token] = loop.at(at_us, self._retry, token, CONTROLLERS)
        self._standing[token] = self._standing[token]._replace(next_us=at_us)

    def _on_retry(self, token: Token) -> None:
        component, doing, data = token
        self._tickets.pop(token, None)
        if token not in self._standing:
            return
        if doing == HEARING:
            missed = self.missed[data].get(component)
            observe = self._host.parts[component].observe
            if missed is None or self._host.store.get(data) is None:
                self.succeeded(component, doing, data)
                return
            change = missed.as_change()
            try:
                observe(change)
            except Exception as error:
                self.observer_failed(component, change, error)
            else:
                self.succeeded(component, doing, data)
            return
        handler = self._host.loop.handler_names().index(doing)
        try:
            self._host.loop.call(handler, data.data if isinstance(data, _Opaque) else data)
        except Exception as error:
            self.handler_failed(handler, data, error)
        else:
            if doing not in self._resubmitting:
                self.succeeded(component, doing, data)

    # Telling

    def _note(self, component: str, doing: str, data: Any, about: Key | None, error: Exception) -> None:
        """Count it, keep it, and say it once. Raises the error where it is none of those to contain."""
        if isinstance(error, self.lets_through):
            raise error
        self.counts[component] = self.counts.get(component, 0) + 1
        token = (component, doing, data)
        text, where = _text(error), place(error)
        before = self._standing.get(token)
        if before is not None:
            self._standing[token] = before._replace(error=text, where=where, times=before.times + 1)
        else:
            if len(self._standing) >= _KEPT:
                self.succeeded(*next(iter(self._standing)))
            now_us = self._host.loop.now_us
            self._standing[token] = Failure(component, doing, about, text, where, now_us)
        self._say(component, doing, about, text, where, error)

    def _say(
        self, component: str, doing: str, about: Key | None, text: str, where: str, error: Exception
    ) -> None:
        subject = doing if about is None else named(about)
        told = (component, subject, where)
        if told in self._told:
            return
        number = self._places[component, where] = self._places.get((component, where), 0) + 1
        if number > _NAMED_PER_PLACE:
            return
        self._told[told] = None
        message = (
            f"{component}: {subject}: {text} ({where}); left out and tried again, everything else goes on"
        )
        if number == _NAMED_PER_PLACE:
            message += "; further objects that fail here are only counted"
        self.messages.append(message)
        self._tell(message, error)


class Skipping:
    """One pass over objects: those it was called with failed; `done` says that all others did not."""

    def __init__(self, containment: Containment, component: str, doing: str) -> None:
        self._containment = containment
        self._component = component
        self._doing = doing
        self._skipped: dict[Key, None] = {}

    def __call__(self, obj: Obj, error: Exception) -> None:
        key = key_of(obj)
        self._skipped[key] = None
        self._containment.failed(self._component, self._doing, key, error)

    def done(self) -> None:
        self._containment.passed(self._component, self._doing, self._skipped)


def culprits(subjects: Sequence[_T], judge: Callable[[Sequence[_T]], object]) -> list[tuple[_T, Exception]]:
    """Of those that a pure engine stumbles over together: who it stumbles over alone. Empty: nobody.

    By halves: O(log subjects) judgements for each.
    """
    try:
        if subjects:
            judge(subjects)
        return []
    except Exception as failed:
        if len(subjects) == 1:
            return [(subjects[0], failed)]
    half = len(subjects) // 2
    return [*culprits(subjects[:half], judge), *culprits(subjects[half:], judge)]


def named(key: Key) -> str:
    """`LocalQueue team-a/odd`, as messages name it."""
    kind = key.gk.partition(".")[0]
    return f"{kind} {key.namespace}/{key.name}" if key.namespace else f"{kind} {key.name}"


def place(error: BaseException) -> str:
    """Where in our code it was raised, innermost first: enough to find it without a traceback."""
    import traceback

    frames = [(_short(f.filename), f.lineno) for f in reversed(traceback.extract_tb(error.__traceback__))]
    return " < ".join([f"{file}:{line}" for file, line in frames if file not in _PLUMBING][:_FRAMES_SHOWN])


def _short(file: str) -> str:
    path = Path(file)
    if path.is_relative_to(_PACKAGE):
        return path.relative_to(_PACKAGE).as_posix()
    # Compiled code names its file from the folder that the package lies in.
    return Path(*path.parts[1:]).as_posix() if path.parts[:1] == (_PACKAGE.name,) else path.name


def _text(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text if len(text) <= _ERROR_CHARS else text[:_ERROR_CHARS] + "…"


class _Opaque:
    """Data of an event that hold an object: one event is like no other."""

    def __init__(self, data: Any) -> None:
        self.data = data


def _hashable(data: Any) -> Any:
    try:
        hash(data)
    except TypeError:
        return _Opaque(data)
    return data


def _parts(data: Any) -> Iterator[Any]:
    """The data of an event, and what a tuple of it holds."""
    data = data.data if isinstance(data, _Opaque) else data
    yield data
    if isinstance(data, tuple):
        yield from data


def _log(message: str, error: Exception) -> None:
    # Imported here: simulations load without it.
    import logging

    log = logging.getLogger("fairway.components")
    log.error("%s", message)
    log.debug("%s", message, exc_info=error)
