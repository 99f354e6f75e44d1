"""SPDY frames: what is written is read, however it is cut; what is no SPDY is refused and never more than that."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apiserver.streaming import spdysession
from fairway.apiserver.streaming.spdysession import MAX_STREAMS, SpdySession, SpdyStream
from fairway.apiserver.wire import spdy
from fairway.apiserver.wire.spdy import Data, Opened, Ping, Reader, SpdyError, Writer

HEADERS = st.dictionaries(
    st.text("abcdefghijklmnop-", min_size=1, max_size=12), st.text("ab 0/", max_size=20), max_size=4
)


def frames_of(data: bytes, cuts: list[int]) -> list[spdy.Frame]:
    """Fed in pieces."""
    reader, found, at = Reader(), list[spdy.Frame](), 0
    for cut in (*sorted({c % (len(data) + 1) for c in cuts}), len(data)):
        found += reader.feed(data[at:cut])
        at = cut
    return found


def test_the_dictionary_is_the_protocols() -> None:
    assert (len(spdy.DICTIONARY), zlib.adler32(spdy.DICTIONARY)) == (1423, 0xE3C6A7C2)


@given(
    opened=st.lists(HEADERS, max_size=3),
    body=st.binary(max_size=300),
    cuts=st.lists(st.integers(0, 5000), max_size=6),
)
def test_what_is_written_is_read_however_it_is_cut(
    opened: list[dict[str, str]], body: bytes, cuts: list[int]
) -> None:
    writer = Writer()
    sent = b"".join(writer.open(2 * i + 1, headers) for i, headers in enumerate(opened))
    sent += spdy.data_frames(1, body, is_last=True) + spdy.ping(7)
    want = [Opened(2 * i + 1, headers, False) for i, headers in enumerate(opened)]
    assert frames_of(sent, cuts) == [*want, Data(1, body, True), Ping(7)]


@settings(max_examples=300)
@given(
    junk=st.binary(max_size=200), kind=st.integers(0, 12), flips=st.lists(st.integers(0, 10_000), max_size=3)
)
def test_no_bytes_break_the_reader(junk: bytes, kind: int, flips: list[int]) -> None:
    head = spdy._PREFACE.pack(1 << 31 | spdy.VERSION << 16 | kind, len(junk))
    good = bytearray(Writer().open(1, {"streamtype": "data", "port": "80"}))
    for flip in flips:
        good[flip % len(good)] ^= 1 << flip % 8
    for data in (junk, head + junk, bytes(good)):
        try:
            for frame in Reader().feed(data):
                assert isinstance(frame, tuple)
        except SpdyError:
            pass


@settings(max_examples=200)
@given(junk=st.lists(st.binary(max_size=120), max_size=5))
def test_no_bytes_break_a_session(junk: list[bytes]) -> None:
    gone: list[bool] = []
    session = SpdySession(lambda stream: True, lambda: gone.append(True))
    sent: list[bytes] = []
    session.attach(sent.append, lambda: None)
    for data in junk:
        session.received(data)
    session.gone()
    assert gone == [True]


def test_header_blocks_are_bounded_after_inflating() -> None:
    bomb = Writer().open(1, {"a": "x" * (1024 * 1024)})
    assert len(bomb) < 4096
    with pytest.raises(SpdyError, match="more than"):
        list(Reader().feed(bomb))


def test_frames_byte_by_byte() -> None:
    """Source: SPDY Protocol draft 3, 2.2 and 2.6."""
    for made, want in (
        (spdy.data_frames(5, b"ab"), "00000005 00 000002 6162"),
        (spdy.data_frames(5, b"ab", is_last=True), "00000005 01 000002 6162"),
        (spdy.data_frames(5, b"", is_last=True), "00000005 01 000000"),
        (spdy.reset(5, spdy.PROTOCOL_ERROR), "80030003 00 000008 00000005 00000001"),
        (spdy.reset(5, spdy.REFUSED_STREAM), "80030003 00 000008 00000005 00000003"),
        (spdy.reset(5, spdy.CANCEL), "80030003 00 000008 00000005 00000005"),
        (spdy.ping(9), "80030006 00 000004 00000009"),
        (spdy.go_away(5), "80030007 00 000008 00000005 00000000"),
    ):
        assert made == bytes.fromhex(want.replace(" ", ""))
    writer = Writer()
    for made, kind, flags in (
        (writer.reply(5), "80030002", 0),
        (writer.reply(5, is_last=True), "80030002", 1),
        (writer.open(5, {"a": "b"}), "80030001", 0),
    ):
        assert (made[:4].hex(), made[4]) == (kind, flags)
        assert int.from_bytes(made[5:8], "big") == len(made) - 8
        assert made[8:12] == bytes((0, 0, 0, 5))


def test_a_header_block_has_so_many_bytes() -> None:
    """Its count, and each length, take four."""
    room = 16 * 1024 - 4 - 4 - 1 - 4
    assert frames_of(Writer().open(1, {"a": "x" * room}), []) == [Opened(1, {"a": "x" * room}, False)]
    with pytest.raises(SpdyError, match="more than"):
        list(Reader().feed(Writer().open(1, {"a": "x" * (room + 1)})))


def test_frames_are_bounded() -> None:
    whole = spdy._PREFACE.pack(1, 1024 * 1024)
    assert list(Reader().feed(whole)) == [], "more is to come"
    with pytest.raises(SpdyError, match="at most"):
        list(Reader().feed(spdy._PREFACE.pack(1, 0xFFFFFF)))


class Client:
    """A session and what it sent."""

    def __init__(self) -> None:
        self.streams: list[SpdyStream] = []
        self.gone = 0
        self.is_closed = False
        self.session = SpdySession(self._accept, self._gone)
        self.sent = b""
        self.writer = Writer()
        self.session.attach(self._send, self._close)

    def _accept(self, stream: SpdyStream) -> bool:
        self.streams.append(stream)
        return "no" not in stream.headers

    def _gone(self) -> None:
        self.gone += 1

    def _send(self, data: bytes) -> None:
        self.sent += data

    def _close(self) -> None:
        self.is_closed = True


def test_streams_are_limited_in_number() -> None:
    client = Client()
    for i in range(MAX_STREAMS + 1):
        client.session.received(client.writer.open(2 * i + 1, {}))
    assert len(client.streams) == MAX_STREAMS
    assert client.sent.endswith(spdy.reset(2 * MAX_STREAMS + 1, spdy.REFUSED_STREAM))


@pytest.mark.parametrize("is_server_first", [True, False])
def test_streams_that_both_sides_ended_make_room(is_server_first: bool) -> None:
    client = Client()
    for i in range(MAX_STREAMS + 1):
        number = 2 * i + 1
        client.session.received(client.writer.open(number, {}))
        client.streams[i].take(lambda _: None, lambda: None)
        end = spdy.data_frames(number, b"", is_last=True)
        if is_server_first:
            client.streams[i].end()
            client.session.received(end)
        else:
            client.session.received(end)
            client.streams[i].end()
    assert len(client.streams) == MAX_STREAMS + 1


@pytest.mark.parametrize("is_of_server", [True, False])
def test_streams_that_one_side_ended_take_room(is_of_server: bool) -> None:
    client = Client()
    for i in range(MAX_STREAMS + 1):
        client.session.received(client.writer.open(2 * i + 1, {}))
        if is_of_server:
            client.streams[-1].end()
        else:
            client.session.received(spdy.data_frames(2 * i + 1, b"", is_last=True))
    assert len(client.streams) == MAX_STREAMS


@pytest.mark.parametrize("missing", [1, 2, 3, 4])
def test_a_header_that_ends_too_early(missing: int) -> None:
    """Its name and value say how long they are."""
    text = spdy._WORD.pack(1) + b"".join(spdy._WORD.pack(3) + word for word in (b"one", b"two"))
    for cut in (text[:-missing], text[: 4 + 4 + 3 - min(missing, 3)]):
        deflate = zlib.compressobj(zdict=spdy.DICTIONARY)
        block = deflate.compress(cut) + deflate.flush(zlib.Z_SYNC_FLUSH)
        frame = spdy._control(spdy._SYN_STREAM, bytes(3) + b"\x01" + bytes(6) + block, 0)
        with pytest.raises(SpdyError, match="ends too early"):
            list(Reader().feed(frame))


def test_what_comes_before_a_stream_is_taken_waits_but_not_without_limit() -> None:
    client = Client()
    client.session.received(client.writer.open(1, {}) + spdy.data_frames(1, b"early", is_last=True))
    said: list[bytes] = []
    client.streams[0].take(said.append, lambda: said.append(b"<end>"))
    assert said == [b"early", b"<end>"]
    client.session.received(client.writer.open(3, {}))
    client.session.received(spdy.data_frames(3, b"x" * (spdysession._MAX_EARLY_BYTES + 1)))
    assert (client.is_closed, client.gone) == (True, 1)


@pytest.mark.parametrize("numbers", [(2,), (3, 1), (1, 1)])
def test_stream_numbers_are_odd_and_rise(numbers: tuple[int, ...]) -> None:
    client = Client()
    for number in numbers:
        client.session.received(client.writer.open(number, {}))
    assert client.is_closed


def test_pings_are_answered_and_refused_streams_reset() -> None:
    client = Client()
    client.session.received(spdy.ping(5))
    assert client.sent == spdy.ping(5)
    client.sent = b""
    client.session.received(client.writer.open(1, {"no": "thanks"}))
    assert client.sent == spdy.reset(1, spdy.REFUSED_STREAM)
