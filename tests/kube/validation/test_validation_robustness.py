"""Whatever stands in a manifest, the answer is a list of problems, never a traceback."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from validationworld import asking, container, controller, cron_job, job, node, of_kind, pod, template

from fairway.kube.defaults import apply_defaults
from fairway.kube.validation.validating import validate

RICH = pod(
    container(
        resources={"requests": {"cpu": "1", "nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 1}},
        ports=[{"containerPort": 80, "name": "a", "hostPort": 80}],
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        volumeMounts=[{"name": "d", "mountPath": "/d"}],
        livenessProbe={"httpGet": {"port": 80}},
        lifecycle={"preStop": {"sleep": {"seconds": 1}}},
        securityContext={"runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}},
    ),
    initContainers=[container(name="i", restartPolicy="Always")],
    tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 3, "effect": "NoExecute"}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {"topologyKey": "z", "labelSelector": {"matchLabels": {"a": "b"}}},
                }
            ]
        },
    },
    topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
    volumes=[{"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
    resources={"limits": {"cpu": "4"}},
    overhead={"cpu": "1"},
    schedulingGates=[{"name": "g"}],
)
SEEDS = [
    RICH,
    controller("Deployment", strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}),
    controller("StatefulSet", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
    controller("DaemonSet", updateStrategy={"rollingUpdate": {"maxUnavailable": 1}}),
    job(
        completionMode="Indexed",
        completions=3,
        podFailurePolicy={"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]},
        successPolicy={"rules": [{"succeededCount": 1}]},
        selector={"matchLabels": {"a": "b"}},
        managedBy="a.io/b",
    ),
    cron_job(),
    node([{"key": "a", "effect": "NoSchedule"}], capacity={"cpu": "1", "nvidia.com/gpu": 8}),
    of_kind("ResourceQuota", spec={"hard": {"cpu": 1}, "scopes": ["NotBestEffort"]}),
    of_kind("LimitRange", spec={"limits": [{"type": "Container", "max": {"cpu": 2}, "min": {"cpu": 1}}]}),
    of_kind("Service", spec={"ports": [{"port": 80, "name": "a"}], "selector": {"a": "b"}}),
    of_kind("PodDisruptionBudget", "policy/v1", spec={"minAvailable": "50%", "selector": {}}),
    of_kind("PriorityClass", "scheduling.k8s.io/v1", value=3),
    of_kind("ConfigMap", data={"a": "b"}),
    of_kind("HorizontalPodAutoscaler", "autoscaling/v2", spec={"maxReplicas": 3}),
    of_kind("PodTemplate", template=template(asking(limits={"cpu": 1}))),
    of_kind("PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"]}),
    of_kind("Widget", "a.io/v1", spec={"a": [1]}),
]

JUNK = st.sampled_from(
    [
        None, True, False, 0, -1, 1.5, 2**40, 2**80, "", " ", "x", "-1", "a/b/c", "é", "1e99", "500m", "1\n", "..",
        "x" * 300, [], {}, [None], [{}], {"": None}, {"a": 1}, [[1]], {"name": None}, "nan",
    ]
)  # fmt: skip


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, member in value.items():
            found += _paths(member, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _paths(item, (*path, index))
    return found


def _set(obj: Any, path: tuple[Any, ...], value: Any) -> None:
    try:
        for step in path[:-1]:
            obj = obj[step]
        if isinstance(obj, list) or isinstance(path[-1], str):  # readers make text of every key
            obj[path[-1]] = value
    except (KeyError, IndexError, TypeError):
        pass  # an earlier change removed the way there


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_spoiled_objects_are_answered(data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS))
    obj = copy.deepcopy(seed)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(_paths(seed)))
        if data.draw(st.booleans()):
            path = (*path[:-1], data.draw(st.sampled_from(["extra", "name", 0])))
        _set(obj, path, copy.deepcopy(data.draw(JUNK)))
    before = copy.deepcopy(obj)
    for problem in validate(obj):
        assert str(problem)
        assert problem.expected or problem.reason
    assert obj == before, "validation changed the object"


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(SEEDS))
def test_defaulting_is_idempotent_and_leaves_its_input_alone(seed: dict[str, Any]) -> None:
    before = copy.deepcopy(seed)
    once = apply_defaults(seed)
    assert seed == before
    assert apply_defaults(once) == once
