"""One command on its way: where it runs, with which files, what it has said, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from fairway.apiserver.kubelets import nvidiasmi
from fairway.apiserver.kubelets.files import Files, absolute
from fairway.apiserver.kubelets.place import Place, container_of
from fairway.kube.timestamps import SECOND_US

# Of what one invocation may write. More than a file system holds cannot be meant.
_MAX_OUTPUT = 32 * 1024 * 1024


class Result(NamedTuple):
    """`is_known` False: this is not what a real container would have done."""

    out: bytes = b""
    err: bytes = b""
    code: int = 0
    is_known: bool = True


class Said(NamedTuple):
    """Something written: how long after the start (µs), to standard error or not, what."""

    after_us: int
    is_error: bool
    data: bytes


@dataclass
class Run:
    """One invocation: where, with which files and input; what it has said so far."""

    place: Place
    files: Files
    stdin: bytes = b""
    directory: str = "/"
    elapsed_us: int = 0
    code: int = 0
    is_known: bool = True
    is_over: bool = False
    stops_on_error: bool = False
    shells: int = 0
    """How many it has started."""
    said: list[Said] = field(default_factory=list)
    _written: int = 0

    @property
    def now_us(self) -> int:
        return self.place.at_us + self.elapsed_us

    @property
    def now_s(self) -> int:
        return self.now_us // SECOND_US

    def say(self, data: bytes, *, is_error: bool = False) -> None:
        if data and self._written + len(data) <= _MAX_OUTPUT:
            self._written += len(data)
            self.said.append(Said(self.elapsed_us, is_error, data))

    def path(self, name: str) -> str:
        return absolute(name, self.directory)


def variables(place: Place) -> dict[str, str]:
    """The container's environment."""
    found = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOSTNAME": hostname(place),
    }
    gpus = nvidiasmi.gpus_of(place)
    if gpus:
        found["NVIDIA_VISIBLE_DEVICES"] = ",".join(str(g) for g in gpus)
    for entry in container_of(place).get("env") or ():
        if "valueFrom" not in entry:
            found[entry["name"]] = str(entry.get("value", ""))
    found.update(KUBERNETES_SERVICE_HOST="10.96.0.1", KUBERNETES_SERVICE_PORT="443", HOME="/root")
    return found


def hostname(place: Place) -> str:
    return str(place.pod["spec"].get("hostname") or place.pod["metadata"]["name"])
