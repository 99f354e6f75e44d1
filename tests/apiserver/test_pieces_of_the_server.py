"""Pieces of the API server by themselves: words of errors, orders, files, limits."""

from __future__ import annotations

import json
import random
import resource
import socket
import ssl
from pathlib import Path
from typing import Any

import httptools
import pytest

from fairway import __version__
from fairway.apiserver import buildinfo, ruleskept, webhookcalls
from fairway.apiserver.kubelets.ports import ModelServerPort
from fairway.apiserver.patching import fieldset
from fairway.apiserver.resources import Resources, version_order
from fairway.apiserver.ruleskept import Kept
from fairway.apiserver.wire import gate
from fairway.telemetry.alertmanager.dispatching import Told
from fairway.telemetry.store import MemoryStore, labels

# Fields

ELEMENTS = {
    "f:": True,
    "f:name": True,
    "i:0": True,
    "i:-1": True,
    "i:--1": False,
    "i:": False,
    "i:x": False,
    "i:٣": False,
    'k:{"name":"c"}': True,
    "k:{}": True,
    "k:[]": False,
    "k:1": False,
    "k:{": False,
    "v:1": True,
    "v:[]": True,
    'v:"x"': True,
    "v:{}": True,
    "v:": False,
    "v:x": False,
    "x:1": False,
    "": False,
    ".": True,
}


@pytest.mark.parametrize("element", ELEMENTS)
def test_what_is_an_element_of_a_field_set(element: str) -> None:
    assert fieldset.is_field_set({element: {}}) is ELEMENTS[element]
    assert fieldset.is_field_set({"f:spec": {element: {}, ".": {}}}) is ELEMENTS[element]
    assert not fieldset.is_field_set({element: []})


def test_paths_as_conflicts_print_them() -> None:
    path = ("f:spec", "f:containers", 'k:{"name":"c","port":80}', "f:args", 'v:"x"', "i:3", 'v:{"a":1}')
    want = '.spec.containers[name="c",port=80].args[="x"][3][={"a":1}]'
    assert fieldset.path_text(path) == want


# Versions


def test_versions_are_ordered_as_kubernetes_orders_them() -> None:
    ordered = [
        "v10",
        "v2",
        "v1",
        "v11beta2",
        "v10beta3",
        "v3beta1",
        "v12alpha1",
        "v11alpha2",
        "foo1",
        "foo10",
    ]
    shuffled = random.Random(1).sample(ordered, len(ordered))
    assert sorted(shuffled, key=version_order) == ordered
    odd = ["v1beta", "v", "1", "v1gamma1", "V1", "v1 "]
    assert all(version_order(v) == (3, 0, 0, v) for v in odd)


def test_a_resource_is_found_by_its_kind_in_its_group_and_version() -> None:
    resources = Resources()
    assert {str(resources.of_kind(*asked)) for asked in [("apps/v1", "Deployment")]} != {"None"}
    for api_version, kind, plural in (
        ("v1", "Pod", "pods"),
        ("apps/v1", "Deployment", "deployments"),
        ("batch/v1", "Job", "jobs"),
    ):
        found = resources.of_kind(api_version, kind)
        assert found is not None
        group = api_version.rpartition("/")[0]
        assert (found.kind.plural, found.group, found.version) == (plural, group, "v1")
        assert found is resources.find(group, "v1", plural)
    for api_version, kind in (("v1", "Deployment"), ("apps/v2", "Deployment"), ("apps/v1", "Pod")):
        assert resources.of_kind(api_version, kind) is None


def test_which_kubernetes_it_says_to_be() -> None:
    said = buildinfo.version()
    assert {name: text for name, text in said.items() if "." not in text and "/" not in text} == {
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "compiler": "CPython",
    }
    assert said["gitVersion"] == f"v1.36.3+fairway.{__version__}"
    assert said["goVersion"].startswith("python3.") and said["platform"].startswith("linux/")


# Webhooks


def test_what_went_wrong_on_the_way_to_a_webhook_in_gos_words() -> None:
    where = ("hook.shop.svc", 8443)
    said = {
        "dial tcp hook.shop.svc:8443: connect: connection refused": ConnectionRefusedError(),
        "tls: failed to verify certificate: x509: certificate signed by unknown authority": (
            ssl.SSLCertVerificationError()
        ),
        "dial tcp: lookup hook.shop.svc: no such host": socket.gaierror(),
        "EOF": webhookcalls.Unanswered(),
        "ValueError: why": ValueError("why"),
    }
    for words, failed in said.items():
        assert webhookcalls._go_words(failed, where) == words


def test_an_answer_that_is_no_review() -> None:
    assert webhookcalls._decoded(b'{"a":1}').review == {"a": 1}
    for broken in (b"", b"{", b"\xff", b"[" * 5000):
        error = webhookcalls._decoded(broken).error
        assert error is not None and error.startswith("couldn't get version/kind; json parse error: ")
    for other in (b"[]", b"1", b'"x"', b"null"):
        want = "couldn't get version/kind; json parse error: not an object"
        assert webhookcalls._decoded(other).error == want


