"""How does a cluster that was written down go on? Its objects in a store, and the components on it.

Every component learns of the objects as it would from its first list: running pods go on where their status says,
Kueue's books and the scheduler's queue fill up. Nothing has been run yet. An object that is not of its kind's shape
is left out and named: nothing else suffers from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.errors import FairwayError, UserError
from fairway.ground.ground import TELLING, Moment
from fairway.ground.knowing import notes_on
from fairway.kube.defaults import apply_defaults
from fairway.kube.located import Reading
from fairway.kube.manifest import Manifest, read_path, read_text
from fairway.kube.objects import Key, Obj, gk_of, key_of, labels_of, meta_of
from fairway.kube.problem import TYPE_INVALID, WRONG_TYPE
from fairway.kube.validation.validating import validate
from fairway.queueing.configuration import read_configuration
from fairway.queueing.control.settings import DEFAULT_KUEUE, KueueSettings
from fairway.queueing.webhooks.conversion import converted
from fairway.recorder.recorder import Recorder
from fairway.scenario.building import market_of, provisioners_of
from fairway.scenario.model import CloudPlan
from fairway.scenario.reading import cloud_of
from fairway.scenario.running import containment_of_run
from fairway.twin.components import Component
from fairway.twin.kueue.component import Kueue
from fairway.twin.ownergc import OwnerGarbageCollector
from fairway.twin.podgc import PodGarbageCollector
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

# Written for watchers and elections; no component reads them.
_LEFT_OUT = frozenset({"Event", "Event.events.k8s.io", "Lease.coordination.k8s.io", "ComponentStatus"})
_EVENT = "Event"
_METRICS = frozenset({"NodeMetrics.metrics.k8s.io", "PodMetrics.metrics.k8s.io"})
_NAMED = 3
# Pods of one object that are still made one by one, and how deep in its spec counts of them stand.
_MOST_PODS, _DEPTH = 100_000, 6
_LATER = 1 << 40
_KUEUE_FILE = "controller_manager_config.yaml"


@dataclass(frozen=True, slots=True)
class Written:
    """A cluster as it was written down. `place`: what messages call it ("the dump"). `knows_all`: nothing of it is
    missing. `refused`: group kinds that could not be read; `listed`: those of which all was. `trusted`: its objects
    passed an API server's checks. `is_served`: by Fairway itself, whose own journal says what opens its nodes, if
    anything does."""

    place: str
    manifests: list[Manifest]
    now_us: int
    seed: int = 0
    knows_all: bool = False
    refused: tuple[str, ...] = ()
    listed: frozenset[str] = frozenset()
    trusted: bool = False
    is_served: bool = False
    cloud: CloudPlan | None = None
    kueue_config: Path | None = None


def revived(written: Written, notes: Iterable[str] = ()) -> Moment:
    """Its moment. Raises: UserError where nothing of it can be used."""
    # UIDs follow from the seed: what comes later must not be given that of an object that is there.
    store = Store(seed=_LATER + written.seed, now_us=written.now_us)
    left_out = _fill(store, written)
    manifests = [m for m in written.manifests if m.broken is None]
    if written.manifests and not store.kinds():
        raise UserError(f"{written.place}: none of its {len(written.manifests)} documents can be used")
    components = _components(written, manifests)
    if not written.knows_all:
        components = _without_guesses(components, store)
    twin = Twin(
        seed=written.seed,
        components=components,
        start_us=written.now_us,
        store=store,
        containment=containment_of_run(),
    )
    _fill_queues(twin)
    unseen = (
        ()
        if written.knows_all
        else [gk for gk in TELLING if not store.count(gk) and gk not in written.listed]
    )
    said = (
        *notes,
        *_said_of_refused(written.refused),
        *_said_of(left_out, written.place),
        *notes_on(store, written.place, frozenset((*unseen, *written.refused)), knows_all=written.knows_all),
    )
    usage = tuple(m.obj for m in manifests if gk_of(m.obj) in _METRICS)
    events = tuple(m.obj for m in manifests if gk_of(m.obj) == _EVENT)
    return Moment(
        twin, frozenset((*unseen, *written.refused)), said, is_simulated=False, usage=usage, events=events
    )


def _fill(store: Store, written: Written) -> list[str]:
    """Load what can be loaded, nodes before what stands on them; what was left out, and why."""
    left_out = [f"{m.file}:{m.line}: {m.broken.expected}" for m in written.manifests if m.broken is not None]
    newest: dict[Key, Manifest] = {}
    for manifest in written.manifests:
        if manifest.broken is not None:
            continue
        unnamed = _unnamed(manifest.obj)
        if unnamed:
            left_out.append(f"{manifest.file}:{manifest.line}: {unnamed}: required text")
            continue
        if gk_of(manifest.obj) in _LEFT_OUT or gk_of(manifest.obj) in _METRICS:
            continue
        key = key_of(manifest.obj)
        if key not in newest or _version(manifest.obj) > _version(newest[key].obj):
            newest[key] = manifest
    for manifest in sorted(newest.values(), key=lambda m: gk_of(m.obj) != "Node"):
        wrong = _too_many(manifest.obj) or ("" if written.trusted else _misshapen(manifest.obj))
        try:
            if not wrong:
                store.load(_complete(manifest.obj))
        except (ApiError, FairwayError, ValueError, KeyError, TypeError, AttributeError) as failed:
            wrong = str(failed) or type(failed).__name__
        if wrong:
            left_out.append(_located(manifest, wrong))
    return left_out


def _too_many(obj: Obj) -> str:
    """The count of pods or replicas that no copy could play."""
    wave: list[object] = [obj.get("spec")]
    for _ in range(_DEPTH):
        below: list[object] = []
        for part in wave:
            if isinstance(part, dict):
                for name, value in part.items():
                    if name in ("parallelism", "replicas") and isinstance(value, int) and value > _MOST_PODS:
                        return f"{name} {value:,}: no more than {_MOST_PODS:,} are played"
                below += part.values()
            elif isinstance(part, list):
                below += part
        wave = below
    return ""


def _unnamed(obj: Obj) -> str:
    """The first part of its identity that is no text."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        return "metadata"
    for name, value in (("apiVersion", obj.get("apiVersion")), ("kind", obj.get("kind"))):
        if not isinstance(value, str) or not value:
            return name
    if not isinstance(meta.get("name"), str) or not meta["name"]:
        return "metadata.name"
    return "" if isinstance(meta.get("namespace") or "", str) else "metadata.namespace"


