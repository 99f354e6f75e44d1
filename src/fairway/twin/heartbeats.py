"""Which nodes are heard of? The leases that kubelets renew, without renewing them.

A real kubelet renews a Lease every ten seconds, per node, for ever. Here it only says when it falls silent
and when it is back; the last renewal before the silence follows from the interval and the node's phase.
"""

from __future__ import annotations

from collections.abc import Callable

Listener = Callable[[str, int | None], None]


class Heartbeats:
    """`silent`: last heartbeat of every node not heard of, in µs."""

    def __init__(self) -> None:
        self.silent: dict[str, int] = {}
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Be told `(node, last heartbeat)` on silence and `(node, None)` on return."""
        self._listeners.append(listener)

    def stop(self, node: str, last_us: int) -> None:
        if node not in self.silent:
            self.silent[node] = last_us
            for listener in self._listeners:
                listener(node, last_us)

    def resume(self, node: str) -> None:
        if self.silent.pop(node, None) is not None:
            for listener in self._listeners:
                listener(node, None)

    def forget(self, node: str) -> None:
        """The node is gone for good."""
        self.silent.pop(node, None)

    def fork(self) -> Heartbeats:
        """A copy without listeners: attached components listen anew."""
        twin = Heartbeats()
        twin.silent = dict(self.silent)
        return twin


def last_renewal_us(now_us: int, interval_us: int, phase: float) -> int:
    """The last renewal at or before now of a node that renews at `phase` (0 to 1) of every interval."""
    if interval_us <= 0:
        return now_us
    offset_us = int(interval_us * phase)
    return (now_us - offset_us) // interval_us * interval_us + offset_us
