"""Run one server until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

from fairway.apiserver.serving import Server, Settings
from fairway.apiserver.sparinglog import Sparing
from fairway.apiserver.wire.gate import raise_limit
from fairway.errors import WorldError


def serve(settings: Settings, told: Callable[[Server], None] | None = None) -> int:
    """The process's life; `told` is called once it answers. Returns the exit code.

    Raises: FairwayError.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    for handler in logging.getLogger().handlers:
        handler.addFilter(Sparing())
    raise_limit()
    return asyncio.run(_serve(settings, told))


async def _serve(settings: Settings, told: Callable[[Server], None] | None) -> int:
    server = Server(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.ended.set)
    await server.start()
    if told is not None:
        told(server)
    await server.ended.wait()
    failure = server.failure
    await server.stop()
    if failure is not None:
        raise WorldError(f"the server stopped: {type(failure).__name__}: {failure}") from failure
    return 0
