"""The Cluster Autoscaler's arithmetic at its edges: scores against their formulas, ages, likeness, sizes."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.kube.objects import Obj
from fairway.kube.timestamps import DAY_US, MINUTE_US, SECOND_US, rfc3339
from fairway.provisioning.clusterautoscaler import requests
from fairway.provisioning.clusterautoscaler.balancing import IGNORED_LABELS, are_similar, balanced
from fairway.provisioning.clusterautoscaler.draining import blocking_pod, has_blocking_local_storage, moving
from fairway.provisioning.clusterautoscaler.expanders import (
    Option,
    by_priority,
    choose,
    price_score,
    read_priorities,
    waste,
)
from fairway.provisioning.clusterautoscaler.groups import NodeGroup, Options, Seat
from fairway.provisioning.karpenter.podfacts import PodFacts, Shapes, facts_of

GIB = 2**30
GPU = "nvidia.com/gpu"


def pod(name: str = "p", cpu_milli: int = 0, memory: int = 0, gpu: int = 0, **more: Any) -> Obj:
    asked = {"cpu": f"{cpu_milli}m", "memory": str(memory), **({GPU: str(gpu)} if gpu else {})}
    spec = {"containers": [{"name": "c", "resources": {"requests": asked}}], **more.pop("spec", {})}
    owners = [{"kind": more.pop("owner", "Job"), "name": "o", "controller": True, "uid": "u"}]
    meta = {"name": name, "namespace": "default", "ownerReferences": owners, **more.pop("meta", {})}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running", **more}}


def facts(*pods: Obj) -> tuple[PodFacts, ...]:
    shapes = Shapes()
    return tuple(facts_of(p, shapes.of(p)) for p in pods)


def seat(labels: dict[str, str] | None = None, **there: int) -> Seat:
    amounts = {"nvidia.com/gpu" if n == "gpu" else n: v for n, v in there.items()}
    return Seat("s", labels or {}, (), amounts, amounts, {})


def group(name: str, *, target: int = 0, most: int = 9, price: int | None = 100, **there: int) -> NodeGroup:
    return NodeGroup(name, 0, most, target, seat(**(there or {"cpu": 4000, "memory": 16 * GIB})), price)


# Expanders


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    nodes=st.integers(1, 40),
    price=st.integers(0, 5_000_000),
    cpu=st.sampled_from((1000, 4000, 32000)),
    memory=st.sampled_from((GIB, 64 * GIB)),
    gpus=st.sampled_from((0, 8)),
    pods=st.lists(st.tuples(st.integers(0, 8000), st.integers(0, 8 * GIB), st.integers(0, 8)), max_size=4),
    size=st.sampled_from((0, 2, 3, 6, 7, 20, 21, 60, 61, 200, 201)),
)
def test_price_and_waste_are_their_formulas(
    nodes: int, price: int, cpu: int, memory: int, gpus: int, pods: list[tuple[int, int, int]], size: int
) -> None:
    there = {"cpu": cpu, "memory": memory, **({"gpu": gpus} if gpus else {})}
    option = Option(group("g", price=price, **there), nodes, facts(*(pod("p", *asked) for asked in pods)))

    def worth(milli: Fraction, gib: Fraction, cards: int) -> Fraction:
        return milli / 1000 * 33_174 + gib * 4_446 + cards * 700_000

    still = worth(Fraction(500), Fraction(500, 1024), 0)
    paid = sum((worth(Fraction(c), Fraction(m, GIB), g) for c, m, g in pods), Fraction(0))
    score = float((price * nodes + still) / (paid + still))
    if gpus:
        want = 1000 * score
    else:
        cores = next((c for c, most in ((1, 2), (2, 6), (4, 20), (8, 60), (16, 200)) if size <= most), 32)
        ratio = cores * 1000 / cpu
        unfit = max(ratio, 1 / ratio)
        want = ((unfit - 1) * (1 - math.tanh((nodes - 1) / 15)) + 1) * score
    assert price_score(option, size) == pytest.approx(want)
    left = sum(1 - sum(p[i] for p in pods) / (total * nodes) for i, total in enumerate((cpu, memory)))
    assert waste(option) == pytest.approx(left)


def test_a_machine_of_nothing_wastes_nothing_and_costs_what_it_costs() -> None:
    none = Option(group("g", pods=1), 2, facts(pod(cpu_milli=100)))
    assert waste(none) == 0.0
    assert price_score(none, 0) > 0
    unpriced = Option(group("g", price=None), 2, facts(pod(cpu_milli=100)))
    free = Option(group("g", price=0), 2, facts(pod(cpu_milli=100)))
    assert price_score(unpriced, 0) == price_score(free, 0)
    cheap = Option(group("g", price=1), 2, facts(pod(cpu_milli=100)))
    assert price_score(free, 0) < price_score(cheap, 0)


def test_what_is_left_of_several_is_chance() -> None:
    options = [
        Option(group(name, price=price), 1, facts(pod())) for name, price in (("a", 5), ("b", 1), ("c", 1))
    ]
    assert choose([], ("price",), 0.5) is None
    for draw, want in ((0.0, "a"), (0.34, "b"), (0.67, "c"), (0.999, "c"), (1.0, "c")):
        found = choose(options, ("random",), draw)
        assert found is not None and found.group.name == want
        assert choose(options, ("random", "price"), draw) == found, "nobody comes after random"
        again = choose(options, (), draw)
        assert again == found
    for draw, want in ((0.0, "b"), (0.49, "b"), (0.5, "c")):
        found = choose(options, ("price",), draw)
        assert found is not None and found.group.name == want
        assert choose(options, ("nobody", "price"), draw) == found
    unknown = [Option(group("a", price=None), 1, ()), Option(group("b", price=7), 1, ())]
    found = choose(unknown, ("price",), 0.0)
    assert found is not None and found.group.name == "b"
    few, many = Option(group("a"), 1, facts(pod())), Option(group("b"), 1, facts(pod(), pod("q")))
    assert choose([few, many], ("most-pods",), 0.0) is many
    tight = Option(group("t", cpu=1000, memory=GIB), 1, facts(pod(cpu_milli=900, memory=GIB)))
    wide = Option(group("w", cpu=8000, memory=GIB), 1, facts(pod(cpu_milli=900, memory=GIB)))
    assert choose([wide, tight], ("least-waste",), 0.0) is tight


def test_priorities_by_name() -> None:
    options = [Option(group(name), 1, ()) for name in ("on-demand", "spot-a", "spot-b")]
    read = read_priorities({"priorities": "1: ['demand', 'x']\n20: ['x', '-b$']\n10: ['^spot']\n"})
    assert not isinstance(read, str)

    def names(found: list[Option]) -> list[str]:
        return [o.group.name for o in found]

    assert names(by_priority(options, read)) == ["spot-b"]
    assert names(by_priority(options[:2], read)) == ["spot-a"]
    assert names(by_priority(options[:1], read)) == ["on-demand"]
    nobody = read_priorities({"priorities": "0: ['nobody']"})
    assert not isinstance(nobody, str)
    assert names(by_priority(options, nobody)) == names(options)
    zero = read_priorities({"priorities": "0: ['-a']"})
    assert not isinstance(zero, str)
    assert names(by_priority(options, zero)) == ["spot-a"]
    assert by_priority(options, None) == by_priority(options, {}) == options
    chosen = choose(options, ("priority",), 0.0, priorities=read)
    assert chosen is not None and chosen.group.name == "spot-b"
    wrong = "Wrong configuration for priority expander: "
    assert str(read_priorities({"priorities": ""})).startswith(wrong + "priority configuration in")
    for text in ("[1]", "a: ['x']", "1: 2", "{"):
        assert str(read_priorities({"priorities": text})).startswith(wrong + "Can't parse YAML"), text
    assert str(read_priorities({"priorities": "1: ['(']"})).startswith(wrong + "Can't compile regexp rule")


def test_a_priority_that_would_be_searched_for_ever_is_not() -> None:
    read = read_priorities({"priorities": "1: ['^(a+)+$']"})
    assert not isinstance(read, str)
    assert by_priority([Option(group("a" * 60 + "!"), 1, ())], read)
    bomb = "1: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{n + 2}: &{name} [{', '.join(['*' + before] * 10)}]\n"
        for n, (before, name) in enumerate(zip("abcdefgh", "bcdefghi", strict=True))
    )
    assert "aliases expand to more than" in str(read_priorities({"priorities": bomb}))


# Groups of a kind


def test_how_alike_groups_must_be() -> None:
    plain = seat(cpu=10_000, memory=10_000, pods=100)

    def other(**changed: int) -> bool:
        amounts = {"cpu": 10_000, "memory": 10_000, "pods": 100} | changed
        made = seat(**amounts)
        assert are_similar(plain, made) == are_similar(made, plain)
        return are_similar(plain, made)

    assert other()
    assert other(memory=9_850)
    assert not other(memory=9_849)
    assert not other(cpu=9_999)
    assert not other(gpu=0)
    for allocatable, want in ((9_500, True), (9_499, False)):
        made = Seat("s", {}, (), plain.capacity, {**plain.allocatable, "cpu": allocatable}, {})
        assert are_similar(plain, made) == want == are_similar(made, plain)
    for used, want in ((500, True), (501, False)):
        made = Seat("s", {}, (), plain.capacity, plain.allocatable, {"memory": used})
        assert are_similar(plain, made) == want == are_similar(made, plain)
    fewer = Seat("s", {}, (), plain.capacity, {"cpu": 10_000, "memory": 10_000}, {})
    assert not are_similar(plain, fewer)
    for label in IGNORED_LABELS:
        assert are_similar(seat({label: "a"}, cpu=1), seat({label: "b"}, cpu=1))
    assert not are_similar(seat({"x": "a"}, cpu=1), seat({"x": "b"}, cpu=1))
    assert not are_similar(seat({"x": "a"}, cpu=1), seat(cpu=1))


@pytest.mark.parametrize("most", [(3, 3, 3), (1, 4, 2), (0, 2, 5)])
def test_sizes_are_as_even_as_can_be(most: tuple[int, ...]) -> None:
    for targets in product(range(4), repeat=3):
        groups = [group(n, target=t, most=m) for n, t, m in zip("abc", targets, most, strict=True)]
        open_ = [g for g in groups if g.target != g.most]
        room = sum(max(g.most - g.target, 0) for g in open_)
        for nodes in range(8):
            sizes = {g.name: g.target for g in groups} | {g.name: n for g, n in balanced(groups, nodes)}
            assert all(n != g.target for g, n in balanced(groups, nodes))
            assert sum(sizes.values()) == sum(targets) + min(nodes, room)
            for g in groups:
                assert g.target <= sizes[g.name] <= max(g.most, g.target)
            # Nobody grew while a smaller one could have.
            for a, b in combinations(groups, 2):
                for grown, smaller in ((a, b), (b, a)):
                    if sizes[grown.name] > grown.target and sizes[smaller.name] < smaller.most:
                        assert sizes[grown.name] <= sizes[smaller.name] + 1
                        if sizes[grown.name] == sizes[smaller.name] + 1:
                            assert smaller not in open_ or grown.name < smaller.name


# Nodes that go


def _said(seconds: int) -> str:
    return rfc3339(seconds * SECOND_US)


def test_pods_that_take_too_long_to_end_do_not_move() -> None:
    for grace, ends in ((None, 1060), (0, 1030), (100, 1130)):
        spec = {} if grace is None else {"terminationGracePeriodSeconds": grace}
        going = pod(meta={"deletionTimestamp": _said(1000)}, owner="Custom", spec=spec)
        for after, stays in ((ends, True), (ends + 1, False)):
            assert moving([going], after * SECOND_US) == ([going] if stays else [])
            blocked = blocking_pod([going], (), Options(), after * SECOND_US)
            assert (blocked is not None) == stays


def test_which_pods_need_another_place() -> None:
    kept = [
        pod("a"),
        pod("b", phase="Succeeded", spec={"restartPolicy": "Always"}),
        pod("c", phase="Succeeded"),
    ]
    gone = [
        pod("d", phase="Failed"),
        pod("e", phase="Failed", spec={"restartPolicy": "Never"}),
        pod("f", phase="Succeeded", spec={"restartPolicy": "Never"}),
        pod("g", phase="Succeeded", spec={"restartPolicy": "OnFailure"}),
        pod("h", owner="DaemonSet"),
        pod("i", meta={"annotations": {"kubernetes.io/config.mirror": ""}}),
        pod("j", meta={"annotations": {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}}),
    ]
    no = pod("k", meta={"annotations": {"cluster-autoscaler.kubernetes.io/daemonset-pod": "false"}})
    assert moving([*gone, *kept, no], 0) == [*kept, no]
    assert blocking_pod(gone, (), Options(), 0) is None


def test_local_storage_that_keeps_a_node() -> None:
    def keeps(*volumes: Obj, named: str | None = None) -> bool:
        notes = (
            {} if named is None else {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": named}
        )
        return has_blocking_local_storage(pod(spec={"volumes": list(volumes)}, meta={"annotations": notes}))

    disk: Obj = {"name": "d", "emptyDir": {}}
    memory: Obj = {"name": "m", "emptyDir": {"medium": "Memory"}}
    host: Obj = {"name": "h", "hostPath": {"path": "/x"}}
    claim: Obj = {"name": "c", "persistentVolumeClaim": {"claimName": "c"}}
    assert keeps(disk) and keeps(host) and keeps(claim, disk)
    assert keeps({"name": "d", "emptyDir": {"medium": "HugePages"}})
    assert not keeps() and not keeps(memory, claim)
    assert not keeps(disk, host, named="h,d") and keeps(disk, host, named="h") and keeps(disk, named="")


# Requests for capacity


def _request(conditions: dict[str, tuple[str, int]] | None = None, **spec: Any) -> requests.Request:
    """Conditions: kind → status, second of its last transition."""
    listed = [
        {"type": kind, "status": status, "lastTransitionTime": _said(at)}
        for kind, (status, at) in (conditions or {}).items()
    ]
    obj = {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {
            "name": "r",
            "namespace": "n",
            "uid": "u",
            "creationTimestamp": _said(1000),
            "generation": 3,
        },
        "spec": {"provisioningClassName": requests.CHECK_CAPACITY, **spec},
        "status": {"conditions": listed, "kept": 1},
    }
    return requests.Request(obj, {"t": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}}})


PROVISIONED, FAILED, EXPIRED = requests.PROVISIONED, requests.FAILED, requests.BOOKING_EXPIRED


def test_which_requests_are_this_autoscalers() -> None:
    assert requests.is_supported(_request())
    assert requests.is_supported(_request(parameters={"processorInstance": ""}))
    assert not requests.is_supported(_request(parameters={"processorInstance": "other"}))
    atomic = requests.BEST_EFFORT_ATOMIC
    assert requests.is_supported(
        _request(provisioningClassName=atomic, parameters={"processorInstance": "other"})
    )
    assert not requests.is_supported(_request(provisioningClassName="queued-provisioning.gke.io"))
    assert _request().may_retry and _request(parameters={"noRetry": "false"}).may_retry
    assert not _request(parameters={"noRetry": "true"}).may_retry


def test_what_is_booked_tried_told_and_outdated() -> None:
    for statuses in product((None, "True", "False"), repeat=3):
        given_ = {
            kind: (status, 2000)
            for kind, status in zip((PROVISIONED, FAILED, EXPIRED), statuses, strict=True)
            if status is not None
        }
        request = _request(given_)
        provisioned, failed, expired = (status == "True" for status in statuses)
        assert requests.is_booked(request) == (provisioned and not failed and not expired)
        want = None
        if not failed and not provisioned:
            want = 1000 * SECOND_US if statuses[0] is None else 2000 * SECOND_US + 8
        assert requests.available_at_us(request, 7) == want
        start, lasts, words = (
            (2000, requests.RESERVATION_US, requests.RAN_OUT)
            if provisioned
            else (1000, requests.EXPIRATION_US, requests.EXPIRED)
        )
        for more in (0, 1):
            told = requests.overdue(request, start * SECOND_US + lasts + more)
            assert told == (words if more and not failed and not expired else None)
        settled = statuses[0] is not None or statuses[1] is not None
        edge = 2000 * SECOND_US + requests.RETENTION_US
        assert [requests.is_outdated(request, edge + more) for more in (0, 1)] == [False, settled]
    other = _request({PROVISIONED: ("True", 2000)}, provisioningClassName="x")
    assert not requests.is_booked(other)
    assert requests.overdue(other, 10**18) is None
    assert (requests.RESERVATION_US, requests.EXPIRATION_US, requests.RETENTION_US) == (
        10 * MINUTE_US,
        7 * DAY_US,
        7 * DAY_US,
    )


def test_the_pods_a_request_stands_for() -> None:
    sets = [{"podTemplateRef": {"name": "t"}, "count": 2}, {"podTemplateRef": {"name": "t"}, "count": 1}]
    request = _request(podSets=sets)
    made = requests.pods_of(request)
    assert [p["metadata"]["name"] for p in made] == ["r-0-0", "r-0-1", "r-1-0"]
    assert len({p["metadata"]["uid"] for p in made}) == 3 == request.pod_count
    assert all(p["metadata"]["labels"] == {"a": "b"} and p["spec"] == {"x": 1} for p in made)
    assert all(requests.consumed_request(p) == "r" for p in made)
    assert made[0]["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert _request().pod_count == 0 and requests.pods_of(_request()) == []
    uncounted = _request(podSets=[{"podTemplateRef": {"name": "t"}}])
    assert uncounted.pod_count == 0 and requests.pods_of(uncounted) == []
    assert requests.missing_templates(request) == ""
    short = _request(podSets=[*sets, {"podTemplateRef": {"name": "z"}, "count": 1}])
    assert requests.missing_templates(short) == (
        "missing pod templates, 3 pod templates were referenced, 1 templates were missing: z"
    )
    before = {"metadata": {"annotations": {requests.CONSUMES_BEFORE: "old"}}}
    assert requests.consumed_request(before) == "old"
    assert requests.consumed_request({"metadata": {}}) == ""
    assert (request.key, request.uid, request.class_name) == ("n/r", "u", requests.CHECK_CAPACITY)


def test_a_condition_replaces_the_one_of_its_kind_and_keeps_the_rest() -> None:
    request = _request({PROVISIONED: ("False", 5), EXPIRED: ("False", 6)})
    after = requests.said(request, requests.FOUND, 9 * SECOND_US)
    assert after.conditions is not None
    assert [(c["type"], c["status"]) for c in after.conditions] == [(PROVISIONED, "True"), (EXPIRED, "False")]
    assert after.conditions[0]["observedGeneration"] == 3
    assert after.since_us(PROVISIONED) == 9 * SECOND_US
    assert after.obj["status"]["kept"] == 1
    assert request.since_us(PROVISIONED) == 5 * SECOND_US and request.since_us(FAILED) is None
    more = requests.said(after, requests.failed("Because", "of this"), 10 * SECOND_US)
    assert more.conditions is not None
    assert [c["type"] for c in more.conditions] == [PROVISIONED, EXPIRED, FAILED]
    assert more.conditions[2]["reason"] == "Because" and more.conditions[2]["message"] == "of this"
    assert more.holds(FAILED) and more.templates is request.templates
