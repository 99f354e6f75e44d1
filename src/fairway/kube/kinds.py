"""Which kinds exist, what they are called in the plural, and whether they live in a namespace.

A kind is named by its *group kind*, written as Kubernetes prints it: `Pod`, `Job.batch`,
`Workload.kueue.x-k8s.io`. The version is left out: it says how an object is spelled, not what it is.
Kinds not listed here are legal everywhere; `kind_of_unknown` guesses their plural and scope.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairway.kube import published


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind's names. `versions` lists known versions, the preferred one first."""

    group: str
    kind: str
    plural: str
    namespaced: bool
    versions: tuple[str, ...]
    short_names: tuple[str, ...] = ()

    @property
    def group_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]


def _published(kind: published.Published) -> Kind:
    versions = tuple(version.name for version in kind.versions)
    return Kind(kind.group, kind.kind, kind.plural, kind.namespaced, versions, kind.short_names)


def _built_in(kind: published.BuiltIn) -> Kind:
    return Kind(kind.group, kind.kind, kind.plural, kind.namespaced, kind.versions, kind.short_names)


# Names that two kinds share are those of the first.
_ALL: Final[list[Kind]] = [
    *(_built_in(kind) for kind in published.built_in() if kind.is_stored),
    *(_published(kind) for kind in published.kinds().values()),
    Kind("fairway.dev", "PriceBook", "pricebooks", False, ("v1alpha1",)),
    Kind("fairway.dev", "Scenario", "scenarios", False, ("v1alpha1",)),
]

BY_GROUP_KIND: Final[dict[str, Kind]] = {k.group_kind: k for k in _ALL}


def group_kind(api_version: str, kind: str) -> str:
    """The name a kind goes by in the store: `Job.batch`, `Pod`."""
    group = api_version.rpartition("/")[0]
    return f"{kind}.{group}" if group else kind


def find_kind(name: str) -> Kind | None:
    """A kind by any of its names, as kubectl takes them: `Pod`, `pods`, `po`, `jobs.batch`, `cq`."""
    found = BY_GROUP_KIND.get(name)
    if found is not None:
        return found
    return _BY_ANY_NAME.get(name.lower())


def kind_of_unknown(gk: str) -> Kind:
    """A guess for a kind nobody declared: namespaced, plural by the usual English rule."""
    kind, _, group = gk.partition(".")
    return Kind(group, kind, guess_plural(kind), True, ("v1",))


def kind_named(gk: str) -> Kind:
    """The declared kind, or the guess for an undeclared one."""
    return BY_GROUP_KIND.get(gk) or kind_of_unknown(gk)


def guess_plural(kind: str) -> str:
    """Source: apimachinery meta.UnsafeGuessKindToResource."""
    lower = kind.lower()
    if lower.endswith(("s", "x", "ch")):
        return lower + "es"
    if lower.endswith("y"):
        return lower[:-1] + "ies"
    return lower + "s"


def _index_names() -> dict[str, Kind]:
    index: dict[str, Kind] = {}
    for k in _ALL:
        names = [k.kind.lower(), k.plural, *k.short_names]
        for n in names:
            index.setdefault(n, k)
            if k.group:
                index.setdefault(f"{n}.{k.group}", k)
    return index


_BY_ANY_NAME: Final = _index_names()
