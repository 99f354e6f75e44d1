"""kube-scheduler's extenders: who is asked what, in which order, and what a failure means."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection, HTTPSConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.scheduling.extenders import Extender, ExtenderError, Extenders
from fairway.scheduling.profile import DEFAULT_PROFILE
from fairway.twin import extendercalls
from fairway.twin.extendercalls import _connection, call
from fairway.twin.latency import NONE
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

URL = "http://extender:8888/"
Answers = Callable[[Extender, str, Any], Any]


def node(name: str, **allocatable: str) -> Obj:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "20", **allocatable}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": amounts}}


def pod(name: str, priority: int = 0, /, **requests: str) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", **requests}}}
    spec = {"containers": [container], "priority": priority, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "d"}, "spec": spec}


def a_twin(answers: Answers, *extenders: Extender, nodes: int = 3, ignored: tuple[str, ...] = ()) -> Twin:
    profile = replace(DEFAULT_PROFILE, extenders=extenders, ignored_resources=frozenset(ignored))
    twin = Twin(seed=1, latency=NONE, components=standard_components((profile,)))
    (scheduler,) = twin.component("default-scheduler").schedulers.values()  # type: ignore[attr-defined]
    scheduler.extenders = Extenders(extenders, answers, twin.store)
    twin.apply([node(f"n{i}") for i in range(nodes)])
    twin.run_for(SECOND_US)
    return twin


def placed(twin: Twin, *pods: Obj) -> list[str]:
    """The node of each; empty: none."""
    twin.apply(list(pods))
    twin.run_for(5 * SECOND_US)
    found = [twin.store.require(Key("Pod", "d", p["metadata"]["name"])) for p in pods]
    return [f["spec"].get("nodeName", "") for f in found]


def told(twin: Twin, name: str) -> tuple[str, str]:
    conditions = twin.store.require(Key("Pod", "d", name))["status"]["conditions"]
    found = next(c for c in conditions if c["type"] == "PodScheduled")
    return found["reason"], found["message"]


def test_they_are_asked_in_turn_and_what_may_fail_comes_last() -> None:
    asked: list[tuple[str, list[str]]] = []

    def answers(extender: Extender, verb: str, args: Any) -> Any:
        asked.append((extender.url, args["nodenames"]))
        return {"nodenames": args["nodenames"][:-1]}

    fails = Extender("http://a", filter_verb="filter", caches_nodes=True, is_ignorable=True)
    twin = a_twin(answers, fails, Extender("http://b", filter_verb="filter", caches_nodes=True))
    (where,) = placed(twin, pod("p"))
    assert [url for url, _ in asked] == ["http://b", "http://a"]
    assert asked[1][1] == asked[0][1][:-1]
    assert where == asked[1][1][0]


def test_what_it_says_of_nodes_is_told() -> None:
    def answers(extender: Extender, verb: str, args: Any) -> Any:
        assert [n["metadata"]["name"] for n in args["nodes"]["items"]]
        assert args["pod"]["metadata"]["name"] == "p"
        failed = {"n0": "license taken", "n1": "license taken"}
        return {
            "nodes": {"items": []},
            "failedNodes": failed,
            "failedAndUnresolvableNodes": {"n2": "too old"},
        }

    twin = a_twin(answers, Extender(URL, filter_verb="filter"))
    assert placed(twin, pod("p")) == [""]
    assert told(twin, "p") == (
        "Unschedulable",
        "0/3 nodes are available: 1 too old, 2 license taken. no new claims to deallocate, preemption: 0/3 nodes are "
        "available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.",
    )


@pytest.mark.parametrize("is_ignorable", [False, True])
def test_a_failure_stops_the_pod_unless_it_may_be_ignored(is_ignorable: bool) -> None:
    def answers(extender: Extender, verb: str, args: Any) -> Any:
        raise ExtenderError("connection refused")

    twin = a_twin(answers, Extender(URL, filter_verb="filter", is_ignorable=is_ignorable))
    (where,) = placed(twin, pod("p"))
    assert bool(where) == is_ignorable
    if not is_ignorable:
        assert told(twin, "p") == ("SchedulerError", "connection refused")


def test_its_own_error_and_unknown_nodes_are_failures() -> None:
    said: dict[str, Any] = {"error": "no licenses left"}
    extender = Extender(URL, filter_verb="filter", caches_nodes=True)
    twin = a_twin(lambda *_: said, extender)
    assert placed(twin, pod("p")) == [""]
    assert told(twin, "p")[1] == "no licenses left"
    said.clear()
    said["nodenames"] = ["elsewhere"]
    assert placed(twin, pod("q")) == [""]
    assert told(twin, "q")[1] == (
        f'extender "{URL}" claims a filtered node "elsewhere" which is not found in the input node list'
    )


def test_scores_are_weighed_and_added() -> None:
    def answers(extender: Extender, verb: str, args: Any) -> Any:
        assert verb == "prioritize"
        return [{"host": name, "score": 10 if name == "n2" else 0} for name in args["nodenames"]]

    extender = Extender(URL, prioritize_verb="prioritize", weight=5, caches_nodes=True)
    twin = a_twin(answers, extender)
    assert placed(twin, *(pod(f"p{i}") for i in range(4))) == ["n2"] * 4


def test_only_pods_with_its_resources_concern_it() -> None:
    asked: list[str] = []

    def answers(extender: Extender, verb: str, args: Any) -> Any:
        asked.append(args["pod"]["metadata"]["name"])
        return {"nodenames": ["n1"]}

    managed = ("example.com/fpga",)
    extender = Extender(URL, filter_verb="filter", caches_nodes=True, managed=managed)
    twin = a_twin(answers, extender, ignored=managed)
    assert placed(twin, pod("with", 0, **{"example.com/fpga": "1"})) == ["n1"]
    placed(twin, pod("without"))
    assert asked == ["with"]


def test_victims_are_those_it_leaves() -> None:
    def answers(extender: Extender, verb: str, args: Any) -> Any:
        victims = args["nodeNameToMetaVictims"]
        return {"nodeNameToMetaVictims": {"n1": victims["n1"]}}

    extender = Extender(URL, preempt_verb="preempt", caches_nodes=True)
    twin = a_twin(answers, extender)
    assert sorted(placed(twin, *(pod(f"low{i}", cpu="4") for i in range(3)))) == ["n0", "n1", "n2"]
    assert placed(twin, pod("high", 10, cpu="4")) == ["n1"]


def test_a_refused_pod_is_tried_again_when_anything_happens() -> None:
    allows: list[str] = []

    def answers(extender: Extender, verb: str, args: Any) -> Any:
        return {"nodenames": [n for n in args["nodenames"] if n in allows]}

    twin = a_twin(answers, Extender(URL, filter_verb="filter", caches_nodes=True))
    assert placed(twin, pod("p")) == [""]
    allows.append("n9")
    twin.apply([node("n9")])
    twin.run_for(5 * SECOND_US)
    assert placed(twin) == []
    assert twin.store.require(Key("Pod", "d", "p"))["spec"]["nodeName"] == "n9"


def test_it_may_refuse_to_bind() -> None:
    says = {"error": "node busy"}
    twin = a_twin(lambda *_: dict(says), Extender(URL, bind_verb="bind"))
    assert placed(twin, pod("p")) == [""]
    assert told(twin, "p")[1] == "node busy"
    says.clear()
    twin.run_for(60 * SECOND_US)
    assert twin.store.require(Key("Pod", "d", "p"))["spec"]["nodeName"]


@contextmanager
def served(body: bytes, code: int = 200) -> Iterator[tuple[str, list[Any]]]:
    """An extender that answers everything alike; and what it was sent."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            got.append((self.path, self.headers["Content-Type"], json.loads(self.rfile.read(length))))
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/scheduler/", got
    finally:
        server.shutdown()
        server.server_close()


