"""Which field has which number? `fields.txt`, read on first use."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Field(NamedTuple):
    """`embedded`: the message whose fields stand in this one's JSON; `name` is empty then."""

    name: str
    is_pointer: bool
    embedded: str = ""


@cache
def _lines() -> dict[str, str]:
    text = files(__package__).joinpath("fields.txt").read_text(encoding="utf-8")
    return dict(line.split(" ", 1) for line in text.splitlines() if line)


@cache
def fields_of(message: str) -> dict[int, Field]:
    """Fields by number; none for a message nobody knows."""
    package = message.rpartition(".")[0]
    found: dict[int, Field] = {}
    number = 0
    for word in _lines().get(message, "").split():
        name, _, jump = word.partition("=")
        number = int(jump) if jump else number + 1
        is_pointer = name.endswith("?")
        name = name.rstrip("?")
        if name.startswith("@"):
            embedded = name[1:] if "." in name else f"{package}.{name[1:]}"
            found[number] = Field("", is_pointer, embedded)
        else:
            found[number] = Field(name, is_pointer)
    return found


def message_of(go_type: str) -> str:
    """`io.k8s.api.core.v1.Pod` → `core.v1.Pod`."""
    return ".".join(go_type.split(".")[-3:])