def _misshapen(obj: Obj) -> str:
    """The first field that is not of its type; of any kind's conditions also what has no type or status."""
    for problem in validate(obj):
        if problem.reason in (TYPE_INVALID, WRONG_TYPE):
            return str(problem)
    status = obj.get("status")
    if status is not None and not isinstance(status, dict):
        return "status: expected a mapping"
    conditions = (status or {}).get("conditions") or []
    if not isinstance(conditions, list) or not all(map(_is_condition, conditions)):
        return "status.conditions: expected a list of conditions with type and status"
    return ""


def _is_condition(one: object) -> bool:
    return isinstance(one, dict) and isinstance(one.get("type"), str) and isinstance(one.get("status"), str)


def _complete(obj: Obj) -> Obj:
    """As a server of today has it: Kueue's stored version, defaults, a spec to look into."""
    found = apply_defaults(converted(obj))
    if not isinstance(found.get("spec"), dict) and found.get("kind") in ("Pod", "Node"):
        found = {**found, "spec": {}}
    return {**found, "metadata": {"generation": 1, **meta_of(found)}}


def _version(obj: Obj) -> int:
    said = meta_of(obj).get("resourceVersion")
    return int(said) if isinstance(said, str) and said.isdigit() else 0


def _located(manifest: Manifest, wrong: str) -> str:
    key = key_of(manifest.obj)
    return f"{manifest.file}:{manifest.line}: {key}: {wrong}" if manifest.line else f"{key}: {wrong}"


def _said_of(left_out: list[str], place: str) -> list[str]:
    found = [f"left out of {place}: {said}" for said in left_out[:_NAMED]]
    more = len(left_out) - _NAMED
    return [*found, f"… and {more} more objects left out"] if more > 0 else found


def _said_of_refused(refused: tuple[str, ...]) -> list[str]:
    refused = tuple(gk for gk in refused if gk != "Secret")
    telling = [gk for gk in TELLING if gk in refused]
    more = len(refused) - len(telling)
    if not refused:
        return []
    named = [*telling, f"{more} other kinds"] if more else telling
    return [f"may not list {', '.join(named)}: what depends on them is not known"]


def _components(written: Written, manifests: list[Manifest]) -> list[Component]:
    # What is served says itself where its nodes come from; of others the catalog's cloud is assumed.
    cloud = written.cloud if written.is_served else written.cloud or _cloud_of(written, manifests)
    market = [] if cloud is None else market_of(cloud)
    provisioners = [] if cloud is None else provisioners_of(cloud)
    return [*market, *standard_components(kueue=_settings(written)), *provisioners, Recorder()]


def _cloud_of(written: Written, manifests: list[Manifest]) -> CloudPlan | None:
    """The catalog's cloud, where there are NodePools to launch from it."""
    reading = Reading(Manifest({}, written.place))
    try:
        return cloud_of(reading.root().at("cloud", None), manifests, Path(), written.now_us)
    except FairwayError:
        return None


def _settings(written: Written) -> KueueSettings:
    """As asked for, or as its manager's ConfigMap says. Raises: InvalidInput."""
    if written.kueue_config is not None:
        (manifest,) = read_path(written.kueue_config)
        return read_configuration(manifest).kueue_settings()
    for manifest in written.manifests:
        if (
            manifest.obj.get("kind") == "ConfigMap"
            and labels_of(manifest.obj).get("app.kubernetes.io/name") == "kueue"
        ):
            text = (manifest.obj.get("data") or {}).get(_KUEUE_FILE)
            if isinstance(text, str):
                try:
                    return read_configuration(read_text(text, _KUEUE_FILE)[0]).kueue_settings()
                except FairwayError:
                    continue
    return DEFAULT_KUEUE


def _without_guesses(components: list[Component], store: Store) -> list[Component]:
    """What is owned by objects that were not read, or stands on nodes that were not, is not garbage for that."""
    owners = {
        str(ref.get("uid") or "")
        for gk in store.kinds()
        for obj in store.objects(gk)
        for ref in meta_of(obj).get("ownerReferences") or ()
    }
    unknown = frozenset(uid for uid in owners if store.by_uid(uid) is None)
    for component in components:
        if isinstance(component, OwnerGarbageCollector):
            component.unknown = unknown
    if store.count("Node"):
        return components
    return [c for c in components if not isinstance(c, PodGarbageCollector)]


def _fill_queues(twin: Twin) -> None:
    """Put into their queues the Workloads that a first reconciliation would put there."""
    kueue = twin.component("kueue")
    assert isinstance(kueue, Kueue)
    if kueue.is_awake:
        kueue.drain()
        kueue.backlog.accounts.settle()


KeptMoments = dict[str | None, Moment]


def kept(moments: KeptMoments, when: str | None, make: Callable[[], Moment]) -> Moment:
    """The moment of this question, made once."""
    if when not in moments:
        moments[when] = make()
    return moments[when]
