"""Where pods with claims may go and what becomes of the claims there: against a search node by node, in plain words."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from fairway.cluster.records import PodRecord
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, key_of
from fairway.scheduling.cycle import Scheduler
from fairway.scheduling.podspread import Move
from fairway.scheduling.preemption import explain
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.scheduling.verdict import Refusal, Scheduled
from fairway.scheduling.volumes import PLUGINS, VolumeFilter, VolumeLook, VolumePlan, look

ZONE, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, BETA_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
_OTHER_NAME = {BETA: ZONE, BETA_REGION: REGION}
GI = 2**30
LOCAL, NET, NOW = "local", "net", "now"
SELECTED, COMPLETED = "volume.kubernetes.io/selected-node", "pv.kubernetes.io/bind-completed"


class World:
    """A store with volumes and claims, and its scheduler."""

    def __init__(self, profile: Profile = DEFAULT_PROFILE) -> None:
        self.store = Store()
        self.profile = profile
        self.scheduler = Scheduler(self.store.accounts, profile, view=self.store)

    def node(self, name: str, **labels: str) -> None:
        status = {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}
        self._add("Node", name, "", {"status": status}, labels=labels)

    def claim(self, name: str, size: int = 1, *, status: Obj | None = None, **spec: Any) -> None:
        meta = {k: spec.pop(k) for k in ("annotations", "deletionTimestamp", "ownerReferences") if k in spec}
        wanted = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{size}Gi"}},
            **spec,
        }
        body = {"spec": wanted, "status": status or {"phase": "Pending"}}
        self._add("PersistentVolumeClaim", name, "default", body, uid=f"uid-{name}", **meta)

    def bound(self, name: str, volume: str, **spec: Any) -> None:
        self.claim(name, volumeName=volume, annotations={COMPLETED: "yes"}, status={"phase": "Bound"}, **spec)

    def volume(self, name: str, size: int = 1, *, terms: list[Obj] | None = None, **spec: Any) -> None:
        meta = {k: spec.pop(k) for k in ("labels", "deletionTimestamp") if k in spec}
        body = {"capacity": {"storage": f"{size}Gi"}, "accessModes": ["ReadWriteOnce"], **spec}
        if terms is not None:
            body["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        self._add("PersistentVolume", name, "", {"spec": body}, **meta)

    def storage_class(
        self, name: str, provisioner: str = "p.example.com", *, waits: bool = True, **more: Any
    ) -> None:
        mode = "WaitForFirstConsumer" if waits else "Immediate"
        self._add(
            "StorageClass",
            name,
            "",
            {"provisioner": provisioner, "volumeBindingMode": mode, **more},
            group="storage.k8s.io/v1",
        )

    def limits(self, node: str, **most: int | None) -> None:
        drivers = [
            {"name": d, "nodeID": node, **({} if n is None else {"allocatable": {"count": n}})}
            for d, n in most.items()
        ]
        self._add("CSINode", node, "", {"spec": {"drivers": drivers}}, group="storage.k8s.io/v1")

    def pod(self, name: str, *claims: str, own: tuple[str, ...] = (), on: str = "") -> PodRecord:
        volumes: list[Obj] = [{"name": f"v-{c}", "persistentVolumeClaim": {"claimName": c}} for c in claims]
        volumes += [{"name": c, "ephemeral": {"volumeClaimTemplate": {}}} for c in own]
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        self._add("Pod", name, "default", {"spec": spec, "status": {"phase": "Pending"}}, uid=f"uid-{name}")
        key = Key("Pod", "default", name)
        if on:
            self.store.bind(key, on, {"phase": "Running"})
            return self.store.accounts.records[key]
        return self.store.accounts.record(self.store.require(key), key)

    def _add(
        self, kind: str, name: str, namespace: str, body: Obj, *, group: str = "v1", **meta: Any
    ) -> None:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **meta}
        self.store.load({"apiVersion": group, "kind": kind, "metadata": metadata, **body})

    def look(self, pod: PodRecord) -> VolumeLook:
        return look(self.store, self.store.accounts, pod, self.profile)

    def filter(self, pod: PodRecord) -> VolumeFilter:
        local = self.scheduler.local(pod)
        return VolumeFilter(self.store, self.store.accounts, pod, local, self.profile, self.look(pod))

    def codes(self, pod: PodRecord) -> dict[str, int]:
        codes = self.filter(pod).codes
        return {name: int(codes[row]) for name, row in self.store.accounts.row_of.items()}


# The oracle: one node at a time


def _labels(world: World, node: str) -> dict[str, str]:
    found: dict[str, str] = world.store.require(Key("Node", "", node))["metadata"].get("labels") or {}
    return found


def _reaches(world: World, volume: Obj, node: str) -> bool:
    affinity = volume["spec"].get("nodeAffinity")
    if affinity is None:
        return True
    labels = _labels(world, node)
    for term in affinity["required"]["nodeSelectorTerms"]:
        wanted = term.get("matchExpressions") or []
        if wanted and all(labels.get(e["key"]) in e["values"] for e in wanted):
            return True
    return False


def _would_do(volume: Obj, claim: Obj) -> bool:
    wanted, has = claim["spec"], volume["spec"]
    selector = (wanted.get("selector") or {}).get("matchLabels") or {}
    return (
        (wanted.get("storageClassName") or "") == (has.get("storageClassName") or "")
        and (wanted.get("volumeMode") or "Filesystem") == (has.get("volumeMode") or "Filesystem")
        and all(mode in has["accessModes"] for mode in wanted["accessModes"])
        and all(volume["metadata"].get("labels", {}).get(k) == v for k, v in selector.items())
        and _size(has["capacity"]) >= _size(wanted["resources"]["requests"])
    )


def _size(of: Obj) -> int:
    return int(of["storage"].removesuffix("Gi"))


def _is_kept_for(volume: Obj, claim: Obj) -> bool:
    kept = volume["spec"].get("claimRef")
    return (
        kept is not None
        and (kept["namespace"], kept["name"]) == ("default", claim["metadata"]["name"])
        and kept.get("uid", "") in ("", claim["metadata"]["uid"])
    )


def _in_order(world: World, claim: Obj) -> list[Obj]:
    """Volumes the claim might get: the one kept for it, else free ones, the smallest first."""
    there = [v for v in world.store.objects("PersistentVolume") if "deletionTimestamp" not in v["metadata"]]
    kept = [v for v in there if _is_kept_for(v, claim)]
    if kept:
        return kept[:1]
    free = [v for v in there if v["spec"].get("claimRef") is None and _would_do(v, claim)]
    return sorted(free, key=lambda v: (_size(v["spec"]["capacity"]), v["metadata"]["name"]))


def _class_of(world: World, claim: Obj) -> Obj | None:
    name = claim["spec"].get("storageClassName")
    return world.store.get(Key("StorageClass.storage.k8s.io", "", name)) if name else None


def _is_made_for(world: World, claim: Obj, node: str) -> bool:
    of_class = _class_of(world, claim)
    if of_class is None or of_class.get("provisioner") in (None, "", "kubernetes.io/no-provisioner"):
        return False
    topologies = of_class.get("allowedTopologies") or []
    if not topologies:
        return True
    labels = _labels(world, node)
    return any(
        all(labels.get(e["key"]) in e["values"] for e in t.get("matchLabelExpressions") or ())
        for t in topologies
    )


def _plan(world: World, claims: list[Obj], node: str) -> tuple[bool, VolumePlan]:
    bindings: list[tuple[Key, str]] = []
    provisions: list[Key] = []
    everything = True
    ordered = sorted(claims, key=lambda c: (_size(c["spec"]["resources"]["requests"]), c["metadata"]["name"]))
    for claim in ordered:
        selected = (claim["metadata"].get("annotations") or {}).get(SELECTED)
        gets = [
            v["metadata"]["name"]
            for v in (_in_order(world, claim) if selected is None else ())
            if _reaches(world, v, node) and v["metadata"]["name"] not in {name for _, name in bindings}
        ]
        if gets:
            bindings.append((key_of(claim), gets[0]))
        elif _is_made_for(world, claim, node) and selected in (None, node):
            provisions.append(key_of(claim))
        else:
            everything = False
    return everything, VolumePlan(tuple(bindings), tuple(provisions))


def _draw_world(draw: Random) -> tuple[World, PodRecord]:
    world = World()
    zones = ["z1", "z2", "z3"]
    for i in range(3):
        world.node(f"n{i}", **({} if draw.random() < 0.2 else {ZONE: draw.choice(zones[:2])}))
    world.storage_class(LOCAL, "kubernetes.io/no-provisioner")
    topologies: list[Obj] = [
        {"matchLabelExpressions": [{"key": ZONE, "values": draw.sample(zones, draw.randint(1, 2))}]}
    ]
    if draw.random() < 0.2:
        topologies.append({})
    world.storage_class(NET, **({"allowedTopologies": topologies} if draw.random() < 0.7 else {}))
    names = [f"c{i}" for i in range(draw.randint(1, 3))]
    classes = (LOCAL, NET)
    for i in range(draw.randint(0, 5)):
        spec: Obj = {"storageClassName": draw.choice(classes), "labels": {"disk": draw.choice("ab")}}
        if draw.random() < 0.6:
            inside = draw.sample(zones, draw.randint(1, 2))
            spec["terms"] = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": inside}]}]
            if draw.random() < 0.1:
                spec["terms"] = [{}]
        if draw.random() < 0.3:
            kept = draw.choice(names)
            spec["claimRef"] = {"namespace": draw.choice(("default", "default", "other")), "name": kept}
            if draw.random() < 0.5:
                spec["claimRef"]["uid"] = draw.choice((f"uid-{kept}", "gone"))
        if draw.random() < 0.2:
            spec["accessModes"] = ["ReadWriteOnce", "ReadOnlyMany"]
        if draw.random() < 0.15:
            spec["volumeMode"] = draw.choice(("Block", "Filesystem"))
        if draw.random() < 0.1:
            spec["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        world.volume(f"v{i}", draw.randint(1, 3), **spec)
    for name in names:
        spec = {"storageClassName": draw.choice(classes)}
        if draw.random() < 0.3:
            spec["selector"] = {"matchLabels": {"disk": draw.choice("ab")}}
        if draw.random() < 0.2:
            spec["accessModes"] = ["ReadWriteOnce", "ReadOnlyMany"]
        if draw.random() < 0.1:
            spec["volumeMode"] = "Block"
        if draw.random() < 0.4:
            spec["annotations"] = {SELECTED: draw.choice(("n0", "n1", "nowhere"))}
        world.claim(name, draw.randint(1, 3), **spec)
    return world, world.pod("p", *names)


@pytest.mark.parametrize("seed", range(80))
def test_claims_find_volumes_or_are_made_for_the_node_as_one_by_one(seed: int) -> None:
    world, pod = _draw_world(Random(seed))
    claims = [world.store.require(Key("PersistentVolumeClaim", "default", n)) for n, _ in pod.shape.claims]
    codes = world.codes(pod)
    for node in ("n0", "n1", "n2"):
        everything, plan = _plan(world, claims, node)
        assert codes[node] == (0 if everything else Refusal.VOLUME_BIND), node
        if everything:
            assert world.scheduler.volume_plan(pod, node) == plan, node


def _zone_codes(world: World, *volumes: str) -> dict[str, int]:
    for volume in volumes:
        world.bound(f"c-{volume}", volume)
    return world.codes(world.pod("p", *(f"c-{v}" for v in volumes)))


@pytest.mark.parametrize("seed", range(40))
def test_a_volume_is_in_the_zones_its_labels_say(seed: int) -> None:
    draw, world = Random(seed), World()
    keys = (ZONE, BETA, REGION, BETA_REGION)
    for i in range(6):
        world.node(f"n{i}", **{k: draw.choice("abc") for k in draw.sample(keys, draw.randint(0, 2))})
    labels = [
        {k: "__".join(draw.sample("abc", draw.randint(1, 2))) for k in draw.sample(keys, draw.randint(0, 2))}
        for _ in range(2)
    ]
    for i, of_volume in enumerate(labels):
        world.volume(f"v{i}", labels={**of_volume, "other": "x"})
    codes = _zone_codes(world, "v0", "v1")
    for node, code in codes.items():
        has = _labels(world, node)
        fits = True
        for key, said in ((k, v) for of_volume in labels for k, v in of_volume.items()):
            is_there = has.get(key, has.get(_OTHER_NAME.get(key, key))) in said.split("__")
            fits = fits and is_there
        fits = fits or not any(k in has for k in keys)
        assert code == (0 if fits else Refusal.VOLUME_ZONE), (node, has, labels)


@pytest.mark.parametrize("seed", range(40))
def test_a_node_takes_as_many_volumes_of_a_driver_as_it_says(seed: int) -> None:
    draw, world = Random(seed), World()
    world.storage_class("a", "a")
    world.storage_class("b", "b", waits=False)
    for i in range(5):
        driver = draw.choice(("a", "b", ""))
        csi = {"csi": {"driver": driver, "volumeHandle": f"h{i}"}} if driver else {}
        world.volume(f"v{i}", **csi)
        world.bound(f"c{i}", f"v{i}")
    world.claim("new-a", storageClassName="a")
    world.claim("new-b", storageClassName="b")
    world.claim("plain")
    names = [*(f"c{i}" for i in range(5)), "new-a", "new-b", "plain", "missing"]
    most: dict[str, dict[str, int | None]] = {}
    there: dict[str, list[str]] = {}
    for n in ("n0", "n1", "n2"):
        world.node(n)
        most[n] = {d: draw.choice((0, 1, 2, None)) for d in draw.sample("ab", draw.randint(0, 2))}
        if draw.random() < 0.8:
            world.limits(n, **most[n])
        else:
            most[n] = {}
        there[n] = []
        for j in range(draw.randint(0, 2)):
            held = draw.sample(names, draw.randint(0, 4))
            world.pod(f"{n}-{j}", *held, on=n)
            there[n] += held
    world.limits("no-node", a=0, b=0)
    wanted = draw.sample(names[:6], draw.randint(1, 3))

    def handles(claims: list[str]) -> set[tuple[str, str]]:
        found = set()
        for c in claims:
            if c.startswith("new"):
                found.add((c[-1], c))
            elif c.startswith("c"):
                csi = world.store.require(Key("PersistentVolume", "", f"v{c[1:]}"))["spec"].get("csi")
                found |= {(csi["driver"], csi["volumeHandle"])} if csi else set()
        return found

    pod = world.pod("p", *wanted)
    codes = world.codes(pod)
    for n in ("n0", "n1", "n2"):
        asked, held = handles(wanted), handles(there[n])
        full = any(
            count is not None
            and any(d == driver for d, _ in asked - held)
            and sum(d == driver for d, _ in asked | held) > count
            for driver, count in most[n].items()
        )
        assert codes[n] == (Refusal.VOLUME_LIMIT if full else 0), (n, wanted, there[n], most[n])
        assert world.filter(pod).at(world.store.accounts.row_of[n], ()) == codes[n]


def _problem_world(name: str) -> tuple[World, PodRecord]:
    world = World()
    world.node("n")
    world.storage_class("waits")
    world.storage_class("now", waits=False)
    own = {"uid": "uid-p", "controller": True}
    if name == "lost":
        world.claim("c", volumeName="gone", status={"phase": "Lost"})
    elif name == "lost without a name":
        world.claim("c", status={"phase": "Lost"})
    elif name == "going":
        world.claim("c", deletionTimestamp="2026-01-01T00:00:00Z")
    elif name == "without a class":
        world.claim("c")
    elif name == "at once":
        world.claim("c", storageClassName="now")
    elif name == "half bound":
        world.claim("c", storageClassName="waits", volumeName="v")
    elif name == "one of two":
        world.claim("b", storageClassName="waits")
        world.claim("c", storageClassName="now")
        return world, world.pod("p", "b", "c")
    elif name == "another's":
        world.claim("p-own", storageClassName="waits", ownerReferences=[{**own, "uid": "other"}])
        return world, world.pod("p", own=("own",))
    elif name == "not made yet":
        return world, world.pod("p", own=("own",))
    elif name == "its own":
        world.claim("p-own", storageClassName="waits", ownerReferences=[{"uid": "x"}, own])
        return world, world.pod("p", own=("own",))
    return world, world.pod("p", "c")


_UNBOUND = ("pod has unbound immediate PersistentVolumeClaims", "VolumeBinding")
_PROBLEMS = {
    "missing": ('persistentvolumeclaim "c" not found', "VolumeRestrictions"),
    "lost": ('persistentvolumeclaim "c" bound to non-existent persistentvolume "gone"', "VolumeBinding"),
    "lost without a name": (
        'persistentvolumeclaim "c" bound to non-existent persistentvolume ""',
        "VolumeBinding",
    ),
    "going": ('persistentvolumeclaim "c" is being deleted', "VolumeBinding"),
    "without a class": _UNBOUND,
    "at once": _UNBOUND,
    "half bound": _UNBOUND,
    "one of two": _UNBOUND,
    "another's": (
        "PVC default/p-own was not created for pod default/p (pod is not owner)",
        "VolumeBinding",
    ),
    "not made yet": (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-own"',
        "VolumeBinding",
    ),
    "its own": ("", ""),
}


@pytest.mark.parametrize("name", _PROBLEMS)
def test_what_is_wrong_with_a_claim_is_told_before_any_node(name: str) -> None:
    world, pod = _problem_world(name)
    found = world.look(pod)
    assert (found.why, found.plugin) == _PROBLEMS[name]
    verdict = world.scheduler.place(pod)
    if not found.why:
        assert isinstance(verdict, Scheduled)
        return
    assert not isinstance(verdict, Scheduled)
    assert (verdict.prefilter, verdict.prefilter_plugin) == _PROBLEMS[name]
    assert verdict.is_hopeless.all()
    assert not verdict.refusal.any()
    said = explain(world.scheduler, pod, verdict)
    assert said.message == f"0/1 nodes are available: {found.why}. not found"
    assert said.plugins == (found.plugin,)


def _without(*plugins: str) -> Profile:
    return replace(DEFAULT_PROFILE, filters=DEFAULT_PROFILE.filters.difference(plugins))


def test_a_profile_without_a_plugin_does_not_ask_it() -> None:
    """Each of the four refuses a node of its own, and no other plugin says it in its stead."""
    for plugin, codes in {
        "": {
            "free": 0,
            "zone": Refusal.VOLUME_ZONE,
            "full": Refusal.VOLUME_LIMIT,
            "far": Refusal.VOLUME_AFFINITY,
        },
        "VolumeZone": {"free": 0, "zone": 0, "full": Refusal.VOLUME_LIMIT, "far": Refusal.VOLUME_AFFINITY},
        "NodeVolumeLimits": {
            "free": 0,
            "zone": Refusal.VOLUME_ZONE,
            "full": 0,
            "far": Refusal.VOLUME_AFFINITY,
        },
        "VolumeBinding": {"free": 0, "zone": Refusal.VOLUME_ZONE, "full": Refusal.VOLUME_LIMIT, "far": 0},
    }.items():
        world = World(_without(plugin))
        world.node("free", place="here", **{ZONE: "z"})
        world.node("zone", place="here", **{ZONE: "other"})
        world.node("full", place="here", **{ZONE: "z"})
        world.node("far", place="there", **{ZONE: "z"})
        world.limits("full", d=0)
        terms = [{"matchExpressions": [{"key": "place", "operator": "In", "values": ["here"]}]}]
        world.volume("v", terms=terms, labels={ZONE: "z"}, csi={"driver": "d", "volumeHandle": "h"})
        world.bound("c", "v")
        assert world.codes(world.pod("p", "c")) == codes, plugin
    world, pod = _problem_world("missing")
    for out, told in (((), PLUGINS[0]), (PLUGINS[:1], PLUGINS[1]), (PLUGINS[:3], PLUGINS[3]), (PLUGINS, "")):
        world.profile = _without(*out)
        assert world.look(pod).plugin == told
        assert bool(world.look(pod).why) == bool(told)
    world, pod = _problem_world("lost without a name")
    for out, told in (((), "VolumeBinding"), (PLUGINS[:3], "VolumeBinding"), (PLUGINS, "")):
        world.profile = _without(*out)
        assert world.look(pod).plugin == told
        assert (world.look(pod) == VolumeLook()) == (not told), "of no account where nobody asks"
    world, pod = _problem_world("at once")
    world.profile = _without("VolumeBinding")
    assert world.look(pod) == VolumeLook()
    assert (
        Scheduler(world.store.accounts, world.profile, view=world.store).volume_plan(pod, "n") == VolumePlan()
    )


def test_the_first_of_several_reasons_is_told() -> None:
    world = World()
    world.node("n", **{ZONE: "z"})
    world.volume("far", terms=[{}], labels={ZONE: "other"})
    world.bound("c-far", "far")
    world.bound("c-gone", "gone")
    world.bound("c-alone", "far", accessModes=["ReadWriteOncePod"])
    world.storage_class(LOCAL, "kubernetes.io/no-provisioner")
    world.claim("c-none", storageClassName=LOCAL)
    # Which claims a pod has, and what refuses it.
    for number, (claims, code) in enumerate(
        [
            (("c-far",), Refusal.VOLUME_AFFINITY),
            (("c-none",), Refusal.VOLUME_BIND),
            (("c-none", "c-far"), Refusal.VOLUME_AFFINITY),
            (("c-gone", "c-far"), Refusal.VOLUME_GONE),
        ]
    ):
        pod = world.pod(f"p{number}", *claims)
        assert world.codes(pod) == {"n": code}
        verdict = world.scheduler.place(pod)
        assert not isinstance(verdict, Scheduled)
        assert verdict.is_hopeless[0]


def test_a_claim_for_one_pod_is_held_until_that_pod_goes() -> None:
    world = World()
    world.node("n")
    world.node("other")
    world.volume("v")
    world.bound("c", "v", accessModes=["ReadWriteOncePod"])
    world.bound("shared", "v")
    holder = world.pod("holder", "c", on="n")
    world.pod("bystander", "shared", on="n")
    world.pod("unbound", "c")
    pod = world.pod("p", "c", "shared")
    assert world.look(pod).holders == (holder,)
    assert world.codes(pod) == {"n": Refusal.VOLUME_HELD, "other": Refusal.VOLUME_HELD}
    row, filtered = world.store.accounts.row_of["other"], world.filter(pod)
    assert filtered.at(row, ()) == Refusal.VOLUME_HELD
    assert filtered.at(row, [Move(holder, 0, 1)]) == Refusal.VOLUME_HELD
    assert filtered.at(row, [Move(holder, 0, -1)]) == 0
    # A pod does not hold a claim against itself, nor one of another namespace, nor an ephemeral volume of that name.
    assert world.look(holder).holders == ()
    assert world.look(world.pod("q", "shared")).holders == ()
    world.profile = _without("VolumeRestrictions")
    assert world.look(pod).holders == ()


def test_what_is_to_be_done_depends_on_node_and_claims() -> None:
    world = World()
    world.node("n")
    world.storage_class("waits")
    world.claim("c", storageClassName="waits")
    pod = world.pod("p", "c")
    made = VolumePlan((), (Key("PersistentVolumeClaim", "default", "c"),))
    assert world.scheduler.volume_plan(pod, "n") == made
    assert world.scheduler.volume_plan(pod, "nowhere") == VolumePlan()
    assert world.scheduler.volume_plan(world.pod("q"), "n") == VolumePlan()
    assert Scheduler(world.store.accounts).volume_plan(pod, "n") == VolumePlan()


def test_without_a_view_claims_are_of_no_account() -> None:
    world = World()
    world.node("n")
    pod = world.pod("p", "nobody's")
    assert isinstance(Scheduler(world.store.accounts).place(pod), Scheduled)
    assert not isinstance(world.scheduler.place(pod), Scheduled)
    assert Scheduler(world.store.accounts).score_sheet(pod).nodes == ("n",)


def _choices(world: World, pod: PodRecord, *nodes: str) -> list[dict[str, str]]:
    """By node: which volume each claim gets."""
    return [
        {key.name: volume for key, volume in world.scheduler.volume_plan(pod, node).bindings}
        for node in nodes
    ]


def test_the_smallest_volume_that_is_large_enough_is_taken_and_of_equals_the_first_by_name() -> None:
    world = World()
    world.node("n")
    world.storage_class(LOCAL, "kubernetes.io/no-provisioner")
    for name, size in (("a", 4), ("d", 2), ("c", 2), ("b", 3), ("e", 1)):
        world.volume(name, size, storageClassName=LOCAL)
    for name, size in (("two", 2), ("three", 3), ("also", 2)):
        world.claim(name, size, storageClassName=LOCAL)
    assert _choices(world, world.pod("p", "two"), "n") == [{"two": "c"}]
    assert _choices(world, world.pod("q", "three"), "n") == [{"three": "b"}]
    # The smallest claim chooses first, of equals the first by name, however the pod lists them.
    assert _choices(world, world.pod("r", "three", "two", "also"), "n") == [
        {"also": "c", "two": "d", "three": "b"}
    ]


def test_a_volume_is_taken_on_every_node_where_somebody_chose_it() -> None:
    """The first claim has a volume of its own on one node; on the other it takes what the second has on the first."""
    world = World()
    world.node("here", place="here")
    world.node("there", place="there")
    world.storage_class(LOCAL, "kubernetes.io/no-provisioner")
    only = [{"matchExpressions": [{"key": "place", "operator": "In", "values": ["here"]}]}]
    world.volume("a", 1, storageClassName=LOCAL, terms=only)
    world.volume("b", 2, storageClassName=LOCAL)
    for name in ("first", "second", "third"):
        world.claim(name, storageClassName=LOCAL)
    assert _choices(world, world.pod("p", "first", "second"), "here", "there") == [
        {"first": "a", "second": "b"},
        {"first": "b"},
    ]
    pod = world.pod("q", "first", "second", "third")
    assert _choices(world, pod, "here", "there") == [{"first": "a", "second": "b"}, {"first": "b"}]
    assert world.codes(pod) == {"here": Refusal.VOLUME_BIND, "there": Refusal.VOLUME_BIND}


@pytest.mark.parametrize(
    ("provisioner", "makes"),
    [("p.example.com", True), ("kubernetes.io/no-provisioner", False), ("", False), (None, False)],
)
def test_who_makes_volumes(provisioner: Any, makes: bool) -> None:
    world = World()
    world.node("n")
    world.storage_class("waits", provisioner)
    world.claim("c", storageClassName="waits")
    pod = world.pod("p", "c")
    assert world.codes(pod) == {"n": 0 if makes else Refusal.VOLUME_BIND}
    assert bool(world.scheduler.volume_plan(pod, "n").provisions) is makes
