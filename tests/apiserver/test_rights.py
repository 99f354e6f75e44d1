"""Who sees and writes what? Every resource, verb and subresource asked for by users of few rights.

Objects of every kind carry marks. Whatever is answered may hold the marks of objects alone that the asker's roles let
him read that way, and whatever changes must be his to change: the oracle asks RBAC about the object found, never about
the path that led to it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import pytest
from apiserver_serving import Served, served

from fairway.admission.rbac.attributes import RBAC_GROUP, Attributes
from fairway.admission.rbac.authorizer import Authorizer
from fairway.admission.request import ALL_AUTHENTICATED, User
from fairway.apiserver.definitions import CRD
from fairway.apiserver.discovery import Discovery
from fairway.apiserver.handling import Handling
from fairway.apiserver.pages import Clock, Pages
from fairway.apiserver.resources import METRICS_GROUP, Resource
from fairway.apiserver.statuses import refused_connection
from fairway.apiserver.wire.connection import Connection
from fairway.cluster.changes import ADDED, DELETED
from fairway.kube.objects import Key

OURS, THEIRS = "ours", "theirs"
ALLOWED = "allowed"
NAMES = ("mark", ALLOWED)
_MARK = re.compile(r"MARK:([\w.-]+):([\w-]*):([\w-]+):")
_READS = ["get", "list", "watch"]
# user → (group, resources, verbs, names) in a namespace ("": everywhere), or a ClusterRole's name in a namespace.
GRANTS: dict[str, list[tuple[str, Any]]] = {
    "nobody": [],
    "viewer": [(OURS, "view")],
    "owner": [(OURS, "admin")],
    "watcher": [("", [{"apiGroups": [""], "resources": ["pods"], "verbs": _READS}])],
    "nodewatcher": [("", [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["watch"]}])],
    "named": [
        (OURS, [{"apiGroups": ["*"], "resources": ["*"], "verbs": _READS, "resourceNames": [ALLOWED]}]),
    ],
    "patcher": [(OURS, [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["patch", "update"]}])],
    "subordinate": [
        (OURS, [{"apiGroups": ["*"], "resources": ["*/status", "*/scale", "*/resize"], "verbs": ["*"]}])
    ],
}
READERS, WRITERS = ("viewer", "watcher", "named"), ("patcher", "subordinate")
PATCHES = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
FORMS = ("application/json;as=Table;g=meta.k8s.io;v=v1", "application/yaml")


# Kinds that are served each in its own way.
SORTS = {
    *("Pod", "Node", "Namespace", "Secret", "Event", "Deployment.apps", "ResourceClaim.resource.k8s.io"),
    *("Workload.kueue.x-k8s.io", "ClusterQueue.kueue.x-k8s.io", "NodeMetrics.metrics.k8s.io"),
    *("ClusterRole.rbac.authorization.k8s.io", "Role.rbac.authorization.k8s.io"),
    *("CustomResourceDefinition.apiextensions.k8s.io", "CertificateSigningRequest.certificates.k8s.io"),
}
DEFINITION = {"group": "x.example", "names": {"plural": "xs", "kind": "X"}, "versions": []}


class Wanted(NamedTuple):
    """A request, and the verbs that let somebody do what it does."""

    method: str
    path: str
    verbs: tuple[str, ...]
    subresource: str = ""
    body: Any = None
    media: str = "application/json"
    accept: str = ""


class Pipe(asyncio.Transport):
    """Where a connection's bytes go."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False
        self.heard = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written += bytes(data)
        self.heard.set()

    def close(self) -> None:
        self.is_closed = True
        self.heard.set()

    abort = cut = close

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        return default


