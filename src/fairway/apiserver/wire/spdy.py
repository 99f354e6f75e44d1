"""Frames of SPDY/3.1, the protocol in which older clients `exec` and all of kubectl's port-forwards speak.

Only what those need: streams that the client opens, data, pings, resets. No flow control (theirs has none: the
window is TCP's), no priorities, no push, no settings. Whatever comes from outside is bounded: frames, header blocks
after inflating, names in them. No library on PyPI speaks it and is kept (`spdy-py`: LGPL, last released in 2021).

Source: SPDY Protocol draft 3.1; moby/spdystream, which is what the clients use.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

VERSION = 3
MAX_FRAME_BYTES = 1024 * 1024
# Of one block, inflated. A client's are a few hundred bytes.
MAX_HEADERS_BYTES = 16 * 1024
FIN = 0x01
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_PREFACE = struct.Struct(">II")
_WORD = struct.Struct(">I")
_STREAM_BITS = 0x7FFFFFFF
PROTOCOL_ERROR, REFUSED_STREAM, CANCEL = 1, 3, 5

# What both sides' compression starts from: header names, each behind its length, then pieces of values.
# Its Adler-32 is 0xe3c6a7c2. Source: SPDY Protocol draft 3, 2.6.10.1.
_NAMES = """options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age
allow authorization cache-control connection content-base content-encoding content-language content-length
content-location content-md5 content-range content-type date etag expect expires from host if-match if-modified-since
if-none-match if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate
proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning
www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin"""
_VALUES = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    names = (name.replace("_", " ").encode() for name in _NAMES.split())
    return b"".join(_WORD.pack(len(name)) + name for name in names) + _VALUES.encode()


DICTIONARY = _dictionary()


class SpdyError(ValueError):
    """Bytes that are no SPDY, or more than is allowed: the connection cannot go on."""


class Opened(NamedTuple):
    """SYN_STREAM: the client opens a stream. Header names are lower case."""

    stream: int
    headers: dict[str, str]
    is_last: bool


class Data(NamedTuple):
    stream: int
    data: bytes
    is_last: bool


class Reset(NamedTuple):
    stream: int


class Ping(NamedTuple):
    number: int


class GoAway(NamedTuple):
    """The client will open no more streams."""


Frame = Opened | Data | Reset | Ping | GoAway


class Reader:
    """Bytes in, frames out. Header blocks of one connection share one compression."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now.

        Raises: SpdyError, after which nothing may be fed any more.
        """
        self._buffer += data
        buffer = self._buffer
        at = 0
        try:
            while len(buffer) - at >= _PREFACE.size:
                first, second = _PREFACE.unpack_from(buffer, at)
                length = second & 0xFFFFFF
                if length > MAX_FRAME_BYTES:
                    raise SpdyError(f"a frame of {length} bytes; at most {MAX_FRAME_BYTES} are taken")
                begin = at + _PREFACE.size
                if len(buffer) - begin < length:
                    break
                at = begin + length
                frame = self._frame(first, second >> 24, bytes(buffer[begin:at]))
                if frame is not None:
                    yield frame
        finally:
            del buffer[:at]

    def _frame(self, first: int, flags: int, body: bytes) -> Frame | None:
        if not first >> 31:
            return Data(first, body, bool(flags & FIN))
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != VERSION:
            raise SpdyError(f"SPDY version {version}; only {VERSION} is spoken")
        if kind == _SYN_STREAM:
            return Opened(_word(body, 0) & _STREAM_BITS, self._headers(body[10:]), bool(flags & FIN))
        if kind in (_SYN_REPLY, _HEADERS):
            # Nobody waits for them, but the compression goes through every block.
            self._headers(body[4:])
            return None
        if kind == _RST_STREAM:
            return Reset(_word(body, 0) & _STREAM_BITS)
        if kind == _PING:
            return Ping(_word(body, 0))
        return GoAway() if kind == _GOAWAY else None

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            text = self._inflate.decompress(block, MAX_HEADERS_BYTES)
        except zlib.error as broken:
            raise SpdyError(f"headers that cannot be inflated: {broken}") from broken
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"headers of more than {MAX_HEADERS_BYTES} bytes")
        found: dict[str, str] = {}
        count, at = _word(text, 0), 4
        for _ in range(count):
            name, at = _text(text, at)
            value, at = _text(text, at)
            found[name.lower()] = value
        return found


def _word(data: bytes, at: int) -> int:
    if len(data) < at + 4:
        raise SpdyError("a frame that ends too early")
    return int(_WORD.unpack_from(data, at)[0])


def _text(data: bytes, at: int) -> tuple[str, int]:
    length = _word(data, at)
    begin = at + 4
    if length > len(data) - begin:
        raise SpdyError("a header that ends too early")
    return data[begin : begin + length].decode("latin-1"), begin + length


class Writer:
    """Frames of a server."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int, *, is_last: bool = False) -> bytes:
        """SYN_REPLY without headers: the stream is taken."""
        return _control(_SYN_REPLY, _WORD.pack(stream) + self.block({}), FIN if is_last else 0)

    def open(self, stream: int, headers: dict[str, str]) -> bytes:
        """SYN_STREAM, as a client sends it."""
        return _control(_SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + self.block(headers), 0)

    def block(self, headers: dict[str, str]) -> bytes:
        """A compressed header block; it must be sent: the other side's compression goes through it."""
        parts = [_WORD.pack(len(headers))]
        for name, value in headers.items():
            for text in (name.encode("latin-1", "replace"), value.encode("latin-1", "replace")):
                parts += (_WORD.pack(len(text)), text)
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def data_frames(stream: int, data: bytes, *, is_last: bool = False) -> bytes:
    """Data in frames of at most MAX_FRAME_BYTES; an empty one where there is only the end to tell."""
    parts = []
    for at in range(0, len(data), MAX_FRAME_BYTES) or range(1):
        piece = data[at : at + MAX_FRAME_BYTES]
        flags = FIN if is_last and at + MAX_FRAME_BYTES >= len(data) else 0
        parts.append(_PREFACE.pack(stream, flags << 24 | len(piece)) + piece)
    return b"".join(parts)


def reset(stream: int, why: int) -> bytes:
    return _control(_RST_STREAM, struct.pack(">II", stream, why), 0)


def ping(number: int) -> bytes:
    return _control(_PING, _WORD.pack(number), 0)


def go_away(last_stream: int) -> bytes:
    return _control(_GOAWAY, struct.pack(">II", last_stream, 0), 0)


def _control(kind: int, body: bytes, flags: int) -> bytes:
    return _PREFACE.pack(1 << 31 | VERSION << 16 | kind, flags << 24 | len(body)) + body
