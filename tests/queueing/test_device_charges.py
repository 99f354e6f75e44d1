"""What claims for devices add to quota: Kueue's steps one by one, with what each says where it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.queueing.devices import matching
from fairway.queueing.devices.charging import Refused, charge_of
from fairway.queueing.devices.extended import extended_charge, selected_class
from fairway.queueing.devices.mapping import DeviceClassMapping, DeviceClassMappings, Source
from fairway.queueing.devices.matching import complete_pools, devices_of, published
from fairway.queueing.devices.requests import devices_per_class, selection_faults
from fairway.queueing.facts.amounts import MAX_INT64
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.podsets import PodSetCharge

D, E = "d.example.com", "e.example.com"
ON = {
    "KueueDRAIntegration": True,
    "KueueDRAIntegrationExtendedResource": True,
    "KueueDRAIntegrationPartitionableDevices": True,
    "KueueDRAIntegrationConsumableCapacity": True,
}


def _gates(**changes: bool) -> Any:
    return gates_from({**ON, **changes})[0]


def _device(name: str, model: str = "a", **more: Any) -> Obj:
    return {"name": name, "attributes": {"model": {"string": model}}, **more}


def _slice(
    name: str, *devices: Obj, driver: str = D, pool: str = "p", generation: int = 1, count: int = 1
) -> Obj:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
        },
    }


def _class(name: str, *selectors: str, **more: Any) -> Obj:
    meta = {"name": name, **({"creationTimestamp": more.pop("made")} if "made" in more else {})}
    cel = [{"cel": {"expression": s}} for s in selectors]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": meta,
        "spec": {"selectors": cel, **more},
    }


def _template(name: str, *requests: Obj, namespace: str = "default") -> Obj:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": list(requests)}}},
    }


def _wants(of_class: str = "gpu", count: int | None = None, *selectors: str, **more: Any) -> Obj:
    exactly: Obj = {"deviceClassName": of_class, **more}
    if count is not None:
        exactly["count"] = count
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": s}} for s in selectors]
    return {"name": "r", "exactly": exactly}


def _is(model: str, driver: str = D) -> str:
    return f"device.attributes['{driver}'].model == '{model}'"


def _workload(
    *claims: tuple[str, ...], names: tuple[str, ...] = ("main",), requests: Obj | None = None, **more: Any
) -> Obj:
    pod_sets = []
    for name, templates in zip(names, claims or ((),), strict=True):
        spec: Obj = {
            "containers": [{"name": "c", **({"resources": {"requests": requests}} if requests else {})}]
        }
        spec["resourceClaims"] = [
            {"name": f"c{i}", "resourceClaimTemplateName": t} for i, t in enumerate(templates)
        ]
        spec |= more
        pod_sets.append({**({"name": name} if name else {}), "count": 2, "template": {"spec": spec}})
    return {"metadata": {"name": "w", "namespace": "default"}, "spec": {"podSets": pod_sets}}


def _world(*objects: Obj) -> Store:
    store = Store()
    for it in objects:
        store.load(it)
    return store


def _mapped(*more: DeviceClassMapping) -> DeviceClassMappings:
    return DeviceClassMappings(
        (DeviceClassMapping("gpus", ("gpu", "gpu2")), DeviceClassMapping("cpu", ("core",)), *more)
    )


GPU = _class("gpu")
FOUR = _slice("s", *(_device(f"g{i}", "a" if i < 3 else "b") for i in range(4)))
AT = "spec.podSets[0].template.spec.resourceClaims[0]"


def _said(found: Any) -> str:
    assert isinstance(found, Refused), found
    assert found.requeued == found.message
    return found.message


# Whole devices


def test_devices_count_by_their_class_in_each_pod_set() -> None:
    store = _world(
        GPU,
        FOUR,
        _template("one", _wants()),
        _template("three", _wants("gpu", 2), _wants("gpu2"), _wants("core", 3)),
        _template("free", _wants("gpu", 9, adminAccess=True), _wants("")),
    )
    found = charge_of(
        store, _mapped(), _gates(), _workload(("one", "three"), (), ("one", "free"), names=("a", "b", ""))
    )
    assert found == (
        PodSetCharge("a", (("gpus", 4), ("cpu", 3000)), ()),
        PodSetCharge("main", (("gpus", 1),), ()),
    )
    assert charge_of(store, _mapped(), _gates(), _workload(())) == ()
    assert charge_of(store, _mapped(), _gates(), _workload(("free",))) == ()


def test_other_ways_of_claiming() -> None:
    store = _world(GPU, FOUR, _template("one", _wants()))
    off = charge_of(store, _mapped(), _gates(KueueDRAIntegration=False), _workload(("one",)))
    assert _said(off) == "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
    by_name = _workload((), resourceClaims=[{"name": "c", "resourceClaimName": "mine"}])
    refused = charge_of(store, _mapped(), _gates(), by_name)
    assert isinstance(refused, Refused) and not refused.is_retried
    assert refused.message == "KueueDRAIntegration feature does not support use of resource claims"
    assert refused.requeued == "DRA resource claims not supported"
    neither = _workload((), resourceClaims=[{"name": "c"}])
    assert charge_of(store, _mapped(), _gates(), neither) == ()
    beside = _workload((), resourceClaims=[{"name": "c"}, {"name": "d", "resourceClaimTemplateName": "one"}])
    of_one = charge_of(store, _mapped(), _gates(), _workload(("one",)))
    assert charge_of(store, _mapped(), _gates(), beside) == of_one != ()


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (
            {"firstAvailable": [{}]},
            "devices.requests[0]: Invalid value: null: {t}FirstAvailable device selection is not supported",
        ),
        (
            {"name": "r"},
            "devices.requests[0]: Invalid value: null: {t}Exactly must be set if FirstAvailable is nil",
        ),
        (
            _wants(allocationMode="All"),
            "devices.requests[0].exactly.allocationMode: Invalid value: \"All\": {t}AllocationMode 'All' is not "
            "supported",
        ),
        (
            _wants(allocationMode="Some"),
            'devices.requests[0].exactly.allocationMode: Invalid value: "Some": {t}unsupported allocation mode: Some',
        ),
        (_wants(allocationMode="All", adminAccess=True), ""),
        (_wants(allocationMode="ExactCount"), ""),
        (_wants("gpu", None, "true"), ""),
        (_wants("gpu", None, "1"), "devices.requests[0].exactly.selectors: Invalid value: null: {t}"),
    ],
)
def test_requests_that_are_not_supported(request_: Obj, words: str) -> None:
    store = _world(GPU, FOUR, _template("t", request_))
    found = charge_of(store, _mapped(), _gates(), _workload(("t",)))
    if not words:
        assert not isinstance(found, Refused)
    else:
        assert _said(found).startswith(f"{AT}." + words.format(t="ResourceClaimTemplate t: "))
        assert isinstance(found, Refused) and not found.is_retried


def test_what_is_not_there() -> None:
    store = _world(
        GPU,
        FOUR,
        _template("one", _wants()),
        _template("two", _wants("none")),
        _template("else", _wants(), namespace="x"),
    )
    missing = charge_of(store, _mapped(), _gates(), _workload(("one", "else")))
    assert _said(missing) == (
        "spec.podSets[0].template.spec.resourceClaims[1]: Internal error: failed to get claim spec for "
        'ResourceClaimTemplate else in podset main: ResourceClaimTemplate.resource.k8s.io "else" not found'
    )
    assert isinstance(missing, Refused) and missing.is_retried
    unmapped = charge_of(store, _mapped(), _gates(), _workload(("two",), names=("z",)))
    assert _said(unmapped) == (
        f'{AT}.resourceClaimTemplateName: Not found: "DeviceClass none is not mapped in DRA configuration for podset z"'
    )
    assert isinstance(unmapped, Refused) and not unmapped.is_retried


def test_of_several_classes_that_are_not_mapped_the_first_by_name_is_told() -> None:
    store = _world(_template("t", _wants("zeta"), _wants("alpha"), _wants("gpu")), GPU, FOUR)
    assert "DeviceClass alpha is not mapped" in _said(
        charge_of(store, _mapped(), _gates(), _workload(("t",)))
    )


def test_counts_do_not_go_beyond_what_an_integer_holds() -> None:
    spec = {"devices": {"requests": [_wants("gpu", MAX_INT64), _wants("gpu", 5), _wants("core")]}}
    assert devices_per_class(spec) == {"gpu": MAX_INT64, "core": 1}
    assert devices_per_class({}) == devices_per_class({"devices": {}}) == {}


# Selectors


@pytest.mark.parametrize(
    ("requests", "short"),
    [
        ([_wants("gpu", 3, _is("a"))], None),
        ([_wants("gpu", 4, _is("a"))], (0, 3, 4)),
        ([_wants("gpu", 1, _is("b"))], None),
        ([_wants("gpu", 2, _is("b"))], (0, 1, 2)),
        ([_wants("gpu", 2, _is("a")), _wants("gpu", 1, _is("a"))], None),
        ([_wants("gpu", 2, _is("a")), _wants("gpu", 2, _is("a"))], (1, 1, 2)),
        ([_wants("gpu", 3, _is("a")), _wants("gpu", 1, "true")], None),
        ([_wants("gpu", 9)], None),
        ([_wants("gpu", 1, _is("a"), _is("b"))], (0, 0, 1)),
        ([{"exactly": {"deviceClassName": "gpu", "count": 9, "selectors": [{}]}}], None),
    ],
)
def test_enough_devices_are_chosen(requests: list[Obj], short: tuple[int, int, int] | None) -> None:
    store = _world(GPU, FOUR)
    found = [str(f) for f in selection_faults(store, _mapped(), {"devices": {"requests": requests}}, ("at",))]
    if short is None:
        assert found == []
    else:
        index, has, wanted = short
        assert found == [
            f"at.devices.requests[{index}].exactly.selectors: Internal error: insufficient matching devices for CEL "
            f"selector in DeviceClass gpu: {has} device(s) match in the cluster but {wanted} requested"
        ]


def test_classes_choose_too() -> None:
    chooses = _class("gpu", _is("b"))

    def faults(*there: Obj, wants: Obj | None = None) -> list[str]:
        wants = wants or _wants("gpu", 1, "true")
        store = _world(FOUR, *there)
        return [
            str(f) for f in selection_faults(store, _mapped(), {"devices": {"requests": [wants]}}, ("at",))
        ]

    assert faults(chooses) == []
    (few,) = faults(chooses, wants=_wants("gpu", 2, "true"))
    assert few.endswith("1 device(s) match in the cluster but 2 requested")
    (gone,) = faults()
    assert gone == (
        "at.devices.requests[0]: Internal error: failed to get DeviceClass gpu: "
        'DeviceClass.resource.k8s.io "gpu" not found'
    )
    (wrong,) = faults(_class("gpu", "1", "2"))
    assert "DeviceClass gpu has invalid CEL selector" in wrong
    assert faults(wants=_wants("", 1, "true")) == []
    (failed,) = faults(GPU, wants=_wants("gpu", 1, "device.attributes['x'].y == 'z'"))
    assert "CEL evaluation failed for DeviceClass gpu: " in failed
    late = _wants("gpu", 1, f"{_is('a')} || device.attributes['x'].y == 'z'")
    assert faults(GPU, wants=late) == [], "the first that is chosen is enough"
    late["exactly"]["count"] = 4
    assert len(faults(GPU, wants=late)) == 1


def test_devices_of_the_drivers_that_sources_name() -> None:
    others = _slice("o", *(_device(f"e{i}", "a") for i in range(2)), driver=E, pool="q")
    wants = [_wants("part", 3, "true")]

    def has(*sources: DeviceClassMapping) -> int:
        store = _world(_class("part"), FOUR, others)
        spec = {"devices": {"requests": [*wants, _wants("gpu", 9, "true")][: 1 + (not sources)]}}
        (found, *_) = [str(f) for f in selection_faults(store, _mapped(*sources), spec, ("at",))] or [
            "9 device"
        ]
        return int(found.rpartition(" device")[0].rpartition(" ")[2])

    counter = DeviceClassMapping("m", ("part",), (Source(E, "memory", ""),))
    assert has(counter) == 2
    capacity = DeviceClassMapping("n", ("part",), (), (Source(D, "memory", ""),))
    assert has(counter, capacity) == 9, "those of both"
    assert has(capacity) == 9


# What is published


def test_pools_count_when_their_newest_generation_is_whole() -> None:
    def names(*slices: Obj, driver: str = D) -> list[str]:
        return [d.obj["name"] for d in devices_of(complete_pools(slices, driver))]

    a, b = _device("a"), _device("b")
    assert names(_slice("1", a), _slice("2", b, pool="q")) == ["a", "b"]
    assert names(_slice("1", a, count=2)) == []
    assert names(_slice("1", a, count=2), _slice("2", b, count=2)) == ["a", "b"]
    assert names(_slice("1", a), _slice("2", b, generation=2)) == ["b"]
    assert names(_slice("1", a, generation=2), _slice("2", b)) == ["a"]
    assert names(_slice("1", a), _slice("2", b, generation=2, count=2)) == []
    assert names(_slice("1", a), _slice("2", b)) == [], "one too many"
    assert names(_slice("1", a, driver=E), driver=D) == [] and names(_slice("1", a, driver=E), driver=E) == [
        "a"
    ]
    bare: Obj = {"spec": {"driver": D, "pool": {"resourceSliceCount": 1}, "devices": [a]}}
    assert names(bare) == ["a"]
    assert names({"spec": {"driver": D, "pool": {}}}) == []
    assert list(devices_of([{"spec": {}}])) == []


def test_what_is_remembered_follows_the_slices() -> None:
    store = _world(FOUR, _slice("o", _device("e0"), driver=E, pool="q"))
    line = published(store)
    assert line is published(store)

    def matches(*selectors: str, drivers: tuple[str, ...] = ()) -> list[int]:
        return [m.place for m in published(store).matches(drivers, selectors)]

    assert [d.obj["name"] for d in line.of(())] == ["e0", "g0", "g1", "g2", "g3"]
    assert [d.obj["name"] for d in line.of((D, E))] == ["g0", "g1", "g2", "g3", "e0"]
    assert [d.driver for d in line.of((E, D, E))] == [E, *[D] * 4]
    assert matches(f"device.driver == '{D}' && {_is('a')}") == [1, 2, 3]
    assert matches("true", drivers=(E,)) == [0]
    assert len(line.complete(D)) == 4 and line.complete(D) is line.complete(D)
    assert line.of(()) is line.of(())
    half = published(store).matches((), ("true",))
    assert next(iter(half)).place == 0 and [m.place for m in half] == [0, 1, 2, 3, 4]
    assert published(store).matches((), ("true",)) is half
    store.delete(Key("ResourceSlice.resource.k8s.io", "", "o"))
    assert matches("true") == [0, 1, 2, 3]
    assert len(published(store).complete(E)) == 0


def test_no_more_lines_are_remembered_than_many() -> None:
    line = published(_world(FOUR))
    first = line.matches((), ("true",))
    for number in range(255):
        line.matches((), (f"{number} == 1",))
    assert line.matches((), ("true",)) is first
    again = line.matches((), ("false",))
    assert line.matches((), ("false",)) is again and line.matches((), ("true",)) is not first


def test_answers_about_a_device_are_kept_for_that_device() -> None:
    one, other = (matching.Published(D, _device("x", m)) for m in "ab")
    for _ in range(2):
        assert matching.all_hold((_is("a"),), one) and not matching.all_hold((_is("a"),), other)
    assert matching.all_hold((), other)
    assert not matching.all_hold((_is("b"), _is("a")), other)
    # What was said of a device that is gone is not believed of another in its place.
    matching._answers[_is("a"), id(one.obj)] = other.obj, False
    assert matching.all_hold((_is("a"),), one)
    matching._answers[_is("a"), id(one.obj)] = one.obj, False
    assert not matching.all_hold((_is("a"),), one), "of itself it is"
    matching._answers.clear()


# Partitions and shares


def _part(name: str, *amounts: tuple[str, str], **more: Any) -> Obj:
    uses = [{"counterSet": "s", "counters": {n: {"value": v}}} for n, v in amounts]
    return _device(name, consumesCounters=uses, **more)


COUNTED = DeviceClassMapping("memory", ("part",), (Source(D, "mem", ""), Source(D, "cores", _is("a"))))


def test_partitions_count_by_their_largest() -> None:
    parts = _slice(
        "s", _part("p", ("mem", "10"), ("cores", "3")), _part("q", ("mem", "40500m"), ("cores", "2"))
    )
    store = _world(
        _class("part"),
        parts,
        _template("t", _wants("part", 2)),
        _template("u", _wants("part"), _wants("gpu")),
    )
    found = charge_of(store, _mapped(COUNTED), _gates(), _workload(("t",)))
    assert found == (PodSetCharge("main", (("memory", 2 * 41 + 2 * 3),), ()),)
    store.load(GPU)
    both = charge_of(store, _mapped(COUNTED), _gates(), _workload(("u",)))
    assert both == (PodSetCharge("main", (("gpus", 1), ("memory", 41 + 3)), ()),)
    off = charge_of(
        store, _mapped(COUNTED), _gates(KueueDRAIntegrationPartitionableDevices=False), _workload(("t",))
    )
    assert off == (PodSetCharge("main", (("memory", 2),), ()),)


def test_partitions_that_say_nothing() -> None:
    only = DeviceClassMapping("memory", ("part",), (Source(D, "mem", ""),))

    def said(
        *devices: Obj,
        wants: Obj | None = None,
        mapping: DeviceClassMapping = only,
        of_class: Obj | None = None,
    ) -> str:
        store = _world(
            of_class or _class("part"), _slice("s", *devices), _template("t", wants or _wants("part"))
        )
        found = charge_of(store, _mapped(mapping), _gates(), _workload(("t",)))
        assert isinstance(found, Refused)
        return f"{found.message} {found.is_retried}"

    at = f"{AT}.devices.requests[0]"
    none = f'{at}: Internal error: matched devices have no consumesCounters entry for counter "mem" True'
    assert said(_device("p")) == none == said(_part("p", ("other", "1")))
    few = f"{at}: Internal error: insufficient matching devices for counter driver: 1 device(s) match but 2 requested"
    assert said(_part("p", ("mem", "1")), wants=_wants("part", 2)) == f"{few} True"
    bad = DeviceClassMapping("memory", ("part",), (Source(D, "mem", "1"),))
    assert "deviceSelector CEL compilation failed" in said(_part("p", ("mem", "1")), mapping=bad)
    fails = DeviceClassMapping("memory", ("part",), (Source(D, "mem", "device.attributes['x'].y == 'z'"),))
    assert "CEL evaluation error in deviceSelector for device p: " in said(
        _part("p", ("mem", "1")), mapping=fails
    )
    odd = _class("part", "device.attributes['x'].y == 'z'")
    assert "CEL evaluation error in DeviceClass selector for device p: " in said(
        _part("p", ("mem", "1")), of_class=odd
    )


def test_selectors_of_source_class_and_request_choose_together() -> None:
    parts = []
    for i, (model, kind) in enumerate(("ax", "ay", "bx")):
        part = _part(f"p{i}", ("mem", str(10 * i + 1)))
        parts.append({**part, "attributes": {"model": {"string": model}, "kind": {"string": kind}}})
    kind = f"device.attributes['{D}'].kind == 'x'"
    for source, of_class, request, want in (
        ("", "true", "true", 21),
        (_is("a"), "true", "true", 11),
        ("", _is("a"), "true", 11),
        ("", "true", _is("a"), 11),
        ("", kind, _is("a"), 1),
        (_is("b"), kind, "true", 21),
    ):
        mapping = DeviceClassMapping("memory", ("part",), (Source(D, "mem", source),))
        store = _world(
            _class("part", of_class), _slice("s", *parts), _template("t", _wants("part", 1, request))
        )
        assert charge_of(store, _mapped(mapping), _gates(), _workload(("t",))) == (
            PodSetCharge("main", (("memory", want),), ()),
        )


SHARED = DeviceClassMapping("share", ("part",), (), (Source(D, "mem", ""),))


def _shared(value: str | None = "80", **policy: Any) -> Obj:
    capacity: Obj = {} if value is None else {"value": value}
    if policy:
        capacity["requestPolicy"] = policy
    return _device("g", capacity={"mem": capacity})


@pytest.mark.parametrize(
    ("devices", "asked", "want"),
    [
        ([_shared()], None, 80),
        ([_shared()], "7", 7),
        ([_shared(), _shared("90")], None, 90),
        ([_shared(None)], None, 0),
        ([_shared(default="10")], None, 10),
        ([_shared(default="10")], "7500m", 8),
        ([_shared(validValues=["5", "10"])], "5", 5),
        ([_shared(validValues=["5", "10"])], "6", 10),
        ([_shared(validValues=["5", "10"])], "11", None),
        ([_shared(validValues=["5", "10"]), _shared("90")], "11", 11),
        ([_shared(validRange={"min": "4"})], "3", 4),
        ([_shared(validRange={"min": "4"})], "5", 5),
        ([_shared(validRange={"min": "4", "step": "3"})], "4", 4),
        ([_shared(validRange={"min": "4", "step": "3"})], "5", 7),
        ([_shared(validRange={"min": "4", "step": "3"})], "7", 7),
        ([_shared(validRange={"min": "4", "step": "0"})], "5", 5),
        ([_shared(validRange={"min": "4", "max": "9"})], "9", 9),
        ([_shared(validRange={"min": "4", "max": "9"})], "10", None),
        ([_shared(validRange={"max": "9"})], "10", None),
        ([_shared(validRange={"step": "3"})], "10", 10),
        ([_shared(default="2", validRange={"min": "4", "step": "4", "max": "8"})], None, 4),
    ],
)
def test_shared_devices_count_by_what_is_asked_of_them(
    devices: list[Obj], asked: str | None, want: int | None
) -> None:
    more = {} if asked is None else {"capacity": {"requests": {"mem": asked}}}
    store = _world(_class("part"), _slice("s", *devices), _template("t", _wants("part", **more)))
    found = charge_of(store, _mapped(SHARED), _gates(), _workload(("t",)))
    if want is None:
        why = "capacity request cannot be satisfied by any matched device's RequestPolicy for dimension"
        assert _said(found) == f'{AT}.devices.requests[0]: Invalid value: null: {why} "mem"'
        assert isinstance(found, Refused) and not found.is_retried
    else:
        assert found == (PodSetCharge("main", (("share", want),), ()),)
    off = charge_of(
        store, _mapped(SHARED), _gates(KueueDRAIntegrationConsumableCapacity=False), _workload(("t",))
    )
    assert off == (PodSetCharge("main", (("share", 1),), ()),)


def test_shared_devices_without_the_dimension() -> None:
    store = _world(_class("part"), _slice("s", _device("g")), _template("t", _wants("part")))
    found = charge_of(store, _mapped(SHARED), _gates(), _workload(("t",)))
    assert (
        _said(found)
        == f'{AT}.devices.requests[0]: Internal error: matched devices have no capacity dimension "mem"'
    )
    store = _world(_class("part"), _slice("s", _shared(), _shared()), _template("t", _wants("part", 2)))
    assert charge_of(store, _mapped(SHARED), _gates(), _workload(("t",))) == (
        PodSetCharge("main", (("share", 160),), ()),
    )
    free = _world(_class("part"), _slice("s", _shared()), _template("t", _wants("part", 9, adminAccess=True)))
    assert charge_of(free, _mapped(SHARED), _gates(), _workload(("t",))) == ()


# Extended resources


def test_which_class_stands_for_a_resource() -> None:
    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"

    def chosen(*classes: Obj) -> str | None:
        found = selected_class(_world(*classes), "x.io/gpu")
        return None if found is None else str(found["metadata"]["name"])

    def of(name: str, made: str, resource: str = "x.io/gpu") -> Obj:
        return _class(name, extendedResourceName=resource, made=made)

    assert chosen() is None and chosen(of("a", new, "x.io/other")) is None
    assert chosen(of("a", old), of("b", new)) == "b"
    assert chosen(of("a", new), of("b", old)) == "a"
    assert chosen(of("b", new), of("a", new)) == "a"


def _box(amount: Any, name: str = "x.io/gpu") -> Obj:
    return {"name": "c", "resources": {"requests": {name: amount, "cpu": "1"}}}


EXTENDED = _class("gpu", extendedResourceName="x.io/gpu")


@pytest.mark.parametrize(
    ("inits", "boxes", "want"),
    [
        ([], ["2"], 2),
        ([], ["2", "3"], 5),
        (["4"], ["2"], 4),
        (["4", "7"], ["2", "4"], 7),
        (["1"], ["2", "4"], 6),
        (["4"], [], 4),
        ([], ["0"], None),
        ([], ["2k"], 2000),
    ],
)
def test_extended_resources_of_a_pod(inits: list[str], boxes: list[str], want: int | None) -> None:
    spec = {"initContainers": [_box(a) for a in inits], "containers": [_box(a) for a in boxes]}
    found = extended_charge(_world(EXTENDED), _mapped(), _gates(), spec, ("s",))
    assert found == (({}, [], []) if want is None else ({"gpus": want}, ["x.io/gpu"], []))
    unmapped = extended_charge(_world(EXTENDED), DeviceClassMappings(), _gates(), spec, ("s",))
    assert unmapped[0] == ({} if want is None else {"x.io/gpu": want})
    assert extended_charge(_world(), _mapped(), _gates(), spec, ("s",)) == ({}, [], [])
    workload = {"metadata": {"namespace": "default"}, "spec": {"podSets": [{"template": {"spec": spec}}]}}
    charge = charge_of(_world(EXTENDED), _mapped(), _gates(), workload)
    assert charge == (() if want is None else (PodSetCharge("main", (("gpus", want),), ("x.io/gpu",)),))
    off = charge_of(_world(EXTENDED), _mapped(), _gates(KueueDRAIntegrationExtendedResource=False), workload)
    assert off == ()


def test_extended_resources_that_do_not_count() -> None:
    def said(
        *boxes: Obj,
        mappings: DeviceClassMappings | None = None,
        classes: tuple[Obj, ...] = (EXTENDED,),
        **gates: bool,
    ) -> Any:
        charged, replaced, faults = extended_charge(
            _world(*classes), mappings or _mapped(), _gates(**gates), {"containers": list(boxes)}, ("s",)
        )
        return charged, replaced, [str(f) for f in faults]

    part = "s.containers[1].resources.requests.x.io/gpu"
    assert said(_box("1"), _box("1500m")) == (
        {},
        [],
        [f'{part}: Invalid value: "1500m": extended resource quantity must be an integer'],
    )
    charged, replaced, (line,) = said(_box(str(MAX_INT64)), _box("1"))
    assert (charged, replaced) == ({}, []) and line.endswith(
        "total extended resource quantity overflows int64"
    )
    assert said(_box(str(MAX_INT64)))[0] == {"gpus": MAX_INT64}
    counters = _mapped(DeviceClassMapping("m", ("gpu",), (Source(D, "mem", ""),)))
    (line,) = said(_box("1"), mappings=counters)[2]
    assert line == (
        's.containers[0]: Invalid value: "x.io/gpu": extended resource x.io/gpu resolves to DeviceClass gpu with '
        "counters configured; use ResourceClaimTemplates with CEL selectors for counter-based quota"
    )
    assert said(_box("1"), mappings=counters, KueueDRAIntegrationPartitionableDevices=False)[2] == []
    shares = _mapped(DeviceClassMapping("m", ("gpu",), (), (Source(D, "mem", ""),)))
    (line,) = said(_box("1"), mappings=shares)[2]
    assert "with capacity sources configured; use ResourceClaimTemplates with capacity.requests" in line
    assert said(_box("1"), mappings=shares, KueueDRAIntegrationConsumableCapacity=False)[2] == []
    two = (EXTENDED, _class("gpu2", extendedResourceName="y.io/gpu"))
    both = said(
        {"name": "c", "resources": {"requests": {"x.io/gpu": 1, "y.io/gpu": 2, "z.io/x": 9}}}, classes=two
    )
    assert both == ({"gpus": 3}, ["x.io/gpu", "y.io/gpu"], [])


def test_all_faults_of_extended_resources_are_told() -> None:
    store = _world(EXTENDED)
    bad = {"template": {"spec": {"containers": [_box("1500m")]}}}
    workload = {
        "metadata": {"namespace": "default"},
        "spec": {"podSets": [{**bad, "name": "a"}, {**bad, "name": "b"}]},
    }
    found = _said(charge_of(store, _mapped(), _gates(), workload))
    assert found.startswith("[spec.podSets[0].template.spec.containers[0]") and "podSets[1]" in found


# Mappings


def test_of_several_mappings_the_first_names_the_resource() -> None:
    a, b = Source(D, "a", ""), Source(D, "b", "")
    mappings = DeviceClassMappings(
        (
            DeviceClassMapping("x", ("c", "d"), (a,)),
            DeviceClassMapping("y", ("d",), (b,), (a,)),
            DeviceClassMapping("z", ("e",), (), (b,)),
        )
    )
    assert [mappings.resource_of(n) for n in "cdef"] == ["x", "x", "z", None]
    assert list(mappings.counters_of("d")) == [("x", a), ("y", b)] and list(mappings.counters_of("e")) == []
    assert list(mappings.capacities_of("d")) == [a] and list(mappings.capacities_of("e")) == [b]
