"""Rules of the API server: pages of a past version, forms of answers, bookmarks, external scalers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apiserver import externalscalers, watching
from fairway.apiserver.bodies import Bodies
from fairway.apiserver.externalscalers import ExternalScalers, _Known
from fairway.apiserver.representing import (
    PARTIAL,
    PLAIN,
    TABLE,
    YAML,
    Representation,
    check_accept,
    form_of,
    watched_form_of,
)
from fairway.apiserver.resources import Resources
from fairway.apiserver.snapshots import Snapshot
from fairway.apiserver.statuses import StatusError
from fairway.apiserver.watching import _HEAD, Watch, Watches
from fairway.apiserver.wire.connection import MAX_UNSENT_BYTES
from fairway.apiserver.wire.messages import Request
from fairway.autoscaling.keda.external import Answer, Asked, ScalerFault
from fairway.cluster.store import Store
from fairway.compiled import loading
from fairway.kube.objects import Key, Obj

# A list as of a version


NAMES = ("a", "b", "c", "d")
SPACES = ("x", "y")
STEPS = st.lists(
    st.tuples(st.sampled_from(("write", "delete")), st.sampled_from(SPACES), st.sampled_from(NAMES)),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, STEPS, st.sampled_from((None, *SPACES)))
def test_a_snapshot_is_what_was_there(before: list[Any], since: list[Any], namespace: str | None) -> None:
    store = Store()
    store.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other", "namespace": "x"}})
    _play(store, before)
    version = store.version
    want = list(store.walk("ConfigMap", namespace))
    _play(store, since)
    store.delete(Key("Secret", "x", "other"))
    snapshot = Snapshot(store, "ConfigMap", namespace, version)
    for after in (("", ""), *((space, name) for space in SPACES for name in NAMES)):
        left = [o for o in want if (o["metadata"]["namespace"], o["metadata"]["name"]) > after]
        assert list(snapshot.walk(after)) == left
        assert snapshot.count_after(after) == len(left)


def _play(store: Store, steps: list[tuple[str, str, str]]) -> None:
    for number, (what, space, name) in enumerate(steps):
        key = Key("ConfigMap", space, name)
        there = store.get(key)
        meta = {"name": name, "namespace": space}
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"n": str(number)}}
        if what == "delete":
            if there is not None:
                store.delete(key)
        elif there is None:
            store.create(made)
        else:
            store.replace(made)


# Forms


TABLES = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        ("", PLAIN),
        ("application/json", PLAIN),
        ("*/*", PLAIN),
        ("application/*", PLAIN),
        ("application/yaml", YAML),
        ("text/yaml", YAML),
        ("application/x-yaml;q=1", YAML),
        (TABLES, TABLE),
        ("application/json;as=Table;v=v1beta1,application/json", PLAIN),
        ("application/json;as=Table", TABLE),
        ("application/json; as=PartialObjectMetadata", PARTIAL),
        ("application/json;as=PartialObjectMetadataList", PARTIAL),
        ("application/json;as=Other,application/yaml", YAML),
        ("application/vnd.kubernetes.protobuf,application/json", PLAIN),
        ("text/html,application/json", PLAIN),
        ("text/html", None),
        ("application/vnd.kubernetes.protobuf", None),
        ("application/json;as=Other", None),
    ],
)
def test_the_form_of_an_answer(accept: str, want: str | None) -> None:
    if want is None:
        with pytest.raises(StatusError) as refused:
            form_of(accept)
        offered = "application/json, application/yaml"
        offered += "" if "protobuf" in accept else ", application/vnd.kubernetes.protobuf"
        assert refused.value.code == 406 and str(refused.value).endswith(f"types are accepted: {offered}")
        return
    assert form_of(accept) == want
    if want == YAML:
        with pytest.raises(StatusError) as refused:
            watched_form_of(accept)
        assert str(refused.value).endswith(
            "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        )
    else:
        assert watched_form_of(accept) == want


def test_what_a_route_has() -> None:
    json, yaml, protobuf = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
    watched = f"{json};stream=watch, {protobuf};stream=watch"
    for accept, subresource, is_list, missing in (
        ("", "", False, None),
        ("text/html", "proxy", False, None),
        ("text/html", "exec", False, None),
        ("text/plain", "log", False, None),
        (f"text/html,{yaml};q=1", "", False, None),
        ("*/*", "status", True, None),
        (protobuf, "", True, None),
        ("text/plain", "", False, f"{json}, {yaml}, {protobuf}"),
        ("text/plain", "status", True, f"{json}, {yaml}, {protobuf}, {watched}"),
        ("text/html", "log", False, f"text/plain, {json}, {yaml}, {protobuf}"),
    ):
        if missing is None:
            check_accept(accept, subresource, is_list)
            continue
        with pytest.raises(StatusError) as refused:
            check_accept(accept, subresource, is_list)
        assert refused.value.code == 406 and missing in str(refused.value), (accept, subresource)


def test_a_lease_is_read_as_renewed_lately_and_others_as_they_are() -> None:
    bodies: Any = None
    shown = Representation(bodies, lambda: 1_767_225_605_000_000)
    resources = Resources().by_route
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "n", "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": "n"},
    }
    read = shown.version(lease, resources["coordination.k8s.io", "v1", "leases"])
    assert read == {**lease, "spec": {"holderIdentity": "n", "renewTime": "2026-01-01T00:00:00.000000Z"}}
    config: Obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "n", "namespace": "kube-node-lease"},
    }
    assert shown.version(config, resources["", "v1", "configmaps"]) is config


# Bookmarks


def test_every_watch_gets_its_bookmarks_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    watches, slept = Watches(Store()), list[float]()
    told = list[int]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(watches, "bookmark", lambda: told.append(len(slept)))
    with pytest.raises(asyncio.CancelledError):
        watches.bookmark_forever().send(None)
    assert (slept, told) == ([30.0] * 4, [1, 2, 3])


# External scalers


class World:
    """A cluster, its autoscaling room and the loop, in one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *allowed: str) -> None:
        self.store, self.told, self.tasks = Store(), list[Any](), list[Task]()
        self.keda, self.now_s = self, 100.0
        it: Any = self
        self.scalers = ExternalScalers(it, self.store, it, allowed)
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def create_task(self, coming: Coroutine[Any, Any, None]) -> Task:
        self.tasks.append(Task(coming))
        return self.tasks[-1]

    def no_faster(self) -> Any:
        return nullcontext()

    def touch(self) -> None:
        self.told.append("touch")

    def poke(self) -> None:
        self.told.append("poke")

    def answered(self, key: Key, *, is_another: bool) -> None:
        self.told.append((key, is_another))


