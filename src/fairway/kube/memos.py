"""What was worked out once per object, by its identity: dictionaries that may be emptied at any time.

Objects are frozen, so what follows from one stays true of it. A memo keeps the object alive beside the answer, since
an identity is reused once its object is gone; so a memo of 4,096 specs of a megabyte holds 4 GB. Each is bounded in
number by whoever fills it; who knows how many bytes came in (a server) empties all of them from time to time.
"""

from __future__ import annotations

from typing import Any

_ALL: list[dict[Any, Any]] = []


def memo() -> dict[Any, Any]:
    """A new one."""
    _ALL.append({})
    return _ALL[-1]


def forget() -> None:
    """Empty all."""
    for known in _ALL:
        known.clear()
