"""Requests without end, from a seed: writes of valid and of spoilt objects, patches, statuses, deletions, odd paths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any, Final
from urllib.parse import quote

import yaml

from fairway.bench.fuzzing.mutations import WRONG, Mutator, copied

NAMESPACES: Final = ("default", "fuzz-a")
# Few names: what is written meets what was written before, and the cluster does not grow.
NAMES: Final = tuple(f"f-{i}" for i in range(3))
_JSON: Final = "application/json"
_PATCHES: Final = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_PARTIAL: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_SUBRESOURCES: Final = (
    "status",
    "scale",
    "eviction",
    "binding",
    "log",
    "finalize",
    "approval",
    "ephemeralcontainers",
    "resize",
)
_QUERIES: Final = (
    *(
        "labelSelector",
        "fieldSelector",
        "resourceVersion",
        "resourceVersionMatch",
        "limit",
        "continue",
        "dryRun",
        "pretty",
    ),
    *(
        "fieldManager",
        "fieldValidation",
        "force",
        "gracePeriodSeconds",
        "propagationPolicy",
        "sendInitialEvents",
        "includeObject",
    ),
    *("tailLines", "sinceSeconds", "previous", "container", "orphanDependents"),
)
_OPTIONS: Final = (
    *(
        "All",
        "1",
        "0",
        "-1",
        "true",
        "²",
        "f-0",
        "a=b",
        "a in (b,c)",
        "!a",
        "metadata.name=f-0",
        "status.phase!=Running",
        ",,",
        "(",
    ),
    *(
        "Strict",
        "Ignore",
        "Foreground",
        "Orphan",
        "NotOlderThan",
        "Exact",
        "Object",
        "None",
        "%00",
        "eyJ2IjoxfQ==",
        "9" * 30,
    ),
)
PAGES: Final = (
    *(
        "/healthz",
        "/livez?verbose",
        "/readyz?verbose",
        "/metrics",
        "/version",
        "/openapi/v2",
        "/openapi/v3",
        "/api",
        "/apis",
    ),
    *(
        "/fairway/clock",
        "/apis/none",
        "/api/v1/none",
        "/apis/batch/v1/namespaces//jobs",
        "/%2e%2e/",
        "/api/v1/namespaces/x/pods/y/z/w",
    ),
)


@dataclass(frozen=True, slots=True)
class Sent:
    """One request."""

    method: str
    path: str
    body: bytes | None = None
    media: str = _JSON
    accept: str = _JSON


@dataclass(frozen=True, slots=True)
class Kind:
    """What the server serves of a kind."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        inside = f"/namespaces/{namespace}" if self.namespaced else ""
        return root + inside + "".join(f"/{part}" for part in (self.plural, quote(name), subresource) if part)


@cache
def seeds() -> tuple[dict[str, Any], ...]:
    """One valid object of every kind that clients write."""
    text = files("fairway.bench.fuzzing").joinpath("seeds.yaml").read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return tuple(yaml.load_all(text, loader))


