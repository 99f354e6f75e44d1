"""What kinds are there? /api, /apis, /apis/GROUP/VERSION, and both forms of the aggregated document.

Source: apiserver pkg/endpoints/discovery, discovery/aggregated (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.apiserver.resources import Resource, Resources
from fairway.apiserver.statuses import NoPage
from fairway.apiserver.wire.messages import Request, Response, encode

_AGGREGATED = "as=APIGroupDiscoveryList"
# Short names every kubectl expects are part of kinds; storage version hashes are opaque to clients and left out.


class Discovery:
    """Documents, cached until the set of resources changes."""

    def __init__(self, resources: Resources, address: str) -> None:
        self._resources = resources
        self.address = address
        self._cache: dict[tuple[str, str], Response] = {}
        self._generation: int | None = None

    def answer(self, request: Request) -> Response:
        """Raises: StatusError (404)."""
        if self._generation != self._resources.generation:
            self._cache.clear()
            self._generation = self._resources.generation
        form = _form(request.header("accept"))
        path = request.path.rstrip("/")
        known = self._cache.get((path, form))
        if known is None:
            known = self._cache[(path, form)] = self._document(path, form)
        return known

    def _document(self, path: str, form: str) -> Response:
        parts = path.split("/")[1:]
        if form and path in ("/api", "/apis"):
            media = f"application/json;g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList"
            return Response(200, encode(self._aggregated(path == "/api", form)), media)
        if path == "/api":
            return _ok(self._core_versions())
        if path == "/apis":
            groups = [self._group(g) for g in self._resources.preferred if g]
            return _ok({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        if len(parts) == 2 and parts[0] == "apis" and parts[1] in self._resources.preferred:
            return _ok({"kind": "APIGroup", "apiVersion": "v1", **self._group(parts[1])})
        group, version = ("", parts[-1]) if parts[0] == "api" else (parts[1], parts[-1])
        if version not in self._resources.preferred.get(group, ()):
            raise NoPage
        return _ok(self._list(group, version))

    def _core_versions(self) -> dict[str, Any]:
        where = [{"clientCIDR": "0.0.0.0/0", "serverAddress": self.address}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": where}

    def _group(self, group: str) -> dict[str, Any]:
        versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in self._resources.preferred[group]]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _list(self, group: str, version: str) -> dict[str, Any]:
        rows = []
        for resource in self._resources.of_group(group, version):
            rows.append(_row(resource))
            rows.extend(_subrow(resource, s.name) for s in resource.subresources)
        api_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": rows}

    def _aggregated(self, legacy: bool, form: str) -> dict[str, Any]:
        groups = [g for g in self._resources.preferred if (g == "") == legacy]
        items = []
        for group in groups:
            versions = [
                {
                    "version": version,
                    "resources": [_aggregated_row(r) for r in self._resources.of_group(group, version)],
                    "freshness": "Current",
                }
                for version in self._resources.preferred[group]
            ]
            meta: dict[str, Any] = {"creationTimestamp": None}
            if group:
                meta["name"] = group
            items.append({"metadata": meta, "versions": versions})
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{form}",
            "metadata": {},
            "items": items,
        }


def _form(accept: str) -> str:
    """Which aggregated version the client takes first, if any."""
    for media in accept.split(","):
        if _AGGREGATED in media:
            for version in ("v2beta1", "v2"):
                if f"v={version}" in media:
                    return version
        elif "application/json" in media:
            return ""
    return ""


def _ok(body: dict[str, Any]) -> Response:
    return Response(200, encode(body))


def _row(resource: Resource) -> dict[str, Any]:
    kind = resource.kind
    row: dict[str, Any] = {
        "name": kind.plural,
        "singularName": resource.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(resource.verbs),
    }
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if resource.categories:
        row["categories"] = list(resource.categories)
    return row


def _subrow(resource: Resource, name: str) -> dict[str, Any]:
    subresource = resource.subresource(name)
    assert subresource is not None
    row: dict[str, Any] = {
        "name": f"{resource.kind.plural}/{name}",
        "singularName": "",
        "namespaced": resource.kind.namespaced,
        "kind": subresource.kind or resource.kind.kind,
        "verbs": list(subresource.verbs),
    }
    if subresource.kind:
        group, _, version = subresource.api_version.rpartition("/")
        row.update({"group": group, "version": version} if group else {"version": version})
    return row


def _aggregated_row(resource: Resource) -> dict[str, Any]:
    kind = resource.kind
    row: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": resource.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if resource.categories:
        row["categories"] = list(resource.categories)
    if resource.subresources:
        row["subresources"] = [_aggregated_subrow(resource, s.name) for s in resource.subresources]
    return row


def _aggregated_subrow(resource: Resource, name: str) -> dict[str, Any]:
    subresource = resource.subresource(name)
    assert subresource is not None
    group, _, version = (subresource.api_version or resource.api_version).rpartition("/")
    kind = subresource.kind or resource.kind.kind
    return {
        "subresource": name,
        "responseKind": {"group": group, "version": version, "kind": kind},
        "verbs": list(subresource.verbs),
    }
