"""HorizontalPodAutoscalers without kubelets and controllers: when each is looked at, and all that it leaves behind."""

from __future__ import annotations

from typing import Any

import pytest
from scalingworld import autoscaler, cpu, deployment, external

from fairway.autoscaling.load.reading import read_load
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.autoscaling.component import Autoscaling
from fairway.twin.autoscaling.journal import Scaling
from fairway.twin.latency import NONE
from fairway.twin.twin import EPOCH_US, Twin

HPA, WEB = "HorizontalPodAutoscaler.autoscaling", Key("Deployment.apps", "default", "web")
DEPTH = "external metric depth(nil)"


def placed(obj: Obj, namespace: str = "default") -> Obj:
    obj["metadata"]["namespace"] = namespace
    return obj


def web(name: str = "web") -> Obj:
    return placed(deployment(name))


def scaler(name: str = "web", target: str = "", metric: str = "depth", **spec: Any) -> Obj:
    return placed(autoscaler(name, external(metric, "10"), target=target or "web", **spec))


def pod(name: str, **labels: str) -> Obj:
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
    meta = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def alone(value: str, *objects: Obj) -> Twin:
    load = read_load({"series": [{"name": "depth", "value": value}]})
    twin = Twin(latency=NONE, components=[Autoscaling(load)], keep_records=1000)
    twin.apply(objects)
    return twin


def room(twin: Twin) -> Autoscaling:
    found = twin.component("autoscaling")
    assert isinstance(found, Autoscaling)
    return found


