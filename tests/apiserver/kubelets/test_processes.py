"""exec and attach behind their seam: terminals, lines typed, interrupts, what is played in the cluster's time."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import Callable
from typing import Any

import pytest

from fairway.apiserver.kubelets.files import Files
from fairway.apiserver.kubelets.interface import Invocation
from fairway.apiserver.kubelets.invocation import Run
from fairway.apiserver.kubelets.place import Place
from fairway.apiserver.kubelets.simulated import SimulatedKubelet
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339

NOW = parse_rfc3339("2026-01-05T08:00:00Z")
POD = Key("Pod", "default", "p")


class Client:
    """A Remote that keeps what it is told."""

    def __init__(self) -> None:
        self.out, self.err = b"", b""
        self.codes: list[int] = []

    def write(self, data: bytes) -> None:
        self.out += data

    def write_error(self, data: bytes) -> None:
        self.err += data

    def exit(self, code: int) -> None:
        self.codes.append(code)


class Loop:
    """The running loop's timers, which go off when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.timers: list[Timer] = []
        self.delays: list[float] = []
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(call))
        self.delays.append(delay)
        return self.timers[-1]

    def go_off(self) -> None:
        due, self.timers = [t for t in self.timers if not t.is_cancelled], []
        for timer in due:
            timer.call()

    @property
    def waits(self) -> bool:
        return any(not t.is_cancelled for t in self.timers)


class Timer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call, self.is_cancelled = call, False

    def cancel(self) -> None:
        self.is_cancelled = True


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


def running(command: list[str] | None = None, **state: Any) -> tuple[Store, Obj]:
    store = Store(now_us=NOW)
    container = {"name": "c", "image": "busybox", **({"command": command} if command else {})}
    spec = {"nodeName": "n", "restartPolicy": "Never", "containers": [container]}
    store.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    started = {"running": {"startedAt": "2026-01-05T07:59:00Z"}}
    statuses = [{"name": "c", "state": started, **state}]
    return store, store.set_status(POD, {"phase": "Running", "containerStatuses": statuses})


def begun(*argv: str, store: Store | None = None, **what: bool) -> tuple[Any, Client]:
    made, pod = running()
    if store is not None:
        pod = store.require(POD)
    client = Client()
    kubelet = SimulatedKubelet(store or made, lambda: None)
    process = kubelet.exec(pod, "c", Invocation(argv, **what), client)
    process.begin()
    return process, client


def test_a_terminal_ends_lines_its_own_way_and_mixes_both_streams() -> None:
    for tty in (False, True):
        _, client = begun("sh", "-c", "echo a; echo b >&2; exit 3", tty=tty)
        assert client.out + client.err == (b"a\r\nb\r\n" if tty else b"a\nb\n")
        assert bool(client.err) is not tty
        assert client.codes == [3]


def test_what_a_command_says_later_comes_when_the_cluster_is_there(loop: Loop) -> None:
    store, _ = running()
    process, client = begun("sh", "-c", "echo one; sleep 5; echo two; sleep 5", store=store)
    for now_s, said, is_over in ((0, b"one\n", False), (4, b"one\n", False), (5, b"one\ntwo\n", False)):
        store.now_us = NOW + now_s * SECOND_US
        loop.go_off()
        assert (client.out, bool(client.codes)) == (said, is_over)
    store.now_us = NOW + 10 * SECOND_US
    loop.go_off()
    assert (client.out, client.codes, loop.waits) == (b"one\ntwo\n", [0], False)
    assert set(loop.delays) == {0.1}
    process.hang_up()
    assert client.codes == [0]


def test_who_hangs_up_hears_no_more(loop: Loop) -> None:
    process, client = begun("sh", "-c", "sleep 5; echo two")
    assert loop.waits
    process.hang_up()
    assert not loop.waits and client.codes == []


def test_an_interrupt_needs_a_terminal(loop: Loop) -> None:
    for tty in (False, True):
        process, client = begun("sleep", "60", tty=tty, stdin=True)
        process.receive(b"\x03")
        assert client.codes == ([130] if tty else [])
        assert loop.waits is not tty
        process.hang_up()
        process.receive(b"\x03")
        assert client.codes == ([130] if tty else [])


