"""What a timeline can do: frozen data, one class an action.

Carried out by `acting`; read from YAML by `actionreading`. Objects in them are complete: defaults are in,
behaviour profiles are applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway.kube.labels import EVERYTHING, Selector
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Key, Obj
from fairway.kube.taints import Taint


@dataclass(frozen=True, slots=True)
class Choice:
    """Which objects of a kind: those named, or those a selector matches.

    `namespace` None: every namespace. `most` 0: all that match; else the first so many by namespace and name.
    """

    gk: str
    keys: tuple[Key, ...] = ()
    namespace: str | None = None
    selector: Selector = EVERYTHING
    most: int = 0

    def __str__(self) -> str:
        if self.keys:
            return ", ".join(map(str, self.keys))
        chosen = str(self.selector) or "all"
        return f"{self.gk.partition('.')[0]} {chosen}"


@dataclass(frozen=True, slots=True)
class Apply:
    """Create each object, or replace it where it exists. `origins`: where each was read."""

    objects: tuple[Obj, ...]
    origins: tuple[Manifest, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete:
    chosen: Choice
    grace_s: int | None = None
    propagation: str = "Background"


@dataclass(frozen=True, slots=True)
class Patch:
    """`form`: merge, strategic or json."""

    chosen: Choice
    patch: Any
    form: str = "merge"


@dataclass(frozen=True, slots=True)
class Scale:
    chosen: Choice
    replicas: int


@dataclass(frozen=True, slots=True)
class Suspend:
    """Set `spec.suspend`, or with `on` False clear it."""

    chosen: Choice
    on: bool = True


@dataclass(frozen=True, slots=True)
class Cordon:
    nodes: Choice
    on: bool = True


@dataclass(frozen=True, slots=True)
class Drain:
    """Cordon, then evict every pod that no DaemonSet owns, respecting disruption budgets until `timeout_us`
    (0: for ever). `deletes`: delete them instead, whatever budgets say (kubectl's --disable-eviction)."""

    nodes: Choice
    grace_s: int | None = None
    deletes: bool = False
    timeout_us: int = 0


@dataclass(frozen=True, slots=True)
class FailNode:
    """The machine stops: no heartbeat, containers gone. It comes back after `recover_us` (0: not by itself)."""

    nodes: Choice
    recover_us: int = 0


@dataclass(frozen=True, slots=True)
class BreakGpu:
    """A card breaks; `repair_us` 0: mended after what its cause takes. `drains`: the node is cordoned meanwhile, and
    its GPU pods deleted."""

    nodes: Choice
    gpu: int
    cause: str
    repair_us: int = 0
    drains: bool = False


@dataclass(frozen=True, slots=True)
class RecoverNode:
    nodes: Choice


@dataclass(frozen=True, slots=True)
class RemoveNode:
    """Delete the Node object; its pods are collected as those of a machine that was given back."""

    nodes: Choice


@dataclass(frozen=True, slots=True)
class SetTaints:
    """Taints to set (by key and effect) and, as (key, effect or empty for all effects), to remove."""

    nodes: Choice
    added: tuple[Taint, ...] = ()
    removed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SetLabels:
    """None removes a label."""

    chosen: Choice
    labels: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class SetQuota:
    """Set the hard limits of a ResourceQuota, creating it where it does not exist."""

    key: Key
    hard: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Evict:
    """Ask for each pod's eviction once, as the eviction API: refused where a budget has no room."""

    pods: Choice
    grace_s: int | None = None


@dataclass(frozen=True, slots=True)
class KillPod:
    """The containers die at once with this exit code; restart policies decide what follows."""

    pods: Choice
    exit_code: int = 137


@dataclass(frozen=True, slots=True)
class Comment:
    """Says something in the event log."""

    text: str


Action = (
    Apply
    | Delete
    | Patch
    | Scale
    | Suspend
    | Cordon
    | Drain
    | FailNode
    | BreakGpu
    | RecoverNode
    | RemoveNode
    | SetTaints
    | SetLabels
    | SetQuota
    | Evict
    | KillPod
    | Comment
)