def test_it_is_really_called() -> None:
    with served(b'{"NodeNames": ["n1"]}') as (url, got):
        twin = a_twin(call, Extender(url, filter_verb="filter", caches_nodes=True))
        assert placed(twin, pod("p")) == ["n1"]
    ((path, kind, sent),) = got
    assert (path, kind) == ("/scheduler/filter", "application/json")
    assert sorted(sent["nodenames"]) == ["n0", "n1", "n2"]
    assert sent["pod"]["metadata"]["name"] == "p"


def test_a_scheduler_calls_those_of_its_profile() -> None:
    with served(b'{"NodeNames": ["n1"]}') as (url, got):
        asks = Extender(url, filter_verb="filter", caches_nodes=True)
        twin = Twin(
            latency=NONE, components=[SchedulerComponent((replace(DEFAULT_PROFILE, extenders=(asks,)),))]
        )
        twin.apply([node(f"n{i}") for i in range(3)])
        assert placed(twin, pod("p"), pod("q")) == ["n1", "n1"]
        assert [sent["pod"]["metadata"]["name"] for _, _, sent in got] == ["p", "q"]


def test_calls_fail_in_the_words_of_the_client() -> None:
    with served(b"{}", 503) as (url, _):
        with pytest.raises(ExtenderError) as failed:
            call(Extender(url), "filter", {})
        assert str(failed.value) == f"failed filter with extender at URL {url}filter, code 503"
    with pytest.raises(ExtenderError, match="connect: connection refused"):
        call(Extender(url), "filter", {})
    with served(b"<html>") as (url, _), pytest.raises(ExtenderError, match="invalid character"):
        call(Extender(url), "filter", {})


