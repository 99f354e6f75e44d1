"""An index beside a store from the first question on: whoever never asks never pays for it.

It follows the store's changes, what-ifs and their undoing among them. A fork has none: it makes its own when asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fairway.cluster.actions import View
from fairway.cluster.changes import Follower

T = TypeVar("T", bound=Follower)


def index_of(store: View, kind: type[T], made: Callable[[View], T]) -> T:
    """The index of this kind; `made` reads what is there. A view that nobody can follow gets a new one each time."""
    followers: list[Follower] | None = getattr(store, "followers", None)
    for follower in followers or ():
        if isinstance(follower, kind):
            return follower
    found = made(store)
    if followers is not None:
        followers.append(found)
    return found
