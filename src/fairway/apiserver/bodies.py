"""How does an object read on the wire? Its JSON, made once for everybody who asks.

Objects are frozen, so bytes made for one stay true for that very object. Get, list, watch and the journal share
them. Thread-safe by being one dict of immutable values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairway.apiserver.wire.messages import encode
from fairway.kube.objects import Obj

# Objects whose bytes are kept, and how many bytes: 20,000 of 3 KB fit, and so do 42 of 1.5 MB. The objects are kept
# alive beside them, so the memory held is several times that.
KEPT = 20_000
KEPT_BYTES = 64 * 1024 * 1024


class Bodies:
    """JSON by the identity of the object, which is kept alive beside it."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Obj, bytes]] = {}
        self._bytes = 0

    def of(self, obj: Obj) -> bytes:
        made = self._made
        known = made.get(id(obj))
        if known is not None and known[0] is obj:
            return known[1]
        body = encode(obj)
        if len(made) >= KEPT or self._bytes + len(body) > KEPT_BYTES:
            made.clear()
            self._bytes = 0
        # Two threads may count at once and lose one: the next clearing counts anew.
        self._bytes += len(body)
        made[id(obj)] = (obj, body)
        return body

    def join(self, head: dict[str, Any], objects: Iterable[Obj]) -> bytes:
        """A list document: `head` is everything but its items."""
        # Not kept: one long list would push out everything that is asked for one by one.
        made = self._made
        bodies = []
        for obj in objects:
            known = made.get(id(obj))
            bodies.append(known[1] if known is not None and known[0] is obj else encode(obj))
        items = b",".join(bodies)
        return encode(head)[:-1] + b',"items":[' + items + b"]}"
