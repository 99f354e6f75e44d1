"""Webhooks that misbehave: what they may not change, how long they may take, and that nobody else notices."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map
from test_webhook_services import _certificate

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"

Answer = Callable[[dict[str, Any]], dict[str, Any] | None]


class Hook:
    """Answers each review with what `answer` makes of its request; None: never. `connections` were opened to it."""

    def __init__(self, folder: Path) -> None:
        self.authority = _certificate(folder, "localhost")
        self.answer: Answer = lambda _request: {}
        self.connections = 0
        self.given_up = threading.Event()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "hook.crt", folder / "hook.key")
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        try:
            with self._context.wrap_socket(plain, server_side=True) as secure, secure.makefile("rb") as file:
                while file.readline():
                    length = 0
                    while (line := file.readline().strip()) != b"":
                        if line.lower().startswith(b"content-length:"):
                            length = int(line.split(b":")[1])
                    request = json.loads(file.read(length))["request"]
                    answer = self.answer(request)
                    if answer is None:
                        # Whoever waits for us hangs up first.
                        file.readline()
                        self.given_up.set()
                        return
                    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
                    told = {"uid": request["uid"], "allowed": True, **answer}
                    text = json.dumps({**review, "response": told}).encode()
                    secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
        except OSError:
            self.given_up.set()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def hook(api: Served, tmp_path: Path) -> Iterator[Hook]:
    found = Hook(tmp_path)
    yield found
    api.ask("DELETE", f"{MUTATING}/hook")
    found.close()


def configure(api: Served, hook: Hook, resource: str = "configmaps", timeout_s: int = 5) -> None:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": [resource]}
    webhook = {
        "name": "hook.example.com",
        "clientConfig": {"caBundle": hook.authority, "url": f"https://localhost:{hook.port}/x"},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": timeout_s,
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hook"},
        "webhooks": [webhook],
    }
    code, said = api.ask("POST", MUTATING, body)
    assert code == 201, said


def patching(*operations: Any) -> Answer:
    patch = b64encode(json.dumps(list(operations)).encode()).decode()
    return lambda _request: {"patchType": "JSONPatch", "patch": patch}


def replacing(path: str, value: Any) -> Answer:
    return patching({"op": "add", "path": path, "value": value})


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


FOREIGN = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "w", "namespace": "default"}}
PATCHES: dict[str, tuple[Answer, int, str]] = {
    "another namespace": (
        replacing("/metadata/namespace", "kube-system"),
        400,
        "does not match the namespace",
    ),
    "another name": (replacing("/metadata/name", "victim"), 422, "metadata.name: Invalid value"),
    "another kind": (replacing("/kind", "Secret"), 500, "unknown conversion"),
    "another version": (replacing("/apiVersion", "v2"), 500, "unknown conversion"),
    "another object": (replacing("", FOREIGN), 500, "unknown conversion"),
    "no object": (replacing("", [1]), 500, "Object 'Kind' is missing"),
    "nothing": (patching({"op": "remove", "path": ""}), 500, "Object 'Kind' is missing"),
    "metadata that is a text": (replacing("/metadata", "x"), 500, "json: cannot unmarshal string"),
    "data that is a list": (replacing("/data", ["x"]), 500, "json: cannot unmarshal array"),
    "too deep": (replacing("/data", nested(400)), 500, "nested deeper"),
    "doubled again and again": (
        patching(
            {"op": "add", "path": "/data", "value": nested(100)},
            *[{"op": "copy", "from": "/data", "path": "/data" + "/a" * 100 * 2**n} for n in range(4)],
        ),
        500,
        "",
    ),
    "a patch that is no list": (
        lambda _: {"patchType": "JSONPatch", "patch": b64encode(b"7").decode()},
        500,
        "",
    ),
    "a patch that is a list": (lambda _: {"patchType": "JSONPatch", "patch": [1]}, 500, "cannot unmarshal"),
    "a patch of brackets": (
        lambda _: {"patchType": "JSONPatch", "patch": b64encode(b"[" * 5000).decode()},
        500,
        "undecodable",
    ),
    "operations that are numbers": (patching(1), 500, "undecodable"),
    "a status that is a text": (lambda _: {"allowed": False, "status": "no"}, 500, "cannot unmarshal"),
    "a code that is a text": (lambda _: {"allowed": False, "status": {"code": "x"}}, 500, "cannot unmarshal"),
    "warnings that are numbers": (lambda _: {"warnings": [1]}, 500, "cannot unmarshal"),
    "annotations that are a list": (lambda _: {"auditAnnotations": []}, 500, "cannot unmarshal"),
    "a refusal as a success": (
        lambda _: {"allowed": False, "status": {"code": 200, "status": "Success"}},
        400,
        "",
    ),
}


def names(api: Served) -> list[str]:
    store = api.server.api.store
    made = [o["metadata"] for kind in ("ConfigMap", "Secret", "Pod") for o in store.objects(kind)]
    return [m["name"] for m in made if not m["namespace"].startswith(("kube-", "kueue-"))]


@pytest.mark.parametrize("name", PATCHES)
def test_what_a_webhook_may_not_make_of_an_object(
    api: Served, hook: Hook, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    hook.answer, want, words = PATCHES[name]
    configure(api, hook)
    before = names(api)
    code, said = api.ask("POST", CONFIG_MAPS, config_map("w"))
    assert (code, said["status"]) == (want, "Failure"), said
    assert words in said["message"]
    # Components write meanwhile, events and leases: what matters is that no object came into being, under any name.
    assert names(api) == before
    assert not [r for r in caplog.records if r.exc_info], "no failure of ours"


def test_what_is_the_servers_a_webhook_does_not_set(api: Served, hook: Hook) -> None:
    hook.answer = patching(
        *(
            {"op": "add", "path": f"/metadata/{field}", "value": value}
            for field, value in (
                ("uid", "mine"),
                ("creationTimestamp", "2001-01-01T00:00:00Z"),
                ("deletionTimestamp", "2001-01-01T00:00:00Z"),
                ("labels", {"patched": "yes"}),
            )
        )
    )
    configure(api, hook)
    for method, path in (("POST", CONFIG_MAPS), ("PUT", f"{CONFIG_MAPS}/w")):
        code, made = api.ask(method, path, config_map("w", a=method))
        assert code in (200, 201), made
        meta = made["metadata"]
        assert (
            meta["uid"] != "mine" and meta["creationTimestamp"] > "2002" and "deletionTimestamp" not in meta
        )
        assert meta["labels"] == {"patched": "yes"}
    api.ask("DELETE", f"{MUTATING}/hook")
    assert api.ask("DELETE", f"{CONFIG_MAPS}/w")[0] == 200


def test_an_update_stays_with_its_object(api: Served, hook: Hook) -> None:
    """A webhook that renames wrote to another object than was authorized."""
    for name in ("victim", "own"):
        api.ask("POST", CONFIG_MAPS, config_map(name, of=name))
    hook.answer = replacing("/metadata/name", "victim")
    configure(api, hook)
    assert api.ask("PUT", f"{CONFIG_MAPS}/own", config_map("own", of="attacker"))[0] == 422
    assert api.ask("GET", f"{CONFIG_MAPS}/victim")[1]["data"] == {"of": "victim"}
    api.ask("DELETE", f"{MUTATING}/hook")
    for name in ("victim", "own"):
        api.ask("DELETE", f"{CONFIG_MAPS}/{name}")


@pytest.mark.parametrize(("writes", "version", "code"), [(4, "", 200), (1, "named", 409)])
def test_a_patch_is_made_again_of_what_another_write_left(
    api: Served, hook: Hook, writes: int, version: str, code: int
) -> None:
    """While the webhook is asked about our patch, somebody else writes; only who names a version is told of it."""
    created = api.ask("POST", CONFIG_MAPS, config_map("shared", first="1"))[1]
    seen: list[dict[str, Any]] = []

    def merge(manager: str, patch: dict[str, Any]) -> tuple[int, Any]:
        form = {"Content-Type": "application/merge-patch+json"}
        return api.ask("PATCH", f"{CONFIG_MAPS}/shared?fieldManager={manager}", patch, headers=form)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["options"].get("fieldManager") == "us":
            seen.append(request["oldObject"]["data"])
            if len(seen) <= writes:
                assert merge("another", {"data": {"other": str(len(seen))}})[0] == 200
        return {}

    hook.answer = answer
    configure(api, hook)
    named = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}} if version else {}
    got, said = merge("us", {"data": {"ours": "x"}, **named})
    api.ask("DELETE", f"{MUTATING}/hook")
    kept = api.ask("GET", f"{CONFIG_MAPS}/shared")[1]["data"]
    api.ask("DELETE", f"{CONFIG_MAPS}/shared")
    assert got == code, said
    assert kept["other"] == str(writes)
    if code == 200:
        assert kept["ours"] == "x"
        assert [data.get("other") for data in seen] == [None, "1", "2", "3", "4"]
    else:
        assert "ours" not in kept
        assert "the object has been modified" in said["message"]


def test_connections_are_kept(api: Served, hook: Hook) -> None:
    configure(api, hook)
    for number in range(5):
        assert api.ask("POST", f"{CONFIG_MAPS}?dryRun=All", config_map(f"k{number}"))[0] == 201
    assert hook.connections == 1


def test_a_connection_that_was_closed_meanwhile_is_opened_again(api: Served, hook: Hook) -> None:
    configure(api, hook)
    assert api.ask("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("k"))[0] == 201
    for place in api.server.api.webhooks._places.values():
        for link in place.idle:
            api.call(link._transport.abort)
    assert api.ask("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("k"))[0] == 201
    assert hook.connections == 2


def test_a_timeout_is_all_the_time_there_is(api: Served, hook: Hook) -> None:
    """It used to be counted from one read to the next."""
    dripping = threading.Event()

    def drip(plain: socket.socket) -> None:
        with hook._context.wrap_socket(plain, server_side=True) as secure:
            secure.recv(65536)
            try:
                secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                while not dripping.wait(0.1):
                    secure.sendall(b" ")
            except OSError:
                hook.given_up.set()

    hook._serve = drip  # type: ignore[method-assign]
    configure(api, hook, timeout_s=1)
    code, said = api.ask("POST", CONFIG_MAPS, config_map("slow"))
    assert code == 500 and said["message"].endswith("context deadline exceeded")
    assert hook.given_up.wait(10)
    dripping.set()


def test_a_webhook_that_hangs_over_a_controllers_object_holds_up_nobody(api: Served, hook: Hook) -> None:
    api.until_ready()
    asked = threading.Event()

    def hang(request: dict[str, Any]) -> dict[str, Any] | None:
        if "slow" not in json.dumps(request["object"]["metadata"].get("labels") or {}):
            return {}
        asked.set()
        return None

    hook.answer = hang
    configure(api, hook, "pods", timeout_s=30)
    for name in ("slow", "quick"):
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}
        assert api.ask("POST", REPLICA_SETS, body)[0] == 201
        if name == "slow":
            assert asked.wait(10)
    began = time.monotonic()
    assert api.ask("GET", "/livez")[0] == 200
    assert api.ask("POST", CONFIG_MAPS, config_map("meanwhile"))[0] == 201
    until(lambda: len(pods(api, "quick")) == 2)
    assert pods(api, "slow") == []
    assert time.monotonic() - began < 20, "the webhook has 30 s"
    assert api.ask("GET", "/readyz")[0] == 200
    hook.answer = lambda _request: {}
    for asking in list(api.server.api.webhooks._asking):
        api.call(asking.cancel)
    for name in ("slow", "quick"):
        api.ask("DELETE", f"{REPLICA_SETS}/{name}")
    api.ask("DELETE", f"{CONFIG_MAPS}/meanwhile")


def pods(api: Served, app: str) -> list[str]:
    _, found = api.ask("GET", f"/api/v1/namespaces/default/pods?labelSelector=app%3D{app}")
    return [p["metadata"]["name"] for p in found["items"]]


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        threading.Event().wait(0.02)


URLS = {
    "http://localhost/x": "'https' is the only allowed URL scheme",
    "file:///etc/passwd": "'https' is the only allowed URL scheme",
    "https:///x": "host must be specified",
    "https://user:secret@localhost/x": "user information is not permitted in the URL",
    "https://localhost/x#here": "fragments are not permitted in the URL",
    "https://localhost/x?a=b": "query parameters are not permitted in the URL",
    "https://localhost:99999/x": "url must be a valid URL",
}


@pytest.mark.parametrize("url", URLS)
def test_urls_that_no_webhook_has(api: Served, url: str) -> None:
    webhook = {
        "name": "hook.example.com",
        "clientConfig": {"url": url},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "nowhere"},
        "webhooks": [webhook],
    }
    code, said = api.ask("POST", MUTATING, body)
    assert code == 422 and URLS[url] in said["message"], said
