"""Who is connected, who of them is idle, and who has to go when there are too many?

A process has so many descriptors; whoever opens connections and says nothing must not take them from the others. So
the gate counts every connection from the moment it is accepted, before TLS says who it is. One that is idle (in its
handshake, or between two requests) is cut off after a while, and before that where somebody new needs its place: the
one that has been idle longest goes first. Those that are being answered, and watches, stay.

Source: apiserver pkg/server/secure_serving.go (IdleTimeout 90 s).
"""

from __future__ import annotations

import asyncio
import logging
import resource
import ssl
from asyncio import sslproto
from collections.abc import Callable
from typing import Any, Protocol

log = logging.getLogger("fairway.apiserver.connections")

IDLE_S = 90.0
HANDSHAKE_S = 10.0
# More than anybody watches with; each takes up to 150 KB.
MOST_CONNECTIONS = 4096
# Descriptors for everything else: files, webhooks, sockets of port-forward.
_SPARE = 128
_LOOK_EVERY_S = 5.0


class Guest(Protocol):
    """One connection."""

    def cut(self) -> None:
        """End it, now."""


class Gate:
    """All connections. O(1) for each of its steps."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.shed = 0
        """Connections cut off for others."""
        self._idle: dict[Guest, float] = {}
        """Since when, those that have been idle longest first."""
        self._busy: set[Guest] = set()

    def __len__(self) -> int:
        return len(self._idle) + len(self._busy)

    def enter(self, guest: Guest) -> None:
        """A new connection, idle at first. Another one goes where there are too many; this one where all are busy."""
        self.rest(guest)
        if len(self) > self.most:
            self.shed += 1
            log.warning("%d connections: the one that was idle longest is cut off", self.most)
            self._cut(next(iter(self._idle)))

    def work(self, guest: Guest) -> None:
        """A request of its is being answered."""
        if self._idle.pop(guest, None) is not None:
            self._busy.add(guest)

    def rest(self, guest: Guest) -> None:
        """It has nothing to do, from now on."""
        self._busy.discard(guest)
        self._idle.pop(guest, None)
        self._idle[guest] = asyncio.get_running_loop().time()

    def leave(self, guest: Guest) -> None:
        """It is gone."""
        self._busy.discard(guest)
        self._idle.pop(guest, None)

    def expire(self, now_s: float) -> None:
        """Cut off whoever has been idle for too long."""
        for guest in [g for g, since_s in self._idle.items() if now_s - since_s >= IDLE_S]:
            self._cut(guest)

    def _cut(self, guest: Guest) -> None:
        self.leave(guest)
        guest.cut()

    async def expire_forever(self) -> None:
        """The idle deadline."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            self.expire(asyncio.get_running_loop().time())


def most_connections() -> int:
    """As many as the process' descriptors allow, and its memory."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(min(soft - _SPARE, MOST_CONNECTIONS), 16) if soft > 0 else MOST_CONNECTIONS


def raise_limit() -> None:
    """Let this process have as many descriptors as it may, up to what it needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _SPARE
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Handshake(sslproto.SSLProtocol):
    """TLS of one connection, known to the gate from its first moment; `cut` ends it whatever its state."""

    # asyncio's 256 KB of buffer for each connection are written to at once: 3,000 watchers were 750 MB.
    max_size = 32 * 1024

    def __init__(self, gate: Gate, context: ssl.SSLContext, protocol: asyncio.BaseProtocol) -> None:
        loop: Any = asyncio.get_running_loop()
        nobody: Any = None
        deadline: Any = HANDSHAKE_S
        super().__init__(loop, protocol, context, nobody, server_side=True, ssl_handshake_timeout=deadline)
        self._gate = gate
        self._raw: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = transport
        self._gate.enter(self)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._gate.leave(self)
        super().connection_lost(exc)

    def cut(self) -> None:
        if isinstance(self._raw, asyncio.Transport):
            self._raw.abort()


class Behind(Protocol):
    """A connection's own protocol, which says when it works and when it rests."""

    guest: Guest


def behind(gate: Gate, context: ssl.SSLContext, connect: Callable[[], Behind]) -> Callable[[], Handshake]:
    """What a listener makes for each connection."""

    def entered() -> Handshake:
        connection: Any = connect()
        guest = connection.guest = Handshake(gate, context, connection)
        return guest

    return entered
