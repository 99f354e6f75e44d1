"""The streams of one SPDY connection: opened by the client, written by both, limited in number.

Source: moby/spdystream connection.go, as far as Kubernetes' clients use it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from fairway.apiserver.wire import spdy

log = logging.getLogger("fairway.apiserver")
# A forwarded connection takes two.
MAX_STREAMS = 512
# Of a stream that nobody has taken yet.
_MAX_EARLY_BYTES = 256 * 1024


class SpdyStream:
    """One stream. What the client sends before somebody takes it waits."""

    def __init__(self, session: SpdySession, number: int, headers: dict[str, str]) -> None:
        self._session = session
        self.number = number
        self.headers = headers
        self._on_data: Callable[[bytes], None] | None = None
        self._on_end: Callable[[], None] | None = None
        self._early = bytearray()
        self.is_ended = False
        """Whether we have sent our last byte."""
        self.is_client_done = False

    def take(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data, self._on_end = on_data, on_end
        if self._early:
            early, self._early = bytes(self._early), bytearray()
            on_data(early)
        if self.is_client_done:
            on_end()

    def write(self, data: bytes) -> None:
        if data and not self.is_ended:
            self._session.send(spdy.data_frames(self.number, data))

    def end(self) -> None:
        """Nothing follows from here."""
        if not self.is_ended:
            self.is_ended = True
            self._session.send(spdy.data_frames(self.number, b"", is_last=True))
            self._session.settle(self)

    # For the session

    def received(self, data: bytes) -> None:
        if self._on_data is not None:
            self._on_data(data)
            return
        self._early += data
        if len(self._early) > _MAX_EARLY_BYTES:
            raise spdy.SpdyError(f"stream {self.number}: {len(self._early)} bytes that nobody takes")

    def received_all(self) -> None:
        self.is_client_done = True
        if self._on_end is not None:
            self._on_end()


class SpdySession:
    """`accept` is asked whether a new stream is welcome; `on_gone` hears once that the connection is over."""

    def __init__(self, accept: Callable[[SpdyStream], bool], on_gone: Callable[[], None]) -> None:
        self._accept = accept
        self._on_gone = on_gone
        self._reader = spdy.Reader()
        self._writer = spdy.Writer()
        self._streams: dict[int, SpdyStream] = {}
        self._last = 0
        self._is_over = False
        self._write: Callable[[bytes], None] | None = None
        self._hang_up: Callable[[], None] | None = None

    def attach(self, write: Callable[[bytes], None], hang_up: Callable[[], None]) -> None:
        """The connection is there."""
        self._write = write
        self._hang_up = hang_up

    def send(self, frames: bytes) -> None:
        if not self._is_over and self._write is not None:
            self._write(frames)

    def received(self, data: bytes) -> None:
        if self._is_over:
            return
        try:
            for frame in self._reader.feed(data):
                self._handle(frame)
        except spdy.SpdyError as wrong:
            log.info("SPDY connection closed: %s", wrong)
            self.close()

    def _handle(self, frame: spdy.Frame) -> None:
        if self._is_over:
            # What came before ended it.
            return
        if isinstance(frame, spdy.Data):
            self._data(frame)
        elif isinstance(frame, spdy.Opened):
            self._opened(frame)
        elif isinstance(frame, spdy.Ping):
            if frame.number % 2:
                self.send(spdy.ping(frame.number))
        elif isinstance(frame, spdy.Reset):
            stream = self._streams.pop(frame.stream, None)
            if stream is not None:
                stream.is_ended = True
                self._client_done(stream)

    def _opened(self, frame: spdy.Opened) -> None:
        if frame.stream % 2 == 0 or frame.stream <= self._last:
            raise spdy.SpdyError(f"stream {frame.stream} opened after {self._last}")
        self._last = frame.stream
        stream = SpdyStream(self, frame.stream, frame.headers)
        if len(self._streams) >= MAX_STREAMS or not self._accept(stream):
            self.send(spdy.reset(frame.stream, spdy.REFUSED_STREAM))
            return
        self._streams[frame.stream] = stream
        self.send(self._writer.reply(frame.stream))
        if frame.is_last:
            self._client_done(stream)

    def _data(self, frame: spdy.Data) -> None:
        stream = self._streams.get(frame.stream)
        if stream is None or stream.is_client_done:
            return
        if frame.data:
            stream.received(frame.data)
        if frame.is_last:
            self._client_done(stream)

    def _client_done(self, stream: SpdyStream) -> None:
        if not stream.is_client_done:
            stream.received_all()
            self.settle(stream)

    def settle(self, stream: SpdyStream) -> None:
        """Forget a stream that both sides have ended."""
        if stream.is_ended and stream.is_client_done:
            self._streams.pop(stream.number, None)

    def close(self) -> None:
        """Say that it is over, and hang up."""
        if self._is_over:
            return
        self.send(spdy.go_away(self._last))
        hang_up = self._hang_up
        self.gone()
        if hang_up is not None:
            hang_up()

    def gone(self) -> None:
        """The connection is no more."""
        if not self._is_over:
            self._is_over = True
            self._streams.clear()
            self._on_gone()