class Task:
    def __init__(self, coming: Coroutine[Any, Any, None]) -> None:
        self.coming, self.is_cancelled = coming, False

    def cancel(self) -> None:
        self.is_cancelled = True
        self.coming.close()


KEY = Key("ScaledObject.keda.sh", "team", "s")


def trigger(address: str = "h:1", *, is_push: bool = False, number: int = 0, **metadata: str) -> Asked:
    return Asked(KEY, number, address, is_push, tuple(sorted(metadata.items())))


def finish(task: Task) -> None:
    with pytest.raises(StopIteration):
        task.coming.send(None)


def saying(world: World, monkeypatch: pytest.MonkeyPatch, *answers: Answer) -> None:
    left = list(answers)

    async def answered(_asked: Asked) -> Answer:
        return left.pop(0)

    monkeypatch.setattr(world.scalers, "_answered", answered)


ON, OFF = Answer((), {"m": 1}, True), Answer((), {"m": 1}, False)
FAULT = Answer(fault="external: h:1: no")


@pytest.mark.parametrize(
    ("is_push", "said", "kept", "told"),
    [
        (False, (OFF, ON), ON, [False, False]),
        (False, (ON, OFF), OFF, [False, False]),
        (False, (ON, ON), ON, [False]),
        (True, (ON, OFF), ON, [False]),
        (True, (OFF, ON), ON, [False, False]),
        (True, (OFF, OFF), OFF, [False]),
        (True, (ON, FAULT), FAULT, [False, False]),
        (True, (FAULT, ON), ON, [False, False]),
    ],
)
def test_what_a_scaler_said_last_is_known(
    monkeypatch: pytest.MonkeyPatch, is_push: bool, said: tuple[Answer, ...], kept: Answer, told: list[bool]
) -> None:
    world, asked = World(monkeypatch), trigger(is_push=is_push)
    saying(world, monkeypatch, *said)
    for _ in said:
        world.scalers.answer(asked)
        asking = [t for t in world.tasks if "._ask" in repr(t.coming)]
        finish(asking[-1])
        world.now_s += 1
    assert world.scalers.answer(asked) == kept
    first = [(KEY, True)] + [(KEY, False)] * (len(told) - 1)
    assert world.told == [x for heard in first for x in ("touch", heard, "poke")]
    for task in world.tasks:
        task.cancel()


