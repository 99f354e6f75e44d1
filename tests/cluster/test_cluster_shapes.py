"""Shapes of pods: equal specs share one, and what is remembered of them is bounded in bytes."""

from __future__ import annotations

from itertools import product

from fairway.cluster.shapes import PodShape, PodTerm, Shapes, SpreadConstraint, is_empty, normalized_image
from fairway.kube.labels import label_selector
from fairway.kube.objects import Obj


def pod(image: str) -> Obj:
    return {"metadata": {"namespace": "d"}, "spec": {"containers": [{"name": "c", "image": image}]}}


def test_equal_specs_share_a_shape() -> None:
    shapes = Shapes()
    assert shapes.of(pod("a")) is shapes.of(pod("a"))
    assert shapes.of(pod("a")) is not shapes.of(pod("b"))


def test_shapes_nobody_asks_for_are_let_go() -> None:
    shapes = Shapes()
    shapes.most_key_bytes = 100_000
    most = 0
    seen: list[PodShape] = []
    for i in range(400):
        seen.append(shapes.of(pod(f"{i}-" + "x" * 1000)))
        most = max(most, shapes.key_bytes)
    assert 90_000 < most <= 100_000
    assert len({s.id for s in seen}) == 400
    # An image that is larger than everything else together is remembered alone.
    assert shapes.of(pod("x" * 200_000)).images == ("x" * 200_000 + ":latest",)
    assert shapes.of(pod("0")).id == 401


def affine(kind: str, *, labels: dict[str, str], **term: object) -> PodShape:
    """A pod with one required term of this kind."""
    affinity = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term}]}}
    made = pod("a")
    made["metadata"]["labels"] = labels
    made["spec"]["affinity"] = affinity
    return Shapes().of(made)


def test_keys_of_a_term_take_the_pods_own_values() -> None:
    labels = {"app": "web", "version": "2"}
    selector = {"matchLabels": {"app": "web"}}
    shape = affine("podAffinity", labels=labels, labelSelector=selector, matchLabelKeys=["version", "absent"])
    (term,) = shape.required_affinity
    assert term.selector.matches({"app": "web", "version": "2"})
    assert not term.selector.matches({"app": "web", "version": "1"})
    assert not term.selector.matches({"app": "web"})
    apart = affine("podAntiAffinity", labels=labels, labelSelector=selector, mismatchLabelKeys=["version"])
    (other,) = apart.required_anti_affinity
    assert other.selector.matches({"app": "web", "version": "1"})
    assert not other.selector.matches({"app": "web", "version": "2"})


def test_a_term_is_about_its_own_namespace_unless_it_says_another() -> None:
    (own,) = affine("podAffinity", labels={}, labelSelector={}).required_affinity
    assert (own.namespaces, own.namespace_selector.matches({"a": "b"})) == (("d",), False)
    (named,) = affine("podAffinity", labels={}, labelSelector={}, namespaces=["z", "a"]).required_affinity
    assert named.namespaces == ("a", "z")
    (chosen,) = affine("podAffinity", labels={}, labelSelector={}, namespaceSelector={}).required_affinity
    assert chosen.namespaces == () and chosen.namespace_selector.matches({"a": "b"})


def shaped(**spec: object) -> PodShape:
    made = pod("a")
    made["metadata"]["labels"] = {"app": "web", "version": "2"}
    made["spec"] |= spec
    return Shapes().of(made)


def test_what_a_spread_constraint_leaves_out() -> None:
    (least,) = shaped(topologySpreadConstraints=[{}]).spread
    assert least == SpreadConstraint(1, "", label_selector(None), 1, True, False, True)
    said = {
        "maxSkew": 3,
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "minDomains": 2,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
        "whenUnsatisfiable": "ScheduleAnyway",
        "matchLabelKeys": ["version", "absent"],
    }
    (most,) = shaped(topologySpreadConstraints=[said]).spread
    assert most[:2] == (3, "zone") and most[3:] == (2, False, True, False)
    assert most.selector.matches({"app": "web", "version": "2"})
    assert not most.selector.matches({"app": "web", "version": "1"})
    for name, value, at in (
        ("nodeAffinityPolicy", "Honor", 4),
        ("nodeTaintsPolicy", "Ignore", 5),
        ("whenUnsatisfiable", "DoNotSchedule", 6),
    ):
        (one,) = shaped(topologySpreadConstraints=[{**said, name: value}]).spread
        assert one[at] is not most[at], name
    (nothing,) = shaped(topologySpreadConstraints=[{"matchLabelKeys": ["version"]}]).spread
    assert nothing.selector.nothing, "keys do not make a selector of none"
    assert is_empty(label_selector({})) and not is_empty(label_selector(None))