class Sweep:
    """Requests of users straight into the server, and what the oracle says of the answers."""

    def __init__(self, home: Served) -> None:
        self.api = home.server.api
        pages = Pages(self.api, Clock(self.api).answer).handlers
        self.handling = Handling(self.api, Discovery(self.api.resources, ""), pages)
        self.token = (home.pki / "admin.token").read_text()
        self.gate = home.server.gate
        self.found: list[str] = []
        self.asked = 0

    def furnish(self) -> None:
        """Namespaces, roles and their bindings."""
        store = self.api.store
        for namespace in (OURS, THEIRS):
            store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for user, grants in GRANTS.items():
            for namespace, given in grants:
                kind, name = ("Role" if namespace else "ClusterRole"), user
                meta: dict[str, Any] = {"name": user, **({"namespace": namespace} if namespace else {})}
                if isinstance(given, str):
                    kind, name = "ClusterRole", given
                else:
                    store.create(_rbac(kind, meta, rules=given))
                bound = "RoleBinding" if namespace else "ClusterRoleBinding"
                ref = {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}
                who = [{"apiGroup": RBAC_GROUP, "kind": "User", "name": user}]
                store.create(_rbac(bound, {**meta, "name": f"of-{user}"}, roleRef=ref, subjects=who))
        # Roles as they are now, whatever becomes of them.
        self.roles = Authorizer(store.fork())

    def plant(self, resource: Resource) -> None:
        """An object of the kind in every place, changed once, and one deleted: the log knows them all."""
        store, gk = self.api.store, resource.gk
        for namespace in (OURS, THEIRS) if resource.kind.namespaced else ("",):
            for name in (*NAMES, "gone"):
                meta: dict[str, Any] = {"name": name}
                if namespace:
                    meta["namespace"] = namespace
                if store.get(Key(gk, namespace, name)) is None:
                    mark = {"mark": f"MARK:{gk}:{namespace}:{name}:"}
                    obj: dict[str, Any] = {
                        "apiVersion": "v1" if gk == "Event" else resource.api_version,
                        "kind": resource.kind.kind,
                        "metadata": {**meta, "annotations": mark},
                        **({"spec": DEFINITION} if gk == CRD else {}),
                    }
                    made = store.create(obj)
                    store.replace({**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}})
                if name == "gone":
                    store.delete(Key(gk, namespace, name), grace_s=0)
        if gk == CRD:
            self.api.definitions.refresh()

    async def ask(self, user: str, wanted: Wanted) -> tuple[int, str]:
        """As this user; "" is nobody at all."""
        pipe = Pipe()
        connection = Connection(
            self.handling.answer,
            self.api.journal.when_durable,
            refused_connection,
            set(),
            self.api.meter,
            self.gate,
        )
        self.gate.enter(pipe)
        connection.guest = pipe
        connection.connection_made(pipe)
        body = b"" if wanted.body is None else json.dumps(wanted.body).encode()
        lines = [f"{wanted.method} {wanted.path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
        if user:
            lines += [f"Authorization: Bearer {self.token}", f"Impersonate-User: {user}"]
        lines += [f"Accept: {wanted.accept or '*/*'}", f"Content-Type: {wanted.media}"]
        connection.data_received("\r\n".join([*lines, "", ""]).encode() + body)
        await asyncio.wait_for(pipe.heard.wait(), 20)
        # What is told at once of a stream; the rest waits for changes.
        await asyncio.sleep(0)
        connection.connection_lost(None)
        self.gate.leave(pipe)
        self.asked += 1
        return int(pipe.written.split(b" ", 2)[1]), pipe.written.decode()

    async def check(self, user: str, resource: Resource, wanted: Wanted) -> int:
        before = self.api.store.version
        code, said = await self.ask(user, wanted)
        where = f"{user or 'anonymous'}: {wanted.method} {wanted.path} ({wanted.media}) → {code}"
        for gk, namespace, name in set(_MARK.findall(said)):
            if not self.may(user, resource, wanted, wanted.verbs, gk, namespace, name):
                self.found.append(f"{where} shows {gk} {namespace}/{name}")
        for change in self.api.store.log.since(before):
            verbs = {ADDED: ("create",), DELETED: ("delete", "deletecollection")}.get(
                change.type, wanted.verbs
            )
            key = change.key
            if "dryRun" in wanted.path:
                self.found.append(f"{where} writes {key} in a dry run")
            elif not self.may(user, resource, wanted, verbs, key.gk, key.namespace, key.name):
                self.found.append(f"{where} writes {change.type} {key}")
        # A proxy to what does not listen is a 503, as upstream.
        if code >= 500 and not (code == 503 and "/proxy" in wanted.path):
            self.found.append(f"{where}: {said}")
        return code

    def may(
        self,
        user: str,
        resource: Resource,
        wanted: Wanted,
        verbs: tuple[str, ...],
        gk: str,
        namespace: str,
        name: str,
    ) -> bool:
        group, plural = resource.group, resource.kind.plural
        if gk != resource.gk:
            group = gk.partition(".")[2]
            plural = next(r.kind.plural for r in self.api.resources.by_route.values() if r.gk == gk)
        who = User(user, (ALL_AUTHENTICATED,))
        return any(
            self.roles.authorize(
                Attributes(who, verb, group, plural, wanted.subresource, namespace, name)
            ).allowed
            for verb in verbs
        )


def _rbac(kind: str, meta: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": meta, **fields}


def _base(resource: Resource) -> str:
    return f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"


def places(resource: Resource) -> list[str]:
    """Paths to the collection, right and wrong ones."""
    plural = resource.kind.plural
    found = ["", f"/namespaces/{OURS}", f"/namespaces/{THEIRS}"]
    return [f"{_base(resource)}{place}/{plural}" for place in found]


def reads(resource: Resource) -> Iterator[Wanted]:
    gets, lists, watches = ("get",), ("list",), ("watch",)
    for path in places(resource):
        yield Wanted("GET", path, lists)
        yield Wanted("GET", path, lists, accept=FORMS[len(path) % 2])
        yield Wanted("GET", f"{path}?limit=1", lists)
        yield Wanted("GET", f"{path}?fieldSelector=metadata.name%3D{ALLOWED}", lists)
        # A comma that is part of a value pins no name.
        yield Wanted(
            "GET", f"{path}?fieldSelector=metadata.namespace!%3Dx%5C,metadata.name%3D{ALLOWED}", lists
        )
        yield Wanted("GET", f"{path}?fieldSelector=metadata.name!%3Dx,metadata.name%3D{ALLOWED}", lists)
        for since in ("watch=1", "watch=true&resourceVersion=1"):
            yield Wanted("GET", f"{path}?{since}", watches)
        yield Wanted("GET", f"{path}?watch=1&resourceVersion=1", watches, accept=FORMS[0])
        selected = f"fieldSelector=metadata.name%3D{ALLOWED}"
        yield Wanted("GET", f"{path}?watch=1&resourceVersion=1&{selected}", watches)
        old = path.replace(_base(resource), f"{_base(resource)}/watch")
        yield Wanted("GET", old, watches)
        yield Wanted("GET", f"{old}?resourceVersion=1", watches)
        for name in NAMES:
            yield Wanted("GET", f"{path}/{name}", gets)
            yield Wanted("GET", f"{old}/{name}?resourceVersion=1", watches)
            for sub in resource.subresources:
                yield Wanted("GET", f"{path}/{name}/{sub.name}", gets, sub.name)


def writes(resource: Resource) -> Iterator[Wanted]:
    for path in places(resource):
        named = {"apiVersion": resource.api_version, "kind": resource.kind.kind, "metadata": {"name": "new"}}
        for query in ("?dryRun=All", ""):
            yield Wanted("POST", f"{path}{query}", ("create",), body=named)
            elsewhere = {**named, "metadata": {"name": "new", "namespace": THEIRS}}
            yield Wanted("POST", f"{path}{query}", ("create",), body=elsewhere)
            for name in ("mark", "new"):
                yield from _changes(resource, f"{path}/{name}", query, name, "")
                for sub in resource.subresources:
                    yield from _changes(resource, f"{path}/{name}/{sub.name}", query, name, sub.name)
            yield Wanted("DELETE", f"{path}/mark{query}", ("delete",))
            yield Wanted("DELETE", f"{path}{query}", ("deletecollection",))


def _changes(resource: Resource, path: str, query: str, name: str, sub: str) -> Iterator[Wanted]:
    meta = {"name": name, "labels": {"written": "yes"}}
    whole = {"apiVersion": resource.api_version, "kind": resource.kind.kind, "metadata": meta}
    if sub:
        yield Wanted("POST", path + query, ("create",), sub, whole)
    yield Wanted("PUT", path + query, ("update",), sub, whole)
    for form in PATCHES[2:] if sub else PATCHES:
        apply = "apply" in form
        more = ("&" if query else "?") + "fieldManager=me&force=true" if apply else ""
        change = {"metadata": {"labels": {"written": "yes"}}}
        listed = [{"op": "add", "path": "/metadata/labels", "value": {"written": "yes"}}]
        body: Any = whole if apply else listed if form.startswith("json-patch") else change
        yield Wanted("PATCH", path + query + more, ("patch",), sub, body, f"application/{form}")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data: Path = tmp_path_factory.mktemp("rights")
    with served(data, paused=True) as api:
        # Only what requests do is looked at: the marked objects are shells that no controller should work on.
        api.call(api.server._tasks[0].cancel)
        yield api


def _thinned(resource: Resource, user: str, wanted: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
    """Half of them on kinds of every sort, one in six on kinds that are served alike; each user and kind others."""
    step = 2 if resource.gk in SORTS else 6
    return wanted[crc32(f"{resource.gk} {user}".encode()) % step :: step]


async def swept(sweep: Sweep) -> None:
    sweep.furnish()
    for (group, _, _), resource in sorted(sweep.api.resources.by_route.items()):
        stored = (
            group != METRICS_GROUP and "get" in resource.verbs and resource.kind.kind != "ComponentStatus"
        )
        for user in (*GRANTS, ""):
            if stored:
                sweep.plant(resource)
            asked = () if user in WRITERS else reads(resource)
            for wanted in _thinned(resource, user, (*asked, *(() if user in READERS else writes(resource)))):
                code = await sweep.check(user, resource, wanted)
                if not user and code not in (401, 403):
                    sweep.found.append(f"anonymous: {wanted.method} {wanted.path} → {code}")


def test_nobody_sees_or_writes_what_rbac_does_not_give(home: Served) -> None:
    sweep = Sweep(home)
    asyncio.run_coroutine_threadsafe(swept(sweep), home.loop).result(600)
    assert sweep.asked > 30_000
    assert {resource.gk for resource in sweep.api.resources.by_route.values()} >= SORTS
    assert not sweep.found, f"{len(sweep.found)} of {sweep.asked}:\n" + "\n".join(sweep.found[:40])


WRONG_PLACES = {
    "what lives in no namespace, under one": ("GET", f"/api/v1/namespaces/{OURS}/nodes", 404),
    "a webhook configuration under a namespace": (
        "POST",
        f"/apis/admissionregistration.k8s.io/v1/namespaces/{OURS}/mutatingwebhookconfigurations",
        404,
    ),
    "a priority class under a namespace": (
        "DELETE",
        f"/apis/scheduling.k8s.io/v1/namespaces/{OURS}/priorityclasses",
        404,
    ),
    "a namespace under a namespace": ("GET", f"/api/v1/namespaces/{OURS}/namespaces/{THEIRS}", 404),
    "a new pod of no namespace": ("POST", "/api/v1/pods", 405),
    "every pod deleted": ("DELETE", "/api/v1/pods", 405),
    "a pod without its namespace": ("GET", "/api/v1/pods/mark", 404),
    "more path than a log has": ("GET", f"/api/v1/namespaces/{OURS}/pods/mark/log/more", 404),
    "a write by the watchers' path": ("POST", f"/api/v1/watch/namespaces/{OURS}/pods", 405),
}


@pytest.mark.parametrize("name", WRONG_PLACES)
def test_paths_that_lead_nowhere_are_not_found(home: Served, name: str) -> None:
    method, path, want = WRONG_PLACES[name]
    code, said = home.ask(method, path, {} if method == "POST" else None)
    assert code == want, said


def test_custom_resources_have_their_own_words_for_a_wrong_place(home: Served) -> None:
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{OURS}/clusterqueues"
    assert home.ask("GET", path) == (404, "404 page not found\n")


def test_a_selector_of_another_name_than_the_paths_is_refused(home: Served) -> None:
    path = f"/api/v1/watch/namespaces/{OURS}/pods/mark?fieldSelector=metadata.name%3Dother"
    code, said = home.ask("GET", path)
    assert (code, said["message"]) == (400, "fieldSelector metadata.name doesn't match requested name")


def test_a_selector_of_one_name_lists_over_all_namespaces(home: Served) -> None:
    assert home.ask("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dnone")[0] == 200