def test_a_scaler_is_asked_once_a_second_and_one_call_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world, asked = World(monkeypatch), trigger()
    saying(world, monkeypatch, ON, OFF, ON)
    assert world.scalers.answer(asked) is None and len(world.tasks) == 1
    world.now_s += 5
    assert world.scalers.answer(asked) is None and len(world.tasks) == 1
    finish(world.tasks[0])
    assert world.scalers.answer(asked) == ON and len(world.tasks) == 2
    finish(world.tasks[1])
    world.now_s += 0.99
    assert world.scalers.answer(asked) == OFF and len(world.tasks) == 2
    world.now_s += 0.01
    assert world.scalers.answer(asked) == OFF and len(world.tasks) == 3
    assert world.scalers.frozen().answer(asked) == OFF
    other = trigger(number=1)
    assert world.scalers.answer(other) is None and len(world.tasks) == 4
    world.scalers.stop()
    assert [t.is_cancelled for t in world.tasks] == [False, False, True, True]


def test_as_many_triggers_as_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(externalscalers, "MOST_TRIGGERS", 2)
    world = World(monkeypatch)
    saying(world, monkeypatch, ON, ON, ON)
    first, second, third = (trigger(number=n) for n in range(3))
    world.scalers.answer(first)
    world.scalers.answer(second)
    finish(world.tasks[0])
    full = Answer(fault="external: more than 2 triggers ask external scalers")
    assert world.scalers.answer(third) == full
    world.now_s += 300
    assert world.scalers.answer(third) == full
    world.now_s += 0.1
    assert world.scalers.answer(third) is None
    assert world.scalers._known.keys() == {second, third}
    for task in world.tasks:
        task.cancel()


def test_what_is_pushed_wakes_where_it_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    for before, is_active, after in (
        (None, True, None),
        (FAULT, True, FAULT),
        (OFF, False, OFF),
        (OFF, True, ON),
        (ON, False, OFF),
    ):
        world, known = World(monkeypatch), _Known(before)
        world.scalers._pushed(trigger(is_push=True), known, is_active)
        assert known.answer == after
        assert world.told == (["touch", (KEY, False), "poke"] if after != before else [])


@pytest.mark.parametrize(
    ("address", "allowed", "want"),
    [
        ("h:1", "h:1", "h:1"),
        ("h:1", "h", "h:1"),
        ("h", "h:443", "h:443"),
        ("dns:///h:1", "h:1", "h:1"),
        ("a-b.c:65535", "a-b.c", "a-b.c:65535"),
        ("h:65536", "h", None),
        ("h:", "h", None),
        ("-h:1", "-h", None),
        ("unix:///h", "h", None),
        ("h:1 ", "h", None),
        ("h:1", "h:2", "h:1 is outside the cluster: fairway up --call h:1 allows it"),
        ("s.team:80", "", "s.team:80 is outside the cluster: fairway up --call s.team:80 allows it"),
    ],
)
def test_where_a_scaler_is(
    monkeypatch: pytest.MonkeyPatch, address: str, allowed: str, want: str | None
) -> None:
    scalers = World(monkeypatch, *allowed.split()).scalers
    if want is not None and " " not in want:
        assert scalers._target(address) == want
        return
    with pytest.raises(ScalerFault) as refused:
        scalers._target(address)
    assert str(refused.value) == (want or "expected an address such as my-scaler.default:6000")


@pytest.mark.parametrize(
    ("address", "is_service"),
    [
        ("s.team:80", True),
        ("s.team.svc:80", True),
        ("s.team.svc.cluster.local:80", True),
        ("s.team.svc.cluster:80", False),
        ("s.team.example:80", False),
        ("s.other:80", False),
        ("s:80", False),
    ],
)
def test_a_scaler_may_be_a_service_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch, address: str, is_service: bool
) -> None:
    world = World(monkeypatch, address, "inner.example:80")
    spec = {"type": "ExternalName", "externalName": "inner.example"}
    meta = {"name": "s", "namespace": "team"}
    world.store.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})
    assert world.scalers._target(address) == ("inner.example:80" if is_service else address)