ODD: tuple[Any, ...] = (
    *(None, 1, 1.5, True, "x", [], {}, [1], [["a"]]),
    *({"nodenames": [1]}, {"nodenames": [{}]}, {"nodenames": "n"}, {"nodes": 5}, {"nodes": {"items": 7}}),
    {"nodes": {"items": [1, {"metadata": {"name": 5}}, {"metadata": {}}]}},
    {"failedNodes": [1], "nodenames": ["n", "n"]},
    *({"nodeNameToMetaVictims": {"n": 5}}, {"nodeNameToMetaVictims": [1]}),
    {"nodeNameToMetaVictims": {"n": {"pods": [5], "numPDBViolations": "x"}}},
    *([{"host": "n", "score": 10**40}], [{"host": "n", "score": "a"}], [{"score": 1}]),
)


@pytest.mark.parametrize("verb", ["filter_verb", "prioritize_verb", "preempt_verb", "bind_verb"])
@pytest.mark.parametrize("caches_nodes", [False, True])
def test_odd_answers_are_errors_and_never_more(verb: str, caches_nodes: bool) -> None:
    asking = {"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {"containers": []}}
    victim = {"metadata": {"name": "v", "namespace": "d", "uid": "v"}}
    store = Twin(seed=1, latency=NONE, components=[]).store
    for odd in ODD:
        verbs: dict[str, Any] = {verb: "verb"}
        extender = Extender(URL, caches_nodes=caches_nodes, **verbs)

        def answers(*_: Any, odd: Any = odd) -> Any:
            return odd

        asked = Extenders([extender], answers, store)
        steps: list[tuple[Callable[..., Any], Any]] = [
            (asked.passed, ["n"]),
            (asked.scores, ["n"]),
            (asked.preempting, {"n": ([victim], 0)}),
            (asked.binds, "n"),
        ]
        for step, about in steps:
            try:
                found = step(asking, about)
            except ExtenderError:
                continue
            named = found.nodes if hasattr(found, "nodes") else found
            assert not named or set(named) <= {"n"}


def test_a_connection_asks_for_a_certificate_unless_it_was_told_not_to() -> None:
    plain = _connection(Extender("", timeout_s=3), "http", "h", 8888)
    assert (type(plain), plain.host, plain.port, plain.timeout) == (HTTPConnection, "h", 8888, 3)
    for is_unverified in (False, True):
        made = _connection(Extender("", timeout_s=3, is_unverified=is_unverified), "https", "h", None)
        assert isinstance(made, HTTPSConnection)
        assert (made.host, made.port, made.timeout) == ("h", 443, 3)
        context: ssl.SSLContext = made._context  # type: ignore[attr-defined]
        want = (False, ssl.CERT_NONE) if is_unverified else (True, ssl.CERT_REQUIRED)
        assert (context.check_hostname, context.verify_mode) == want


def test_an_answer_may_have_64_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extendercalls, "_MOST_BYTES", 5)
    with served(b'"abc"') as (url, _):
        assert call(Extender(url), "filter", {}) == "abc"
    with served(b'"abcd"') as (url, _), pytest.raises(ExtenderError) as failed:
        call(Extender(url), "filter", {})
    assert str(failed.value) == f'Post "{url}filter": an answer of more than 0 MiB'


def test_who_does_not_answer_in_time() -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    with silent, pytest.raises(ExtenderError) as failed:
        call(Extender(url, timeout_s=0.02), "filter", {})
    why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert str(failed.value) == f'Post "{url}/filter": {why}'


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://x:99999", "http://127.0.0.1:1/ a", "https://127.0.0.1:1"]
)
def test_addresses_that_lead_nowhere(url: str) -> None:
    with pytest.raises(ExtenderError):
        call(Extender(url, timeout_s=0.5), "filter", {})
