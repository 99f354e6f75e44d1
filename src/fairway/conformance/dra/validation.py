"""Sends recorded requests about devices and claims to a fresh server: refused, or stored, as kube-apiserver did?

A recording is one JSON object a line: `verb` (create, replace, patch-status), the `object`, the `base` it is made from,
a merge `patch`, and what came of it: `status`, `reason`, `message`, `causes`, or what was `stored`.

Not compared: the difference of two pod specs that kube-apiserver prints below a refused update, because it shows names
drawn at random and what the recorded build adds to every pod.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

from fairway.conformance.api.requests import CODE, Client, Request, prepare
from fairway.conformance.kubectl.playing import fresh_server
from fairway.conformance.rows import nothing_recorded, read_rows
from fairway.conformance.verification import Difference, Verification
from fairway.kube.kinds import BY_GROUP_KIND
from fairway.kube.objects import Obj, gk_of

_VERBS: Final = ("create", "replace", "patch", "patch-status")
_MERGE: Final = "application/merge-patch+json"
_NAMESPACE: Final = "default"
_SPEC_DIFFERENCE: Final = "\n@@"


def verify_validation(file: Path) -> Verification:
    """Play a recording.

    Raises: InvalidInput (no recording), WorldError (the server does not start, or does not answer).
    """
    rows = list(read_rows(file, _wrong))
    if not rows:
        raise nothing_recorded(file, "request")
    result = Verification()
    with (
        tempfile.TemporaryDirectory(prefix="fairway-dra-") as folder,
        fresh_server(Path(folder) / "data", paused=True) as kubeconfig,
    ):
        client = Client(Path(kubeconfig).parent)
        prepare(client, [Request(0, "", "GET", f"/namespaces/{_NAMESPACE}", None, "", {}, 0, None, CODE)])
        for number, row in rows:
            result.count(_play(client, number, row))
    return result


def _wrong(row: Any) -> tuple[str, str] | None:
    if not isinstance(row, dict):
        return "", "expected an object with verb, object and status"
    if row.get("verb") not in _VERBS:
        return "verb", f"expected one of {', '.join(_VERBS)}"
    if not isinstance(row.get("status"), int):
        return "status", "expected a number"
    for name in ("object", "base"):
        value = row.get(name)
        if value is None and name == "base":
            continue
        if not isinstance(value, dict) or gk_of(value) not in BY_GROUP_KIND:
            return name, "expected an object of a kind that Kubernetes has"
        if not isinstance((value.get("metadata") or {}).get("name"), str):
            return f"{name}.metadata.name", "expected text"
    return None


def _play(client: Client, number: int, row: Obj) -> list[Difference]:
    obj, verb = row["object"], row["verb"]
    namespace = obj["metadata"].get("namespace") or _NAMESPACE
    if namespace != _NAMESPACE:
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        client.send("POST", "/api/v1/namespaces", made)
    collection = _collection(obj, namespace)
    path = f"{collection}/{obj['metadata']['name']}"
    if row.get("base") is not None:
        client.send("POST", collection, row["base"])
    query = "?fieldValidation=Strict"
    if verb == "create":
        request = ("POST", collection + query, obj, "application/json")
    elif verb == "replace":
        request = ("PUT", path + query, obj, "application/json")
    else:
        where = f"{path}/status" if verb == "patch-status" else path
        request = ("PATCH", where + query, row["patch"], _MERGE)
    method, where, body, media = request
    status, answer = client.ask(Request(number, row["name"], method, where, body, media, {}, 0, None, CODE))
    found = _differences(number, row, status, answer)
    _, stored = client.send("GET", path)
    if isinstance(stored, dict) and (stored.get("metadata") or {}).get("finalizers"):
        client.ask(
            Request(number, "", "PATCH", path, {"metadata": {"finalizers": None}}, _MERGE, {}, 0, None, CODE)
        )
    client.send("DELETE", path, {"gracePeriodSeconds": 0})
    return found


def _collection(obj: Obj, namespace: str) -> str:
    kind = BY_GROUP_KIND[gk_of(obj)]
    version = obj["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    inside = f"/namespaces/{namespace}" if kind.namespaced else ""
    return f"{root}{inside}/{kind.plural}"


def _differences(number: int, row: Obj, status: int, answer: Any) -> list[Difference]:
    body = answer if isinstance(answer, dict) else {}
    pairs: list[tuple[str, Any, Any]] = [("code", row["status"], status)]
    if row["status"] >= 400:
        pairs += [
            ("reason", row.get("reason"), body.get("reason")),
            ("message", _comparable(row.get("message")), _comparable(body.get("message"))),
            ("causes", _causes(row.get("causes")), _causes((body.get("details") or {}).get("causes"))),
        ]
    else:
        stored = row.get("stored") or {}
        pairs += [(name, stored[name], body.get(name)) for name in ("spec", "status") if name in stored]
    return [
        Difference(number, row["name"], aspect, str(wanted), str(got))
        for aspect, wanted, got in pairs
        if wanted != got
    ]


def _comparable(text: Any) -> Any:
    return text.partition(_SPEC_DIFFERENCE)[0] if isinstance(text, str) else text


def _causes(causes: Any) -> list[Obj]:
    return [{**c, "message": _comparable(c.get("message"))} for c in causes or ()]
