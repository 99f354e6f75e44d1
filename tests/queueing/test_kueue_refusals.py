"""What Kueue's API refuses of its own kinds, word for word."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from queueworld import said

from fairway.queueing.webhooks.settings import Settings

Obj = dict[str, Any]
RECORDED = sorted((Path(__file__).parents[2] / "recordings").glob("kueue-*.jsonl.gz"))
SUBDOMAIN = r"'^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'"
KEY_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
BLOCKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
ONE = [{"name": "cpu", "nominalQuota": "5"}]


def made(kind: str, spec: Obj | None = None, *, version: str = "v1beta2", **more: Any) -> Obj:
    meta: Obj = {"name": "x"}
    if kind in ("LocalQueue", "Workload"):
        meta["namespace"] = "team"
    obj: Obj = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": meta, **more}
    return obj if spec is None else {**obj, "spec": spec}


def group(*flavors: tuple[str, list[Obj]], covered: tuple[str, ...] = ("cpu",)) -> list[Obj]:
    listed = [{"name": name, "resources": resources} for name, resources in flavors]
    return [{"coveredResources": list(covered), "flavors": listed}]


def refused(obj: Obj, old: Obj | None = None, **gates: bool) -> list[str]:
    return said(obj, old, Settings(gates=gates))


def queue(**spec: Any) -> Obj:
    return made("ClusterQueue", spec)


def denied(kind: str, text: str) -> str:
    return f'admission webhook "v{kind}.kb.io" denied the request: {text}'


def invalid(kind: str, text: str) -> str:
    return f'{kind}.kueue.x-k8s.io "x" is invalid: {text}'


def quota_of(**fields: Any) -> list[Obj]:
    return [{"name": "cpu", "nominalQuota": "5", **fields}]


QUEUE_SCHEMA: dict[str, tuple[Obj, str]] = {
    "a strategy nobody knows": (
        queue(queueingStrategy="Fifo"),
        '[spec.queueingStrategy: Unsupported value: "Fifo": supported values: "StrictFIFO", "BestEffortFIFO", '
        f"{BLOCKED}]",
    ),
    "a stop policy nobody knows": (
        queue(stopPolicy="Halt"),
        '[spec.stopPolicy: Unsupported value: "Halt": supported values: "None", "Hold", "HoldAndDrain", '
        f"{BLOCKED}]",
    ),
    "v1beta1's word for borrowing": (
        queue(flavorFungibility={"whenCanBorrow": "Borrow"}),
        '[spec.flavorFungibility.whenCanBorrow: Unsupported value: "Borrow": supported values: "MayStopSearch", '
        f'"TryNextFlavor", {BLOCKED}]',
    ),
    "a cohort in capitals": (
        queue(cohortName="Team_A"),
        f'spec.cohortName: Invalid value: "Team_A": spec.cohortName in body should match {SUBDOMAIN}',
    ),
    "a cohort with a very long name": (
        queue(cohortName="a" * 254),
        f"[spec.cohortName: Too long: may not be more than 253 bytes, {BLOCKED}]",
    ),
    "a group without flavors": (
        queue(resourceGroups=[{"coveredResources": ["cpu"], "flavors": []}]),
        "spec.resourceGroups[0].flavors: Invalid value: 0: spec.resourceGroups[0].flavors in body should have "
        "at least 1 items",
    ),
    "a group that covers nothing": (
        queue(resourceGroups=[{"flavors": [{"name": "a", "resources": ONE}]}]),
        f"[spec.resourceGroups[0].coveredResources: Required value, {BLOCKED}]",
    ),
    "seventeen groups": (
        queue(resourceGroups=group(("a", ONE)) * 17),
        f"[spec.resourceGroups: Too many: 17: must have at most 16 items, {BLOCKED}]",
    ),
    "a flavor twice in one group": (
        queue(resourceGroups=group(("a", ONE), ("a", ONE))),
        'spec.resourceGroups[0].flavors[1]: Duplicate value: {"name":"a"}',
    ),
    "a quota without a nominal quota": (
        queue(resourceGroups=group(("a", [{"name": "cpu"}]))),
        f"[spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Required value, {BLOCKED}]",
    ),
    "a flavor that lacks a covered resource": (
        queue(resourceGroups=group(("a", ONE), covered=("cpu", "memory"))),
        "spec.resourceGroups[0]: Invalid value: flavors must have the same number of resources as the "
        "coveredResources",
    ),
    "a borrowing limit without a cohort": (
        queue(resourceGroups=group(("a", quota_of(borrowingLimit="1")))),
        "spec: Invalid value: borrowingLimit must be nil when cohort is empty",
    ),
    "borrowing while never reclaiming": (
        queue(preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}),
        "spec.preemption: Invalid value: reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
    ),
    "a preference that finds no next flavor": (
        queue(flavorFungibility={"preference": "PreemptionOverBorrowing"}),
        "spec.flavorFungibility: Invalid value: preference can only be set when both whenCanBorrow and "
        "whenCanPreempt are TryNextFlavor",
    ),
    "a number where a word belongs": (
        queue(preemption={"reclaimWithinCohort": 3}),
        '[spec.preemption.reclaimWithinCohort: Invalid value: "integer": spec.preemption.reclaimWithinCohort in '
        'body must be of type string: "integer", spec.preemption.reclaimWithinCohort: Unsupported value: 3: supported '
        f'values: "Never", "LowerPriority", "Any", {BLOCKED}]',
    ),
    "a word where a list belongs": (
        queue(resourceGroups="all"),
        '[spec.resourceGroups: Invalid value: "string": spec.resourceGroups in body must be of type array: '
        f'"string", {BLOCKED}]',
    ),
    "admission checks that are none": (
        queue(admissionChecksStrategy={"admissionChecks": []}),
        "spec.admissionChecksStrategy.admissionChecks: Invalid value: 0: "
        "spec.admissionChecksStrategy.admissionChecks in body should have at least 1 items",
    ),
    "an admission check twice": (
        queue(admissionChecksStrategy={"admissionChecks": [{"name": "a"}, {"name": "a"}]}),
        'spec.admissionChecksStrategy.admissionChecks[1]: Duplicate value: {"name":"a"}',
    ),
    "an admission mode nobody knows": (
        queue(admissionScope={"admissionMode": "Fair"}),
        '[spec.admissionScope.admissionMode: Unsupported value: "Fair": supported values: '
        f'"UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing", {BLOCKED}]',
    ),
}

QUEUE_WEBHOOK: dict[str, tuple[Obj, str]] = {
    "resources in another order than covered": (
        queue(
            resourceGroups=group(
                ("a", [{"name": "memory", "nominalQuota": 1}, {"name": "cpu", "nominalQuota": 1}]),
                covered=("cpu", "memory"),
            )
        ),
        '[spec.resourceGroups[0].flavors[0].resources[0].name: Invalid value: "memory": must match the name in '
        'coveredResources, spec.resourceGroups[0].flavors[0].resources[1].name: Invalid value: "cpu": must '
        "match the name in coveredResources]",
    ),
    "a resource with a space": (
        queue(resourceGroups=group(("a", [{"name": "a b", "nominalQuota": 1}]), covered=("a b",))),
        f'spec.resourceGroups[0].coveredResources[0]: Invalid value: "a b": name part {KEY_TEXT}',
    ),
    "a negative quota": (
        queue(resourceGroups=group(("a", quota_of(nominalQuota="-1")))),
        'spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "-1": must be greater than '
        "or equal to 0",
    ),
    "a negative borrowing limit": (
        queue(cohortName="c", resourceGroups=group(("a", quota_of(borrowingLimit="-1500m")))),
        'spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "-1500m": must be greater '
        "than or equal to 0",
    ),
    "a lending limit without a cohort": (
        queue(resourceGroups=group(("a", quota_of(lendingLimit="1")))),
        'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "1": must be nil when cohort '
        "is empty",
    ),
    "lending more than there is": (
        queue(
            cohortName="c", resourceGroups=group(("a", quota_of(lendingLimit="2000Mi", nominalQuota="1Gi")))
        ),
        'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "2000Mi": must be less than '
        "or equal to the nominalQuota",
    ),
    "a resource in two groups": (
        queue(resourceGroups=[*group(("a", ONE)), *group(("b", ONE))]),
        'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
    ),
    "a flavor in two groups": (
        queue(
            resourceGroups=[
                *group(("a", ONE)),
                *group(("a", [{"name": "gpu", "nominalQuota": 1}]), covered=("gpu",)),
            ]
        ),
        'spec.resourceGroups[1].flavors[0].name: Duplicate value: "a"',
    ),
    "a selector without an operator": (
        queue(namespaceSelector={"matchExpressions": [{"key": "team", "operator": "Is", "values": ["a"]}]}),
        'spec.namespaceSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator',
    ),
    "In without values": (
        queue(namespaceSelector={"matchExpressions": [{"key": "team", "operator": "In"}]}),
        "spec.namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is "
        "'In' or 'NotIn'",
    ),
    "Exists with values": (
        queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
        "spec.namespaceSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is "
        "'Exists' or 'DoesNotExist'",
    ),
    "a negative weight": (
        queue(fairSharing={"weight": "-1"}),
        'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "a weight that vanishes": (
        queue(fairSharing={"weight": "1n"}),
        'spec.fairSharing: Invalid value: "1n": When not 0, weight must be > 10e-9',
    ),
    "a check on a flavor the queue lacks": (
        queue(
            resourceGroups=group(("a", ONE), ("b", ONE)),
            admissionChecksStrategy={"admissionChecks": [{"name": "check", "onFlavors": ["c"]}]},
        ),
        'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value: "c": supported values: '
        '"a", "b"',
    ),
    "more flavors than Kueue takes": (
        queue(
            resourceGroups=[
                {
                    "coveredResources": [f"r{g}"],
                    "flavors": [
                        {"name": f"f{g}-{i}", "resources": [{"name": f"r{g}", "nominalQuota": 1}]}
                        for i in range(64)
                    ],
                }
                for g in range(5)
            ]
        ),
        "spec.resourceGroups: Invalid value: 320: total number of flavors across all resourceGroups must be "
        "≤ 256, got 320",
    ),
}

POD_SET = {"name": "main", "count": 3, "template": {"spec": {"containers": [{"name": "c"}]}}}


def workload(*pod_sets: Obj, status: Obj | None = None, **spec: Any) -> Obj:
    obj = made("Workload", {"podSets": list(pod_sets or (POD_SET,)), **spec})
    return obj if status is None else {**obj, "status": status}


def condition(kind: str) -> Obj:
    return {
        "type": kind,
        "status": "True",
        "reason": kind,
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


ASSIGNED = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 3}]}
RESERVED = {"conditions": [condition("QuotaReserved")], "admission": ASSIGNED}
ADMITTED = {"conditions": [condition("QuotaReserved"), condition("Admitted")], "admission": ASSIGNED}
POD_RESOURCES = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"pods": "1"}}}]}}
NEGATIVE = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "-1"}}}]}}

OTHERS: dict[str, tuple[Obj, str]] = {
    "a cohort limit without a parent": (
        made("Cohort", {"resourceGroups": group(("a", quota_of(borrowingLimit="1")))}),
        denied(
            "cohort",
            'spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "1": must be nil when '
            "parent is empty",
        ),
    ),
    "a cohort's parent in capitals": (
        made("Cohort", {"parentName": "Root"}),
        invalid(
            "Cohort",
            f'spec.parentName: Invalid value: "Root": spec.parentName in body should match {SUBDOMAIN}',
        ),
    ),
    "a cohort with a negative weight": (
        made("Cohort", {"fairSharing": {"weight": -2}}),
        denied("cohort", 'spec.fairSharing: Invalid value: "-2": must be greater than or equal to 0'),
    ),
    "a flavor with a topology and no labels": (
        made("ResourceFlavor", {"topologyName": "racks", "nodeLabels": {}}),
        invalid(
            "ResourceFlavor", "spec: Invalid value: at least one nodeLabel is required when topology is set"
        ),
    ),
    "a taint with an effect nobody knows": (
        made("ResourceFlavor", {"nodeTaints": [{"key": "a", "effect": "Never"}]}),
        invalid(
            "ResourceFlavor",
            "spec.nodeTaints: Invalid value: supported taint effect values: 'NoSchedule', 'PreferNoSchedule', "
            "'NoExecute'",
        ),
    ),
    "a taint without a key": (
        made("ResourceFlavor", {"nodeTaints": [{"effect": "NoSchedule"}]}),
        invalid("ResourceFlavor", f"[spec.nodeTaints[0].key: Required value, {BLOCKED}]"),
    ),
    "a taint twice": (
        made("ResourceFlavor", {"nodeTaints": [{"key": "a", "effect": "NoSchedule"}] * 2}),
        denied(
            "resourceflavor",
            'spec.nodeTaints[1]: Duplicate value: {"key":"a","effect":"NoSchedule"}: taints must be unique by key '
            "and effect pair",
        ),
    ),
    "nine node labels": (
        made("ResourceFlavor", {"nodeLabels": {f"l{i}": "x" for i in range(9)}}),
        invalid("ResourceFlavor", f"[spec.nodeLabels: Too many: 9: must have at most 8 items, {BLOCKED}]"),
    ),
    "a node label that is none": (
        made("ResourceFlavor", {"nodeLabels": {"a b": "x"}}),
        denied("resourceflavor", f'spec.nodeLabels: Invalid value: "a b": name part {KEY_TEXT}'),
    ),
    "a toleration of everything that does not say Exists": (
        made("ResourceFlavor", {"tolerations": [{"effect": "NoSchedule"}]}),
        invalid(
            "ResourceFlavor",
            'spec.tolerations: Invalid value: "array": no such key: operator evaluating rule: operator must be Exists '
            "when 'key' is empty, which means 'match all values and all keys'",
        ),
    ),
    "seconds without NoExecute": (
        made(
            "ResourceFlavor", {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}]}
        ),
        invalid(
            "ResourceFlavor",
            "spec.tolerations: Invalid value: effect must be 'NoExecute' when 'tolerationSeconds' is set",
        ),
    ),
    "a toleration's operator nobody knows": (
        made("ResourceFlavor", {"tolerations": [{"key": "a", "operator": "Like"}]}),
        invalid(
            "ResourceFlavor",
            "spec.tolerations: Invalid value: supported toleration values: 'Equal'(default), 'Exists'",
        ),
    ),
    "Exists with a value": (
        made("ResourceFlavor", {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}),
        invalid(
            "ResourceFlavor",
            "spec.tolerations: Invalid value: a value must be empty when 'operator' is 'Exists'",
        ),
    ),
    "a topology without levels": (
        made("Topology", {}),
        invalid("Topology", f"[spec.levels: Required value, {BLOCKED}]"),
    ),
    "a level twice": (
        made("Topology", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "rack"}]}),
        invalid("Topology", "spec.levels: Invalid value: must be unique"),
    ),
    "hosts above racks": (
        made("Topology", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": "rack"}]}),
        invalid(
            "Topology",
            "spec.levels: Invalid value: the kubernetes.io/hostname label can only be used at the lowest level of "
            "topology",
        ),
    ),
    "a priority class without a value": (
        made("WorkloadPriorityClass"),
        invalid("WorkloadPriorityClass", "value: Required value"),
    ),
    "a local queue for a queue in capitals": (
        made("LocalQueue", {"clusterQueue": "Q"}),
        invalid(
            "LocalQueue",
            f'spec.clusterQueue: Invalid value: "Q": spec.clusterQueue in body should match {SUBDOMAIN}',
        ),
    ),
    "an admission check without a controller": (
        made("AdmissionCheck", {}),
        invalid("AdmissionCheck", f"[spec.controllerName: Required value, {BLOCKED}]"),
    ),
    "an admission check whose parameters have no name": (
        made(
            "AdmissionCheck",
            {"controllerName": "a/b", "parameters": {"apiGroup": "a.b", "kind": "C", "name": ""}},
        ),
        invalid(
            "AdmissionCheck",
            '[spec.parameters.name: Invalid value: "": spec.parameters.name in body should be at least 1 chars '
            'long, spec.parameters.name: Invalid value: "": spec.parameters.name in body should match '
            "'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$']",
        ),
    ),
    "a provisioning config without a class": (
        made("ProvisioningRequestConfig", {}),
        invalid("ProvisioningRequestConfig", "spec.provisioningClassName: Required value"),
    ),
    "a remote cluster from two sources": (
        made(
            "MultiKueueCluster",
            {"clusterSource": {"kubeConfig": {"location": "a"}, "clusterProfileRef": {"name": "b"}}},
        ),
        invalid(
            "MultiKueueCluster",
            "spec.clusterSource: Invalid value: exactly one of the fields in [kubeConfig clusterProfileRef] must "
            "be set",
        ),
    ),
    "a remote cluster twice": (
        made("MultiKueueConfig", {"clusters": ["a", "a"]}),
        invalid("MultiKueueConfig", "spec.clusters: Invalid value: must be unique"),
    ),
    "a pod set twice": (
        workload(POD_SET, POD_SET),
        invalid("Workload", 'spec.podSets[1]: Duplicate value: {"name":"main"}'),
    ),
    "no pod set": (
        made("Workload", {"podSets": []}),
        invalid(
            "Workload", "spec.podSets: Invalid value: 0: spec.podSets in body should have at least 1 items"
        ),
    ),
    "a minimum above the count": (
        workload({**POD_SET, "minCount": 4}),
        invalid(
            "Workload",
            "spec.podSets[0]: Invalid value: minCount should be positive and less or equal to count",
        ),
    ),
    "a minimum of zero": (
        workload({**POD_SET, "minCount": 0}),
        invalid(
            "Workload",
            "spec.podSets[0].minCount: Invalid value: 0: spec.podSets[0].minCount in body should be greater than "
            "or equal to 1",
        ),
    ),
    "two variable pod sets": (
        workload({**POD_SET, "minCount": 1}, {**POD_SET, "name": "b", "minCount": 1}),
        denied("workload", "spec.podSets: Invalid value: 2: at most one podSet can use minCount"),
    ),
    "a class without its priority": (
        workload(priorityClassRef={"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "a"}),
        invalid("Workload", "spec: Invalid value: priority should not be nil when priorityClassRef is set"),
    ),
    "a class of the wrong kind": (
        workload(
            priority=1, priorityClassRef={"group": "kueue.x-k8s.io", "kind": "PriorityClass", "name": "a"}
        ),
        invalid(
            "Workload",
            "spec.priorityClassRef: Invalid value: only the WorkloadPriorityClass kind is allowed for the "
            "kueue.x-k8s.io group",
        ),
    ),
    "a request for pods": (
        workload({**POD_SET, "template": POD_RESOURCES}),
        denied(
            "workload",
            'spec.podSets[0].template.spec.containers[0].resources.requests[pods]: Invalid value: "pods": the key '
            "is reserved for internal kueue use",
        ),
    ),
    "a negative request": (
        workload({**POD_SET, "template": NEGATIVE}),
        denied(
            "workload",
            'spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be '
            "greater than or equal to 0",
        ),
    ),
    "slices without a size": (
        workload({**POD_SET, "topologyRequest": {"podSetSliceRequiredTopology": "rack"}}),
        denied(
            "workload",
            "spec.podSets[0].topologyRequest.podSetSliceSize: Required value: must be set when "
            "podSetSliceRequiredTopology is specified",
        ),
    ),
    "a slice size without a topology": (
        workload({**POD_SET, "topologyRequest": {"podSetSliceSize": 2}}),
        denied(
            "workload",
            "spec.podSets[0].topologyRequest.podSetSliceSize: Forbidden: may not be set when "
            "podSetSliceRequiredTopology is not specified",
        ),
    ),
    "quota without an admission": (
        workload(status={"conditions": [condition("QuotaReserved")]}),
        denied(
            "workload",
            "status.admission: Required value: must be set while the QuotaReserved condition is true",
        ),
    ),
    "an assignment for a pod set that is not there": (
        workload(
            status={**RESERVED, "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "other"}]}}
        ),
        denied("workload", 'status.admission.podSetAssignments[0].name: Not found: "other"'),
    ),
    "usage that no pod can have": (
        workload(
            status={
                **RESERVED,
                "admission": {
                    "clusterQueue": "q",
                    "podSetAssignments": [{"name": "main", "count": 3, "resourceUsage": {"cpu": "1"}}],
                },
            }
        ),
        denied(
            "workload",
            'status.admission.podSetAssignments[0].resourceUsage[cpu]: Invalid value: "1": is not a multiple of 3',
        ),
    ),
    "more reclaimable pods than there are": (
        workload(status={"reclaimablePods": [{"name": "main", "count": 4}]}),
        denied(
            "workload", "status.reclaimablePods[main].count: Invalid value: 4: should be less or equal to 3"
        ),
    ),
    "reclaimable pods of nobody": (
        workload(status={"reclaimablePods": [{"name": "x", "count": 1}]}),
        denied(
            "workload", 'status.reclaimablePods[x].name: Unsupported value: "x": supported values: "main"'
        ),
    ),
}


@pytest.mark.parametrize("name", QUEUE_SCHEMA)
def test_the_schema_of_a_cluster_queue(name: str) -> None:
    obj, want = QUEUE_SCHEMA[name]
    assert refused(obj) == [invalid("ClusterQueue", want)]


@pytest.mark.parametrize("name", QUEUE_WEBHOOK)
def test_the_webhook_of_a_cluster_queue(name: str) -> None:
    obj, want = QUEUE_WEBHOOK[name]
    assert refused(obj) == [denied("clusterqueue", want)]


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds(name: str) -> None:
    obj, want = OTHERS[name]
    assert refused(obj) == [want]


RACKS = [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]
HOSTS = [*RACKS, {"nodeLabel": "kubernetes.io/hostname"}]
CHANGES: dict[str, tuple[Obj, Obj, str | None]] = {
    "a local queue cannot move": (
        made("LocalQueue", {"clusterQueue": "a"}),
        made("LocalQueue", {"clusterQueue": "b"}),
        invalid("LocalQueue", 'spec.clusterQueue: Invalid value: "b": field is immutable'),
    ),
    "a local queue may be stopped": (
        made("LocalQueue", {"clusterQueue": "a"}),
        made("LocalQueue", {"clusterQueue": "a", "stopPolicy": "Hold"}),
        None,
    ),
    "a check keeps its controller": (
        made("AdmissionCheck", {"controllerName": "a/b"}),
        made("AdmissionCheck", {"controllerName": "c/d"}),
        invalid("AdmissionCheck", 'spec.controllerName: Invalid value: "c/d": field is immutable'),
    ),
    "a flavor keeps its topology": (
        made("ResourceFlavor", {"nodeLabels": {"a": "b"}, "topologyName": "t"}),
        made("ResourceFlavor", {"nodeLabels": {"a": "b"}}),
        invalid("ResourceFlavor", "spec: Invalid value: topologyName is immutable when topologyName is set"),
    ),
    "levels without hosts stay": (
        made("Topology", {"levels": RACKS}),
        made("Topology", {"levels": RACKS[:1]}),
        invalid(
            "Topology",
            "spec.levels: Invalid value: levels are mutable only when kubernetes.io/hostname is the lowest level "
            "both before and after the change",
        ),
    ),
    "levels above hosts may change": (
        made("Topology", {"levels": HOSTS}),
        made("Topology", {"levels": HOSTS[1:]}),
        None,
    ),
    "a queue may change its strategy": (queue(queueingStrategy="StrictFIFO"), queue(), None),
    "an old fault may stay": (queue(cohortName="A"), queue(cohortName="A", stopPolicy="Hold"), None),
    "a workload with quota keeps its queue": (
        workload(queueName="a", status=RESERVED),
        workload(queueName="b", status=RESERVED),
        invalid("Workload", "<nil>: Invalid value: queueName is immutable while workload quota reserved"),
    ),
    "a workload without quota may change queues": (workload(queueName="a"), workload(queueName="b"), None),
    "a workload with quota keeps its pod sets": (
        workload(status=RESERVED),
        workload({**POD_SET, "count": 5}, status=RESERVED),
        denied(
            "workload",
            'spec.podSets.0: Invalid value: {"name":"main","count":5,"template":{"spec":{"containers":'
            '[{"name":"c"}]}}}: field is immutable',
        ),
    ),
    "a workload with quota may shrink": (
        workload(status=RESERVED),
        workload({**POD_SET, "count": 2}, status=RESERVED),
        None,
    ),
    "an admitted workload keeps its time limit": (
        workload(maximumExecutionTimeSeconds=5, status=ADMITTED),
        workload(maximumExecutionTimeSeconds=6, status=ADMITTED),
        invalid(
            "Workload",
            "<nil>: Invalid value: maximumExecutionTimeSeconds is immutable while workload quota reserved",
        ),
    ),
    "an admission stays as it is": (
        workload(status=RESERVED),
        workload(status={**RESERVED, "admission": {**ASSIGNED, "clusterQueue": "other"}}),
        denied(
            "workload",
            'status.admission: Invalid value: {"clusterQueue":"other","podSetAssignments":[{"name":"main",'
            '"count":3}]}: field is immutable',
        ),
    ),
    "reclaimable pods do not come back": (
        workload(status={**RESERVED, "reclaimablePods": [{"name": "main", "count": 2}]}),
        workload(status={**RESERVED, "reclaimablePods": [{"name": "main", "count": 1}]}),
        denied("workload", "status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2"),
    ),
    "a gate cannot be added later": (
        workload(),
        {
            **workload(),
            "metadata": {
                "name": "x",
                "namespace": "team",
                "annotations": {"kueue.x-k8s.io/admission-gated-by": "a.b/c"},
            },
        },
        denied(
            "workload",
            "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Forbidden: cannot add admission gate after "
            "creation",
        ),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str) -> None:
    old, new, want = CHANGES[name]
    assert refused(new, old) == ([] if want is None else [want])


def test_unknown_fields_are_refused_where_the_client_is_strict() -> None:
    obj = queue(queueStrategy="StrictFIFO", preemption={"within": "Any"})
    assert said(obj, strict=True) == [
        'ClusterQueue in version "v1beta2" cannot be handled as a ClusterQueue: strict decoding error: unknown field '
        '"spec.preemption.within", unknown field "spec.queueStrategy"'
    ]
    assert refused(obj) == []


@pytest.mark.parametrize(
    ("amount", "why"),
    [
        ("x", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        (
            "4GB",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("4Gm", "unable to parse quantity's suffix"),
    ],
)
def test_the_mutating_webhook_reads_quantities_before_the_schema_does(amount: str, why: str) -> None:
    obj = queue(resourceGroups=group(("a", [{"name": "cpu", "nominalQuota": amount}])))
    assert refused(obj) == [f'admission webhook "mclusterqueue.kb.io" denied the request: {why}']
    # Cohorts have none: the schema speaks.
    cohort = made("Cohort", {"resourceGroups": obj["spec"]["resourceGroups"]})
    (said,) = refused(cohort)
    assert "nominalQuota in body should match" in said


def test_concurrent_admission_is_judged_where_its_gate_is_on() -> None:
    policy = {"migration": {"mode": "RetainFirstAdmission", "constraints": {"lastAcceptableFlavorName": "z"}}}
    obj = queue(
        resourceGroups=group(("a", ONE)), concurrentAdmissionPolicy=policy, queueingStrategy="StrictFIFO"
    )
    assert refused(obj) == []
    why = (
        "[spec.concurrentAdmissionPolicy.migration.constraints: Forbidden: may only be set when migration.mode is "
        '"TryPreferredFlavors" (got "RetainFirstAdmission"), spec.queueingStrategy: Invalid value: "StrictFIFO": '
        "StrictFIFO queueing strategy cannot be used when ConcurrentAdmissionPolicy is defined]"
    )
    assert refused(obj, ConcurrentAdmission=True) == [denied("clusterqueue", why)]


def test_recorded_refusals_come_out_word_for_word() -> None:
    """Of every object that was applied: refused exactly where the real one refused it, with its words."""
    assert RECORDED
    for file in RECORDED:
        for line in gzip.decompress(file.read_bytes()).splitlines():
            for step in json.loads(line)["steps"]:
                got = []
                for action in step["do"]:
                    obj = action.get("object")
                    if action["verb"] == "apply" and "kueue" in str(obj.get("apiVersion")):
                        name = obj["metadata"]["name"]
                        got += [{"kind": obj["kind"], "message": m, "name": name} for m in said(obj)]
                assert got == step["rejected"]