def test_connections_are_kept_and_the_oldest_of_too_many_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    world, said = World(monkeypatch, "h"), list[str]()

    class Channel:
        def __init__(self, address: str, tls: dict[str, str]) -> None:
            self.address = f"{address}{' TLS' if tls else ''}"
            said.append(f"open {self.address}")

        async def close(self) -> None:
            said.append(f"close {self.address}")

    monkeypatch.setattr(externalscalers, "_opened", Channel)

    def channel(address: str, **metadata: str) -> Any:
        with pytest.raises(StopIteration) as done:
            world.scalers._channel(trigger(address, **metadata)).send(None)
        return done.value.value

    first = channel("h:1")
    assert channel("h:1", queue="other") is first
    assert channel("h:1", enableTLS="true") is not first
    assert said == ["open h:1", "open h:1 TLS"]
    for port in range(2, 64):
        channel(f"h:{port}")
    assert channel("h:1") is first and len(said) == 64 and "close" not in " ".join(said)
    channel("h:64")
    assert said[64:] == ["close h:1", "open h:64"]
    assert channel("h:1") is not first
    assert said[66:] == ["close h:1 TLS", "open h:1"]


def test_what_a_scaler_refuses_is_said_as_grpc_go_says_it() -> None:
    for name, details, want in (
        ("UNAVAILABLE", "connection refused", "rpc error: code = Unavailable desc = connection refused"),
        ("DEADLINE_EXCEEDED", None, "rpc error: code = DeadlineExceeded desc = "),
        ("NOT_FOUND", "x" * 201, f"rpc error: code = NotFound desc = {'x' * 200}"),
    ):
        refused = SimpleNamespace(
            code=lambda name=name: SimpleNamespace(name=name), details=lambda d=details: d
        )
        assert externalscalers._go_words(refused) == want


def test_how_a_scaler_is_spoken_to() -> None:
    nothing = (("caCert", ""), ("tlsClientCert", ""), ("tlsClientKey", ""))
    assert externalscalers._tls(trigger()) == ()
    assert externalscalers._tls(trigger(enableTLS="false")) == ()
    for said in ("true", "1", "T"):
        assert externalscalers._tls(trigger(enableTLS=said)) == nothing
        with pytest.raises(ScalerFault, match="certificates are always checked"):
            externalscalers._tls(trigger(unsafeSsl=said))
    for name in ("caCert", "tlsClientCert"):
        found = externalscalers._tls(trigger()._replace(auth=((name, "pem"),)))
        assert dict(found) == {**dict(nothing), name: "pem"}
    assert externalscalers._tls(trigger()._replace(auth=(("tlsClientKey", "pem"),))) == ()


# One watch


