"""What admission answers: the object as it goes in, or why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway.cluster.actions import SetStatus
from fairway.cluster.errors import ApiError, resource_name
from fairway.kube.objects import Obj, key_of, meta_of, name_of


class Admitted:
    """`charges` are to be written with the creation, or two objects could spend the same quota.

    Not a dataclass: also where they are compiled, interpreted code makes those, and every creation makes two.
    """

    __slots__ = ("charges", "obj")

    def __init__(self, obj: Obj, charges: tuple[SetStatus, ...] = ()) -> None:
        self.obj = obj
        self.charges = charges


@dataclass(frozen=True, slots=True)
class Refused:
    """An HTTP 403 (or 404 for a namespace that is not there), by the plugin that refused."""

    plugin: str
    reason: str
    message: str
    code: int = 403

    def status(self) -> dict[str, Any]:
        """The `Status` object the API server answers with."""
        return ApiError(self.code, self.reason, self.message).status()


def forbidden(obj: Obj, why: str, plugin: str) -> Refused:
    """`pods "x" is forbidden: …`. Source: apimachinery errors.NewForbidden."""
    resource = resource_name(key_of(obj))
    name = name_of(obj) or meta_of(obj).get("generateName") or ""
    return Refused(plugin, "Forbidden", f'{resource} "{name}" is forbidden: {why}')
