"""From a `Scenario` document to the model, or to everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway.autoscaling.load.reading import NO_LOAD, Load, LoadFault, read_load
from fairway.devices.breaking import fleets, rates_of
from fairway.errors import InvalidInput
from fairway.kube.located import Field, Reading, did_you_mean
from fairway.kube.manifest import Manifest
from fairway.kube.manifestwriting import write_yaml
from fairway.queueing.configuration import Configuration, configured, read_configuration
from fairway.queueing.webhooks.settings import INSTALLED_FRAMEWORKS
from fairway.scenario import assertions
from fairway.scenario.actionreading import Context, read_step
from fairway.scenario.assertions.grammar import Assertion
from fairway.scenario.fleet import read_fleet
from fairway.scenario.model import BehaviourProfile, CloudPlan, FaultProcess, Scenario
from fairway.scenario.objects import Loaded, Within, complete, manifests_of
from fairway.scenario.storereading import read_stores, unknown_weights
from fairway.scenario.tracereading import read_trace_use
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.traces.jobs import JobTrace
from fairway.twin.behaviour import KEYS, PREFIX
from fairway.twin.behaviour import problems as behaviour_problems
from fairway.twin.distributions import EXPECTED, ZERO, Distribution, parse_distribution
from fairway.twin.latency import DEFAULT, NONE, Latency, latency_named, read_latency
from fairway.twin.twin import EPOCH_US

if TYPE_CHECKING:
    from fairway.twin.serving.served import Served

SPEC = (
    "description",
    "seed",
    "startTime",
    "duration",
    "latency",
    "scheduler",
    "kueue",
    "manifests",
    "nodes",
    "timeline",
    "traces",
    "behaviours",
    "faults",
    "cloud",
    "load",
    "serving",
    "stores",
    "assertions",
)
NODE_FAILURE, SPOT_PREEMPTION, GPU_FAILURE = "NodeFailure", "SpotPreemption", "GPUFailure"
FAULT = (
    "name",
    "kind",
    "meanTimeBetween",
    "after",
    "repairTime",
    "replaceAfter",
    "warning",
    "selector",
    "nodes",
    "fleet",
    "drain",
)
MATCH = ("kinds", "namespaces", "names", "priorityClasses", "selector")


def read_scenario(manifest: Manifest, beside: list[Manifest], *, lenient: bool = False) -> Scenario:
    """The scenario of a document; `beside` are the other objects of its file.

    Raises: InvalidInput with every problem.
    """
    reading = Reading(manifest)
    root = reading.root().members("apiVersion", "kind", "metadata", "spec", "status", required=("spec",))
    base = Path(manifest.file).parent
    spec = root["spec"].members(*SPEC)
    start_us = spec["startTime"].moment(0, EPOCH_US)
    stores = read_stores(spec["stores"])
    models = frozenset(model for store in stores for model, _ in store.models)
    behaviours = tuple(
        b for item in spec["behaviours"].items() if (b := _behaviour(item, models)) is not None
    )
    manifests = [*beside, *(m for item in spec["manifests"].one_or_many() for m in manifests_of(item, base))]
    loaded = _objects(reading, spec, manifests, behaviours, lenient, models)
    traces = tuple(
        use
        for item in spec["traces"].items()
        if (use := read_trace_use(item, base, start_us, lenient)) is not None
    )
    left_out = [p for use in traces if isinstance(use.source, JobTrace) for p in use.source.skipped]
    context = Context(start_us, lambda field: _applied(field, base, behaviours, models))
    scenario = Scenario(
        name=str((manifest.obj.get("metadata") or {}).get("name") or base.name),
        file=manifest.file,
        objects=tuple(loaded.objects),
        origins=tuple(loaded.origins),
        is_lenient=lenient,
        seed=spec["seed"].integer(0),
        start_us=start_us,
        duration_us=spec["duration"].duration(positive=True) if spec["duration"].is_given else None,
        latency=_latency(spec["latency"], base),
        profiles=_profiles(spec["scheduler"], base),
        kueue=_kueue(spec["kueue"], base),
        steps=tuple(s for item in spec["timeline"].items() if (s := read_step(item, context)) is not None),
        traces=traces,
        behaviours=behaviours,
        faults=tuple(f for item in spec["faults"].items() if (f := _fault(item)) is not None),
        assertions=tuple(a for i in spec["assertions"].items() if (a := _assertion(i)) is not None),
        cloud=cloud_of(spec["cloud"], manifests, base, start_us),
        load=_load(spec["load"]),
        serving=_serving(spec, base),
        stores=stores,
        description=spec["description"].text(),
        skipped=(*loaded.skipped, *left_out),
    )
    reading.finish()
    return scenario


def _serving(spec: dict[str, Field], base: Path) -> tuple[Served, ...]:
    """What is served; the machinery for it is loaded only then."""
    if not spec["serving"].is_given:
        return ()
    from fairway.scenario.servingreading import read_served

    lasts_us = spec["duration"].duration() if spec["duration"].is_given else None
    seed = spec["seed"].integer(0)
    found = (read_served(item, base, seed, lasts_us) for item in spec["serving"].items())
    return tuple(one for one in found if one is not None)


def _objects(
    reading: Reading,
    spec: dict[str, Field],
    manifests: list[Manifest],
    behaviours: tuple[BehaviourProfile, ...],
    lenient: bool,
    models: frozenset[str],
) -> Loaded:
    """What is there at the start: the fleet, the manifests named, and the documents of the same file."""
    nodes = [node for item in spec["nodes"].one_or_many() for node in read_fleet(item)]
    file = reading.manifest.file
    fleet = [Manifest(node, file) for node in nodes]
    try:
        return complete([*fleet, *manifests], behaviours, lenient=lenient, models=models)
    except InvalidInput as wrong:
        reading.problems.extend(wrong.problems)
        return Loaded([], [], [])


def cloud_of(field: Field, manifests: list[Manifest], base: Path, start_us: int) -> CloudPlan | None:
    """The cloud nodes come from, where there is something to launch: reading the catalog takes a moment."""
    if not field.is_given and not any(m.obj.get("kind") == "NodePool" for m in manifests if m.broken is None):
        return None
    from fairway.scenario.cloudreading import node_pools, read_cloud

    return read_cloud(field, node_pools(manifests), base, start_us)


def _applied(
    field: Field, base: Path, behaviours: tuple[BehaviourProfile, ...], models: frozenset[str]
) -> Loaded:
    """The objects an `apply` names."""
    try:
        return complete(manifests_of(field, base), behaviours, models=models)
    except InvalidInput as wrong:
        field.reading.problems.extend(wrong.problems)
        return Loaded([], [], [])


def _latency(field: Field, base: Path) -> Latency:
    """`default`, `zero`, a file beside the scenario, or the names that differ."""
    try:
        if isinstance(field.value, dict):
            return read_latency(write_yaml([field.value]), field.reading.manifest.file)
        name = field.text("default")
        plain = {"default": DEFAULT, "zero": NONE}.get(name)
        return plain or latency_named(str(base / name))
    except InvalidInput as wrong:
        for problem in wrong.problems:
            named = Field(field.reading, (*field.path, problem.path), problem.value)
            (named if isinstance(field.value, dict) else field).reject(problem.expected)
        return DEFAULT


def _profiles(field: Field, base: Path) -> tuple[Profile, ...]:
    """Of a KubeSchedulerConfiguration, inline or in a file."""
    if not field.is_given:
        return (DEFAULT_PROFILE,)
    from fairway.scheduling.config import read_profiles

    manifests = manifests_of(field, base)
    found = [m for m in manifests if m.obj.get("kind") == "KubeSchedulerConfiguration"]
    if not found:
        if manifests:
            field.reject("expected a KubeSchedulerConfiguration, or the path of one")
        return (DEFAULT_PROFILE,)
    try:
        return tuple(read_profiles(found[0]))
    except InvalidInput as wrong:
        field.reading.problems.extend(wrong.problems)
        return (DEFAULT_PROFILE,)


def _kueue(field: Field, base: Path) -> Configuration | None:
    """Of a Kueue that was installed from its manifests, with the Configuration named or written inline."""
    given = field.members("configuration")["configuration"]
    if not given.is_given:
        return configured() if field.is_given else None
    try:
        if isinstance(given.value, dict):
            outer = field.reading.manifest
            integrations = {"frameworks": list(INSTALLED_FRAMEWORKS)}
            whole = (
                given.value if "apiVersion" in given.value else {"integrations": integrations, **given.value}
            )
            return read_configuration(Manifest(whole, outer.file, Within(outer, given.path)))
        found = [m for m in manifests_of(given, base) if m.obj.get("kind") == "Configuration"]
        if found:
            return read_configuration(found[0])
        if not field.reading.problems:
            given.reject("expected Kueue's Configuration, or the path of one")
    except InvalidInput as wrong:
        field.reading.problems.extend(wrong.problems)
    return None


def _behaviour(field: Field, models: frozenset[str]) -> BehaviourProfile | None:
    parts = field.members("match", "set", "override", required=("set",))
    match = parts["match"].members(*MATCH)
    annotations = {name.removeprefix(PREFIX): value for name, value in parts["set"].words().items()}
    prefixed = {f"{PREFIX}{n}": v for n, v in annotations.items()}
    for wrong in (*behaviour_problems(prefixed), *unknown_weights(prefixed, models)):
        name = wrong.annotation.removeprefix(PREFIX)
        place = Field(field.reading, (*parts["set"].path, name), wrong.value)
        known = name.partition(".")[0] in (*KEYS, "weights")
        place.reject(wrong.expected if known else did_you_mean(name, KEYS))
    return BehaviourProfile(
        annotations=tuple(annotations.items()),
        kinds=match["kinds"].texts(),
        namespaces=match["namespaces"].texts(),
        names=match["names"].texts(),
        priority_classes=match["priorityClasses"].texts(),
        selector=match["selector"].selector(),
        overrides=parts["override"].flag(),
    )


def _load(field: Field) -> Load:
    if not field.is_given:
        return NO_LOAD
    try:
        return read_load(field.value)
    except LoadFault as wrong:
        place: Any = field.value
        for step in wrong.path:
            inside = (isinstance(place, dict) and step in place) or (
                isinstance(place, list) and step in range(len(place))
            )
            place = place[step] if inside else None
        Field(field.reading, (*field.path, *wrong.path), place).reject(wrong.expected)
        return NO_LOAD


def _fault(field: Field) -> FaultProcess | None:
    parts = field.members(*FAULT, required=("kind",))
    kind = parts["kind"].choice((NODE_FAILURE, SPOT_PREEMPTION, GPU_FAILURE), NODE_FAILURE)
    if kind == GPU_FAILURE:
        return _gpu_fault(field, parts)
    for name in ("fleet", "drain"):
        if parts[name].is_given:
            parts[name].reject(f"only with kind {GPU_FAILURE}")
    if parts["meanTimeBetween"].is_given == parts["after"].is_given:
        field.reject("expected either meanTimeBetween (exponential) or after (any distribution)")
        return None
    mean = parts["meanTimeBetween"]
    after = _time(parts["after"])
    if mean.is_given:
        after = Distribution("exponential", mean.duration(1, positive=True))
    repair, other = parts["repairTime"], parts["replaceAfter"]
    if kind == SPOT_PREEMPTION:
        repair, other = other, repair
    if other.is_given:
        other.reject(
            f"not with kind {kind}: expected {'repairTime' if kind == NODE_FAILURE else 'replaceAfter'}"
        )
    return FaultProcess(
        name=parts["name"].text(f"fault-{field.path[-1]}"),
        kind=kind,
        after=after or DEFAULT_AFTER,
        repair=_time(repair),
        warning_us=parts["warning"].duration(),
        selector=parts["selector"].selector(),
        nodes=parts["nodes"].texts(),
    )


def _gpu_fault(field: Field, parts: dict[str, Field]) -> FaultProcess:
    """By the rates of a fleet; `meanTimeBetween`, of one card, in their place."""
    known = tuple(fleets())
    fleet = parts["fleet"].choice(known, known[0])
    mean_us = parts["meanTimeBetween"].duration(rates_of(fleet).mean_us, positive=True)
    for name in ("after", "warning", "replaceAfter"):
        if parts[name].is_given:
            parts[name].reject(
                f"not with kind {GPU_FAILURE}: expected fleet, meanTimeBetween, repairTime, drain"
            )
    return FaultProcess(
        name=parts["name"].text(f"fault-{field.path[-1]}"),
        kind=GPU_FAILURE,
        after=Distribution("exponential", mean_us),
        repair=_time(parts["repairTime"]),
        selector=parts["selector"].selector(),
        nodes=parts["nodes"].texts(),
        fleet=fleet,
        drains=parts["drain"].flag(),
    )


DEFAULT_AFTER = Distribution("exponential", 1)


def _time(field: Field) -> Distribution | None:
    if not field.is_given:
        return None
    return field.parsed(parse_distribution, EXPECTED, ZERO)


def _assertion(field: Field) -> Assertion | None:
    """Text, or `{assert: text, name: …}`."""
    name = ""
    if isinstance(field.value, dict):
        parts = field.members("assert", "name", required=("assert",))
        name, field = parts["name"].text(), parts["assert"]
    text = field.text()
    if not text:
        field.reject("expected an assertion such as wait p95 < 10m")
        return None
    return assertions.read_assertion(field, text, name)