def looks(twin: Twin, seconds: int) -> list[int]:
    """The seconds in which anything happened: a look, and what came of it."""
    began_us = twin.now_us
    return [(twin.now_us - began_us) // SECOND_US for _ in range(seconds) if twin.run_for(SECOND_US)]


def lines(twin: Twin) -> list[str]:
    return [
        f"{(r.time_us - EPOCH_US) // SECOND_US} {r.component} {r.kind} {r.name} {r.reason}: {r.message}"
        for r in twin.host.log.records()
    ]


def status(twin: Twin, name: str = "web") -> Obj:
    return dict(twin.store.require(Key(HPA, "default", name))["status"])


def condition(kind: str, value: str, reason: str, message: str, since: str) -> Obj:
    return {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": since}


def test_up_and_down_with_a_load() -> None:
    twin = alone("0s:20,1m:60,10m:10", web(), scaler())
    # Nothing can come of a look between 90 s and 10 min, nor until five minutes after that.
    assert looks(twin, 1200) == [1, 15, 60, 75, 90, 600, 900, 915]
    grown = f"{DEPTH} above target"
    it = f"horizontal-pod-autoscaler {HPA} web SuccessfulRescale: New size:"
    assert lines(twin) == [
        f"60 {it} 4; reason: {grown}",
        f"75 {it} 6; reason: {grown}",
        f"900 {it} 1; reason: All metrics below target",
    ]
    uid = twin.store.require(Key(HPA, "default", "web"))["metadata"]["uid"]
    assert {(e.uid, e.type, e.component) for e in twin.host.events.told()} == {
        (uid, "Normal", "horizontal-pod-autoscaler")
    }
    by, target = "HorizontalPodAutoscaler/default/web", "Deployment/default/web"

    def scaling(second: int, before: int, after: int, why: str) -> Scaling:
        return Scaling(EPOCH_US + second * SECOND_US, by, target, before, after, 0, DEPTH, why)

    assert room(twin).journal.scalings == [
        scaling(60, 2, 4, grown),
        scaling(75, 4, 6, grown),
        scaling(900, 6, 1, "All metrics below target"),
    ]
    said = status(twin)
    assert said.pop("conditions") == [
        condition(
            "AbleToScale",
            "True",
            "ReadyForNewScale",
            "recommended size matches current size",
            "2026-01-05T00:00:15Z",
        ),
        condition(
            "ScalingActive",
            "True",
            "ValidMetricFound",
            f"the HPA was able to successfully calculate a replica count from {DEPTH}",
            "2026-01-05T00:00:15Z",
        ),
        condition(
            "ScalingLimited",
            "False",
            "DesiredWithinRange",
            "the desired count is within the acceptable range",
            "2026-01-05T00:01:15Z",
        ),
    ]
    del said["currentMetrics"]
    assert said == {"currentReplicas": 1, "desiredReplicas": 1, "lastScaleTime": "2026-01-05T00:15:00Z"}


def test_ready_pods_are_counted_with_what_was_done() -> None:
    twin = alone("0s:20,1m:60", web(), scaler(), *(pod(f"p{i}", app="web") for i in range(3)))
    for name in ("p0", "p1"):
        said = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        twin.store.set_status(Key("Pod", "default", name), said)
    twin.run_for(70 * SECOND_US)
    assert [(s.before, s.after, s.ready) for s in room(twin).journal.scalings] == [(2, 4, 2)]


def test_who_sets_replicas_meanwhile_is_noted_once() -> None:
    twin = alone("20", web(), scaler())
    twin.run_for(100 * SECOND_US)
    twin.store.patch(WEB, {"spec": {"replicas": 3}})
    twin.run_for(100 * SECOND_US)
    note = Scaling(
        EPOCH_US + 105 * SECOND_US, "", "Deployment/default/web", 2, 3, 0, "", "set by somebody else"
    )
    assert room(twin).journal.scalings[0] == note
    assert [s.why for s in room(twin).journal.scalings].count("set by somebody else") == 1


def test_what_one_autoscaler_set_is_not_somebody_elses_to_another() -> None:
    twin = alone("60", web(), scaler("a"), scaler("b"))
    twin.run_for(400 * SECOND_US)
    first = "HorizontalPodAutoscaler/default/a"
    assert [(s.by, s.before, s.after) for s in room(twin).journal.scalings] == [(first, 2, 4), (first, 4, 6)]


def test_what_one_set_between_two_looks_of_another_is_not_somebody_elses() -> None:
    twin = alone("0s:10,40s:60", web(), scaler("a"))
    twin.run_for(5 * SECOND_US)
    twin.apply([scaler("b")])
    twin.run_for(50 * SECOND_US)
    assert [
        (s.by[-1], (s.at_us - EPOCH_US) // SECOND_US, s.before, s.after) for s in room(twin).journal.scalings
    ] == [
        ("a", 45, 2, 4),
        ("b", 50, 4, 6),
    ]
    copy = twin.fork()
    assert room(copy).journal.scalings == room(twin).journal.scalings
    copy.run_for(20 * SECOND_US)
    assert len(room(twin).journal.scalings) == 2, "a copy notes for itself"
    assert room(copy).journal.last_of("Deployment/default/web") == room(copy).journal.scalings[-1]
    assert room(copy).journal.last_of("Deployment/default/other") is None


@pytest.mark.parametrize(
    ("what", "want"),
    [
        ("the target", [1, 5]),
        ("another target", [1]),
        ("a pod of its own", [1, 5]),
        ("a pod of others", [1]),
        ("its spec", [1, 5]),
        ("its status", [1]),
        ("its labels", [1]),
        ("a load", [1, 5]),
        ("a target it comes to have", [1, 5]),
    ],
)
def test_what_makes_it_look_again(what: str, want: list[int]) -> None:
    objects = [web(), web("other"), scaler(), pod("mine", app="web"), pod("theirs", app="x")]
    twin = alone("20", *objects)
    twin.run_for(100 * SECOND_US)
    mine, key = twin.store.require(Key("Pod", "default", "mine")), Key(HPA, "default", "web")
    if what in ("the target", "another target"):
        twin.store.patch(
            Key("Deployment.apps", "default", "web" if what == "the target" else "other"),
            {"metadata": {"labels": {"x": "y"}}},
        )
    elif what.startswith("a pod"):
        name = "mine" if what == "a pod of its own" else "theirs"
        twin.store.set_status(Key("Pod", "default", name), {**mine["status"], "phase": "Running"})
    elif what == "its spec":
        twin.store.patch(key, {"spec": {"maxReplicas": 11}})
    elif what == "its status":
        twin.store.set_status(key, {**status(twin), "observedGeneration": 7})
    elif what == "its labels":
        twin.store.patch(key, {"metadata": {"labels": {"x": "y"}}})
    elif what == "a load":
        meta = {"name": "l", "namespace": "default", "labels": {"fairway.dev/load": "true"}}
        twin.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "series: []"}}])
    else:
        twin.store.patch(key, {"spec": {"scaleTargetRef": {"name": "other"}}})
    # Looked at since the beginning at every fifteenth second: next at the 105th.
    assert looks(twin, 15) == want


def test_it_follows_the_target_it_has_now() -> None:
    twin = alone("20", web(), web("other"), scaler())
    twin.run_for(20 * SECOND_US)
    twin.store.patch(Key(HPA, "default", "web"), {"spec": {"scaleTargetRef": {"name": "other"}}})
    twin.run_for(80 * SECOND_US)
    for name, want in (("web", [1]), ("other", [1, 5])):
        twin.store.patch(Key("Deployment.apps", "default", name), {"metadata": {"labels": {"x": "y"}}})
        assert looks(twin, 15) == want


