"""From a request to its answer: who asks, may they, and which verb answers.

The order of kube-apiserver's filters: authentication (anonymous is refused), impersonation, authorization, then
the resource's verb, or one of the few paths that are no resources.

Source: apiserver pkg/server/config.go DefaultBuildHandlerChain (v1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import perf_counter

from fairway.admission.request import User
from fairway.apiserver import options, requests
from fairway.apiserver.asking import Api, Ask, attributes
from fairway.apiserver.discovery import Discovery
from fairway.apiserver.representing import check_accept
from fairway.apiserver.requests import RequestInfo
from fairway.apiserver.resources import METRICS_GROUP, REVIEWS, Resource
from fairway.apiserver.selecting import pinned_name
from fairway.apiserver.statuses import (
    NoPage,
    bad_request,
    internal,
    method_not_allowed,
    page_not_found,
    status_response,
    warning_headers,
)
from fairway.apiserver.verbs import reading
from fairway.apiserver.watching import watch
from fairway.apiserver.wire.messages import Answer, Request, Response, Stream
from fairway.cluster.errors import ApiError

log = logging.getLogger("fairway.apiserver")
_REVIEWS = {(group, plural) for group, rows in REVIEWS.items() for _, plural, _ in rows}
_ADAPTED = ("custom.metrics.k8s.io", "external.metrics.k8s.io")
_ADAPTED_PATHS = tuple(f"/apis/{group}" for group in _ADAPTED)
_WRITES = ("create", "update", "patch", "delete", "deletecollection")
# Source: k8s.io/api zz_generated.prerelease-lifecycle.go (v1.36), apiserver endpoints/deprecation.
_DEPRECATED = {
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
_NAMED = ("get", "update", "patch", "delete")
Page = Callable[[Request, User], Answer]


class Handling:
    """The server's handler. `pages` are paths that are no resources, by their first segments."""

    def __init__(self, api: Api, discovery: Discovery, pages: dict[str, Page]) -> None:
        self._api = api
        self._discovery = discovery
        self._pages = pages

    def answer(self, request: Request) -> Answer:
        """Never raises: what goes wrong becomes a Status."""
        request.began_s = perf_counter()
        try:
            found = self._answer(request)
        except ApiError as refused:
            return status_response(refused)
        except Exception as bug:
            return self._bug(request, bug)
        if isinstance(found, Awaitable):
            return self._later(request, found)
        return found

    async def _later(self, request: Request, coming: Awaitable[Response | Stream]) -> Response | Stream:
        try:
            return await coming
        except ApiError as refused:
            return status_response(refused)
        except asyncio.CancelledError:
            raise
        except Exception as bug:
            return self._bug(request, bug)

    def _bug(self, request: Request, bug: Exception) -> Response:
        # The path alone: bodies and headers may hold secrets.
        log.error("%s %s failed", request.method, request.path, exc_info=bug)
        return status_response(
            internal(f"{type(bug).__name__} while serving {request.method} {request.path}")
        )

    def _answer(self, request: Request) -> Answer:
        api = self._api
        user = api.authentication.user(request)
        _check_path(request.path)
        info = _info(request)
        api.authentication.require(attributes(user, info))
        if not info.is_resource:
            request.about = info
            return self._page(request, user)
        if info.group in _ADAPTED:
            from fairway.apiserver.metricsserver import adapter

            return adapter.answer(api, info, request)
        resource = api.resources.find(info.group, info.version, info.resource)
        if resource is None:
            is_built_in = not info.group or "." not in info.group or info.group.endswith(".k8s.io")
            is_served = info.version in api.resources.preferred.get(info.group, ())
            raise page_not_found() if is_built_in and is_served else NoPage()
        _check_route(resource, info, request.method)
        if resource.has_strategic_merge and (accept := request.header("accept")):
            is_list = info.verb in ("list", "watch") and not info.subresource
            check_accept(accept, info.subresource, is_list)
        if not info.subresource or resource.subresource(info.subresource) is not None:
            request.about = info
        ask = Ask(request, info, resource, user)
        if info.verb in _WRITES and (request.raw_query or info.verb == "patch"):
            options.check_write(ask)
        elif request.raw_query and info.verb in ("list", "watch"):
            options.check_list(ask)
        if not info.group and info.resource in _DEPRECATED:
            ask.warnings.append(_DEPRECATED[info.resource])
        if (info.group, info.resource) in _REVIEWS:
            from fairway.apiserver import reviews

            return reviews.answer(api, ask)
        if info.group == METRICS_GROUP:
            from fairway.apiserver.metricsserver import answering

            return answering.answer(api, ask)
        if info.subresource:
            from fairway.apiserver.subresources import dispatch as subresources

            return _warned(ask, subresources.answer(api, ask))
        return _warned(ask, self._verb(ask))

    def _verb(self, ask: Ask) -> Answer:
        verb = ask.info.verb
        if verb not in ask.resource.verbs:
            raise method_not_allowed(None)
        if verb == "get":
            return reading.get(self._api, ask)
        if verb == "list":
            return reading.list_(self._api, ask)
        if verb == "watch":
            return watch(self._api, ask)
        if (
            verb not in _WRITES
            or (verb == "create" and ask.info.name)
            or (verb in _NAMED and not ask.info.name)
        ):
            raise method_not_allowed(None)
        return _written(self._api, ask)

    def _page(self, request: Request, user: User) -> Answer:
        path = request.path
        if path.startswith(_ADAPTED_PATHS):
            from fairway.apiserver.metricsserver import adapter

            adapted = adapter.page(self._api, path)
            if adapted is not None:
                return adapted
        if path in ("/api", "/apis") or path.startswith(("/api/", "/apis/")):
            return self._discovery.answer(request)
        for prefix, page in self._pages.items():
            if path == prefix or path.startswith(prefix + "/"):
                return page(request, user)
        raise NoPage


