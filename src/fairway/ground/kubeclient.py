"""Reading a cluster over its API, by a kubeconfig: GET alone, page by page, kind by kind.

Whoever asks may lack rights: what is refused is named, and the rest is read. Of Secrets only the names of their keys
are kept, and only where they are asked for.

Source: client-go tools/clientcmd (the file's fields), apimachinery's limit and continue.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from fairway.errors import UserError, WorldError
from fairway.kube.kinds import BY_GROUP_KIND, group_kind
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US

_TIMEOUT_S = 30.0
_PAGE = 500
# More than any cluster holds: an endless list of pages ends here.
_MOST_PAGES = 4_000
_MOST_BYTES = 256 * 1024**2
_SECRET = "Secret"
_NEVER = frozenset({"Event.events.k8s.io", "Lease.coordination.k8s.io", "ComponentStatus"})
_METRICS = ("NodeMetrics.metrics.k8s.io", "PodMetrics.metrics.k8s.io")
_REFUSED = (401, 403)


@dataclass(slots=True)
class Listed:
    """`objects`; `refused`: group kinds that may not be listed, `listed`: those that were, to the end; `now_us`: the
    server's clock, 0: not said."""

    objects: list[Obj] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    now_us: int = 0


class KubeClient:
    """One server. As a context manager it closes its connection."""

    def __init__(self, server: str, context: ssl.SSLContext | None, headers: dict[str, str]) -> None:
        self._server = server.rstrip("/")
        parts = urlsplit(self._server)
        host, self._prefix = parts.hostname or "", parts.path
        self._connection: http.client.HTTPConnection = (
            http.client.HTTPSConnection(host, parts.port, timeout=_TIMEOUT_S, context=context)
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT_S)
        )
        self._headers = {"Accept": "application/json", "User-Agent": "fairway", **headers}
        self.now_us = 0

    def __enter__(self) -> KubeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, path: str) -> Any:
        """The decoded answer. Raises: WorldError."""
        code, answer = self._asked(path)
        if code >= 400:
            said = answer.get("message", answer) if isinstance(answer, dict) else answer
            raise WorldError(f"{self._server}{path}: {code} {said}")
        return answer

    def everything(self, *, secrets: bool = False) -> Listed:
        """Every object of the kinds Fairway knows and the server has. Raises: WorldError where nobody answers."""
        found = Listed()
        if not secrets:
            found.refused.append(_SECRET)
        for group_version, resources in self._resources():
            for resource in resources:
                gk = group_kind(group_version, str(resource.get("kind")))
                name = str(resource.get("name"))
                listable = "list" in (resource.get("verbs") or ()) and "/" not in name
                if gk == _SECRET and not secrets:
                    continue
                if listable and gk not in _NEVER and (gk in BY_GROUP_KIND or gk in _METRICS):
                    self._list(group_version, str(resource["kind"]), name, gk, found)
        found.now_us = self.now_us
        return found

    def _resources(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """What the server has, in the version it prefers, group by group."""
        groups = self.get("/apis").get("groups") or ()
        versions = ["v1", *(str((g.get("preferredVersion") or {}).get("groupVersion")) for g in groups)]
        found = []
        for version in versions:
            code, answer = self._asked(_root(version))
            # A group whose own server is down does not keep the others from being read.
            if code < 400:
                found.append((version, list(answer.get("resources") or ())))
        return found

    def _list(self, group_version: str, kind: str, plural: str, gk: str, found: Listed) -> None:
        token = ""
        for _ in range(_MOST_PAGES):
            more = f"&continue={quote(token)}" if token else ""
            code, answer = self._asked(f"{_root(group_version)}/{plural}?limit={_PAGE}{more}")
            if code in _REFUSED:
                found.refused.append(gk)
            if code >= 400:
                return
            for item in answer.get("items") or ():
                if gk == _SECRET:
                    item["data"] = dict.fromkeys(item.get("data") or (), "")
                found.objects.append({**item, "apiVersion": group_version, "kind": kind})
            token = str((answer.get("metadata") or {}).get("continue") or "")
            if not token:
                found.listed.append(gk)
                return

    def _asked(self, path: str) -> tuple[int, Any]:
        """Raises: WorldError (it cannot be reached)."""
        code, body = self.fetch(path)
        try:
            return code, msgspec.json.decode(body) if body else {}
        except msgspec.DecodeError:
            return code, body[:200].decode("utf-8", "replace")

    def fetch(self, path: str) -> tuple[int, bytes]:
        """Status and body, as they come. Raises: WorldError (it cannot be reached)."""
        try:
            self._connection.request("GET", self._prefix + path, headers=self._headers)
            response = self._connection.getresponse()
            body = response.read(_MOST_BYTES)
            self._note_time(response.getheader("Date"))
            return response.status, body
        except (OSError, http.client.HTTPException) as failed:
            raise WorldError(f"{self._server}: {failed}") from failed

    def _note_time(self, date: str | None) -> None:
        with suppress(ValueError, TypeError):
            if date:
                self.now_us = int(parsedate_to_datetime(date).timestamp()) * SECOND_US


def _root(group_version: str) -> str:
    return f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"


def client_of(config: Obj, file: str) -> KubeClient:
    """The server of a kubeconfig's current context. `file`: what messages call it, and where its paths begin.

    Raises: UserError for one that names nobody; WorldError.
    """
    context = _named(config, "contexts", str(config.get("current-context") or ""), "context", file)
    cluster = _named(config, "clusters", str(context.get("cluster") or ""), "cluster", file)
    user = (
        _named(config, "users", str(context.get("user") or ""), "user", file) if context.get("user") else {}
    )
    server = str(cluster.get("server") or "")
    if urlsplit(server).scheme not in ("http", "https"):
        raise UserError(
            f"{file}: clusters[].cluster.server {server!r}: expected a URL such as https://host:6443"
        )
    base = Path(file).parent
    user = {**user, **_executed(user["exec"], file)} if isinstance(user.get("exec"), dict) else user
    try:
        tls = _tls(cluster, user, base) if server.startswith("https") else None
        return KubeClient(server, tls, _authorization(user, base))
    except (OSError, ValueError) as wrong:
        raise UserError(f"{file}: its certificates or token cannot be used: {wrong}") from None


def _named(config: Obj, where: str, name: str, what: str, file: str) -> dict[str, Any]:
    items = config.get(where)
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("name") == name and isinstance(item.get(what), dict):
            return dict(item[what])
    raise UserError(f"{file}: {where}: no {what} {name!r} (current-context says which one is used)")


def _tls(cluster: dict[str, Any], user: dict[str, Any], base: Path) -> ssl.SSLContext:
    authority = _data(cluster, "certificate-authority", base)
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _data(user, "client-certificate", base), _data(user, "client-key", base)
    if certificate and key:
        # Python reads them from files alone; these are ours, and gone at once.
        with tempfile.TemporaryDirectory(prefix="fairway-") as folder:
            for name, data in (("crt", certificate), ("key", key)):
                file = os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(file, "wb") as out:
                    out.write(data)
            context.load_cert_chain(Path(folder) / "crt", Path(folder) / "key")
    return context


def _data(fields: dict[str, Any], name: str, base: Path) -> bytes:
    inline = fields.get(f"{name}-data")
    if inline:
        return base64.b64decode(str(inline), validate=True)
    file = fields.get(name)
    return (base / str(file)).read_bytes() if file else b""


def _authorization(user: dict[str, Any], base: Path) -> dict[str, str]:
    token = str(user.get("token") or "")
    if not token and user.get("tokenFile"):
        token = (base / str(user["tokenFile"])).read_text(encoding="utf-8").strip()
    if token:
        return {"Authorization": f"Bearer {token}"}
    if user.get("username"):
        said = f"{user['username']}:{user.get('password') or ''}".encode()
        return {"Authorization": f"Basic {base64.b64encode(said).decode()}"}
    return {}


def _executed(command: dict[str, Any], file: str) -> dict[str, Any]:
    """What the credential plugin that the kubeconfig names gives, as kubectl asks it. Raises: WorldError."""
    said = [str(command.get("command") or ""), *map(str, command.get("args") or ())]
    version = command.get("apiVersion") or "client.authentication.k8s.io/v1"
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    extra = {str(e["name"]): str(e["value"]) for e in command.get("env") or ()}
    env = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    try:
        done = subprocess.run(said, env=env, capture_output=True, timeout=_TIMEOUT_S, check=True)
        status = msgspec.json.decode(done.stdout)["status"]
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError, KeyError, TypeError) as failed:
        raise WorldError(f"{file}: the credential plugin {said[0]!r} failed: {failed}") from None
    pem = {
        f"{ours}-data": base64.b64encode(str(status[theirs]).encode()).decode()
        for ours, theirs in (("client-certificate", "clientCertificateData"), ("client-key", "clientKeyData"))
        if status.get(theirs)
    }
    return {**pem, **({"token": status["token"]} if status.get("token") else {})}