def test_a_command_that_reads_waits_for_the_end_of_its_input() -> None:
    for tty, end in ((False, None), (True, b"\x04")):
        process, client = begun("cat", stdin=True, tty=tty)
        process.receive(b"x\n")
        assert (client.out, client.codes) == (b"", [])
        process.receive(b"y" if end is None else b"y" + end + b"z")
        if end is None:
            process.receive_end()
        assert client.out == (b"x\r\ny" if tty else b"x\ny")
        assert client.codes == [0]
        process.receive(b"late")
        process.receive_end()
        assert client.codes == [0]


def test_without_input_nothing_is_waited_for() -> None:
    process, client = begun("cat")
    assert (client.out, client.codes) == (b"", [0])
    process.receive(b"x")
    process.receive_end()
    assert (client.out, client.codes) == (b"", [0])


def test_a_shell_in_a_terminal_shows_what_is_typed_and_a_prompt() -> None:
    process, client = begun("/bin/sh", stdin=True, tty=True)
    assert client.out == b"# "
    process.receive(b"echo h")
    process.receive(b"i\r")
    assert client.out == b"# echo hi\r\nhi\r\n# "
    process.receive(b"nonsense\x03true\r")
    assert client.out.endswith(b"\x03true\r\n# ") and b"not found" not in client.out
    process.receive(b"exit 4\recho no\r")
    assert client.codes == [4] and client.out.endswith(b"exit 4\r\necho no\r\n")
    process.receive(b"more\r")
    process.receive_end()
    assert client.codes == [4] and not client.out.endswith(b"more\r\n")


def test_a_shell_ends_with_what_its_last_line_came_to() -> None:
    for typed, code in (
        (b"false\n\n", 1),
        (b"false\ntrue\n", 0),
        (b"true\nfalse", 1),
        (b"exit 9", 9),
        (b"false\nexit\n", 1),
        (b"false\n[ $? = 1 ]\n", 0),
        (b"", 0),
    ):
        process, client = begun("sh", stdin=True)
        process.receive(typed)
        process.receive_end()
        assert (client.out, client.codes) == (b"", [code]), typed


def test_how_a_shell_is_left() -> None:
    for tty, data, is_left in (
        (True, b"\x04", True),
        (False, b"\x04", False),
        (False, b"x" * 65536, False),
        (False, b"x" * 65537, True),
    ):
        process, client = begun("sh", stdin=True, tty=tty)
        process.receive(data)
        assert client.codes == ([0] if is_left else []), (tty, len(data))


def test_a_shell_stays_where_it_went_and_stops_as_it_was_told() -> None:
    process, client = begun("sh", stdin=True)
    process.receive(b"cd /tmp\npwd\nsh -c 'cd /; pwd'\n\n# nothing\npwd\n")
    assert client.out == b"/tmp\n/\n/tmp\n"
    process.receive(b"false\nset -e\nfalse || true\nsh -c 'exit 3' || pwd\n")
    assert (client.out, client.codes) == (b"/tmp\n/\n/tmp\n/tmp\n", [])
    process.receive(b"sh -c 'exit 5'\npwd\n")
    assert (client.out, client.codes) == (b"/tmp\n/\n/tmp\n/tmp\n", [5])


def test_a_shell_lives_in_the_clusters_time() -> None:
    store, _ = running()
    process, client = begun("sh", stdin=True, store=store)
    store.now_us = NOW + 90 * SECOND_US
    process.receive(b"date\n")
    assert client.out == b"2026-01-05T08:01:30Z\n"


def attached(store: Store) -> tuple[Any, Client]:
    client = Client()
    process = SimulatedKubelet(store, lambda: None).attach(
        store.require(POD), "c", Invocation((), stdout=True), client
    )
    process.begin()
    return process, client


