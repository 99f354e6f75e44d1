"""Plays recorded HTTP requests against a fresh server: the same code, message and body?

A recording is one JSON object a line: `label`, `method`, `path`, `body`, `content_type`, `headers`, what
kube-apiserver said to it (`status`, `answer`), and what of that must be equal (`compare`). Requests are sent in order
to one server whose components stand still, because none ran where the recordings were made.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import tempfile
import time
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fairway.conformance.kubectl.playing import fresh_server
from fairway.conformance.rows import nothing_recorded, read_rows
from fairway.conformance.verification import Difference, Verification
from fairway.errors import WorldError

CODE, MESSAGE, BODY = "code", "code and message", "code and body"
# Who sent the recorded requests: managedFields name it.
_AGENT = "python-requests/2"
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_TIMEOUT_S = 60.0
# The namespace that recorded sessions work in is there before their first request.
_NAMESPACE = re.compile(r"/namespaces/([a-z0-9-]+)")
_READY_TIMEOUT_S = 30.0
# Of an object that is otherwise equal: what no two servers give alike.
_OWN_METADATA = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields"}
)
_OWN_FIELDS = frozenset({"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"})
_TIMES = frozenset({"lastTransitionTime", "lastUpdateTime", "lastProbeTime", "startTime", "renewTime"})
_TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")
_UID = re.compile(r"\bUID\b|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_VERSION = re.compile(r"((?:current|record)(?:: | \())\d+|(\\?\"resourceVersion\\?\":\\?\")\d+")
# A place in a list, not a key of a map.
_INDEX = re.compile(r"^[^\[]*(\[\d+\]|$)")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# The recorded server was a vendored build, which projects this ConfigMap into every token volume.
_VENDORED = "openshift-service-ca.crt"


@dataclass(frozen=True, slots=True)
class Request:
    """One recorded request, and what kube-apiserver answered."""

    line: int
    label: str
    method: str
    path: str
    body: Any
    content_type: str
    headers: dict[str, str]
    status: int
    answer: Any
    compare: str

    @property
    def payload(self) -> bytes | None:
        """What was sent: text as it stands, anything else as JSON."""
        if self.body is None:
            return None
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


def verify_requests(file: Path) -> Verification:
    """Play a recording.

    Raises: InvalidInput (no recording), WorldError (the server does not start, or does not answer).
    """
    requests = read_requests(file)
    result = Verification()
    with (
        tempfile.TemporaryDirectory(prefix="fairway-api-") as folder,
        fresh_server(Path(folder) / "data", paused=True) as kubeconfig,
    ):
        client = Client(Path(kubeconfig).parent)
        prepare(client, requests)
        for request in requests:
            status, answer = client.ask(request)
            result.count(_differences(request, status, answer))
    return result


def read_requests(file: Path) -> list[Request]:
    """The requests of a recording.

    Raises: InvalidInput for a line that is none.
    """
    requests = [_request(number, row) for number, row in read_rows(file, _shape_problem)]
    if not requests:
        raise nothing_recorded(file, "recorded request")
    return requests


def _request(number: int, row: dict[str, Any]) -> Request:
    known: dict[str, Any] = {name: row.get(name) for name in ("method", "path", "body", "status", "answer")}
    label, kind = row.get("label") or row["path"], row.get("content_type") or "application/json"
    compare = row.get("compare", MESSAGE)
    return Request(
        number, label, content_type=kind, headers=row.get("headers") or {}, compare=compare, **known
    )


def _shape_problem(row: Any) -> tuple[str, str] | None:
    """What keeps a row from being a request."""
    if not isinstance(row, dict):
        return ("", "expected an object with method, path, status and answer")
    if row.get("method") not in _METHODS:
        return ("method", f"expected one of {', '.join(sorted(_METHODS))}")
    if not isinstance(row.get("path"), str) or not row["path"].startswith("/"):
        return ("path", "expected a path that starts with /")
    if isinstance(row.get("status"), bool) or not isinstance(row.get("status"), int):
        return ("status", "expected a number")
    if row.get("compare", MESSAGE) not in (CODE, MESSAGE, BODY):
        return ("compare", f"expected {CODE!r}, {MESSAGE!r} or {BODY!r}")
    headers = row.get("headers") or {}
    if not isinstance(headers, dict) or not all(isinstance(v, str) for v in headers.values()):
        return ("headers", "expected an object of texts")
    return None


class Client:
    """Speaks to the server with its administrator's certificate; a connection that fails is made anew."""

    def __init__(self, folder: Path) -> None:
        data = next(p for p in (folder, folder / "data") if (p / "pki").is_dir())
        self._context = ssl.create_default_context(cafile=str(data / "pki" / "ca.crt"))
        self._context.load_cert_chain(data / "pki" / "admin.crt", data / "pki" / "admin.key")
        self._url = urlsplit(msgspec.json.decode((data / "server.json").read_bytes())["url"])

    def ask(self, request: Request) -> tuple[int, Any]:
        """Raises: WorldError."""
        host, port = self._url.hostname or "127.0.0.1", self._url.port
        connection = http.client.HTTPSConnection(host, port, context=self._context, timeout=_TIMEOUT_S)
        try:
            headers = {
                "User-Agent": _AGENT,
                "Content-Type": request.content_type,
                "Accept": "application/json",
            }
            headers |= request.headers
            connection.request(request.method, request.path, request.payload, headers)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
            return response.status, _decoded(text)
        except (OSError, http.client.HTTPException) as failed:
            raise WorldError(f"line {request.line}: {request.label}: no answer: {failed}") from failed
        finally:
            connection.close()

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return self.ask(Request(0, path, method, path, body, "application/json", {}, 0, None, CODE))


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def prepare(client: Client, requests: list[Request]) -> None:
    """The namespace that most requests work in, with its ServiceAccount.

    Raises: WorldError.
    """
    named = [found[1] for request in requests if (found := _NAMESPACE.search(request.path))]
    namespace = max(named, key=named.count, default="default")
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    for path, kind, name in (
        ("/api/v1/namespaces", "Namespace", namespace),
        (accounts, "ServiceAccount", "default"),
    ):
        client.send("POST", path, {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
    until_s = time.monotonic() + _READY_TIMEOUT_S
    while client.send("GET", f"{accounts}/default")[0] != http.HTTPStatus.OK:
        if time.monotonic() > until_s:
            raise WorldError(f"namespace {namespace} got no ServiceAccount within {_READY_TIMEOUT_S:.0f} s")
        time.sleep(0.05)


def _differences(request: Request, status: int, answer: Any) -> list[Difference]:
    found = []
    what = f"{request.label}: {request.method} {request.path}"
    if status != request.status:
        said = f"{status} {_said(answer)}"
        return [Difference(request.line, what, "code", f"{request.status} {_said(request.answer)}", said)]
    pairs: list[tuple[str, Any, Any]] = []
    if request.compare == MESSAGE:
        wanted, answer = _with_maps_in_order(request.answer), _with_maps_in_order(answer)
        pairs = [
            (name, _part(wanted, name), _part(answer, name)) for name in ("message", "reason", "details")
        ]
    elif request.compare == BODY:
        pairs = [("body", _comparable(request.answer), _comparable(answer))]
    for aspect, wanted, got in pairs:
        if wanted != got:
            found.append(Difference(request.line, what, aspect, _text(wanted), _text(got)))
    return found


def _with_maps_in_order(answer: Any) -> Any:
    """A Status whose causes about the members of one map are sorted: Go walks maps in any order."""
    causes = ((answer if isinstance(answer, dict) else {}).get("details") or {}).get("causes")
    if not causes:
        return answer
    ordered: list[Any] = []
    for _, run in groupby(causes, key=lambda cause: str(cause.get("field")).partition("[")[0]):
        of_map = list(run)
        is_list = all(_INDEX.search(str(cause.get("field"))) for cause in of_map)
        ordered += of_map if is_list else sorted(of_map, key=lambda cause: str(cause.get("field")))
    before, after = (
        ", ".join(f"{c.get('field')}: {c.get('message')}" for c in found) for found in (causes, ordered)
    )
    message = str(answer.get("message")).replace(before, after)
    return {**answer, "message": message, "details": {**answer["details"], "causes": ordered}}


def _part(answer: Any, name: str) -> Any:
    if not isinstance(answer, dict):
        return answer.strip() if name == "message" and isinstance(answer, str) else None
    return _comparable(answer.get(name))


def _said(answer: Any) -> str:
    return _text(answer.get("message", "") if isinstance(answer, dict) else answer)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _comparable(value: Any) -> Any:
    """The value without what differs from server to server."""
    if isinstance(value, str):
        text = _UID.sub("UID", _TOKEN_VOLUME.sub("kube-api-access", value))
        return _TIME.sub("TIME", _VERSION.sub(r"\1\2VERSION", text)).strip()
    if isinstance(value, list):
        return [_comparable(item) for item in value if not _is_vendored(item)]
    if not isinstance(value, dict):
        return value
    left = {k: v for k, v in value.items() if k not in _OWN_FIELDS and k not in _TIMES}
    if isinstance(left.get("metadata"), dict):
        left["metadata"] = {k: v for k, v in left["metadata"].items() if k not in _OWN_METADATA}
    if left.get("kind") == "Status" and isinstance(left.get("details"), dict):
        left["details"] = {k: v for k, v in left["details"].items() if k != "uid"}
    return {_comparable(k): _comparable(v) for k, v in left.items()}


def _is_vendored(item: Any) -> bool:
    return isinstance(item, dict) and (item.get("configMap") or {}).get("name") == _VENDORED
