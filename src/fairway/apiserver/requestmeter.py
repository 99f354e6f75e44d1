"""How many requests of which kind were answered, how fast, and how large? Counted as they pass, shown at /metrics.

On the path of every request: one look-up and a few additions. What it means is `exporting`'s business.

Source: apiserver pkg/endpoints/metrics/metrics.go (v1.36).
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from time import perf_counter
from typing import NamedTuple

from fairway.apiserver.requests import RequestInfo
from fairway.apiserver.wire.messages import Request

# Upper bounds in seconds, and in bytes.
DURATIONS_S = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0),
    *(3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
SIZES_BYTES = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
_CONNECTS = frozenset(("attach", "exec", "portforward", "proxy"))
_VERBS = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "apply": "APPLY",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
}
# Paths that are no resources and are counted by name; every other one is counted without.
_PAGES = frozenset(("/healthz", "/livez", "/readyz", "/metrics", "/version", "/openapi", "/api", "/apis"))


class About(NamedTuple):
    """Labels of a request. `subresource` of what is no resource is its path."""

    verb: str
    dry_run: str
    group: str
    version: str
    resource: str
    subresource: str
    scope: str
    component: str


class Series:
    """What happened to requests with the same labels."""

    __slots__ = ("by_code", "durations", "seconds", "size_total", "sizes")

    def __init__(self) -> None:
        self.by_code: dict[int, int] = {}
        self.durations = [0] * (len(DURATIONS_S) + 1)
        self.seconds = 0.0
        self.sizes = [0] * (len(SIZES_BYTES) + 1)
        self.size_total = 0


class RequestMeter:
    """Implements `wire.connection.Meter`.

    Counted is what a verb or a page answered: requests without credentials, without permission or for resources that do
    not exist would make as many series as somebody likes.
    """

    def __init__(self) -> None:
        self.series: dict[About, Series] = {}
        self.going_on: dict[About, int] = {}
        """Watches, followed logs, upgraded connections."""

    def answered(self, request: Request, status: int, size: int) -> None:
        info = request.about
        if info is not None:
            about = _about(info, _is_apply(request), "dryRun=All" in request.raw_query)
            self._count(about, status, perf_counter() - request.began_s, size)

    def began(self, request: Request) -> None:
        if request.about is not None:
            about = _about(request.about, False, False)
            self.going_on[about] = self.going_on.get(about, 0) + 1

    def ended(self, request: Request, status: int) -> None:
        if request.about is not None:
            about = _about(request.about, False, False)
            self.going_on[about] -= 1
            self._count(about, status, perf_counter() - request.began_s, 0)

    def _count(self, about: About, status: int, seconds: float, size: int) -> None:
        series = self.series.get(about)
        if series is None:
            series = self.series[about] = Series()
        series.by_code[status] = series.by_code.get(status, 0) + 1
        series.durations[bisect_left(DURATIONS_S, seconds)] += 1
        series.seconds += seconds
        series.sizes[bisect_left(SIZES_BYTES, size)] += 1
        series.size_total += size


def _is_apply(request: Request) -> bool:
    return request.method == "PATCH" and "apply-patch" in request.header("content-type")


def _about(info: RequestInfo, is_apply: bool, is_dry: bool) -> About:
    if not info.is_resource:
        page = "/" + info.path.split("/", 2)[1]
        return _page(_VERBS.get(info.verb, ""), page if page in _PAGES else "")
    # Of the name only whether there is one: series must not grow with objects.
    scope = "resource" if info.name or info.verb == "create" else "namespace" if info.namespace else "cluster"
    verb = "apply" if is_apply else info.verb
    return _resource(verb, is_dry, info.group, info.version, info.resource, info.subresource, scope)


@lru_cache(maxsize=256)
def _page(verb: str, page: str) -> About:
    return About(verb, "", "", "", "", page, "", "")


@lru_cache(maxsize=4096)
def _resource(
    verb: str, is_dry: bool, group: str, version: str, resource: str, subresource: str, scope: str
) -> About:
    said = "CONNECT" if subresource in _CONNECTS else _VERBS.get(verb, "")
    return About(said, "All" if is_dry else "", group, version, resource, subresource, scope, "apiserver")