def test_where_a_webhook_is() -> None:
    assert webhookcalls._service_url({"name": "hook", "namespace": "shop"}) == "https://hook.shop.svc:443/"
    service = {"name": "hook", "namespace": "shop", "port": 8443, "path": "/a/b"}
    url = webhookcalls._service_url(service)
    assert url == "https://hook.shop.svc:8443/a/b"
    target = webhookcalls._target(url, ("10.0.0.1", 9))
    assert target == webhookcalls.Target(("10.0.0.1", 9), "hook.shop.svc", "hook.shop.svc:8443")
    assert webhookcalls._target("https://hook", None) == webhookcalls.Target(("hook", 443), "hook", "hook")
    for wrong in ("http://hook", "https://", "https://a b", "https://ä"):
        with pytest.raises(ValueError):
            webhookcalls._target(wrong, None)


# Descriptors

UNLIMITED = resource.RLIM_INFINITY
WANTED = gate.MOST_CONNECTIONS + gate._SPARE
LIMITS = {
    "low, and may be raised": ((10, UNLIMITED), WANTED),
    "low, and may be raised a little": ((10, 20), 20),
    "as high as it gets": ((20, 20), None),
    "enough": ((WANTED, UNLIMITED), None),
    "one short": ((WANTED - 1, WANTED + 5), WANTED),
    "more than enough": ((WANTED + 1, WANTED + 2), None),
    "none": ((UNLIMITED, UNLIMITED), None),
}


@pytest.mark.parametrize("name", LIMITS)
def test_as_many_descriptors_as_are_wanted_and_allowed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (soft, hard), want = LIMITS[name]
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: told.append(both))
    gate.raise_limit()
    assert told == ([] if want is None else [(want, hard)])