class Line:
    """A watch's connection and its transport, and the loop's timers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)
        self.transport, self.sent, self.said = self, b"", list[str]()
        self.unsent = 0
        self.timers: list[tuple[float, Any]] = []

    def call_later(self, delay: float, call: Any) -> Line:
        self.timers.append((delay, call))
        return self

    def cancel(self) -> None:
        self.said.append("cancel")

    def write(self, data: bytes) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return "abort" in self.said

    def abort(self) -> None:
        self.said.append("abort")

    def done(self) -> None:
        self.said.append("done")

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def events(self) -> list[Any]:
        """Since the last time; `END` where the stream ended."""
        data, self.sent = self.sent.replace(_HEAD, b""), b""
        found: list[Any] = []
        while data:
            size, _, rest = data.partition(b"\r\n")
            body, data = rest[: int(size, 16)], rest[int(size, 16) + 2 :]
            assert rest[int(size, 16) :].startswith(b"\r\n")
            found.append(json.loads(body) if body else "END")
        return found

    def names(self) -> list[Any]:
        return [e if e == "END" else (e["type"], e["object"]["metadata"].get("name")) for e in self.events()]


class Watched:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = Store(now_us=5_000_000)
        self.watches = Watches(self.store)
        self.line = Line(monkeypatch)
        self.later: list[Any] = []
        self.api: Any = SimpleNamespace(
            store=self.store,
            watches=self.watches,
            journal=SimpleNamespace(when_durable=lambda version, then: self.later.append((version, then))),
            representation=Representation(Bodies(), lambda: self.store.now_us),
        )

    def config(self, name: str, home: str = "d", **labels: str) -> None:
        meta = {"name": name, "namespace": home, "labels": labels}
        obj: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {}}
        obj["data"]["version"] = str(self.store.version)
        if self.store.get(Key("ConfigMap", home, name)) is None:
            self.store.create(obj)
        else:
            self.store.replace(obj)

    def gone(self, name: str, home: str = "d") -> None:
        self.store.delete(Key("ConfigMap", home, name))

    def tell(self) -> None:
        self.watches.tell(self.store.version)

    def watch(self, query: str = "", namespace: str = "d", accept: str = "application/json") -> Watch:
        ask: Any = SimpleNamespace(
            resource=Resources().by_route["", "v1", "configmaps"],
            info=SimpleNamespace(namespace=namespace, name=""),
            request=Request("GET", "/", query, {"accept": accept}, b""),
            accept=accept,
            include="Metadata",
        )
        made = watching.watch(self.api, ask)
        made.start(self.line)  # type: ignore[arg-type]
        return made

    def begin(self) -> None:
        """What was written until then is on disk."""
        for _, then in self.later:
            then()
        self.later.clear()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_a_watch_begins_with_what_is_there_once_it_is_on_disk(watched: Watched) -> None:
    for name, home in (("a", "d"), ("b", "d"), ("c", "other")):
        watched.config(name, home)
    watched.watch()
    assert watched.line.sent == b"" and [v for v, _ in watched.later] == [watched.store.version]
    assert len(watched.watches) == 0
    watched.begin()
    assert watched.line.sent.startswith(_HEAD)
    assert _HEAD == (
        b"HTTP/1.1 200 OK\r\nCache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    assert watched.line.names() == [("ADDED", "a"), ("ADDED", "b")] and len(watched.watches) == 1
    watched.config("a")
    watched.config("c", "other")
    watched.gone("b")
    watched.config("e")
    assert watched.line.sent == b""
    watched.tell()
    assert watched.line.names() == [("MODIFIED", "a"), ("DELETED", "b"), ("ADDED", "e")]
    watched.tell()
    assert watched.line.names() == [] and watched.watches.told == watched.store.version
    assert watched.watches.sent == {("", "v1", "configmaps"): 5}


@pytest.mark.parametrize(
    ("query", "want", "bookmark"),
    [
        ("", ["a", "b"], False),
        ("resourceVersion=0", ["a", "b"], False),
        ("resourceVersion={0}", ["b"], False),
        ("resourceVersion={1}", [], False),
        ("sendInitialEvents=false", [], False),
        ("sendInitialEvents=false&resourceVersion={0}", ["b"], False),
        ("sendInitialEvents=true", ["a", "b"], False),
        ("sendInitialEvents=true&allowWatchBookmarks=true", ["a", "b"], True),
        ("sendInitialEvents=true&allowWatchBookmarks=true&resourceVersion={0}", ["a", "b"], True),
        ("allowWatchBookmarks=true", ["a", "b"], False),
    ],
)
def test_where_a_watch_begins(watched: Watched, query: str, want: list[str], bookmark: bool) -> None:
    watched.config("a")
    first = watched.store.version
    watched.config("b")
    watched.watch(query.format(first, watched.store.version))
    watched.begin()
    events = watched.line.events()
    ends = [e for e in events if e["type"] == "BOOKMARK"]
    assert [e["object"]["metadata"]["name"] for e in events if e["type"] == "ADDED"] == want
    assert len(events) == len(want) + len(ends)
    meta = {
        "resourceVersion": str(watched.store.version),
        "creationTimestamp": None,
        "annotations": {"k8s.io/initial-events-end": "true"},
    }
    told = {"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta}}
    assert ends == ([told] if bookmark else [])
    watched.config("c")
    watched.tell()
    assert watched.line.names() == [("ADDED", "c")]


def test_a_version_to_come_is_refused(watched: Watched) -> None:
    watched.config("a")
    with pytest.raises(StatusError) as refused:
        watched.watch(f"resourceVersion={watched.store.version + 1}")
    assert refused.value.code == 504


def test_what_begins_or_ceases_to_match_comes_and_goes(watched: Watched) -> None:
    watched.config("a")
    watched.watch("labelSelector=tier%3Dgold")
    watched.begin()
    assert watched.line.names() == []
    watched.config("a", tier="gold")
    watched.config("a", tier="gold", more="x")
    last = watched.store.require(Key("ConfigMap", "d", "a"))
    watched.config("a", tier="tin")
    version = str(watched.store.version)
    watched.config("a", tier="lead")
    watched.config("b", tier="gold")
    watched.gone("b")
    watched.gone("a")
    watched.tell()
    events = watched.line.events()
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("ADDED", "b"),
        ("DELETED", "b"),
    ]
    assert events[2]["object"] == {**last, "metadata": {**last["metadata"], "resourceVersion": version}}


def test_rows_bring_their_columns_once(watched: Watched) -> None:
    for name in ("a", "b"):
        watched.config(name)
    watched.watch("allowWatchBookmarks=true&sendInitialEvents=true", accept=TABLES)
    watched.begin()
    first, second, end = (e["object"] for e in watched.line.events())
    assert [c["name"] for c in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["columnDefinitions"] is None
    assert [t["rows"][0]["cells"][:2] for t in (first, second)] == [["a", 1], ["b", 1]]
    assert first["metadata"]["resourceVersion"] != second["metadata"]["resourceVersion"]
    version = str(watched.store.version)
    assert end == {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": [],
        "rows": [
            {
                "cells": [],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": {
                        "resourceVersion": version,
                        "creationTimestamp": None,
                        "annotations": {"k8s.io/initial-events-end": "true"},
                    },
                },
            }
        ],
    }


def test_metadata_alone_where_that_is_asked(watched: Watched) -> None:
    watched.config("a")
    watched.watch(
        "allowWatchBookmarks=true", accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    )
    watched.begin()
    (event,) = watched.line.events()
    meta = watched.store.require(Key("ConfigMap", "d", "a"))["metadata"]
    assert event["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
    }
    watched.tell()
    watched.watches.bookmark()
    (event,) = watched.line.events()
    assert (
        event["object"]["kind"] == "PartialObjectMetadata"
        and "annotations" not in event["object"]["metadata"]
    )


def test_bookmarks_are_for_those_that_asked_and_never_older_than_what_came(watched: Watched) -> None:
    watched.watch("allowWatchBookmarks=true")
    watched.watch()
    watched.begin()
    watched.watches.bookmark()
    assert [e["object"]["metadata"]["resourceVersion"] for e in watched.line.events()] == ["0"]
    watched.config("a")
    later = watched.watch("allowWatchBookmarks=true")
    watched.begin()
    watched.line.events()
    later.bookmark(watched.store.version - 1)
    assert watched.line.events() == []
    later.bookmark(watched.store.version)
    assert len(watched.line.events()) == 1


def test_how_a_watch_ends(watched: Watched) -> None:
    for query, least, most in (
        ("timeoutSeconds=7", 7, 7),
        ("", 1800, 3600),
        ("timeoutSeconds=0", 1800, 3600),
    ):
        watched.line.timers.clear()
        watched.line.said.clear()
        watched.watch(query)
        watched.begin()
        watched.line.events()
        ((delay, end),) = watched.line.timers
        assert least <= delay <= most and len(watched.watches) == 1
        end()
        assert (watched.line.events(), watched.line.said, len(watched.watches)) == (
            ["END"],
            ["cancel", "done"],
            0,
        )
        end()
        assert watched.line.events() == []
    several = [watched.watch() for _ in range(2)]
    watched.begin()
    several[0].stop()
    watched.line.events()
    watched.watches.close()
    assert watched.line.events() == ["END"] and len(watched.watches) == 0
    left = watched.watch()
    left.stop()
    watched.begin()
    assert watched.line.sent == b"" and len(watched.watches) == 0


def test_whoever_reads_too_slowly_is_cut_off(watched: Watched) -> None:
    watched.watch()
    watched.begin()
    watched.line.events()
    for unsent, said in ((MAX_UNSENT_BYTES, []), (MAX_UNSENT_BYTES + 1, ["abort"])):
        watched.line.unsent = unsent
        watched.config("a")
        watched.tell()
        assert watched.line.said == said
        assert len(watched.line.events()) == 1
    watched.config("a")
    watched.tell()
    assert watched.line.events() == []


@pytest.mark.skipif(
    loading.is_active(), reason="compiled code takes no stand-ins: the run as pure Python has it"
)
def test_one_object_that_cannot_be_shown_ends_one_watch(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.watch()
    watched.begin()
    watched.line.events()
    monkeypatch.setattr(watched.api.representation, "body", lambda *_: 1 / 0)
    watched.config("a")
    watched.config("b")
    watched.tell()
    error, end = watched.line.events()
    assert (error["type"], error["object"]["code"], error["object"]["reason"], end) == (
        "ERROR",
        500,
        "InternalError",
        "END",
    )
    assert error["object"]["message"].endswith("ZeroDivisionError while watching configmaps")
    assert len(watched.watches) == 0
    watched.watch()
    watched.begin()
    (error, end) = watched.line.events()
    assert error["object"]["code"] == 500 and end == "END"