class Requests:
    """The stream. `heard` tells it of answers, so that it changes what is really there."""

    def __init__(self, seed: int, kinds: list[Kind]) -> None:
        self.draw = Random(seed)
        self.mutator = Mutator(self.draw)
        served = {(k.api_version, k.kind): k for k in kinds if "create" in k.verbs}
        self._seeds = [
            (served[k], obj) for obj in seeds() if (k := (obj["apiVersion"], obj["kind"])) in served
        ]
        self._kinds = [k for k in kinds if "list" in k.verbs]
        self._there: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        """What was stored last, by API version, kind, namespace and name."""

    @property
    def kinds_tried(self) -> int:
        return len(self._seeds)

    def __iter__(self) -> Iterator[Sent]:
        ways = [way for way, _ in _RATED]
        weights = [weight for _, weight in _RATED]
        while True:
            yield self.draw.choices(ways, weights)[0](self)

    def heard(self, sent: Sent, status: int, body: bytes) -> None:
        """What came back."""
        if sent.method == "DELETE" and status in (200, 404):
            name = sent.path.partition("?")[0].rpartition("/")[2]
            for key in [k for k, obj in self._there.items() if k[3] == name and _is_at(sent.path, obj)]:
                del self._there[key]
        if (
            status not in (200, 201)
            or sent.method not in ("POST", "PUT", "PATCH")
            or b'"uid"' not in body[:4000]
        ):
            return
        obj = json.loads(body)
        meta = obj.get("metadata")
        if not isinstance(meta, dict) or "uid" not in meta or "dryRun" in sent.path:
            return
        self.mutator.uids[obj["apiVersion"], obj["kind"], meta["name"]] = meta["uid"]
        if meta["name"] in NAMES:
            self._there[obj["apiVersion"], obj["kind"], meta.get("namespace", ""), meta["name"]] = obj

    # Ways to ask

    def _one(self) -> tuple[Kind, dict[str, Any], str]:
        """A kind with a seed of it under one of the names, and a namespace."""
        kind, obj = self.draw.choice(self._seeds)
        obj = copied(obj)
        if obj["metadata"]["name"] == "f-0":
            obj["metadata"]["name"] = self.draw.choice(NAMES)
        return kind, obj, self.draw.choice(NAMESPACES)

    def _known(self) -> tuple[Kind, dict[str, Any], str]:
        """As `_one`, as it is stored, where it is; mostly one that is."""
        if self._there and self.draw.random() < 0.8:
            (api_version, kind_name, within, _), there = self.draw.choice(list(self._there.items()))
            found = next(
                (k for k, _ in self._seeds if (k.api_version, k.kind) == (api_version, kind_name)), None
            )
            if found is not None:
                return found, copied(there), within or "default"
        kind, obj, namespace = self._one()
        within = namespace if kind.namespaced else ""
        known = self._there.get((kind.api_version, kind.kind, within, obj["metadata"]["name"]))
        return kind, obj if known is None else copied(known), namespace

    def _spoil(self, obj: dict[str, Any]) -> dict[str, Any]:
        return self.mutator.spoilt(obj, self.draw.choice((0, 0, 1, 1, 1, 1, 2, 4)))

    def _create(self) -> Sent:
        kind, obj, namespace = self._one()
        return Sent("POST", kind.path(namespace) + self._query(0.1), encoded(self._spoil(obj)))

    def _update(self) -> Sent:
        kind, obj, namespace = self._known()
        name = obj["metadata"]["name"]
        if self.draw.random() < 0.8:
            obj["metadata"].pop("resourceVersion", None)
        return Sent("PUT", kind.path(namespace, name) + self._query(0.05), encoded(self._spoil(obj)))

    def _write_status(self) -> Sent:
        draw = self.draw
        kind, obj, namespace = self._known()
        name = obj["metadata"]["name"]
        obj["metadata"].pop("resourceVersion", None)
        spoilt = self.mutator.spoilt(obj, draw.choice((1, 2)))
        if draw.random() < 0.8:
            spoilt["status"] = {
                "conditions": [self.mutator.condition() for _ in range(draw.choice((1, 2, 3)))]
            }
            spoilt = self.mutator.spoilt(spoilt, draw.choice((0, 1, 2)))
        path = kind.path(namespace, name, "status")
        if draw.random() < 0.5:
            return Sent("PUT", path, encoded(spoilt))
        return Sent("PATCH", path, encoded({"status": spoilt.get("status")}), _PATCHES["merge"])

    def _patch(self) -> Sent:
        draw = self.draw
        kind, obj, namespace = self._known()
        path = kind.path(namespace, obj["metadata"]["name"])
        form = draw.choice(sorted(_PATCHES))
        spoilt = self.mutator.spoilt(obj, draw.choice((1, 2, 3)))
        body: Any = {k: v for k, v in spoilt.items() if k != "apiVersion" and k != "kind" and obj.get(k) != v}
        if form == "json":
            body = self._operations(obj)
        elif form == "apply":
            body = {**spoilt, "apiVersion": kind.api_version, "kind": kind.kind}
            if isinstance(body.get("metadata"), dict):
                for owned in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"):
                    body["metadata"].pop(owned, None)
            return Sent(
                "PATCH",
                f"{path}?fieldManager=f&force={draw.choice(('true', 'false'))}",
                encoded(body),
                _PATCHES[form],
            )
        elif isinstance(body.get("metadata"), dict):
            body["metadata"] = {k: v for k, v in body["metadata"].items() if obj["metadata"].get(k) != v}
        if draw.random() < 0.03:
            body = copied(draw.choice(WRONG))
        return Sent("PATCH", path + self._query(0.05), encoded(body), _PATCHES[form])

    def _operations(self, obj: dict[str, Any]) -> Any:
        draw = self.draw
        paths = [
            "",
            "/metadata",
            "/metadata/labels",
            "/spec",
            "/status",
            "/spec/-",
            "/a~2",
            "/metadata/finalizers/0",
            *_pointers(obj),
        ]
        return [
            {
                "op": draw.choice(("add", "remove", "replace", "replace", "move", "copy", "test", "none")),
                "path": draw.choice(paths),
                "from": draw.choice(paths),
                "value": self.mutator.value(),
            }
            for _ in range(draw.choice((1, 1, 2, 4)))
        ]

    def _delete(self) -> Sent:
        draw = self.draw
        kind, obj, namespace = self._known()
        options: Any = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if draw.random() < 0.5:
            options["propagationPolicy"] = draw.choice(("Foreground", "Background", "Orphan", "x"))
        if draw.random() < 0.3:
            options[draw.choice(("gracePeriodSeconds", "preconditions", "dryRun", "orphanDependents"))] = (
                self.mutator.value()
            )
        name = (
            ""
            if kind.namespaced and namespace != "default" and draw.random() < 0.05
            else obj["metadata"]["name"]
        )
        return Sent("DELETE", kind.path(namespace, name), encoded(options) if draw.random() < 0.7 else None)

    def _get(self) -> Sent:
        kind, obj, namespace = self._known()
        return Sent(
            "GET", kind.path(namespace, obj["metadata"]["name"]) + self._query(0.2), accept=self._accept()
        )

    def _list(self) -> Sent:
        kind = self.draw.choice(self._kinds)
        return Sent("GET", kind.path(self.draw.choice(NAMESPACES)) + self._query(0.5), accept=self._accept())

    def _accept(self) -> str:
        return self.draw.choice((_JSON, _TABLE, _TABLE, _PARTIAL, "*/*", "application/yaml", "x"))

    def _subresource(self) -> Sent:
        draw = self.draw
        kind, obj, namespace = self._known()
        subresource = draw.choice(_SUBRESOURCES)
        path = kind.path(namespace, obj["metadata"]["name"], subresource) + self._query(0.3)
        if draw.random() < 0.4 or subresource == "log":
            return Sent("GET", path, accept=self._accept())
        bodies: dict[str, Any] = {
            "scale": {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "spec": {"replicas": draw.choice((0, 1, 2, 3))},
            },
            "eviction": {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "deleteOptions": {"gracePeriodSeconds": 0},
            },
            "binding": {
                "apiVersion": "v1",
                "kind": "Binding",
                "target": {"kind": "Node", "name": draw.choice(NAMES)},
            },
        }
        body: dict[str, Any] = bodies.get(subresource, obj)
        body.setdefault("metadata", {"name": obj["metadata"]["name"], "namespace": namespace})
        method = draw.choice(("POST", "PUT")) if subresource != "scale" else "PUT"
        return Sent(method, path, encoded(self._spoil(body)))

    def _page(self) -> Sent:
        return Sent("GET", self.draw.choice(PAGES), accept=self._accept())

    def _bytes(self) -> Sent:
        """Bodies that are no objects, and media nobody speaks."""
        draw = self.draw
        kind, obj, namespace = self._one()
        body = bytearray(encoded(obj))
        for _ in range(draw.choice((1, 3, 10))):
            at = draw.randrange(len(body))
            body[at : at + draw.choice((0, 1, 5))] = bytes(
                draw.randrange(256) for _ in range(draw.choice((0, 1, 3)))
            )
        media = draw.choice(
            (_JSON, "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", "")
        )
        if draw.random() < 0.2:
            body = bytearray(b"[" * draw.choice((10, 500, 20_000)))
        return Sent("POST", kind.path(namespace), bytes(body), media)

    def _query(self, chance: float) -> str:
        draw = self.draw
        if draw.random() >= chance:
            return ""
        chosen = draw.sample(_QUERIES, draw.choice((1, 1, 2)))
        return "?" + "&".join(f"{name}={quote(draw.choice(_OPTIONS))}" for name in chosen)


def _is_at(path: str, obj: dict[str, Any]) -> bool:
    """Whether this may be the path of the object: its group and its namespace are in it."""
    namespace = obj["metadata"].get("namespace", "")
    return f"/{obj['apiVersion']}/" in path and (not namespace or f"/{namespace}/" in path)


def _pointers(value: Any, prefix: str = "", depth: int = 0) -> list[str]:
    found = []
    keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        path = f"{prefix}/{str(key).replace('~', '~0').replace('/', '~1')}"
        found.append(path)
        if depth < 6:
            found += _pointers(value[key], path, depth + 1)
    return found


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


_RATED: Final = (
    *((Requests._create, 30), (Requests._update, 15), (Requests._write_status, 14), (Requests._patch, 18)),
    *((Requests._delete, 8), (Requests._get, 3), (Requests._list, 5), (Requests._subresource, 5)),
    *((Requests._page, 1), (Requests._bytes, 1)),
)
