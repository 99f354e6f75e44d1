"""Parts of the API server by themselves, each with all it says: discovery, metrics, connections to webhooks, TLS."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.histories import check_history

from fairway.apiserver.discovery import Discovery
from fairway.apiserver.exporter import requests as exported
from fairway.apiserver.requestmeter import DURATIONS_S, SIZES_BYTES, About, RequestMeter
from fairway.apiserver.resources import Resources
from fairway.apiserver.statuses import NoPage
from fairway.apiserver.wire import client as links
from fairway.apiserver.wire.client import Link, Target, Unanswered
from fairway.apiserver.wire.gate import Gate, Handshake
from fairway.apiserver.wire.messages import Request
from fairway.cluster.store import Store
from fairway.kube.objects import Obj

HERE = Path(__file__).parent
CRD: Obj = {
    "metadata": {"name": "foos.b.example.com", "uid": "u", "generation": 1},
    "spec": {
        "group": "b.example.com",
        "scope": "Cluster",
        "names": {
            "plural": "foos",
            "kind": "Foo",
            "singular": "foo",
            "shortNames": ["fo"],
            "categories": ["all"],
        },
        "versions": [
            {"name": "v1beta1", "served": True, "storage": False, "schema": {}},
            {"name": "v1", "served": True, "storage": True, "schema": {}, "subresources": {"status": {}}},
            {"name": "v2alpha1", "served": False, "storage": False, "schema": {}},
        ],
    },
    "status": {"conditions": [{"type": "Established", "status": "True"}]},
}

# Discovery


@pytest.fixture(autouse=True)
def kinds_come_and_go() -> Iterator[None]:
    """Kinds that a definition declares are known to everybody until it goes."""
    yield
    for made in _MADE:
        made.set_definitions([])
    _MADE.clear()


_MADE: list[Resources] = []


def discovery() -> tuple[Discovery, Resources]:
    resources = Resources()
    resources.set_definitions([CRD])
    _MADE.append(resources)
    return Discovery(resources, "10.0.0.1:6443"), resources


def asked(path: str, accept: str = "application/json") -> Request:
    return Request("GET", path, "", {"accept": accept}, b"")


def answered(found: Discovery, path: str, accept: str = "application/json") -> Any:
    response = found.answer(asked(path, accept))
    assert response.status == 200
    return json.loads(response.body)


TOLD = (
    "apps",
    "autoscaling",
    "policy",
    "apiextensions.k8s.io",
    "metrics.k8s.io",
    "kueue.x-k8s.io",
    "b.example.com",
)
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


def test_every_kind_is_told_as_it_was() -> None:
    def told() -> Iterator[str]:
        found, _ = discovery()
        yield json.dumps(answered(found, "/api"))
        groups = answered(found, "/apis")
        yield json.dumps({key: value for key, value in groups.items() if key != "groups"})
        for group in groups["groups"]:
            yield json.dumps(group)
            assert answered(found, f"/apis/{group['name']}/") == {
                "kind": "APIGroup",
                "apiVersion": "v1",
                **group,
            }
        versions = [v["groupVersion"] for g in groups["groups"] if g["name"] in TOLD for v in g["versions"]]
        for path in ("/api/v1", *(f"/apis/{version}" for version in versions)):
            document = answered(found, path)
            rows = document.pop("resources")
            yield f"{path} {json.dumps(document)}"
            yield from (json.dumps(row) for row in rows)

    check_history(HERE / "discovery.txt", told())


def test_the_aggregated_form_says_the_same() -> None:
    found, _ = discovery()
    for form in ("v2", "v2beta1"):
        groups: dict[str, Any] = {}
        for path, names in (("/api", [""]), ("/apis", None)):
            response = found.answer(asked(path, AGGREGATED.format(form)))
            assert response.content_type == AGGREGATED.format(form)
            said = json.loads(response.body)
            items = said.pop("items")
            assert said == {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": f"apidiscovery.k8s.io/{form}",
                "metadata": {},
            }
            assert all(item["metadata"]["creationTimestamp"] is None for item in items)
            got = {item["metadata"].get("name", ""): item["versions"] for item in items}
            assert names is None or list(got) == names
            groups |= got
        assert list(groups) == ["", *(g["name"] for g in answered(found, "/apis")["groups"])]
        for group, versions in groups.items():
            for version in versions:
                assert version["freshness"] == "Current"
                path = f"/apis/{group}/{version['version']}" if group else "/api/v1"
                rows = answered(found, path)["resources"]
                assert [
                    r for row in version["resources"] for r in _flat(row, group, version["version"])
                ] == rows


def _flat(row: Obj, group: str, version: str) -> Iterator[Obj]:
    """An aggregated row as the older form has it."""
    is_namespaced = {"Namespaced": True, "Cluster": False}[row["scope"]]
    kind = row["responseKind"]
    assert (kind["group"], kind["version"]) == (group, version)
    more: Obj = {key: row[key] for key in ("shortNames", "categories") if key in row}
    assert all(more.values())
    yield {
        "name": row["resource"],
        "singularName": row["singularResource"],
        "namespaced": is_namespaced,
        "kind": kind["kind"],
        "verbs": row["verbs"],
        **more,
    }
    for sub in row.get("subresources", ()):
        of = sub["responseKind"]
        told = {"group": of["group"], "version": of["version"]} if of["group"] else {"version": of["version"]}
        its_own = (of["group"], of["version"], of["kind"]) == (group, version, kind["kind"])
        yield {
            "name": f"{row['resource']}/{sub['subresource']}",
            "singularName": "",
            "namespaced": is_namespaced,
            "kind": of["kind"],
            "verbs": sub["verbs"],
            **({} if its_own else told),
        }


def test_which_form_is_answered() -> None:
    found, _ = discovery()
    for accept, kind, version in (
        ("", "APIGroupList", "v1"),
        ("application/json", "APIGroupList", "v1"),
        (AGGREGATED.format("v2"), "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"),
        (AGGREGATED.format("v2beta1"), "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2beta1"),
        (AGGREGATED.format("v9"), "APIGroupList", "v1"),
        (
            f"{AGGREGATED.format('v9')},{AGGREGATED.format('v2')}",
            "APIGroupDiscoveryList",
            "apidiscovery.k8s.io/v2",
        ),
        (f"application/json,{AGGREGATED.format('v2')}", "APIGroupList", "v1"),
        (f"text/html,{AGGREGATED.format('v2')}", "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"),
        ("text/html", "APIGroupList", "v1"),
    ):
        said = answered(found, "/apis", accept)
        assert (said["kind"], said["apiVersion"]) == (kind, version), accept
    assert answered(found, "/apis/apps/v1", AGGREGATED.format("v2"))["kind"] == "APIResourceList"


def test_documents_are_kept_until_the_kinds_change() -> None:
    found, resources = discovery()
    kept = found.answer(asked("/apis"))
    assert found.answer(asked("/apis/")) is kept
    assert found.answer(asked("/apis", AGGREGATED.format("v2"))) is not kept
    resources.set_definitions([])
    assert found.answer(asked("/apis")) is not kept
    for path in ("/apis/b.example.com", "/apis/b.example.com/v1", "/apis/apps/v9", "/api/v2", "/apis/a/b/c"):
        with pytest.raises(NoPage):
            found.answer(asked(path))


# Metrics of requests


def test_metrics_say_all_that_was_counted(tmp_path: Path) -> None:
    meter = RequestMeter()
    first = About("GET", "", "apps", "v1", "deployments", "", "resource", "apiserver")
    second = About("POST", "All", "", "v1", "pods", "", "resource", "apiserver")
    for about, status, seconds, size in (
        (first, 200, DURATIONS_S[0], int(SIZES_BYTES[0])),
        (first, 404, DURATIONS_S[0] + 0.001, int(SIZES_BYTES[0]) + 1),
        (first, 200, 99.0, 10**10),
        (second, 201, 0.0, 5),
    ):
        meter._count(about, status, seconds, size)
    meter.going_on[About("WATCH", "", "", "v1", "pods", "", "cluster", "apiserver")] = 2
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "b").write_bytes(b"4567")
    (tmp_path / "folder").mkdir()
    store = Store()
    for kind, version in (
        ("ConfigMap", "v1"),
        ("Secret", "v1"),
        ("ConfigMap", "v1"),
        ("Deployment", "apps/v1"),
    ):
        name = f"{kind.lower()}-{store.count(kind)}"
        store.create({"apiVersion": version, "kind": kind, "metadata": {"name": name}})
    api: Any = SimpleNamespace(
        meter=meter,
        store=store,
        journal=SimpleNamespace(waiting=7, folder=tmp_path),
        watches=SimpleNamespace(sent={("", "v1", "pods"): 3, ("apps", "v1", "deployments"): 4}),
    )
    families = [*exported.collect(api), exported.health([("etcd", "readyz", True), ("x", "livez", False)])]

    def told() -> Iterator[str]:
        for family in families:
            yield f"{family.name} {family.type}: {family.documentation}"
            if family.name == "kubernetes_build_info":
                assert {sample.value for sample in family.samples} == {1}
                yield "  " + " ".join(family.samples[0].labels)
                continue
            for sample in family.samples:
                labels = ",".join(f"{k}={v}" for k, v in sample.labels.items())
                yield f"  {sample.name}{{{labels}}} {sample.value:g}"

    check_history(HERE / "requestmetrics.txt", told())


# A connection to a webhook


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent, self.said = b"", list[str]()

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.said.append("close")

    def abort(self) -> None:
        self.said.append("abort")


class Timer:
    def __init__(self, delay: float, call: Callable[[], Any]) -> None:
        self.delay, self.call, self.is_cancelled = delay, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.timers: list[Timer] = []
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)

    def create_future(self) -> Any:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def call_later(self, delay: float, call: Callable[[], Any]) -> Timer:
        self.timers.append(Timer(delay, call))
        return self.timers[-1]

    def call_soon(self, *_given: Any, **_more: Any) -> None:
        """Whoever waits is driven by the test."""

    def get_debug(self) -> bool:
        return False


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


def linked() -> tuple[Link, Wire]:
    link, wire = Link(Target(("10.0.0.9", 443), "hook", "hook:443")), Wire()
    assert not link.is_open
    link.connection_made(wire)
    return link, wire


def posted(link: Link) -> Coroutine[Any, Any, tuple[int, bytes]]:
    coming = link.post("/mutate?x=1", b"{}")
    coming.send(None)
    return coming


def came(coming: Coroutine[Any, Any, tuple[int, bytes]]) -> Any:
    """What a post came to: its answer, or what was wrong."""
    try:
        coming.send(None)
    except StopIteration as done:
        return done.value
    except (OSError, ValueError) as wrong:
        return type(wrong).__name__, str(wrong)
    raise AssertionError("it still waits")


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    head = "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""))
    return head.encode() + body


def test_one_post_after_another(loop: Loop) -> None:
    link, wire = linked()
    for body in (b"one", b"", b"three"):
        wire.sent = b""
        coming = posted(link)
        assert wire.sent == (
            b"POST /mutate?x=1 HTTP/1.1\r\nHost: hook:443\r\nUser-Agent: kube-apiserver-admission\r\n"
            b"Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )
        for byte in answer(body, status="503 No"):
            link.data_received(bytes((byte,)))
        assert came(coming) == (503, body)
        assert link.is_open and wire.said == []


def test_what_comes_first_may_be_no_answer_yet(loop: Loop) -> None:
    link, wire = linked()
    coming = posted(link)
    link.data_received(b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"ok"))
    assert came(coming) == (200, b"ok") and wire.said == []


def test_whoever_says_goodbye_is_not_asked_again(loop: Loop) -> None:
    link, wire = linked()
    coming = posted(link)
    link.data_received(answer(b"ok", "Connection: close"))
    assert came(coming) == (200, b"ok")
    assert not link.is_open and wire.said == ["close"]
    with pytest.raises(Unanswered, match="closed"):
        link.post("/", b"").send(None)


@pytest.mark.parametrize(
    ("before", "why", "want"),
    [
        (b"", None, ("Unanswered", "EOF")),
        (b"", ConnectionResetError("reset"), ("Unanswered", "EOF")),
        (b"HTTP/1.1 ", ConnectionResetError("reset"), ("ConnectionResetError", "reset")),
        (b"HTTP/1.1 ", None, ("Unanswered", "EOF")),
        (b"HTTP/1.1 ", ValueError("other"), ("Unanswered", "EOF")),
    ],
)
def test_how_a_connection_may_end(loop: Loop, before: bytes, why: Exception | None, want: Any) -> None:
    link, _ = linked()
    coming = posted(link)
    if before:
        link.data_received(before)
    link.connection_lost(why)
    assert came(coming) == want and not link.is_open


def test_nonsense_and_too_much_end_it(loop: Loop) -> None:
    link, wire = linked()
    coming = posted(link)
    link.data_received(b"nonsense\r\n\r\n")
    name, text = came(coming)
    assert name == "ValueError" and text.startswith("malformed HTTP response: ")
    assert wire.said == ["abort"] and not link.is_open
    most = 64 * 1024 + links.MAX_ANSWER_BYTES
    for more in (0, 1):
        link, wire = linked()
        coming = posted(link)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {most + 9}\r\n\r\n".encode()
        link.data_received(head + bytes(most + more - len(head)))
        assert wire.said == (["abort"] if more else [])
        if more:
            assert came(coming) == ("ValueError", "webhook answer is too large")
        else:
            link.connection_lost(None)
            came(coming)


def test_what_nobody_asked_for_ends_it(loop: Loop) -> None:
    link, wire = linked()
    link.data_received(b"x")
    assert wire.said == ["abort"] and not link.is_open
    link, wire = linked()
    coming = posted(link)
    link.data_received(answer(b"ok"))
    assert came(coming) == (200, b"ok")
    link.data_received(answer(b"again"))
    assert wire.said == ["abort"]
    link.close()
    assert wire.said == ["abort"]


@pytest.mark.parametrize("more", [answer(b"again"), answer(b"again")[:1], b"\r\n?"])
def test_a_second_answer_behind_the_first_ends_it(loop: Loop, more: bytes) -> None:
    """The next request would be given what is left of it."""
    link, wire = linked()
    coming = posted(link)
    link.data_received(answer(b"ok") + more)
    assert came(coming) == (200, b"ok")
    assert wire.said == ["abort"] and not link.is_open


def test_an_answer_that_says_goodbye_may_come_with_more(loop: Loop) -> None:
    link, wire = linked()
    coming = posted(link)
    link.data_received(answer(b"ok", "Connection: close") + answer(b"again"))
    assert came(coming) == (200, b"ok")
    assert wire.said == ["close"] and not link.is_open


def test_whoever_gives_up_closes_it(loop: Loop) -> None:
    link, wire = linked()
    coming = posted(link)
    with pytest.raises(asyncio.CancelledError):
        coming.throw(asyncio.CancelledError)
    assert wire.said == ["abort"] and not link.is_open


def test_a_connection_is_kept_for_a_while(loop: Loop) -> None:
    link, wire = linked()
    other = linked()[0]
    among = [other]
    link.keep(among)
    assert among == [other, link] and [t.delay for t in loop.timers] == [90.0]
    link.take()
    assert among == [other] and loop.timers[0].is_cancelled and wire.said == []
    link.keep(among)
    loop.timers[1].call()
    assert (among, wire.said, link.is_open) == ([other], ["abort"], False)
    among.clear()
    other.keep(among)
    other.connection_lost(None)
    assert among == [] and loop.timers[2].is_cancelled
    assert not other.is_open
    with pytest.raises(Unanswered, match="closed"):
        other.post("/", b"").send(None)


# TLS and the gate


def test_a_connection_is_counted_from_before_its_handshake_until_it_is_lost() -> None:
    async def story() -> None:
        gate = Gate(1)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        first, second = (Handshake(gate, context, asyncio.Protocol()) for _ in range(2))
        wire, another = Wire(), Wire()
        first.connection_made(wire)
        assert (len(gate), gate.shed, wire.said) == (1, 0, [])
        second.connection_made(another)
        assert (len(gate), gate.shed, wire.said, another.said) == (1, 1, ["abort"], [])
        first.connection_lost(None)
        assert len(gate) == 1
        second.cut()
        assert another.said == ["abort"]
        second.connection_lost(None)
        assert len(gate) == 0

    asyncio.run(story())