def _written(api: Api, ask: Ask) -> Answer:
    # Imported with the first write: admission and validation are most of what there is to load.
    from fairway.apiserver import door
    from fairway.apiserver.verbs import deleting, writing

    write = {
        "create": writing.create,
        "update": writing.update,
        "patch": writing.patch,
        "delete": deleting.delete,
        "deletecollection": deleting.delete_collection,
    }[ask.info.verb]
    api.memory.make_room(len(ask.request.body))
    return door.run(api, write(api, ask))


def _info(request: Request) -> RequestInfo:
    query = request.raw_query
    if not query:
        return requests.parse(request.method, request.path, False)
    named = pinned_name(request.option("fieldSelector")) if "fieldSelector" in query else ""
    return requests.parse(request.method, request.path, request.flag("watch"), named)


def _check_path(path: str) -> None:
    """Names are one path segment: nothing may climb out of it, or hide in it.

    Raises: StatusError (400).
    """
    if ".." in path or "\x00" in path or "//" in path or "\\" in path:
        for segment in path.split("/"):
            if segment in (".", ".."):
                raise bad_request(f"invalid path segment {segment!r}")
        if "\x00" in path:
            raise bad_request("invalid character in path")


def _check_route(resource: Resource, info: RequestInfo, method: str) -> None:
    """Whether such a path leads anywhere: what lives in no namespace is not found under one, and the other way round.

    Raises: StatusError (404, 405), NoPage (404) as the server of custom resources says it.
    Source: apiserver endpoints/installer.go; apiextensions-apiserver customresource_handler.go ServeHTTP.
    """
    in_namespaces = resource.kind.namespaced
    if info.place and not in_namespaces:
        raise page_not_found() if resource.has_strategic_merge else NoPage()
    if in_namespaces and not info.place and info.verb not in ("list", "watch"):
        if not resource.has_strategic_merge:
            raise NoPage
        is_list = not info.name and "list" in resource.verbs
        raise method_not_allowed(None) if is_list else page_not_found()
    if info.rest and info.subresource != "proxy":
        raise page_not_found()
    if info.verb == "watch" and "/watch/" in info.path and "watch" not in resource.verbs:
        raise page_not_found()
    if info.verb == "watch" and (info.subresource or method not in ("GET", "HEAD")):
        raise page_not_found() if info.subresource else method_not_allowed(None)


def _warned(ask: Ask, answer: Answer) -> Answer:
    """The answer with its warnings as headers."""
    if isinstance(answer, Response):
        if ask.warnings:
            answer.headers = (*answer.headers, *warning_headers(ask.warnings))
        return answer
    if isinstance(answer, Awaitable):
        return _warned_later(ask, answer)
    return answer


async def _warned_later(ask: Ask, coming: Awaitable[Response | Stream]) -> Response | Stream:
    answer = await coming
    found = _warned(ask, answer)
    assert not isinstance(found, Awaitable)
    return found
