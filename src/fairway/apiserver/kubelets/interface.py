"""What does the API server ask of a node's kubelet? The seam between simulated and real nodes.

The API server has checked who asks, that they may, and that pod and container exist. A kubelet answers for what runs:
it hands out a `Process`, a `Port` or a `LogReader`, and speaks back through what it was given (`Remote`, `Peer`), so
that it knows nothing of HTTP, WebSockets or SPDY. All of it happens on the server's event loop; nothing may block.

Source: the routes of pkg/kubelet/server/server.go and the CRI's streaming runtime (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from fairway.kube.objects import Obj
from fairway.twin.kubelet.usage import NodeUse

Line = tuple[int, str]
"""What a container wrote: when (µs), and a line without its end."""


class CannotConnect(Exception):
    """A kubelet's refusal to connect, in its own words: the container does not run, nothing listens on the port."""


class Invocation(NamedTuple):
    """What is to run, and with which streams. `argv` is empty for attach."""

    argv: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


class Remote(Protocol):
    """The client of an exec or attach, as a process sees it."""

    def write(self, data: bytes) -> None:
        """To its standard output."""

    def write_error(self, data: bytes) -> None:
        """To its standard error; with a terminal there is only one output."""

    def exit(self, code: int) -> None:
        """The process ended; nothing follows."""


class Process(Protocol):
    """A process, as its client sees it. `begin` comes first, `hang_up` last if the process has not ended by then."""

    def begin(self) -> None: ...
    def receive(self, data: bytes) -> None:
        """Bytes of its standard input."""

    def receive_end(self) -> None:
        """Its standard input is at its end."""

    def resize(self, columns: int, rows: int) -> None: ...
    def hang_up(self) -> None: ...


class Peer(Protocol):
    """The client of a forwarded connection, as a port sees it."""

    def write(self, data: bytes) -> None: ...
    def end(self) -> None:
        """The port closed the connection."""


class Port(Protocol):
    """One connection to a port of a pod."""

    def receive(self, data: bytes) -> None: ...
    def receive_end(self) -> None: ...
    def hang_up(self) -> None: ...


class LogReader(Protocol):
    """A container's log, read from its start."""

    def read(self) -> list[Line]:
        """What it wrote since the last call.

        Raises: CannotConnect for a container that has not started.
        """

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and nothing follows what was read."""


class Kubelet(Protocol):
    """One kind of kubelet; it may serve many nodes. Every method may raise CannotConnect."""

    def log(self, pod: Obj, container: str, *, previous: bool) -> LogReader: ...

    def exec(self, pod: Obj, container: str, what: Invocation, remote: Remote) -> Process:
        """Prepare a command; it runs from `begin` on."""

    def attach(self, pod: Obj, container: str, what: Invocation, remote: Remote) -> Process: ...

    def connect(self, pod: Obj, port: int, peer: Peer) -> Port: ...

    def use(self, node: str, at_us: int) -> NodeUse | None:
        """What a node uses, as measured at a time that is now or up to a minute ago; None: it does not answer."""


class Kubelets:
    """Whose kubelet answers for a node."""

    def __init__(self, otherwise: Kubelet) -> None:
        self._otherwise = otherwise
        self._taken: dict[str, Kubelet] = {}

    def take(self, node: str, kubelet: Kubelet) -> None:
        """From now on this kubelet answers for the node."""
        self._taken[node] = kubelet

    def of(self, node: str) -> Kubelet:
        return self._taken.get(node, self._otherwise)
