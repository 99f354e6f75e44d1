"""In random worlds the named blocker is the one: without it alone the object passes that layer. And every change that
is given, pasted as the command it is printed as, starts the object."""

from __future__ import annotations

import json
import shlex
from typing import Any

import answerworlds as worlds
import pytest

from fairway.answers.changes import with_changes
from fairway.answers.explain import explain
from fairway.answers.explanation import BLOCKED, LAYERS, NONE, Explanation
from fairway.answers.naming import find
from fairway.answers.trials import HORIZON_US, has_started
from fairway.catalog.catalog import load_catalog
from fairway.catalog.featurelabels import feature_labels
from fairway.cluster.jsonpatch import json_patch
from fairway.ground import Moment
from fairway.kube.objects import Key, Obj, key_of
from fairway.kube.resources import format_resources
from fairway.kube.timestamps import MINUTE_US
from fairway.provisioning.karpenter.instancetypes import types_of_catalog
from fairway.scenario.entering import create_or_replace
from fairway.scenario.objects import as_new
from fairway.twin.twin import Twin

_SEEDS = range(24)
_WITH_CHANGES = range(6)


def work(moment: Moment) -> list[Key]:
    free = [p for p in moment.store.objects("Pod") if not p["metadata"].get("ownerReferences")]
    return [key_of(o) for o in (*moment.store.objects("Job.batch"), *free)]


@pytest.mark.parametrize("seed", _SEEDS)
def test_the_blocker_is_true(seed: int) -> None:
    moment = worlds.random_moment(seed)
    was = moment.twin.digest()
    asked = 0
    for key in work(moment):
        found = explain(moment, key)
        started = has_started(moment.store, key)
        assert (found.blocker.layer == NONE) == (started or found.chain == ()), found.sentence
        if found.blocker.state != BLOCKED:
            continue
        asked += 1
        again = explain(without(moment, key, found), key)
        assert passes(again, found), f"{found.sentence}\n then: {again.sentence}"
    assert asked or not any(not has_started(moment.store, k) for k in work(moment))
    assert moment.twin.digest() == was, "asking changes nothing"


def passes(again: Explanation, before: Explanation) -> bool:
    """Whether it is past the layer that said no."""
    if again.blocker.layer == NONE or again.blocker.state != BLOCKED:
        return True
    return LAYERS.index(again.blocker.layer) > LAYERS.index(before.blocker.layer)


def without(moment: Moment, key: Key, found: Explanation) -> Moment:
    """The same cluster without the one thing that is said to be in the way."""
    twin = moment.fork()
    layer, numbers = found.blocker.layer, found.blocker.numbers
    if layer == "quota":
        # Nobody else may take what is added.
        for other in [key_of(j) for j in twin.store.objects("Job.batch") if j["spec"].get("suspend")]:
            if other != key:
                gone(twin, other)
        _heard(twin, 0)
        short = {f["flavor"]: f for f in numbers["flavors"] if f["short"]}
        queue = twin.store.require(Key("ClusterQueue.kueue.x-k8s.io", "", numbers["cluster_queue"]))
        flavors = queue["spec"]["resourceGroups"][0]["flavors"]
        patch = [
            {
                "op": "replace",
                "path": f"/spec/resourceGroups/0/flavors/{i}/resources/0/nominalQuota",
                "value": str(int(one["resources"][0]["nominalQuota"]) + short[one["name"]]["short"]),
            }
            for i, one in enumerate(flavors)
            if one["name"] in short
        ]
        create_or_replace(twin.host, json_patch(queue, patch))
    elif layer == "queue" and "behind" in numbers:
        # Whoever stands in front is taken out.
        while (now := explain(Moment(twin), key)).blocker.numbers.get("behind"):
            namespace, name = now.blocker.numbers["behind"].split("/")
            owner = twin.store.require(Key("Workload.kueue.x-k8s.io", namespace, name))["metadata"]
            twin.store.delete(Key("Job.batch", namespace, owner["ownerReferences"][0]["name"]), grace_s=0)
            twin.wake()
            twin.run_for(MINUTE_US)
    elif layer == "queue":
        create_or_replace(twin.host, worlds.local_queue(numbers["local_queue"].partition("/")[2], "b"))
        create_or_replace(twin.host, worlds.cluster_queue("b", {"gpus": 10_000}, "c"))
    elif layer == "scheduler":
        selector = _pod(twin, key)["spec"].get("nodeSelector") or {}
        create_or_replace(twin.host, worlds.node("large", 512, selector))
        return Moment(_heard(twin, 0))
    else:
        raise AssertionError(f"no {layer} was expected here: {found.sentence}")
    return Moment(_heard(twin, 10))