def test_one_that_comes_late_is_looked_at_a_period_later() -> None:
    twin = alone("20", web(), scaler())
    twin.run_for(37 * SECOND_US)
    twin.apply([scaler("late")])
    assert looks(twin, 30) == [1, 15]
    twin.store.patch(WEB, {"metadata": {"labels": {"x": "y"}}})
    # The first at the 75th second, the other at the 82nd.
    assert looks(twin, 30) == [1, 8, 15]


def test_one_that_goes_wakes_nobody_and_the_others_stay() -> None:
    twin = alone("20", web(), scaler("a"), scaler("b"), pod("mine", app="web"))
    twin.run_for(20 * SECOND_US)
    twin.store.delete(Key(HPA, "default", "a"))
    twin.run_for(80 * SECOND_US)
    assert list(room(twin).horizontal.entries) == [Key(HPA, "default", "b")]
    twin.store.patch(WEB, {"metadata": {"labels": {"x": "y"}}})
    assert looks(twin, 15) == [1, 5]
    twin.store.delete(Key(HPA, "default", "b"))
    twin.run_for(SECOND_US)
    twin.store.patch(WEB, {"metadata": {"labels": {"x": "z"}}})
    twin.store.patch(Key("Pod", "default", "mine"), {"metadata": {"annotations": {"x": "z"}}})
    assert looks(twin, 60) == [1]


def test_who_else_selects_the_pods_is_said_in_order() -> None:
    """The first is looked at again once others select its pods, and once they do not any more."""
    names = ("c", "a", "b")
    twin = alone("20", web(), *(scaler(name) for name in names), pod("mine", app="web"))

    def active(name: str) -> tuple[str, str]:
        said = {c["type"]: c for c in status(twin, name)["conditions"]}["ScalingActive"]
        return said["reason"], said["message"]

    twin.run_for(20 * SECOND_US)
    assert [active(name)[0] for name in names] == [
        "ValidMetricFound",
        "AmbiguousSelector",
        "AmbiguousSelector",
    ]
    twin.run_for(15 * SECOND_US)
    words = "pods by selector app=web are controlled by multiple HPAs: [default/a default/b default/c]"
    assert [active(name) for name in names] == [("AmbiguousSelector", words)] * 3
    for name in ("a", "b"):
        twin.store.delete(Key(HPA, "default", name))
    twin.run_for(30 * SECOND_US)
    assert active("c")[0] == "ValidMetricFound"


def test_one_pod_of_several_that_another_selects_is_enough() -> None:
    other = placed(deployment("other"))
    other["spec"]["selector"] = {"matchLabels": {"app": "web", "tier": "x"}}
    pods = [pod("one", app="web"), pod("two", app="web", tier="x")]
    twin = alone("20", web(), other, *pods, scaler("b", target="other"), scaler("a"))
    twin.run_for(40 * SECOND_US)
    for name in ("a", "b"):
        conditions = {c["type"]: c["reason"] for c in status(twin, name)["conditions"]}
        assert conditions["ScalingActive"] == "AmbiguousSelector"


def test_many_changes_are_one_look() -> None:
    twin = alone("20", web(), scaler())
    twin.run_for(100 * SECOND_US)
    for value in ("1", "2", "3"):
        twin.store.patch(WEB, {"metadata": {"labels": {"x": value}}})
        assert twin.run_for(SECOND_US) == 1, "the news"
    assert twin.run_for(5 * SECOND_US) == 1, "the look"


def test_those_of_other_pods_are_not_in_each_others_way() -> None:
    other = placed(deployment("other"))
    other["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    twin = alone(
        "20",
        web(),
        other,
        scaler("a"),
        scaler("b", target="other"),
        pod("mine", app="web"),
        pod("theirs", app="other"),
    )
    assert looks(twin, 200) == [1, 15]
    for name in ("a", "b"):
        conditions = {c["type"]: c["reason"] for c in status(twin, name)["conditions"]}
        assert conditions["ScalingActive"] == "ValidMetricFound"


@pytest.mark.parametrize("after_s", [5, 20, 70, 620])
def test_a_copy_looks_as_its_original(after_s: int) -> None:
    twin = alone(
        "0s:20,1m:60,10m:10",
        web(),
        scaler(),
        pod("mine", app="web"),
        placed(autoscaler("web2", cpu(50), target="web")),
    )
    twin.run_for(after_s * SECOND_US)
    copy = twin.fork()
    found = []
    for one in (twin, copy):
        one.store.patch(WEB, {"metadata": {"labels": {"x": "y"}}})
        first = looks(one, 20)
        one.store.patch(Key("Pod", "default", "mine"), {"metadata": {"annotations": {"x": "y"}}})
        found.append((first, looks(one, 1200), lines(one)[-3:], room(one).journal.scalings))
    assert found[0] == found[1]
    assert twin.digest() == copy.digest()