def test_ports_of_containers_and_sidecars() -> None:
    def ports(**spec: object) -> list[tuple[str, str, int]]:
        return [tuple(p) for p in shaped(**spec).host_ports]

    inside = {
        "name": "c",
        "image": "a",
        "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}],
    }
    assert ports(containers=[inside]) == [("0.0.0.0", "TCP", 8081)]
    assert ports(containers=[inside], hostNetwork=True) == [("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 8081)]
    udp = {"name": "c", "image": "a", "ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]}
    for policy, want in (("Always", [("10.0.0.1", "UDP", 53)]), ("Never", []), (None, [])):
        assert ports(containers=[], initContainers=[{**udp, "restartPolicy": policy}]) == want
    both = shaped(containers=[inside], initContainers=[udp])
    assert both.container_count == 2


def test_images_are_looked_up_with_their_tags() -> None:
    shape = shaped(
        containers=[{"name": "c", "image": "a"}, {"name": "d"}],
        initContainers=[{"name": "i", "image": "host:5000/b"}],
        volumes=[{"name": "v", "image": {"reference": "m:1"}}, {"name": "w", "emptyDir": {}}],
    )
    assert shape.images == ("host:5000/b:latest", "a:latest", ":latest", "m:1")
    assert normalized_image("h:1/x@sha256:ab") == "h:1/x@sha256:ab"


def test_terms_by_strength_and_side() -> None:
    required, preferred = (f"{s}DuringSchedulingIgnoredDuringExecution" for s in ("required", "preferred"))
    for side, strength in product(("podAffinity", "podAntiAffinity"), (required, preferred)):
        term = {"topologyKey": "zone", "labelSelector": {}}
        listed = [term] if strength == required else [{"weight": 7, "podAffinityTerm": term}]
        shape = shaped(affinity={side: {strength: listed}})
        terms = {
            ("podAffinity", required): shape.required_affinity,
            ("podAntiAffinity", required): shape.required_anti_affinity,
            ("podAffinity", preferred): shape.preferred_affinity,
            ("podAntiAffinity", preferred): shape.preferred_anti_affinity,
        }
        assert [at for at, found in terms.items() if found] == [(side, strength)]
        assert shape.has_pod_terms
        if strength == preferred:
            assert terms[side, strength][0][0] == 7
    assert not shaped().has_pod_terms
    (bare,) = shaped(affinity={"podAffinity": {preferred: [{}]}}).preferred_affinity
    assert (bare.weight, bare.term.topology_key, bare.term.selector.nothing) == (0, "", True)


def test_only_what_decides_the_place_tells_shapes_apart() -> None:
    shapes = Shapes()
    plain = pod("a")
    first = shapes.of(plain)
    assert shapes.of(plain) is first
    moved = {**plain, "metadata": {"namespace": "other"}}
    assert shapes.of(moved) is not first and shapes.of(plain) is first
    shapes.forget()
    assert shapes.of(plain) is first, "equal bytes are remembered"
    same = [{"hostname": "h"}, {"nodeName": "n"}, {"restartPolicy": "Never"}, {"volumes": [{"emptyDir": {}}]}]
    other = [
        {"priority": 5},
        {"preemptionPolicy": "Never"},
        {"schedulerName": "mine"},
        {"hostNetwork": True},
        {"overhead": {"cpu": "1"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"nodeSelector": {"a": "b"}},
        {"resourceClaims": [{"name": "c"}]},
        {"resources": {"requests": {"cpu": "1"}}},
        {"initContainers": [{"name": "i", "image": "a"}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    ]
    for more in same:
        assert shapes.of({**plain, "spec": {**plain["spec"], **more}}) is first, more
    for more in other:
        assert shapes.of({**plain, "spec": {**plain["spec"], **more}}) is not first, more
    assert (first.priority, first.never_preempts, first.scheduler_name) == (0, False, "default-scheduler")
    said = shaped(priority=7, preemptionPolicy="Never", schedulerName="mine", resourceClaims=[{"name": "c"}])
    assert (said.priority, said.never_preempts, said.scheduler_name, said.has_devices) == (
        7,
        True,
        "mine",
        True,
    )


def test_labels_matter_to_those_alone_that_ask_for_keys() -> None:
    def of(labels: dict[str, str], **spec: object) -> int:
        made = pod("a")
        made["metadata"]["labels"] = labels
        made["spec"] |= spec
        return shapes.of(made).id

    shapes = Shapes()
    term = {"topologyKey": "z", "labelSelector": {}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for spec, matters in (
        ({}, False),
        ({"topologySpreadConstraints": [{"topologyKey": "z"}]}, False),
        ({"topologySpreadConstraints": [{"topologyKey": "z", "matchLabelKeys": ["a"]}]}, True),
        ({"affinity": {"podAffinity": {required: [term]}}}, False),
        ({"affinity": {"podAffinity": {required: [{**term, "matchLabelKeys": ["a"]}]}}}, True),
        ({"affinity": {"podAntiAffinity": {required: [{**term, "mismatchLabelKeys": ["a"]}]}}}, True),
    ):
        assert (of({"a": "1"}, **spec) != of({"a": "2"}, **spec)) == matters, spec
        assert of({"a": "1"}, **spec) == of({"a": "1"}, **spec)


def test_a_term_is_about_pods_of_its_namespaces_that_it_selects() -> None:
    wanted = label_selector({"matchLabels": {"app": "a"}})
    teams = label_selector({"matchLabels": {"team": "x"}})
    term = PodTerm(("here",), teams, wanted, "zone")
    for namespace, team, app in product(("here", "there"), ("x", "y"), ("a", "b")):
        want = app == "a" and (namespace == "here" or team == "x")
        assert term.matches(namespace, {"app": app}, {"team": team}) == want
