"""Dumps whose objects are not of their kinds' shapes: they are explained, left out or refused, and never raise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from answerworlds import namespace, node

from fairway.answers.changes import with_changes
from fairway.answers.explain import explain
from fairway.errors import FairwayError
from fairway.ground import open_ground
from fairway.kube.objects import Obj, key_of

TEMPLATE: Obj = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
ODD: list[Any] = [7, "x", [1], {"a": 1}, None, -5, 10**30, [[]], {"Worker": 3}]


def specs(odd: Any) -> list[tuple[str, str, Obj]]:
    ray, kubeflow = "ray.io/v1", "kubeflow.org/v1"
    group = {"replicas": odd, "numOfHosts": odd, "template": TEMPLATE}
    replicated = {"name": "w", "replicas": odd, "template": {"spec": {"template": TEMPLATE}}}
    return [
        (ray, "RayJob", {"rayClusterSpec": odd, "suspend": True}),
        (ray, "RayJob", {"rayClusterSpec": {"workerGroupSpecs": odd, "headGroupSpec": odd}}),
        (ray, "RayCluster", {"workerGroupSpecs": [group]}),
        (kubeflow, "PyTorchJob", {"runPolicy": odd, "pytorchReplicaSpecs": odd}),
        (kubeflow, "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": odd}}),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {"suspend": odd, "replicatedJobs": odd}),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [replicated]}),
        ("batch/v1", "Job", {"suspend": odd, "parallelism": odd, "template": TEMPLATE}),
    ]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_objects_are_explained_or_left_out(odd: Any, tmp_path: Path) -> None:
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    for number, (api, kind, spec) in enumerate(specs(odd)):
        meta = {"name": "o", "namespace": "d", "uid": "u", "labels": labels}
        made = {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}
        path = tmp_path / f"{number}.json"
        items = [namespace("d"), node("n", 2), made]
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
        try:
            moment = open_ground(path).at()
            if moment.store.get(key_of(made)) is None:
                assert any("o" in note for note in moment.notes)
                continue
            assert with_changes(moment, explain(moment, key_of(made))).sentence
        except FairwayError as refused:
            assert str(refused)