@pytest.mark.parametrize(
    ("soft", "want"),
    [
        (UNLIMITED, gate.MOST_CONNECTIONS),
        (0, gate.MOST_CONNECTIONS),
        (1, 16),
        (gate._SPARE + 16, 16),
        (gate._SPARE + 17, 17),
        (WANTED, gate.MOST_CONNECTIONS),
        (WANTED + 1, gate.MOST_CONNECTIONS),
        (WANTED - 1, gate.MOST_CONNECTIONS - 1),
    ],
)
def test_connections_leave_descriptors_for_files(
    soft: int, want: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert gate.most_connections() == want


# What rules remember

A, B, C = (labels("up", {"pod": p}) for p in "abc")


def _kept(file: Path, now_ms: int = 10**6) -> tuple[list[Any], list[Any], Any, Any]:
    scraped, recorded = MemoryStore(), MemoryStore()
    past, told = Kept(file).load(now_ms, scraped, recorded)
    return _points(scraped), _points(recorded), past, told


def _points(store: MemoryStore) -> list[Any]:
    found = [
        (dict(one.labels)["pod"], int(at), float(value))
        for one in store.select([], 0, 10**9)
        for at, value in zip(one.times, one.values, strict=True)
    ]
    return sorted(found, key=lambda p: (p[1], p[0]))


def _told(at_ms: int) -> Any:
    return {("r", "g", "", 1): Told(frozenset({A}), frozenset({B}), at_ms)}


def test_what_is_kept_is_read_again_and_damage_ends_it(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "rules"
    kept = Kept(file)
    kept.keep(1, [(A, 1.0), (B, 2.0)], [(C, 3.0)], {A: (1, 0.5)}, _told(1))
    kept.keep(2, [(B, 4.0)], [], {B: (2, 0.25)}, _told(1))
    whole = file.stat().st_size
    kept.keep(3, [(A, 5.0)], [(A, 6.0)], {}, _told(3))
    first = [("a", 1, 1.0), ("b", 1, 2.0), ("b", 2, 4.0)]
    assert _kept(file) == ([*first, ("a", 3, 5.0)], [("c", 1, 3.0), ("a", 3, 6.0)], {}, _told(3))
    assert _kept(file, 2) == (first, [("c", 1, 3.0)], {B: (2, 0.25)}, _told(1)), "of later is left out"
    data = file.read_bytes()
    damages = {
        "torn": data[:-1],
        "a torn length": data[: whole + 3],
        "no record": data[:whole] + (4).to_bytes(4, "big") + b"\xc1abc",
        "a length beyond all": data[:whole] + (1 << 31).to_bytes(4, "big") + b"x" * 100,
        "a number that no label has": data[:whole] + _with_number(data[whole:], 9),
    }
    for name, damaged in damages.items():
        file.write_bytes(damaged)
        assert _kept(file) == (first, [("c", 1, 3.0)], {B: (2, 0.25)}, _told(1)), name
        assert file.stat().st_size == whole, f"{name}: cut off"
    again = Kept(file)
    again.load(10, MemoryStore(), MemoryStore())
    again.keep(4, [(A, 7.0)], [], {}, _told(1))
    assert _kept(file)[0] == [*first, ("a", 4, 7.0)], "labels keep their numbers"


def _with_number(record: bytes, number: int) -> bytes:
    """The record with another number of its one scraped sample."""
    import msgspec

    parts = msgspec.msgpack.decode(record[4:])
    parts[2][0][0] = number
    data = msgspec.msgpack.encode(parts)
    return len(data).to_bytes(4, "big") + data


def test_what_is_forgotten_leaves_the_rest_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    kept = Kept(file)
    for at, one in ((1, A), (2, B), (3, C)):
        kept.keep(at, [(one, float(at))], [(A, 0.5)], {one: (at, 1.0)}, _told(1))
    kept.forget(2)
    want = ([("b", 2, 2.0), ("c", 3, 3.0)], [("a", 2, 0.5), ("a", 3, 0.5)], {C: (3, 1.0)}, _told(1))
    assert _kept(file) == want
    kept.keep(4, [(A, 4.0)], [], {}, _told(1))
    assert _kept(file)[0] == [*want[0], ("a", 4, 4.0)]
    kept.forget(100)
    assert file.stat().st_size == 0


def test_a_file_that_is_full_keeps_nothing_more_until_it_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its bytes may be as many as that, and so may those of one record."""
    file = tmp_path / "rules"
    Kept(file).keep(1, [(A, 1.0)], [], {}, {})
    record = file.stat().st_size - 4
    for limit in ("MOST_BYTES", "_MOST_RECORD"):
        for most, is_kept in ((record, True), (record - 1, False)):
            file.unlink(missing_ok=True)
            caplog.clear()
            with monkeypatch.context() as patched:
                patched.setattr(ruleskept, limit, most)
                kept = Kept(file)
                kept.keep(1, [(A, 1.0)], [], {}, {})
            assert file.exists() is is_kept
            said = f"{file}: more than {0 if limit == 'MOST_BYTES' else 64} MiB: nothing more is kept"
            assert [r.getMessage() for r in caplog.records] == ([] if is_kept else [said])
            kept.keep(2, [(A, 2.0)], [], {}, {})
            assert file.exists() is is_kept, "full is full until it is written anew"


def test_what_is_kept_is_counted_whoever_wrote_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that were read, written and written anew: the limit is the file's."""
    file = tmp_path / "rules"
    kept = Kept(file)
    for at in (1, 2, 3):
        kept.keep(at, [(A, 1.0)], [], {}, {})
        assert kept._bytes == file.stat().st_size
    again = Kept(file)
    again.load(9, MemoryStore(), MemoryStore())
    assert again._bytes == file.stat().st_size
    again.forget(2)
    assert again._bytes == file.stat().st_size and [at for _, at, _ in _kept(file)[0]] == [2, 3]
    monkeypatch.setattr(ruleskept, "MOST_BYTES", again._bytes)
    again.keep(4, [(A, 1.0)], [], {}, {})
    again.forget(3)
    again.keep(5, [(A, 1.0)], [], {}, {})
    assert [at for _, at, _ in _kept(file)[0]] == [3, 5], "written anew it has room again"


# A model server's connection


class _Peer:
    def __init__(self) -> None:
        self.said = b""
        self.has_ended = False

    def write(self, data: bytes) -> None:
        self.said += data

    def end(self) -> None:
        self.has_ended = True


class _Answers:
    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    def on_body(self, body: bytes) -> None:
        self.body += body


def _asked(request: bytes) -> tuple[list[tuple[int, Any]], _Peer]:
    from fairway.apiserver.kubelets.modelserver import engine_of

    container = {"name": "c", "image": "vllm/vllm-openai", "args": ["--model", "microsoft/phi-2"]}
    pod = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [container]}}
    peer = _Peer()
    port = ModelServerPort(peer, "said", engine_of(container, None, pod))  # type: ignore[arg-type]
    port.receive(request)
    found = []
    rest = peer.said
    while rest:
        answer = _Answers()
        parser = httptools.HttpResponseParser(answer)
        head, _, after = rest.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        parser.feed_data(head + b"\r\n\r\n" + after[:length])
        found.append((parser.get_status_code(), json.loads(answer.body) if answer.body else None))
        rest = after[length:]
    return found, peer


def test_a_model_server_answers_in_turn_and_knows_what_it_does_not_serve() -> None:
    get = b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n"
    found, peer = _asked(get % b"/version" + get % b"/v1/completions" + get % b"/nothing?x=1" + get % b"/")
    assert found[0][0] == 200 and "version" in found[0][1]
    assert found[1:] == [
        (405, {"detail": "Method Not Allowed"}),
        (404, {"detail": "Not Found"}),
        (404, {"detail": "Not Found"}),
    ]
    assert not peer.has_ended
