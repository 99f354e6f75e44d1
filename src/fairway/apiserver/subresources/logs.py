"""What did this container say? `kubectl logs`, made up from what is known: when it started, what it runs, how it ended.

A container whose command a simulated shell knows (`echo`, `date`, `nvidia-smi`, …; see `commands`) writes what that
prints. Any other writes one line when it starts, one a minute while it runs, and one when it ends. The lines follow
from its pod and its status: asked twice, it says the same.

Source: pkg/registry/core/pod/rest/log.go, kubelet server's messages (v1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.statuses import StatusError, bad_request, not_found
from fairway.apiserver.subresources import commands
from fairway.apiserver.watching import chunk
from fairway.apiserver.wire.connection import Connection
from fairway.apiserver.wire.messages import Answer, Response
from fairway.kube.objects import Obj
from fairway.kube.timestamps import MINUTE_US, SECOND_US, parse_rfc3339, rfc3339_micro

_TEXT = "text/plain"
_MAX_LINES = 10_000
_FOLLOW_EVERY_S = 0.5
_HEAD = (
    b"HTTP/1.1 200 OK\r\nCache-Control: no-cache, private\r\nContent-Type: text/plain\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)

Line = tuple[int, str]


def answer(api: Api, ask: Ask) -> Answer:
    """Raises: StatusError (400, 404)."""
    pod = api.store.get(ask.key)
    if pod is None:
        raise not_found(ask.resource.kind, ask.info.name)
    name = container_named(pod, ask.request.option("container"))
    if not ask.request.flag("follow"):
        return Response(200, "".join(_shown(ask, _checked(api, ask, pod, name))).encode(), _TEXT)
    _checked(api, ask, pod, name)
    return _Following(api, ask, name)


def container_named(pod: Obj, asked: str) -> str:
    """The container meant.

    Raises: StatusError (400) where it is not clear, or not there.
    """
    spec, meta = pod["spec"], pod["metadata"]
    names = [c["name"] for c in spec.get("containers") or ()]
    inits = [c["name"] for c in spec.get("initContainers") or ()]
    if asked:
        if asked not in (*names, *inits):
            raise bad_request(f"container {asked} is not valid for pod {meta['name']}")
        return asked
    if len(names) == 1:
        return str(names[0])
    said = f"a container name must be specified for pod {meta['name']}, choose one of: [{' '.join(names)}]"
    raise bad_request(said + (f" or one of the init containers: [{' '.join(inits)}]" if inits else ""))


def _checked(api: Api, ask: Ask, pod: Obj, name: str) -> list[Line]:
    """The lines so far.

    Raises: StatusError (400) for a container that has not started.
    """
    said = status_of(pod, name)
    meta = pod["metadata"]
    if ask.request.flag("previous"):
        ended = (said.get("lastState") or {}).get("terminated")
        if ended is None:
            raise bad_request(f'previous terminated container "{name}" in pod "{meta["name"]}" not found')
        return _ended_lines(api, pod, name, ended)
    state = said.get("state") or {}
    if "running" in state:
        started = state["running"]["startedAt"]
        told = _printed(api, pod, name, started)
        return told or list(_lines(pod, name, started, None, None, api.store.now_us))
    if "terminated" in state:
        return _ended_lines(api, pod, name, state["terminated"])
    reason = (state.get("waiting") or {}).get("reason") or ""
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {meta['name']} does not have a host assigned")
    why = (
        "trying and failing to pull image"
        if "Pull" in reason
        else f"waiting to start: {reason or 'ContainerCreating'}"
    )
    raise StatusError(400, "BadRequest", f'container "{name}" in pod "{meta["name"]}" is {why}')


def status_of(pod: Obj, name: str) -> dict[str, Any]:
    status = pod.get("status") or {}
    for told in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if told.get("name") == name:
            return dict(told)
    return {}


def _ended_lines(api: Api, pod: Obj, name: str, ended: dict[str, Any]) -> list[Line]:
    told = _printed(api, pod, name, ended.get("startedAt"))
    if told:
        return told
    return list(_lines(pod, name, ended.get("startedAt"), ended.get("finishedAt"), ended.get("exitCode"), 0))


def _printed(api: Api, pod: Obj, name: str, started: str | None) -> list[Line]:
    """What its command prints, where a simulated shell knows it."""
    container = _container(pod, name)
    argv = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not started or not argv:
        return []
    at_us = parse_rfc3339(started)
    place = commands.Place(pod, name, pod["spec"].get("nodeName") or "", api.store, at_us)
    return [(at_us, line) for line in commands.printed(argv, place).splitlines()]


def _container(pod: Obj, name: str) -> Obj:
    spec = pod["spec"]
    every = (*spec["containers"], *(spec.get("initContainers") or ()))
    return next((c for c in every if c["name"] == name), {})


def _lines(
    pod: Obj, name: str, started: str | None, finished: str | None, code: int | None, now_us: int
) -> Iterator[Line]:
    if not started:
        return
    container = _container(pod, name)
    from_us = parse_rfc3339(started)
    until_us = parse_rfc3339(finished) if finished else now_us
    command = " ".join([*(container.get("command") or ()), *(container.get("args") or ())])
    yield from_us, f"starting {command or container.get('image', '')}"
    minutes = max(until_us - from_us, 0) // MINUTE_US
    for minute in range(max(1, minutes - _MAX_LINES), minutes + 1):
        at_us = from_us + minute * MINUTE_US
        if at_us < until_us:
            yield at_us, f"running for {minute}m"
    if code is not None:
        yield until_us, f"exit code {code}"


def lines_so_far(api: Api, ask: Ask, pod: Obj, name: str) -> list[str]:
    """What it has written, without times.

    Raises: StatusError (400) for a container that has not started.
    """
    return [said for _, said in _checked(api, ask, pod, name)]


def _shown(ask: Ask, lines: list[Line]) -> list[str]:
    """As the query wants them: the last, the newest, with times."""
    request = ask.request
    since = request.option("sinceTime")
    if since:
        try:
            since_us = parse_rfc3339(since)
        except ValueError as wrong:
            raise bad_request(f"sinceTime: {wrong}") from wrong
        lines = [line for line in lines if line[0] >= since_us]
    seconds = request.option("sinceSeconds")
    if seconds.isdigit() and lines:
        lines = [line for line in lines if line[0] >= lines[-1][0] - int(seconds) * SECOND_US]
    tail = request.option("tailLines")
    if tail.isdigit():
        lines = lines[-int(tail) :] if int(tail) else []
    stamped = request.flag("timestamps")
    text = [f"{rfc3339_micro(at_us)} {said}\n" if stamped else f"{said}\n" for at_us, said in lines]
    limit = request.option("limitBytes")
    return ["".join(text)[: int(limit)]] if limit.isdigit() else text


class _Following:
    """A log that goes on until its container ends or its pod is gone."""

    def __init__(self, api: Api, ask: Ask, name: str) -> None:
        self._api = api
        self._ask = ask
        self._name = name
        self._told = 0
        self._connection: Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tail = True

    def start(self, connection: Connection) -> None:
        self._connection = connection
        connection.transport.write(_HEAD)
        self._go_on()

    def stop(self) -> None:
        self._connection = None
        if self._timer is not None:
            self._timer.cancel()

    def _go_on(self) -> None:
        connection = self._connection
        if connection is None or connection.transport.is_closing():
            return
        pod = self._api.store.get(self._ask.key)
        lines: list[Line] = []
        is_over = pod is None
        if pod is not None:
            try:
                lines = _checked(self._api, self._ask, pod, self._name)
            except StatusError:
                is_over = True
            is_over = is_over or "terminated" in (status_of(pod, self._name).get("state") or {})
        fresh = lines[self._told :]
        if fresh:
            self._told = len(lines)
            shown = _shown(self._ask, fresh) if self._tail else [f"{said}\n" for _, said in fresh]
            self._tail = False
            text = "".join(shown).encode()
            if text:
                connection.transport.write(chunk(text))
        if is_over:
            self.stop()
            connection.transport.write(b"0\r\n\r\n")
            connection.done()
            return
        self._timer = asyncio.get_running_loop().call_later(_FOLLOW_EVERY_S, self._go_on)