def _heard(twin: Twin, seconds: int) -> Twin:
    twin.wake()
    twin.run_for(seconds * 1_000_000)
    return twin


def _pod(twin: Twin, key: Key) -> Obj:
    if key.gk == "Pod":
        return twin.store.require(key)
    return dict(twin.store.require(key)["spec"]["template"])


@pytest.mark.parametrize("seed", _WITH_CHANGES)
def test_every_change_starts_it(seed: int) -> None:
    moment = worlds.random_moment(seed)
    for key in work(moment)[:6]:
        found = explain(moment, key)
        if found.blocker.layer == NONE:
            continue
        changed = with_changes(moment, found)
        assert changed.changes is not None
        for change in changed.changes:
            twin = moment.fork()
            for command in change.commands:
                paste(twin, command)
            twin.wake()
            twin.run(twin.now_us + HORIZON_US)
            assert has_started(twin.store, key), f"{found.sentence}\n{change.what}\n{change.commands}"


def paste(twin: Twin, command: str) -> None:
    """What the shell would do, of the commands there are."""
    if command.startswith("kubectl apply"):
        create_or_replace(twin.host, json.loads(command.splitlines()[1]))
        return
    if command.startswith("# open"):
        twin.store.create(opened(twin, command))
        return
    words = shlex.split(command)
    verb, name = words[1], words[2]
    home = words[words.index("-n") + 1] if "-n" in words else ""
    key = find(twin.store, name, home)
    if verb == "delete":
        gone(twin, key)
        return
    obj: Any = json_patch(twin.store.require(key), json.loads(words[words.index("-p") + 1]))
    if verb == "patch":
        create_or_replace(twin.host, obj)
        return
    assert verb == "get" and command.endswith("| kubectl replace --force -f -"), command
    gone(twin, key)
    create_or_replace(twin.host, as_new(obj))


def opened(twin: Twin, command: str) -> Obj:
    """The node of `# open …`: like one there is, or of a type of the catalog."""
    what, _, said = command.partition(", with labels ")
    labels = dict(pair.split("=") for pair in said.split(",") if "=" in pair)
    kind, _, like = what.removeprefix("# open ").partition(" like node ")
    name = f"more-{twin.store.count('Node')}"
    made: Obj = {"apiVersion": "v1", "kind": "Node", "spec": {}}
    if like:
        old = twin.store.require(Key("Node", "", like))
        made |= {"status": old["status"], "spec": {k: v for k, v in old["spec"].items() if k == "taints"}}
    else:
        (of_type,) = (t for t in types_of_catalog(load_catalog()) if t.name == kind)
        offers = format_resources(of_type.allocatable)
        own = {"kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": kind}
        labels = {**own, **feature_labels(kind), **labels}
        if "nvidia.com/mig.config" in labels:
            profile = labels["nvidia.com/mig.config"].removeprefix("all-")
            sold = load_catalog().instance_type(kind)
            model = None if sold is None else load_catalog().gpu(sold.gpu)
            parts = next(p.instances_most for p in model.mig if p.name == profile) if model else 0
            offers |= {
                "nvidia.com/gpu": "0",
                f"nvidia.com/mig-{profile}": str(parts * int(offers["nvidia.com/gpu"])),
            }
        made["status"] = {"allocatable": offers, "capacity": offers}
    return as_new({**made, "metadata": {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}}})


def gone(twin: Twin, key: Key) -> None:
    obj = twin.store.get(key)
    if obj is None:
        return
    below = twin.store.dependents(obj["metadata"]["uid"])
    twin.store.set_finalizers(key, [])
    if twin.store.get(key) is not None:
        twin.store.delete(key, grace_s=0)
    for dependent in below:
        gone(twin, dependent)