@pytest.mark.parametrize("where", ["state", "lastState", ""])
def test_whoever_is_attached_reads_on_until_the_container_ends(loop: Loop, where: str) -> None:
    store, _ = running(["sh", "-c", "echo one; sleep 70; echo two; exit 6"])
    process, client = attached(store)
    process.receive(b"typed")
    process.receive_end()
    assert (client.out, client.codes) == (b"one\n", [])
    ends = NOW + 10 * SECOND_US
    store.now_us = ends
    ended = {"terminated": {"exitCode": 6, "startedAt": "2026-01-05T07:59:00Z", "finishedAt": rfc3339(ends)}}
    if where:
        rest = {"state": {"waiting": {}}} if where == "lastState" else {}
        statuses = [{"name": "c", **rest, where: ended}]
        store.set_status(POD, {"phase": "Failed", "containerStatuses": statuses})
    else:
        store.delete(POD, grace_s=0)
    loop.go_off()
    assert client.out == b"one\ntwo\n"
    assert client.codes == [6 if where else 0]
    assert not loop.waits
    assert set(loop.delays) == {0.5}


def test_whoever_leaves_is_told_no_more(loop: Loop) -> None:
    store, _ = running(["sh", "-c", "echo one; sleep 7000"])
    process, client = attached(store)
    assert loop.waits
    process.hang_up()
    assert not loop.waits and client.codes == []


def test_a_command_may_read_an_archive_of_all_that_fits_and_no_more() -> None:
    """Twenty MiB: what a container's files may have, and four more."""
    for more, codes in ((0, []), (1, [1])):
        process, client = begun("wc", "-c", stdin=True)
        for _ in range(20):
            process.receive(bytes(1 << 20))
        process.receive(bytes(more))
        assert client.codes == codes
        assert client.err == (b"simulated container: too much input\n" if codes else b"")
        process.receive_end()
        assert client.codes == (codes or [0])
        assert client.out == (b"" if codes else b"20971520\n")


def test_a_shell_takes_a_long_line_piece_by_piece() -> None:
    process, client = begun("sh", stdin=True)
    process.receive(b"echo ")
    for _ in range(10):
        process.receive(b"x" * 6000)
    process.receive(b"\necho y\n")
    assert client.out == b"x" * 60_000 + b"\ny\n" and client.codes == []


def test_what_one_invocation_may_write_has_an_end() -> None:
    store, pod = running()
    run = Run(Place(pod, "c", "n", store, NOW), Files(0))
    run.say(b"")
    run.say(bytes(32 << 20))
    run.say(b"x")
    run.say(b"", is_error=True)
    assert [(said.after_us, said.is_error, len(said.data)) for said in run.said] == [(0, False, 32 << 20)]
    run = Run(Place(pod, "c", "n", store, NOW), Files(0), elapsed_us=5)
    run.say(bytes((32 << 20) - 1), is_error=True)
    run.say(b"xy")
    run.say(b"z")
    assert [(said.after_us, said.is_error, said.data[-1:]) for said in run.said] == [
        (5, True, b"\0"),
        (5, False, b"z"),
    ]


def test_input_after_its_end_begins_nothing_again(loop: Loop) -> None:
    store, _ = running()
    process, client = begun("sh", "-c", "cat; sleep 5; echo done", stdin=True, store=store)
    process.receive(b"x\n")
    process.receive_end()
    assert (client.out, client.codes) == (b"x\n", [])
    process.receive(b"late\n")
    process.receive_end()
    assert (client.out, client.codes, len(loop.timers)) == (b"x\n", [], 1)
    store.now_us = NOW + 5 * SECOND_US
    loop.go_off()
    assert (client.out, client.codes) == (b"x\ndone\n", [0])


def test_an_archive_is_unpacked_as_soon_as_it_is_whole() -> None:
    """As `kubectl cp` sends it, which keeps its end open."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("a"))
    data = made.getvalue()
    process, client = begun("tar", "xf", "-", "-C", "/tmp", stdin=True)
    process.receive(data[:512])
    assert client.codes == []
    process.receive(data[512:])
    assert client.codes == [0]
    process.receive_end()
    assert client.codes == [0]
    process, client = begun("wc", "-c", stdin=True)
    process.receive(data)
    assert client.codes == [], "whoever counts waits for the end"


def test_a_shell_whose_client_left_runs_nothing_more() -> None:
    process, client = begun("sh", stdin=True)
    process.receive(b"echo one\n")
    process.hang_up()
    process.receive(b"echo two\n")
    assert client.out == b"one\n" and client.codes == []
